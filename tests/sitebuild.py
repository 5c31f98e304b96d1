"""The pages of docs/, built."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def build_site(folder: Path) -> str:
    """As `make docs` does, into this folder; what was said."""
    for name in ("mkdocs", "latex2mathml"):
        pytest.importorskip(name, reason=f"{name} is not installed: make docs brings it")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an advertisement of its makers
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
