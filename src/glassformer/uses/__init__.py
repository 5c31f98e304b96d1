"""What a loaded model is used for: one file a wish, written once for every model that can do it."""

from glassformer.uses.answer import Answer, answer
from glassformer.uses.classify import Classified, classify, follows
from glassformer.uses.documents import laid_out, read_documents
from glassformer.uses.embed import EmbedRecipe, cosines, embed, nearest, recipe_of, word
from glassformer.uses.fill import Blank, Candidate, fill
from glassformer.uses.kinds import check_kind
from glassformer.uses.tag import Span, Tagged, Word, chunks, tag

__all__ = [
    "Answer", "Blank", "Candidate", "Classified", "EmbedRecipe", "Span", "Tagged", "Word", "answer",
    "check_kind", "chunks", "classify", "cosines", "embed", "fill", "follows", "laid_out",
    "nearest", "read_documents", "recipe_of", "tag", "word",
]  # fmt: skip
