"""The same ids, segments and spans as transformers' tokenizers, from the same files."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers
from transformers import BertTokenizerFast, GPT2TokenizerFast

from glassformer.errors import CheckpointError, InputError
from glassformer.text import Tokenizer

PROFILE = settings(deadline=None, max_examples=50, derandomize=True)

WORDS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the The cat Cat ##s sat on mat . , ! ? ' - ( ) cafe café e é r "
    "##esume resume ##é un ##aff ##able naive 中 国 人 Ü u ##ber h ##ello 1 ##9 ##0 ğ i I"
)
PIECES = WORDS.split()

TEXTS = [
    "The cats sat on the mat.",
    "unaffable, naïve résumé! Café café",
    "中国人 the中cat",
    "  two  spaces\tand\na line ",
    "the [MASK] sat on [SEP] and [UNK]",
    "İstanbul Über ǅ ﬁ ½ e\u0301",
    "'t-cat's (1990)?",
    "cat\u200bs \x00\ufffd ok\u00a0the 🐈",
    "",
    ("The cat", "sat on the mat"),
    ("", "the"),
    ("中", "é"),
]

LAYOUTS = {
    "uncased": {},
    "cased": {"do_lower_case": False},
    "uncased, accents kept": {"strip_accents": False},
    "cased, accents stripped": {"do_lower_case": False, "strip_accents": True},
    "Chinese left together": {"tokenize_chinese_chars": False},
}

MERGES = ["t h", "th e", "Ġ the", "Ġ c", "a t", "Ġc at", "c at", "Ã ©", "# #", "s a", "1 9"]


def files_in(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def write_bert(folder, **settings):
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return BertTokenizerFast.from_pretrained(folder, **settings)


def gpt2_vocab():
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet())]
    pieces += ["".join(pair.split()) for pair in MERGES]
    return {piece: i for i, piece in enumerate([*pieces, "<|endoftext|>"])}


def write_gpt2(folder, newline="\n", **settings):
    (folder / "vocab.json").write_text(json.dumps(gpt2_vocab()), encoding="utf-8")
    lines = newline.join(["#version: 0.2", *MERGES, ""])
    (folder / "merges.txt").write_bytes(lines.encode())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return GPT2TokenizerFast.from_pretrained(folder, **settings)


def check(theirs, ours, text):
    parts = text if isinstance(text, tuple) else (text,)
    expected = theirs(*parts, return_offsets_mapping=True, return_token_type_ids=True)
    encoding = ours.encode(text)
    assert encoding.ids == expected["input_ids"]
    assert encoding.segments == expected["token_type_ids"]
    assert encoding.spans == expected["offset_mapping"]
    assert encoding.texts == expected.sequence_ids()
    assert encoding.tokens == theirs.convert_ids_to_tokens(encoding.ids)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_vocab_txt_gives_what_bert_tokenizer_gives(tmp_path, layout):
    theirs = write_bert(tmp_path, **LAYOUTS[layout])
    ours = Tokenizer.from_files(files_in(tmp_path))
    for text in TEXTS:
        check(theirs, ours, text)


def test_cased_and_uncased_differ(tmp_path):
    """Negative control: the settings are really read."""
    tokens = []
    for lower in (True, False):
        write_bert(tmp_path, do_lower_case=lower)
        tokens.append(Tokenizer.from_files(files_in(tmp_path)).encode("The Café").tokens)
    assert tokens == [["[CLS]", "the", "cafe", "[SEP]"], ["[CLS]", "The", "[UNK]", "[SEP]"]]


@pytest.mark.parametrize("prefix", [False, True])
def test_vocab_json_and_merges_give_what_gpt2_tokenizer_gives(tmp_path, prefix):
    theirs = write_gpt2(tmp_path, add_prefix_space=prefix)
    ours = Tokenizer.from_files(files_in(tmp_path))
    for text in [*TEXTS, "the cat<|endoftext|>the", "## 19"]:
        check(theirs, ours, text)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_tokenizer_json_gives_what_transformers_gives(tmp_path, kind):
    (tmp_path / "old").mkdir()
    theirs = {"bert": write_bert, "gpt2": write_gpt2}[kind](tmp_path / "old")
    theirs.save_pretrained(tmp_path / "new")
    files = {"tokenizer.json": (tmp_path / "new" / "tokenizer.json").read_bytes()}
    ours = Tokenizer.from_files(files)
    for text in TEXTS:
        check(theirs, ours, text)
    assert len(ours) == len(theirs)


@PROFILE
@given(st.text(max_size=40), st.booleans())
def test_any_text_gives_what_bert_tokenizer_gives(tmp_path_factory, text, lower):
    folder = tmp_path_factory.mktemp("bert")
    theirs = write_bert(folder, do_lower_case=lower)
    check(theirs, Tokenizer.from_files(files_in(folder)), text)


def gpt2():
    merges = "\n".join(["#version: 0.2", *MERGES])
    files = {"vocab.json": json.dumps(gpt2_vocab()).encode(), "merges.txt": merges.encode()}
    return Tokenizer.from_files(files)


@PROFILE
@given(st.text(max_size=60))
@example(" the  café\n\t🐈\u200d⬛ ")
def test_gpt2_decode_undoes_encode_for_any_text(text):
    tokenizer = gpt2()
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_tokens_of_bytes_are_read_as_letters():
    tokenizer = gpt2()
    ids = tokenizer.encode(" catéК\n").ids
    assert [tokenizer.token(i) for i in ids] == ["Ġcat", "Ã©", "Ð", "ļ", "Ċ"]
    assert [tokenizer.readable(i) for i in ids] == ["Ġcat", "é", "Ð", "ļ", "Ċ"]  # К is two halves


@PROFILE
@given(st.lists(st.text(max_size=20), max_size=5))
def test_many_texts_are_encoded_as_each_alone(texts):
    tokenizer = gpt2()
    assert tokenizer.encode_all(texts) == [tokenizer.encode(text) for text in texts]


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_never_cuts_and_never_pads_whatever_the_file_asks(tmp_path, kind):
    (tmp_path / "old").mkdir()
    backend = {"bert": write_bert, "gpt2": write_gpt2}[kind](tmp_path / "old").backend_tokenizer
    backend.enable_truncation(3)
    backend.enable_padding(length=50)
    asked = backend.to_str()
    assert json.loads(asked)["truncation"] and json.loads(asked)["padding"]
    ours = Tokenizer.from_files({"tokenizer.json": asked.encode()})
    short, long = ours.encode_all(["the", "the cat sat on the mat"])
    assert len(short.ids) < len(long.ids) < 50
    assert len(long.ids) > 6
    assert ours.backend.truncation is None and ours.backend.padding is None


def test_pair_is_cls_a_sep_b_sep_with_segments(tmp_path):
    """[CLS] sentence A [SEP] sentence B [SEP], the lecture's input."""
    write_bert(tmp_path)
    encoding = Tokenizer.from_files(files_in(tmp_path)).encode(("the cat", "cats sat"))
    assert encoding.tokens == ["[CLS]", "the", "cat", "[SEP]", "cat", "##s", "sat", "[SEP]"]
    assert encoding.segments == [0, 0, 0, 0, 1, 1, 1, 1]
    assert encoding.special == [True, False, False, True, False, False, False, True]
    assert encoding.texts == [None, 0, 0, None, 1, 1, 1, None]


