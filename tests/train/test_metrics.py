"""Each figure is the reference package's, on a thousand random cases."""

import random
import sys

import pytest
import torch
from nervaluate import Evaluator
from torchmetrics.functional.classification import (
    binary_f1_score,
    multiclass_accuracy,
    multiclass_f1_score,
    multiclass_matthews_corrcoef,
    multilabel_exact_match,
    multilabel_f1_score,
)
from torchmetrics.functional.regression import pearson_corrcoef, spearman_corrcoef
from torchmetrics.functional.text import squad

from glassformer.data.label_alignment import LabelledText, LabelledWords
from glassformer.data.readers.squad import Question
from glassformer.errors import ConfigError, check_installed
from glassformer.evaluation import metrics
from glassformer.inference import Answer, Classified
from glassformer.objectives import OBJECTIVES
from glassformer.objectives.labelled import LabelledEvaluator
from glassformer.recipe.schema import recipe_from

COUNT = 1_000
TAGS = ["B-a", "B-b", "I-a", "I-b", "O"]
WORDS = ["the", "a", "cat", "dog", "'s", "sat,", "Sat", "mat", "7"]


class Task(torch.nn.Module):
    """Nobody asks it anything: what it would say is given."""


def measured(kind, documents, labels=()):
    objective = OBJECTIVES[kind]
    several = getattr(documents[0], "several", None) is not None
    fields = {
        "name": "t",
        "data": {"train": "t.tsv", **({"label_separator": "|"} if several else {})},
        "objective": {"kind": kind, "length": 32},
        "train": {"steps": 1},
    }
    names = objective.metric_names(recipe_from(fields, {}, "t.toml"), labels, documents)
    return LabelledEvaluator(objective, None, documents, tuple(labels), names)


def say(monkeypatch, call, found):
    monkeypatch.setattr(f"glassformer.inference.{call}", lambda *given, **options: found)


@pytest.mark.parametrize("count", [2, 5])
def test_classes(monkeypatch, count):
    draw = torch.Generator().manual_seed(count)
    found, wanted = (torch.randint(count, (COUNT,), generator=draw) for _ in range(2))
    labels = [f"l{i}" for i in range(count)]
    say(monkeypatch, "classify", [Classified(labels[i], 1.0, {}) for i in found])
    documents = [LabelledText(("x",), int(i)) for i in wanted]
    figures = measured("classification", documents, labels).metrics(Task())
    expected = {
        "accuracy": multiclass_accuracy(found, wanted, count, average="micro"),
        "mcc": multiclass_matthews_corrcoef(found, wanted, count),
    }
    if count == 2:
        expected["f1"] = binary_f1_score(found, wanted)
    else:
        expected["macro_f1"] = multiclass_f1_score(found, wanted, count, average="macro")
    assert figures == {name: float(value) for name, value in expected.items()}
    assert figures["accuracy"] == float((found == wanted).double().mean().float())


def test_several_labels(monkeypatch):
    draw = torch.Generator().manual_seed(0)
    found = torch.rand(COUNT, 4, generator=draw)
    wanted = (torch.rand(COUNT, 4, generator=draw) > torch.tensor([0.9, 0.5, 0.5, 0.2])).long()
    labels = ["a", "b", "c", "d"]
    scores = [dict(zip(labels, row, strict=True)) for row in found.tolist()]
    say(monkeypatch, "classify", [Classified("a", 1.0, row) for row in scores])
    several = [tuple(row.nonzero()[:, 0].tolist()) for row in wanted]
    documents = [LabelledText(("x",), several=each) for each in several]
    figures = measured("classification", documents, labels).metrics(Task())
    assert figures == {
        "micro_f1": float(multilabel_f1_score(found, wanted, 4, average="micro")),
        "macro_f1": float(multilabel_f1_score(found, wanted, 4, average="macro")),
        "exact_match": float(multilabel_exact_match(found, wanted, 4)),
    }
    both = ((found > 0.5) & wanted.bool()).sum(0)
    f1 = 2 * both / ((found > 0.5).sum(0) + wanted.sum(0))
    assert figures["macro_f1"] == pytest.approx(float(f1.mean()))


@pytest.mark.parametrize("count", [2, 5])
def test_one_who_always_says_the_same_has_no_correlation(count):
    """torchmetrics alone would say 0.11 of two classes."""
    wanted, same = torch.tensor([0, 1, 0, 1, 0, 1, 0]), torch.zeros(7, dtype=torch.long)
    assert metrics.of_classes(same, wanted, count)["mcc"] == 0.0
    assert metrics.of_classes(wanted, same, count)["mcc"] == 0.0
    assert metrics.of_classes(wanted, wanted, count)["mcc"] == 1.0


