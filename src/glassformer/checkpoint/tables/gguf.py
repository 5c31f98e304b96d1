"""GGUF, the file format of llama.cpp: its names of the tensors and sizes of Llama, Qwen2 and Qwen3.

`file.*` are not fields of it: they say which tensors exist.
"""

from dataclasses import replace

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import Json, Key, look_up
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.llama import LLAMA, OURS, TOKENS
from glassformer.checkpoint.tables.qwen import QWEN2, QWEN3
from glassformer.config import ModelConfig, RotaryScaling
from glassformer.errors import shown

THEIRS, FACTORS = "blk.{}.", "rope_freqs.weight"
ROWS = (
    Row("token_embd.weight", TOKENS),
    Row(THEIRS + "attn_norm.weight", OURS + "attention_norm.weight"),
    Row(THEIRS + "attn_q.*", OURS + "attention.query.*"),
    Row(THEIRS + "attn_q_norm.weight", OURS + "attention.query_norm.weight"),
    Row(THEIRS + "attn_k.*", OURS + "attention.key.*"),
    Row(THEIRS + "attn_k_norm.weight", OURS + "attention.key_norm.weight"),
    Row(THEIRS + "attn_v.*", OURS + "attention.value.*"),
    Row(THEIRS + "attn_output.*", OURS + "attention.output.*"),
    Row(THEIRS + "ffn_norm.weight", OURS + "mlp_norm.weight"),
    Row(THEIRS + "ffn_gate.*", OURS + "mlp.gate.*"),
    Row(THEIRS + "ffn_up.*", OURS + "mlp.up.*"),
    Row(THEIRS + "ffn_down.*", OURS + "mlp.down.*"),
    Row("output_norm.weight", "backbone.decoder.norm.weight"),
)
WORDS = Head("causal_lm", (Row("output.weight", "lm_head.weight"),), {"bias": False})


def _of(base: Architecture, *keys: Key) -> Architecture:
    """The table for files of this architecture; its name is before each of its fields."""
    kind = base.model_type

    def rule(foreign: Json, config: ModelConfig) -> str | None:
        D = config.query_width
        for name in (f"{kind}.rope.dimension_count", f"{kind}.attention.value_length"):
            width = look_up(foreign, name)
            if width not in (None, D):
                return f"{name} = {shown(width)}: only the head width, {D}, is supported"
        pairs = look_up(foreign, "file.scaling.pairs")
        if pairs is not None and 2 * pairs != config.rotary_width:
            return f"tensor {FACTORS!r} has {pairs} factors for {config.rotary_width // 2} pairs"
        parts = look_up(foreign, "split.count")
        if parts not in (None, 0, 1):
            return f"split.count = {shown(parts)}: join the parts (llama-gguf-split --merge) first"
        return None

    name = next(name for name, head in base.heads.items() if head.kind == "causal_lm")
    return replace(
        base,
        prefix="",
        rows=ROWS,
        heads={name: WORDS},
        keys=(
            Key((f"{kind}.vocab_size", "file.words"), "vocab_size"),
            Key(f"{kind}.embedding_length", "width"),
            Key(f"{kind}.block_count", "depth"),
            Key(f"{kind}.attention.head_count", "heads"),
            Key(f"{kind}.attention.head_count_kv", "key_heads", None),
            Key(f"{kind}.attention.key_length", "head_width", None),
            Key(f"{kind}.feed_forward_length", "mlp_width"),
            Key(f"{kind}.context_length", "max_length"),
            Key(f"{kind}.attention.layer_norm_rms_epsilon", "norm_eps"),
            Key(f"{kind}.rope.freq_base", "rotary_base", 10_000.0),
            Key("file.tied", "tied"),
            Key("tokenizer.ggml.padding_token_id", "ids.pad", None),
            *keys,
        ),
        constants={**base.constants, "activation": "silu"},
        fixed={
            "general.type": "model",  # not an adapter
            f"{kind}.attention.causal": True,
            f"{kind}.expert_count": 0,
            f"{kind}.expert_used_count": 0,
            f"{kind}.rope.scale_linear": 1.0,
            f"{kind}.rope.scaling.attn_factor": 1.0,
            f"{kind}.rope.scaling.factor": 1.0,
            f"{kind}.rope.scaling.type": "none",
            f"{kind}.tensor_data_layout": "Meta AI original pth",
            f"{kind}.use_parallel_residual": False,
        },
        rule=rule,
        inert=(FACTORS,),
    )


def _ends(start: int | None, end: int | None) -> tuple[Key, Key]:
    return (
        Key("tokenizer.ggml.bos_token_id", "ids.start", start),
        Key("tokenizer.ggml.eos_token_id", "ids.end", end),
    )


BIAS = Key("file.attention_bias", ("attention_bias", "output_bias"))
SCALING = tuple(  # of Llama 3, if the file has a tensor of factors
    Key(f"file.scaling.{name}", f"rotary_scaling.{name}", field.default)
    for name, field in RotaryScaling.model_fields.items()
)
GGUF = {
    "llama": _of(LLAMA, BIAS, Key("file.mlp_bias", "mlp_bias"), *SCALING, *_ends(1, 2)),
    "qwen2": _of(QWEN2, *_ends(None, None)),
    "qwen3": _of(QWEN3, BIAS, *_ends(None, None)),
}


def fields(kind: str) -> set[str]:
    """Fields that are read. Another one of the architecture could change the arithmetic."""
    return {
        *(name for key in GGUF[kind].keys for name in key.names if not name.startswith("file.")),
        *GGUF[kind].fixed,
        f"{kind}.attention.value_length",
        f"{kind}.rope.dimension_count",
        f"{kind}.rope.scaling.finetuned",
        f"{kind}.rope.scaling.original_context_length",
        "split.count",
    }


# Tensors whose rows llama.cpp has permuted for its rotary kernel, and the fields of their heads.
PERMUTED = {
    "llama": {
        "attn_q": ("llama.attention.head_count",),
        "attn_k": ("llama.attention.head_count_kv", "llama.attention.head_count"),
    }
}
