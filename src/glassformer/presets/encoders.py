"""BERT and its relatives."""

from __future__ import annotations

from typing import Any

from glassformer.config import DropoutRates, ModelConfig, TaskConfig, TokenIds
from glassformer.presets.preset import Preset, sizes

BERT: dict[str, Any] = {  # learned positions, norms after the sums
    "family": "encoder",
    "max_length": 512,
    "embedding_norm": True,
    "norm_place": "post",
    "norm_eps": 1e-12,
    "final_norm": False,
    "dropout": DropoutRates(embedding=0.1, residual=0.1),
}


def _bert(what: str, depth: int, width: int, vocab_size: int = 30_522) -> Preset:
    ids = TokenIds(pad=0)
    model = ModelConfig(**BERT, vocab_size=vocab_size, **sizes(depth, width), segments=2, ids=ids)
    return Preset(
        what, model, TaskConfig(kind="masked_lm_nsp"), ("BertModel", "BertForPreTraining")
    )


def _roberta(
    what: str, name: str, depth: int, width: int, vocab_size: int, start: int = 0, end: int = 2
) -> Preset:
    """XLM-RoBERTa and CamemBERT have other names and vocabularies."""
    model = ModelConfig(
        **BERT | {"norm_eps": 1e-5},
        vocab_size=vocab_size,
        **sizes(depth, width),
        segments=1,
        position_offset=2,
        ids=TokenIds(pad=1, start=start, end=end),
    )
    classes = (f"{name}Model", f"{name}ForMaskedLM")
    return Preset(what, model, TaskConfig(kind="masked_lm"), classes)


def _distilbert(what: str, vocab_size: int = 30_522) -> Preset:
    model = ModelConfig(**BERT, vocab_size=vocab_size, **sizes(6, 768), ids=TokenIds(pad=0))
    classes = ("DistilBertModel", "DistilBertForMaskedLM")
    return Preset(what, model, TaskConfig(kind="masked_lm"), classes)


def _electra(what: str, depth: int, width: int, heads: int, embedding_width: int) -> Preset:
    model = ModelConfig(
        **BERT,
        vocab_size=30_522,
        **sizes(depth, width) | {"heads": heads},
        embedding_width=embedding_width,
        segments=2,
        ids=TokenIds(pad=0),
    )
    return Preset(what, model, TaskConfig(), ("ElectraModel", "ElectraModel"))


MODERNBERT_BASE = Preset(
    "BERT as of 2024",
    ModelConfig(
        family="encoder",
        vocab_size=50_368,
        **sizes(22, 768) | {"mlp_width": 1152},
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


def _albert(what: str, width: int, heads: int) -> Preset:
    model = ModelConfig(
        **BERT | {"dropout": DropoutRates()},
        vocab_size=30_000,
        **sizes(12, width) | {"heads": heads},
        shared_blocks=True,
        embedding_width=128,
        segments=2,
        activation="gelu_tanh",
        ids=TokenIds(pad=0, start=2, end=3),
    )
    task = TaskConfig(kind="masked_lm_nsp", dropout=0.1)
    return Preset(what, model, task, ("AlbertModel", "AlbertForPreTraining"))


def _deberta(what: str, depth: int, width: int, vocab_size: int = 128_100) -> Preset:
    model = ModelConfig(
        **BERT | {"norm_eps": 1e-7},
        vocab_size=vocab_size,
        **sizes(depth, width),
        position="none",
        relative="disentangled",
        relative_buckets=512,
        relative_distance=512,
        ids=TokenIds(pad=0),
    )
    task = TaskConfig(kind="masked_lm")
    return Preset(what, model, task, ("DebertaV2Model", "DebertaV2ForMaskedLM"))


MPNET_BASE = Preset(
    "sentence vectors",
    ModelConfig(
        **BERT | {"norm_eps": 1e-5},
        vocab_size=30_527,
        **sizes(12, 768),
        position_offset=2,
        relative="bias",
        ids=TokenIds(pad=1, start=0, end=2),
    ),
    TaskConfig(pooler="tanh"),
    ("MPNetModel", "MPNetModel"),
)

NOMIC_EMBED = Preset(
    "sentence vectors",
    ModelConfig(
        **BERT | {"max_length": 8192, "dropout": DropoutRates()},
        vocab_size=30_528,
        **sizes(12, 768),
        segments=2,
        position="rotary",
        rotary_base=1000.0,
        attention_bias=False,
        activation="silu",
        gated=True,
        mlp_bias=False,
        ids=TokenIds(pad=0),
    ),
    TaskConfig(),
    ("NomicBertModel", "NomicBertModel"),
)

ENCODERS: dict[str, Preset] = {
    "bert-tiny": _bert("for quick trials", 2, 128),
    "bert-mini": _bert("for quick trials", 4, 256),
    "bert-small": _bert("small BERT", 4, 512),
    "bert-medium": _bert("medium BERT", 8, 512),
    "bert-base-uncased": _bert("English lowercase", 12, 768),
    "bert-base-cased": _bert("English", 12, 768, 28_996),
    "bert-base-chinese": _bert("Chinese", 12, 768, 21_128),
    "bert-base-multilingual-cased": _bert("104 languages", 12, 768, 119_547),
    "bert-large-uncased": _bert("English lowercase", 24, 1024),
    "distilbert-base-uncased": _distilbert("half of BERT"),
    "distilbert-base-cased": _distilbert("half of BERT", 28_996),
    "distilroberta-base": _roberta("half of RoBERTa", "Roberta", 6, 768, 50_265),
    "roberta-base": _roberta("RoBERTa", "Roberta", 12, 768, 50_265),
    "roberta-large": _roberta("large RoBERTa", "Roberta", 24, 1024, 50_265),
    "xlm-roberta-base": _roberta("100 languages", "XLMRoberta", 12, 768, 250_002),
    "xlm-roberta-large": _roberta("100 languages", "XLMRoberta", 24, 1024, 250_002),
    "camembert-base": _roberta("French", "Camembert", 12, 768, 32_005, start=5, end=6),
    "electra-small": _electra("small ELECTRA", 12, 256, 4, 128),
    "electra-base": _electra("ELECTRA", 12, 768, 12, 768),
    "electra-large": _electra("large ELECTRA", 24, 1024, 16, 1024),
    "mpnet-base": MPNET_BASE,
    "albert-base-v2": _albert("one shared block", 768, 12),
    "albert-xxlarge-v2": _albert("largest ALBERT", 4096, 64),
    "deberta-v3-xsmall": _deberta("smallest DeBERTa", 12, 384),
    "deberta-v3-base": _deberta("DeBERTa", 12, 768),
    "deberta-v3-large": _deberta("large DeBERTa", 24, 1024),
    "mdeberta-v3-base": _deberta("100 languages", 12, 768, 251_000),
    "nomic-embed-text-v1.5": NOMIC_EMBED,
    "modernbert-base": MODERNBERT_BASE,
}
