"""Qwen2, a Llama with biases for queries, keys and values; Qwen3, with a norm of each head."""

from dataclasses import replace

from glassformer.checkpoint.keys import Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.llama import (
    BIASES,
    LLAMA,
    NO_BIAS,
    OURS,
    THEIRS,
    changed,
    everywhere,
    heads,
)

ENDS = (Key("bos_token_id", "ids.start", None), Key("eos_token_id", "ids.end", None, first=True))

QWEN2 = replace(
    LLAMA,
    model_type="qwen2",
    heads=heads("Qwen2"),
    keys=changed(LLAMA.keys, *ENDS, without=BIASES),
    constants={**LLAMA.constants, **NO_BIAS, "attention_bias": True},
    fixed={**LLAMA.fixed, "use_sliding_window": False},
    rule=everywhere,
)
QWEN3 = replace(
    QWEN2,
    model_type="qwen3",
    rows=(
        *LLAMA.rows,
        Row(THEIRS + "self_attn.q_norm.weight", OURS + "attention.query_norm.weight"),
        Row(THEIRS + "self_attn.k_norm.weight", OURS + "attention.key_norm.weight"),
    ),
    heads=heads("Qwen3"),
    keys=changed(LLAMA.keys, *ENDS, Key("head_dim", "head_width", 128), without=("mlp_bias",)),
    constants={**LLAMA.constants, "mlp_bias": False, "qk_norm": "head"},
)
