"""T5 against transformers': the data of its parity tests."""

from transformers import T5Config

from kit import Case

SIZES = {
    "vocab_size": 101,
    "d_model": 24,
    "d_kv": 7,
    "d_ff": 37,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 11,
    "decoder_start_token_id": 0,
}
CLASSES = (
    "T5ForConditionalGeneration",
    "T5Model",
)
CASES = [Case(name, T5Config, SIZES, double=2e-5) for name in CLASSES]
ENCODER = {name: size for name, size in SIZES.items() if name != "num_decoder_layers"}
CASES.append(Case("T5EncoderModel", T5Config, ENCODER, double=2e-5))
CONTROLS = (
    {"relative_attention_max_distance": 13},
    {"layer_norm_epsilon": 1e-2},
)
VARIANTS = (
    Case("T5ForConditionalGeneration", T5Config, SIZES | {"feed_forward_proj": "gated-gelu"}),
    Case("T5ForConditionalGeneration", T5Config, SIZES | {"tie_word_embeddings": False}),
)
