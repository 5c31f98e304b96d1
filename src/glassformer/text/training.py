"""Train tokenizers. The same text gives the same files, on every run and machine.

    kind        its pieces                                    what it cannot encode
    bpe         bytes, and the most frequent pairs merged     nothing
    wordpiece   words, and parts of words: play ##ing         rare characters
    unigram     the most probable parts: ▁play ing            rare characters
    chars       the characters of the text                    all others
    bytes       the 256 bytes                                 nothing

`purpose` decides on its special tokens, and where it adds them to a text.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from glassformer.errors import ConfigError, InputError
from glassformer.text.tokenizer import Tokenizer

Kind = Literal["bpe", "wordpiece", "unigram", "chars", "bytes"]
Purpose = Literal["encoder", "decoder", "translation"]
Backend = tokenizers.Tokenizer

MAX_CHARACTERS = 1000  # of wordpiece and unigram: rarer ones become the unknown token
MAX_TOKENS = 1_000_000  # the library allocates them at once
MAX_PART = 2**16  # characters of a text that are processed at once


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens of a purpose, and the templates of a text and of a pair of texts."""

    tokens: tuple[str, ...]
    single: str | None = None
    pair: str | None = None


TEMPLATES: dict[Purpose, SpecialTokens] = {
    "encoder": SpecialTokens(
        ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        "[CLS] $A [SEP]",
        "[CLS] $A [SEP] $B:1 [SEP]:1",
    ),
    "decoder": SpecialTokens(("<|endoftext|>",)),
    "translation": SpecialTokens(("</s>", "<unk>", "<pad>"), "$A </s>", "$A </s> $B </s>"),
}
DEFAULT_PURPOSE: dict[Kind, Purpose] = {
    "bpe": "decoder",
    "wordpiece": "encoder",
    "unigram": "translation",
    "chars": "decoder",
    "bytes": "decoder",
}
# Their names in transformers' tokenizer_config.json.
ROLES = {
    "[PAD]": ["pad_token"],
    "<pad>": ["pad_token"],
    "[UNK]": ["unk_token"],
    "<unk>": ["unk_token"],
    "[CLS]": ["cls_token"],
    "[SEP]": ["sep_token"],
    "[MASK]": ["mask_token"],
    "</s>": ["eos_token"],
    "<|endoftext|>": ["bos_token", "eos_token"],
}


def train_tokenizer(
    texts: Iterable[str],
    kind: Kind,
    vocab_size: int | None = None,
    *,
    purpose: Purpose | None = None,
    lowercase: bool = False,
    special: Sequence[str] = (),
) -> Tokenizer:
    """Train a tokenizer with at most `vocab_size` pieces on one pass over `texts`.

    Chars and bytes take no `vocab_size`. Special tokens come first: those of the purpose, then
    `special`; chars for a decoder have only the latter, so that ids are sorted characters.
    """
    for name, value, known in (
        ("kind", kind, DEFAULT_PURPOSE),
        ("purpose", purpose or "encoder", TEMPLATES),
    ):
        if value not in known:
            raise ConfigError(f"{name} = {value!r}: write one of {', '.join(known)}")
    purpose = purpose or DEFAULT_PURPOSE[kind]
    if kind == "wordpiece" and purpose != "encoder":
        raise ConfigError(
            f"purpose = {purpose!r}: wordpiece does not keep spaces: write kind = 'bpe'"
        )
    if kind in ("chars", "bytes") and vocab_size is not None:
        raise ConfigError(f"vocab_size = {vocab_size}: {kind} do not use it: leave it out")
    if kind not in ("chars", "bytes") and not 1 <= (vocab_size or 0) <= MAX_TOKENS:
        size = "" if vocab_size is None else f" = {vocab_size}"
        raise ConfigError(
            f"vocab_size{size}: {kind} needs a number, such as 8000, of at most {MAX_TOKENS}"
        )
    tokens = _special(kind, purpose, special)
    backend = _TRAINERS[kind](_parts(texts), tokens, vocab_size or 0, lowercase)
    backend.add_special_tokens(tokens)
    template = TEMPLATES[purpose]
    if template.single:
        backend.post_processor = processors.TemplateProcessing(
            single=template.single,
            pair=template.pair,
            special_tokens=[(token, tokens.index(token)) for token in template.tokens],
        )
    return Tokenizer(backend)


