"""Well-known models by name: their configs, without weights and without torch.

Dropout is as published, except in attention, where it is 0: the fast kernel has none. T5 keeps
it: its config has one rate for all, and its positions need the slower path anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glassformer.config import DropoutRates, ModelConfig, RotaryScaling, TaskConfig, TokenIds


@dataclass(frozen=True)
class Preset:
    what: str  # a short description
    model: ModelConfig
    task: TaskConfig  # the head it is usually trained with
    reference: tuple[str, str] | None = None  # its classes in transformers: bare, with this head


def _sizes(depth: int, width: int) -> dict[str, Any]:
    """All of these models have heads of width 64; in most the MLP is four times as wide."""
    return {"depth": depth, "width": width, "heads": width // 64, "mlp_width": 4 * width}


def _bert(what: str, depth: int, width: int, vocab_size: int = 30_522) -> Preset:
    model = ModelConfig(
        family="encoder",
        vocab_size=vocab_size,
        **_sizes(depth, width),
        max_length=512,
        segments=2,
        embedding_norm=True,
        norm_place="post",
        norm_eps=1e-12,
        final_norm=False,
        dropout=DropoutRates(embedding=0.1, residual=0.1),
        ids=TokenIds(pad=0),
    )
    return Preset(
        what, model, TaskConfig(kind="masked_lm_nsp"), ("BertModel", "BertForPreTraining")
    )


def _gpt2(what: str, depth: int, width: int) -> Preset:
    model = ModelConfig(
        family="decoder",
        vocab_size=50_257,
        **_sizes(depth, width),
        max_length=1024,
        activation="gelu_tanh",
        dropout=DropoutRates(embedding=0.1, residual=0.1),
        ids=TokenIds(start=50_256, end=50_256),
    )
    return Preset(what, model, CAUSAL_LM, ("GPT2Model", "GPT2LMHeadModel"))


def _transformer(what: str, width: int, dropout: float) -> Preset:
    """As in the paper's formulas: no biases in attention, two in the MLP.

    The paper reports 65M and 213M parameters with "about 37,000" tokens; no vocabulary size
    gives both.
    """
    model = ModelConfig(
        family="seq2seq",
        vocab_size=37_000,
        **_sizes(6, width),
        max_length=512,
        position="sinusoidal",
        embedding_scale=True,
        norm_place="post",
        final_norm=False,
        attention_bias=False,
        activation="relu",
        dropout=DropoutRates(embedding=dropout, residual=dropout),
    )
    return Preset(what, model, TRANSLATION)


def _t5(what: str, depth: int, width: int) -> Preset:
    model = ModelConfig(
        family="seq2seq",
        vocab_size=32_128,
        **_sizes(depth, width),
        max_length=512,
        position="relative",
        norm="rms",
        norm_eps=1e-6,
        attention_bias=False,
        scaled=False,
        activation="relu",
        mlp_bias=False,
        output_scale=True,
        dropout=DropoutRates(embedding=0.1, attention=0.1, mlp=0.1, residual=0.1),
        ids=TokenIds(pad=0, start=0, end=1),
    )
    return Preset(what, model, TRANSLATION, ("T5Model", "T5ForConditionalGeneration"))


def _marian(what: str, depth: int, width: int) -> Preset:
    """Like OPUS-MT models, whose vocabularies differ: 58,101 is that of English to German."""
    model = ModelConfig(
        family="seq2seq",
        vocab_size=58_101,
        **_sizes(depth, width),
        max_length=512,
        position="sinusoidal",
        sinusoid="halves",
        embedding_scale=True,
        norm_place="post",
        final_norm=False,
        activation="silu",
        dropout=DropoutRates(embedding=0.1, residual=0.1),
        ids=TokenIds(pad=58_100, start=58_100, end=0),
    )
    task = TaskConfig(kind="translation", bias=True)
    return Preset(what, model, task, ("MarianModel", "MarianMTModel"))


CAUSAL_LM = TaskConfig(kind="causal_lm", bias=False)
TRANSLATION = TaskConfig(kind="translation", bias=False)

MODERNBERT_BASE = Preset(
    "BERT as of 2024",
    ModelConfig(
        family="encoder",
        vocab_size=50_368,
        **_sizes(22, 768) | {"mlp_width": 1152},
        max_length=8192,
        position="rotary",
        rotary_base=160_000.0,
        local_rotary_base=10_000.0,
        embedding_norm=True,
        norm_bias=False,
        first_norm=False,
        attention_bias=False,
        window=64,
        global_every=3,
        gated=True,
        mlp_bias=False,
        ids=TokenIds(pad=50_283),
    ),
    TaskConfig(kind="masked_lm"),
    ("ModernBertModel", "ModernBertForMaskedLM"),
)

LLAMA: dict[str, Any] = {  # rotary positions, RMS norms, gated MLPs, no biases
    "family": "decoder",
    "position": "rotary",
    "norm": "rms",
    "attention_bias": False,
    "activation": "silu",
    "gated": True,
    "mlp_bias": False,
}
GEMMA: dict[str, Any] = LLAMA | {
    "activation": "gelu_tanh",
    "embedding_scale": True,
    "norm_place": "sandwich",
    "norm_plus_one": True,
    "norm_eps": 1e-6,
    "global_last": True,
    "head_width": 256,
    "score_width": 256,
    "ids": TokenIds(pad=0, start=2, end=1),
}
GEMMA3: dict[str, Any] = GEMMA | {
    "vocab_size": 262_144,
    "max_length": 32_768,
    "rotary_base": 1_000_000.0,
    "local_rotary_base": 10_000.0,
    "qk_norm": "head",
    "window": 511,
    "global_every": 6,
}
LLAMA3: dict[str, Any] = {
    "vocab_size": 128_256,
    "max_length": 131_072,
    "rotary_base": 500_000.0,
    "ids": TokenIds(start=128_000, end=128_001),
}


def _decoder(
    what: str,
    name: str,
    sizes: tuple[int, int, int, int, int],
    *,
    body: str = "Model",
    **fields: Any,
) -> Preset:
    """Sizes: depth, width, heads, key heads, width of the MLP."""
    names = ("depth", "width", "heads", "key_heads", "mlp_width")
    model = ModelConfig(**dict(zip(names, sizes, strict=True)) | fields)
    return Preset(what, model, CAUSAL_LM, (f"{name}{body}", f"{name}ForCausalLM"))


def _pythia(what: str, depth: int, width: int, heads: int, vocab_size: int = 50_304) -> Preset:
    return _decoder(
        what, "GPTNeoX", (depth, width, heads, heads, 4 * width),
        family="decoder", vocab_size=vocab_size, max_length=2048, position="rotary",
        rotary_fraction=0.25, parallel=True, tied=False, ids=TokenIds(start=0, end=0),
    )  # fmt: skip


def _gemma3(what: str, depth: int, width: int, mlp_width: int) -> Preset:
    return _decoder(what, "Gemma3", (depth, width, 4, 1, mlp_width), body="TextModel", **GEMMA3)


def _long(factor: float) -> RotaryScaling:
    """Llama 3.1 and 3.2, first trained on 8,192 tokens."""
    return RotaryScaling(
        kind="by_wavelength", factor=factor, original_length=8192, low=1.0, high=4.0
    )


PRESETS: dict[str, Preset] = {
    "bert-tiny": _bert("for quick trials", 2, 128),
    "bert-mini": _bert("for quick trials", 4, 256),
    "bert-small": _bert("small BERT", 4, 512),
    "bert-medium": _bert("medium BERT", 8, 512),
    "bert-base-uncased": _bert("English lowercase", 12, 768),
    "bert-base-cased": _bert("English", 12, 768, 28_996),
    "bert-base-chinese": _bert("Chinese", 12, 768, 21_128),
    "bert-base-multilingual-cased": _bert("104 languages", 12, 768, 119_547),
    "bert-large-uncased": _bert("English lowercase", 24, 1024),
    "gpt2": _gpt2("smallest GPT-2", 12, 768),
    "gpt2-medium": _gpt2("medium GPT-2", 24, 1024),
    "gpt2-large": _gpt2("large GPT-2", 36, 1280),
    "gpt2-xl": _gpt2("largest GPT-2", 48, 1600),
    "transformer-base": _transformer("the paper of 2017", 512, 0.1),
    "transformer-big": _transformer("the paper of 2017", 1024, 0.3),
    "marian-base": _marian("OPUS-MT", 6, 512),
    "t5-small": _t5("small T5 1.0", 6, 512),
    "t5-base": _t5("T5 1.0", 12, 768),
    "modernbert-base": MODERNBERT_BASE,
    "smollm2-135m": _decoder(
        "a small Llama", "Llama", (30, 576, 9, 3, 1536), **LLAMA, vocab_size=49_152,
        max_length=8192, rotary_base=100_000.0, ids=TokenIds(start=0, end=0), init_std=1 / 24,
    ),
    "pythia-70m": _pythia("small Pythia", 6, 512, 8),
    "pythia-160m": _pythia("as large as GPT-2", 12, 768, 12),
    "pythia-410m": _pythia("medium Pythia", 24, 1024, 16),
    "pythia-1.4b": _pythia("large Pythia", 24, 2048, 16),
    "llama-3.2-1b": _decoder(
        "small Llama 3", "Llama", (16, 2048, 32, 8, 8192), **LLAMA, **LLAMA3,
        rotary_scaling=_long(32.0),
    ),
    "llama-3.1-8b": _decoder(
        "Llama 3", "Llama", (32, 4096, 32, 8, 14_336), **LLAMA, **LLAMA3,
        rotary_scaling=_long(8.0), tied=False,
    ),
    "mistral-7b": _decoder(
        "sliding windows", "Mistral", (32, 4096, 32, 8, 14_336), **LLAMA, vocab_size=32_000,
        max_length=32_768, window=4095, tied=False, ids=TokenIds(start=1, end=2),
    ),
    "qwen2.5-0.5b": _decoder(
        "small Qwen2.5", "Qwen2", (24, 896, 14, 2, 4864),
        **LLAMA | {"attention_bias": True, "output_bias": False}, vocab_size=151_936,
        max_length=32_768, rotary_base=1_000_000.0, norm_eps=1e-6,
        ids=TokenIds(start=151_643, end=151_643),
    ),
    "qwen3-0.6b": _decoder(
        "small Qwen3", "Qwen3", (28, 1024, 16, 8, 3072), **LLAMA, vocab_size=151_936,
        max_length=40_960, head_width=128, rotary_base=1_000_000.0, norm_eps=1e-6, qk_norm="head",
        ids=TokenIds(start=151_643, end=151_645),
    ),
    "olmo-2-1b": _decoder(
        "small OLMo 2", "Olmo2", (16, 2048, 16, 16, 8192), **LLAMA, vocab_size=100_352,
        max_length=4096, rotary_base=500_000.0, norm_place="branch", norm_eps=1e-6, qk_norm="all",
        tied=False, ids=TokenIds(pad=100_277, end=100_257),
    ),
    "gemma-2-2b": _decoder(
        "small Gemma 2", "Gemma2", (26, 2304, 8, 4, 9216), **GEMMA, vocab_size=256_000,
        max_length=8192, window=4095, global_every=2, score_cap=50.0, logit_cap=30.0,
    ),
    "gemma-3-270m": _gemma3("smallest Gemma 3", 18, 640, 2048),
    "gemma-3-1b": _gemma3("small Gemma 3", 26, 1152, 6912),
    "smollm3-3b": _decoder(
        "SmolLM3", "SmolLM3", (36, 2048, 16, 4, 11_008), **LLAMA,
        vocab_size=128_256, max_length=65_536, rotary_base=5_000_000.0, norm_eps=1e-6,
        no_rotary_every=4, ids=TokenIds(pad=128_004, start=128_000, end=128_012),
    ),
    "phi-3-mini-4k": _decoder(
        "small Phi-3", "Phi3", (32, 3072, 32, 32, 8192), **LLAMA, vocab_size=32_064,
        max_length=4096, window=2046, tied=False, ids=TokenIds(pad=32_000, start=1, end=32_000),
    ),
}  # fmt: skip
