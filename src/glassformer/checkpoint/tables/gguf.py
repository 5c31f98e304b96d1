"""GGUF, the file format of llama.cpp: its names of a Llama's tensors and sizes.

`file.*` are not fields of it: they say which tensors exist.
"""

from dataclasses import replace

from glassformer.checkpoint.architecture import Head
from glassformer.checkpoint.keys import Json, Key, look_up
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.llama import LLAMA, OURS, TOKENS
from glassformer.config import ModelConfig
from glassformer.errors import shown

THEIRS = "blk.{}."


def rule(foreign: Json, config: ModelConfig) -> str | None:
    for name in ("llama.rope.dimension_count", "llama.attention.value_length"):
        width = look_up(foreign, name)
        if width is not None and width != config.query_width:
            return (
                f"{name} = {shown(width)}: only the head width, {config.query_width}, is supported"
            )
    parts = look_up(foreign, "split.count")
    if parts not in (None, 0, 1):
        return f"split.count = {shown(parts)}: join the parts (llama-gguf-split --merge) first"
    return None


GGUF_LLAMA = replace(
    LLAMA,
    prefix="",
    rows=(
        Row("token_embd.weight", TOKENS),
        Row(THEIRS + "attn_norm.weight", OURS + "attention_norm.weight"),
        Row(THEIRS + "attn_q.*", OURS + "attention.query.*"),
        Row(THEIRS + "attn_k.*", OURS + "attention.key.*"),
        Row(THEIRS + "attn_v.*", OURS + "attention.value.*"),
        Row(THEIRS + "attn_output.*", OURS + "attention.output.*"),
        Row(THEIRS + "ffn_norm.weight", OURS + "mlp_norm.weight"),
        Row(THEIRS + "ffn_gate.*", OURS + "mlp.gate.*"),
        Row(THEIRS + "ffn_up.*", OURS + "mlp.up.*"),
        Row(THEIRS + "ffn_down.*", OURS + "mlp.down.*"),
        Row("output_norm.weight", "backbone.decoder.norm.weight"),
    ),
    heads={
        "LlamaForCausalLM": Head(
            "causal_lm", (Row("output.weight", "lm_head.weight"),), {"bias": False}
        )
    },
    keys=(
        Key(("llama.vocab_size", "file.words"), "vocab_size"),
        Key("llama.embedding_length", "width"),
        Key("llama.block_count", "depth"),
        Key("llama.attention.head_count", "heads"),
        Key("llama.attention.head_count_kv", "key_heads", None),
        Key("llama.attention.key_length", "head_width", None),
        Key("llama.feed_forward_length", "mlp_width"),
        Key("llama.context_length", "max_length"),
        Key("llama.attention.layer_norm_rms_epsilon", "norm_eps"),
        Key("llama.rope.freq_base", "rotary_base", 10_000.0),
        Key("file.attention_bias", ("attention_bias", "output_bias")),
        Key("file.mlp_bias", "mlp_bias"),
        Key("file.tied", "tied"),
        Key("tokenizer.ggml.bos_token_id", "ids.start", 1),
        Key("tokenizer.ggml.eos_token_id", "ids.end", 2),
        Key("tokenizer.ggml.padding_token_id", "ids.pad", None),
    ),
    constants={**LLAMA.constants, "activation": "silu"},
    fixed={
        "general.type": "model",  # not an adapter
        "llama.attention.causal": True,
        "llama.expert_count": 0,
        "llama.expert_used_count": 0,
        "llama.rope.scale_linear": 1.0,
        "llama.rope.scaling.attn_factor": 1.0,
        "llama.rope.scaling.factor": 1.0,
        "llama.rope.scaling.type": "none",
        "llama.tensor_data_layout": "Meta AI original pth",
        "llama.use_parallel_residual": False,
    },
    rule=rule,
    inert=(),
)
# Fields that are read. Any other of `llama.` could change the arithmetic; outside of it, none does.
FIELDS = {
    *(name for key in GGUF_LLAMA.keys for name in key.names if not name.startswith("file.")),
    *GGUF_LLAMA.fixed,
    "llama.attention.value_length",
    "llama.rope.dimension_count",
    "llama.rope.scaling.finetuned",
    "llama.rope.scaling.original_context_length",
    "split.count",
}
# Tensors whose rows llama.cpp has permuted for its rotary kernel, and the fields of their heads.
HEADS = {
    "attn_q": ("llama.attention.head_count",),
    "attn_k": ("llama.attention.head_count_kv", "llama.attention.head_count"),
}
