"""OLMo 2: norms after attention and MLP, and a norm of all queries and of all keys."""

from dataclasses import replace

from glassformer.checkpoint.keys import Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.llama import LLAMA, OURS, THEIRS, changed, heads

OLMO2 = replace(
    LLAMA,
    model_type="olmo2",
    rows=(
        *(row for row in LLAMA.rows if "layernorm" not in row.theirs),
        Row(THEIRS + "post_attention_layernorm.weight", OURS + "attention_out_norm.weight"),
        Row(THEIRS + "post_feedforward_layernorm.weight", OURS + "mlp_out_norm.weight"),
        Row(THEIRS + "self_attn.q_norm.weight", OURS + "attention.query_norm.weight"),
        Row(THEIRS + "self_attn.k_norm.weight", OURS + "attention.key_norm.weight"),
    ),
    heads=heads("Olmo2", tags=False),
    keys=changed(
        LLAMA.keys,
        Key("vocab_size", "vocab_size", 50304),
        Key("rms_norm_eps", "norm_eps", 1e-5),
        Key("bos_token_id", "ids.start", None),
        Key("eos_token_id", "ids.end", 50279, first=True),
        Key("pad_token_id", "ids.pad", 1),
        without=("mlp_bias",),
    ),
    constants={
        **LLAMA.constants, "mlp_bias": False, "norm_place": "branch", "qk_norm": "all",
    },
)  # fmt: skip
