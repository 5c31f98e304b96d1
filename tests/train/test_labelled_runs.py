"""Runs on labelled data: they learn, they are resumed, and they say what is wrong with a file."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import at_step, live, result, session, signal_self

import glassformer as gf
from commands import glassformer, refused
from glassformer.config import DropoutRates, TaskConfig
from glassformer.data.batches import PackedRows
from glassformer.data.run_paths import RunPaths
from glassformer.distributed import DistributedContext
from glassformer.presets import PRESETS
from glassformer.recipe.schema import read_recipe
from glassformer.tasks import build_task
from glassformer.train.build import Builder
from glassformer.train.init_from import keep_shared
from sampling import mostly_slow
from tiny import LABELLED, labelled, write_recipe

EASY: dict[str, Any] = {  # learnt by heart in a few seconds
    "steps": 250, "micro_batch_tokens": 512, "learning_rate": 0.01, "warmup": 20,
    "evaluate_every": 250, "save_every": 250, "weight_decay": 0.0,
}  # fmt: skip
# One word decides the class of a text, and is learnt sooner.
ONE_WORD = EASY | {"steps": 100, "evaluate_every": 100, "save_every": 100}


def write(folder: Path, kind: str, **groups: Any) -> Path:
    """Without dropout; the TOML of tiny has no tables in tables."""
    recipe: Path = write_recipe(folder, kind, **groups)
    recipe.write_text(recipe.read_text() + "\n[model.dropout]\nembedding = 0.0\nresidual = 0.0\n")
    return recipe


def learnt(folder: Path, kind: str, *words: object, **groups: Any) -> dict[str, float]:
    name, text = labelled(kind, 300)
    recipe = write(folder, kind, **{"train": EASY, **groups})
    (folder / name).write_text(text)
    said = glassformer("pretrain", recipe, "--out", folder / "run", "--json", *words)
    return dict(json.loads(said)["valid"])


# learning


def test_a_class_is_learnt_and_used(tmp_path: Path) -> None:
    assert learnt(tmp_path, "classification", train=ONE_WORD)["accuracy"] == 1.0
    model = gf.load(tmp_path / "run/model")
    assert model.task.spec.labels == ("cat", "none")
    said = model.classify(["the cat sat on a mat", "a dog saw the sea"])
    assert [each.label for each in said] == ["cat", "none"]


@pytest.mark.slow
def test_tags_are_learnt_and_used(tmp_path: Path) -> None:
    metrics = learnt(tmp_path, "token_classification")
    assert metrics["entity_f1"] == metrics["accuracy"] == 1.0
    found = gf.load(tmp_path / "run/model").tag("the cat saw home")
    assert found.labels == ["O", "B-animal", "O", "B-place"]


@pytest.mark.slow
def test_answers_are_learnt_and_used(tmp_path: Path) -> None:
    metrics = learnt(tmp_path, "question_answering")
    assert metrics["exact_match"] == metrics["f1"] == 1.0
    model = gf.load(tmp_path / "run/model")
    assert model.answer("the dog", "sea and home by a mat")[0].text == "sea"


@pytest.mark.slow
def test_partners_are_learnt(tmp_path: Path) -> None:
    metrics = learnt(tmp_path, "sentence_embedding", objective={"symmetric": True})
    assert metrics["accuracy"] > 0.9
    files = {file.name for file in (tmp_path / "run/model").rglob("*.json")}
    assert "modules.json" in files
    assert gf.load(tmp_path / "run/model").recipe.pool == ("mean",)


@pytest.mark.slow
def test_values_are_learnt(tmp_path: Path) -> None:
    """How often a word comes; and the cosine of two texts."""
    lines = [line.split("\t")[0] for line in labelled("classification", 300)[1].splitlines()[1:]]
    rows = "".join(f"{x}\t{x.split().count('the'):.1f}\n" for x in lines)
    recipe = write(tmp_path, "classification", train=EASY, objective={"regression": True})
    (tmp_path / "text.tsv").write_text(f"sentence\tlabel\n{rows}")
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    found = json.loads(glassformer("evaluate", tmp_path / "run/model", recipe, "--json"))
    assert found["pearson"] > 0.7
    pairs = "".join(
        f"{x}\t{y}\t{(x[0] == y[0]):.1f}\n" for x, y in zip(lines, lines[7:], strict=False)
    )
    recipe = write(tmp_path / "e", "sentence_embedding", train=EASY, objective={"max_score": 1.25})
    (tmp_path / "e/text.tsv").write_text(f"sentence1\tsentence2\tscore\n{pairs}")
    said = glassformer("pretrain", recipe, "--out", tmp_path / "e/run", "--json")
    assert json.loads(said)["valid"].keys() == {"loss", "answers", "spearman", "pearson"}


def test_whole_decimals_are_classes_unless_regression_is_asked_for(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    rows = (tmp_path / "text.tsv").read_text()
    rows = rows.replace("\tcat\n", "\t1.0\n").replace("\tnone\n", "\t0.0\n")
    (tmp_path / "text.tsv").write_text(rows)
    words = ("pretrain", recipe, "--out", tmp_path / "run", "--dry-run", "--json")
    assert set(json.loads(glassformer(*words))["labels"]) == {"0.0", "1.0"}
    values = (*words, "--objective.regression", "true")
    assert json.loads(glassformer(*values))["labels"] == {}
    (tmp_path / "text.tsv").write_text(rows.replace("1.0", "1.5"))
    said = glassformer(*words)
    assert json.loads(said)["labels"] == {} and "so this is a regression" in said.errors
    said = glassformer(*words, "--objective.regression", "false")
    assert set(json.loads(said)["labels"]) == {"0.0", "1.5"}
    both = (*values, "--data.label_separator", "|")
    assert "numbers have no classes: leave data.label_separator out" in refused(*both, code=2)


def test_labels_are_counted_and_odd_ones_pointed_out(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification", data={"valid_fraction": 0.0})
    rows = [row.split("\t")[1] for row in (tmp_path / "text.tsv").read_text().splitlines()[1:]]
    with (tmp_path / "text.tsv").open("a") as file:
        file.write("a dog\tCat\na mat\tCat\nthe sea\tnoen\n")
    said = glassformer("pretrain", recipe, "--out", tmp_path / "run", "--dry-run", "--json")
    counts = json.loads(said)["labels"]
    assert counts == {"Cat": 2, "noen": 1} | {name: rows.count(name) for name in ("cat", "none")}
    lines = " ".join(said.errors.split())
    assert f"4 labels: {counts['none']} none, {counts['cat']} cat, 2 Cat, 1 noen" in lines
    assert "only one example of 'noen'" in lines
    assert "'Cat' and 'cat' differ only in case: are they the same label?" in lines
    said = glassformer("pretrain", recipe, "--out", tmp_path / "run", "--train.steps", 1)
    assert "4 labels: " in said.errors
    dry = glassformer("pretrain", recipe, "--out", tmp_path / "dry", "--dry-run", columns=120)
    assert f"labels      2 Cat, {counts['cat']} cat, 1 noen, {counts['none']} none" in dry


def test_another_encoding_and_bad_files_of_a_folder(tmp_path: Path) -> None:
    """Excel's table of another country, beside a picture."""
    (tmp_path / "data").mkdir()
    recipe = write_recipe(tmp_path, "classification", data={"train": "data", "encoding": "cp1252"})
    rows = (tmp_path / "text.tsv").read_text().replace("cat", "café").replace("\t", '";"')
    table = "".join(f'"{row}"\n' for row in rows.splitlines())
    (tmp_path / "data/b.csv").write_bytes(table.encode("cp1252"))
    words = ("pretrain", recipe, "--out", tmp_path / "run", "--dry-run", "--json")
    assert set(json.loads(glassformer(*words))["labels"]) == {"café", "none"}
    (tmp_path / "data/a.csv").write_bytes(b"\x89PNG\r\n\x1a\n")
    said = refused(*words)
    assert "a.csv: this is a PNG image, not text (1 bad row: --skip-bad" in said
    said = glassformer(*words, "--skip-bad")
    assert set(json.loads(said)["labels"]) == {"café", "none"}


