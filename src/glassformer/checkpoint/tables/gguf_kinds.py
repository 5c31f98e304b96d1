"""The architectures whose GGUF files are read: what differs from a Llama's."""

from collections.abc import Callable
from typing import Any

from glassformer.checkpoint.keys import Json, Key, look_up
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.gemma import EVERY, GEMMA2, GEMMA3
from glassformer.checkpoint.tables.gguf import ROWS, THEIRS, of
from glassformer.checkpoint.tables.gpt_neox import GPT_NEOX
from glassformer.checkpoint.tables.llama import LLAMA, OURS
from glassformer.checkpoint.tables.olmo2 import OLMO2
from glassformer.checkpoint.tables.phi3 import PHI3, QKV
from glassformer.checkpoint.tables.qwen import QWEN2, QWEN3
from glassformer.checkpoint.tables.smollm3 import SMOLLM3
from glassformer.config import ModelConfig, RotaryScaling


def _window(kind: str, default: Any) -> Key:
    """Theirs counts the token itself; 0 is no window."""
    name = f"{kind}.attention.sliding_window"
    return Key(name, "window", default, read=lambda n: n - 1 if n else None)


def _fraction(kind: str) -> Key:
    """The part of a head that turns, which the file gives as a number of entries."""

    def share(foreign: Json) -> float:
        names = ("rope.dimension_count", "embedding_length", "attention.head_count")
        turned, width, heads = (look_up(foreign, f"{kind}.{name}") for name in names)
        known = all(type(n) is int and n > 0 for n in (turned, width, heads)) and width >= heads
        return turned / (width // heads) if known else 1.0

    return Key("file.rotary_fraction", "rotary_fraction", share)


def _other_scale(depth: int) -> Callable[[ModelConfig], str | None]:
    """In the largest model llama.cpp divides scores by another number, which no field says."""

    def refused(config: ModelConfig) -> str | None:
        if config.depth != depth:
            return None
        return f"block_count = {depth}: the file does not say how scores are scaled: use its folder"

    return refused


def _gemma(kind: str) -> tuple[Key, ...]:
    width = Key(f"{kind}.attention.key_length", ("head_width", "score_width"))
    return (width, BIAS)


BIAS = Key("file.attention_bias", ("attention_bias", "output_bias"))
SCALING = tuple(  # of Llama 3, if the file has a tensor of factors
    Key(f"file.scaling.{name}", f"rotary_scaling.{name}", field.default)
    for name, field in RotaryScaling.model_fields.items()
)
APART = ("attn_q.", "attn_k.", "attn_v.", "ffn_gate.", "ffn_up.")  # which Phi-3 has as one
TOGETHER = (
    *(row for row in ROWS if not row.theirs.removeprefix(THEIRS).startswith(APART)),
    Row(THEIRS + "attn_qkv.*", QKV),
)
GGUF = {
    "llama": of(LLAMA, BIAS, Key("file.mlp_bias", "mlp_bias"), *SCALING),
    "qwen2": of(QWEN2),
    "qwen3": of(QWEN3, BIAS),
    "smollm3": of(
        SMOLLM3, BIAS, Key("file.mlp_bias", "mlp_bias"),
        constants={"no_rotary_every": 4},
    ),
    "olmo2": of(OLMO2, BIAS),
    "phi3": of(
        PHI3, _window("phi3", None), _fraction("phi3"),
        rows=(*TOGETHER, Row(THEIRS + "ffn_up.*", (OURS + "mlp.gate.*", OURS + "mlp.up.*"))),
    ),
    "gptneox": of(
        GPT_NEOX, Key("gptneox.attention.layer_norm_epsilon", "norm_eps"), _fraction("gptneox"),
        Key("gptneox.use_parallel_residual", "parallel", True), BIAS,
        kind="gptneox", constants={"activation": "gelu"},
        rows=(*TOGETHER, Row(THEIRS + "ffn_up.*", OURS + "mlp.up.*")),
    ),
    "gemma2": of(
        GEMMA2, *_gemma("gemma2"), _window("gemma2", 4095),
        Key("gemma2.attn_logit_softcapping", "score_cap", 50.0),
        Key("gemma2.final_logit_softcapping", "logit_cap", 30.0),
        constants={"activation": "gelu_tanh"}, refused=_other_scale(46),
    ),
    "gemma3": of(
        GEMMA3, *_gemma("gemma3"), _window("gemma3", 4095),
        Key("gemma3.final_logit_softcapping", "logit_cap", None),
        Key("gemma3.rope.freq_base", "rotary_base", 1_000_000.0),
        Key("gemma3.rope.freq_base_swa", "local_rotary_base", 10_000.0),
        Key(
            "gemma3.rope.scaling.type", "rotary_scaling.kind", "none",
            {"none": "none", "linear": "linear"},
        ),
        Key("gemma3.rope.scaling.factor", "rotary_scaling.factor", 1.0),
        kind="gemma3", constants={"activation": "gelu_tanh", "global_every": EVERY},
        refused=_other_scale(62),
    ),
}  # fmt: skip


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
    kind: {
        "attn_q": (f"{kind}.attention.head_count",),
        "attn_k": (f"{kind}.attention.head_count_kv", f"{kind}.attention.head_count"),
    }
    for kind in ("llama", "smollm3")
}
PLUS_ONE = ("gemma2", "gemma3")  # their norms are stored as 1 + γ
