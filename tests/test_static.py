"""Rows of a fixed size: a filler text and empty texts change nothing for any task."""

import pytest
import torch

import glassformer as gf
from folders import CONFIGS, KINDS, TASKS
from kit import hot

IDS = [[5, 7, 11], [3, 2, 13, 17, 19]]


@pytest.mark.parametrize("name", [n for n in KINDS if CONFIGS[n].family != "seq2seq"])
def test_empty_texts_and_a_filler_change_nothing(name: str) -> None:
    config = CONFIGS[name]
    task = hot(gf.build_task(config, TASKS[name]), config.width).eval()
    filler = [1] * 4
    tokens = torch.tensor([i for text in [*IDS, filler] for i in text])
    static = gf.Batch(tokens, gf.Sequences.of([3, 5, 4], texts=7, longest=8))
    with torch.no_grad():
        plain, padded = task(gf.Batch.of(IDS)).logits, task(static).logits
    assert torch.isfinite(padded).all()
    assert torch.allclose(padded[: len(plain)], plain, atol=1e-5)
