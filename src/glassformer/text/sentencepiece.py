"""SentencePiece models as tokenizers of the `tokenizers` library, with the same pieces and ids.

A text is normalized, a space is added before it, and every space becomes ▁. Unigram then takes the
segmentation with the highest sum of scores, BPE joins the neighbours whose joint piece has the
highest score. The result is a tokenizer.json, checked like any other.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.errors import CheckpointError, shown
from glassformer.text.parts import MAX_PARTS
from glassformer.text.spm_proto import Piece, PieceKind, SentencePieceModel, read_model

ONE_FILE = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model")
MODEL_FILES = ("source.spm", "target.spm", *ONE_FILE)
SPACE = "▁"
PART = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


@dataclass(frozen=True)
class PieceLayout:
    """What a family of models does with the pieces of a SentencePiece model."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    between: tuple[str, ...] = ()  # of a pair
    second: int = 0  # the segment of a pair's second text
    first: tuple[str, ...] = ()  # they have the lowest ids, instead of the model's first pieces
    skip: int = 0  # of the model's first pieces
    more: tuple[str, ...] = ()  # they follow the pieces
    # What fields of tokenizer_config.json say:
    unsupported: tuple[str, ...] = ()  # these must be false
    listed: bool = False  # additional_special_tokens come before `more`
    counted: str = ""  # how many of `more` there are, the last ones


T5 = PieceLayout(
    after=("</s>",), between=("</s>",), more=tuple(f"<extra_id_{99 - i}>" for i in range(100)),
    counted="extra_ids",
)  # fmt: skip
LLAMA = PieceLayout(before=("<s>",))
FAIRSEQ = PieceLayout(
    before=("<s>",), after=("</s>",), between=("</s>", "</s>"),
    first=("<s>", "<pad>", "</s>", "<unk>"), skip=3, more=("<mask>",),
)  # fmt: skip
DEBERTA = PieceLayout(
    before=("[CLS]",), after=("[SEP]",), between=("[SEP]",), second=1, more=("[MASK]",),
    unsupported=("do_lower_case", "split_by_punct"),
)  # fmt: skip
# Language tokens, which other files list, and <mask> follow the pieces.
LANGUAGES = replace(FAIRSEQ, before=(), between=(), listed=True)
PIECE_LAYOUTS = {  # by tokenizer_class in tokenizer_config.json
    "T5Tokenizer": T5,
    "MT5Tokenizer": T5,
    "LlamaTokenizer": LLAMA,
    "XLMRobertaTokenizer": FAIRSEQ,
    "DebertaV2Tokenizer": DEBERTA,
    **dict.fromkeys(("MBartTokenizer", "MBart50Tokenizer", "NllbTokenizer"), LANGUAGES),
}
USUAL = {"spm.model": DEBERTA}  # by the name of the file, if the class is not named


def piece_layout(settings: Mapping[str, Any], name: str, file: str) -> PieceLayout:
    """The layout that tokenizer_config.json names, or the usual one of such a file; by default
    pieces and nothing else."""
    kind = str(settings.get("tokenizer_class") or "").removesuffix("Fast")
    if kind and kind not in PIECE_LAYOUTS:
        raise CheckpointError(
            f"{name}: tokenizer_class = {kind!r:.60}: without a tokenizer.json, only "
            f"{', '.join(PIECE_LAYOUTS)} are supported"
        )
    layout = PIECE_LAYOUTS[kind] if kind else USUAL.get(file, PieceLayout())
    for flag in layout.unsupported:
        if settings.get(flag):
            raise CheckpointError(
                f"{name}: {flag} = {shown(settings[flag])}: without a tokenizer.json, only false "
                "is supported"
            )
    if layout.listed:
        layout = replace(layout, more=(*listed_tokens(settings, name, kind), *layout.more))
    if not layout.counted:
        return layout
    most = len(layout.more)
    count = settings.get(layout.counted, most)
    if type(count) is not int or not 0 <= count <= most:
        raise CheckpointError(
            f"{name}: {layout.counted} = {shown(count)}: write a number from 0 to {most}"
        )
    return replace(layout, more=layout.more[most - count :])


def listed_tokens(settings: Mapping[str, Any], name: str, kind: str) -> tuple[str, ...]:
    """The language tokens that the settings list, in the order of their ids."""
    listed = settings.get("additional_special_tokens") or settings.get("extra_special_tokens")
    contents = [each.get("content") if isinstance(each, dict) else each for each in listed or ()]
    if not contents or not all(isinstance(each, str) and each for each in contents):
        raise CheckpointError(
            f"{name}: additional_special_tokens = {shown(listed)}: without a tokenizer.json, a "
            f"{kind} needs the list of its language tokens"
        )
    others = {*FAIRSEQ.first, *FAIRSEQ.more}
    return tuple(dict.fromkeys(str(each) for each in contents if each not in others))


def to_json(data: bytes, name: str, layout: PieceLayout, most: int) -> bytes:
    """The tokenizer.json of a SentencePiece model file with at most so many pieces."""
    model = read_model(data, name, most)
    kinds = {piece.text: piece.kind for piece in model.pieces}
    first = [Piece(text, 0.0, kinds.get(text, PieceKind.CONTROL)) for text in layout.first]
    pieces = first + model.pieces[layout.skip :]
    pieces += [Piece(text, 0.0, PieceKind.CONTROL) for text in layout.more if text not in kinds]
    known = {piece.text for piece in pieces}
    for text in (*layout.before, *layout.after, *layout.between):
        if text not in known:
            raise CheckpointError(f"{name}: the piece {text} is missing, which such a model needs")
    return json.dumps(tokenizer_json(model, pieces, layout), ensure_ascii=False).encode()


