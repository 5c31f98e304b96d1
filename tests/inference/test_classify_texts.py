"""`classify` and `follows`: the probabilities of transformers, and long texts in windows."""

from pathlib import Path
from typing import Any

import pytest
import torch

import folders
import glassformer as gf
from folders import one_line
from glassformer.errors import InputError
from speakers import LONG, bert, bytewise, close, said

NAMES = {"id2label": {0: "no", 1: "perhaps", 2: "yes"}}
TEXTS = ["the cat sat", "", "a dog, on the mat?", ("the cat", "sat on the mats")]
CASES = {
    "BertForSequenceClassification": bert,
    "RobertaForSequenceClassification": bytewise,
    "GPT2ForSequenceClassification": bytewise,
    "BartForSequenceClassification": bytewise,
}


@pytest.mark.parametrize("name", CASES)
def test_probabilities_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    sizes = LONG if CASES[name] is bert else {}
    model, reference = CASES[name](name, tmp_path / "m", **NAMES, **sizes)
    texts = [text for text in TEXTS if text or CASES[name] is bert]
    for text, found in zip(texts, model.classify(texts), strict=True):
        theirs = said(reference, model, text).logits[0].softmax(-1)
        close([found.scores[label] for label in ("no", "perhaps", "yes")], theirs)
        assert found.label == NAMES["id2label"][int(theirs.argmax())] == str(found)
        assert found.score == found.scores[found.label] == max(found.scores.values())
        assert list(found.scores.values()) == sorted(found.scores.values(), reverse=True)
        assert model.classify(text)[0].scores == pytest.approx(found.scores, abs=1e-6)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> gf.Model:
    return bert("BertForSequenceClassification", tmp_path_factory.mktemp("m"), **NAMES)[0]


def test_only_the_best(model: gf.Model) -> None:
    (whole,), (best,) = model.classify("the cat"), model.classify("the cat", top_k=2)
    assert list(best.scores.items()) == list(whole.scores.items())[:2]
    assert best.label == whole.label
    with pytest.raises(InputError) as caught:
        model.classify("the cat", top_k=0)
    one_line(caught.value, "top_k = 0")


def test_a_long_text_is_read_to_its_end(model: gf.Model) -> None:
    """17 tokens fit. The windows' logits by hand: their mean is what counts."""
    words = ("the cat sat on a mat who was on the mat " * 3).split()
    (found,) = model.classify(" ".join(words))
    assert found.windows > 1
    ids = model.tokenizer.encode(" ".join(words)).ids
    room = 15
    count = found.windows
    starts = [round(i * (len(words) - room) / (count - 1)) for i in range(count)]
    rows = [[ids[0], *ids[1 + s : 1 + s + room], ids[-1]] for s in starts]
    with torch.no_grad():
        logits = torch.stack(model.logits(rows))
    expected = logits.log_softmax(-1).mean(0).softmax(-1)
    close([found.scores[label] for label in ("no", "perhaps", "yes")], expected, 1e-6)
    (other,) = model.classify(" ".join([*words[:-1], "paris"]))
    assert other.scores != found.scores


def test_of_a_long_pair_the_longer_side_is_in_windows(model: gf.Model) -> None:
    (one,) = model.classify(("the cat", "sat on the mat " * 9))
    (two,) = model.classify(("sat on the mat " * 9, "the cat"))
    assert one.windows > 1 and two.windows > 1 and one.scores != two.scores
    with pytest.raises(InputError) as caught:
        model.classify([("the cat " * 20, "sat on the mat " * 20)])
    one_line(caught.value, "text 0", "17", "shorten")


def test_one_label_is_a_number(tmp_path: Path) -> None:
    name, labels = "BertForSequenceClassification", {"id2label": {0: "likeness"}}
    model, reference = bert(name, tmp_path / "m", **LONG, **labels)
    (found,) = model.classify("the cat sat")
    close(found.score, said(reference, model, "the cat sat").logits[0, 0])
    assert found.label == "likeness"


def test_several_labels_at_once_if_the_config_says_so(tmp_path: Path) -> None:
    several = {"problem_type": "multi_label_classification"}
    name = "BertForSequenceClassification"
    model, reference = bert(name, tmp_path / "m", **LONG, **NAMES, **several)
    (found,) = model.classify("the cat sat")
    theirs = said(reference, model, "the cat sat").logits[0]
    close([found.scores[each] for each in ("no", "perhaps", "yes")], theirs.sigmoid())
    (plain,) = model.classify("the cat sat", problem="single_label_classification")
    close([plain.scores[each] for each in ("no", "perhaps", "yes")], theirs.softmax(-1))
    for wrong in ("both", ["a"]):
        folders.edit_config(tmp_path / "m", problem_type=wrong)
        with pytest.raises(InputError) as caught:
            gf.load(tmp_path / "m").classify("the cat")
        one_line(caught.value, "problem_type", "regression")


PAIRS = [("the cat sat.", "was on the mat."), ("who?", "paris"), ("a", "b")]


@pytest.mark.parametrize(
    "name", ["BertForPreTraining", "BertForNextSentencePrediction", "AlbertForPreTraining"]
)
def test_does_one_follow_the_other(name: str, tmp_path: Path) -> None:
    model, reference = bert(name, tmp_path / "m", **LONG)
    for a, b in PAIRS:
        out = said(reference, model, (a, b))
        names = ("logits", "seq_relationship_logits", "sop_logits")
        logits = next(out[name] for name in names if name in out)
        close(model.follows(a, b), logits[0].softmax(-1)[0])
        assert model.follows(a, b) != pytest.approx(model.follows(b, a), abs=1e-6)
    together = gf.inference.follows(*model.able("follows"), PAIRS)
    assert together == pytest.approx([model.follows(*pair) for pair in PAIRS], abs=1e-6)
    with pytest.raises(InputError) as caught:
        model.follows("the cat " * 40, "sat")
    one_line(caught.value, "pair 0", "84", "64")
    with pytest.raises(InputError) as caught:
        model.follows("the cat", None)
    one_line(caught.value, "None")


WRONG: dict[str, tuple[str, tuple[Any, ...], tuple[str, ...]]] = {
    "no words": (
        "fill",
        ("the [MASK]",),
        ("(classification) and cannot fill: use classify or embed", "gf-encoder"),
    ),
    "no tags": (
        "tag",
        ("the cat",),
        ("cannot tag: use classify", "load a token_classification model"),
    ),
    "no spans": (
        "answer",
        ("who", "the cat"),
        ("cannot answer: use classify", "load a question_answering model"),
    ),
    "no next sentence": (
        "follows",
        ("a", "b"),
        ("cannot tell whether one text follows", "gf-encoder"),
    ),
    "no text": ("classify", ([5],), ("text 0", "5")),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_classifier_cannot_do_gets_one_line(name: str, model: gf.Model) -> None:
    call, given, words = WRONG[name]
    with pytest.raises(InputError) as caught:
        getattr(model, call)(*given)
    one_line(caught.value, *words)
