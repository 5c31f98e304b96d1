"""Gemma 2 and 3 (text): norms before and after, windows in most layers, capped scores."""

from dataclasses import replace

from glassformer.checkpoint.keys import ACTIVATIONS, Json, Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.llama import KINDS, LLAMA, OURS, THEIRS, changed, heads
from glassformer.config import ModelConfig
from glassformer.errors import shown

EVERY = 6  # of Gemma 3: five layers with a window, then one without
FULL, LOCAL = "rope_parameters.full_attention.", "rope_parameters.sliding_attention."
CONSTANTS = {
    **LLAMA.constants,
    "mlp_bias": False,
    "embedding_scale": True,
    "norm_place": "sandwich",
    "norm_plus_one": True,
    "global_last": True,
}


def regular(foreign: Json, config: ModelConfig) -> str | None:
    every, listed = config.global_every, foreign.get("layer_types")
    if every == 0:
        return "sliding_window_pattern = 0: write at least 1"
    kinds = ("full_attention", "sliding_attention")
    expected = [kinds[(i + 1) % every > 0] for i in range(config.depth)]
    if listed is None or listed == expected:
        return None
    return (
        f"layer_types = {shown(listed)}: full_attention must be at {every - 1}, "
        f"{2 * every - 1} …, every {every} layers"
    )


def pattern(foreign: Json) -> int:
    """Newer files list the layers instead."""
    listed = foreign.get("layer_types")
    if not isinstance(listed, list) or "full_attention" not in listed:
        return EVERY
    return listed.index("full_attention") + 1


GEMMA2 = replace(
    LLAMA,
    model_type="gemma2",
    rows=(
        *(row for row in LLAMA.rows if "post_attention" not in row.theirs),
        Row(THEIRS + "post_attention_layernorm.weight", OURS + "attention_out_norm.weight"),
        Row(THEIRS + "pre_feedforward_layernorm.weight", OURS + "mlp_norm.weight"),
        Row(THEIRS + "post_feedforward_layernorm.weight", OURS + "mlp_out_norm.weight"),
    ),
    heads=heads("Gemma2"),
    keys=changed(
        LLAMA.keys,
        Key("vocab_size", "vocab_size", 256000),
        Key("hidden_size", "width", 2304),
        Key("num_hidden_layers", "depth", 26),
        Key("num_attention_heads", "heads", 8),
        Key("num_key_value_heads", "key_heads", 4),
        Key("head_dim", "head_width", 256),
        Key("query_pre_attn_scalar", "score_width", 256),
        Key("intermediate_size", "mlp_width", 9216),
        Key("max_position_embeddings", "max_length", 8192),
        Key("hidden_activation", "activation", "gelu_tanh", ACTIVATIONS),
        Key("attn_logit_softcapping", "score_cap", 50.0, nullable=True),
        Key("final_logit_softcapping", "logit_cap", 30.0, nullable=True),
        Key("sliding_window", "window", 4095, read=lambda n: n - 1, write=lambda n: n + 1),
        Key("tie_word_embeddings", "tied", True),
        Key("bos_token_id", "ids.start", 2),
        Key("eos_token_id", "ids.end", 1, first=True),
        Key("pad_token_id", "ids.pad", 0),
        without=("mlp_bias",),
    ),
    constants={**CONSTANTS, "global_every": 2},
    fixed={**LLAMA.fixed, "use_bidirectional_attention": False},
    rule=regular,
)

GEMMA3 = replace(
    GEMMA2,
    model_type="gemma3_text",
    rows=(
        *GEMMA2.rows,
        Row(THEIRS + "self_attn.q_norm.weight", OURS + "attention.query_norm.weight"),
        Row(THEIRS + "self_attn.k_norm.weight", OURS + "attention.key_norm.weight"),
    ),
    heads={
        "Gemma3TextModel": GEMMA2.heads["Gemma2Model"],
        "Gemma3ForCausalLM": GEMMA2.heads["Gemma2ForCausalLM"],
        "Gemma3TextForSequenceClassification": GEMMA2.heads["Gemma2ForSequenceClassification"],
    },
    keys=changed(
        GEMMA2.keys,
        Key("vocab_size", "vocab_size", 262208),
        Key("max_position_embeddings", "max_length", 131_072),
        Key("final_logit_softcapping", "logit_cap", None),
        Key((FULL + "rope_theta", "rope_theta"), "rotary_base", 1_000_000.0),
        Key((LOCAL + "rope_theta", "rope_local_base_freq"), "local_rotary_base", 10_000.0),
        Key((FULL + "rope_type", "rope_scaling.rope_type"), "rotary_scaling.kind", "none", KINDS),
        Key((FULL + "factor", "rope_scaling.factor"), "rotary_scaling.factor", 1.0, sparse=True),
        Key(
            ("sliding_window_pattern", "_sliding_window_pattern"), "global_every", pattern
        ),
        without=("score_cap", *(f"rotary_scaling.{name}" for name in (
            "original_length", "low", "high"
        ))),
    ),
    constants={**CONSTANTS, "qk_norm": "head"},
    fixed={**GEMMA2.fixed, LOCAL + "rope_type": "default", "attn_logit_softcapping": None},
)  # fmt: skip
