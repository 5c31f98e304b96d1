"""What a model predicts, and what it would predict if it stopped early.

The logit lens reads every vector of the residual stream as if it were the last: final norm, then
the head.
nostalgebraist 2020, "interpreting GPT: the logit lens".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.glass.recorded import RecordedTensors
from glassformer.glass.recorder import modules
from glassformer.glass.stacks import stream
from glassformer.model import Look
from glassformer.precision import widen
from glassformer.tasks import CausalLM, MaskedLM, Task, TokenClassification


@dataclass(frozen=True, eq=False)
class Prediction:
    """The likeliest words (or labels) at each token, best first."""

    tokens: list[str]  # T
    words: list[list[str]]  # T lists of k
    ids: list[list[int]]  # of these words in the vocabulary, or of these labels
    probabilities: Tensor  # (T, k)


def predictions(model: nn.Module, trace: RecordedTensors, *, top_k: int = 5) -> Prediction:
    """The model's prediction at each token: the word there, the next word, or the token's label.

    Args:
        top_k: how many words or labels, best first
    """
    task = _task(model)
    if not isinstance(task, MaskedLM | CausalLM | TokenClassification):
        raise InputError(
            f"a {task.spec.kind} model predicts nothing per token: call the model itself"
        )
    return _best(task, model, trace.tokens, trace["logits"], top_k)


@torch.no_grad()
def lens(
    model: nn.Module,
    trace: RecordedTensors,
    *,
    top_k: int = 5,
    inside: bool = False,
    at: Sequence[int] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, Prediction]:
    """What the head would predict at each point of the stream, by the point's name: see `stream`.

    At the last point it is the model's own prediction. An encoder needs its head for masked words;
    a translation model's decoder is read.

    Args:
        top_k: how many words, best first
        inside: also between the parts of a block
        at: the numbers of the tokens to read; all, if not given
        on_progress: called before each point with how many are done, and of how many
    """
    task, places = language_model(model), range(len(trace.tokens)) if at is None else at
    tokens = [trace.tokens[i] for i in places]
    points, by_point = stream(trace, output_side(task), inside=inside), {}
    for done, (name, vectors) in enumerate(points.items()):
        if on_progress is not None:
            on_progress(done, len(points))
        logits = stream_logits(task, model, vectors[list(places)])
        by_point[name] = _best(task, model, tokens, logits, top_k)
    return by_point


@dataclass(frozen=True, eq=False)
class Decision:
    """When is the prediction decided? A row for each point of the stream."""

    points: list[str]  # P
    words: list[str]  # T: the model's predictions
    ids: list[int]  # T: of these words in the vocabulary
    probabilities: Tensor  # (P, T) the probability of that word at this point
    distances: Tensor  # (P, T) KL(end ‖ point) in bits: 0 where all probabilities are final


@torch.no_grad()
def decided(
    model: nn.Module,
    trace: RecordedTensors,
    *,
    inside: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> Decision:
    """How near each point of the stream is to the final prediction.

    KL as in Belrose et al. 2023, "Eliciting latent predictions from transformers".

    Args:
        inside: also between the parts of a block
        on_progress: called before each point with how many are done, and of how many
    """
    task = language_model(model)
    points = stream(trace, output_side(task), inside=inside)
    *_, last = points.values()
    end = widen(stream_logits(task, model, last)).log_softmax(-1)  # (T, V)
    words = end.argmax(-1)
    probabilities, distances = [], []
    for done, vectors in enumerate(points.values()):
        if on_progress is not None:
            on_progress(done, len(points))
        here = widen(stream_logits(task, model, vectors)).log_softmax(-1)
        probabilities.append(here.gather(1, words[:, None])[:, 0].exp())
        distances.append((end.exp() * (end - here)).sum(-1).clamp(min=0) / math.log(2))
    name = _names(task, model)
    return Decision(
        points=list(points),
        words=[name(i) for i in words.tolist()],
        ids=words.tolist(),
        probabilities=torch.stack(probabilities).cpu(),
        distances=torch.stack(distances).cpu(),
    )


def language_model(model: nn.Module) -> MaskedLM | CausalLM:
    task = _task(model)
    if not isinstance(task, MaskedLM | CausalLM):
        raise InputError(f"a {task.spec.kind} model has no language model head: load one that has")
    return task


def output_side(task: Task) -> Literal["encoder", "decoder"]:
    """The stack that predicts."""
    return "encoder" if task.backbone.config.family == "encoder" else "decoder"


def stream_logits(task: MaskedLM | CausalLM, model: nn.Module, vectors: Tensor) -> Tensor:
    """The logits of vectors (n, C), as if they came out of the last layer."""
    norm = modules(model)[output_side(task)].norm
    x = vectors.to(task.backbone.token_embedding)
    return task.lm_logits(norm(x, Look()) if isinstance(norm, nn.Module) else x, Look())


def _best(
    task: Task, model: nn.Module, tokens: list[str], logits: Tensor, top_k: int
) -> Prediction:
    if top_k < 1:
        raise InputError(f"top_k = {top_k}: write a whole number from 1 on")
    probabilities, ids = widen(logits).softmax(-1).topk(min(top_k, logits.shape[-1]))
    name = _names(task, model)
    words = [[name(i) for i in row] for row in ids.tolist()]
    return Prediction(tokens, words, ids.tolist(), probabilities.cpu())


def _names(task: Task, model: nn.Module) -> Callable[[int], str]:
    tokenizer = getattr(model, "tokenizer", None)
    if isinstance(task, TokenClassification):
        return task.spec.labels.__getitem__
    return str if tokenizer is None else tokenizer.readable


def _task(model: nn.Module) -> Task:
    task = getattr(model, "task", model)
    if not isinstance(task, Task):
        raise InputError(
            f"a {type(model).__name__} is not a glassformer model: use one from glassformer.load"
        )
    return task
