"""The tokenizer in a GGUF file, converted to the files of a model folder."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.checkpoint.gguf_header import GgufHeader
from glassformer.errors import shown
from glassformer.text.check import check_merges
from glassformer.text.sentencepiece import PieceLayout, tokenizer_json
from glassformer.text.spm_proto import (
    MAX_PIECE,
    Piece,
    PieceKind,
    SentencePieceModel,
    check_pieces,
)

PREFIX = "tokenizer.ggml."
CHARSMAP = PREFIX + "precompiled_charsmap"
ROLES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}
AS_PIECE: dict[int, PieceKind] = {  # by token_type
    **{kind: kind for kind in PieceKind},
    PieceKind.USER_DEFINED: PieceKind.NORMAL,
    PieceKind.UNUSED: PieceKind.CONTROL,
}
BYTES: Mapping[str, Any] = {
    "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False,
}  # fmt: skip
GPT2_WORDS = {**BYTES, "use_regex": True}
DIGITS: Mapping[str, Any] = {"type": "Digits", "individual_digits": True}
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}NUMBER"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _split(number: str) -> dict[str, Any]:
    pattern = {"Regex": WORDS.replace("NUMBER", number)}
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


@dataclass(frozen=True)
class Pieces:
    """How a text is split before its bytes are merged."""

    steps: tuple[Mapping[str, Any], ...]
    normalizer: Mapping[str, Any] | None = None
    whole_first: bool = False  # a piece that is a token is not merged
    starts: bool = False  # add bos_token, unless the file says otherwise


LLAMA3 = Pieces((_split("{1,3}"), BYTES), whole_first=True, starts=True)
PIECES = {  # by their names in llama.cpp
    "gpt-2": Pieces((GPT2_WORDS,)),
    "smollm": Pieces((DIGITS, GPT2_WORDS)),
    "qwen2": Pieces((_split(""), BYTES), normalizer={"type": "NFC"}),
    "llama-bpe": LLAMA3,
    "llama-v3": LLAMA3,
    "llama3": LLAMA3,
}


def tokenizer_files(header: GgufHeader) -> dict[str, bytes]:
    """The files; none, and a warning, if this type of tokenizer cannot be converted exactly."""
    kind = header.value(PREFIX + "model")
    if kind in (None, "none", "no_vocab"):
        return {}
    convert = CONVERTERS.get(kind) if isinstance(kind, str) else None
    written = None if convert is None else convert(header)
    if written is None:
        warnings.warn(
            f"{header.source}: a tokenizer of {PREFIX}model = {shown(kind)}, {PREFIX}pre = "
            f"{shown(header.value(PREFIX + 'pre'))} is not supported: the model is loaded without "
            "a tokenizer",
            stacklevel=5,
        )
        return {}
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # uses tokenizer.json as it is
        "clean_up_tokenization_spaces": False,
        **_roles(header, _tokens(header)),
    }
    template = header.value("tokenizer.chat_template")
    if isinstance(template, str):
        settings["chat_template"] = template
    return {
        "tokenizer.json": json.dumps(written, ensure_ascii=False).encode(),
        "tokenizer_config.json": json.dumps(settings, ensure_ascii=False, indent=2).encode(),
    }


def _byte_level(header: GgufHeader) -> dict[str, Any] | None:
    """GPT-2's kind: bytes, and merges in their order."""
    pre = header.value(PREFIX + "pre")
    pieces = PIECES.get(pre) if isinstance(pre, str) else None
    if pieces is None or header.value(PREFIX + "add_space_prefix", False) is not False:
        return None
    tokens = _tokens(header)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(tokens, _kinds(header, tokens)),
        "normalizer": pieces.normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": pieces.steps},
        "post_processor": _template(header, tokens, starts=pieces.starts),
        "decoder": GPT2_WORDS,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": pieces.whole_first, "vocab": vocabulary,
            "merges": _merges(header, vocabulary),
        },
    }  # fmt: skip


