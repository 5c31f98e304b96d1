"""SentencePiece models: the pieces, ids and texts of the `sentencepiece` package."""

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

import glassformer as gf
from glassformer.errors import CheckpointError, ConfigError
from glassformer.text import Tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

ENGLISH = """The cat sat on the mat and looked at the rain.
Where is the station? I would like two tickets to the sea, please!
My sister's children play in the garden, and nobody hears them.
It's half past ten: the last train leaves in 5 minutes."""
RUSSIAN = """Кот сидел на коврике и смотрел на дождь.
Где находится вокзал? Мне, пожалуйста, два билета к морю!
Дети моей сестры играют в саду, и никто их не слышит.
Сейчас половина одиннадцатого: последний поезд уходит через 5 минут."""
OTHERS = """Η γάτα κάθισε στο χαλί και κοίταξε τη βροχή.
猫坐在垫子上看着雨。车站在哪里？
猫はマットの上に座って雨を見ていました。
고양이가 매트 위에 앉아 비를 바라보았다.
جلست القطة على السجادة ونظرت إلى المطر."""
ODD = ["", " ", "  two  spaces ", "tab\tand\nline", "ＦＵＬＬ ﬁ ①", "e\u0301 é", "▁a ▁▁b",
       "👩‍👩‍👧 🇷🇺", "<sym>a<sym> b ##", "\u3000x", "</s"]  # fmt: skip
WORDS = f"{ENGLISH}\n{RUSSIAN}\n{OTHERS}".split() + ODD
MODELS: dict[str, dict[str, Any]] = {
    "unigram": {},
    "bpe": {"model_type": "bpe"},
    "unigram and bytes": {"byte_fallback": True, "vocab_size": 500},
    "bpe and bytes": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 520},
    "identity": {"normalization_rule_name": "identity"},
    "casefold": {"normalization_rule_name": "nfkc_cf"},
    "all spaces": {"remove_extra_whitespaces": False},
    "no prefix": {"add_dummy_prefix": False},
    "symbols": {"user_defined_symbols": ["<sym>", "##"]},
    "bpe and symbols": {"model_type": "bpe", "user_defined_symbols": ["<sym>", "##"]},
    "across words": {"split_by_whitespace": False},
}


def train(text: str, **options: Any) -> bytes:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.split("\n") * 3), model_writer=out, minloglevel=2,
        **{"vocab_size": 260, "character_coverage": 0.99, "hard_vocab_limit": False, **options},
    )  # fmt: skip
    return out.getvalue()


def some_texts(count: int) -> list[str]:
    choose = random.Random(5)
    return [" ".join(choose.choices(WORDS, k=choose.randint(0, 12))) for _ in range(count)]


