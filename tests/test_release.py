"""What a public forge, pip and a reader of the repository are told agrees with the code."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from glassformer.version import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = [ROOT / f".github/ISSUE_TEMPLATE/{name}.yml" for name in ("bug", "feature")]
SCHEMAS = [("github-workflows", each) for each in WORKFLOWS]
SCHEMAS += [("github-issue-forms", each) for each in FORMS]
SCHEMAS += [("citation-file-format", ROOT / "CITATION.cff")]


def check(schema: str, path: Path) -> Result:
    from check_jsonschema import main as check_jsonschema  # slow, and not every test needs it

    return CliRunner().invoke(check_jsonschema, ["--builtin-schema", f"vendor.{schema}", str(path)])


@pytest.mark.parametrize(("schema", "path"), SCHEMAS, ids=lambda each: Path(each).name)
def test_files_of_the_forge_are_valid(schema: str, path: Path) -> None:
    done = check(schema, path)
    assert done.exit_code == 0, done.output


def test_a_mistake_would_be_seen(tmp_path: Path) -> None:
    text = WORKFLOWS[0].read_text("utf-8")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(text.replace("runs-on:", "run-on:", 1))
    assert wrong.read_text() != text and check("github-workflows", wrong).exit_code == 1


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_expressions_of_a_workflow_name_what_is_there(path: Path) -> None:
    """What the schema cannot see: needs, and the keys of each job's matrix."""
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    for job in jobs.values():
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(jobs)
        used = set(re.findall(r"\bmatrix\.(\w+)", str(job)))
        assert used == set(job.get("strategy", {}).get("matrix", {})), used


def test_the_workflow_tries_the_systems_and_versions_that_are_promised() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    assert [each.partition("-")[0] for each in matrix["os"]] == [
        "ubuntu", "ubuntu", "macos", "windows"
    ]  # fmt: skip
    said = {c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if ":: 3." in c}
    assert {min(said), max(said)} == set(matrix["python"])
    assert PROJECT["project"]["requires-python"] == f">={min(said)}"
    oldest = (ROOT / ".github/oldest.txt").read_text("utf-8").strip().removeprefix("torch==")
    (torch,) = (each for each in PROJECT["project"]["dependencies"] if each.startswith("torch"))
    assert f">={oldest.removesuffix('.*')}," in torch


def test_one_version_everywhere() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    version, date = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", changes, re.MULTILINE).groups()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert version == citation["version"] == __version__
    assert date == citation["date-released"]


def test_make_run_installs_what_running_needs() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", "run"], cwd=ROOT, capture_output=True, text=True
    )
    installs = [line for line in done.stdout.splitlines() if "pip install" in line]
    assert len(installs) == 1 and installs[0].endswith("--editable .")


def test_hooks_are_the_checks_of_make_test() -> None:
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert [hook["id"] for hook in repo["hooks"]] == ["ruff-check", "ruff-format", "mypy"]
