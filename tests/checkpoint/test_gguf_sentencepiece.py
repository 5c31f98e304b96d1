"""SentencePiece tokenizers in GGUF files: the ids of the `sentencepiece` package."""

import io
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import transformers

import ggufs
import glassformer as gf
from folders import one_line
from glassformer.errors import CheckpointError

TEXT = """The cat sat on the mat and looked at the rain.
Where is the station? I would like two tickets to the sea, please!
Кот сидел на коврике и смотрел на дождь.
猫坐在垫子上看着雨。车站在哪里？"""
TEXTS = [
    *TEXT.split("\n"), "", " ", "  two  spaces ", "the   mat", "tab\tand\nline", "e\u0301 é 👩‍👩‍👧",
    "ＦＵＬＬ ﬁ ①", "station " * 30,
]  # fmt: skip
PREFIX = "tokenizer.ggml."


def train(**options: Any) -> sentencepiece.SentencePieceProcessor:
    """As Llama, Phi-3 and Gemma have it: BPE with bytes, and no normalization."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.split("\n") * 3), model_writer=out, minloglevel=2,
        model_type="bpe", byte_fallback=True, vocab_size=420, hard_vocab_limit=False,
        normalization_rule_name="identity", remove_extra_whitespaces=False, **options,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())


def fields(pieces: sentencepiece.SentencePieceProcessor, **changes: Any) -> dict[str, Any]:
    """What llama.cpp's converter writes; four more tokens stand for no piece."""
    ids = list(range(len(pieces)))
    kinds = [
        2 if pieces.is_unknown(i) else 3 if pieces.is_control(i) else 6 if pieces.is_byte(i) else 1
        for i in ids
    ]
    listed = {
        "model": "llama", "pre": "default", "add_bos_token": True, "unknown_token_id": 0,
        "tokens": [*pieces.id_to_piece(ids), "<|user|>", "▁▁", "▁▁▁", "[PAD9]"],
        "scores": [*map(pieces.get_score, ids), -1000.0, 0.0, 0.0, -1000.0],
        "token_type": [*kinds, 3, 4, 4, 5],
    }  # fmt: skip
    return {PREFIX + name: value for name, value in {**listed, **changes}.items()}


def load(pieces: Any, tmp_path: Path, **changes: Any) -> gf.Model:
    model = ggufs.reference(vocab_size=len(pieces) + 4)
    return gf.load(ggufs.write(tmp_path / "a.gguf", model, changes=fields(pieces, **changes)))


@pytest.mark.parametrize("prefix", [True, False])
def test_ids_and_texts_are_sentencepieces(prefix: bool, tmp_path: Path) -> None:
    pieces = train(add_dummy_prefix=prefix, user_defined_symbols=["▁▁", "▁▁▁"])
    model = load(train(add_dummy_prefix=prefix), tmp_path, add_space_prefix=prefix)
    tokens = model.tokenizer
    ours = [[tokens.token(i) for i in ids] for ids in tokens.ids(TEXTS)]
    assert ours == pieces.encode(TEXTS, out_type=str)
    assert [tokens.decode(ids) for ids in tokens.ids(TEXTS)] == TEXTS
    assert tokens.encode("the mat").ids == [1, *tokens.ids(["the mat"])[0]]
    model.save(tmp_path / "folder")
    other = transformers.AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert other(TEXTS).input_ids == [each.ids for each in tokens.encode_all(TEXTS)]


def test_a_chat_is_split_at_its_tokens(tmp_path: Path) -> None:
    tokens = load(train(), tmp_path, add_bos_token=False).tokenizer
    said, user = tokens.ids(["the cat"])[0], tokens.id("<|user|>")
    assert tokens.ids(["the cat<|user|>the cat"])[0] == [*said, user, *said]
    assert tokens.id("[PAD9]") not in tokens.ids(["[PAD9]"])[0]


def test_another_normalization_is_left_out_aloud(tmp_path: Path) -> None:
    for change in ({"remove_extra_whitespaces": True}, {"precompiled_charsmap": [1, 2]}):
        with pytest.warns(UserWarning, match=r"model = 'llama'.* is not supported"):
            assert load(train(), tmp_path, **change).tokenizer is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scores": ggufs.GONE}, "scores: a list of numbers is needed"),
        ({"scores": [1.0]}, "scores has 1 items"),
        ({"token_type": [7] * 424}, "of type 7"),
        ({"token_type": [1] * 424}, "one unknown piece"),
        ({"tokens": ["a" * 65, *map(str, range(423))]}, "64 characters"),
        ({"tokens": ["a"] * 424}, "'a' is there twice"),
        ({"scores": [float("nan")] * 424}, "with score nan"),
    ],
)
def test_what_is_wrong_is_one_line(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    pieces = train()
    assert len(pieces) == 420
    with pytest.raises(CheckpointError) as caught:
        load(pieces, tmp_path, **change)
    assert words in one_line(caught.value) and "a.gguf" in str(caught.value)
