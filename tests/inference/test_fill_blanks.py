"""`fill`: the softmax of transformers' logits, for any number of blanks, in texts of any length."""

from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from folders import one_line
from glassformer.errors import InputError
from glassformer.inference.fill import fill, filled
from glassformer.text import Tokenizer
from speakers import LONG, VOCABULARY, bert, bytewise, close, said

TEXT = "the [MASK] sat on the [MASK]."


@pytest.mark.parametrize("name", ["BertForMaskedLM", "BertForPreTraining"])
def test_probabilities_of_words_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    model, reference = bert(name, tmp_path / "m", **LONG)
    out = said(reference, model, TEXT)
    theirs = (out.logits if "logits" in out else out.prediction_logits)[0].softmax(-1)
    blanks = model.fill(TEXT, top_k=7)
    assert [TEXT[each.start : each.end] for each in blanks] == ["[MASK]", "[MASK]"]
    for blank, place in zip(blanks, (2, 6), strict=True):
        best, ids = theirs[place].topk(7)
        close([each.probability for each in blank.candidates], best)
        assert [each.id for each in blank.candidates] == ids.tolist()
        assert [str(each) for each in blank.candidates] == [VOCABULARY[i] for i in ids]
    assert sum(each.probability for each in model.fill(TEXT, top_k=999)[0].candidates) == (
        pytest.approx(1)
    )
    assert filled(TEXT, blanks) == TEXT.replace("[MASK]", "{}").format(
        *(each.candidates[0] for each in blanks)
    )


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> gf.Model:
    return bert("BertForMaskedLM", tmp_path_factory.mktemp("m"))[0]


def test_a_model_with_another_word_for_a_blank(tmp_path: Path) -> None:
    model, reference = bytewise("RobertaForMaskedLM", tmp_path / "m")
    theirs = said(reference, model, "the <mask> sat").logits[0].softmax(-1)
    place = model.tokenizer.encode("the <mask> sat").ids.index(model.tokenizer.id("<mask>"))
    for text in ("the <mask> sat", "the [MASK] sat"):
        (blank,) = model.fill(text)
        assert text[blank.start : blank.end] in ("<mask>", "[MASK]")
        close([each.probability for each in blank.candidates], theirs[place].topk(5)[0])
    assert [(each.start, each.end) for each in model.fill("a [MASK] <mask>")] == [(2, 8), (9, 15)]


def test_many_texts_alone_or_together(short: gf.Model) -> None:
    texts = ["[MASK]", "the [MASK] cat [MASK]", "a " * 20 + "[MASK] " + "the " * 20, "[MASK] ." * 9]
    together = fill(*short.able("fill"), texts)
    assert [len(each) for each in together] == [1, 2, 1, 9]
    for text, blanks in zip(texts, together, strict=True):
        for alone, batched in zip(short.fill(text), blanks, strict=True):
            assert (alone.start, alone.end) == (batched.start, batched.end)
            for one, two in zip(alone.candidates, batched.candidates, strict=True):
                assert one.probability == pytest.approx(two.probability, abs=1e-6)


def test_a_blank_far_from_the_start_is_seen_with_its_neighbours(short: gf.Model) -> None:
    """17 tokens fit: the blank's window is the one around it."""
    words = ["the"] * 30 + ["[MASK]"] + ["cat"] * 5
    (blank,) = short.fill(" ".join(words))
    ids = short.tokenizer.encode(" ".join(words)).ids
    with torch.no_grad():
        (logits,) = short.logits([[ids[0], *ids[22:37], ids[-1]]])
    close(
        [each.probability for each in blank.candidates],
        logits[10].softmax(-1).topk(5)[0],
        1e-6,
    )


WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "no blank": ({"texts": "the cat"}, ("text 0", "the cat", "[MASK]")),
    "no text": ({"texts": [5]}, ("text 0", "5", "string")),
    "no word": ({"texts": "a [MASK]", "top_k": 0}, ("top_k = 0",)),
    "half a word": ({"texts": "a [MASK]", "top_k": 1.5}, ("top_k = 1.5",)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_filled_gets_one_line(name: str, short: gf.Model) -> None:
    given, words = WRONG[name]
    with pytest.raises(InputError) as caught:
        short.fill(**given)
    one_line(caught.value, *words)


def test_a_tokenizer_without_a_blank_gets_one_line(short: gf.Model) -> None:
    words = "\n".join(VOCABULARY).replace("[MASK]", "[HOLE]").encode()
    model = gf.Model(short.task, Tokenizer.from_files({"vocab.txt": words}))
    with pytest.raises(InputError) as caught:
        model.fill("the [MASK]")
    one_line(caught.value, "[MASK]", "<mask>")
