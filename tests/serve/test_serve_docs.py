"""What docs/howto/serve.md shows runs, against a real server; so do the files of deploy/."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

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

    from glassformer.cli.main import app

    known = {name for each in get_command(app).commands["serve"].params for name in each.opts}
    for name in ("Containerfile", "glassformer.service"):
        text = (ROOT / "deploy" / name).read_text()
        used = {word for word in re.findall(r"--[a-z-]+", text) if "serve" in text}
        ours = used - {"--no-cache-dir", "--system", "--no-create-home", "--now"}
        assert ours and ours <= known, name
