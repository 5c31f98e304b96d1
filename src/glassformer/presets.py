"""Well-known models by name: their configs, without weights and without torch.

Dropout is as published, except in attention, where it is 0: the fast kernel has none. T5 keeps
it: its config has one rate for all, and its positions need the slower path anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glassformer.config import DropoutRates, ModelConfig, TaskConfig, TokenIds


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

SMOLLM2_135M = Preset(
    "a small Llama",
    ModelConfig(
        family="decoder",
        vocab_size=49_152,
        **_sizes(30, 576) | {"mlp_width": 1536},
        key_heads=3,
        max_length=8192,
        position="rotary",
        rotary_base=100_000.0,
        norm="rms",
        attention_bias=False,
        activation="silu",
        gated=True,
        mlp_bias=False,
        ids=TokenIds(start=0, end=0),
        init_std=1 / 24,
    ),
    CAUSAL_LM,
    ("LlamaModel", "LlamaForCausalLM"),
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
    "smollm2-135m": SMOLLM2_135M,
}
