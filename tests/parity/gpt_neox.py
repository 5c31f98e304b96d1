"""GPT-NeoX against transformers': the data of its parity tests."""

from transformers import GPTNeoXConfig

from kit import Case

SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 17,
    "pad_token_id": 0,
}
CLASSES = (
    "GPTNeoXForCausalLM",
    "GPTNeoXModel",
    "GPTNeoXForSequenceClassification",
    "GPTNeoXForTokenClassification",
    "GPTNeoXForQuestionAnswering",
)
ROPE = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.25}
CASES = [Case(name, GPTNeoXConfig, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"use_parallel_residual": False},
    {"rope_parameters": ROPE | {"partial_rotary_factor": 0.5}},
    {"rope_parameters": ROPE | {"partial_rotary_factor": 1.0}},
    {"layer_norm_eps": 1e-2},
    {"hidden_act": "gelu_new"},
)
VARIANTS = (
    Case("GPTNeoXForCausalLM", GPTNeoXConfig, SIZES | {"use_parallel_residual": False}),
    Case("GPTNeoXForCausalLM", GPTNeoXConfig, SIZES | {"tie_word_embeddings": True}),
    Case(
        "GPTNeoXForCausalLM",
        GPTNeoXConfig,
        SIZES | {"rope_parameters": ROPE | {"partial_rotary_factor": 1.0}, "attention_bias": False},
    ),
)
