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
from glassformer.glass.lens import output_side
from glassformer.glass.measures import rollout
from glassformer.interpret.contrast import Contrast, ask
from glassformer.interpret.patching import recorded, streams
from glassformer.interpret.reroute import rerouted
from glassformer.interpret.statistics import rank_correlation
from glassformer.loaded import Model
from glassformer.model.context import Context

Method = Literal[
    "integrated_gradients", "gradient_x_input", "occlusion", "value_zeroing", "attention_rollout"
]
Vectors = Mapping[str, Tensor]  # (T, C) of each stack, or (K, T, C) of K texts
ROW = 2048  # tokens of a batch


@dataclass(frozen=True, eq=False)
class InputAttribution:
    """A score for each token that the model read; in an encoder-decoder, of source and target."""

    contrast: Contrast
    method: Method
    scores: dict[str, Tensor]  # (T,) of each stack
    difference: float  # m of the text
    baseline: float  # m without any of its words
    steps: int

    @property
    def gap(self) -> float | None:
        """How far the sum of the scores is from m(x) − m(0), as a share of it: 0 if complete.

        None for rollout and value zeroing, whose scores are shares and not parts of m.
        """
        if self.method in ("attention_rollout", "value_zeroing"):
            return None
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
        kept = torch.ones(len(order) + 1, len(order), dtype=torch.bool)
        for count in range(1, len(order) + 1):
            kept[count, order[:count]] = False
        return kept_differences(self.contrast, token_vectors(self.contrast), kept).tolist()

    def random_weight_control(self, seed: int = 0) -> float:
        """The rank correlation with the scores of the same network with random weights.

        Near 0 if the scores depend on what the model learned (Adebayo et al. 2018). Tokens that a
        decoder reads after the prediction do not count: their scores are 0 for any weights.
        """
        other = attribute_input(self.contrast.untrained(seed), self.method, steps=self.steps)
        return rank_correlation(self._seen_scores, other._seen_scores)

    @property
    def _seen_scores(self) -> Tensor:
        """The scores of all tokens that can change the prediction."""
        end = self.contrast.position + 1
        return torch.cat([x[:end] if n == "decoder" else x for n, x in self.scores.items()])


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


def attribute_input(contrast: Contrast, method: Method, *, steps: int = 64) -> InputAttribution:
    """The same for a contrast."""
    if method not in get_args(Method):
        raise ConfigError(f"method = {method!r}: write {', '.join(get_args(Method))}")
    if steps < 1:
        raise ConfigError(f"steps = {steps}: write a whole number from 1 on")
    vectors = token_vectors(contrast)
    nothing = {name: torch.zeros_like(x)[None] for name, x in vectors.items()}
    baseline = float(differences(contrast, nothing)[0])
    methods: dict[str, Callable[[], dict[str, Tensor]]] = {
        "integrated_gradients": lambda: _integrated(contrast, vectors, steps),
        "gradient_x_input": lambda: _gradients(contrast, vectors, [1.0], [1.0]),
        "occlusion": lambda: _occluded(contrast, vectors),
        "value_zeroing": lambda: _value_zeroing(contrast),
        "attention_rollout": lambda: _attention_rollout(contrast),
    }
    scores = {name: each.detach().cpu() for name, each in methods[method]().items()}
    return InputAttribution(contrast, method, scores, contrast.value(), baseline, steps)


@torch.no_grad()
def token_vectors(contrast: Contrast) -> dict[str, Tensor]:
    """The vectors of the tokens that each stack reads, before positions are added. (T, C)"""
    tensors = recorded(contrast, "*.embedding.tokens")
    return {name.partition(".")[0]: x for name, x in tensors.items()}


