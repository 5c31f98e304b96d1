"""Compiled or not, a run trains the same."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness import FAMILIES, live, metrics, write_recipe

from sampling import mostly_slow


def with_backend(name: str) -> None:
    """Instead of inductor: what is traced is the same, at a tenth of the time."""
    import torch

    torch.compile = partial(torch.compile, backend=name)


def check(recipe: Path, mischief: Any = None) -> None:
    assert live("pretrain", recipe, "--out", recipe.parent / "plain").status == 0
    out = recipe.parent / "compiled"
    end = live("pretrain", recipe, "--out", out, "--train.compile", "true", mischief=mischief)
    assert end.status == 0, end.said
    plain, compiled = metrics(recipe.parent / "plain"), metrics(out)
    assert [each["step"] for each in plain] == [each["step"] for each in compiled]
    for one, other in zip(plain, compiled, strict=True):
        if "loss" in one:
            assert other["loss"] == pytest.approx(one["loss"], abs=1e-4)
        else:
            assert other["valid"]["answers"] == one["valid"]["answers"]
            assert other["valid"]["loss"] == pytest.approx(one["valid"]["loss"], abs=1e-4)


# A row of 96 has room for three texts of 32: the filler of a short one is longer than a text.
@pytest.mark.slow
@pytest.mark.parametrize("family", mostly_slow(FAMILIES))
def test_traced(family: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, family, dropout=False, micro_batch_tokens=96, valid=1, steps=4)
    check(recipe, partial(with_backend, "aot_eager"))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_compiled(family: str, tmp_path: Path) -> None:
    check(write_recipe(tmp_path, family, dropout=False, micro_batch_tokens=96, valid=1))
