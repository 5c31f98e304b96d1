"""Inference: one file per task, written once for every model that has the head for it."""

from glassformer.inference.answer import Answer, answer
from glassformer.inference.checks import check_kind, check_tokenizer
from glassformer.inference.classify import Classified, classify, follows
from glassformer.inference.embed import cosines, embed, nearest, word
from glassformer.inference.fill import Blank, Candidate, fill
from glassformer.inference.rank import RankedText, rank, rank_activation, rank_scores
from glassformer.inference.recording import record_batch
from glassformer.inference.sentence_files import EmbeddingConfig, embedding_config
from glassformer.inference.sentence_layers import layer_files, sentence_layers
from glassformer.inference.tag import Span, Tagged, Word, chunks, tag

__all__ = [
    "Answer",
    "Blank",
    "Candidate",
    "Classified",
    "EmbeddingConfig",
    "RankedText",
    "Span",
    "Tagged",
    "Word",
    "answer",
    "check_kind",
    "check_tokenizer",
    "chunks",
    "classify",
    "cosines",
    "embed",
    "embedding_config",
    "fill",
    "follows",
    "layer_files",
    "nearest",
    "rank",
    "rank_activation",
    "rank_scores",
    "record_batch",
    "sentence_layers",
    "tag",
    "word",
]  # fmt: skip
