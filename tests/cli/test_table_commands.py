"""Predictions for a table: every other column stays, and each row has its own."""

import csv
import dataclasses
import inspect
import json

import numpy as np
import pyarrow.parquet
import pytest

from commands import glassformer, refused
from glassformer.cli.main import command as command_of
from glassformer.cli.text_options import TextOptions
from speakers import LONG, bert

TABLE = 'id;text;other\n1;"the cat; sat";on a mat\n2;;the cat\n3;paris was on the mat;who\n'
TEXTS = ["the cat; sat", "paris was on the mat"]
LABELS = {"id2label": {0: "no", 1: "perhaps", 2: "yes"}}
NER = {"id2label": {0: "O", 1: "B-PER", 2: "I-PER"}}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(TABLE.encode("utf-16"))
    return path


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter=";"))


def read(command, folder, table, *words):
    out = table.with_name("y.csv")
    asked = (command, folder, *words, "--file", table, "--encoding", "utf-16", "--out", out)
    said = glassformer(*asked)
    assert said.startswith(f"{out}: 3 rows, with ") and said.errors == ""
    rows = rows_of(out)
    assert [row["id"] for row in rows] == ["1", "2", "3"]
    return rows


def test_classify(table, tmp_path):
    model, _ = bert("BertForSequenceClassification", tmp_path / "m", **LONG, **LABELS)
    rows = read("classify", tmp_path / "m", table, "--column", "text")
    expected = model.classify(TEXTS)
    assert [row["label"] for row in rows] == [expected[0].label, "", expected[1].label]
    assert float(rows[2]["probability"]) == pytest.approx(expected[1].score, abs=1e-6)
    rows = read("classify", tmp_path / "m", table, "--column", "text", "--column", "other")
    (pair,) = model.classify([(TEXTS[0], "on a mat")])
    assert float(rows[0]["probability"]) == pytest.approx(pair.score, abs=1e-6)
    (tmp_path / "t.txt").write_text("\n".join(TEXTS))
    asked = ("classify", tmp_path / "m", "--file", tmp_path / "t.txt")
    glassformer(*asked, "--out", tmp_path / "t.jsonl")
    written = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [row["text"] for row in written] == TEXTS
    assert [row["label"] for row in written] == [each.label for each in expected]


def test_tag(table, tmp_path):
    model, _ = bert("BertForTokenClassification", tmp_path / "m", **LONG, **NER)
    rows = read("tag", tmp_path / "m", table, "--column", "text")
    tagged = model.tag(TEXTS[1])
    assert rows[2]["words"] == TEXTS[1] and rows[2]["labels"] == " ".join(tagged.labels)
    spans = [(each["text"], each["start"]) for each in json.loads(rows[2]["spans"])]
    assert spans == [(each.text, each.start) for each in tagged.spans]


def test_answer(table, tmp_path):
    model, _ = bert("BertForQuestionAnswering", tmp_path / "m", **LONG)
    rows = read("answer", tmp_path / "m", table, "who", "--column", "text")
    best = model.answer("who", TEXTS[1])[0]
    assert (rows[2]["answer"], rows[2]["start"]) == (best.text, str(best.start))
    assert rows[1]["answer"] == ""
    rows = read("answer", tmp_path / "m", table, "--column", "other", "--column", "text")
    assert rows[2]["answer"] == best.text


def test_embed(table, tmp_path):
    model, _ = bert("BertModel", tmp_path / "m", **LONG)
    expected = model.embed(TEXTS).numpy()
    asked = ("embed", tmp_path / "m", "--file", table, "--encoding", "utf-16", "--column", "text")
    for name in ("v.npy", "v.parquet"):
        assert "3 vectors of" in glassformer(*asked, "--out", tmp_path / name)
    array = np.load(tmp_path / "v.npy")
    assert np.isnan(array[1]).all()
    np.testing.assert_allclose(array[[0, 2]], expected, atol=1e-6)
    read = pyarrow.parquet.read_table(tmp_path / "v.parquet").to_pylist()
    assert [row["other"] for row in read] == ["on a mat", "the cat", "who"]
    np.testing.assert_allclose(read[2]["vector"], expected[1], atol=1e-6)


def test_a_table_is_not_read_as_lines(tmp_path):
    (tmp_path / "x.tsv").write_text("the cat\tsat\n")
    for command in ("classify", "tag", "embed", "translate", "answer", "rank"):
        words = ["who"] if command in ("answer", "rank") else []
        said = refused(command, tmp_path / "m", *words, "--file", tmp_path / "x.tsv")
        assert f"{tmp_path / 'x.tsv'}: this is a table: write --column" in said
    for command in ("fill", "generate", "similarity"):
        said = refused(command, tmp_path / "m", "--file", tmp_path / "x.tsv")
        assert "this is a table: save the texts to use in a .txt file" in said


def test_the_commands_that_read_tables_share_their_options():
    shared = [each.name for each in dataclasses.fields(TextOptions)]
    for command in ("classify", "embed", "rank", "tag"):
        parameters = inspect.signature(command_of(command)).parameters
        assert [name for name in parameters if name in shared] == shared


def test_a_pair_has_two_columns_and_a_text_one(table):
    words = ("--file", table, "--column", "text")
    twice = (*words, "--column", "other")
    assert "--column: 2 columns: write one\n" in refused("tag", "none", *twice, code=2)
    assert "--column: 3 columns: write one, or two for a pair" in refused(
        "classify", "none", *twice, "--column", "id", code=2
    )
    assert "--pair: write --column twice" in refused("classify", "none", *words, "--pair", code=2)