def _scored(header: GgufHeader) -> dict[str, Any] | None:
    """SentencePiece's BPE, as llama.cpp has it: a text is split at the symbols of the user. They
    are pieces, too, which are joined first: ▁▁ is found where a text has two spaces."""
    prefixed = header.value(PREFIX + "add_space_prefix", True)
    spaces = header.value(PREFIX + "remove_extra_whitespaces", False)
    if type(prefixed) is not bool or spaces is not False or CHARSMAP in header.fields:
        return None
    tokens = _tokens(header)
    kinds = _kinds(header, tokens)
    scores = header.items(PREFIX + "scores", texts=False)
    if len(scores) != len(tokens):
        raise header.wrong(f"{PREFIX}scores has {len(scores):,} items for {len(tokens):,} tokens")
    first, pieces = max(scores, default=0.0) + 1, []
    for token, score, kind in zip(tokens, scores, kinds, strict=True):
        if kind not in AS_PIECE or len(token) > MAX_PIECE:
            raise header.wrong(
                f"{PREFIX}tokens: {shown(token)} of type {shown(kind)}: only types 1 to 6 and "
                f"{MAX_PIECE} characters are supported"
            )
        score = first if kind == PieceKind.USER_DEFINED else score
        pieces.append(Piece(token, float(score), AS_PIECE[kind]))
    model = SentencePieceModel(
        pieces, merges=True, charsmap=b"", dummy_prefix=prefixed, one_space=False
    )
    check_pieces(model, header.source)
    return tokenizer_json(model, pieces, PieceLayout()) | {
        "added_tokens": _added(tokens, kinds),
        "post_processor": _template(header, tokens, starts=True),
    }


CONVERTERS = {"gpt2": _byte_level, "llama": _scored}  # by tokenizer.ggml.model


def _tokens(header: GgufHeader) -> list[str]:
    tokens: list[str] = header.items(PREFIX + "tokens", texts=True)
    numbers = {token: number for number, token in enumerate(tokens)}
    if len(numbers) != len(tokens):
        twice = next(token for number, token in enumerate(tokens) if numbers[token] != number)
        raise header.wrong(f"{PREFIX}tokens: {shown(twice)} is there twice")
    return tokens


def _roles(header: GgufHeader, tokens: Sequence[str]) -> dict[str, str]:
    """The tokens that start a text, end it, …"""
    roles = {}
    for role, name in ROLES.items():
        number = header.value(PREFIX + name)
        if number is None:
            continue
        if type(number) is not int or not 0 <= number < len(tokens):
            raise header.wrong(
                f"{PREFIX}{name} = {shown(number)}: there are {len(tokens):,} tokens"
            )
        roles[role] = tokens[number]
    return roles


def _kinds(header: GgufHeader, tokens: Sequence[str]) -> list[int]:
    name = PREFIX + "token_type"
    kinds = header.items(name, texts=False) if name in header.fields else [1] * len(tokens)
    if len(kinds) != len(tokens):
        raise header.wrong(f"{name} has {len(kinds):,} items, and there are {len(tokens):,} tokens")
    return kinds


def _added(tokens: Sequence[str], kinds: Sequence[int]) -> list[dict[str, Any]]:
    alike = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": number, "content": token, **alike, "special": kind == PieceKind.CONTROL}
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (PieceKind.CONTROL, PieceKind.USER_DEFINED)
    ]


def _merges(header: GgufHeader, vocabulary: Mapping[str, int]) -> list[list[str]]:
    name = PREFIX + "merges"
    merges = [merge.split(" ") for merge in header.items(name, texts=True)]
    check_merges(((f"{header.source}: {name}", pair) for pair in merges), vocabulary)
    return merges


def _template(header: GgufHeader, tokens: Sequence[str], *, starts: bool) -> dict[str, Any] | None:
    """The special tokens around a text, as a post-processor."""
    roles, around = _roles(header, tokens), []
    for role, name, usual in (
        ("bos_token", "add_bos_token", starts),
        ("eos_token", "add_eos_token", False),
    ):
        add = header.value(PREFIX + name, usual)
        if type(add) is not bool or (add and role not in roles):
            raise header.wrong(f"{PREFIX}{name} = {shown(add)}: {PREFIX}{ROLES[role]} is needed")
        around.append([roles[role]] if add else [])
    before, after = around
    if not before and not after:
        return None

    def text(name: str, segment: int) -> list[dict[str, Any]]:
        first, last = (
            [{"SpecialToken": {"id": token, "type_id": segment}} for token in side]
            for side in around
        )
        return [*first, {"Sequence": {"id": name, "type_id": segment}}, *last]

    return {
        "type": "TemplateProcessing",
        "single": text("A", 0),
        "pair": text("A", 0) + text("B", 1),
        "special_tokens": {
            token: {"id": token, "ids": [tokens.index(token)], "tokens": [token]}
            for token in before + after
        },
    }
