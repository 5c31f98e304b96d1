"""GPT-2 and its heads against transformers': the data of their parity tests."""

from transformers import GPT2Config

from kit import Case

SIZES = {
    "vocab_size": 101,
    "n_embd": 24,
    "n_layer": 3,
    "n_head": 3,
    "n_positions": 17,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
CLASSES = (
    "GPT2LMHeadModel",
    "GPT2Model",
    "GPT2ForSequenceClassification",
    "GPT2ForTokenClassification",
    "GPT2ForQuestionAnswering",
)
CASES = [Case(name, GPT2Config, SIZES) for name in CLASSES]
CONTROLS = (
    {"activation_function": "gelu"},
    {"scale_attn_weights": False},
    {"layer_norm_epsilon": 1e-2},
    {"n_head": 6},
)
VARIANTS = (
    Case("GPT2LMHeadModel", GPT2Config, SIZES | {"scale_attn_weights": False, "n_inner": 41}),
    Case("GPT2LMHeadModel", GPT2Config, SIZES | {"tie_word_embeddings": False}),
    Case("GPT2LMHeadModel", GPT2Config, SIZES | {"n_embd": 132, "n_head": 11}, width=132),
)
