"""Text to token ids and back. Nothing here imports torch."""

from glassformer.text.inputs import (
    Text,
    is_one,
    items_of,
    pairs_of,
    plain,
    texts_of,
    texts_or_pairs_of,
)
from glassformer.text.languages import Languages
from glassformer.text.tokenizer import Encoding, Tokenizer

__all__ = [
    "Encoding",
    "Languages",
    "Text",
    "Tokenizer",
    "is_one",
    "items_of",
    "pairs_of",
    "plain",
    "texts_of",
    "texts_or_pairs_of",
]
