"""A run writes into its own folder only, never through a link, a FIFO or a lock that is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glassformer.durable import append, write_whole
from glassformer.errors import GlassformerError, InputError
from glassformer.recipe.schema import recipe_fields
from glassformer.train.compare_plan import plan
from glassformer.train.finetune import finetune
from glassformer.train.run_dir import FILES, FOLDERS, check_places, locked
from tiny import write_recipe

KEPT = b"somebody else's"
INSIDE = ["data/train", "data/valid", "plan/train", "checkpoints/step-00000002", "model/README.md"]


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A folder of somebody else, with a file in it."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "file").write_bytes(KEPT)
    (folder / ".a.tmp-1").write_bytes(KEPT)  # what a sweep would remove
    return folder


@pytest.mark.parametrize("name", [*FILES, *FOLDERS, *INSIDE])
def test_a_linked_place_is_refused(tmp_path: Path, other: Path, name: str) -> None:
    place = tmp_path / "run" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    file = name in FILES or name.endswith(".md")
    place.symlink_to(other / "file" if file else other)
    told = f"{place.name}: this is a link: move it away"
    with pytest.raises(InputError, match=told), locked(tmp_path / "run"):
        pass
    assert sorted(each.read_bytes() for each in other.iterdir()) == [KEPT, KEPT]


@pytest.mark.parametrize("name", FILES)
def test_a_place_of_another_kind_is_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="this is a FIFO"):
        check_places(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="this is a folder"):
        check_places(tmp_path)


def test_a_lock_that_is_none_is_not_emptied(tmp_path: Path, other: Path) -> None:
    (tmp_path / "run").mkdir()
    os.link(other / "file", tmp_path / "run/.lock")
    told = r"\.lock: this is not the lock of a run"
    with pytest.raises(InputError, match=told), locked(tmp_path / "run"):
        pass
    assert (other / "file").read_bytes() == KEPT


def test_temporary_files_are_not_written_through_links(tmp_path: Path, other: Path) -> None:
    (tmp_path / f".a.json.tmp-{os.getpid()}").symlink_to(other / "file")
    write_whole(tmp_path / "a.json", b"{}")
    assert (tmp_path / "a.json").read_bytes() == b"{}" and not (tmp_path / "a.json").is_symlink()
    (tmp_path / "log").symlink_to(other / "file")
    with pytest.raises(GlassformerError, match="log: could not be written"):
        append(tmp_path / "log", b"line")
    assert (other / "file").read_bytes() == KEPT


def test_rows_given_from_python_are_not_written_through_a_link(tmp_path: Path, other: Path) -> None:
    (tmp_path / "source").symlink_to(other)
    with pytest.raises(InputError, match="source: this is a link"):
        finetune("gf-encoder", "classification", train=[("a", "b")], out=tmp_path)
    assert len(list(other.iterdir())) == 2


def test_the_runs_of_a_comparison_are_no_links(tmp_path: Path, other: Path) -> None:
    fields = recipe_fields(write_recipe(tmp_path))
    (tmp_path / "out").mkdir()
    (tmp_path / "out/gpt2").symlink_to(other)
    with pytest.raises(InputError, match="gpt2: this is a link"):
        plan({"gpt2": "gpt2"}, fields, {}, "recipe.toml", tmp_path / "out", 1, None, None)


def test_the_folder_itself_may_be_a_link(tmp_path: Path, other: Path) -> None:
    (tmp_path / "run").symlink_to(other)
    with locked(tmp_path / "run"):
        append(tmp_path / "run/metrics.jsonl", b"{}\n")
        append(tmp_path / "run/metrics.jsonl", b"{}\n")
    assert (other / "metrics.jsonl").read_bytes() == b"{}\n{}\n"
