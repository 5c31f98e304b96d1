"""Wrong input of `glassformer map`: one line that says what is wrong, before any work."""

from __future__ import annotations

import json
import os
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from bulkjobs import outputs

from commands import glassformer, refused
from glassformer.bulk import map_files
from glassformer.bulk.manifest import ModelFolders
from glassformer.bulk.ray_cluster import ShardActor, result_of
from glassformer.bulk.shards import WorkerSpec
from glassformer.errors import ConfigError, InputError

ROWS = [{"text": "a cat"}, {"text": "the end"}, {"text": "a dog ran"}]


@pytest.fixture
def job(tmp_path: Path) -> list[str]:
    """A finished job with a model of its own."""
    model = tmp_path / "model"
    shutil.copytree(str(files("glassformer") / "pretrained" / "gf-encoder"), model)
    source = tmp_path / "x.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    words = ["map", "tokenize", str(source), str(tmp_path / "out"), "--model", str(model)]
    words += ["--column", "text", "--shard-rows", "2"]
    said = glassformer(*words)
    assert said == f"{tmp_path / 'out'}: 3 rows in 2 shards\n"
    assert "map tokenize  3/3" in said.errors and "rows/s" in said.errors
    return words


def test_what_has_changed_is_named(job: list[str], tmp_path: Path) -> None:
    before = outputs(tmp_path / "out")

    def line(words: list[str]) -> str:
        text = refused(*words, code=2)
        assert str(tmp_path / "out") in text and "another job began in this folder" in text
        return text

    assert "task was 'tokenize' and is 'embed'" in line(["map", "embed", *job[2:]])
    assert "shard_rows was 2 and is 3" in line([*job[:-1], "3"])
    assert "encoding was 'utf-8'" in line([*job, "--encoding", "cp1252"])
    assert "columns was ['text'] and is ['text', 'text']" in line([*job, "--column", "text"])
    source, model = tmp_path / "x.jsonl", tmp_path / "model" / "tokenizer.json"
    content = source.read_bytes()
    source.write_bytes(content + b"\n")
    assert f"the input has changed: {source}: this file has changed" in line(job)
    source.write_bytes(content)
    os.utime(source, (1, 1))  # the same content at another time is the same
    glassformer(*job)
    (tmp_path / "more").mkdir()
    shutil.copy(source, tmp_path / "more")
    glassformer(*job[:2], tmp_path / "more", *job[3:])
    shutil.copy(source, tmp_path / "more" / "y.jsonl")
    assert "y.jsonl: this file is new" in line([*job[:2], str(tmp_path / "more"), *job[3:]])
    model.write_bytes(model.read_bytes() + b"\n")
    assert f"the model has changed: {model}" in line(job)
    assert outputs(tmp_path / "out") == before


def test_a_job_that_has_written_nothing_is_replaced(job: list[str], tmp_path: Path) -> None:
    out = str(tmp_path / "other")
    assert "cannot tag" in refused("map", "tag", job[2], out, *job[4:])
    assert glassformer(*job[:3], out, *job[4:]).startswith(f"{out}: 3 rows")
    words = ["map", "embed", job[2], str(tmp_path / "third"), *job[4:]]
    assert "'nope'" in refused(*words, "--prompt-name", "nope")
    assert not [*(tmp_path / "third").glob("part-*")]


