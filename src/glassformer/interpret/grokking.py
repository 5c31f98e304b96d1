"""Grokking: a small model of addition modulo p learns the training pairs by heart, then the rule.

The rule that Nanda et al. 2023, "Progress measures for grokking via mechanistic interpretability",
read from the weights is trigonometry: numbers become angles of a few frequencies k, and

    logit(c | a, b) ≈ Σ_k  α_k cos(2πk (a + b − c) / p)

which is largest where c = a + b modulo p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.config import ModelConfig, TaskConfig
from glassformer.interpret.reproduced import ReproducedEffect
from glassformer.interpret.reroute import blocks_of, stacks_of
from glassformer.loaded import Model
from glassformer.model import Batch
from glassformer.model.norm import NoNorm
from glassformer.tasks import build_task

NANDA = "Nanda et al. 2023"
KEY_FREQUENCIES = 5  # of the paper's model


@dataclass(frozen=True)
class Addition:
    """How to train a model of a + b modulo p."""

    modulus: int = 113
    train_share: float = 0.3  # of all pairs
    width: int = 128
    heads: int = 4
    lr: float = 1e-3
    weight_decay: float = 1.0
    steps: int = 25_000  # at most


# The paper's takes minutes on a GPU; a smaller modulus and more pairs, a minute on a CPU.
PAPER = Addition()
SMALL = Addition(modulus=41, train_share=0.6, width=64, lr=3e-3, weight_decay=2.0, steps=2_000)


@dataclass(frozen=True)
class Grokked:
    """What a training run showed."""

    memorized: int | None  # the step at which 99 % of the training pairs are right
    generalized: int | None  # the step at which 99 % of the other pairs are right
    frequencies: list[int]  # of the cosines that the logits consist of, the strongest first
    explained: float  # the share of the variance of the logits that they explain


def build_addition(how: Addition, seed: int = 0) -> Model:
    """One layer without norms; it reads `a b =`."""
    config = ModelConfig(
        family="decoder", vocab_size=how.modulus + 1, width=how.width, depth=1, heads=how.heads,
        mlp_width=4 * how.width, max_length=3, activation="relu", tied=False, final_norm=False,
        attention_bias=False, init_std=1 / math.sqrt(how.width),
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Model(build_task(config, TaskConfig(kind="causal_lm", bias=False)))
    for block in blocks_of(stacks_of(model.task)["decoder"]):
        block.attention_norm, block.mlp_norm = NoNorm(), NoNorm()
    return model


def train_addition(
    model: Model, how: Addition, *, seed: int = 0, every: int = 50,
    on_step: Callable[[int, float, float], None] | None = None,
) -> Grokked:  # fmt: skip
    """Train on a share of the pairs, until all others are right and the logits are cosines.

    Args:
        every: how often the accuracies are measured, in steps
        on_step: called then with the step and the accuracies of the training and the other pairs
    """
    draw, p = torch.Generator().manual_seed(seed), how.modulus
    pairs = torch.randperm(p**2, generator=draw).to(model.device)
    count = round(how.train_share * len(pairs))
    questions = {
        name: (_questions(part, p), _answers(part, p))
        for name, part in (("train", pairs[:count]), ("rest", pairs[count:]))
    }
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=how.lr, weight_decay=how.weight_decay, betas=(0.9, 0.98),
        fused=True,
    )  # fmt: skip
    model.train()
    reached: dict[str, int | None] = dict.fromkeys(questions)
    for step in range(1, how.steps + 1):
        batch, answers = questions["train"]
        loss = F.cross_entropy(model(batch).logits[:, :-1], answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every:
            continue
        right = {name: _accuracy(model, *each) for name, each in questions.items()}
        if on_step is not None:
            on_step(step, right["train"], right["rest"])
        for name, share in right.items():
            if share >= 0.99 and reached[name] is None:
                reached[name] = step
        if reached["rest"] is not None and step >= 1.25 * reached["rest"]:
            break
    model.eval()
    frequencies, explained = cosines(addition_logits(model, how.modulus))
    return Grokked(reached["train"], reached["rest"], frequencies, explained)


@torch.no_grad()
def addition_logits(model: Model, modulus: int) -> Tensor:  # (p, p, p)
    """The logits of each c, for all pairs a, b."""
    pairs = torch.arange(modulus**2, device=model.device)
    logits = model(_questions(pairs, modulus)).logits[:, :modulus]
    return logits.unflatten(0, (modulus, modulus)).float().cpu()


def cosines(logits: Tensor, count: int = KEY_FREQUENCIES) -> tuple[list[int], float]:
    """The frequencies k of the strongest cos(2πk (a + b − c) / p) in the logits (p, p, p).

    Also the share of their variance that these `count` cosines explain.
    """
    p, numbers = len(logits), torch.arange(len(logits))
    centred = logits - logits.mean(-1, keepdim=True)  # the softmax does not see the mean
    answer = (numbers[:, None, None] + numbers[:, None] - numbers) % p  # c = a + b − d
    by_distance = centred.gather(-1, answer).mean((0, 1))  # of d = a + b − c
    amplitudes = 2 / p * torch.fft.rfft(by_distance)[1:].real  # of the cosines
    shares = (amplitudes**2 / 2) / centred.square().mean()
    best = shares.topk(min(count, len(shares)))
    return (best.indices + 1).tolist(), float(best.values.sum())


def _questions(pairs: Tensor, p: int) -> Batch:
    """`a b =` for each pair a · p + b, with logits at the last token."""
    rows = torch.stack([pairs // p, pairs % p, torch.full_like(pairs, p)], 1)
    batch = Batch.of(rows.tolist(), device=rows.device)
    return replace(batch, label_positions=torch.arange(2, rows.numel(), 3, device=rows.device))


def _answers(pairs: Tensor, p: int) -> Tensor:
    return (pairs // p + pairs % p) % p


@torch.no_grad()
def _accuracy(model: Model, questions: Batch, answers: Tensor) -> float:
    best = model(questions).logits[:, :-1].argmax(-1)  # the last token is "="
    return float((best == answers).float().mean())


def grokking(
    how: Addition = SMALL, *, seed: int = 0, device: torch.device | str = "cpu"
) -> list[ReproducedEffect]:
    """Train a model of addition, and see when it is right and what its logits are made of."""
    model = build_addition(how, seed).to(device)
    run = train_addition(model, how, seed=seed)
    first, then = run.memorized, run.generalized
    steps = [f"{step:,}" if step else f"not in {how.steps:,}" for step in (first, then)]
    waves = ", ".join(map(str, run.frequencies))
    return [
        ReproducedEffect(
            effect=f"addition modulo {how.modulus}: steps until 99 % of the training pairs are "
            "right, and of the other pairs",
            paper=NANDA,
            published="modulo 113: the others thousands of steps later",
            ours=" and ".join(steps),
            holds=first is not None and then is not None and then >= 2 * first,
        ),
        ReproducedEffect(
            effect="variance of the logits that five cosines of a + b − c explain",
            paper=NANDA,
            published="modulo 113: the frequencies 14, 35, 41, 42 and 52",
            ours=f"{100 * run.explained:.0f} %, the frequencies {waves}",
            holds=run.explained > 0.5,
        ),
    ]
