"""Translators: the transformer of 2017, Marian and T5."""

from __future__ import annotations

from glassformer.config import DropoutRates, ModelConfig, TaskConfig, TokenIds
from glassformer.presets.preset import Preset, sizes

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


def _t5(what: str, depth: int, width: int) -> Preset:
    model = ModelConfig(
        family="seq2seq",
        vocab_size=32_128,
        **sizes(depth, width),
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


SEQ2SEQ: dict[str, Preset] = {
    "transformer-base": _transformer("the paper of 2017", 512, 0.1),
    "transformer-big": _transformer("the paper of 2017", 1024, 0.3),
    "marian-base": _marian("OPUS-MT", 6, 512),
    "t5-small": _t5("small T5 1.0", 6, 512),
    "t5-base": _t5("T5 1.0", 12, 768),
}
