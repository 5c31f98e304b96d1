"""An editor sees mistakes before a program runs: mypy refuses misuses of the public API."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parent.parent
MISUSES = ROOT / "tests/misuses.py"


@pytest.mark.slow
def test_mypy_refuses_misuses_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = MISUSES.read_text().splitlines()
    planted = {
        number: mark[1]
        for number, line in enumerate(lines, 1)
        if (mark := re.search(r"  # ([a-z-]+)$", line))
    }
    assert len(planted) > 20
    monkeypatch.chdir(ROOT)  # its settings and its cache
    report, errors, _ = api.run([str(MISUSES), "--no-error-summary", "--hide-error-context"])
    found = re.findall(r"misuses\.py:(\d+): error: .*\[([a-z-]+)\]", report)
    assert {int(number): code for number, code in found} == planted, report + errors
