"""`translate` and what `pretrain` and `evaluate` say about translations."""

import io
import json
import sys
import warnings
from types import SimpleNamespace

import pytest
import sacrebleu

import glassformer as gf
from commands import glassformer, refused
from glassformer.generate.translate import Translation
from tiny import pairs, write_recipe

LINES = ["the cat sat.", "", "one dog run far from its home."]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A recipe whose run translates at each evaluation, and its folder."""
    folder = tmp_path_factory.mktemp("translator")
    train = {"steps": 80, "evaluate_every": 40, "bleu_sentences": 5, "best_by": "chrf",
             "learning_rate": 1e-2}  # fmt: skip
    recipe = write_recipe(folder, "translation", train=train)
    said = glassformer("pretrain", recipe, "--out", folder / "run", "--json")
    return recipe, folder / "run", json.loads(said)["valid"]


def translated(model, texts, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gf.load(model).translate(texts, **settings)


def stdin(monkeypatch, text):
    monkeypatch.setattr(
        sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: False)
    )


def test_a_line_in_a_line_out(trained, tmp_path, monkeypatch):
    """Texts, a file and stdin give the same lines, those of the library."""
    model = trained[1] / "model"
    wanted = [each.text for each in translated(model, LINES)]
    assert wanted[0] and wanted[2] and wanted[1] == ""
    assert glassformer("translate", model, *LINES).splitlines() == wanted
    (tmp_path / "in.en").write_text("\n".join(LINES) + "\n")
    said = glassformer("translate", model, "--file", tmp_path / "in.en", "--out", tmp_path / "out")
    assert said == f"{tmp_path / 'out'}: 3 lines\n"
    assert (tmp_path / "out").read_text().splitlines() == wanted
    stdin(monkeypatch, "\n".join(LINES) + "\n")
    said = glassformer("translate", model)
    assert said.splitlines() == wanted
    stdin(monkeypatch, "\n".join(LINES) + "\n")
    assert glassformer("translate", model, "-").splitlines() == wanted
    assert glassformer("translate", model, "\n".join(LINES)).splitlines() == wanted


def test_what_a_translation_may_hold(trained, monkeypatch):
    """Nothing in it moves the cursor or makes a column; spaces and joiners are as they are."""
    odd = "a\u202f!\u3000b\u200dc"

    def translate(task, tokenizer, texts, **settings):
        return [Translation(f"{odd}\x1b[2J\t\n", 0.0, [], text, []) for text in texts]

    monkeypatch.setattr("glassformer.generate.translate.translate", translate)
    said = glassformer("translate", trained[1] / "model", "x")
    assert said == odd + r"\x1b[2J\t\n" + "\n"


def test_columns(trained):
    model = trained[1] / "model"
    words = ("--n-best", 2, "--scores", "--align", "--num-beams", 3)
    said = glassformer("translate", model, *LINES, *words)
    rows = [line.split("\t") for line in said.splitlines()]
    assert [row[0] for row in rows] == ["0", "0", "1", "2", "2"]  # of nothing there is one
    assert rows[2] == ["1", "0.0000", "", ""]
    best = translated(model, LINES[0], n_best=2, num_beams=3, align=True)[0]
    assert rows[0][1:] == [f"{best.score:.4f}", best.text, best.alignment.pharaoh()]
    assert rows[1][1:3] == [f"{best.others[0].score:.4f}", best.others[0].text]


def test_json(trained):
    model = trained[1] / "model"
    said = glassformer("translate", model, LINES[0], "--json", "--align", "--n-best", 2)
    found = json.loads(said)
    assert found["source"] == LINES[0] and found["parts"] == 1 and len(found["others"]) == 1
    aligned = found["alignment"]
    assert aligned["source"] == LINES[0].split() and aligned["target"] == found["text"].split()
    assert len(aligned["weights"]) == len(aligned["target"])
    assert all(len(row) == 3 and sum(row) <= 1.001 for row in aligned["weights"])


def test_nothing_of_a_long_line_is_lost(trained):
    """32 tokens fit: of a longer line every sentence is translated, a long one in parts."""
    model = trained[1] / "model"
    line = "the cat sat. " * 20 + "one dog run far from its home by the sea and saw " * 6
    said = glassformer("translate", model, line, "--json")
    found = json.loads(said)
    assert found["parts"] > 20
    tokenizer = gf.load(model).tokenizer
    sent = [i for i in (tokenizer.id(t) for t in found["source_tokens"]) if i != 0]
    assert tokenizer.decode(sent).replace(" ", "") == line.replace(" ", "")
    assert "1 sentences have more tokens than the model reads" in said.errors


def test_a_table_is_translated_by_column(trained, tmp_path):
    """The pairs that it was trained on, which have no header line; and a table with one."""
    model = trained[1] / "model"
    lines = pairs(6, seed=3).splitlines()
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n")
    sources = [line.split("\t")[0] for line in lines]
    said = refused("translate", model, "--file", tmp_path / "pairs.tsv")
    assert "this is a table: write --column" in said and sources[0] in said
    out = tmp_path / "out.tsv"
    words = ("--file", tmp_path / "pairs.tsv", "--column", 1, "--align")
    said = glassformer("translate", model, *words, "--out", out)
    assert said == f"{out}: 6 rows, with translation and alignment\n"
    expected = translated(model, sources, align=True)
    rows = zip(lines, expected, strict=True)
    rows = [f"{line}\t{each.text}\t{each.alignment.pharaoh()}" for line, each in rows]
    assert out.read_text().splitlines() == rows
    assert glassformer("translate", model, *words[:-1]).splitlines() == [e.text for e in expected]
    (tmp_path / "x.jsonl").write_text('{"n": 1, "text": "the cat sat."}\n{"n": 2, "text": ""}\n')
    words = ("--file", tmp_path / "x.jsonl", "--column", "text", "--scores", "--n-best", 2)
    glassformer("translate", model, *words, "--out", tmp_path / "y.jsonl")
    one, two = [json.loads(line) for line in (tmp_path / "y.jsonl").read_text().splitlines()]
    assert one["n"] == 1 and {"translation", "score", "translation_2", "score_2"} <= set(one)
    assert two["n"] == 2 and two["translation"] == ""


def test_what_is_not_complete_is_said(trained):
    model = trained[1] / "model"
    with pytest.warns(UserWarning, match="2 translations reached max_new_tokens"):
        found = gf.load(model).translate(LINES, max_new_tokens=1)
    assert [each.complete for each in found] == [False, True, False]


def test_refused_in_one_line(trained, tmp_path):
    recipe, run, _ = trained
    model = run / "model"
    assert "write one of them" in refused("translate", model, "a", "--file", recipe, code=2)
    assert "write at most --num-beams" in refused("translate", model, "a", "--n-best", 5, code=2)
    assert "File not found: " in refused("translate", model, "--file", tmp_path / "x")
    assert "--length-penalty nan: write a finite number" in refused(
        "translate", model, "a", "--length-penalty", "nan", code=2
    )
    other = write_recipe(tmp_path, "causal_lm")
    glassformer("pretrain", other, "--out", tmp_path / "run")
    assert "load a translation model" in refused("translate", tmp_path / "run/model", "a")


def test_the_run_translates_and_chooses_by_it(trained):
    _, run, figures = trained
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    seen = {each["step"]: each["valid"] for each in lines if "valid" in each}
    assert list(seen) == [40, 80] and all({"bleu", "chrf", "loss"} <= set(v) for v in seen.values())
    assert figures["chrf"] == max(each["chrf"] for each in seen.values())


def test_evaluate_says_what_sacrebleu_says(trained, tmp_path):
    recipe, run, _ = trained
    model = run / "model"
    (tmp_path / "test.tsv").write_text(pairs(9, seed=5) + "the cat sat.\tA CAT SAT.\n")
    test = ("--data.valid", tmp_path / "test.tsv", "--num-beams", 2, "--json")
    found = json.loads(glassformer("evaluate", model, recipe, *test))
    lines = (tmp_path / "test.tsv").read_text().splitlines()
    sources, references = zip(*(line.split("\t") for line in lines), strict=True)
    texts = [each.text for each in translated(model, sources, num_beams=2)]
    bleu, chrf, ter = sacrebleu.BLEU(), sacrebleu.CHRF(), sacrebleu.TER()
    for name, metric in (("bleu", bleu), ("chrf", chrf), ("ter", ter)):
        assert found[name] == pytest.approx(metric.corpus_score(texts, [references]).score)
        assert found["signatures"][name] == str(metric.get_signature())
    told = glassformer("evaluate", model, recipe, *test[:-1])
    assert "tok:13a" in told.replace("\n", "") and f"{found['chrf']:.2f}" in told
    few = json.loads(glassformer("evaluate", model, recipe, *test, "--translate", 3))
    none = json.loads(glassformer("evaluate", model, recipe, *test, "--translate", 0))
    assert few["loss"] == none["loss"] == found["loss"] and few["chrf"] != found["chrf"]
    assert "bleu" not in none


def test_recipes_that_cannot_be(tmp_path):
    recipe = write_recipe(tmp_path, "translation")
    said = refused("pretrain", recipe, "--train.best_by", "bleu", code=2)
    assert "train.best_by = 'bleu' needs translations" in said
    plain = write_recipe(tmp_path / "plain")
    said = refused("pretrain", plain, "--train.bleu_sentences", 5, code=2)
    assert "train.bleu_sentences = 5 is for objective.kind = 'translation'" in said


def test_without_sacrebleu(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    recipe = write_recipe(tmp_path, "translation")
    said = refused(
        "pretrain", recipe, "--train.bleu_sentences", 5, "--out", tmp_path / "run", code=2
    )
    assert "pip install 'glassformer[metrics]'" in said and "train.bleu_sentences = 5" in said


def test_bad_pairs_are_skipped_on_request(tmp_path):
    recipe = write_recipe(tmp_path, "translation")
    with (tmp_path / "text.txt").open("ab") as file:
        file.write(b"no tab here\na\xff\tb\n")
    words = ("pretrain", recipe, "--out", tmp_path / "run", "--train.steps", 1)
    said = glassformer(*words, code=1).errors
    assert "line 121: write a text, a tab and its translation (--skip-bad leaves out such" in said
    said = glassformer(*words, "--skip-bad", columns=400).errors
    assert said.count("text.txt: 2 bad rows skipped, the first: ") == 1
