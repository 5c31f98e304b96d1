"""Documents from files in folders, over static vectors or a backbone: learnt, saved, explained."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from harness import session

import glassformer as gf
from commands import glassformer, refused
from sampling import mostly_slow

COMMON = ("the", "a", "film", "it", "was", "we", "saw", "on", "of", "and", "then", "home", "late")
TELLING = {"neg": ["bad", "dull"], "pos": ["good", "fine"]}


def document(label: str, draw: Random) -> str:
    """Several sentences, and in one of them a word that tells."""
    found = [[draw.choice(COMMON) for _ in range(draw.randrange(3, 9))] for _ in range(5)]
    told = draw.choice(found)
    told[draw.randrange(len(told))] = draw.choice(TELLING[label])
    return "\n".join(" ".join(each) + " ." for each in found) + "\n"


def written(folder: Path, *, true: bool = True, **groups: Any) -> Path:
    """Sixty documents, vectors for their words, and a recipe; not `true`: labels by chance."""
    draw = Random(7)
    for label in TELLING:
        (folder / "reviews" / label).mkdir(parents=True)
        for i in range(30):
            text = document(label if true else draw.choice(list(TELLING)), draw)
            (folder / "reviews" / label / f"cv{i:03}.txt").write_text(text)
    words = [*COMMON, "long", ".", *TELLING["neg"], *TELLING["pos"]]
    rows = (" ".join([word, *(f"{draw.gauss(0, 0.5):.3f}" for _ in range(8))]) for word in words)
    (folder / "vectors.txt").write_text("\n".join(rows) + "\n")
    fields: dict[str, Any] = {
        "data": {"train": "reviews", "fold": "2/3", "fold_by": "name"},
        "objective": {
            "kind": "classification", "pool": "hierarchy", "length": 32, "token_dropout": 0.2,
        },
        "train": {
            "steps": 150, "micro_batch_tokens": 512, "learning_rate": 0.03, "warmup": 10,
            "weight_decay": 0.0, "evaluate_every": 150, "save_every": 150, "device": "cpu",
        },
    }  # fmt: skip
    lines = ['name = "tiny"', f"init_from = {json.dumps(str(folder / 'vectors.txt'))}"]
    for group, usual in fields.items():
        lines.append(f"[{group}]")
        lines += [f"{n} = {json.dumps(v)}" for n, v in {**usual, **groups.get(group, {})}.items()]
    recipe = folder / "recipe.toml"
    recipe.write_text("\n".join(lines) + "\n")
    return recipe


def learnt(recipe: Path, out: Path) -> float:
    said = glassformer("pretrain", recipe, "--out", out, "--json")
    return float(json.loads(said)["valid"]["accuracy"])


TEXT = (
    "the film was long and then it was late . we saw it then .\n"
    "we saw a dull film on it .\nthen home and a film of it was late ."
)


@pytest.mark.parametrize("pool", mostly_slow(["hierarchy", "words"]))
def test_documents_are_learnt_saved_and_explained(pool: str, tmp_path: Path) -> None:
    recipe = written(tmp_path, objective={"pool": pool})
    assert learnt(recipe, tmp_path / "run") > 0.9
    model = gf.load(tmp_path / "run/model")
    (said,) = model.classify(TEXT, explain=3)
    assert said.label == "neg" and len(said.words) == 3
    if pool == "words":
        assert said.words[0][0] == "dull" and said.sentences == ()
    else:
        shares = [share for _, share in said.sentences]
        assert len(shares) == 3 and shares == sorted(shares)[::-1] and 0 < sum(shares) < 1
        assert all(sentence in TEXT for sentence, _ in said.sentences)
    model.save(tmp_path / "copy")
    assert gf.load(tmp_path / "copy").classify(TEXT)[0].scores == said.scores
    found = json.loads(glassformer("evaluate", tmp_path / "run/model", recipe, "--json"))
    assert found["accuracy"] > 0.9
    told = glassformer("classify", tmp_path / "run/model", TEXT, "--explain", 2)
    assert "weight  word" in told and said.words[0][0] in told
    assert ("sentence" in told) == (pool == "hierarchy")


def test_the_same_weights_stand_in_the_trace(tmp_path: Path) -> None:
    recipe = written(tmp_path, train={"steps": 20})
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    model = gf.load(tmp_path / "run/model")
    trace = gf.record(model, TEXT)
    words, sentences = (trace[f"important.{x}.weights"][:, 0] for x in ("words", "sentences"))
    assert trace.sentences == [10, 5, 8, 10] and len(words) == len(trace.tokens) == 33
    weights = torch.cat(
        [w * s for w, s in zip(words.split(trace.sentences), sentences, strict=True)]
    )
    by_word: dict[str, float] = {}
    for token, weight in zip(trace.tokens, weights.tolist(), strict=True):
        by_word[token] = by_word.get(token, 0.0) + weight
    (said,) = model.classify(TEXT, explain=99)
    assert dict(said.words) == pytest.approx(by_word)
    trace.save(tmp_path / "trace.safetensors")
    assert gf.Trace.load(tmp_path / "trace.safetensors").sentences == trace.sentences
    chances = trace["logits"][0].double().softmax(-1).tolist()
    assert [said.scores[label] for label in ("neg", "pos")] == pytest.approx(chances, abs=1e-6)


def test_labels_by_chance_are_not_learnt(tmp_path: Path) -> None:
    recipe = written(tmp_path, true=False)
    assert learnt(recipe, tmp_path / "run") < 0.8


def test_vectors_are_tuned_or_stay(tmp_path: Path) -> None:
    before = None
    for freeze in (0, 1):
        recipe = written(tmp_path / str(freeze), train={"steps": 20, "freeze": freeze})
        glassformer("pretrain", recipe, "--out", tmp_path / str(freeze) / "run")
        before = gf.load(tmp_path / str(freeze) / "vectors.txt").task.backbone.token_embedding
        model = gf.load(tmp_path / str(freeze) / "run/model")
        assert torch.equal(model.task.backbone.token_embedding, before) == bool(freeze)
        assert model.task.labels.linear.bias.any()  # type: ignore[union-attr,operator]


def test_folds_are_cut_by_the_names_of_files(tmp_path: Path) -> None:
    recipe = written(tmp_path)
    made = session(recipe, tmp_path / "run")
    assert made.valid is not None
    assert made.valid.dataset.store.documents == 20
    assert made.rows.dataset.store.documents == 40
    texts = [each.texts[0] for each in made.evaluator.documents]  # type: ignore[union-attr]
    for label in TELLING:
        held = [tmp_path / "reviews" / label / f"cv{i:03}.txt" for i in range(10, 20)]
        assert all(file.read_text().rstrip("\n") in texts for file in held)
    said = glassformer("pretrain", recipe, "--out", tmp_path / "few", "--data.fold", "1/500",
                       code=2).errors.splitlines()[-1]  # fmt: skip
    assert "with data.fold = '1/500' there is nothing to evaluate on: write fewer folds" in said
    (tmp_path / "table.tsv").write_text("text\tlabel\na film\tneg\nthe film\tpos\n")
    said = glassformer("pretrain", recipe, "--out", tmp_path / "other", "--data.train",
                       tmp_path / "table.tsv", code=2).errors.splitlines()[-1]  # fmt: skip
    table = tmp_path / "table.tsv"
    assert f"data.fold_by = 'name': {table} has no folder of files for each label" in said


def test_a_backbone_reads_documents_that_are_longer_than_itself(tmp_path: Path) -> None:
    """The head on a small BERT: eight tokens at once, and a long document is not cut."""
    recipe = written(tmp_path, objective={"length": 8}, train={"steps": 3})
    text = recipe.read_text()
    start = text.index("init_from = ")
    text = text[:start] + text[text.index("\n", start) + 1 :]
    more = '[tokenizer]\nkind = "wordpiece"\nvocab_size = 100\n[model]\nwidth = 16\nheads = 2\n'
    recipe.write_text(text + more + "mlp_width = 16\ndepth = 1\n")
    for pool in ("words", "hierarchy"):
        out = tmp_path / pool
        glassformer("pretrain", recipe, "--out", out, "--objective.pool", pool)
        model = gf.load(out / "model")
        assert model.task.spec.pool == pool and model.task.backbone.config.max_length == 8
        long = TEXT + " good" * 30
        short, other = (model.classify(each)[0] for each in (TEXT, long))
        assert short.scores != other.scores and other.windows > 1
        alone = [model.classify(each)[0].scores for each in (TEXT, long)]
        both = [each.scores for each in model.classify([TEXT, long])]
        for a, b in zip(alone, both, strict=True):
            assert a == pytest.approx(b, abs=1e-5)
        trace = gf.record(model, TEXT)
        assert trace["encoder.blocks.0.attention.weights"].shape[0] == len(trace.sentences)


def test_what_cannot_be_explained_is_one_line(tmp_path: Path) -> None:
    recipe = written(tmp_path, train={"steps": 2}, objective={"pool": "mean", "token_dropout": 0.0})
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    said = refused("classify", tmp_path / "run/model", TEXT, "--explain", 3)
    assert "explain: this model has pool = 'mean': only models with 'words' or 'hierarchy'" in said


def test_static_vectors_are_compared_as_any_model(tmp_path: Path) -> None:
    recipe, vectors = written(tmp_path, train={"steps": 2}), tmp_path / "vectors.txt"
    words = ("compare", vectors, "--task", recipe, "--seeds", 1, "--out", tmp_path / "out")
    (model,) = json.loads(glassformer(*words, "--json"))["models"]
    assert "20 tokens" in glassformer("params", vectors)
    assert model["parameters"] > 20 * 8 and 0 <= model["means"]["accuracy"] <= 1
    assert ": finished" in glassformer(*words).errors
    vectors.write_text(vectors.read_text().replace("late", "soon"))
    assert "vectors.txt: this file has changed since" in refused(*words)


def test_a_model_that_reads_documents_goes_on_with_documents(tmp_path: Path) -> None:
    """Its pool is nowhere in the recipe: what does not go with it is told all the same."""
    recipe = written(tmp_path, train={"steps": 2})
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    model, table = tmp_path / "run/model", tmp_path / "table.tsv"
    table.write_text("sentence1\tsentence2\tlabel\n" + "a film\tbad\tneg\na film\tgood\tpos\n" * 9)
    words = (
        "finetune",
        model,
        "--objective",
        "classification",
        "--data",
        table,
        "--out",
        tmp_path / "out",
    )
    own = f"with objective.pool = 'hierarchy', as {model} has it: write one"
    said = refused(*words, "--data.text", "sentence1", "--data.label_separator", "|", code=2)
    assert f"data.label_separator = '|' {own} label a text" in said
    columns = ("--data.text", "sentence1", "--data.text_pair", "sentence2")
    assert f"data.text_pair = 'sentence2' {own} text" in refused(*words, *columns, code=2)
    said = glassformer(*words, code=2).errors.splitlines()[-1]
    assert "a pair, and objective.pool = 'hierarchy' reads one text: write data.text" in said
