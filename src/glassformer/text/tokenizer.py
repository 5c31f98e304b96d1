"""Between text and token ids, over the `tokenizers` library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import tokenizers

from glassformer.errors import CheckpointError, InputError, shown
from glassformer.text.check import MOST_PIECES
from glassformer.text.files import LAYOUTS, check_size

Text = str | tuple[str, str]
HALF = "\ufffd"  # how a tokenizer writes bytes that are no character yet


@dataclass(frozen=True)
class Encoding:
    """A text, or a pair of texts, as the model reads it."""

    ids: list[int]
    segments: list[int]  # 0 for the first text, 1 for the second
    tokens: list[str]
    spans: list[tuple[int, int]]  # where each token stands in its text, in characters
    special: list[bool]  # [CLS] and the like: not in the text
    texts: list[int | None]  # 0 or 1: which text a token is of


class Tokenizer:
    """Never cuts and never pads: what is in the text is in the ids."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        backend.no_truncation()
        backend.no_padding()
        self.backend = backend

    @classmethod
    def from_files(
        cls, files: Mapping[str, bytes], source: str = "tokenizer", vocab_size: int = MOST_PIECES
    ) -> Tokenizer | None:
        """From what a model folder holds; None if it holds no tokenizer.

        A file that is far too large for a model with this `vocab_size` is not read.
        """
        for names, read in LAYOUTS.items():
            if all(name in files for name in names):
                try:
                    for name in names:
                        check_size(files[name], name, vocab_size)
                    return cls(read(files, vocab_size))
                except CheckpointError as error:
                    raise CheckpointError(f"{source}: {error}") from None
                except BaseException as error:
                    why = _their_words(error)
                    raise CheckpointError(
                        f"{source}: {' and '.join(names)} cannot be read: {why}"
                    ) from None
        return None

    def __len__(self) -> int:
        return self.backend.get_vocab_size()

    @property
    def highest(self) -> int:
        """The largest id it can give."""
        return max(self.backend.get_vocab().values(), default=-1)

    @property
    def fingerprint(self) -> str:
        """Changes with anything that could change how a text is cut."""
        found = json.loads(self.backend.to_str())
        whole = json.dumps({k: v for k, v in found.items() if k != "version"}, sort_keys=True)
        return "sha256:" + hashlib.sha256(whole.encode()).hexdigest()

    def encode(self, text: Text) -> Encoding:
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[Text]) -> list[Encoding]:
        wanted = list(texts)
        for i, text in enumerate(wanted):
            parts = (text, "") if isinstance(text, str) else text
            if not isinstance(parts, tuple) or [type(part) for part in parts] != [str, str]:
                raise InputError(f"text {i} is {shown(text)}: write a string, or a pair of strings")
            try:
                "".join(parts).encode("utf-8")
            except UnicodeEncodeError:
                raise InputError(f"text {i} is {shown(text)}: it holds half a character") from None
        try:
            found = self.backend.encode_batch(wanted)
        except BaseException as error:
            raise InputError(f"the tokenizer cannot read this: {_their_words(error)}") from None
        return [_encoding(each) for each in found]

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The bare ids of many texts, nothing put around them: the fast way to prepare data."""
        try:
            found = self.backend.encode_batch_fast(list(texts), add_special_tokens=False)
        except BaseException as error:
            raise InputError(f"the tokenizer cannot read this: {_their_words(error)}") from None
        return [each.ids for each in found]

    def decode(self, ids: Sequence[int]) -> str:
        try:
            return self.backend.decode(list(ids))
        except BaseException as error:
            raise InputError(f"the tokenizer cannot write this: {_their_words(error)}") from None

    def id(self, token: str) -> int | None:
        return self.backend.token_to_id(token)

    def token(self, id: int) -> str:
        return self.backend.id_to_token(id) or f"<{id}>"

    def readable(self, id: int) -> str:
        """As `token`, in letters: where tokens are bytes, Кот is called ÐļÐ¾ÑĤ there.

        The sign of a space stays, Ġ; what is no whole letter keeps its name.
        """
        piece = self.token(id)
        if piece.isascii() or "ByteLevel" not in type(self.backend.decoder).__name__:
            return piece
        text = self.decode([id])
        whole = bool(text) and text.isprintable() and HALF not in text
        return text.replace(" ", "Ġ") if whole else piece


def _encoding(raw: tokenizers.Encoding) -> Encoding:
    return Encoding(
        ids=raw.ids,
        segments=raw.type_ids,
        tokens=raw.tokens,
        spans=raw.offsets,
        special=[bool(flag) for flag in raw.special_tokens_mask],
        texts=raw.sequence_ids,
    )


def _their_words(error: BaseException) -> str:
    """What the library says; when it panics, that is no Exception. Anything else goes on."""
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error
    return shown(" ".join(str(error).split()))
