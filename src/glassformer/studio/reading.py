"""From a request's texts to token ids, with what a page shows of each token."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from glassformer.data.special_tokens import MASK, find_id
from glassformer.errors import InputError, shown
from glassformer.glass.measures import SPACES
from glassformer.loaded import Model
from glassformer.studio.schemas import Token
from glassformer.text import Encoding, Text, Tokenizer
from glassformer.text.tokenizer import REPLACEMENT

SPECIAL = re.compile(r"\[[A-Z]+\]|<[^<>\s]{1,40}>")  # [CLS], </s>, <|endoftext|>
NO_TOKENIZER = "this model came without a tokenizer: write token ids, such as 5 7 9"


@dataclass(frozen=True)
class TokenizedText:
    ids: list[int]
    shown: list[Token]
    what: Text | list[int]  # as `record` takes it


def mask_of(tokenizer: Tokenizer | None) -> str | None:
    found = None if tokenizer is None else find_id(tokenizer, MASK)
    return None if tokenizer is None or found is None else tokenizer.token(found)


def read(model: Model, text: str, second: str | None = None) -> TokenizedText:
    """A text or a pair; of a model without a tokenizer, numbers."""
    if model.tokenizer is None:
        first = _numbers(text)
        return of_ids(model, first + ([] if second is None else _numbers(second)))
    mask = mask_of(model.tokenizer)
    if mask is not None:  # a blank may be written [MASK], whatever the model calls it
        text = text.replace(MASK[0], mask)
    what = text if second is None else (text, second)
    found = model.tokenizer.encode(what)
    if not found.ids:
        raise InputError(f"the tokenizer finds no token in {shown(text)}: write a text")
    return TokenizedText(found.ids, _shown(model.tokenizer, found, (text, second or "")), what)


def read_target(model: Model, text: str) -> list[int]:
    """What stands in a text itself, nothing around it."""
    if model.tokenizer is None:
        return _numbers(text)
    found = model.tokenizer.encode(text)
    return [i for i, special in zip(found.ids, found.special, strict=True) if not special]


def of_ids(model: Model, ids: Sequence[int]) -> TokenizedText:
    """Ids that a model has written, or that came as numbers: their text is what they spell."""
    tokenizer, held = model.tokenizer, list(ids)
    if tokenizer is None:
        plain = [
            Token(text=str(i), piece=str(i), special=False, word=n) for n, i in enumerate(held)
        ]
        return TokenizedText(held, plain, held)
    known = tokenizer.backend.get_added_tokens_decoder()
    ends = [len(tokenizer.decode(held[:n]).rstrip(REPLACEMENT)) for n in range(len(held) + 1)]
    found = Encoding(
        ids=held,
        segments=[],
        tokens=[tokenizer.token(i) for i in held],
        spans=[(start, max(start, end)) for start, end in pairwise(ends)],
        special=[i in known and known[i].special for i in held],
        texts=[0] * len(held),
    )
    return TokenizedText(held, _shown(tokenizer, found, (tokenizer.decode(held), "")), held)


def of_pieces(pieces: Sequence[str]) -> list[Token]:
    """Tokens of which only the names in the vocabulary are known: ##ing, Ġcat, ▁cat, [SEP]."""
    spaced = any(piece.startswith(tuple(SPACES)) for piece in pieces)
    tokens: list[Token] = []
    word, inside = -1, False
    for piece in pieces:
        special = SPECIAL.fullmatch(piece) is not None
        bare = piece.removeprefix("##").strip(SPACES)
        goes_on = piece.startswith("##") or (spaced and piece == bare and bare.isalnum())
        if not special and not (inside and goes_on):
            word += 1
        inside = not special
        number = None if special else word
        tokens.append(Token(text=bare or piece, piece=piece, special=special, word=number))
    return tokens


def _numbers(text: str) -> list[int]:
    words = text.split()
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise InputError(NO_TOKENIZER)
    if max(map(len, words)) > 9:
        raise InputError(f"{shown(max(words, key=len))} is no token id: write smaller numbers")
    return [int(word) for word in words]


def _shown(tokenizer: Tokenizer, found: Encoding, texts: tuple[str, str]) -> list[Token]:
    unknown = getattr(tokenizer.backend.model, "unk_token", None)
    tokens: list[Token] = []
    word = -1
    before: tuple[int | None, int] = (None, 0)  # which text, and where the last piece ended
    for piece, (start, end), special, home in zip(
        found.tokens, found.spans, found.special, found.texts, strict=True
    ):
        text = texts[home or 0]
        raw = text[start:end]
        seen = "" if special or piece == unknown else raw.strip() or raw  # a line end is shown
        inside = start < before[1] or (
            start == before[1] > 0 and text[start - 1 : start + 1].isalnum()
        )
        if not special and not (before[0] == home and inside):
            word += 1
        before = (home, end)
        number = None if special else word
        tokens.append(Token(text=seen or piece, piece=piece, special=special, word=number))
    return tokens
