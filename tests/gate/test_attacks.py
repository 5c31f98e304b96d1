"""Attacks that worked elsewhere do nothing here: nothing runs, nothing outside is touched."""

import shutil
import stat
from pathlib import Path

import pytest

from gate.attacks import ATTACKS, INERT, SAVES
from gate.harness import Harness
from gate.test_classes import check_calm, check_refused
from gate.wholes import BERT
from glassformer.checkpoint.folder import write_folder
from glassformer.errors import CheckpointError


def everything(root: Path) -> dict[str, object]:
    """All that stands below a folder: contents, where links lead, kinds of the rest."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        known = path.read_bytes() if stat.S_ISREG(mode) else mode
        found[str(path.relative_to(root))] = path.readlink() if stat.S_ISLNK(mode) else known
    return found


def test_there_are_enough_of_them() -> None:
    assert len(ATTACKS) >= 60
    assert sum(attack.verdict == INERT for attack in ATTACKS.values()) >= 20


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_does_nothing(
    name: str, harness: Harness, whole: dict[str, Path], tmp_path: Path
) -> None:
    attack, canary = ATTACKS[name], tmp_path / "canary"
    folder = Path(shutil.copytree(whole[attack.base], tmp_path / "model"))
    (tmp_path / "secret").write_text("mine")
    attack.make(folder, canary)
    before = everything(tmp_path)
    (tmp_path / "saved").mkdir()
    opened, saved = folder / attack.given, tmp_path / "saved" / "model"
    then = str(saved) if attack.verdict == INERT else ""
    verdict = harness.run("load", folder=str(opened), then=then, cwd=str(folder))
    if attack.verdict == INERT:
        assert verdict.end == "loads", verdict
        check_calm(verdict)
        written, kept = everything(tmp_path / "saved"), everything(folder)
        assert {f"model/{name}" for name in kept} | {"model"} >= written.keys()
        assert all(kept[name[6:]] == data for name, data in written.items() if name != "model")
        shutil.rmtree(saved)
    else:
        check_refused(verdict, str(opened), *attack.verdict)
    (tmp_path / "saved").rmdir()
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", SAVES)
def test_saving_writes_into_its_folder_only(
    name: str, harness: Harness, whole: dict[str, Path], tmp_path: Path
) -> None:
    make, expected = SAVES[name]
    target, victim = tmp_path / "saved" / "model", tmp_path / "victim"
    target.parent.mkdir()
    make(target, victim)
    before = everything(target), everything(victim)
    verdict = harness.run("load", folder=str(whole[BERT]), then=str(target))
    assert everything(victim) == before[1]
    assert [path.name for path in target.parent.iterdir()] == ["model"]
    if expected == INERT:
        assert verdict.end == "loads", verdict
        assert all(kind == "a file" for kind in kinds(target)), target
        assert harness.run("load", folder=str(target)).end == "loads"
    else:
        check_refused(verdict, *expected)
        assert everything(target) == before[0]


def kinds(folder: Path) -> list[str]:
    return ["a file" if stat.S_ISREG(p.lstat().st_mode) else str(p) for p in folder.iterdir()]


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "a/b", "..", ".", "", "a\0b", ".hidden", "2_Evil/config.json",
             "2_Dense/evil.py", "1_Pooling/../../evil", "a\\b", "a\nb"],
)  # fmt: skip
def test_a_name_that_leads_out_is_not_written(name: str, tmp_path: Path) -> None:
    for texts, shards in (({name: b"evil"}, {}), ({}, {name: ({}, {})})):
        with pytest.raises(CheckpointError) as caught:
            write_folder(tmp_path / "model", texts=texts, shards=shards)
        assert repr(name) in str(caught.value)
    assert list(tmp_path.iterdir()) == []
