"""Induction heads: with two layers of attention a model learns to repeat what it read before.

The head of the second layer attends to what came after the same token earlier, which a head of the
first layer moved there. One layer cannot do it. Olsson et al. 2022, "In-context learning and
induction heads".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.config import ModelConfig, TaskConfig
from glassformer.errors import InputError
from glassformer.glass import head_scores
from glassformer.glass.heads import repeated
from glassformer.interpret.reproduced import ReproducedEffect
from glassformer.interpret.reroute import blocks_of, stacks_of
from glassformer.loaded import Model, record
from glassformer.model import Batch, Sequences
from glassformer.tasks import build_task

PAPER = "Olsson et al. 2022"
OnStep = Callable[[int, float], None]  # the number of the step, and its loss
EARLY, LATE = 50, 500  # tokens of a text whose losses are compared
AROUND = 10  # so many tokens before and after them count, too


@dataclass(frozen=True)
class AttentionOnly:
    """The size of a model, and how to train it."""

    vocab_size: int = 48
    width: int = 64
    heads: int = 4
    length: int = 48  # of a text, in tokens
    texts: int = 32  # of a step
    steps: int = 1000
    lr: float = 3e-3  # of AdamW
    matrix_lr: float | None = None  # of Muon for the matrices of attention; None: AdamW for all


SMALL = AttentionOnly()
# For text by the tokenizer of gf-decoder: minutes on a GPU. With AdamW alone, or with eight heads,
# induction heads appear several times later.
TEXT = AttentionOnly(
    vocab_size=6144, width=256, heads=4, length=512, texts=16, steps=6000, matrix_lr=0.05
)


def build_attention_only(how: AttentionOnly, depth: int, seed: int = 0) -> Model:
    """A decoder whose MLPs add nothing."""
    config = ModelConfig(
        family="decoder", vocab_size=how.vocab_size, width=how.width, depth=depth, heads=how.heads,
        mlp_width=1, max_length=how.length, position="rotary", norm_place="pre",
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Model(build_task(config, TaskConfig(kind="causal_lm")))
    for block in blocks_of(stacks_of(model.task)["decoder"]):
        for parameter in block.mlp.parameters():
            parameter.data.zero_()
            parameter.requires_grad_(False)
    return model


def induction(
    *, how: AttentionOnly = SMALL, seed: int = 0, device: torch.device | str = "cpu",
    on_step: OnStep | None = None,
) -> list[ReproducedEffect]:  # fmt: skip
    """Train models of one and two layers on random tokens that repeat after a random time.

    The paper trains on text, as `induction_in_text` does; here repetitions are all there is to
    learn.
    """
    drops, scores = [], []
    for depth in (1, 2):
        model = build_attention_only(how, depth, seed).to(device)
        _train(model, how, seed, lambda draw: repeating(how, how.texts, draw)[0], on_step)
        drops.append(_repeated_loss(model, how))
        scores.append(prefix_matching(model, how))
    return [
        ReproducedEffect(
            effect="loss of repeated tokens minus loss of first ones, one and two layers",
            paper=PAPER,
            published="it falls with two layers",
            ours=f"{drops[0]:.2f} and {drops[1]:.2f} nats",
            holds=drops[1] < drops[0] - 0.4,
        ),
        _prefix_effect(scores),
    ]


def induction_in_text(
    tokens: Tensor, *, how: AttentionOnly = TEXT, seed: int = 0, device: torch.device | str = "cpu",
    on_step: OnStep | None = None,
) -> list[ReproducedEffect]:  # fmt: skip
    """The same on text: the loss around token 500 of a text minus that around token 50.

    Args:
        tokens: the ids of a long text by the tokenizer of gf-decoder; its last twentieth is to
            measure on
    """
    if how.length < LATE + AROUND or len(tokens) < 100 * how.length:
        raise InputError(
            f"the text has {len(tokens):,} tokens: write one of {100 * how.length:,} at least"
        )
    train, valid = tokens[: len(tokens) * 19 // 20], tokens[len(tokens) * 19 // 20 :]
    drops, scores = [], []
    for depth in (1, 2):
        model = build_attention_only(how, depth, seed).to(device)
        _train(model, how, seed, lambda draw: _passages(train, how, how.texts, draw), on_step)
        passages = _passages(valid, how, 64 * how.texts, torch.Generator().manual_seed(1))
        drops.append(_late_loss(model, passages.split(how.texts)))
        scores.append(prefix_matching(model, how))
    return [
        ReproducedEffect(
            effect="loss around token 500 of a text minus loss around token 50, one and two layers",
            paper=PAPER,
            published="about −0.4 nats with two layers and more",
            ours=f"{drops[0]:.2f} and {drops[1]:.2f} nats",
            holds=drops[1] < min(0, drops[0] - 0.05),
        ),
        _prefix_effect(scores),
    ]


def _prefix_effect(scores: list[float]) -> ReproducedEffect:
    return ReproducedEffect(
        effect="prefix matching of the best head, one and two layers",
        paper=PAPER,
        published="appears with two layers, not with one",
        ours=f"{scores[0]:.2f} and {scores[1]:.2f}",
        holds=scores[1] > 0.4 > scores[0],
    )


def repeating(how: AttentionOnly, count: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Texts (count, T) of random tokens that repeat after T / 6 to T / 2, and these periods."""
    periods = torch.randint(how.length // 6, how.length // 2 + 1, (count, 1), generator=draw)
    tokens = torch.rand(count, how.vocab_size, generator=draw).argsort(-1)  # each token once
    return tokens.gather(1, torch.arange(how.length) % periods), periods[:, 0]


def _passages(tokens: Tensor, how: AttentionOnly, count: int, draw: torch.Generator) -> Tensor:
    starts = torch.randint(len(tokens) - how.length, (count, 1), generator=draw)
    return tokens[starts + torch.arange(how.length)]


def _train(
    model: Model, how: AttentionOnly, seed: int, sample: Callable[[torch.Generator], Tensor],
    on_step: OnStep | None,
) -> None:  # fmt: skip
    """A tenth of the steps with a rising learning rate, then a falling one.

    Args:
        sample: draws the texts of a step
    """
    optimizers = _optimizers(model, how)
    schedules = [
        torch.optim.lr_scheduler.OneCycleLR(
            each, each.defaults["lr"], total_steps=how.steps + 1, pct_start=0.1,
            anneal_strategy="linear",
        )
        for each in optimizers
    ]  # fmt: skip
    kind = model.device.type
    model.train()
    draw = torch.Generator().manual_seed(seed)
    for step in range(how.steps):
        texts = sample(draw)
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            loss = _losses(model, texts).mean()
        loss.backward()
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        if on_step is not None:
            on_step(step, float(loss.detach()))
    model.eval()


def _optimizers(model: Model, how: AttentionOnly) -> list[torch.optim.Optimizer]:
    weights = [p for p in model.parameters() if p.requires_grad]
    if how.matrix_lr is None:
        return [torch.optim.AdamW(weights, lr=how.lr, weight_decay=0.01, fused=True)]
    blocks = blocks_of(stacks_of(model.task)["decoder"])
    matrices = [p for block in blocks for p in block.attention.parameters() if p.dim() == 2]
    ids = set(map(id, matrices))
    others = [p for p in weights if id(p) not in ids]
    return [
        torch.optim.AdamW(others, lr=how.lr, weight_decay=0.01, fused=True),
        torch.optim.Muon(matrices, lr=how.matrix_lr, weight_decay=0.01),
    ]


def _losses(model: Model, texts: Tensor) -> Tensor:  # (B, T) → (B, T − 1)
    """The loss of each token but the first."""
    count, length = texts.shape
    sequences = Sequences.of([length] * count, device=model.device)
    row = texts.to(model.device).flatten()
    labels = row.roll(-1)
    labels[length - 1 :: length] = -100  # nothing follows the last token of a text
    losses = F.cross_entropy(model(Batch(row, sequences)).logits, labels, reduction="none")
    by_text: Tensor = losses.unflatten(0, texts.shape)
    return by_text[:, :-1]


@torch.no_grad()
def _late_loss(model: Model, passages: Sequence[Tensor]) -> float:
    """The mean loss around token 500 minus that around token 50."""
    losses = torch.cat([_losses(model, each) for each in passages]).mean(0)
    early, late = (losses[at - AROUND : at + AROUND].mean() for at in (EARLY, LATE))
    return float(late - early)


@torch.no_grad()
def _repeated_loss(model: Model, how: AttentionOnly) -> float:
    """The mean loss of repeated tokens minus that of the others."""
    texts, periods = repeating(how, 64, torch.Generator().manual_seed(1))
    loss = _losses(model, texts).cpu()
    again = torch.arange(1, how.length) > periods[:, None]
    return float(loss[again].mean() - loss[~again].mean())


@torch.no_grad()
def prefix_matching(model: Model, how: AttentionOnly) -> float:
    """The share of its attention that the best head pays to what came after the same token."""
    length = min(25, how.length // 3)
    texts = [repeated(how.vocab_size, length=length, repeats=3, seed=seed) for seed in range(8)]
    traces = [record(model, text, keep="*.weights") for text in texts]
    scores = [head_scores(trace, "decoder")["induction"] for trace in traces]
    return float(torch.stack(scores).mean(0).max())
