"""Encoder-decoders: the transformer of 2017, Marian, T5, BART, M2M100 and related models."""

from __future__ import annotations

from typing import Any

from glassformer.config import DropoutRates, ModelConfig, TaskConfig, TokenIds
from glassformer.presets.decoders import GEMMA
from glassformer.presets.preset import Preset, sizes

Sides = tuple[int, int, int, int, int]
TRANSLATION = TaskConfig(kind="translation", bias=False)


def _transformer(what: str, width: int, dropout: float) -> Preset:
    """As in the paper's formulas: no biases in attention, two in the MLP.

    The paper reports 65M and 213M parameters with "about 37,000" tokens; no vocabulary size
    gives both.
    """
    model = ModelConfig(
        family="seq2seq",
        vocab_size=37_000,
        **sizes(6, width),
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


def _t5(what: str, depth: int, width: int, name: str = "T5", **fields: Any) -> Preset:
    usual: dict[str, Any] = {"vocab_size": 32_128, **sizes(depth, width), "activation": "relu"}
    model = ModelConfig(
        family="seq2seq",
        **usual | {"output_scale": True} | fields,
        max_length=512,
        position="relative",
        norm="rms",
        norm_eps=1e-6,
        attention_bias=False,
        scaled=False,
        mlp_bias=False,
        dropout=DropoutRates(embedding=0.1, attention=0.1, mlp=0.1, residual=0.1),
        ids=TokenIds(pad=0, start=0, end=1),
    )
    return Preset(what, model, TRANSLATION, (f"{name}Model", f"{name}ForConditionalGeneration"))


def _marian(what: str, depth: int, width: int) -> Preset:
    """Like OPUS-MT models, whose vocabularies differ: 58,101 is that of English to German."""
    model = ModelConfig(
        family="seq2seq",
        vocab_size=58_101,
        **sizes(depth, width),
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


def _bart(what: str, depth: int, width: int) -> Preset:
    model = ModelConfig(
        family="seq2seq",
        vocab_size=50_265,
        **sizes(depth, width),
        max_length=1024,
        position_offset=2,
        embedding_norm=True,
        norm_place="post",
        final_norm=False,
        dropout=DropoutRates(embedding=0.1, mlp=0.1, residual=0.1),
        ids=TokenIds(pad=1, start=2, end=2),
    )
    task = TaskConfig(kind="translation", bias=True)
    return Preset(what, model, task, ("BartModel", "BartForConditionalGeneration"))


def _pre_norm(
    what: str, name: str, vocab_size: int, fields: dict[str, Any], *, bias: bool = False
) -> Preset:
    """M2M100, NLLB and mBART: norms before the sums, 12 layers on both sides."""
    model = ModelConfig(
        family="seq2seq",
        vocab_size=vocab_size,
        **sizes(12, 1024) | fields,
        max_length=1024,
        position_offset=2,
        embedding_scale=True,
        dropout=DropoutRates(embedding=0.1, residual=0.1),
        ids=TokenIds(pad=1, start=2, end=2),
    )
    task = TaskConfig(kind="translation", bias=bias)
    return Preset(what, model, task, (f"{name}Model", f"{name}ForConditionalGeneration"))


def _t5gemma(what: str, encoder: Sides, decoder: Sides) -> Preset:
    """Gemma 2 on both sides; sizes: depth, width, heads, key heads, width of the MLP."""
    names = ("depth", "width", "heads", "key_heads", "mlp_width")
    own = dict(zip(names, encoder, strict=True))
    own |= {f"decoder_{name}": size for name, size in zip(names, decoder, strict=True)}
    model = ModelConfig(
        **GEMMA | {"family": "seq2seq", "decoder_head_width": 256} | own,
        vocab_size=256_000, max_length=8192, shared_embedding=False, window=4096,
        decoder_window=4095, global_every=2, score_cap=50.0, logit_cap=30.0,
    )  # fmt: skip
    classes = ("T5GemmaModel", "T5GemmaForConditionalGeneration")
    return Preset(what, model, TRANSLATION, classes)


GEMMA_2B = (26, 2304, 8, 4, 9216)
M2M100: dict[str, Any] = {
    "position": "sinusoidal", "sinusoid": "halves_inclusive", "activation": "relu",
}  # fmt: skip
MBART: dict[str, Any] = {"position": "learned", "activation": "gelu", "embedding_norm": True}
MT5: dict[str, Any] = {
    "vocab_size": 250_112, "activation": "gelu_tanh", "gated": True, "tied": False,
    "output_scale": False,
}  # fmt: skip
MT5_SMALL: dict[str, Any] = MT5 | {"heads": 6, "head_width": 64, "mlp_width": 1024}
SEQ2SEQ: dict[str, Preset] = {
    "transformer-base": _transformer("the paper of 2017", 512, 0.1),
    "transformer-big": _transformer("the paper of 2017", 1024, 0.3),
    "marian-base": _marian("OPUS-MT", 6, 512),
    "t5-small": _t5("small T5 1.0", 6, 512),
    "t5-base": _t5("T5 1.0", 12, 768),
    "mt5-small": _t5("101 languages", 8, 512, "MT5", **MT5_SMALL),
    "mt5-base": _t5("101 languages", 12, 768, "MT5", **MT5, mlp_width=2048),
    "bart-base": _bart("BART", 6, 768),
    "bart-large": _bart("large BART", 12, 1024),
    "mbart-large-50": _pre_norm("50 languages", "MBart", 250_054, MBART, bias=True),
    "m2m100-418m": _pre_norm("100 languages", "M2M100", 128_112, M2M100),
    "nllb-200-distilled-600m": _pre_norm("200 languages", "M2M100", 256_206, M2M100),
    "t5gemma-2b-2b": _t5gemma("Gemma 2, twice", GEMMA_2B, GEMMA_2B),
    "umt5-small": _t5(
        "107 languages",
        8,
        512,
        "UMT5",
        **MT5_SMALL | {"vocab_size": 256_384},
        relative_by_layer=True,
    ),
}
