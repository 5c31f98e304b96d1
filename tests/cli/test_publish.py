"""`glassformer publish` shows what it would upload; with --upload it makes one commit."""

import json
from pathlib import Path

import huggingface_hub
import pytest

import folders
from commands import glassformer, refused


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = folders.write("BertModel", tmp_path / "small")
    (folder / "optimiser.bin").write_bytes(b"of the training")
    return folder


class Hub:
    """Stands for HfApi."""

    def __init__(self, **options: str) -> None:
        self.options = options

    def create_repo(self, name: str, *, private: bool, exist_ok: bool) -> str:
        made.append((name, private, exist_ok))
        return f"https://hub/{name}"

    def create_commit(self, name: str, operations: list, *, commit_message: str) -> None:
        made.append({each.path_in_repo: each.path_or_fileobj for each in operations})
        made.append(Path(made[-1]["README.md"]).read_text("utf-8"))


made: list = []


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list:
    made.clear()
    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    return made


def test_without_upload_it_only_shows(model: Path, hub: list) -> None:
    said = glassformer("publish", model, "someone/small")
    assert "someone/small/model.safetensors" in said and "optimiser" not in said
    assert "# small" in said and 'gf.load("someone/small")' in said
    assert said.endswith("Nothing was uploaded: add --upload.\n") and hub == []
    facts = json.loads(glassformer("publish", model, "someone/small", "--json"))
    assert facts["address"] is None and facts["files"]["README.md"] == len(facts["card"].encode())


def test_an_upload_is_one_commit_with_the_card(model: Path, hub: list) -> None:
    said = glassformer("publish", model, "someone/small", "--upload", "--private")
    assert said.splitlines()[-1] == "https://hub/someone/small"
    repository, files, card = hub
    assert repository == ("someone/small", True, True)
    assert {"README.md", "config.json", "model.safetensors"} <= files.keys()
    assert "optimiser.bin" not in files and "library_name: glassformer" in card


def test_a_card_of_ones_own_stays(model: Path, hub: list) -> None:
    (model / "README.md").write_text("# Mine\n")
    glassformer("publish", model, "someone/small", "--upload")
    assert hub[-1] == "# Mine\n"


def test_refused_in_one_line(model: Path, hub: list, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("small", "a/b/c", "someone/", "../x"):
        assert "as OWNER/NAME" in refused("publish", model, name, code=2)
    assert "no such folder" in refused("publish", model / "none", "someone/small")

    def fail(self: Hub, *words: object, **options: object) -> None:
        raise PermissionError("401 Client Error\nand more")

    monkeypatch.setattr(Hub, "create_repo", fail)
    said = refused("publish", model, "someone/small", "--upload")
    assert "(PermissionError: 401 Client Error): log in by `hf auth login`" in said
