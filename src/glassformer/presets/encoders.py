"""BERT and its relatives."""

from __future__ import annotations

from glassformer.config import DropoutRates, ModelConfig, TaskConfig, TokenIds
from glassformer.presets.preset import Preset, sizes


def _bert(what: str, depth: int, width: int, vocab_size: int = 30_522) -> Preset:
    model = ModelConfig(
        family="encoder",
        vocab_size=vocab_size,
        **sizes(depth, width),
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
    "modernbert-base": MODERNBERT_BASE,
}
