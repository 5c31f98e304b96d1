"""Tokenizers that are in use pass the gate; patterns that pass it take time as the text is long."""

import base64
import json
import time
from typing import Any

import pytest
import transformers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from glassformer.errors import InputError
from glassformer.text import Tokenizer
from glassformer.text.charsmap import wrong_with_charsmap
from glassformer.text.patterns import KNOWN, bounded, nearest
from sampling import mostly_slow

TEXTS = ["The cat's 12 mats — naïve café.", "  two  spaces\n\n", "中国 🐈", ("a", "b c"), ""]
LETTERS = {
    piece: i for i, piece in enumerate(["<unk>", "<pad>", "<s>", "</s>", "<mask>", *"abct▁Ġ"])
}
SCORES = [(piece, -float(i)) for piece, i in LETTERS.items()]
MERGES = [("a", "b")]
BPE = {"vocab": LETTERS | {"ab": 11}, "merges": MERGES}
# As transformers builds them when it has no tokenizer.json, by the name of its class.
CLASSES: dict[str, dict[str, Any]] = {
    "BertTokenizer": {"vocab": LETTERS | {"[UNK]": 11, "[CLS]": 12, "[SEP]": 13}},
    "DistilBertTokenizer": {"vocab": LETTERS | {"[UNK]": 11, "[CLS]": 12, "[SEP]": 13}},
    "GPT2Tokenizer": BPE,
    "RobertaTokenizer": BPE,
    "Qwen2Tokenizer": BPE,
    "LlamaTokenizer": BPE,
    "T5Tokenizer": {"vocab": SCORES},
    "XLMRobertaTokenizer": {"vocab": SCORES},
    "MPNetTokenizer": {"vocab": LETTERS | {"[UNK]": 11}},
    "AlbertTokenizer": {"vocab": [*SCORES, ("[CLS]", 0.0), ("[SEP]", 0.0), ("[MASK]", 0.0)]},
    "DebertaV2Tokenizer": {"vocab": [*SCORES, ("[CLS]", 0.0), ("[SEP]", 0.0), ("[MASK]", 0.0)]},
}


def from_backend(backend: Backend) -> Tokenizer:
    tokenizer = Tokenizer.from_files({"tokenizer.json": backend.to_str().encode()}, "folder")
    assert tokenizer is not None
    return tokenizer


@pytest.mark.parametrize("name", CLASSES)
def test_what_transformers_builds_is_read(name: str) -> None:
    theirs = getattr(transformers, name)(**CLASSES[name])
    ours = from_backend(theirs.backend_tokenizer)
    for text in TEXTS:
        expected = theirs(*text) if isinstance(text, tuple) else theirs(text)
        assert ours.encode(text).ids == expected["input_ids"]


LLAMA3 = next(pattern for pattern, name in KNOWN.items() if name == "Llama 3's")
SPLITS = {
    "Llama 3": [pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)],
    "SmolLM2": [pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False)],
    "Falcon3": [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(),
                pre_tokenizers.Digits(), pre_tokenizers.Split(Regex("[0-9]{3}"), "isolated")],
    "T5": [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()],
}  # fmt: skip


@pytest.mark.parametrize("name", SPLITS)
def test_how_known_models_cut_their_texts_is_read(name: str) -> None:
    backend = Backend(models.BPE(**BPE))
    backend.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    backend.pre_tokenizer = pre_tokenizers.Sequence(SPLITS[name])
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", 2)]
    )
    ours = from_backend(backend)
    assert [ours.encode(text).ids for text in TEXTS] == [
        (backend.encode(*text) if isinstance(text, tuple) else backend.encode(text)).ids
        for text in TEXTS
    ]


def test_a_file_of_the_first_years_is_read() -> None:
    """Models without a type, merges as texts: as gpt2's own file on the hub."""
    for model in (
        {"dropout": None, "unk_token": None, "continuing_subword_prefix": "", "fuse_unk": False,
         "end_of_word_suffix": "", "vocab": BPE["vocab"], "merges": ["a b"]},
        {"unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
         "vocab": LETTERS},
        {"unk_id": 0, "vocab": SCORES},
        {"vocab": LETTERS, "unk_token": "<unk>"},
    ):  # fmt: skip
        files = {"tokenizer.json": json.dumps({"version": "1.0", "model": model}).encode()}
        assert Tokenizer.from_files(files).encode("ab").ids[0] in range(12)


def charsmap(**texts: str) -> str:
    """A map of single bytes: root at 0, each byte's unit at its own number, its leaf beside it."""
    units, blob = [0] * 256, b""
    for letter, text in texts.items():
        place = ord(letter)
        units[place] = 1 << 10 | 1 << 8 | place
        units[place ^ 1] = 1 << 31 | len(blob)
        blob += text.encode() + b"\0"
    trie = b"".join(unit.to_bytes(4, "little") for unit in units)
    return base64.b64encode(len(trie).to_bytes(4, "little") + trie + blob).decode()


def test_a_map_of_characters_does_what_it_says() -> None:
    assert wrong_with_charsmap(charsmap(A="é", C="xyz")) is None
    backend = Backend(models.Unigram(SCORES, 0, False))
    backend.normalizer = normalizers.Precompiled(base64.b64decode(charsmap(A="é", C="xyz")))
    ours = from_backend(backend)
    assert ours.backend.normalizer.normalize_str("BACK") == "BéxyzK"


HOSTILE = {
    "spaces": " ", "lines": "\n", "spaces, then a word": "  " * 50 + "a", "one letter": "a",
    "digits": "1", "marks": "e\u0301\u0302", "signs": "'!", "joined": "🐈\u200d", "capitals": "aA",
    "apostrophes": "'s'", "wide": "\u3000中", "NUL": "\0", "right to left": "א\u202e",
}  # fmt: skip
SIMPLE = [
    r"\s+",
    " {2,}",
    r"\p{N}{1,3}",
    r"\s?\p{L}+",
    r"[^\s]{9,}",
    r"a?a?a?a+",
    r"\s{2,}|[\n\r\t]",
]


@pytest.mark.parametrize(
    "pattern", mostly_slow([*SIMPLE, *KNOWN], keep=2), ids=lambda p: KNOWN.get(p, p)
)
def test_a_pattern_that_passes_is_never_slow(pattern: str) -> None:
    """50,000 characters of each kind, in CPU time; (a+)+b would need a lifetime for forty."""
    assert bounded(pattern)
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    start = time.process_time()
    for text in HOSTILE.values():
        split.pre_tokenize_str((text * 50_000)[:50_000])
    assert time.process_time() - start < 2 * len(HOSTILE)


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "a*a*b", r"\s+$", "(?=a)", "", "a" * 401, None, ["a"]]
)
def test_any_other_pattern_does_not_pass(pattern: object) -> None:
    assert not bounded(pattern)


def test_the_nearest_known_pattern_is_named() -> None:
    assert nearest(LLAMA3.replace("{1,3}", "{1,2}")) == "Llama 3's"


def test_a_text_that_the_library_cannot_read_gets_one_line() -> None:
    backend = Backend(models.WordLevel({"a": 0}, unk_token="b"))
    with pytest.raises(InputError, match="cannot encode this"):
        from_backend(backend).encode("c")
    with pytest.raises(InputError, match="cannot decode this"):
        from_backend(backend).decode([-1])
