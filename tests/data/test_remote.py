"""Data at an address: fsspec's file system in memory, and a web server of this machine."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pyarrow
import pyarrow.parquet
import pytest

import glassformer as gf
import tiny
from commands import glassformer, refused
from glassformer.data import remote
from glassformer.data.remote import fetch, is_address
from glassformer.recipe import short_form

LABELLED = (("good", "a warm film"), ("bad", "a dull film"))
TEXTS = ["the cat", "a dog ran", "who was on the mat"]
OWN = ("--model", "gf-encoder", "--device", "cpu")


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """fsspec's memory, empty, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    fetch.cache_clear()
    yield system
    system.store.clear()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "served").mkdir()
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as each:
        threading.Thread(target=each.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{each.server_address[1]}"
        each.shutdown()


def tokens(out: Path) -> list[Any]:
    lines = [line for file in sorted(out.glob("part-*")) for line in file.read_text().splitlines()]
    return [json.loads(line)["ids"] for line in lines]


def test_map_reads_a_folder_in_memory_and_resumes(memory: Any, tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    memory.pipe("/data/a.jsonl", rows.encode())
    table = pyarrow.table({"text": TEXTS})
    with memory.open("/data/deep/b.parquet", "wb") as file:
        pyarrow.parquet.write_table(table, file)
    words = ("map", "tokenize", "memory://data", tmp_path / "out", *OWN, "--column", "text")
    glassformer(*words, "--shard-rows", 2)
    expected = [gf.load("gf-encoder").tokenizer.encode(text).ids for text in TEXTS]
    assert tokens(tmp_path / "out") == expected * 2
    fetch.cache_clear()
    assert "4 of them finished before" in glassformer(*words, "--shard-rows", 2)
    memory.pipe("/data/a.jsonl", rows.replace("cat", "cow").encode())
    fetch.cache_clear()
    line = refused(*words, "--shard-rows", 2, code=2)
    assert "the input has changed" in line


def test_map_reads_a_file_of_a_server(server: str, tmp_path: Path) -> None:
    (tmp_path / "served" / "x.txt").write_text("\n".join(TEXTS) + "\n")
    glassformer("map", "tokenize", f"{server}/x.txt", tmp_path / "out", *OWN)
    assert len(tokens(tmp_path / "out")) == 3
    line = refused("map", "tokenize", f"{server}/none.txt", tmp_path / "none", *OWN)
    assert line == f"glassformer: File not found: {server}/none.txt\n"


def test_a_recipe_reads_an_address(memory: Any, tmp_path: Path) -> None:
    recipe = tiny.write_recipe(tmp_path, "classification")
    memory.pipe("/words/text.tsv", (recipe.parent / "text.tsv").read_bytes())
    here = gf.fit(recipe, out=tmp_path / "here")
    here.run(progress=False)
    there = gf.fit(
        recipe, out=tmp_path / "there", changes={"data.train": "memory://words/text.tsv"}
    )
    there.run(progress=False)
    metrics = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("here", "there")]
    assert metrics[0] == metrics[1]


def test_finetune_without_a_recipe_reads_an_address(memory: Any, tmp_path: Path) -> None:
    rows = "label\ttext\n" + "".join(
        f"{label}\t{text} {i}\n" for i in range(8) for label, text in LABELLED
    )
    memory.pipe("/words/all.tsv", rows.encode())
    memory.pipe("/words/some.tsv", rows.encode())
    words = ("finetune", "gf-encoder", "--objective", "classification", "--dry-run", "--json")
    (tmp_path / "all.tsv").write_text(rows)
    here, there = (
        json.loads(glassformer(*words, "--data", data, "--out", tmp_path / "run"))
        for data in (tmp_path / "all.tsv", "memory://words/all.tsv")
    )
    assert all(plan.pop("time") for plan in (here, there))  # it was measured
    assert there == here
    training = gf.finetune(
        "gf-encoder", "classification", train="memory://words/all.tsv",
        valid="memory://words/some.tsv", out=tmp_path / "api",
    )  # fmt: skip
    assert training.recipe.data.train == "memory://words/all.tsv"
    assert training.recipe.data.valid == "memory://words/some.tsv"


@pytest.mark.parametrize(
    ("address", "name"),
    [("https://h/export?as=tsv", "export"), ("s3://b/row.csv.gz", "row"), ("s3://b", "data")],
)  # fmt: skip
def test_a_run_is_named_after_the_file(address: str, name: str) -> None:
    assert short_form._name(address) == name


def test_what_is_missing_is_one_line(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("map", "tokenize", "memory://none", tmp_path / "out", *OWN)
    assert refused(*words) == "glassformer: File not found: memory://none\n"
    line = refused("map", "tokenize", "nosuch://a/b.txt", tmp_path / "out", *OWN)
    assert "nosuch://a/b.txt: cannot be read: ValueError: Protocol not known" in line
    monkeypatch.setitem(sys.modules, "s3fs", None)  # as if it were not installed
    line = refused("map", "tokenize", "s3://bucket/b.txt", tmp_path / "out", *OWN, code=2)
    assert "s3fs" in line and "pip install 'glassformer[remote]'" in line
    find_spec = remote.check_installed.__globals__["importlib"].util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "fsspec" else find_spec(name)
    )
    line = refused(*words, code=2)
    assert line == "glassformer: memory://none needs fsspec: pip install 'glassformer[remote]'\n"


@pytest.mark.parametrize("name", ["C:\\texts\\a.txt", "/data/a.txt", "a.txt", "c://a"])
def test_a_path_is_no_address(name: str) -> None:
    assert not is_address(name) and is_address("s3://bucket/a.txt")


def test_a_name_that_leaves_the_folder_is_refused(memory: Any, tmp_path: Path) -> None:
    memory.store["/data/../../evil.txt"] = memory.store.get("x") or _file(memory)
    line = refused("map", "tokenize", "memory://data", tmp_path / "out", *OWN)
    assert "is not the name of a file" in line


def _file(memory: Any) -> Any:
    memory.pipe("/x", b"a\n")
    return memory.store["/x"]
