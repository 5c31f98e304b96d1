"""Marian, the translation transformer, against transformers': the data of its parity tests."""

from transformers import MarianConfig

from kit import Case

SIZES = {
    "vocab_size": 101,
    "d_model": 24,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37,
    "max_position_embeddings": 17,
    "scale_embedding": True,
    "activation_function": "silu",
    "pad_token_id": 0,
    "eos_token_id": 1,
    "forced_eos_token_id": 1,
    "decoder_start_token_id": 0,
}
CASES = [Case(name, MarianConfig, SIZES) for name in ("MarianMTModel", "MarianModel")]
VARIANTS = (
    Case("MarianMTModel", MarianConfig, SIZES | {"scale_embedding": False}),
    Case(
        "MarianMTModel",
        MarianConfig,
        SIZES | {"d_model": 132, "encoder_attention_heads": 11, "decoder_attention_heads": 11},
        width=132,
    ),
)
UNEQUAL = {"decoder_attention_heads": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 41}
VARIANTS += (
    Case("MarianMTModel", MarianConfig, SIZES | UNEQUAL),
    Case("MarianMTModel", MarianConfig, SIZES | {"share_encoder_decoder_embeddings": False}),
)
CONTROLS = ({"scale_embedding": False}, {"activation_function": "gelu"})