def differences(contrast: Contrast, texts: Vectors) -> Tensor:  # (K,)
    """m of K texts, given by the vectors of their tokens, (K, T, C) for each stack."""
    count = len(next(iter(texts.values())))
    size = max(1, ROW // sum(x.shape[1] for x in texts.values()))
    grad = any(x.requires_grad for x in texts.values())
    parts = []
    with torch.set_grad_enabled(grad):
        for start in range(0, count, size):
            part = {name: x[start : start + size] for name, x in texts.items()}
            number = len(next(iter(part.values())))
            batch = contrast.copies(number)
            logits = contrast.task(batch, visitor=_Vectors(contrast, part)).logits
            parts.append(contrast.difference(logits))
    return torch.cat(parts)


@torch.no_grad()
def kept_differences(contrast: Contrast, vectors: Vectors, kept: Tensor) -> Tensor:  # (K,)
    """m of K texts: of each, the tokens of a row of `kept`, (K, T of all stacks), are kept."""
    sizes, parts = [len(x) for x in vectors.values()], []
    for rows in kept.split(max(1, ROW // contrast.length)):
        by_stack = zip(vectors.items(), rows.split(sizes, 1), strict=True)
        texts = {name: x * part.to(x)[:, :, None] for (name, x), part in by_stack}
        parts.append(differences(contrast, texts))
    return torch.cat(parts)


class _Vectors:
    """A visitor that replaces the vectors of the tokens."""

    def __init__(self, contrast: Contrast, texts: Vectors) -> None:
        backbone = contrast.task.backbone
        self.texts = {getattr(backbone, name).embedding: x for name, x in texts.items()}

    def wants(self, module: nn.Module, name: str) -> bool:
        return False

    def visit(self, module: nn.Module, name: str, value: Tensor) -> Tensor:
        if name == "tokens" and module in self.texts:
            return self.texts[module].flatten(0, 1).to(value.dtype)
        return value


def _integrated(contrast: Contrast, vectors: Vectors, steps: int) -> dict[str, Tensor]:
    """Gauss-Legendre quadrature of the gradient along αx, α from 0 to 1."""
    places, weights = np.polynomial.legendre.leggauss(steps)
    return _gradients(contrast, vectors, ((places + 1) / 2).tolist(), (weights / 2).tolist())


def _gradients(
    contrast: Contrast, vectors: Vectors, places: list[float], weights: list[float]
) -> dict[str, Tensor]:
    """x · Σ weight · ∂m/∂x at place · x, one batch of places after the other."""
    sums = {name: torch.zeros_like(x) for name, x in vectors.items()}
    size = max(1, ROW // sum(len(x) for x in vectors.values()))
    for start in range(0, len(places), size):
        here = torch.tensor(places[start : start + size])[:, None, None]
        texts = {name: (here.to(x) * x).requires_grad_() for name, x in vectors.items()}
        value = differences(contrast, texts)
        factor = torch.tensor(weights[start : start + size]).to(value)
        gradients = torch.autograd.grad((value * factor).sum(), list(texts.values()))
        for name, gradient in zip(texts, gradients, strict=True):
            sums[name] += gradient.sum(0)
    return {name: (sums[name] * x).sum(-1) for name, x in vectors.items()}


def _occluded(contrast: Contrast, vectors: Vectors) -> dict[str, Tensor]:
    sizes = [len(x) for x in vectors.values()]
    kept = ~torch.eye(sum(sizes), dtype=torch.bool)  # text k lacks token k
    scores = contrast.value() - kept_differences(contrast, vectors, kept)
    return dict(zip(vectors, scores.split(sizes), strict=True))


@torch.no_grad()
def _attention_rollout(contrast: Contrast) -> dict[str, Tensor]:
    """The predicting token's row; of a source, through the mean of the cross attention."""
    kept = recorded(contrast, "*.weights")

    stack = output_side(contrast.task)
    own: dict[str, Tensor] = {
        stack: rollout(_named(kept, stack, "attention"))[-1][contrast.position]
    }
    if not contrast.source_tokens:
        return own
    cross = _named(kept, stack, "cross").mean((0, 1))[contrast.position]  # (S,)
    return {"encoder": cross @ rollout(_named(kept, "encoder", "attention"))[-1], **own}


def _named(kept: Mapping[str, Tensor], stack: str, part: str) -> Tensor:  # (L, H, T, S)
    names = [name for name in kept if name.startswith(stack) and f".{part}." in name]
    return torch.stack([kept[name] for name in names])


@torch.no_grad()
def _value_zeroing(contrast: Contrast) -> dict[str, Tensor]:
    """Row i of layer l: how much token i's vector turns without the values of each token j."""
    if contrast.source_tokens:
        raise InputError(
            "value_zeroing: it is for models of one stack: use integrated_gradients or occlusion"
        )
    stack, length = output_side(contrast.task), len(contrast.tokens)
    body, base = getattr(contrast.task.backbone, stack), streams(contrast)[stack]
    layers: list[list[Tensor]] = [[] for _ in body.blocks]

    def computed(x: Tensor, ctx: Context) -> Tensor:
        for layer, block in enumerate(body.blocks):
            here = replace(ctx, visitor=_ZeroValues(block.attention, part))
            start = base[layer].to(x.dtype).repeat(len(part), 1)
            out = block(start, body.at(layer, here)).unflatten(0, (len(part), -1)).to(base[layer])
            turned = 1 - torch.cosine_similarity(out, base[layer + 1], dim=-1)  # (without j, i)
            layers[layer].append(turned.T.clamp(min=0))
        return x

    for part in torch.arange(length).split(max(1, ROW // length)):
        rerouted(contrast.task, {stack: computed})(contrast.copies(len(part)))
    product = torch.eye(length).to(base[0])
    for parts in layers:
        layer = torch.cat(parts, 1)  # (i, j)
        product = layer / layer.sum(-1, keepdim=True).clamp(min=1e-12) @ product
    return {stack: product[contrast.position]}


class _ZeroValues:
    """A visitor of some texts: in each, the values of one of the tokens are zero."""

    def __init__(self, attention: nn.Module, tokens: Tensor) -> None:
        self.attention, self.tokens = attention, tokens

    def wants(self, module: nn.Module, name: str) -> bool:
        return False

    def visit(self, module: nn.Module, name: str, value: Tensor) -> Tensor:
        if module is not self.attention or name != "v":
            return value
        texts = value.unflatten(0, (len(self.tokens), -1)).clone()
        texts[torch.arange(len(self.tokens)), self.tokens] = 0
        zeroed: Tensor = texts.flatten(0, 1)
        return zeroed
