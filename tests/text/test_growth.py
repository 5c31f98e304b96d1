"""No tokenizer that loads makes a text much longer, or takes longer than the text is long."""

import base64
import io
import itertools
import json
import random
import unicodedata
from typing import Any

import pytest
import sentencepiece
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers

from gate.wholes import BPE, BYTES, META, UNIGRAM, added, part, template, tokenizer
from glassformer.errors import CheckpointError
from glassformer.text import Tokenizer
from glassformer.text.charsmap import longest_text, wrong_with_charsmap
from glassformer.text.growth import FORMS, MAX_GROWTH, check_growth
from glassformer.text.spm_proto import read_model

NFKC, NFD, LOWER = part("NFKC"), part("NFD"), part("Lowercase")
BERT = part("BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None,
            lowercase=True)  # fmt: skip
SPLIT = part("Split", pattern={"Regex": r"\S"}, behavior="Isolated", invert=False)
PREFIX = BYTES | {"add_prefix_space": True, "use_regex": False}
MARK = "\u00a4"  # no part changes it


def replace(old: str, new: str) -> dict[str, Any]:
    return part("Replace", pattern={"String": old}, content=new)


def sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return part("Sequence", normalizers=list(parts))


def load(**changes: Any) -> Tokenizer:
    files = {"tokenizer.json": json.dumps(tokenizer(**changes)).encode()}
    loaded = Tokenizer.from_files(files, "folder")
    assert loaded is not None
    return loaded


def refused(*words: str, **changes: Any) -> None:
    with pytest.raises(CheckpointError) as caught:
        load(**changes)
    line = str(caught.value)
    assert "\n" not in line and all(word in line for word in ("tokenizer.json", *words)), line


def nfkc_map(rule: str) -> str:
    """The map of a SentencePiece model that is trained here."""
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a cat sat on the mat"] * 9), model_writer=writer, vocab_size=20,
        normalization_rule_name=rule, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return base64.b64encode(read_model(writer.getvalue(), "a", 1000).charsmap).decode()


def changing() -> list[str]:
    """All characters that some form changes, and some that none does."""
    every = (chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000)
    return [
        c for c in every
        if unicodedata.normalize("NFKD", c) != c or c.lower() != c or 0x4E00 <= ord(c) < 0x4E20
    ]  # fmt: skip


def check_forms(names: tuple[str, ...], characters: list[str]) -> None:
    made = normalizers.Sequence([getattr(normalizers, name)() for name in names])
    texts = made.normalize_str(MARK.join(characters)).split(MARK)
    assert len(texts) == len(characters)
    assert max(map(len, texts)) <= max(FORMS[name][0] for name in names)
    assert max(len(text.encode()) for text in texts) <= max(FORMS[name][1] for name in names)


def test_no_character_grows_more_than_its_form_says() -> None:
    characters = changing()
    for name in FORMS:
        check_forms((name,), characters)
    assert len(normalizers.NFKC().normalize_str("ﷺ")) == FORMS["NFKC"][0]


@pytest.mark.slow
def test_forms_in_a_row_grow_as_the_largest_of_them() -> None:
    characters = changing()
    for count in (2, 3):
        for names in itertools.permutations(FORMS, count):
            check_forms(names, characters)


BOMB = sequence(
    replace("a", "ﷺ"), NFKC, replace("ص", "\u1f82"), NFD, replace("α", "\U0001d160"), part("NFC"),
)  # fmt: skip
MAPS = base64.b64encode(
    (1024).to_bytes(4, "little") + bytes(1024) + ("ص" * 30).encode() + b"\0"
).decode()


def map_of(key: bytes, text: str) -> str:
    """A map of characters that writes `text` for one byte."""
    units = [0] * 512
    units[0] = 256 << 10  # its block begins at 256
    units[256 ^ key[0]] = 1 << 10 | 256 | key[0]  # has a text, in the first place of its block
    units[256 ^ key[0] ^ 1] = 1 << 31
    data = b"".join(unit.to_bytes(4, "little") for unit in (2048, *units))
    return base64.b64encode(data + text.encode() + b"\0").decode()


