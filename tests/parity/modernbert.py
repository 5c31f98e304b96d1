"""ModernBERT against transformers': the data of its parity tests."""

from transformers import ModernBertConfig

from kit import Case

SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 5,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 17,
    "local_attention": 6,
    "global_attn_every_n_layers": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
}
CLASSES = (
    "ModernBertForMaskedLM",
    "ModernBertModel",
    "ModernBertForSequenceClassification",
    "ModernBertForTokenClassification",
)
CASES = [Case(name, ModernBertConfig, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"local_attention": 8},
    {"norm_eps": 1e-2},
    {"rope_parameters": {"sliding_attention": {"rope_theta": 20_000.0}}},
)
VARIANTS = (
    Case("ModernBertForMaskedLM", ModernBertConfig, SIZES | {"num_hidden_layers": 2}),
    Case("ModernBertForMaskedLM", ModernBertConfig, SIZES | {"tie_word_embeddings": False}),
)
