"""The tokenizer in a model folder: its files, and what they may contain."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import CheckpointError, shown
from glassformer.strictjson import parse
from glassformer.text.check import check_json, check_merges, check_vocab
from glassformer.text.parts import FLAG, check_fields, maybe
from glassformer.text.sentencepiece import FAIRSEQ, ONE_FILE, PieceLayout, piece_layout, to_json

JSON, SETTINGS, OLD = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
MARIAN = ("</s>", "<unk>", "<pad>")
LANGUAGE = re.compile(r">>\w{2,20}<<")  # a token that names the target language
# By language_codes in tokenizer_config.json; their ids follow those of vocab.json, in this order.
M2M100_LANGUAGES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga "
    "gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
    "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn "
    "tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
# The size of a file is limited by its model's vocabulary: Llama 3's has 130 bytes and 8 values per
# token.
FREE_BYTES, BYTES_PER_TOKEN = 4 << 20, 512
FREE_VALUES, VALUES_PER_TOKEN, MAX_VALUES = 50_000, 16, 2_500_000


Backends = tuple[tokenizers.Tokenizer, ...]  # the arguments of `Tokenizer`


def from_json(files: Mapping[str, bytes], vocab_size: int) -> Backends:
    """tokenizer.json, the file of the `tokenizers` library."""
    return (_checked(files[JSON], JSON, vocab_size),)


def _checked(data: bytes, name: str, vocab_size: int) -> tokenizers.Tokenizer:
    content = parse(data, name, values=_values(vocab_size))
    for part in check_json(content, name, vocab_size):
        # The library panics at an escape.
        if part.get("precompiled_charsmap", "").encode() not in data:
            raise CheckpointError(f"{name}: precompiled_charsmap: write it without escapes")
    backend = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
    for token in content.get("added_tokens") or ():
        text = spelled = token["content"]
        if token["normalized"] and backend.normalizer:
            spelled = backend.normalizer.normalize_str(text)
        if not spelled:
            raise CheckpointError(
                f"{name}: added_tokens: the normalizer turns {shown(text)} into nothing"
            )
        if spelled.isspace() and (token["lstrip"] or token["rstrip"]):
            # For each space the library looks at all spaces beside it, again and again.
            raise CheckpointError(
                f"{name}: added_tokens: {shown(text)} is white space: write lstrip = false and "
                "rstrip = false"
            )
        actual = backend.token_to_id(text)
        if actual != token["id"]:  # the library ignores the id and counts on from the vocabulary
            raise CheckpointError(
                f"{name}: added_tokens: {shown(text)} has id {token['id']} and would "
                f"get {actual}: number added tokens on from the vocabulary"
            )
    return backend


def from_wordpiece(files: Mapping[str, bytes], vocab_size: int) -> Backends:
    """BERT's vocab.txt: one piece per line; the line number, from 0, is its id."""
    settings = _settings(files, "do_lower_case", "strip_accents", "tokenize_chinese_chars")
    vocab: dict[str, int] = {}
    for i, piece in enumerate(_lines(files, "vocab.txt", vocab_size)):
        if piece in vocab:
            raise CheckpointError(
                f"vocab.txt: line {i + 1}: {shown(piece)} is in line {vocab[piece] + 1} already"
            )
        if piece:
            vocab[piece] = i
    for needed in ("[UNK]", "[CLS]", "[SEP]"):
        if needed not in vocab:
            raise CheckpointError(f"vocab.txt: {needed} is missing: write it on a line of its own")
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))  # noqa: S106
    backend.normalizer = normalizers.BertNormalizer(
        lowercase=settings.get("do_lower_case") is not False,
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars") is not False,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    special = [t for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if t in vocab]
    backend.add_special_tokens(special)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocab[token]) for token in ("[CLS]", "[SEP]")],
    )
    return (backend,)


def from_bpe(files: Mapping[str, bytes], vocab_size: int) -> Backends:
    """GPT-2's vocab.json and merges.txt: byte-level BPE."""
    vocab = parse(files["vocab.json"], "vocab.json", values=_values(vocab_size))
    check_vocab(vocab, "vocab.json")
    lines = [(i, line) for i, line in enumerate(_lines(files, "merges.txt", vocab_size), 1) if line]
    written = [(i, line) for i, line in lines if not line.startswith("#version")]
    check_merges(((f"merges.txt: line {i}", line.split(" ")) for i, line in written), vocab)
    merges = [(left, right) for left, _, right in (line.partition(" ") for _, line in written)]
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    space = _settings(files, "add_prefix_space").get("add_prefix_space") is True
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    if "<|endoftext|>" in vocab:
        backend.add_special_tokens(["<|endoftext|>"])
    return (backend,)


def from_sentencepiece(files: Mapping[str, bytes], vocab_size: int) -> Backends:
    """The one file of T5, Llama, XLM-RoBERTa, DeBERTa and others; see `sentencepiece`."""
    name = next(name for name in ONE_FILE if name in files)
    layout = piece_layout(_all_settings(files), SETTINGS, name)
    return (_from_pieces(files, name, layout, vocab_size),)


