"""The recipes of the models that come with the package, at a hundredth of their size: the same
losses bit for bit whenever they run, and those that are known.

If a change was meant to move them, the message of the failing test has the new ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import smallship
from glassformer.config import TokenIds
from glassformer.objectives import objective_of
from glassformer.recipe.schema import model_config, read_recipe
from glassformer.sizes import measure
from glassformer.text.tokenizer import Tokenizer
from glassformer.train.loop import fit
from sampling import mostly_slow

GOLDEN = {
    "gf-encoder": [
        5.52708, 5.47412, 5.43732, 5.38603, 5.31738, 5.12139, 5.02601, 4.99087, 4.90076, 4.86634,
        4.87266, 4.55376, 4.56551, 4.52811, 4.52955, 4.51799, 4.42993, 4.46284, 4.45494, 4.34786,
    ],
    "gf-decoder": [
        5.74445, 5.67096, 5.60339, 5.42238, 5.21956, 5.04335, 4.87858, 4.63896, 4.45634, 4.34132,
        4.30187, 4.1437, 3.99176, 3.9521, 3.85324, 3.8335, 3.76204, 3.76274, 3.78676, 3.73595,
    ],
    "gf-en-ru": [
        5.6952, 5.67843, 5.65622, 5.60741, 5.56508, 5.50082, 5.44359, 5.39199, 5.34556, 5.30699,
        5.26333, 5.22372, 5.18657, 5.15498, 5.14464, 5.09337, 5.09388, 5.07589, 5.06718, 5.07567,
    ],
}  # fmt: skip
MOST = {"gf-encoder": 8e6, "gf-decoder": 10e6, "gf-en-ru": 6e6}  # parameters


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    smallship.write_data(root)
    return root


@pytest.mark.parametrize("name", mostly_slow(GOLDEN))
def test_its_losses_are_known(name: str, data: Path, tmp_path: Path) -> None:
    first, again = (smallship.small_session(name, data, tmp_path / part) for part in ("a", "b"))
    losses = [step.loss for step in fit(first.state, first.rows, first.world)]
    repeated = fit(again.state, again.rows, again.world)
    assert [step.loss for step in repeated] == losses  # bit for bit
    # Muon works in bf16, which another processor may round in another way.
    assert losses == pytest.approx(GOLDEN[name], abs=1e-3), str([round(each, 5) for each in losses])
    assert sum(losses[-5:]) < sum(losses[:5])


@pytest.mark.parametrize("name", GOLDEN)
def test_its_model_is_small(name: str) -> None:
    recipe = read_recipe(smallship.RECIPES / f"{name}.toml")
    config = model_config(recipe, recipe.tokenizer.vocab_size, TokenIds(), name)
    task = objective_of(recipe).task_config(recipe, config, ())
    count = measure(config, task).with_head
    assert MOST[name] / 2 < count <= MOST[name]


def test_the_vocabulary_is_not_listed_for_each_of_its_pieces(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Tokenizer] = []
    highest = Tokenizer.highest.fget
    monkeypatch.setattr(Tokenizer, "highest", property(lambda t: asked.append(t) or highest(t)))
    smallship.small_session("gf-encoder", data, tmp_path)
    assert 0 < len(asked) < 10
