"""What a loaded model is used for: one file a wish, written once for every model that can do it."""

from glassformer.inference.answer import Answer, answer
from glassformer.inference.checks import check_kind
from glassformer.inference.classify import Classified, classify, follows
from glassformer.inference.documents import laid_out, read_documents
from glassformer.inference.embed import (
    EmbeddingConfig,
    cosines,
    embed,
    embedding_config,
    nearest,
    word,
)
from glassformer.inference.fill import Blank, Candidate, fill
from glassformer.inference.tag import Span, Tagged, Word, chunks, tag

__all__ = [
    "Answer",
    "Blank",
    "Candidate",
    "Classified",
    "EmbeddingConfig",
    "Span",
    "Tagged",
    "Word",
    "answer",
    "check_kind",
    "chunks",
    "classify",
    "cosines",
    "embed",
    "embedding_config",
    "fill",
    "follows",
    "laid_out",
    "nearest",
    "read_documents",
    "tag",
    "word",
]  # fmt: skip
