"""Input attribution: which words of the text made the model prefer one word to another?

    integrated_gradients   x · ∫ ∂m/∂x(αx) dα          Sundararajan et al. 2017
    gradient_x_input       x · ∂m/∂x                   Shrikumar et al. 2016
    occlusion              m(x) − m(x without it)      Zeiler and Fergus 2014
    value_zeroing          1 − cos of vectors with and without this token's values, layer by layer
                                                       Mohebbi et al. 2023
    attention_rollout      the product of the layers' weights        Abnar and Zuidema 2020

x is a token's vector, m = logit(a) − logit(b), and a word that is left out is the zero vector; its
position stays. The first two add up to m(x) − m(0) if they are complete; the others need not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, InputError
from glassformer.glass.lens import language_model, output_side
from glassformer.glass.measures import rollout
from glassformer.interpret.patching import recorded, streams
from glassformer.interpret.question import Question, ask
from glassformer.interpret.reroute import rerouted
from glassformer.interpret.statistics import rank_correlation
from glassformer.loaded import Model
from glassformer.model.context import Context
from glassformer.tasks import build_task

Method = Literal[
    "integrated_gradients", "gradient_x_input", "occlusion", "value_zeroing", "attention_rollout"
]
Vectors = Mapping[str, Tensor]  # (T, C) of each stack, or (K, T, C) of K texts
ROW = 2048  # tokens of a batch


@dataclass(frozen=True, eq=False)
class InputAttribution:
    """A score for each token that the model read; in an encoder-decoder, of source and target."""

    question: Question
    method: Method
    scores: dict[str, Tensor]  # (T,) of each stack
    difference: float  # m of the text
    baseline: float  # m without any of its words
    steps: int

    @property
    def gap(self) -> float:
        """How far the sum of the scores is from m(x) − m(0), as a share of it: 0 if complete."""
        whole = self.difference - self.baseline
        total = sum(float(scores.sum()) for scores in self.scores.values())
        return abs(total - whole) / max(abs(whole), 1e-12)

    def deletion_curve(self) -> list[float]:
        """m as words are left out one after the other, those with the largest scores first.

        The faster it falls, the better the method knows which words matter.
        """
        order = torch.cat([self.scores[name].cpu() for name in self.scores]).argsort(
            descending=True
        )
        vectors = token_vectors(self.question)
        sizes = [len(each) for each in vectors.values()]
        kept = torch.ones(len(order) + 1, len(order))
        for count in range(1, len(order) + 1):
            kept[count, order[:count]] = 0
        parts = zip(vectors.items(), kept.split(sizes, 1), strict=True)
        texts = {name: x * part.to(x)[:, :, None] for (name, x), part in parts}
        return differences(self.question, texts).tolist()

    def random_weight_control(self, seed: int = 0) -> float:
        """The rank correlation with the scores of the same network with random weights.

        Near 0 if the scores depend on what the model learned (Adebayo et al. 2018).
        """
        model = self.question.model
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            task = build_task(model.config, model.task.spec, device=model.device)
        untrained = Model(task, model.tokenizer).eval()
        asked = replace(self.question, model=untrained, task=language_model(untrained))
        other = attribute_input(asked, self.method, steps=self.steps)
        return rank_correlation(*(torch.cat([*each.scores.values()]) for each in (self, other)))


def input_attribution(
    model: Model, what: Any, answer: str | int | None = None, other: str | int | None = None, *,
    method: Method = "integrated_gradients", position: int | None = None, steps: int = 64,
) -> InputAttribution:  # fmt: skip
    """Score the words of a text.

    Args:
        what: the input of `record`; for a translation model (source, target)
        answer: a word or its token id; the model's best one, if not given
        other: the word to compare with; the second best, if not given
        method: see the top of this module
        position: the token that predicts; the mask of an encoder, the last one of a decoder
        steps: of the integral
    """
    return attribute_input(ask(model, what, answer, other, position=position), method, steps=steps)


def attribute_input(question: Question, method: Method, *, steps: int = 64) -> InputAttribution:
    """The same for a question."""
    if method not in get_args(Method):
        raise ConfigError(f"method = {method!r}: write {', '.join(get_args(Method))}")
    if steps < 1:
        raise ConfigError(f"steps = {steps}: write a whole number from 1 on")
    vectors = token_vectors(question)
    nothing = {name: torch.zeros_like(x)[None] for name, x in vectors.items()}
    baseline = float(differences(question, nothing)[0])
    methods: dict[str, Callable[[], dict[str, Tensor]]] = {
        "integrated_gradients": lambda: _integrated(question, vectors, steps),
        "gradient_x_input": lambda: _gradients(question, vectors, [1.0], [1.0]),
        "occlusion": lambda: _occluded(question, vectors),
        "value_zeroing": lambda: _value_zeroing(question),
        "attention_rollout": lambda: _attention_rollout(question),
    }
    scores = {name: each.detach().cpu() for name, each in methods[method]().items()}
    return InputAttribution(question, method, scores, question.value(), baseline, steps)


@torch.no_grad()
def token_vectors(question: Question) -> dict[str, Tensor]:
    """The vectors of the tokens that each stack reads, before positions are added. (T, C)"""
    tensors = recorded(question, "*.embedding.tokens")
    return {name.partition(".")[0]: x for name, x in tensors.items()}


def differences(question: Question, texts: Vectors) -> Tensor:  # (K,)
    """m of K texts, given by the vectors of their tokens, (K, T, C) for each stack."""
    count = len(next(iter(texts.values())))
    size = max(1, ROW // sum(x.shape[1] for x in texts.values()))
    grad = any(x.requires_grad for x in texts.values())
    parts = []
    with torch.set_grad_enabled(grad):
        for start in range(0, count, size):
            part = {name: x[start : start + size] for name, x in texts.items()}
            number = len(next(iter(part.values())))
            batch = question.copies(number)
            logits = question.task(batch, visitor=_Vectors(question, part)).logits
            parts.append(question.difference(logits))
    return torch.cat(parts)


class _Vectors:
    """A visitor that replaces the vectors of the tokens."""

    def __init__(self, question: Question, texts: Vectors) -> None:
        backbone = question.task.backbone
        self.texts = {getattr(backbone, name).embedding: x for name, x in texts.items()}

    def wants(self, module: nn.Module, name: str) -> bool:
        return False

    def visit(self, module: nn.Module, name: str, value: Tensor) -> Tensor:
        if name == "tokens" and module in self.texts:
            return self.texts[module].flatten(0, 1).to(value.dtype)
        return value


def _integrated(question: Question, vectors: Vectors, steps: int) -> dict[str, Tensor]:
    """Gauss-Legendre quadrature of the gradient along αx, α from 0 to 1."""
    places, weights = np.polynomial.legendre.leggauss(steps)
    return _gradients(question, vectors, ((places + 1) / 2).tolist(), (weights / 2).tolist())


def _gradients(
    question: Question, vectors: Vectors, places: list[float], weights: list[float]
) -> dict[str, Tensor]:
    """x · Σ weight · ∂m/∂x at place · x, one batch of places after the other."""
    sums = {name: torch.zeros_like(x) for name, x in vectors.items()}
    size = max(1, ROW // sum(len(x) for x in vectors.values()))
    for start in range(0, len(places), size):
        here = torch.tensor(places[start : start + size])[:, None, None]
        texts = {name: (here.to(x) * x).requires_grad_() for name, x in vectors.items()}
        value = differences(question, texts)
        factor = torch.tensor(weights[start : start + size]).to(value)
        gradients = torch.autograd.grad((value * factor).sum(), list(texts.values()))
        for name, gradient in zip(texts, gradients, strict=True):
            sums[name] += gradient.sum(0)
    return {name: (sums[name] * x).sum(-1) for name, x in vectors.items()}


@torch.no_grad()
def _occluded(question: Question, vectors: Vectors) -> dict[str, Tensor]:
    scores = {}
    for name, x in vectors.items():
        rest = 1 - torch.eye(len(x)).to(x)  # text k lacks token k
        texts = {other: y.expand(len(x), -1, -1) for other, y in vectors.items()}
        texts[name] = x * rest[:, :, None]
        scores[name] = question.value() - differences(question, texts)
    return scores


@torch.no_grad()
def _attention_rollout(question: Question) -> dict[str, Tensor]:
    """The predicting token's row; of a source, through the mean of the cross attention."""
    kept = recorded(question, "*.weights")

    stack = output_side(question.task)
    own: dict[str, Tensor] = {
        stack: rollout(_named(kept, stack, "attention"))[-1][question.position]
    }
    if not question.source_tokens:
        return own
    cross = _named(kept, stack, "cross").mean((0, 1))[question.position]  # (S,)
    return {"encoder": cross @ rollout(_named(kept, "encoder", "attention"))[-1], **own}


