"""GPT-2 and the language models after it."""

from __future__ import annotations

from typing import Any

from glassformer.config import DropoutRates, ModelConfig, RotaryScaling, TaskConfig, TokenIds
from glassformer.presets.preset import Preset, sizes

CAUSAL_LM = TaskConfig(kind="causal_lm", bias=False)


def _gpt2(what: str, depth: int, width: int) -> Preset:
    model = ModelConfig(
        family="decoder",
        vocab_size=50_257,
        **sizes(depth, width),
        max_length=1024,
        activation="gelu_tanh",
        dropout=DropoutRates(embedding=0.1, residual=0.1),
        ids=TokenIds(start=50_256, end=50_256),
    )
    return Preset(what, model, CAUSAL_LM, ("GPT2Model", "GPT2LMHeadModel"))


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


DECODERS: dict[str, Preset] = {
    "gpt2": _gpt2("smallest GPT-2", 12, 768),
    "gpt2-medium": _gpt2("medium GPT-2", 24, 1024),
    "gpt2-large": _gpt2("large GPT-2", 36, 1280),
    "gpt2-xl": _gpt2("largest GPT-2", 48, 1600),
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
