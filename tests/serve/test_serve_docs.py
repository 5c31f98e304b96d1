"""What docs/howto/serve.md shows runs, against a real server; so do the files of deploy/."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from glassformer.catalog import list_models
from glassformer.serve.gate import PUBLIC

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "howto" / "serve.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_ways_of_the_page_run(server) -> None:
    code = "\n".join(block for block in blocks("python") if "ray" not in block).replace(
        "http://127.0.0.1:8000", server.url
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert "256" in out.stdout and "table" in out.stdout
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    curls = [line for line in lines if line.startswith("curl ")]
    assert len(curls) == 4
    for line in curls:
        words = shlex.split(line.replace("http://127.0.0.1:8000", server.url))
        out = subprocess.run([*words, "-f"], capture_output=True, text=True)
        assert out.returncode == 0 and out.stdout, line


def test_the_files_for_containers_and_systemd_name_real_options() -> None:
    from typer.main import get_command

    from glassformer.cli.main import application

    known = {
        name for each in get_command(application()).commands["serve"].params for name in each.opts
    }
    for name in ("Containerfile", "glassformer.service"):
        text = (ROOT / "deploy" / name).read_text()
        used = {word for word in re.findall(r"--[a-z-]+", text) if "serve" in text}
        ours = used - {"--no-cache-dir", "--system", "--no-create-home", "--now"}
        assert ours and ours <= known, name


def test_the_container_file_names_what_exists() -> None:
    """Its files, extra, user, command, port, health check and models."""
    text = (ROOT / "deploy" / "Containerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    steps = [(step, rest) for step, _, rest in (line.partition(" ") for line in lines)]
    first = dict(reversed(steps))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    python = re.fullmatch(r"python:(3\.\d+)-slim", first["FROM"])[1]
    assert SpecifierSet(project["requires-python"]).contains(python)
    for step, rest in steps:
        if step == "COPY":
            assert all((ROOT / each).exists() for each in rest.split()[:-1]), rest
    assert "'.[serve]'" in first["RUN"] and "serve" in project["optional-dependencies"]
    assert first["RUN"].split()[-1] == first["USER"]
    command, word, *_ = json.loads(first["ENTRYPOINT"])
    assert command in project["scripts"] and word == "serve"
    assert first["EXPOSE"] in PAGE and first["STOPSIGNAL"] == "SIGTERM"
    check = json.loads(first["HEALTHCHECK"].removeprefix("CMD "))
    url = re.search(r"http://127.0.0.1:(\d+)(/\w+)", check[2])
    assert url[1] == first["EXPOSE"] and url[2] in PUBLIC
    assert {*json.loads(first["CMD"])} <= {row["name"] for row in list_models()}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    """Its command is not installed here: Python stands in for it."""
    text = (ROOT / "deploy" / "glassformer.service").read_text()
    unit = tmp_path / "glassformer.service"
    unit.write_text(text.replace("/opt/glassformer/bin/glassformer", sys.executable))
    out = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (out.returncode, out.stderr) == (0, "")


@pytest.mark.slow
def test_the_package_is_built_from_what_the_container_copies(tmp_path: Path) -> None:
    """The steps of the container file, without a container: its COPY lines are enough to build
    the package, and its command starts with what was built."""
    text = (ROOT / "deploy" / "Containerfile").read_text()
    for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE):
        *sources, target = line.split()
        for source in sources:
            place = tmp_path / "src-root" / target
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place)
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, place)
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    built = tmp_path / "built"
    out = subprocess.run(
        [*wheel, "-w", built, tmp_path / "src-root"], capture_output=True, text=True
    )
    assert out.returncode == 0, out.stderr
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        archive.extractall(built)
    assert (built / "glassformer" / "serve" / "web" / "icon.svg").is_file()
    entry = re.search(r"^ENTRYPOINT (\[.+\])$", text, re.MULTILINE)
    _, *words = json.loads(entry[1])
    place = {"/models": tmp_path, "/run/secrets/keys.toml": tmp_path / "no.toml"}
    out = subprocess.run(
        [sys.executable, "-m", "glassformer", *(str(place.get(word, word)) for word in words)],
        capture_output=True, text=True, env={"PYTHONPATH": str(built)},
    )  # fmt: skip
    # Without its key file it says what is missing; so the options are right.
    assert out.returncode == 2 and "no.toml: no such file" in out.stderr
