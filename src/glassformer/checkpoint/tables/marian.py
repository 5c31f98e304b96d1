"""Marian: a post-norm encoder-decoder with sinusoids in halves and one table of words."""

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import ACTIVATIONS, Key
from glassformer.checkpoint.rows import Row


def side(name: str) -> tuple[Row, ...]:
    theirs, ours = f"{name}.layers.{{}}.", f"backbone.{name}.blocks.{{}}."
    parts = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}
    return (
        *(Row(f"{theirs}self_attn.{t}.*", f"{ours}attention.{o}.*") for t, o in parts.items()),
        Row(theirs + "self_attn_layer_norm.*", ours + "attention_norm.*"),
        *(Row(f"{theirs}encoder_attn.{t}.*", f"{ours}cross.{o}.*") for t, o in parts.items()),
        Row(theirs + "encoder_attn_layer_norm.*", ours + "cross_norm.*"),
        Row(theirs + "fc1.*", ours + "mlp.up.*"),
        Row(theirs + "fc2.*", ours + "mlp.down.*"),
        Row(theirs + "final_layer_norm.*", ours + "mlp_norm.*"),
        Row(f"{name}.embed_positions.weight", f"backbone.{name}.embedding.wave"),
        Row(
            f"{name}.embed_tokens.weight", f"backbone.{name}.embedding.token.weight",
            when=("shared_embedding", False),
        ),
        Row(f"{name}.embed_tokens.weight", TOKENS, tied=True),
    )  # fmt: skip


TOKENS = "backbone.encoder.embedding.token.weight"
WORDS = (
    Row("final_logits_bias", "lm_head.bias", lift=True),
    Row("lm_head.weight", "backbone.decoder.embedding.token.weight", tied=True),  # its own, if any
    Row("lm_head.weight", TOKENS, tied=True),
)

MARIAN = Architecture(
    model_type="marian",
    prefix="model.",
    rows=(
        Row("shared.weight", TOKENS, when=("shared_embedding", True)),
        *side("encoder"),
        *side("decoder"),
    ),
    heads={"MarianModel": Head("features"), "MarianMTModel": Head("translation", WORDS)},
    keys=(
        Key("vocab_size", "vocab_size", 58101),
        Key("decoder_vocab_size", "vocab_size", lambda foreign: foreign.get("vocab_size", 58101)),
        Key("d_model", "width", 1024),
        Key("encoder_layers", "depth", 12),
        Key("decoder_layers", "decoder_depth", 12),
        Key("encoder_attention_heads", "heads", 16),
        Key("decoder_attention_heads", "decoder_heads", 16),
        Key("encoder_ffn_dim", "mlp_width", 4096),
        Key("decoder_ffn_dim", "decoder_mlp_width", 4096),
        Key("max_position_embeddings", "max_length", 1024),
        Key("activation_function", "activation", "gelu", ACTIVATIONS),
        Key("share_encoder_decoder_embeddings", "shared_embedding", True),
        Key("scale_embedding", "embedding_scale", False),
        Key("dropout", ("dropout.embedding", "dropout.residual"), 0.1),
        Key("attention_dropout", "dropout.attention", 0.0),
        Key("activation_dropout", "dropout.mlp", 0.0),
        Key("init_std", "init_std", 0.02),
        Key("decoder_start_token_id", "ids.start", 58100),
        Key("eos_token_id", "ids.end", 0),
        Key("pad_token_id", "ids.pad", 58100),
    ),
    constants={
        "family": "seq2seq",
        "position": "sinusoidal",
        "sinusoid": "halves",
        "norm_place": "post",
        "final_norm": False,
        "norm_eps": 1e-5,
        "tied": True,
    },
    fixed={"is_decoder": False, "is_encoder_decoder": True, "tie_word_embeddings": True},
)
