"""Between text and token ids, over the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import CheckpointError, InputError
from glassformer.strictjson import parse

Text = str | tuple[str, str]
SETTINGS = "tokenizer_config.json"


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
    def from_files(cls, files: Mapping[str, bytes], source: str = "tokenizer") -> Tokenizer | None:
        """From what a model folder holds; None if it holds no tokenizer."""
        for names, read in _LAYOUTS.items():
            if all(name in files for name in names):
                try:
                    return cls(read(files))
                except BaseException as error:  # the library panics with a BaseException
                    if isinstance(error, KeyboardInterrupt | SystemExit):
                        raise
                    why = " ".join(str(error).split())
                    if not isinstance(error, CheckpointError):
                        why = f"{' and '.join(names)} cannot be read: {why}"
                    raise CheckpointError(f"{source}: {why}") from None
        return None

    def __len__(self) -> int:
        return self.backend.get_vocab_size()

    @property
    def highest(self) -> int:
        """The largest id it can give."""
        return max(self.backend.get_vocab().values(), default=-1)

    def encode(self, text: Text) -> Encoding:
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[Text]) -> list[Encoding]:
        wanted = list(texts)
        for i, text in enumerate(wanted):
            parts = (text, "") if isinstance(text, str) else text
            if not isinstance(parts, tuple) or [type(part) for part in parts] != [str, str]:
                raise InputError(f"text {i} is {text!r}: write a string, or a pair of strings")
            try:
                "".join(parts).encode("utf-8")
            except UnicodeEncodeError:
                raise InputError(f"text {i} is {text!r}: it holds half a character") from None
        return [_encoding(each) for each in self.backend.encode_batch(wanted)]

    def decode(self, ids: Sequence[int]) -> str:
        return self.backend.decode(list(ids))

    def id(self, token: str) -> int | None:
        return self.backend.token_to_id(token)

    def token(self, id: int) -> str:
        return self.backend.id_to_token(id) or f"<{id}>"


def _encoding(raw: tokenizers.Encoding) -> Encoding:
    return Encoding(
        ids=raw.ids,
        segments=raw.type_ids,
        tokens=raw.tokens,
        spans=raw.offsets,
        special=[bool(flag) for flag in raw.special_tokens_mask],
        texts=raw.sequence_ids,
    )


def _from_json(files: Mapping[str, bytes]) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(files["tokenizer.json"].decode("utf-8"))


def _from_wordpiece(files: Mapping[str, bytes]) -> tokenizers.Tokenizer:
    """BERT's vocab.txt: one piece a line, its number is its id."""
    settings = _settings(files)
    lower = bool(settings.get("do_lower_case", True))
    words = files["vocab.txt"].decode("utf-8").split("\n")
    vocab = {word.rstrip("\r"): i for i, word in enumerate(words) if word.rstrip("\r")}
    for needed in ("[UNK]", "[CLS]", "[SEP]"):
        if needed not in vocab:
            raise CheckpointError(f"vocab.txt: {needed} is missing: write it on a line of its own")
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))  # noqa: S106
    backend.normalizer = normalizers.BertNormalizer(
        lowercase=lower,
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
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


def _from_bpe(files: Mapping[str, bytes]) -> tokenizers.Tokenizer:
    """GPT-2's vocab.json and merges.txt: pieces of bytes."""
    vocab = parse(files["vocab.json"], "vocab.json")
    if not all(type(number) is int for number in vocab.values()):
        raise CheckpointError("vocab.json: write a number for each piece")
    merges = _merges(files)
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    settings = _settings(files)
    space = bool(settings.get("add_prefix_space", False))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    if "<|endoftext|>" in vocab:
        backend.add_special_tokens(["<|endoftext|>"])
    return backend


def _merges(files: Mapping[str, bytes]) -> list[tuple[str, str]]:
    try:
        lines = files["merges.txt"].decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"merges.txt: not UTF-8 text: {error}") from None
    pairs = []
    for number, line in enumerate((each.rstrip("\r") for each in lines), 1):
        if line and not line.startswith("#version"):
            left, _, right = line.partition(" ")
            if not right or " " in right:
                raise CheckpointError(f"merges.txt: line {number} is {line!r}: write two pieces")
            pairs.append((left, right))
    return pairs


def _settings(files: Mapping[str, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = parse(files.get(SETTINGS, b"{}"), SETTINGS)
    return found


_LAYOUTS = {
    ("tokenizer.json",): _from_json,
    ("vocab.txt",): _from_wordpiece,
    ("vocab.json", "merges.txt"): _from_bpe,
}