def test_values(monkeypatch):
    draw = torch.Generator().manual_seed(0)
    found, wanted = (torch.randn(COUNT, generator=draw) for _ in range(2))
    found += wanted
    say(monkeypatch, "classify", [Classified("v", float(x), {}) for x in found])
    documents = [LabelledText(("x",), float(x)) for x in wanted]
    figures = measured("classification", documents, ["v"]).metrics(Task())
    assert figures == {
        "spearman": float(spearman_corrcoef(found, wanted)),
        "pearson": float(pearson_corrcoef(found, wanted)),
    }
    same = metrics.of_values(torch.ones(9), torch.arange(9.0))
    assert same["pearson"] == 0.0


def test_tags(monkeypatch):
    draw = random.Random(0)
    sizes = [draw.randint(1, 12) for _ in range(COUNT)]
    found, wanted = ([draw.choices(TAGS, k=size) for size in sizes] for _ in range(2))
    for a, b in zip(found, wanted, strict=True):
        if draw.random() < 0.5:
            a[:] = b
    answers = [type("Tagged", (), {"labels": each}) for each in found]
    say(monkeypatch, "tag", answers)
    documents = [LabelledWords(("x",) * len(each), tuple(map(TAGS.index, each))) for each in wanted]
    figures = measured("token_classification", documents, TAGS).metrics(Task())
    result = Evaluator(wanted, found, tags=["a", "b"], loader="list").evaluate()
    assert figures["entity_f1"] == result["overall"]["strict"].f1
    flat = [
        torch.tensor([TAGS.index(t) for each in side for t in each]) for side in (found, wanted)
    ]
    assert figures["accuracy"] == float(multiclass_accuracy(*flat, 5, average="micro"))
    assert measured("token_classification", documents, ["NOUN", "VERB"]).names == ("accuracy",)


def test_answers(monkeypatch):
    draw = random.Random(0)

    def text():
        return " ".join(draw.choices(WORDS, k=draw.randint(0, 4)))

    found = [text() for _ in range(COUNT)]
    wanted = [[text() for _ in range(draw.randint(0, 3))] for _ in range(COUNT)]
    for i in range(0, COUNT, 3):
        wanted[i] = [*wanted[i], found[i].upper()]
    said = [[Answer(each, 0, 0, 1.0)] for each in found]
    say(monkeypatch, "answer", said)
    documents = [
        Question("1", "q", "c", [(each, 0) for each in texts], not texts) for texts in wanted
    ]
    figures = measured("question_answering", documents).metrics(Task())
    expected = squad(
        [{"prediction_text": each, "id": str(i)} for i, each in enumerate(found)],
        [
            {"answers": {"text": each or [""], "answer_start": [0]}, "id": str(i)}
            for i, each in enumerate(wanted)
        ],
    )
    assert figures == {name: float(expected[name]) / 100 for name in ("f1", "exact_match")}
    assert 0 < figures["exact_match"] < figures["f1"] < 1


def test_likeness(monkeypatch):
    draw = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(2, COUNT, 3, generator=draw), dim=-1)
    values = torch.rand(COUNT, generator=draw)
    for labelled in (True, False):
        sides = iter(vectors)
        monkeypatch.setattr("glassformer.inference.embed", lambda *a, sides=sides, **b: next(sides))
        documents = [LabelledText(("a", "b"), float(x) if labelled else None) for x in values]
        figures = measured("sentence_embedding", documents).metrics(Task())
        cosines = (vectors[0] * vectors[1]).sum(-1)
        if labelled:
            assert figures["spearman"] == float(spearman_corrcoef(cosines, values))
            assert figures["pearson"] == float(pearson_corrcoef(cosines, values))
        else:
            nearest = (vectors[0] @ vectors[1].T).argmax(-1) == torch.arange(COUNT)
            assert figures["accuracy"] == pytest.approx(float(nearest.float().mean()))


@pytest.mark.parametrize("package", ["torchmetrics", "nervaluate"])
def test_a_missing_package_is_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else True)
    with pytest.raises(
        ConfigError, match=rf"needs {package}: pip install 'glassformer\[metrics\]'"
    ):
        check_installed("this", "metrics", *metrics.PACKAGES)