def _all_settings(files: Mapping[str, bytes]) -> dict[str, Any]:
    """tokenizer_config.json, and what only an older file beside it lists."""
    return {**parse(files.get(OLD, b"{}"), OLD), **parse(files.get(SETTINGS, b"{}"), SETTINGS)}


def from_m2m100(files: Mapping[str, bytes], vocab_size: int) -> Backends:
    """M2M100's pieces, vocab.json with their ids, and a token per language after them."""
    vocab = parse(files["vocab.json"], "vocab.json", values=_values(vocab_size))
    check_vocab(vocab, "vocab.json")
    settings = _all_settings(files)
    codes = M2M100_LANGUAGES.get(str(settings.get("language_codes") or "m2m100"))
    if codes is None:
        raise CheckpointError(
            f"{SETTINGS}: language_codes = {shown(settings['language_codes'])} is not known: write "
            f"one of {', '.join(M2M100_LANGUAGES)}"
        )
    if missing := [token for token in FAIRSEQ.first if token not in vocab]:
        raise CheckpointError(f"vocab.json: {missing[0]} is missing: write it and its id")
    languages = [f"__{code}__" for code in codes.split()]
    vocab |= {token: len(vocab) + i for i, token in enumerate(languages)}
    special = (*FAIRSEQ.first, *languages)
    return _with_vocab(files, vocab, special, ("sentencepiece.bpe.model",), vocab_size)


def _with_vocab(
    files: Mapping[str, bytes],
    vocab: Mapping[str, int],
    special: Sequence[str],
    models_of_pieces: Sequence[str],
    vocab_size: int,
) -> Backends:
    """SentencePiece models that only split texts: the ids of their pieces are in `vocab`."""
    backend = tokenizers.Tokenizer(models.WordLevel(dict(vocab), unk_token="<unk>"))  # noqa: S106
    backend.add_special_tokens(list(special))
    layout = PieceLayout(after=("</s>",), more=tuple(special))
    sides = [_from_pieces(files, name, layout, vocab_size) for name in models_of_pieces]
    backend.decoder = sides[-1].decoder
    return (backend, *sides)


def from_marian(files: Mapping[str, bytes], vocab_size: int) -> Backends:
    """Marian's pieces of either language, and vocab.json with the ids of both."""
    vocab = parse(files["vocab.json"], "vocab.json", values=_values(vocab_size))
    check_vocab(vocab, "vocab.json")
    special = [token for token in vocab if token in MARIAN or LANGUAGE.fullmatch(token)]
    if missing := [token for token in MARIAN if token not in special]:
        raise CheckpointError(f"vocab.json: {missing[0]} is missing: write it and its id")
    return _with_vocab(files, vocab, special, ("source.spm", "target.spm"), vocab_size)


def _from_pieces(
    files: Mapping[str, bytes], name: str, layout: PieceLayout, vocab_size: int
) -> tokenizers.Tokenizer:
    return _checked(to_json(files[name], name, layout, _values(vocab_size)), name, vocab_size)


def check_size(data: bytes, name: str, vocab_size: int) -> None:
    """Refuse a file that is far too large for a vocabulary of this size."""
    limit = FREE_BYTES + BYTES_PER_TOKEN * vocab_size
    if len(data) > limit:
        raise CheckpointError(
            f"{name}: {len(data):,} bytes, more than the {limit:,} that {vocab_size:,} tokens need"
        )


def _values(vocab_size: int) -> int:
    return min(FREE_VALUES + VALUES_PER_TOKEN * vocab_size, MAX_VALUES)


def _lines(files: Mapping[str, bytes], name: str, vocab_size: int) -> list[str]:
    data, limit = files[name], _values(vocab_size)
    if data.count(b"\n") > limit:
        raise CheckpointError(f"{name}: more than {limit:,} lines")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{name}: not UTF-8 text: {error}") from None
    if text.startswith("\ufeff"):
        raise CheckpointError(f"{name}: it starts with a byte order mark: save it without one")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    for i, line in enumerate(lines, 1):
        if len(line) > 2000:
            raise CheckpointError(f"{name}: line {i} has {len(line):,} characters, more than 2,000")
    return lines


def _settings(files: Mapping[str, bytes], *flags: str) -> dict[str, Any]:
    """These flags of tokenizer_config.json, each true, false or null."""
    content = parse(files.get(SETTINGS, b"{}"), SETTINGS)
    settings = {name: content[name] for name in flags if name in content}
    check_fields(settings, dict.fromkeys(flags, maybe(FLAG)), SETTINGS)
    return settings


LAYOUTS: dict[tuple[str, ...], Callable[[Mapping[str, bytes], int], Backends]] = {
    (JSON,): from_json,
    ("vocab.txt",): from_wordpiece,
    ("vocab.json", "merges.txt"): from_bpe,
    ("source.spm", "target.spm", "vocab.json"): from_marian,
    ("vocab.json", "sentencepiece.bpe.model"): from_m2m100,
    **{(name,): from_sentencepiece for name in ONE_FILE},
}