def test_other_folders_are_refused(job: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    here = [*job[:3], str(tmp_path / "mine"), *job[4:]]
    assert "thesis.txt is in it" in refused(*here, code=2)
    inside = [*job[:2], str(tmp_path), str(tmp_path / "out"), *job[4:]]
    assert "this folder is in the input" in refused(*inside, code=2)
    file = [*job[:3], job[2], *job[4:]]
    assert "in the input" in refused(*file, code=2)
    assert "this is a file" in refused(
        *job[:3], tmp_path / "model" / "config.json", *job[4:], code=2
    )
    assert "File not found" in refused(*job[:2], tmp_path / "none.txt", *job[3:])
    manifest = tmp_path / "out" / "_manifest.json"
    manifest.write_text(manifest.read_text()[:-5])
    assert str(manifest) in refused(*job)


def test_wrong_options(job: list[str], tmp_path: Path) -> None:
    new = [*job[:3], str(tmp_path / "new"), *job[4:]]
    assert "no field 'txt'" in refused(*new[:6], "--column", "txt")
    assert "--column" in refused(*new[:6])
    assert "--model" in refused(*new[:4], code=2)
    assert "Parquet holds vectors and ids" in refused(
        "map", "classify", *new[2:], "--format", "parquet", code=2
    )
    assert "write one" in refused("map", "tag", *new[2:], "--column", "b", code=2)
    (tmp_path / "empty.txt").touch()
    assert "no row" in refused(*new[:2], tmp_path / "empty.txt", *new[3:6])
    assert not [*tmp_path.glob("new/part-*")]


def test_an_unknown_device_is_one_line(job: list[str], tmp_path: Path) -> None:
    words = ["map", "embed", job[2], str(tmp_path / "new"), *job[4:], "--device", "gpu"]
    line = refused(*words, code=2)
    assert line == "glassformer: --device 'gpu': write auto, cpu, cuda or mps\n"
    words[1] = "tokenize"
    assert refused(*words, code=2) == line
    assert not (tmp_path / "new").exists()


def test_a_device_that_is_missing_is_refused_before_a_worker_starts(
    job: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    monkeypatch.setattr("glassformer.bulk.run.shards_in_processes", lambda *arguments: 1 / 0)
    words = ["map", "embed", job[2], str(tmp_path / "new"), *job[4:], "--processes", "2"]
    line = refused(*words, "--device", "mps", code=2)
    assert line == "glassformer: --device 'mps': this machine has none: write auto or cpu\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("task", ["embed", "tokenize"])
def test_an_unknown_option_is_named(task: str, job: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"map {task}: 'pool' is not an option"):
        map_files(task, job[2], tmp_path / "new", model=job[5], columns=["text"], pool="mean")


def test_a_name_of_the_hub_is_looked_up(
    job: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    new = [*job[:3], str(tmp_path / "new"), "--model", "an-owner/a-name", *job[6:]]
    assert "an-owner/a-name: no such folder, and the hub did not provide it" in refused(*new)


def test_an_error_of_a_ray_actor_is_raised_as_it_is(job: list[str], tmp_path: Path) -> None:
    """The actor's own call, without a cluster: rows of its results travel through Ray."""
    source, out, model = Path(job[2]), tmp_path / "out", Path(job[5])
    (row,) = rows_of(ShardActor(WorkerSpec(source, out, ModelFolders(model), "cpu"))({"item": [1]}))
    assert result_of(row).number == 1
    (out / "_manifest.json").unlink()
    (row,) = rows_of(ShardActor(WorkerSpec(source, out, ModelFolders(model), "cpu"))({"item": [0]}))
    with pytest.raises(InputError, match="there is no job in this folder"):
        result_of(row)


def rows_of(columns: dict[str, list[object]]) -> list[dict[str, object]]:
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def test_two_processes_do_not_write_to_one_folder(job: list[str], tmp_path: Path) -> None:
    from filelock import FileLock

    with FileLock(tmp_path / "out" / ".lock"):
        assert "another process writes here" in refused(*job)


def test_bad_rows_go_to_the_side_file(job: list[str], tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_bytes(
        b'{"text": "a"}\n{"text": 5}\n{"text"\n\n\xff\n{"txt": "b"}\n{"text": "\\u0000ok"}\n'
    )
    out = tmp_path / "bad"
    said = glassformer(*job[:2], tmp_path / "bad.jsonl", out, *job[4:])
    assert said == f"{out}: 2 rows in 3 shards, 4 errors in _errors\n"
    assert "4 errors" in said.errors
    lines = [
        json.loads(line)
        for file in sorted((out / "_errors").iterdir())
        for line in file.read_text().splitlines()
    ]
    assert [(line["file"], line["row"]) for line in lines] == [
        ("bad.jsonl", n) for n in (2, 3, 5, 6)
    ]
    for line, words in zip(lines, ("text = 5", "not valid JSON", "UTF-8", "'text'"), strict=True):
        assert words in line["message"]
    summary = json.loads(glassformer(*job[:2], tmp_path / "bad.jsonl", out, *job[4:], "--json"))
    assert (summary["rows"], summary["errors"], summary["computed"]) == (2, 4, 0)