def _named(kept: Mapping[str, Tensor], stack: str, part: str) -> Tensor:  # (L, H, T, S)
    names = [name for name in kept if name.startswith(stack) and f".{part}." in name]
    return torch.stack([kept[name] for name in names])


@torch.no_grad()
def _value_zeroing(question: Question) -> dict[str, Tensor]:
    """Row i of layer l: how much token i's vector turns without the values of each token j."""
    if question.source_tokens:
        raise InputError(
            "value_zeroing: it is for models of one stack: use integrated_gradients or occlusion"
        )
    stack = output_side(question.task)
    body = getattr(question.task.backbone, stack)
    layers, base = [], streams(question)[stack]

    def computed(x: Tensor, ctx: Context) -> Tensor:
        for layer, block in enumerate(body.blocks):
            here = replace(ctx, visitor=_ZeroValues(block.attention))
            out = block(base[layer].repeat(len(base[layer]), 1), body.at(layer, here))
            out = out.unflatten(0, (len(base[layer]), -1))  # (without j, i, C)
            turned = 1 - torch.cosine_similarity(out, base[layer + 1], dim=-1)
            layers.append(turned.T.clamp(min=0))  # (i, j)
        return x

    rerouted(question.task, {stack: computed})(question.copies(len(question.tokens)))
    product = torch.eye(len(question.tokens)).to(layers[0])
    for layer in layers:
        product = layer / layer.sum(-1, keepdim=True).clamp(min=1e-12) @ product
    return {stack: product[question.position]}


class _ZeroValues:
    """A visitor of T texts: in text j the values of token j are zero."""

    def __init__(self, attention: nn.Module) -> None:
        self.attention = attention

    def wants(self, module: nn.Module, name: str) -> bool:
        return False

    def visit(self, module: nn.Module, name: str, value: Tensor) -> Tensor:
        if module is not self.attention or name != "v":
            return value
        length = int(len(value) ** 0.5)
        rest = 1 - torch.eye(length).to(value)
        zeroed: Tensor = value.unflatten(0, (length, length)) * rest[:, :, None, None]
        return zeroed.flatten(0, 1)
