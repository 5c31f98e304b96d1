"""Several sources in shares of tokens: those of every epoch, whoever computes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import live, metrics, result, session, write_recipe, write_text
from test_resume import die_at

from glassformer.data.dataset import owners
from glassformer.errors import ConfigError
from glassformer.recipe.schema import read_recipe


def write_mixture(folder: Path, first: float, *others: float, **train: Any) -> Path:
    """The first source has 60 documents, each further one 20."""
    path = write_recipe(folder, **train)
    text = path.read_text().replace("[data]\n", f"[data]\nshare = {first}\n")
    for number, share in enumerate(others, 1):
        write_text(folder / f"more-{number}.txt", "decoder", 20, number)
        text += f'\n[[data.more]]\ntrain = "more-{number}.txt"\nshare = {share}\n'
    path.write_text(text)
    return path


def shares(rows: Any, epoch: int) -> list[float]:
    """The share of each source in the tokens of an epoch."""
    dataset, samples = rows.dataset, rows.plan(epoch).samples
    ends = np.cumsum(dataset.store.meta.source_documents)
    sources = np.searchsorted(ends, owners(dataset.store["tokens"], samples.first), "right")
    tokens = np.bincount(sources, dataset.costs(samples), minlength=len(ends))
    return list(tokens / tokens.sum())


@pytest.mark.parametrize("asked", [(0.5, 0.5), (0.9, 0.1), (0.1, 0.2, 0.7)])
def test_the_tokens_of_an_epoch_have_the_shares(asked: tuple[float, ...], tmp_path: Path) -> None:
    recipe = write_mixture(tmp_path, *asked)
    rows = session(recipe, tmp_path / "run").rows
    assert len(rows.dataset.store.meta.source_documents) == len(asked)
    for epoch in (0, 1):
        assert shares(rows, epoch) == pytest.approx(asked, abs=0.02)
    first, second = (rows.plan(epoch).samples.first.tolist() for epoch in (0, 1))
    assert first != second
    again = session(recipe, tmp_path / "again").rows
    assert again.plan(1).samples.first.tolist() == second


@pytest.mark.slow
def test_a_killed_run_of_a_mixture_ends_with_the_same_bits(tmp_path: Path) -> None:
    recipe = write_mixture(tmp_path, 0.3, 0.7, steps=20, save_every=6)  # more than an epoch
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert live("pretrain", recipe, "--out", whole).status == 0
    assert live("pretrain", recipe, "--out", cut, mischief=die_at(16)).status == -9
    assert live("pretrain", recipe, "--out", cut).status == 0
    assert len(metrics(whole)) > 20 and result(cut) == result(whole)
    meta = json.loads((whole / "data" / "train" / "store.json").read_text())
    assert sum(meta["source_documents"]) == sum(meta["documents"])


@pytest.mark.parametrize(
    ("shares", "line"),
    [((0.5, 0.4), "data.share: their sum is 0.9: write shares of 1"), ((0, 1), "data.share")],
)
def test_wrong_shares_are_named(shares: tuple[float, ...], line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=line):
        read_recipe(write_mixture(tmp_path, *shares))


def test_all_sources_have_a_share_or_none(tmp_path: Path) -> None:
    path = write_mixture(tmp_path, 0.5, 0.5)
    path.write_text(path.read_text().replace("share = 0.5\n", "", 1))
    with pytest.raises(ConfigError, match=r"data\.share: 1 of 2 sources have one: write it"):
        read_recipe(path)
    path = write_mixture(tmp_path, 0.5, 0.5)
    with pytest.raises(ConfigError, match=r"cannot be combined with data\.deduplicate"):
        read_recipe(path, {"data.deduplicate": "true"})
