"""Each task over files: what the model's own call returns, row by row, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.json
import pyarrow.parquet
import pytest
import torch
from bulkjobs import outputs

import glassformer as gf
from commands import glassformer, refused
from glassformer.bulk.shards import GROUP_ROWS
from glassformer.errors import GlassformerError
from sampling import mostly_slow
from speakers import LONG, bert

TEXTS = ["the cat sat", "who was on the mat", "", "paris", "the cat was on the mat ."]
LABELS = {"id2label": {0: "no", 1: "perhaps", 2: "yes"}}
NER = {"id2label": {0: "O", 1: "B-PER", 2: "I-PER"}}


@pytest.fixture(scope="module")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "x.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS))
    return path


def rows_in(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("part-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def mapped(task: str, source: Path, out: Path, model: Any, **options: Any) -> list[dict[str, Any]]:
    summary = gf.map_files(task, source, out, model=model, shard_rows=2, device="cpu", **options)
    rows = rows_in(out)
    assert summary.rows == len(rows) and summary.shards == len([*out.glob("part-*")])
    return rows


def test_embed(text_file: Path, tmp_path: Path) -> None:
    model, _ = bert("BertModel", tmp_path / "m", **LONG)
    rows = mapped("embed", text_file, tmp_path / "out", tmp_path / "m", pool_by="first")
    assert [row["text"] for row in rows] == TEXTS and rows[2]["vector"] is None
    expected = model.embed([text for text in TEXTS if text], pool_by="first").tolist()
    for row, vector in zip([row for row in rows if row["text"]], expected, strict=True):
        assert row["vector"] == pytest.approx(vector, abs=1e-5)


def test_classify_texts_and_pairs(tmp_path: Path) -> None:
    model, _ = bert("BertForSequenceClassification", tmp_path / "m", **LONG, **LABELS)
    source = tmp_path / "x.csv"
    source.write_text('label,a,b\nx,the cat,"on\nthe mat"\ny,paris,\nz,who was,the cat\n')
    rows = mapped("classify", source, tmp_path / "one", tmp_path / "m", columns=["a"])
    expected = model.classify(["the cat", "paris", "who was"])
    assert [row["predicted_label"] for row in rows] == [each.label for each in expected]
    assert [row["label"] for row in rows] == ["x", "y", "z"]
    rows = mapped("classify", source, tmp_path / "two", tmp_path / "m", columns=["a", "b"])
    pair = model.classify([("the cat", "on\nthe mat"), ("who was", "the cat")])
    assert rows[0]["probability"] == pytest.approx(pair[0].score, abs=1e-5)
    assert rows[2]["probability"] == pytest.approx(pair[1].score, abs=1e-5)
    assert rows[1]["predicted_label"] is None and rows[1]["probability"] is None


def test_tag(text_file: Path, tmp_path: Path) -> None:
    model, _ = bert("BertForTokenClassification", tmp_path / "m", **LONG, **NER)
    rows = mapped("tag", text_file, tmp_path / "out", tmp_path / "m")
    expected = [each.cells() for each in model.tag(TEXTS)]
    assert [row["labels"] for row in rows] == [each["labels"] for each in expected]
    assert [row["words"] for row in rows] == [each["words"] for each in expected]


def test_translate(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("A cat sat.\n\nThe end.\n")
    rows = mapped("translate", tmp_path / "x.txt", tmp_path / "out", "gf-en-ru", num_beams=2)
    model = gf.load("gf-en-ru")
    expected = [each.text for each in model.translate(["A cat sat.", "", "The end."], num_beams=2)]
    assert [row["translation"] for row in rows] == expected


def test_generate_samples_the_same_texts_again(tmp_path: Path) -> None:
    long = "the end " * 3000
    (tmp_path / "x.txt").write_text(f"A cat\n{long}\n\nThe end\n")
    options = {"max_new_tokens": 4, "temperature": 0.9, "num_return_sequences": 2}
    rows = mapped("generate", tmp_path / "x.txt", tmp_path / "a", "gf-decoder", **options)
    again = mapped("generate", tmp_path / "x.txt", tmp_path / "b", "gf-decoder", **options)
    assert rows == again and [row["text"] for row in rows] == ["A cat", "", "The end"]
    assert [len(row["generated_text"] or ()) for row in rows] == [2, 0, 2]
    (line,) = (tmp_path / "a" / "_errors" / "part-00000.jsonl").read_text().splitlines()
    error = json.loads(line)
    assert error["file"] == "x.txt" and error["row"] == 2 and "shorten it" in error["message"]


def test_an_empty_row_has_the_columns_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("A cat\n\n")
    options = {"max_new_tokens": 2, "logprobs": True}
    full, empty = mapped("generate", tmp_path / "x.txt", tmp_path / "a", "gf-decoder", **options)
    assert len(full["logprobs"]) == 2 and empty.keys() == full.keys()
    assert empty["logprobs"] is None


def test_settings_of_zero_and_false_are_kept(tmp_path: Path) -> None:
    source = tmp_path / "x.txt"
    source.write_text("A cat\n")

    def written(task: str, model: str, *options: str) -> dict[str, Any]:
        out = tmp_path / "-".join(options)
        glassformer("map", task, source, out, "--model", model, "--device", "cpu", *options)
        kept: dict[str, Any] = json.loads((out / "_manifest.json").read_text())["job"]["options"]
        return kept

    assert written("generate", "gf-decoder", "--top-k", "0") == {"top_k": 0}
    assert written("generate", "gf-decoder", "--no-do-sample") == {"do_sample": False}
    options = written("translate", "gf-en-ru", "--length-penalty", "0")
    assert options == {"length_penalty": 0.0, "n_best": 1}
    words = ["map", "generate", source, tmp_path / "none", "--model", "gf-decoder"]
    assert "temperature = 0" in refused(*words, "--temperature", "0", code=2)


def test_the_environment_of_a_distributed_job_does_not_matter(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two processes, of which the second never comes."""
    place = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    rows = mapped("embed", text_file, tmp_path / "out", "gf-encoder")
    assert len(rows) == len(TEXTS) and not torch.distributed.is_initialized()
    glassformer("embed", "gf-encoder", "a cat", "--device", "cpu")
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_new_column_has_one_name_in_all_rows_of_a_file(form: str, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    with_ids, without = {"text": "a cat", "ids": "x"}, {"text": "the end"}
    for name, rows in {"a": [with_ids, without], "b": [without, with_ids, without]}.items():
        (source / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "out"
    call = {"columns": ["text"], "format": form, "shard_rows": 1}
    summary = gf.map_files("tokenize", source, out, model="gf-encoder", **call)
    assert (summary.rows, summary.errors) == (4, 1)
    files = sorted(out.glob("part-*"))
    read = pyarrow.parquet.read_table if form == "parquet" else pyarrow.json.read_json
    new = [read(file).column_names[-1] for file in files if file.stat().st_size]
    assert new[:2] == ["predicted_ids"] * 2 and set(new[2:]) == {"ids"}
    (errors,) = (out / "_errors").iterdir()
    error = json.loads(errors.read_text())
    assert (error["file"], error["row"]) == ("b.jsonl", 2) and "'ids'" in error["message"]


def test_tokenize_reads_every_format_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    rows = [{"n": i, "text": text} for i, text in enumerate(["a cat", "the end"])]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "b.csv").write_text("n,text\n0,a cat\n1,the end\n")
    (folder / "c.tsv").write_text("n\ttext\n0\ta cat\n1\tthe end\n")
    (folder / "empty.jsonl").touch()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "deep" / "d.parquet")
    written = mapped("tokenize", folder, tmp_path / "out", "gf-encoder", columns=["text"])
    assert [row["text"] for row in written] == ["a cat", "the end"] * 4
    ids = [each.ids for each in gf.load("gf-encoder").tokenizer(["a cat", "the end"])]
    assert [row["ids"] for row in written] == ids * 4
    shards = json.loads((tmp_path / "out" / "_manifest.json").read_text())["shards"]
    assert [each["file"] for each in shards] == ["a.jsonl", "b.csv", "c.tsv", "deep/d.parquet"]


