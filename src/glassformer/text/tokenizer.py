"""Text to token ids and back, by the `tokenizers` library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import tokenizers

from glassformer.errors import CheckpointError, ConfigError, InputError, shown
from glassformer.text.check import MAX_PIECES
from glassformer.text.files import LAYOUTS, check_size
from glassformer.text.inputs import Text, is_one, items_of, plain

# What an encoding says of a special token around the text.
FRAME = {"segments": 0, "spans": (0, 0), "special": True, "texts": None}
REPLACEMENT = "\ufffd"  # what bytes decode to that are not a complete character


@dataclass(frozen=True)
class Encoding:
    """A text, or a pair of texts, as tokens."""

    ids: list[int]
    segments: list[int]  # 0 for the first text, 1 for the second
    tokens: list[str]
    spans: list[tuple[int, int]]  # start and end of each token in its text, in characters
    special: list[bool]  # is it a special token, such as [CLS]?
    texts: list[int | None]  # 0 or 1: the text that a token belongs to


class Tokenizer:
    """A tokenizer that never truncates and never pads.

    Args:
        backend: its vocabulary, and how ids become a text
        source: how a text becomes tokens of that vocabulary, if not by the backend itself
        target: the same for the target language of a translation
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        source: tokenizers.Tokenizer | None = None,
        target: tokenizers.Tokenizer | None = None,
    ) -> None:
        if not isinstance(backend, tokenizers.Tokenizer):
            raise ConfigError(
                f"Tokenizer({shown(backend)}): use the tokenizer of a model, "
                'gf.load("gf-encoder").tokenizer, or Tokenizer.from_files'
            )
        self.backend, self._source, self._target = backend, source or backend, target
        self._frame: tuple[tuple[str, ...], tuple[str, ...]] | None = None
        for each in (backend, source, target):
            if each is not None:
                each.no_truncation()
                each.no_padding()

    @classmethod
    def from_files(
        cls, files: Mapping[str, bytes], source: str = "tokenizer", vocab_size: int = MAX_PIECES
    ) -> Tokenizer | None:
        """The tokenizer in the `files` of a model folder; None if there is none.

        A file that is far too large for this `vocab_size` is refused. `source` is for messages.

        Examples:
            >>> files = {"vocab.txt": b"[UNK]\\n[CLS]\\n[SEP]\\nthe\\ncat"}
            >>> gf.Tokenizer.from_files(files)
            Tokenizer(WordPiece, 5 tokens)
        """
        for names, read in LAYOUTS.items():
            if all(name in files for name in names):
                try:
                    for name in names:
                        check_size(files[name], name, vocab_size)
                    return cls(*read(files, vocab_size))
                except CheckpointError as error:
                    raise CheckpointError(f"{source}: {error}") from None
                except BaseException as error:
                    why = _message(error)
                    raise CheckpointError(
                        f"{source}: {' and '.join(names)} cannot be read: {why}"
                    ) from None
        return None

    def __repr__(self) -> str:
        return f"Tokenizer({type(self.backend.model).__name__}, {len(self):,} tokens)"

    def __len__(self) -> int:
        return self.backend.get_vocab_size()

    @property
    def highest(self) -> int:
        """The largest id in its vocabulary."""
        return max(self.backend.get_vocab().values(), default=-1)

    @property
    def fingerprint(self) -> str:
        """A hash of everything that affects how a text is tokenized."""
        parts = {id(each): each for each in (self.backend, self._source, self._target) if each}
        whole = "".join(map(_canonical, parts.values()))
        return "sha256:" + hashlib.sha256(whole.encode()).hexdigest()

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of the target language: this one, if the model has one for both."""
        return self if self._target is None else Tokenizer(self.backend, self._target)

    def framed(self, before: Sequence[str], after: Sequence[str]) -> Tokenizer:
        """This tokenizer with these special tokens around each text, instead of the usual ones.

        Examples:
            >>> encoder.tokenizer.framed(["[MASK]"], ["[SEP]"])("a cat").tokens
            ['[MASK]', 'a', 'cat', '[SEP]']
        """
        tokenizer = Tokenizer(self.backend, self._source, self._target)
        tokenizer._frame = (tuple(before), tuple(after))
        return tokenizer

    @overload
    def __call__(self, texts: Text) -> Encoding: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, texts: Iterable[Text]) -> list[Encoding]: ...
    def __call__(self, texts: Text | Iterable[Text]) -> Encoding | list[Encoding]:
        """Tokenize a text or a pair (a tuple of two strings), or many, with special tokens.

        Examples:
            >>> encoder.tokenizer("The cat sat.").tokens
            ['[CLS]', 'the', 'cat', 'sat', '.', '[SEP]']
            >>> [len(each.ids) for each in encoder.tokenizer(["a", "b c"])]
            [3, 4]
        """
        if is_one(texts) or isinstance(texts, tuple):
            return self.encode(texts)  # type: ignore[arg-type]
        return self.encode_all(items_of(texts, "tokenizer"))

    def encode(self, text: Text) -> Encoding:
        """Tokenize a text or a pair of texts, with special tokens.

        Examples:
            >>> encoder.tokenizer.encode(("a cat", "a dog")).segments
            [0, 0, 0, 0, 1, 1, 1]
        """
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[Text]) -> list[Encoding]:
        """As `encode`, for many; an InputError says which text is wrong.

        Examples:
            >>> [len(each.ids) for each in encoder.tokenizer.encode_all(["a", "b c"])]
            [3, 4]
        """
        texts = [plain(text) for text in texts]
        for i, text in enumerate(texts):
            parts = (text, "") if isinstance(text, str) else text
            if not isinstance(parts, tuple) or [type(part) for part in parts] != [str, str]:
                raise InputError(f"text {i} is {shown(text)}: write a string, or a pair of strings")
            try:
                "".join(parts).encode("utf-8")
            except UnicodeEncodeError:
                raise InputError(
                    f"text {i} is {shown(text)}: it contains half a character"
                ) from None
        try:
            usual = self._frame is None
            encodings = self._source.encode_batch(texts, add_special_tokens=usual)
        except BaseException as error:
            raise InputError(f"the tokenizer cannot encode this: {_message(error)}") from None
        return [self._framed(_encoding(raw, self._ids(raw))) for raw in encodings]

    def _framed(self, encoding: Encoding) -> Encoding:
        if self._frame is None:
            return encoding
        before, after = self._frame

        def around(values: list[Any], first: Sequence[Any], last: Sequence[Any]) -> list[Any]:
            return [*first, *values, *last]

        numbers = [[self.id(token) for token in side] for side in (before, after)]
        count = (len(before), len(after))
        return Encoding(
            ids=around(encoding.ids, *numbers),
            tokens=around(encoding.tokens, before, after),
            **{
                name: around(getattr(encoding, name), *([value] * n for n in count))
                for name, value in FRAME.items()
            },
        )

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts without special tokens: the fast way to prepare data.

        Examples:
            >>> [len(ids) for ids in encoder.tokenizer.ids(["a", "b c"])]
            [1, 2]
        """
        try:
            # The fast way has ids only, without the pieces that another vocabulary is asked for.
            own = self._source is self.backend
            encode = self._source.encode_batch_fast if own else self._source.encode_batch
            encodings = encode(list(texts), add_special_tokens=False)
        except BaseException as error:
            raise InputError(f"the tokenizer cannot encode this: {_message(error)}") from None
        return [self._ids(raw) for raw in encodings]

    def _ids(self, raw: tokenizers.Encoding) -> list[int]:
        if self._source is self.backend:
            return raw.ids
        unknown = self.id(self.backend.model.unk_token) or 0
        ids = map(self.backend.token_to_id, raw.tokens)
        return [unknown if number is None else number for number in ids]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids, without special tokens.

        Examples:
            >>> encoder.tokenizer.decode(encoder.tokenizer("The cat sat.").ids)
            'the cat sat.'
        """
        try:
            return self.backend.decode(list(plain(ids)))
        except TypeError:
            raise InputError(f"decode({shown(ids)}): give token ids, such as [17, 5]") from None
        except BaseException as error:
            raise InputError(f"the tokenizer cannot decode this: {_message(error)}") from None

    def id(self, token: str) -> int | None:
        """The id of a token; None if it is not in the vocabulary.

        Examples:
            >>> encoder.tokenizer.id("cat") == encoder.tokenizer("cat").ids[1]
            True
        """
        return self.backend.token_to_id(token)

    def token(self, id: int) -> str:
        """The token with this id, as the vocabulary spells it.

        Examples:
            >>> encoder.tokenizer.token(encoder.tokenizer("cat").ids[1])
            'cat'
        """
        return self.backend.id_to_token(id) or f"<{id}>"

    def readable(self, id: int) -> str:
        """As `token`, but decoded: a byte-level vocabulary spells Кот as ÐļÐ¾ÑĤ.

        Ġ still stands for a space; bytes that are not a whole character stay as spelled.

        Examples:
            >>> decoder.tokenizer.readable(decoder.tokenizer("The cat").ids[-1])
            'Ġcat'
        """
        piece = self.token(id)
        if piece.isascii() or "ByteLevel" not in type(self.backend.decoder).__name__:
            return piece
        text = self.decode([id])
        whole = bool(text) and text.isprintable() and REPLACEMENT not in text
        return text.replace(" ", "Ġ") if whole else piece


def _canonical(backend: tokenizers.Tokenizer) -> str:
    content = json.loads(backend.to_str())
    return json.dumps({k: v for k, v in content.items() if k != "version"}, sort_keys=True)


def _encoding(raw: tokenizers.Encoding, ids: list[int]) -> Encoding:
    return Encoding(
        ids=ids,
        segments=raw.type_ids,
        tokens=raw.tokens,
        spans=raw.offsets,
        special=[bool(flag) for flag in raw.special_tokens_mask],
        texts=raw.sequence_ids,
    )


def _message(error: BaseException) -> str:
    """The library's message. Its panics are not Exceptions; any other BaseException is raised."""
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error
    return shown(" ".join(str(error).split()))