def tokenizer_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """The files of a folder that `transformers.AutoTokenizer` can open."""
    added = tokenizer.backend.get_added_tokens_decoder().values()
    roles = {role: token.content for token in added for role in ROLES.get(token.content, ())}
    inputs = ["input_ids", "attention_mask"]
    if "cls_token" in roles:
        inputs.insert(1, "token_type_ids")  # only an encoder has segments
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_input_names": inputs,
        **roles,
    }
    return {
        "tokenizer.json": tokenizer.backend.to_str(pretty=True).encode(),
        "tokenizer_config.json": (json.dumps(settings, indent=2) + "\n").encode(),
    }


def _special(kind: Kind, purpose: Purpose, more: Sequence[str]) -> list[str]:
    tokens = list(TEMPLATES[purpose].tokens)
    if purpose == "decoder" and kind == "chars":
        tokens = []
    if purpose == "decoder" and kind == "unigram":
        tokens.append("<unk>")
    if "" in more:
        raise ConfigError("special: a token is empty: write at least one character")
    return list(dict.fromkeys([*tokens, *more]))


def _unknown(tokens: Sequence[str]) -> str:
    """The unknown token. If the tokenizer has none, it refuses unknown characters."""
    return "[UNK]" if "[UNK]" in tokens else "<unk>"


def _parts(texts: Iterable[str]) -> Iterator[str]:
    """The texts, long ones split at line ends, so that only one part is in memory."""
    empty = True
    for i, text in enumerate(texts):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(
                f"text {i} contains half a character: it is not Unicode text"
            ) from None
        empty = empty and not text.strip()
        start = 0
        while len(text) - start > MAX_PART:
            line_end = text.rfind("\n", start, start + MAX_PART) + 1
            end = line_end or start + MAX_PART
            yield text[start:end]
            start = end
        yield text[start:]
    if empty:
        raise InputError("there is no text to train on: pass texts that are not empty")


@contextmanager
def _second_pass(
    parts: Iterable[str], normalizer: normalizers.Normalizer
) -> Iterator[tuple[list[str], Iterator[str]]]:
    """The most frequent characters, and the text again (from disk) with only these in it."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as disk:
        for part in map(normalizer.normalize_str, parts):
            counts.update(part)
            disk.write(f"{part}\n")
        disk.seek(0)
        ranked = sorted(counts, key=lambda character: (-counts[character], character))
        rare = {ord(character): " " for character in ranked[MAX_CHARACTERS:]}
        yield ranked[:MAX_CHARACTERS], (line.translate(rare) if rare else line for line in disk)


def _check_size(size: int, least: int) -> None:
    if size < least:
        raise ConfigError(
            f"vocab_size = {size}: write at least {least}, for the special tokens and the single "
            "characters of this text"
        )


def _bpe(parts: Iterator[str], tokens: list[str], size: int, lowercase: bool) -> Backend:
    _check_size(size, len(tokens) + 256)
    backend = _byte_level(models.BPE(), lowercase)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=tokens,
        initial_alphabet=_byte_letters(),
        show_progress=False,
    )
    backend.train_from_iterator(parts, trainer)
    return backend


def _bytes(parts: Iterator[str], tokens: list[str], size: int, lowercase: bool) -> Backend:
    vocab = {piece: i for i, piece in enumerate([*tokens, *_byte_letters()])}
    return _byte_level(models.BPE(vocab, []), lowercase)


def _byte_level(model: models.Model, lowercase: bool) -> Backend:
    backend = tokenizers.Tokenizer(model)
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def _byte_letters() -> list[str]:
    """GPT-2's character for each byte: itself if it is printable, else one from 256 on."""
    spare = iter(range(256, 512))
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def _chars(parts: Iterator[str], tokens: list[str], size: int, lowercase: bool) -> Backend:
    characters: set[str] = set()
    lower = normalizers.Lowercase()
    for part in parts:
        characters.update(lower.normalize_str(part) if lowercase else part)
    vocab = {piece: i for i, piece in enumerate(dict.fromkeys([*tokens, *sorted(characters)]))}
    backend = tokenizers.Tokenizer(models.BPE(vocab, [], unk_token=_unknown(tokens)))
    if lowercase:
        backend.normalizer = lower
    backend.decoder = decoders.Fuse()
    return backend


