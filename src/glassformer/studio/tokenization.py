"""Texts of a request to token ids, with what a page shows of each token."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from glassformer.data.special_tokens import MASK, find_id
from glassformer.errors import InputError, shown
from glassformer.glass.measures import SPACES
from glassformer.inference.recording import read_ids
from glassformer.loaded import Model
from glassformer.studio.schemas import Token
from glassformer.text import Encoding, Text, Tokenizer
from glassformer.text.tokenizer import REPLACEMENT

SPECIAL = re.compile(r"\[[A-Z]+\]|<[^<>\s]{1,40}>")  # [CLS], </s>, <|endoftext|>
BLANKS = str.maketrans("ĠĊĉ", " \n\t")  # how a byte-level vocabulary spells white space


@dataclass(frozen=True)
class TokenizedText:
    ids: list[int]
    tokens: list[Token]
    inputs: Text | list[int]  # as `record` takes it
    second: dict[int, str] = field(default_factory=dict)  # its tokens' characters, by their place


def mask_token(tokenizer: Tokenizer | None) -> str | None:
    """How this tokenizer writes a mask, None if it has none."""
    id = None if tokenizer is None else find_id(tokenizer, MASK)
    return None if tokenizer is None or id is None else tokenizer.token(id)


def tokenize(model: Model, text: str, second: str | None = None) -> TokenizedText:
    """A text or a pair of texts; for a model without a tokenizer, numbers.

    Raises InputError if there are no tokens in it.
    """
    if model.tokenizer is None:
        first = read_ids(text)
        return tokenize_ids(model, first + ([] if second is None else read_ids(second)))
    mask = mask_token(model.tokenizer)
    if mask is not None:  # users write [MASK], whatever the model calls it
        text = text.replace(MASK[0], mask)
    inputs = text if second is None else (text, second)
    encoding = model.tokenizer.encode(inputs)
    if not encoding.ids:
        raise InputError(f"the tokenizer finds no token in {shown(text)}: write a text")
    tokens = _tokens(model.tokenizer, encoding, (text, second or ""))
    rows = enumerate(zip(encoding.texts, encoding.special, encoding.spans, strict=True))
    characters = {
        i: (second or "")[start:end]
        for i, (home, special, (start, end)) in rows
        if home == 1 and not special
    }
    return TokenizedText(encoding.ids, tokens, inputs, characters)


def tokenize_target(model: Model, text: str) -> list[int]:
    """The ids of a text without special tokens."""
    if model.tokenizer is None:
        return read_ids(text)
    encoding = model.tokenizer.target.encode(text)
    return [i for i, special in zip(encoding.ids, encoding.special, strict=True) if not special]


def tokenize_ids(model: Model, ids: Sequence[int]) -> TokenizedText:
    """Ids that a model has generated or a user has typed: their text is what they decode to."""
    tokenizer, ids = model.tokenizer, list(ids)
    if tokenizer is None:
        tokens = [
            Token(text=str(i), piece=str(i), special=False, word=n) for n, i in enumerate(ids)
        ]
        return TokenizedText(ids, tokens, ids)
    added = tokenizer.backend.get_added_tokens_decoder()
    ends = [len(tokenizer.decode(ids[:n]).rstrip(REPLACEMENT)) for n in range(len(ids) + 1)]
    encoding = Encoding(
        ids=ids,
        segments=[],
        tokens=[tokenizer.token(i) for i in ids],
        spans=[(start, max(start, end)) for start, end in pairwise(ends)],
        special=[i in added and added[i].special for i in ids],
        texts=[0] * len(ids),
    )
    return TokenizedText(ids, _tokens(tokenizer, encoding, (tokenizer.decode(ids), "")), ids)


def tokens_from_pieces(pieces: Sequence[str]) -> list[Token]:
    """Tokens of which only the vocabulary's spelling is known: ##ing, Ġcat, ▁cat, [SEP]."""
    spaced = any(piece.startswith(tuple(SPACES)) for piece in pieces)
    blanks = BLANKS if any(piece.startswith("Ġ") for piece in pieces) else {}
    tokens: list[Token] = []
    word, inside = -1, False
    for piece in pieces:
        special = SPECIAL.fullmatch(piece) is not None
        plain = piece.removeprefix("##").translate(blanks)
        bare = plain.strip(SPACES)
        continues = piece.startswith("##") or (spaced and piece == bare and bare.isalnum())
        if not special and not (inside and continues):
            word += 1
        inside = not special
        number = None if special else word
        text = bare or plain.replace("▁", " ")
        tokens.append(Token(text=text, piece=piece, special=special, word=number))
    return tokens


def places_of(word: str, tokens: Sequence[Token]) -> list[list[int]]:
    """Where a word stands: the places of its pieces, each time."""
    pieces: dict[object, list[int]] = {}
    for place, token in enumerate(tokens):
        pieces.setdefault(("special", place) if token.word is None else token.word, []).append(
            place
        )
    return [
        places
        for places in pieces.values()
        if "".join(tokens[i].text for i in places).casefold() == word.casefold()
    ]


def _tokens(tokenizer: Tokenizer, encoding: Encoding, texts: tuple[str, str]) -> list[Token]:
    unknown = getattr(tokenizer.backend.model, "unk_token", None)
    tokens: list[Token] = []
    word = -1
    before: tuple[int | None, int] = (None, 0)  # the last piece: its text, and where it ended
    for piece, (start, end), special, home in zip(
        encoding.tokens, encoding.spans, encoding.special, encoding.texts, strict=True
    ):
        text = texts[home or 0]
        raw = text[start:end]
        visible = "" if special or piece == unknown else raw.strip() or raw  # shows a line end
        inside = start < before[1] or (
            start == before[1] > 0 and text[start - 1 : start + 1].isalnum()
        )
        if not special and not (before[0] == home and inside):
            word += 1
        before = (home, end)
        number = None if special else word
        tokens.append(Token(text=visible or piece, piece=piece, special=special, word=number))
    return tokens