@pytest.mark.parametrize("task", mostly_slow(["tokenize", "embed"]))
def test_the_output_does_not_depend_on_the_processes(task: str, tmp_path: Path) -> None:
    bert("BertModel", tmp_path / "m", **LONG)
    source = tmp_path / "x.txt"
    source.write_text("".join(f"{TEXTS[i % 5]} the cat\n" for i in range(2 * GROUP_ROWS + 9)))
    for processes in (1, 2):
        gf.map_files(
            task, source, tmp_path / f"{processes}", model=tmp_path / "m", device="cpu",
            shard_rows=GROUP_ROWS + 3, processes=processes,
        )  # fmt: skip
    one, two = outputs(tmp_path / "1"), outputs(tmp_path / "2")
    assert len(one) == 3 and one == two


def test_vectors_as_parquet(tmp_path: Path) -> None:
    model, _ = bert("BertModel", tmp_path / "m", **LONG)
    types = {"text": pyarrow.large_string(), "n": pyarrow.int8(), "when": pyarrow.date32()}
    columns = {"text": TEXTS, "n": [1, None, 3, 4, 5], "when": [None, 1, 2, 3, 4]}
    table = pyarrow.table(columns, pyarrow.schema(types.items()))
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet", row_group_size=2)
    out = tmp_path / "out.parquet"
    options: dict[str, Any] = {"model": tmp_path / "m", "columns": ["text"], "device": "cpu"}
    gf.map_files("embed", tmp_path / "x.parquet", out, shard_rows=3, **options)
    written = pyarrow.parquet.read_table(out)
    assert written.select(table.column_names).equals(table)
    vectors = written["vector"].to_pylist()
    assert vectors[2] is None and written.schema.field("vector").type.value_type == "float"
    assert vectors[0] == pytest.approx(model.embed(TEXTS[0])[0].tolist(), abs=1e-5)