def _wordpiece(parts: Iterator[str], tokens: list[str], size: int, lowercase: bool) -> Backend:
    backend = tokenizers.Tokenizer(models.WordPiece())
    backend.pre_tokenizer = split = pre_tokenizers.BertPreTokenizer()
    # Accents stay: BERT's way of stripping them would turn й into и.
    normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=False)
    with _second_pass(parts, normalizer) as (characters, text):
        letters = [c for c in sorted(characters) if _is_one(c, split)]
        # The trainer numbers ##a, ##b … in an order that differs in every run, and breaks ties by
        # number. As special tokens they are numbered beforehand.
        inner = [f"##{c}" for c in letters if _is_one(f"a{c}", split)]
        _check_size(size, len(tokens) + len(letters) + len(inner))
        trainer = trainers.WordPieceTrainer(
            vocab_size=size,
            min_frequency=2,
            special_tokens=[*tokens, *inner],
            limit_alphabet=MAX_CHARACTERS,
            show_progress=False,
        )
        backend.train_from_iterator(text, trainer)
    vocab = backend.get_vocab()
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=_unknown(tokens)))
    backend.normalizer, backend.pre_tokenizer = normalizer, split
    backend.decoder = decoders.WordPiece()
    return backend


def _is_one(text: str, split: pre_tokenizers.PreTokenizer) -> bool:
    return [word for word, _ in split.pre_tokenize_str(text)] == [text]


def _unigram(parts: Iterator[str], tokens: list[str], size: int, lowercase: bool) -> Backend:
    backend = tokenizers.Tokenizer(models.Unigram())
    # Punctuation stays with its word: the trainer starts from substrings that several words share,
    # and from "day" alone, without "day," and "day.", it would never make a piece.
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    # Like SentencePiece: any white space becomes one space.
    steps = [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    normalizer = normalizers.Sequence([*steps, normalizers.Lowercase()] if lowercase else steps)
    with _second_pass(parts, normalizer) as (characters, text):
        _check_size(size, len(tokens) + len({*characters, " "}) + 1)
        trainer = trainers.UnigramTrainer(
            vocab_size=size,
            special_tokens=tokens,
            unk_token=_unknown(tokens),
            show_progress=False,
        )
        backend.train_from_iterator(map(str.strip, text), trainer)
    backend.normalizer = normalizer
    pieces = json.loads(backend.to_str())["model"]["vocab"][len(tokens) :]
    known = [(token, 0.0) for token in tokens] + _reproducible(pieces, tokens)
    backend.model = models.Unigram(known, tokens.index(_unknown(tokens)))
    return backend


def _reproducible(pieces: list[tuple[str, float]], tokens: list[str]) -> list[tuple[str, float]]:
    """The scores without what differs from run to run.

    The trainer's sums are in a random order, so that their last digits differ; and it gives the
    characters that are not a piece yet the lowest score plus small steps, in any order: here they
    all get the lowest.
    """
    single = [score for piece, score in pieces if len(piece) == 1]
    lowest = min(single, default=0.0)
    steps = lowest + 1e-4 * len(single)
    scores = {
        piece: round(lowest if len(piece) == 1 and score < steps else score, 6)
        for piece, score in pieces
        if piece not in tokens
    }
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


_TRAINERS: dict[Kind, Callable[[Iterator[str], list[str], int, bool], Backend]] = {
    "bpe": _bpe,
    "wordpiece": _wordpiece,
    "unigram": _unigram,
    "chars": _chars,
    "bytes": _bytes,
}
