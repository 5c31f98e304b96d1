"""Text to token ids and back. Nothing here imports torch."""

from glassformer.text.tokenizer import Encoding, Text, Tokenizer

__all__ = ["Encoding", "Text", "Tokenizer"]