def test_evaluate_says_which_classes_are_confused(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification", train={"steps": 1})
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    model, picture = tmp_path / "run/model", tmp_path / "confusion.png"
    words = ("evaluate", model, recipe, "--data.valid", tmp_path / "text.tsv")
    found = json.loads(glassformer(*words, "--json", "--figure", picture))
    rows = [row.split("\t") for row in (tmp_path / "text.tsv").read_text().splitlines()[1:]]
    predicted = [each.label for each in gf.load(model).classify([text for text, _ in rows])]
    pairs = list(zip([label for _, label in rows], predicted, strict=True))
    names = list(found["classes"])
    assert names == ["cat", "none"]
    assert found["confusion"] == [[pairs.count((a, b)) for b in names] for a in names]
    right = sum(found["confusion"][i][i] for i in range(2))
    assert found["accuracy"] == pytest.approx(right / len(rows))
    recall = pairs.count(("cat", "cat")) / sum(label == "cat" for _, label in rows)
    assert found["classes"]["cat"]["recall"] == pytest.approx(recall)
    assert found["classes"]["cat"]["support"] == sum(label == "cat" for _, label in rows)
    assert picture.read_bytes().startswith(b"\x89PNG")
    shown = glassformer(*words)
    assert "precision" in shown and "true ↓" in shown and f"{recall:.4f}" in shown
    tags = write_recipe(tmp_path / "t", "token_classification", train={"steps": 1})
    glassformer("pretrain", tags, "--out", tmp_path / "t/run")
    found = json.loads(glassformer("evaluate", tmp_path / "t/run/model", tags, "--json"))
    words_seen = sum(map(sum, found["confusion"]))
    assert sum(each["support"] for each in found["classes"].values()) == words_seen > 0
    asked = ("evaluate", model, recipe, "--figure", tmp_path / "x.gif")
    assert ".png or .svg" in refused(*asked, code=2)


def test_a_resumed_run_says_what_changes_and_a_finished_one_that_it_is(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    words = ("pretrain", recipe, "--out", tmp_path / "run")
    glassformer(*words)
    again = " ".join(glassformer(*words).errors.split())
    assert "this run is finished, after step 6 of 6: raise train.steps to continue it" in again
    more = " ".join(glassformer(*words, "--train.steps", 9).errors.split())
    assert "resuming after step 6, with train.steps = 9 instead of 6" in more


# the loop's promises


@pytest.mark.parametrize("kind", mostly_slow(LABELLED))
def test_evaluate_agrees_with_the_run(kind: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, kind)
    metrics = json.loads(glassformer("pretrain", recipe, "--out", tmp_path / "run", "--json"))
    found = json.loads(glassformer("evaluate", tmp_path / "run/model", recipe, "--json"))
    assert {name: found[name] for name in metrics["valid"]} == metrics["valid"]
    dry = glassformer("pretrain", recipe, "--out", tmp_path / "dry", "--dry-run")
    assert "no model was written" in dry


@pytest.mark.parametrize("kind", ["token_classification"])
def test_cut_and_resumed_it_ends_with_the_same_bits(kind: str, tmp_path: Path) -> None:
    train = {"epochs": 2, "steps": 0, "save_every": 3, "layerwise_lr_decay": 0.9, "freeze": 0}
    recipe = write_recipe(tmp_path, kind, objective={"class_weights": "balanced"}, train=train)
    assert live("pretrain", recipe, "--out", tmp_path / "whole").status == 0
    die = partial(at_step, 8, partial(signal_self, signal.SIGKILL))
    assert live("pretrain", recipe, "--out", tmp_path / "cut", mischief=die).status == -9
    end = live("pretrain", recipe, "--out", tmp_path / "cut")
    assert end.status == 0 and "resuming after step 6" in end.said, end.said
    assert result(tmp_path / "cut") == result(tmp_path / "whole")


def gradients(task: torch.nn.Module, rows: PackedRows, losses: Any) -> dict[str, torch.Tensor]:
    plan = rows.plan(0)
    total = sum(losses(rows[i].batch)["labels"].total for i in range(len(plan)))
    total.backward()  # type: ignore[union-attr]
    found = {n: p.grad.clone() for n, p in task.named_parameters() if p.grad is not None}
    task.zero_grad()
    return found


@pytest.mark.parametrize(
    "kind", ["classification", "token_classification", "question_answering", "sentence_embedding"]
)
def test_packed_or_alone_gradients_are_the_same(kind: str, tmp_path: Path) -> None:
    recipe = write(tmp_path, kind)
    if kind == "sentence_embedding":  # partners of a row do matter: so with values
        rows = "".join(f"the {i}\t{i} dog\t{i / 40:.2f}\n" for i in range(40))
        (tmp_path / "text.tsv").write_text(f"text1\ttext2\tscore\n{rows}")
    made = session(recipe, tmp_path / "run")
    task = made.state.task.double().eval()

    def losses(batch: Any) -> Any:
        return task(batch).losses

    objective = made.rows.dataset
    alone, packed = (PackedRows(objective, budget=budget) for budget in (32, 4096))
    if kind == "sentence_embedding":
        alone = PackedRows(objective, budget=64)
    assert len(alone.plan(0)) > len(packed.plan(0))
    one, other = (gradients(task, each, losses) for each in (alone, packed))
    assert one.keys() == other.keys() and one
    for name, gradient in one.items():
        torch.testing.assert_close(gradient, other[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", LABELLED)
def test_fixed_shapes_give_the_same_loss(kind: str, tmp_path: Path) -> None:
    made = session(write(tmp_path, kind), tmp_path / "run")
    task = made.state.task.eval()
    bare = made.rows
    fixed = PackedRows(bare.dataset, budget=bare.budget, fixed=True)
    for i in range(3):
        one, other = (task(rows[i].batch).losses["labels"] for rows in (bare, fixed))
        assert one.count == other.count
        torch.testing.assert_close(one.total, other.total, rtol=1e-5, atol=1e-5)


# fine-tuning


def begun(folder: Path) -> tuple[Path, Path]:
    """A model that knows words, and a recipe that goes on from one."""
    words = write_recipe(folder / "words", "masked_lm")
    glassformer("pretrain", words, "--out", folder / "words/run")
    recipe = write_recipe(folder / "labels", "classification")
    text = recipe.read_text()
    recipe.write_text(text[: text.index("[tokenizer]")] + text[text.index("[objective]") :])
    return folder / "words/run/model", recipe


def test_the_body_stays_and_the_head_is_new(tmp_path: Path) -> None:
    start, recipe = begun(tmp_path)
    told: list[str] = []
    place = RunPaths(recipe.parent, tmp_path / "out", "r", lambda line, _: told.append(line))
    world = DistributedContext(0, 1, torch.device("cpu"))
    made = Builder(read_recipe(recipe, {"init_from": str(start)}), place).trainer(world)
    assert f"{start}: new head for classification (the model came with masked_lm)" in told
    before = gf.load(start).task.backbone.state_dict()
    for name, tensor in made.state.task.backbone.state_dict().items():
        assert torch.equal(tensor, before[name])
    again = Builder(read_recipe(recipe, {"init_from": str(start)}), place).trainer(world)
    for a, b in zip(made.state.task.parameters(), again.state.task.parameters(), strict=True):
        assert torch.equal(a, b)
    glassformer("finetune", start, recipe, "--out", tmp_path / "tuned")
    said = glassformer("finetune", tmp_path / "tuned/model", recipe, "--out", tmp_path / "more")
    assert "new head" not in said.errors  # it knows these labels


def test_the_parts_of_a_head_that_know_no_labels_are_kept() -> None:
    config = PRESETS["bert-tiny"].model.model_copy(update={"vocab_size": 30})
    old = build_task(config, TaskConfig(kind="masked_lm_nsp"))
    kept = {"masked_lm": ["transform", "lm_head"], "classification": ["pooler"], "tagging": []}
    specs = {
        "masked_lm": TaskConfig(kind="masked_lm"),
        "classification": TaskConfig(kind="classification", labels=("a", "b"), pooler="tanh"),
        "tagging": TaskConfig(kind="token_classification", labels=("a", "b")),
    }
    for name, spec in specs.items():
        new = build_task(config, spec)
        assert keep_shared(new, old) == kept[name]
        for part in kept[name]:
            for mine, its in zip(
                getattr(new, part).parameters(), getattr(old, part).parameters(), strict=True
            ):
                assert torch.equal(mine, its)


def test_a_recipe_changes_the_dropout_of_a_model_and_nothing_else(tmp_path: Path) -> None:
    start, recipe = begun(tmp_path)
    place = RunPaths(recipe.parent, tmp_path / "out", str(recipe))
    rates = {"model.dropout.embedding": "0.2", "model.dropout.residual": "0.2"}
    changes = {"init_from": str(start), "model.dropout.attention": "0.3", **rates}
    made = Builder(read_recipe(recipe, changes), place).trainer(
        DistributedContext(0, 1, torch.device("cpu"))
    )
    task, before = made.state.task, gf.load(start).task
    wanted = DropoutRates(embedding=0.2, residual=0.2, attention=0.3)
    assert task.backbone.config == before.backbone.config.model_copy(update={"dropout": wanted})
    assert task.spec.dropout == 0.2
    kept = before.backbone.state_dict()
    for name, tensor in task.backbone.state_dict().items():
        assert torch.equal(tensor, kept[name])
    words = [f"--{name}={rate}" for name, rate in rates.items()]
    glassformer("finetune", start, recipe, "--out", tmp_path / "tuned", *words)
    tuned = gf.load(tmp_path / "tuned/model").task
    assert tuned.backbone.config.dropout == DropoutRates(embedding=0.2, residual=0.2)
    again = ("finetune", tmp_path / "tuned/model", recipe, "--out", tmp_path / "again")
    more = glassformer(*again, "--model.dropout.attention", 0.5, "--train.steps", 1)
    assert "new head" not in more.errors
    assert gf.load(tmp_path / "again/model").task.backbone.config.dropout.attention == 0.5
    for words, said in (
        (("--model.depth", 3), "model.depth = 3: init_from = "),
        (("--model.dropout.attention", 2), "model: dropout.attention = 2: write less than 1"),
        (("--model.dropout", 0.1), "model: dropout = 0.1: write a table"),
        (("--model.dropout.attn", 0.1), "did you mean '--model.dropout.attention'?"),
        (("--model.dropout.residual", 0.3), "model.dropout = {'residual': 0.3}: no known layout"),
    ):
        assert said in refused("finetune", start, recipe, "--out", tmp_path / "no", *words, code=2)


@pytest.mark.parametrize("kinds", [LABELLED[:1], pytest.param(LABELLED, marks=pytest.mark.slow)])
def test_the_short_form_needs_a_model_and_a_file(kinds: tuple[str, ...], tmp_path: Path) -> None:
    words = write_recipe(tmp_path / "words", "masked_lm", model={"depth": 2})
    glassformer("pretrain", words, "--out", tmp_path / "words/run")
    start = tmp_path / "words/run/model"
    for kind in kinds:
        name, text = labelled(kind)
        data = tmp_path / name
        data.write_text(text)
        out = tmp_path / kind
        said = glassformer("finetune", start, "--objective", kind, "--data", data, "--out", out,
                           "--train.device", "cpu", "--train.micro_batch_tokens", 96,
                           "--json")  # fmt: skip
        valid = json.loads(said)["valid"]
        assert valid["loss"] > 0
        found = json.loads(glassformer("evaluate", out / "model", out, "--json"))
        assert {name: found[name] for name in valid} == valid  # a run is a recipe, too
        told = " ".join(said.errors.split())
        if kind == "classification":
            assert "the columns look like text = 'sentence', label = 'label'" in told
        if kind == "sentence_embedding":
            assert "the columns look like text = 'text1', text_pair = 'text2'" in told
        assert gf.load(out / "model")
    assert "write one of classification" in refused(
        "finetune", start, "--objective", "sing", "--data", data, code=2
    )
    assert "finetune MODEL RECIPE" in refused("finetune", start, code=2)


def test_the_short_form_in_the_folder_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = write_recipe(tmp_path / "words", "masked_lm", model={"depth": 2})
    glassformer("pretrain", words, "--out", tmp_path / "words/run")
    name, text = labelled("classification")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / name).write_text(text)
    monkeypatch.chdir(tmp_path / "here")
    said = glassformer("finetune", tmp_path / "words/run/model", "--objective", "classification",
                       "--data", ".", "--out", tmp_path / "run", "--dry-run")  # fmt: skip
    assert "classification-here" in said


# bad data


BAD: list[tuple[str, str, str]] = [
    ("classification", "the cat\tcat\nthe dog\n", "line 3 has 1 column: write 2"),
    ("classification", "the cat\tcat\n \tnone\n", "line 3: sentence is empty: write a text"),
    ("classification", "the cat\tcat\nthe dog\t\n", "line 3: label is empty: write a label"),
    ("token_classification", "the\tO\ncat\n\n", "line 2 has 1 column: write 2"),
    ("sentence_embedding", "the cat\ta cat\nthe dog\t\n", "line 3: text2 is empty: write a text"),
]


@pytest.mark.parametrize(("kind", "rows", "why"), mostly_slow(BAD), ids=[why for _, _, why in BAD])
def test_a_bad_row_is_named_or_skipped(kind: str, rows: str, why: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, kind, train={"steps": 1})
    name, text = labelled(kind)
    has_header = kind != "token_classification"
    head, _, rest = text.partition("\n") if has_header else ("", "", text)
    (tmp_path / name).write_text((head + "\n" if head else "") + rows + rest)
    said = refused("pretrain", recipe, "--out", tmp_path / "run")
    assert said.startswith(f"glassformer: {tmp_path / name}: {why}")
    assert said.endswith(" (1 bad row: --skip-bad leaves out such rows)\n")
    said = glassformer("pretrain", recipe, "--out", tmp_path / "run", "--skip-bad")
    again = glassformer("evaluate", tmp_path / "run/model", recipe, "--skip-bad")
    for each in (said, again):
        told = " ".join(each.errors.split())
        assert told.count("1 bad row skipped, the first: ") == 1 and why in told


def test_a_label_that_training_did_not_have(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification", data={"valid": "valid.tsv"})
    (tmp_path / "valid.tsv").write_text("sentence\tlabel\nthe cat\tcat\nthe dog\tdog\n")
    said = glassformer("pretrain", recipe, "--out", tmp_path / "run", code=1).errors
    last = said.splitlines()[-1]
    assert f"{tmp_path / 'valid.tsv'}: line 3: label = 'dog' is none of the labels" in last
    assert "cat, none" in last


def test_an_answer_that_is_not_there(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "question_answering", train={"steps": 1})
    found = json.loads((tmp_path / "text.json").read_text())
    found["data"][0]["paragraphs"][3]["qas"][0]["answers"][0]["answer_start"] = 1
    (tmp_path / "text.json").write_text(json.dumps(found))
    where = "text.json: data[0].paragraphs[3].qas[0]: the answer "
    said = glassformer("pretrain", recipe, "--out", tmp_path / "run", code=1)
    assert where in said.errors.splitlines()[-1]
    said = glassformer("pretrain", recipe, "--out", tmp_path / "run", "--skip-bad")
    assert "1 bad row skipped" in " ".join(said.errors.split())


def test_folds_share_the_texts_out(tmp_path: Path) -> None:
    sizes = []
    for number in (1, 2, 3):
        recipe = write_recipe(tmp_path, "classification", data={"fold": f"{number}/3"})
        made = session(recipe, tmp_path / f"run{number}")
        assert made.valid is not None
        sizes.append(made.valid.dataset.store.documents)
        assert sizes[-1] + made.rows.dataset.store.documents == 120
    assert sum(sizes) == 120 and min(sizes) > 20
    for fold in ("4/3", "x", "1/1"):
        said = refused(
            "pretrain", write_recipe(tmp_path, "token_classification", data={"fold": fold}), code=2
        )
        assert f"data.fold = {fold!r}: write one of 1/10 to 10/10" in said


def test_the_best_is_chosen_by_a_metric_of_the_data(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification", train={"best_by": "spearman"})
    said = glassformer("pretrain", recipe, "--out", tmp_path / "run", code=2)
    assert "for this data write one of loss, accuracy, f1, mcc" in said.errors.splitlines()[-1]
    recipe = write_recipe(tmp_path, "classification", train={"best_by": "mcc"})
    made = session(recipe, tmp_path / "run")
    assert made.state.train.best_by == "mcc"
    recipe = write_recipe(tmp_path, "classification")
    assert session(recipe, tmp_path / "other").state.train.best_by == "accuracy"
