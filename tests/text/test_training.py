"""Tokenizers learned from text: steady, whole, and open to transformers."""

import inspect
import json
import os
import random
import subprocess
import sys
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers, trainers
from transformers import AutoTokenizer

from glassformer.errors import ConfigError, InputError
from glassformer.text import Tokenizer
from glassformer.text.training import DEFAULT_PURPOSE, TEMPLATES, tokenizer_files, train_tokenizer

PROFILE = settings(deadline=None, max_examples=60, derandomize=True)
SIZE = 331
CASES = [(k, p) for k in DEFAULT_PURPOSE for p in TEMPLATES if k != "wordpiece" or p == "encoder"]


def sentences():
    """Words of a few parts, so that very many pairs are equally frequent."""
    chance = random.Random(7)
    parts = ["un", "re", "play", "work", "king", "ing", "er", "s", "ская", "ёж", "ий"]
    parts += ["ed", "est", "ness", "ный", "и"]
    words = ["".join(chance.choices(parts, k=3)) for _ in range(120)]
    lines = [" ".join(chance.choices(words, k=7)).capitalize() for _ in range(300)]
    return [f"{line}, {i}.\nYes!" for i, line in enumerate(lines)]


@cache
def trained(kind, purpose=None, **more):
    size = None if kind in ("chars", "bytes") else SIZE
    return train_tokenizer(sentences(), kind, size, purpose=purpose, **more)


# the same text gives the same bytes

SCRIPT = f"""
import hashlib, random
from glassformer.text.training import DEFAULT_PURPOSE, tokenizer_files, train_tokenizer
{inspect.getsource(sentences)}
for kind in DEFAULT_PURPOSE:
    size = None if kind in ("chars", "bytes") else {SIZE}
    for name, data in tokenizer_files(train_tokenizer(sentences(), kind, size)).items():
        print(kind, name, hashlib.sha256(data).hexdigest())
"""


def test_every_process_learns_the_same_bytes():
    outputs = []
    for i, parallel in enumerate(["true", "false", "true", "false"]):
        env = {"PYTHONHASHSEED": f"{i}", "RAYON_NUM_THREADS": f"{i + 1}"}
        env |= {"TOKENIZERS_PARALLELISM": parallel}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=os.environ | env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0].count("\n") == 10
    assert outputs == outputs[:1] * 4


def library(model, trainer):
    raw = Library(model)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.train_from_iterator(sentences(), trainer)
    return raw.to_str()


def test_the_library_alone_is_not_steady():
    """Negative control; when it fails, our ways around it are no longer needed."""
    common = {"vocab_size": SIZE, "show_progress": False, "special_tokens": ["[UNK]"]}
    for model, trainer in (
        (models.WordPiece, lambda: trainers.WordPieceTrainer(**common)),
        (models.Unigram, lambda: trainers.UnigramTrainer(unk_token="[UNK]", **common)),
    ):
        assert len({library(model(), trainer()) for _ in range(6)}) > 1


def test_the_order_of_texts_does_not_matter():
    for kind in ("bpe", "wordpiece", "unigram"):
        again = train_tokenizer(reversed(sentences()), kind, SIZE)
        assert tokenizer_files(again) == tokenizer_files(trained(kind))


def test_a_long_text_is_as_good_as_its_lines():
    lines = "\n".join(sentences() * 8).splitlines(keepends=True)
    assert sum(map(len, lines)) > 2**17
    for kind in ("bpe", "wordpiece", "unigram", "chars"):
        size = None if kind == "chars" else SIZE
        long = train_tokenizer(["".join(lines)], kind, size)
        assert tokenizer_files(long) == tokenizer_files(train_tokenizer(lines, kind, size))


def test_a_text_without_line_ends_is_read_to_its_end():
    tokenizer = train_tokenizer(["ab" * 2**16 + "c"], "chars")
    assert list(tokenizer.backend.get_vocab()) and tokenizer.id("c") == 2


# every kind for every purpose that makes sense

TOKENS = {
    "encoder": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "decoder": ["<|endoftext|>"],
    "translation": ["</s>", "<unk>", "<pad>"],
}


@pytest.mark.parametrize(("kind", "purpose"), CASES)
def test_special_tokens_come_first_and_frame_the_text(kind, purpose):
    tokenizer = trained(kind, purpose)
    expected = TOKENS[purpose]
    if purpose == "decoder":
        expected = (
            [*expected, "<unk>"] if kind == "unigram" else [] if kind == "chars" else expected
        )
    added = tokenizer.backend.get_added_tokens_decoder()
    assert {i: token.content for i, token in added.items()} == dict(enumerate(expected))
    assert all(token.special for token in added.values())
    encoding = tokenizer.encode(("Working", "king"))
    around = [
        token for token, special in zip(encoding.tokens, encoding.special, strict=True) if special
    ]
    assert around == {
        "encoder": ["[CLS]", "[SEP]", "[SEP]"], "decoder": [], "translation": ["</s>", "</s>"]
    }[purpose]  # fmt: skip
    second = encoding.segments[encoding.texts.index(1) :]
    assert set(second) == ({0} if purpose == "translation" else {1})
    encoding = tokenizer.encode("king")
    assert encoding.tokens[0] == "[CLS]" or not encoding.special[0]
    assert encoding.tokens[-1] in ("[SEP]", "</s>") or not encoding.special[-1]


