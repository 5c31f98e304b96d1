"""What a model says, and what it would say if it stopped early.

The logit lens reads every vector on its way as if it were the last: final norm, then the head.
nostalgebraist 2020, "interpreting GPT: the logit lens".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.glass.recorder import modules
from glassformer.glass.stacks import stream, wide
from glassformer.glass.trace import Trace
from glassformer.model import Look
from glassformer.tasks import MaskedLM, NextWord, Tag, Task


@dataclass(frozen=True, eq=False)
class Said:
    """The likeliest words (or labels) at each token, best first."""

    tokens: list[str]  # T
    words: list[list[str]]  # T lists of k
    chances: Tensor  # (T, k)


def says(model: nn.Module, trace: Trace, *, top_k: int = 5) -> Said:
    """What the model says at each token: the word there, the next word, or the token's label."""
    task = _task(model)
    if not isinstance(task, MaskedLM | NextWord | Tag):
        raise InputError(f"a {task.spec.kind} model says nothing at a token: ask the model itself")
    return _best(task, model, trace, trace["logits"], top_k)


@torch.no_grad()
def lens(
    model: nn.Module, trace: Trace, *, top_k: int = 5, inside: bool = False
) -> dict[str, Said]:
    """What the head would say at each point of the stream, by the point's name: see `stream`.

    At the last point it is what the model says. For an encoder that is its head for masked words,
    for a translation model the decoder's.
    """
    task = _task(model)
    if not isinstance(task, MaskedLM | NextWord):
        raise InputError(f"lens: a {task.spec.kind} model has no words to say: open one that has")
    stack = "encoder" if task.backbone.config.family == "encoder" else "decoder"
    norm = modules(model)[stack].norm
    found = {}
    for name, vectors in stream(trace, stack, inside=inside).items():
        x = vectors.to(task.backbone.words)
        x = norm(x, Look()) if isinstance(norm, nn.Module) else x
        found[name] = _best(task, model, trace, task.say(x, Look()), top_k)
    return found


def _best(task: Task, model: nn.Module, trace: Trace, logits: Tensor, top_k: int) -> Said:
    if top_k < 1:
        raise InputError(f"top_k = {top_k}: write a whole number from 1 on")
    chances, ids = wide(logits).softmax(-1).topk(min(top_k, logits.shape[-1]))
    name = _names(task, model)
    words = [[name(i) for i in row] for row in ids.tolist()]
    return Said(trace.tokens, words, chances.cpu())


def _names(task: Task, model: nn.Module) -> Callable[[int], str]:
    tokenizer = getattr(model, "tokenizer", None)
    if isinstance(task, Tag):
        return task.spec.labels.__getitem__
    return str if tokenizer is None else tokenizer.token


def _task(model: nn.Module) -> Task:
    task = getattr(model, "task", model)
    if not isinstance(task, Task):
        raise InputError(f"a {type(model).__name__} has no head of words: open a model folder")
    return task
