"""GGUF, the file format of llama.cpp: its names of the tensors and sizes of a decoder.

`file.*` are not fields of it: they say which tensors exist. `gguf_kinds.py` has the architectures.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import Json, Key, look_up
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.llama import OURS, TOKENS, changed
from glassformer.config import ModelConfig
from glassformer.errors import shown

THEIRS, FACTORS = "blk.{}.", "rope_freqs.weight"
ROWS = (
    Row("token_embd.weight", TOKENS),
    Row(THEIRS + "attn_norm.*", OURS + "attention_norm.*"),
    Row(THEIRS + "attn_q.*", OURS + "attention.query.*"),
    Row(THEIRS + "attn_q_norm.weight", OURS + "attention.query_norm.weight"),
    Row(THEIRS + "attn_k.*", OURS + "attention.key.*"),
    Row(THEIRS + "attn_k_norm.weight", OURS + "attention.key_norm.weight"),
    Row(THEIRS + "attn_v.*", OURS + "attention.value.*"),
    Row(THEIRS + "attn_output.*", OURS + "attention.output.*"),
    Row(THEIRS + "post_attention_norm.weight", OURS + "attention_out_norm.weight"),
    Row(THEIRS + "ffn_norm.*", OURS + "mlp_norm.*"),
    Row(THEIRS + "ffn_gate.*", OURS + "mlp.gate.*"),
    Row(THEIRS + "ffn_up.*", OURS + "mlp.up.*"),
    Row(THEIRS + "ffn_down.*", OURS + "mlp.down.*"),
    Row(THEIRS + "post_ffw_norm.weight", OURS + "mlp_out_norm.weight"),
    Row("output_norm.*", "backbone.decoder.norm.*"),
)
WORDS = Head("causal_lm", (Row("output.weight", "lm_head.weight"),), {"bias": False})


def of(
    base: Architecture,
    *keys: Key,
    kind: str | None = None,
    rows: tuple[Row, ...] = ROWS,
    constants: dict[str, Any] | None = None,
    refused: Callable[[ModelConfig], str | None] = lambda config: None,
) -> Architecture:
    """The table for files of this architecture.

    Args:
        keys: those that differ from a Llama's
        kind: its name in llama.cpp, which is before each of its fields
        refused: what to say of a model that llama.cpp computes in another way
    """
    kind = kind or base.model_type

    def rule(foreign: Json, config: ModelConfig) -> str | None:
        for name, expected in (
            (f"{kind}.rope.dimension_count", config.rotary_width),
            (f"{kind}.attention.value_length", config.query_width),
        ):
            width = look_up(foreign, name)
            if width not in (None, expected):
                return f"{name} = {shown(width)}: only the head width, {expected}, is supported"
        pairs = look_up(foreign, "file.scaling.pairs")
        if pairs is not None and 2 * pairs != config.rotary_width:
            return f"tensor {FACTORS!r} has {pairs} factors for {config.rotary_width // 2} pairs"
        parts = look_up(foreign, "split.count")
        if parts not in (None, 0, 1):
            return f"split.count = {shown(parts)}: join the parts (llama-gguf-split --merge) first"
        return refused(config)

    defaults = {path: key.default for key in base.keys for path in key.paths}
    usual = (
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
        *(
            Key(f"tokenizer.ggml.{theirs}_token_id", f"ids.{ours}", defaults[f"ids.{ours}"])
            for theirs, ours in (("bos", "start"), ("eos", "end"), ("padding", "pad"))
        ),
    )
    fixed = {
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
    }
    read = {name for key in keys for name in key.names}
    name = next(name for name, head in base.heads.items() if head.kind == "causal_lm")
    return replace(
        base,
        prefix="",
        rows=rows,
        heads={name: WORDS},
        keys=changed(usual, *keys),
        constants={**base.constants, "activation": "silu", **(constants or {})},
        fixed={name: value for name, value in fixed.items() if name not in read},
        rule=rule,
        inert=(FACTORS,),
    )