def tokenizer_json(
    model: SentencePieceModel, pieces: Sequence[Piece], layout: PieceLayout
) -> dict[str, Any]:
    """The content of a tokenizer.json with these pieces, in the order of their ids."""
    ids = {piece.text: number for number, piece in enumerate(pieces)}
    special = (PieceKind.CONTROL, PieceKind.UNKNOWN)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": ids[piece.text], "content": piece.text, **PART, "special": True}
            for piece in pieces
            if piece.kind in special
        ],
        "normalizer": _sequence("normalizers", _normalizers(model)),
        "pre_tokenizer": _sequence("pretokenizers", _splits(model, pieces)),
        "post_processor": _template(layout, ids),
        "decoder": _sequence("decoders", _decoders(model)),
        "model": _bpe(pieces) if model.merges else _unigram(pieces),
    }


def _normalizers(model: SentencePieceModel) -> Iterable[dict[str, Any]]:
    if model.charsmap:
        text = base64.b64encode(model.charsmap).decode()
        yield {"type": "Precompiled", "precompiled_charsmap": text}
    if model.one_space:
        yield _replace({"Regex": " {2,}"}, " ")
        yield _replace({"Regex": "^ | $"}, "")
    if model.dummy_prefix:
        yield {"type": "Prepend", "prepend": " "}
    yield _replace({"String": " "}, SPACE)


def _decoders(model: SentencePieceModel) -> Iterable[dict[str, Any]]:
    yield _replace({"String": SPACE}, " ")
    yield {"type": "ByteFallback"}
    yield {"type": "Fuse"}
    if model.one_space or model.dummy_prefix:
        yield {"type": "Strip", "content": " ", "start": 64 if model.one_space else 1, "stop": 0}


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _splits(model: SentencePieceModel, pieces: Sequence[Piece]) -> Iterable[dict[str, Any]]:
    """Symbols of the user are never split by BPE; in Unigram their scores see to that.

    Words can be segmented one by one, unless a piece reaches from one into the next.
    """
    symbols = model.of(PieceKind.USER_DEFINED) if model.merges else []
    if len(symbols) >= MAX_PARTS:
        raise CheckpointError(
            f"a BPE model with {len(symbols):,} user-defined symbols: without a tokenizer.json, at "
            f"most {MAX_PARTS - 1} are supported"
        )
    yield from (_split(piece.text, "Isolated") for piece in symbols)
    if not any(SPACE in piece.text[1:] for piece in pieces):
        yield _split(SPACE, "MergedWithNext")


def _sequence(name: str, parts: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    several = list(parts)
    return {"type": "Sequence", name: several} if several else None


def _split(text: str, behavior: str) -> dict[str, Any]:
    return {
        "type": "Split", "pattern": {"String": text}, "behavior": behavior, "invert": False,
    }  # fmt: skip


def _unigram(pieces: Sequence[Piece]) -> dict[str, Any]:
    normal = [piece.score for piece in pieces if piece.kind == PieceKind.NORMAL] or [0.0]
    scores = {  # as SentencePiece counts them
        PieceKind.USER_DEFINED: lambda text: len(text.encode()) * max(normal) - 0.1,
        PieceKind.BYTE: lambda text: min(normal),
    }
    vocab = [
        [each.text, scores[each.kind](each.text) if each.kind in scores else each.score]
        for each in pieces
    ]
    unknown = next(number for number, piece in enumerate(pieces) if piece.kind == PieceKind.UNKNOWN)
    byte_fallback = any(piece.kind == PieceKind.BYTE for piece in pieces)
    return {"type": "Unigram", "unk_id": unknown, "vocab": vocab, "byte_fallback": byte_fallback}


def _bpe(pieces: Sequence[Piece]) -> dict[str, Any]:
    vocab = {piece.text: number for number, piece in enumerate(pieces)}
    normal = {piece.text: piece.score for piece in pieces if piece.kind == PieceKind.NORMAL}
    merges = [
        (-score, vocab[text[:at]], [text[:at], text[at:]])
        for text, score in normal.items()
        for at in range(1, len(text))
        if text[:at] in normal and text[at:] in normal
    ]
    return {
        "type": "BPE", "dropout": None, "continuing_subword_prefix": None,
        "unk_token": next(piece.text for piece in pieces if piece.kind == PieceKind.UNKNOWN),
        "end_of_word_suffix": None, "fuse_unk": True,
        "ignore_merges": any(piece.kind == PieceKind.USER_DEFINED for piece in pieces),
        "byte_fallback": any(piece.kind == PieceKind.BYTE for piece in pieces),
        "vocab": vocab, "merges": [pair for _, _, pair in sorted(merges)],
    }  # fmt: skip


def _template(layout: PieceLayout, ids: Mapping[str, int]) -> dict[str, Any] | None:
    used = dict.fromkeys(layout.before + layout.after + layout.between)
    if not used:
        return None
    second = layout.second
    before, after, between, last = (
        [{"SpecialToken": {"id": token, "type_id": segment}} for token in side]
        for side, segment in (
            (layout.before, 0), (layout.after, 0), (layout.between, 0), (layout.after, second),
        )
    )  # fmt: skip
    a = {"Sequence": {"id": "A", "type_id": 0}}
    b = {"Sequence": {"id": "B", "type_id": second}}
    return {
        "type": "TemplateProcessing",
        "single": [*before, a, *after],
        "pair": [*before, a, *between, b, *last],
        "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in used},
    }