@pytest.mark.parametrize("count", [500, pytest.param(5_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_pieces_ids_and_texts(name: str, count: int) -> None:
    data = train(f"{ENGLISH}\n{RUSSIAN}\n{OTHERS}", **MODELS[name])
    right = sentencepiece.SentencePieceProcessor(model_proto=data)
    ours = Tokenizer.from_files({"tokenizer.model": data})
    assert ours is not None
    texts = some_texts(count)
    expected = right.encode(texts)
    assert [encoding.ids for encoding in ours.encode_all(texts)] == expected
    assert ours.ids(texts) == expected
    assert [ours.token(i) for i in range(len(ours))] == right.id_to_piece(list(range(len(right))))
    known = [[i for i in ids if i != right.unk_id()] for ids in expected]
    assert [ours.decode(ids) for ids in known] == right.decode(known)
    assert any(right.unk_id() in ids for ids in expected) == ("bytes" not in name)


def test_another_model_would_be_seen() -> None:
    one, other = train(ENGLISH), train(ENGLISH, model_type="bpe")
    right = sentencepiece.SentencePieceProcessor(model_proto=other)
    ours = Tokenizer.from_files({"tokenizer.model": one})
    assert ours is not None and ours.ids(["The cat sat."]) != right.encode(["The cat sat."])


@pytest.mark.parametrize(
    ("kind", "file", "before", "after", "shift"),
    [
        ("T5Tokenizer", "spiece.model", [], ["</s>"], 0),
        ("LlamaTokenizer", "tokenizer.model", ["<s>"], [], 0),
        ("XLMRobertaTokenizer", "sentencepiece.bpe.model", ["<s>"], ["</s>"], 1),
    ],
)
def test_what_a_family_adds(
    kind: str, file: str, before: list[str], after: list[str], shift: int
) -> None:
    data = train(ENGLISH, vocab_size=120, model_type="bpe" if kind[0] == "L" else "unigram")
    right = sentencepiece.SentencePieceProcessor(model_proto=data)
    settings = json.dumps({"tokenizer_class": kind}).encode()
    ours = Tokenizer.from_files({file: data, "tokenizer_config.json": settings})
    assert ours is not None
    text = "The cat sat on the mat."
    encoding = ours.encode(text)
    assert encoding.tokens == [*before, *right.encode(text, out_type=str), *after]
    inside = encoding.ids[len(before) : len(encoding.ids) - len(after)]
    assert inside == [i + shift for i in right.encode(text)]
    assert ours.decode(encoding.ids) == text
    first = ["<s>", "<pad>", "</s>", "<unk>"] if shift else ["<unk>", "<s>", "</s>"]
    assert [ours.token(i) for i in range(len(first))] == first
    last = {"T5Tokenizer": "<extra_id_0>", "XLMRobertaTokenizer": "<mask>"}
    if kind in last:
        assert ours.token(len(ours) - 1) == last[kind]


CALLED = {
    "pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "pad_piece": "[PAD]", "bos_piece": "[CLS]",
    "eos_piece": "[SEP]", "unk_piece": "[UNK]", "vocab_size": 120,
}  # fmt: skip


@pytest.mark.parametrize("settings", [{}, {"tokenizer_class": "DebertaV2TokenizerFast"}])
def test_the_file_of_deberta(settings: dict[str, str]) -> None:
    """As deberta-v3-base has it: the file alone, whose name says what is around the pieces."""
    data = train(ENGLISH, **CALLED)
    right = sentencepiece.SentencePieceProcessor(model_proto=data)
    files = {"spm.model": data, "tokenizer_config.json": json.dumps(settings).encode()}
    ours = Tokenizer.from_files(files)
    assert ours is not None and ours.token(len(ours) - 1) == "[MASK]"
    texts = some_texts(500)
    found = [encoding.ids for encoding in ours.encode_all(texts)]
    assert found == [[1, *right.encode(text), 2] for text in texts]
    one, other = "The cat sat.", "Where is the station?"
    first, second = right.encode([one, other])
    pair = ours.encode((one, other))
    assert pair.ids == [1, *first, 2, *second, 2]
    assert pair.segments == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    masked = ours.encode("the [MASK] sat").ids
    assert len(ours) - 1 in masked and len(ours) == len(right) + 1


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like those of opus-mt: two SentencePiece models and one vocabulary."""
    folder = tmp_path_factory.mktemp("marian")
    vocab = {"</s>": 0, "<unk>": 1}
    for name, text in (("source", ENGLISH), ("target", RUSSIAN)):
        data = train(text, vocab_size=120)
        (folder / f"{name}.spm").write_bytes(data)
        pieces = sentencepiece.SentencePieceProcessor(model_proto=data)
        for i in range(len(pieces)):
            if not pieces.is_control(i):
                vocab.setdefault(pieces.id_to_piece(i), len(vocab))
    vocab |= {">>rus<<": len(vocab), "<pad>": len(vocab) + 1}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = MarianTokenizer(*files, source_lang="en", target_lang="ru")
    torch.manual_seed(3)
    pad = vocab["<pad>"]
    config = MarianConfig(
        vocab_size=len(vocab), d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
        decoder_ffn_dim=48, max_position_embeddings=64, init_std=0.5, eos_token_id=0,
        forced_eos_token_id=0, pad_token_id=pad, decoder_start_token_id=pad,
    )  # fmt: skip
    MarianMTModel(config).eval().save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    return folder / "model"


def test_marian_tokenizes_both_languages_as_transformers_does(marian: Path) -> None:
    theirs, ours = MarianTokenizer.from_pretrained(marian), gf.load(marian).tokenizer
    assert ours is not None
    for text in [*some_texts(500), ">>rus<< The cat sat.", "The cat сидел."]:
        assert ours.encode(text).ids == theirs(text).input_ids
        target = theirs(text_target=text).input_ids
        assert ours.target.encode(text).ids == target
        if ">>rus<<" not in text:  # a special token here
            decoded = theirs.decode(target, skip_special_tokens=True)
            assert ours.decode(target).strip() == decoded
    assert ours.encode("The cat").ids != ours.target.encode("The cat").ids


@pytest.mark.parametrize("beams", [1, 4])
def test_marian_translates_as_transformers_does(marian: Path, beams: int) -> None:
    theirs = MarianTokenizer.from_pretrained(marian)
    texts = ENGLISH.split("\n")
    inputs = theirs(texts, return_tensors="pt", padding=True)
    made = MarianMTModel.from_pretrained(marian).generate(
        **inputs, num_beams=beams, max_new_tokens=12, max_length=None
    )
    ours = gf.load(marian).translate(texts, num_beams=beams, max_new_tokens=12)
    assert [each.text for each in ours] == theirs.batch_decode(made, skip_special_tokens=True)
    assert any(each.text for each in ours)


def test_marian_puts_the_target_language_before_the_source(marian: Path) -> None:
    model, theirs = gf.load(marian), MarianTokenizer.from_pretrained(marian)
    settings: dict[str, Any] = {"max_new_tokens": 12, "forced_eos_token_id": 0}
    (found,) = model.translate("The cat sat.", target="rus", **settings)
    ids = theirs(">>rus<< The cat sat.").input_ids
    assert found.source_tokens == theirs.convert_ids_to_tokens(ids)
    assert found.text == model.translate(">>rus<< The cat sat.", **settings)[0].text
    wrong = {
        "source = 'eng': this model has tokens of target languages only": {"source": "eng"},
        "target = 'ru': the model has no such language: the nearest is 'rus'": {"target": "ru"},
    }
    for words, given in wrong.items():
        with pytest.raises(ConfigError, match=words):
            model.translate("The cat sat.", **given)


def test_marian_is_saved_as_it_was(marian: Path, tmp_path: Path) -> None:
    gf.load(marian).save(tmp_path / "copy")
    for name in ("source.spm", "target.spm", "vocab.json", "model.safetensors"):
        assert (tmp_path / "copy" / name).read_bytes() == (marian / name).read_bytes()
    theirs = MarianTokenizer.from_pretrained(tmp_path / "copy")
    assert theirs("The cat sat.").input_ids == gf.load(marian).tokenizer("The cat sat.").ids


def test_marian_prepares_each_side_with_its_own_model(marian: Path) -> None:
    from glassformer.data.prepare import encode

    tokenizer, theirs = gf.load(marian).tokenizer, MarianTokenizer.from_pretrained(marian)
    ((row),) = encode([("The cat sat.", "Кот сидел.")], tokenizer, "pairs")
    assert [*row["source"], 0] == theirs("The cat sat.").input_ids
    assert [*row["target"], 0] == theirs(text_target="Кот сидел.").input_ids


def test_a_damaged_file_is_one_line() -> None:
    data, choose = train(ENGLISH, vocab_size=120), random.Random(1)
    refused = 0
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(choose.randint(1, 4)):
            damaged[choose.randrange(len(damaged))] = choose.randrange(256)
        try:
            tokenizer = Tokenizer.from_files(
                {"tokenizer.model": bytes(damaged[choose.randrange(9) :])}
            )
        except CheckpointError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            assert tokenizer is not None and tokenizer.ids(["The cat sat."])
    assert refused > 100


def test_many_symbols_of_a_user_are_refused() -> None:
    symbols = [f"<s{i}>" for i in range(20)]
    data = train(ENGLISH, model_type="bpe", user_defined_symbols=symbols)
    with pytest.raises(CheckpointError, match="20 user-defined symbols"):
        Tokenizer.from_files({"tokenizer.model": data})


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"tokenizer.model": b""}, "it needs one unknown piece"),
        ({"tokenizer.model": b"\x0a\xff\xff\x7f"}, "where 0 are left"),
        ({"tokenizer.model": b"\x0b"}, "a field of the unknown type 3"),
        ({"tokenizer.model": b"\x80" * 11}, "a number of more than ten bytes"),
        ({"tokenizer.model": b"\x0a\x00" * 50_000}, "a piece of 0 characters"),
        (
            {"tokenizer.model": b"\x0a\xe4\xd4\x03\x0a\xe0\xd4\x03" + b"a" * 60_000},
            "a piece of 60,000 characters, not of 1 to 64",
        ),
        (
            {
                "spiece.model": b"",
                "tokenizer_config.json": b'{"tokenizer_class": "T5Tokenizer", "extra_ids": true}',
            },
            "extra_ids = True: write a number from 0 to 100",
        ),
        (
            {"spm.model": b"", "tokenizer_config.json": b'{"do_lower_case": true}'},
            "do_lower_case = True: without a tokenizer.json, only false",
        ),
        ({"spm.model": train(ENGLISH, vocab_size=120)}, r"the piece \[CLS\] is missing"),
        (
            {"tokenizer.model": b"", "tokenizer_config.json": b'{"tokenizer_class": "Other"}'},
            "tokenizer_class = 'Other': without a tokenizer.json, only T5Tokenizer",
        ),
        (
            {"source.spm": b"", "target.spm": b"", "vocab.json": b'{"<unk>": 0}'},
            "vocab.json: </s> is missing",
        ),
    ],
)
def test_refused(files: dict[str, bytes], says: str) -> None:
    with pytest.raises(CheckpointError, match=says) as caught:
        Tokenizer.from_files(files)
    assert "\n" not in str(caught.value)