TEXTS = ["Playing  unworks,\nYes! 7", "", "ы Ünknown 中", "a [MASK] b </s>", ("Yes!", "king s")]


@pytest.mark.parametrize(("kind", "purpose"), CASES)
def test_transformers_opens_the_files_and_gives_the_same_ids(kind, purpose, tmp_path):
    tokenizer = trained(kind, purpose)
    for name, data in tokenizer_files(tokenizer).items():
        (tmp_path / name).write_bytes(data)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    ours = Tokenizer.from_files(tokenizer_files(tokenizer))
    assert len(theirs) == len(ours) == len(tokenizer)
    for text in TEXTS:
        if (kind, purpose) == ("chars", "decoder") and not {*text} <= {*"".join(sentences())}:
            continue  # refused: see below
        encoding = tokenizer.encode(text)
        assert ours.encode(text) == encoding
        expected = theirs(*text) if isinstance(text, tuple) else theirs(text)
        assert expected["input_ids"] == encoding.ids
        assert expected.get("token_type_ids", encoding.segments) == encoding.segments
        assert ("token_type_ids" in expected) == (purpose == "encoder")
        assert theirs.decode(encoding.ids, skip_special_tokens=True) == tokenizer.decode(
            encoding.ids
        )
    known = theirs.special_tokens_map
    assert {*known.values()} == {*tokenizer_tokens(tokenizer)}
    if purpose == "encoder":
        assert known == {
            "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
            "sep_token": "[SEP]", "mask_token": "[MASK]",
        }  # fmt: skip
    if purpose == "translation":
        assert known == {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def tokenizer_tokens(tokenizer):
    return [token.content for token in tokenizer.backend.get_added_tokens_decoder().values()]


@pytest.mark.parametrize("purpose", ["decoder", "translation"])
def test_wordpiece_is_for_encoders(purpose):
    with pytest.raises(ConfigError, match=f"purpose = '{purpose}'.*write kind = 'bpe'"):
        trained("wordpiece", purpose)


def test_special_tokens_that_are_asked_for_come_after():
    tokenizer = trained("chars", special=("<|endoftext|>", "<2ru>"))
    assert [tokenizer.id(t) for t in ("<|endoftext|>", "<2ru>", "\n", " ")] == [0, 1, 2, 3]
    assert tokenizer.encode("s<2ru>s").ids.count(1) == 1
    assert json.loads(tokenizer_files(tokenizer)["tokenizer_config.json"])["eos_token"]
    assert tokenizer_tokens(trained("bpe", special=("<2ru>",))) == ["<|endoftext|>", "<2ru>"]


# what is encoded can be decoded


@PROFILE
@given(st.text(max_size=60), st.sampled_from(["bpe", "bytes"]), st.sampled_from([*TEMPLATES]))
@example(" un  ёж\n\t🐈\u200d⬛ \r\n", "bpe", "translation")
def test_bytes_give_any_text_back(text, kind, purpose):
    tokenizer = trained(kind, purpose)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


@PROFILE
@given(st.text(sorted({*"".join(sentences())}), max_size=40), st.sampled_from([*TEMPLATES]))
def test_chars_and_unigram_give_the_characters_they_know_back(text, purpose):
    tokenizer = trained("chars", purpose)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    unigram = trained("unigram", purpose)
    assert unigram.decode(unigram.encode(text).ids) == " ".join(text.split())


def test_chars_are_exactly_the_characters():
    tokenizer = trained("chars")
    letters = sorted({*"".join(sentences())})
    assert tokenizer.backend.get_vocab() == {letter: i for i, letter in enumerate(letters)}
    assert tokenizer.encode("".join(letters)).ids == list(range(len(letters)))


def test_chars_refuse_what_they_do_not_know_or_call_it_unknown():
    with pytest.raises(InputError, match="cannot encode this"):
        trained("chars").encode("中")
    assert trained("chars", "translation").encode("中s").tokens == ["<unk>", "s", "</s>"]


def test_a_bytes_id_is_the_byte_behind_the_special_tokens():
    tokenizer = trained("bytes")
    assert len(tokenizer) == 257
    assert tokenizer.encode("ёж 中").ids == [1 + byte for byte in "ёж 中".encode()]
    vocab = tokenizer.backend.get_vocab().keys() - {"<|endoftext|>"}
    assert vocab == {*pre_tokenizers.ByteLevel.alphabet()}


# sizes


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_the_size_is_the_one_asked_for(kind):
    tokenizer = trained(kind)
    assert len(tokenizer) == SIZE
    assert sorted(tokenizer.backend.get_vocab().values()) == list(range(SIZE))


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_a_size_that_is_too_small_says_the_least_that_works(kind):
    with pytest.raises(ConfigError, match=r"vocab_size = 10: write at least \d+") as caught:
        train_tokenizer(sentences(), kind, 10)
    least = int(str(caught.value).split("at least ")[1].split(",")[0])
    assert len(train_tokenizer(sentences(), kind, least)) == least
    with pytest.raises(ConfigError):
        train_tokenizer(sentences(), kind, least - 1)


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_nothing_is_learned_from_what_comes_once(kind):
    once, twice = (train_tokenizer(["zyxwv"] * n, kind, 300) for n in (1, 2))
    assert once.id("zyxwv") is None
    assert twice.id("zyxwv") is not None
    assert len(once) < len(twice) < 300


def test_wordpiece_knows_each_letter_inside_a_word_and_no_comma_there():
    tokenizer = trained("wordpiece")
    letters = {*"".join(sentences())} - {*" \n"}
    words = {letter for letter in letters if letter not in ",.!"}
    for letter in letters:
        assert tokenizer.id(letter) is not None
        assert (tokenizer.id(f"##{letter}") is not None) == (letter in words)
    assert "[UNK]" not in tokenizer.encode("".join(sorted(words))).tokens


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_of_very_many_characters_the_rare_ones_are_unknown(kind):
    common, rare = ([chr(0x10000 + n) for n in span] for span in (range(900), range(900, 1500)))
    texts = [" ".join(common), " ".join(common), " ".join(rare)]
    tokenizer = train_tokenizer(texts, kind, 2300)
    unknown = tokenizer.id("[UNK]" if kind == "wordpiece" else "<unk>")
    assert unknown not in tokenizer.encode(" ".join(common)).ids
    assert unknown not in tokenizer.encode(rare[0]).ids  # of equally rare ones the first
    assert unknown in tokenizer.encode(rare[-1]).ids


# small letters


@pytest.mark.parametrize("kind", DEFAULT_PURPOSE)
def test_lowercase_reads_capitals_as_small_letters(kind):
    tokenizer = trained(kind, lowercase=True)
    assert tokenizer.encode("YES, й Ёж").ids == tokenizer.encode("yes, й ёж").ids
    assert trained(kind).encode("Yes").ids != trained(kind).encode("yes").ids


def test_lowercase_takes_no_accents_off():
    """BERT's own way would read й as и and ё as е."""
    tokenizer = trained("wordpiece", lowercase=True)
    assert tokenizer.encode("ий").ids != tokenizer.encode("ии").ids
    assert tokenizer.decode(tokenizer.encode("ЁЖ").ids) == "ёж"


# what is refused


@pytest.mark.parametrize("kind", [kind for kind in DEFAULT_PURPOSE if kind != "bytes"])
def test_empty_texts_teach_nothing(kind):
    for texts in ([], [""], [" \n", "\t"]):
        with pytest.raises(InputError, match="no text to train on"):
            train_tokenizer(iter(texts), kind, None if kind == "chars" else SIZE)


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "chars"])
def test_errors_of_the_reader_come_through(kind):
    def broken():
        yield from sentences()
        raise InputError("a.txt: line 7 is bad")

    with pytest.raises(InputError, match=r"^a\.txt: line 7 is bad$"):
        train_tokenizer(broken(), kind, None if kind == "chars" else SIZE)
    with pytest.raises(InputError, match="text 1 contains half a character"):
        train_tokenizer(["a", "\ud800"], kind, None if kind == "chars" else SIZE)


WRONG = [
    (("bps", SIZE), {}, "kind = 'bps': write one of bpe, wordpiece"),
    (("bpe", SIZE), {"purpose": "chat"}, "purpose = 'chat': write one of encoder"),
    (("bpe",), {}, "vocab_size: bpe needs a number"),
    (("unigram", 0), {}, "vocab_size = 0: unigram needs a number"),
    (("bytes", 300), {}, "vocab_size = 300: bytes do not use it"),
    (("bpe", SIZE), {"special": ("",)}, "special: a token is empty"),
]


@pytest.mark.parametrize(("args", "more", "line"), WRONG, ids=[line for *_, line in WRONG])
def test_a_wrong_wish_gets_one_line(args, more, line):
    with pytest.raises(ConfigError) as caught:
        train_tokenizer(sentences(), *args, **more)
    assert str(caught.value).startswith(line)
