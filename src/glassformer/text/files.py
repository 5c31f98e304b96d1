"""The tokenizer in a model folder: which files hold it, and what may be in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import CheckpointError, shown
from glassformer.strictjson import parse
from glassformer.text.check import check_json, check_merges, check_vocab
from glassformer.text.parts import FLAG, check_fields, maybe

JSON, SETTINGS = "tokenizer.json", "tokenizer_config.json"
# A file may be as large as its model's vocabulary gives reason for: Llama 3's has 130 bytes and 8
# values a word.
FREE_BYTES, BYTES_A_WORD = 4 << 20, 512
FREE_VALUES, VALUES_A_WORD, MOST_VALUES = 50_000, 16, 2_500_000


def from_json(files: Mapping[str, bytes], words: int) -> tokenizers.Tokenizer:
    data = files[JSON]
    found = parse(data, JSON, values=_values(words))
    for part in check_json(found, JSON):
        if part.get("precompiled_charsmap", "").encode() not in data:  # it panics at an escape
            raise CheckpointError(f"{JSON}: precompiled_charsmap: write it without escapes")
    backend = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
    for token in found.get("added_tokens") or ():
        content = token["content"]
        if (
            token["normalized"]
            and backend.normalizer
            and not backend.normalizer.normalize_str(content)
        ):
            raise CheckpointError(
                f"{JSON}: added_tokens: the normalizer makes {shown(content)} nothing"
            )
        given = backend.token_to_id(content)
        if given != token["id"]:  # the library counts on from the vocabulary, whatever is written
            raise CheckpointError(
                f"{JSON}: added_tokens: {shown(content)} has id {token['id']} and would "
                f"get {given}: number added tokens on from the vocabulary"
            )
    return backend


def from_wordpiece(files: Mapping[str, bytes], words: int) -> tokenizers.Tokenizer:
    """BERT's vocab.txt: one piece a line, its number is its id."""
    settings = _settings(files, "do_lower_case", "strip_accents", "tokenize_chinese_chars")
    vocab: dict[str, int] = {}
    for i, piece in enumerate(_lines(files, "vocab.txt", words)):
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
    return backend


def from_bpe(files: Mapping[str, bytes], words: int) -> tokenizers.Tokenizer:
    """GPT-2's vocab.json and merges.txt: pieces of bytes."""
    vocab = parse(files["vocab.json"], "vocab.json", values=_values(words))
    check_vocab(vocab, "vocab.json")
    lines = [(i, line) for i, line in enumerate(_lines(files, "merges.txt", words), 1) if line]
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
    return backend


def check_size(data: bytes, name: str, words: int) -> None:
    most = FREE_BYTES + BYTES_A_WORD * words
    if len(data) > most:
        raise CheckpointError(
            f"{name}: {len(data):,} bytes, more than the {most:,} a model of {words:,} words needs"
        )


def _values(words: int) -> int:
    return min(FREE_VALUES + VALUES_A_WORD * words, MOST_VALUES)


def _lines(files: Mapping[str, bytes], name: str, words: int) -> list[str]:
    data, most = files[name], _values(words)
    if data.count(b"\n") > most:
        raise CheckpointError(f"{name}: more than {most:,} lines")
    try:
        found = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{name}: not UTF-8 text: {error}") from None
    if found.startswith("\ufeff"):
        raise CheckpointError(f"{name}: it begins with a byte order mark: save it without one")
    lines = [line.removesuffix("\r") for line in found.split("\n")]
    for i, line in enumerate(lines, 1):
        if len(line) > 2000:
            raise CheckpointError(f"{name}: line {i} has {len(line):,} characters, more than 2,000")
    return lines


def _settings(files: Mapping[str, bytes], *flags: str) -> dict[str, Any]:
    """Of tokenizer_config.json only these, each true, false or null."""
    found = parse(files.get(SETTINGS, b"{}"), SETTINGS)
    wanted = {name: found[name] for name in flags if name in found}
    check_fields(wanted, dict.fromkeys(flags, maybe(FLAG)), SETTINGS)
    return wanted


LAYOUTS = {
    (JSON,): from_json,
    ("vocab.txt",): from_wordpiece,
    ("vocab.json", "merges.txt"): from_bpe,
}