def test_parquet_of_json_has_the_columns_of_the_first_row(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"text": "a cat", "n": 1, "x": 0.5, "more": {"a": [1]}, "yes": True},
        {"text": "the end", "n": None, "x": 1, "more": "é", "yes": False},
        {"text": "another field", "m": 1},
        {"text": "another type", "n": "1"},
        {"text": "too large", "n": 1 << 63},
    ]
    source, out = tmp_path / "x.jsonl", tmp_path / "out"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = gf.map_files(
        "tokenize", source, out, model="gf-encoder", columns=["text"], format="parquet"
    )
    assert (summary.rows, summary.errors) == (2, 3)
    written = pyarrow.parquet.read_table(out).to_pylist()
    assert [(row["n"], row["x"], row["yes"]) for row in written] == [
        (1, 0.5, True),
        (None, 1, False),
    ]
    assert [json.loads(row["more"]) for row in written] == [{"a": [1]}, "é"]
    errors = (out / "_errors" / "part-00000.jsonl").read_text().splitlines()
    assert [json.loads(line)["row"] for line in errors] == [3, 4, 5]
    assert "'m'" in errors[0] and "int64" in errors[1]


def test_the_type_of_a_field_is_that_of_its_first_value(tmp_path: Path) -> None:
    rows = [{"text": "a", "title": None}, {"text": "b"}, {"text": "c", "title": "T"}]
    source, out = tmp_path / "x.jsonl", tmp_path / "out.parquet"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    gf.map_files("tokenize", source, out, model="gf-encoder", columns=["text"], shard_rows=1)
    assert pyarrow.parquet.read_table(out)["title"].to_pylist() == [None, None, "T"]


def test_warnings_are_counted(tmp_path: Path) -> None:
    bert("BertModel", tmp_path / "m", **LONG)
    (tmp_path / "x.txt").write_text("the cat " * 100)
    summary = gf.map_files("embed", tmp_path / "x.txt", tmp_path / "out", model=tmp_path / "m")
    assert summary.warnings == 1 and "truncated" in summary.first_warning


def test_a_finished_job_computes_nothing(tmp_path: Path, text_file: Path) -> None:
    call = ("tokenize", text_file, tmp_path / "out")
    assert gf.map_files(*call, model="gf-encoder", shard_rows=2).computed == 3
    (tmp_path / "out" / "part-00001.jsonl").unlink()
    assert gf.map_files(*call, model="gf-encoder", shard_rows=2).computed == 1
    assert gf.map_files(*call, model="gf-encoder", shard_rows=2).computed == 0


def test_a_file_that_changes_while_it_is_read_stops_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassformer.bulk.shards import ShardWorker

    source = tmp_path / "x.txt"
    source.write_text("a\nb\nc\n")
    run = ShardWorker.run

    def run_and_change(worker: ShardWorker, number: int) -> Any:
        result = run(worker, number)
        source.write_text("a\nb\nd and more\n")
        return result

    monkeypatch.setattr(ShardWorker, "run", run_and_change)
    with pytest.raises(GlassformerError, match="this file has changed while it was read"):
        gf.map_files("tokenize", source, tmp_path / "out", model="gf-encoder", shard_rows=1)
