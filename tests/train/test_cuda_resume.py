"""On a GPU with deterministic = true: a run that was killed ends with the same bits."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
from harness import at_step, live, result, signal_self, write_recipe

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # one who asks CUDA cannot fork
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["decoder", "encoder", "seq2seq"])
def test_killed_and_taken_up_again(family: str, precision: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, family, precision=precision, deterministic=True, device="cuda")
    kill = partial(at_step, 7, partial(signal_self, signal.SIGKILL))
    live("pretrain", recipe, "--out", tmp_path / "cut", mischief=kill)
    for out in ("cut", "whole"):
        end = live("pretrain", recipe, "--out", tmp_path / out)
        assert end.status == 0, end.said
    whole, cut = (result(tmp_path / out) for out in ("whole", "cut"))
    assert [name for name in whole if whole[name] != cut.get(name)] == []
