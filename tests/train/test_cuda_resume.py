"""On a GPU: with deterministic = true a run that was killed ends with the same bits; with CUDA
graphs it trains the same."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
from harness import FAMILIES, at_step, live, metrics, result, signal_self, write_recipe

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # one who asks CUDA cannot fork
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_killed_and_resumed(family: str, precision: str, graphs: bool, tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path, family, precision=precision, cuda_graphs=graphs, deterministic=True, device="cuda"
    )
    kill = partial(at_step, 7, partial(signal_self, signal.SIGKILL))
    live("pretrain", recipe, "--out", tmp_path / "cut", mischief=kill)
    for out in ("cut", "whole"):
        end = live("pretrain", recipe, "--out", tmp_path / out)
        assert end.status == 0, end.said
    whole, cut = (result(tmp_path / out) for out in ("whole", "cut"))
    assert [name for name in whole if whole[name] != cut.get(name)] == []


def count_replays(file: Path) -> None:
    replay = torch.cuda.CUDAGraph.replay

    def counted(graph: torch.cuda.CUDAGraph) -> None:
        with file.open("a") as told:
            told.write(".")
        replay(graph)

    torch.cuda.CUDAGraph.replay = counted  # type: ignore[method-assign]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_with_cuda_graphs(family: str, rows: int, tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path, family, dropout=False, valid=1, micro_batches=rows, device="cuda"
    )
    for graphs in ("false", "true"):
        count = partial(count_replays, tmp_path / "replays")
        words = ("pretrain", recipe, "--out", tmp_path / graphs, "--train.cuda_graphs", graphs)
        end = live(*words, mischief=count)
        assert end.status == 0, end.said
        assert (tmp_path / "replays").exists() == (graphs == "true")
    plain, replayed = (
        [[each["loss"], each["norm"]] for each in metrics(tmp_path / graphs) if "loss" in each]
        for graphs in ("false", "true")
    )
    assert len(plain) == 12 and plain[-1][0] < plain[0][0]
    assert torch.tensor(replayed).allclose(torch.tensor(plain), rtol=1e-4)