def test_ids_and_tokens_translate_both_ways(tmp_path):
    write_bert(tmp_path)
    tokenizer = Tokenizer.from_files(files_in(tmp_path))
    assert (tokenizer.id("cat"), tokenizer.token(PIECES.index("cat"))) == (
        PIECES.index("cat"),
        "cat",
    )
    assert tokenizer.id("zebra") is None
    assert tokenizer.token(9_999) == "<9999>"
    assert len(tokenizer) == len(PIECES)
    assert tokenizer.highest == len(PIECES) - 1


def test_a_folder_without_a_tokenizer_gives_none():
    assert Tokenizer.from_files({"config.json": b"{}", "vocab.json": b"{}"}) is None


VOCAB = "\n".join(PIECES).encode()
BROKEN = {
    "tokenizer.json is cut off": ({"tokenizer.json": b'{"model": '}, "tokenizer.json"),
    "tokenizer.json is empty": ({"tokenizer.json": b""}, "tokenizer.json"),
    "tokenizer.json has no model": ({"tokenizer.json": b"{}"}, "tokenizer.json"),
    "tokenizer.json is no UTF-8": ({"tokenizer.json": b"\xff\xfe"}, "tokenizer.json"),
    "vocab.txt is empty": ({"vocab.txt": b""}, "vocab.txt"),
    "vocab.txt is no UTF-8": ({"vocab.txt": b"[CLS]\n\xff"}, "vocab.txt"),
    "vocab.txt has no [CLS]": ({"vocab.txt": b"[UNK]\n[SEP]\nthe"}, "[CLS]"),
    "vocab.txt has no [UNK]": ({"vocab.txt": b"[CLS]\n[SEP]\nthe"}, "[UNK]"),
    "vocab.json is no JSON": ({"vocab.json": b"{", "merges.txt": b""}, "vocab.json"),
    "vocab.json is a list": ({"vocab.json": b"[]", "merges.txt": b""}, "vocab.json"),
    "vocab.json names a file": ({"vocab.json": b'"a.json"', "merges.txt": b""}, "vocab.json"),
    "vocab.json has words as ids": ({"vocab.json": b'{"a": "b"}', "merges.txt": b""}, "vocab.json"),
    "merges.txt has three in a line": ({"vocab.json": b"{}", "merges.txt": b"a b c"}, "merges.txt"),
    "merges.txt has unknown pieces": ({"vocab.json": b"{}", "merges.txt": b"a b"}, "'a'"),
    "merges.txt is no UTF-8": ({"vocab.json": b"{}", "merges.txt": b"\xff"}, "merges.txt"),
    "tokenizer_config.json is no JSON": (
        {"vocab.txt": VOCAB, "tokenizer_config.json": b"{"},
        "tokenizer_config.json",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_gives_one_line_that_names_it(case):
    files, named = BROKEN[case]
    with pytest.raises(CheckpointError) as caught:
        Tokenizer.from_files(files, "folder")
    line = str(caught.value)
    assert line.startswith("folder: ")
    assert len(line.splitlines()) == 1
    assert named in line


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_files_with_windows_line_ends_are_read(tmp_path, kind):
    if kind == "bert":
        theirs = write_bert(tmp_path)
        (tmp_path / "vocab.txt").write_bytes(("\r\n".join(PIECES) + "\r\n").encode())
    else:
        theirs = write_gpt2(tmp_path, newline="\r\n")
    check(theirs, Tokenizer.from_files(files_in(tmp_path)), "the cats sat on the mat.")


@pytest.mark.parametrize("text", [5, None, ("a",), ["a"], ("a", "b", "c"), ("a", 3)], ids=repr)
def test_what_is_no_text_gets_one_line(text):
    with pytest.raises(InputError, match=r"text 0 is .*: write a string, or a pair of strings"):
        gpt2().encode_all([text])


def test_half_a_character_gets_one_line():
    """A lone surrogate is no text, though Python holds it in a string."""
    with pytest.raises(InputError, match="text 0"):
        gpt2().encode_all(["\ud800"])
