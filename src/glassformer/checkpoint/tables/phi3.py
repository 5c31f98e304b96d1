"""Phi-3: a Llama whose queries, keys and values, and gate and up, are one matrix each."""

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
    heads,
)  # fmt: skip

QKV = tuple(OURS + f"attention.{part}.*" for part in ("query", "key", "value"))
SPLIT = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")

PHI3 = replace(
    LLAMA,
    model_type="phi3",
    rows=(
        *(row for row in LLAMA.rows if not any(part in row.theirs for part in SPLIT)),
        Row(THEIRS + "self_attn.qkv_proj.*", QKV),
        Row(THEIRS + "mlp.gate_up_proj.*", (OURS + "mlp.gate.*", OURS + "mlp.up.*")),
    ),
    heads=heads("Phi3"),
    keys=changed(
        LLAMA.keys,
        Key("vocab_size", "vocab_size", 32064),
        Key("hidden_size", "width", 3072),
        Key("intermediate_size", "mlp_width", 8192),
        Key("max_position_embeddings", "max_length", 4096),
        Key("rms_norm_eps", "norm_eps", 1e-5),
        Key(
            ("rope_parameters.partial_rotary_factor", "partial_rotary_factor"),
            "rotary_fraction", 1.0,
        ),
        Key("sliding_window", "window", None, read=lambda n: n - 1, write=lambda n: n + 1),
        Key("resid_pdrop", "dropout.residual", 0.0),
        Key("eos_token_id", "ids.end", 32000, first=True),
        Key("pad_token_id", "ids.pad", 32000),
        without=(*BIASES, *(path for key in LLAMA.keys for path in key.paths
                            if path.startswith("rotary_scaling"))),
    ),
    constants={**LLAMA.constants, **NO_BIAS},
    # The longer ones have another scale for each entry, and it depends on the text's length.
    fixed={**LLAMA.fixed, "rope_parameters.rope_type": "default", "rope_scaling": None},
)  # fmt: skip
