"""Classes of malformed folders: each folder gets one line that names the file and the field.

Few seconds of CPU, under 50 MB more memory, nothing executed, nothing opened beside it.
"""

import json
import shutil
from pathlib import Path

import pytest

from folders import ALIKE, THEIRS
from gate import adapter_cases, config_cases, file_cases, text_cases, weight_cases
from gate.damage import Case
from gate.harness import MOST_MB, MOST_SECONDS, Harness, Verdict
from gate.wholes import BERT
from sampling import every_nth

CLASSES = {
    **config_cases.CLASSES, **weight_cases.CLASSES, **text_cases.CLASSES, **file_cases.CLASSES,
}  # fmt: skip
CASES = {f"{kind}: {name}": case for kind, table in CLASSES.items() for name, case in table.items()}
SOME = {f"{kind}: {name}" for kind, table in CLASSES.items() for name in [*table][::11]}


def check_refused(verdict: Verdict, *words: str) -> None:
    assert verdict.end == "refused", verdict
    line = verdict.line
    assert line.isprintable() and 10 < len(line) <= 1_000, line
    for word in words:
        assert word in line, f"{word!r} is not in: {line}"
    check_calm(verdict)


def check_calm(verdict: Verdict) -> None:
    assert verdict.noise == ""
    assert verdict.deeds == []
    assert verdict.seconds < MOST_SECONDS, verdict
    assert verdict.mb < MOST_MB, verdict


def test_there_are_enough_of_them() -> None:
    assert len(CLASSES) >= 12
    assert {kind: len(table) for kind, table in CLASSES.items() if len(table) < 20} == {}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SOME else pytest.mark.slow) for name in CASES],
)
def test_a_malformed_folder_gets_one_line(
    name: str, harness: Harness, whole: dict[str, Path], tmp_path: Path
) -> None:
    case: Case = CASES[name]
    folder = Path(shutil.copytree(whole[case.base], tmp_path / "model"))
    case.damage(folder)
    given = folder / case.path
    check_refused(harness.run("load", folder=str(given)), str(given), *case.words)


@pytest.mark.parametrize("name", every_nth(adapter_cases.ADAPTERS, 3))
def test_a_malformed_adapter_gets_one_line(
    name: str, harness: Harness, whole: dict[str, Path], tmp_path: Path
) -> None:
    case = adapter_cases.ADAPTERS[name]
    folder = Path(shutil.copytree(whole[case.base], tmp_path / "model"))
    adapter = adapter_cases.write_good(folder)
    case.damage(adapter)
    verdict = harness.run("load", folder=str(folder), adapter=str(adapter))
    check_refused(verdict, str(adapter), *case.words)
    assert not (folder / "canary").exists()


def test_a_good_adapter_loads(harness: Harness, whole: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole[BERT], tmp_path / "model"))
    adapter = adapter_cases.write_good(folder)
    verdict = harness.run("load", folder=str(folder), adapter=str(adapter))
    assert verdict.end == "loads", verdict
    check_calm(verdict)


def test_there_is_a_whole_folder_of_every_architecture(whole: dict[str, Path]) -> None:
    """The mutations choose among them."""
    kinds = {json.loads((folder / "config.json").read_text())["model_type"]
             for folder in whole.values()}  # fmt: skip
    assert kinds == THEIRS.keys() - set(ALIKE)


def test_a_whole_folder_loads(harness: Harness, whole: dict[str, Path]) -> None:
    """The control: what is refused above is refused for what was done to it."""
    for folder in whole.values():
        verdict = harness.run("load", folder=str(folder))
        assert verdict.end == "loads", verdict
        check_calm(verdict)
