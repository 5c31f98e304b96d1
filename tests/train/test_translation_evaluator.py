"""Scores of translations are sacreBLEU's; the sentences to translate come from all over a file."""

import pytest
import sacrebleu

from commands import glassformer
from glassformer.evaluation.translation import Examples, TranslationEvaluator, scores
from tiny import write_recipe

FOUND = ["the cat sat on the mat", "a dog ran home"]


def test_each_source_once_with_all_its_translations():
    pairs = [("a", "x"), ("b", "y"), ("a", "z"), (" ", "w"), ("c", "")]
    found = Examples.of(pairs)
    assert found == Examples(["a", "b"], [["x", "z"], ["y"]])


def test_a_few_come_from_all_over():
    pairs = [(f"{i}", f"{i}") for i in range(100)]
    assert Examples.of(pairs, 4).sources == ["0", "25", "50", "75"]
    assert Examples.of(pairs, 200).sources == Examples.of(pairs).sources


def test_scores_are_sacrebleus():
    references = [["the cat sat on a mat"], ["a dog ran away home"]]
    found = scores(FOUND, references)
    column = [each[0] for each in references]
    for name, metric in (("bleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF()),
                         ("ter", sacrebleu.TER())):  # fmt: skip
        wanted = metric.corpus_score(FOUND, [column])
        assert found[name].value == pytest.approx(wanted.score)
        assert found[name].signature == str(metric.get_signature())
    assert "nrefs:1" in found["bleu"].signature and "tok:13a" in found["bleu"].signature


def test_any_of_several_references_will_do():
    references = [["no", "the cat sat on the mat"], ["a dog ran home"]]
    found = scores(FOUND, references, ("bleu",))
    assert found["bleu"].value == pytest.approx(100.0) and "nrefs:var" in found["bleu"].signature


def test_an_evaluator_leaves_the_model_as_it_was(monkeypatch):
    import torch

    seen = []

    def fake(task, tokenizer, texts, **search):
        seen.append((task.training, search))
        return [type("T", (), {"text": text}) for text in texts]

    monkeypatch.setattr("glassformer.evaluation.translation.translate", fake)
    task = torch.nn.Linear(1, 1).train()
    evaluator = TranslationEvaluator(
        None, Examples(FOUND, [[each] for each in FOUND]), {"num_beams": 1}
    )
    assert evaluator(task)["bleu"].value == pytest.approx(100.0)
    assert task.training and seen == [(False, {"num_beams": 1})]


def test_ids_have_no_text_to_compare_with(tmp_path):
    recipe = write_recipe(tmp_path, "translation", train={"bleu_sentences": 3})
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    words = ("--data.valid", tmp_path / "run/data/valid", "--tokenizer.path",
             tmp_path / "run/tokenizer", "--tokenizer.vocab_size", 8000)  # fmt: skip
    said = glassformer("pretrain", recipe, *words, "--out", tmp_path / "other", code=2)
    valid = str(tmp_path / "run/data/valid")
    assert f"data.valid = {valid!r} holds token ids: the metrics of translation need" in said.errors
    assert glassformer("plot", tmp_path / "run")