BOMBS: dict[str, dict[str, Any]] = {
    "expanders between replacements": {"normalizer": BOMB},
    "and the bytes of each": {"normalizer": sequence(replace("a", "ﷺ"), NFKC, replace("b", "c")),
                              "pre_tokenizer": BYTES},
    "a map": {"normalizer": sequence(NFKC, part("Precompiled", precompiled_charsmap=MAPS))},
    "a map, then a form": {
        "normalizer": sequence(part("Precompiled", precompiled_charsmap=MAPS), NFD)},
    "a map of what NFKD leaves": {"normalizer": sequence(
        part("NFKD"), part("Precompiled", precompiled_charsmap=map_of(b"a", "xyz" * 4)))},
    "a map of half characters": {"normalizer": sequence(
        part("NFKD"), part("Precompiled", precompiled_charsmap=map_of(b"\xef", "xyz" * 4)))},
    "a map after NFKD and another part": {"normalizer": sequence(
        part("NFKD"), replace("a", "ﷺ"),
        part("Precompiled", precompiled_charsmap=map_of(b"\xef", "xyz" * 4)))},
    "bytes of bytes": {"normalizer": sequence(NFKC, part("ByteLevel")), "pre_tokenizer": BYTES},
    "a prefix": {"normalizer": sequence(part("Prepend", prepend="ﷺ" * 64), NFKC)},
    "a space before each character": {
        "normalizer": NFKC, "pre_tokenizer": part("Sequence", pretokenizers=[SPLIT, META, PREFIX])},
    "in sequences of sequences": {"normalizer": sequence(BOMB)},
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused(name: str) -> None:
    refused("normalizer and pre_tokenizer can make", f"more than {MAX_GROWTH}", **BOMBS[name])


REAL: dict[str, dict[str, Any]] = {
    "BERT": {"normalizer": BERT, "pre_tokenizer": part("BertPreTokenizer")},
    "RoBERTa": {"pre_tokenizer": PREFIX | {"use_regex": True}},
    "ModernBERT": {"normalizer": part("NFC"), "pre_tokenizer": BYTES},
    "Llama 2": {"normalizer": sequence(part("Prepend", prepend="▁"), replace(" ", "▁"))},
    "T5": {
        "normalizer": part("Precompiled", precompiled_charsmap=base64.b64encode(
            (1024).to_bytes(4, "little") + bytes(1024) + ("ص" * 18).encode() + b"\0").decode()),
        "pre_tokenizer": part("Sequence", pretokenizers=[part("WhitespaceSplit"), META]),
    },
    "SentencePiece": {
        "normalizer": sequence(part("Nmt"), NFKC, LOWER, replace("``", '"')), "pre_tokenizer": META,
    },
    "all the letters of the world, as bytes": {
        "normalizer": sequence(NFKC, LOWER), "pre_tokenizer": BYTES},
}  # fmt: skip


def albert(charsmap: str) -> list[dict[str, Any]]:
    return [
        replace("``", '"'), replace("''", '"'), part("NFKD"), part("StripAccents"), LOWER,
        part("Precompiled", precompiled_charsmap=charsmap),
    ]  # fmt: skip


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf"])
def test_what_albert_does_passes(rule: str) -> None:
    """The map would make 18 letters of ﷺ, too, but NFKD has taken it apart already."""
    charsmap = nfkc_map(rule)
    parts = albert(charsmap)
    growth = check_growth(parts, [part("WhitespaceSplit"), META], "")
    assert longest_text(charsmap)[0] == 18 and growth <= 36
    made = Backend.from_str(json.dumps(tokenizer(normalizer=sequence(*parts)))).normalizer
    texts = made.normalize_str(MARK.join(changing())).split(MARK)
    assert max(map(len, texts)) <= growth
    load(normalizer=sequence(*parts), pre_tokenizer=META).encode("ﷺ x ㋿")


def test_what_nfkd_leaves_stays_whole_in_lower_case() -> None:
    nfkd = normalizers.NFKD()
    both = normalizers.Sequence([nfkd, normalizers.StripAccents(), normalizers.Lowercase()])
    text = both.normalize_str(MARK.join(changing()))
    assert nfkd.normalize_str(text) == text


def test_a_map_that_is_a_maze_is_not_walked_through() -> None:
    """Every byte leads from the block to itself: 256⁵ paths. All texts count then."""
    units = [
        256 << 10,
        *[0] * 255,
        *((256 ^ place) << 10 | place & 255 for place in range(256, 512)),
    ]
    data = b"".join(unit.to_bytes(4, "little") for unit in (2048, *units))
    charsmap = base64.b64encode(data + b"abc\0").decode()
    assert wrong_with_charsmap(charsmap) is None
    assert longest_text(charsmap, str.isascii) == (3, 3)


@pytest.mark.parametrize("name", REAL)
def test_what_real_tokenizers_do_passes(name: str) -> None:
    load(**REAL[name]).encode("ﷺ x")


@pytest.mark.parametrize("seed", range(5))
def test_a_text_never_grows_more_than_computed(seed: int) -> None:
    """Random parts in a row: what the library makes of a text, beside the computed bound."""
    draw = random.Random(seed)
    letters = ["a", "ﷺ", "\u1f82", "\U0001d160", "\u0130", "中", "é", " ", "ص", "α", "\u0301"]
    forms = [part(name) for name in FORMS if name != "BertNormalizer"] + [BERT]
    some = [*forms, part("ByteLevel"), part("Prepend", prepend="ﷺ"), part("StripAccents")]
    for _ in range(60):
        parts = draw.sample(some, draw.randrange(1, 5))
        parts += [replace(*draw.choices(letters, k=2)) for _ in range(draw.randrange(4))]
        draw.shuffle(parts)
        backend = Backend.from_str(json.dumps(tokenizer(normalizer=sequence(*parts))))
        try:
            growth = check_growth(parts, [], "")
        except CheckpointError as error:
            assert "can make" in str(error)
            continue
        for text in (*letters, "".join(letters), "".join(draw.choices(letters, k=30))):
            assert len(backend.normalizer.normalize_str(text)) <= growth * len(text), parts


def test_each_text_stands_once_in_a_template_with_few_tokens() -> None:
    many = template("A", *["</s>"] * 2)
    token = {"id": "</s>", "ids": [0] * 40, "tokens": ["</s>"] * 40}
    refused("single", "texts A, A", "once", post_processor=template("A", "A"), model=UNIGRAM)
    refused(
        "80 special tokens", model=UNIGRAM,
        post_processor=many | {"special_tokens": {"</s>": token}},
    )  # fmt: skip


def test_decoders_grow_by_a_space_for_each_character_at_most() -> None:
    every = [
        decoders.Metaspace(), decoders.BPEDecoder(suffix=""), decoders.WordPiece(prefix=""),
        decoders.CTC(pad_token="a", word_delimiter_token="b"), decoders.ByteFallback(),
        decoders.Fuse(), decoders.Replace(" ", "▁"),
    ]  # fmt: skip
    tokens = ["abc", "▁d", "<0x41>", "é"] * 50
    for order in itertools.islice(itertools.permutations(every), 0, 5040, 37):
        text = decoders.Sequence(list(order)).decode(tokens)
        assert len(text) <= 3 * sum(map(len, tokens))


def letters(count: int) -> str:
    """Another word for each number, of 60 letters."""
    return f"{count:x}".translate(str.maketrans("0123456789", "ghijklmnop")).ljust(60, "z")


def test_words_and_pieces_that_take_long_are_refused() -> None:
    wordpiece = part("WordPiece", unk_token="a", continuing_subword_prefix="##", vocab={"a": 0})
    refused("max_input_chars_per_word", model=wordpiece | {"max_input_chars_per_word": 201})
    load(model=wordpiece | {"max_input_chars_per_word": 200})
    long = [["<unk>", 0.0], *(["a" * i, -1.0] for i in range(1, 66))]
    refused("vocab", "64 characters", model=UNIGRAM | {"vocab": long, "unk_id": 0})
    load(model=UNIGRAM | {"vocab": long[:-1], "unk_id": 0})


def test_pieces_and_added_tokens_that_fill_the_memory_are_refused() -> None:
    pieces = [["<unk>", 0.0], *([letters(i), -1.0] for i in range(3_000))]
    model = UNIGRAM | {"vocab": pieces, "unk_id": 0}
    refused("vocab", "180,005 characters in all", model=model)
    tokens = [added(46 + i, letters(i)) for i in range(4_000)]
    refused("added_tokens", "240,000 characters in all", added_tokens=tokens)
    grown = [added(46 + i, "ﷺ" * 90, normalized=True) for i in range(100)]
    refused("added_tokens", "162,000 characters", normalizer=NFKC, added_tokens=grown)


def test_added_tokens_of_white_space_do_not_look_around() -> None:
    """The library would look at all spaces of a text for each of its spaces."""
    for side in ("lstrip", "rstrip"):
        refused(
            "added_tokens", "white space", side, added_tokens=[added(46, "\t ", **{side: True})]
        )
        blank = added(46, "x", normalized=True, **{side: True})
        refused("added_tokens", "'x'", normalizer=replace("x", " "), added_tokens=[blank])
    assert load(added_tokens=[added(46, "  ")]).encode(" " * 1000).ids == [46] * 500


def test_long_words_do_not_slow_bpe_down() -> None:
    """Every merge there can be, and a word without an end: the library's queue is enough."""
    vocab = {"a" * i: i - 1 for i in range(1, 1000)}
    merges = [["a" * (i - 1), "a"] for i in range(2, 1000)]
    made = load(model=BPE | {"vocab": vocab, "merges": merges})
    assert len(made.encode("a" * 100_000).ids) == 50_000
    assert isinstance(made.backend.model, models.BPE)
