"""Published effects, on models that are here or trained in a minute, beside the papers' figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.config import ModelConfig, TaskConfig
from glassformer.errors import ConfigError
from glassformer.glass import head_scores, heads_off
from glassformer.interpret.gpt2_effects import greater_than, indirect_objects
from glassformer.interpret.reproduced import ReproducedEffect
from glassformer.interpret.reroute import blocks_of, stacks_of
from glassformer.loaded import Model, load, record
from glassformer.model import Batch
from glassformer.tasks import build_task

TEXTS = (
    "The old man walked slowly down the road because his leg hurt.",
    "She opened the door and saw that the garden was full of snow.",
    "In the evening they sat by the fire and told each other stories.",
    "The river was wide, and nobody knew how deep it was.",
)
MASKED = (
    "The old [MASK] walked slowly down the road.",
    "She opened the [MASK] and saw the garden.",
    "In the evening they sat by the [MASK] and told stories.",
    "The river was wide, and nobody [MASK] how deep it was.",
)


def neighbour_heads() -> list[ReproducedEffect]:
    """Heads of gf-encoder that attend to the previous or to the next token."""
    model, sums = load("gf-encoder"), dict.fromkeys(("previous", "next"), torch.zeros(()))
    for text in TEXTS:
        scores = head_scores(record(model, text, keep="*.weights"), "encoder")
        sums = {kind: total + scores[kind] / len(TEXTS) for kind, total in sums.items()}
    published = {"previous": "4 of 144 heads above 0.5", "next": "5 of 144 heads above 0.5"}
    return [
        ReproducedEffect(
            effect=f"heads that attend to the {kind} token",
            paper="Clark et al. 2019",
            published=published[kind],
            ours=f"{int((scores > 0.5).sum())} of {scores.numel()} heads above 0.5, the best "
            f"{float(scores.max()):.2f}",
            holds=bool((scores > 0.5).any()),
        )
        for kind, scores in sums.items()
    ]


def permuted_attention(seed: int = 0) -> list[ReproducedEffect]:
    """How far predictions move if the weights of every head are permuted, and without any head."""
    model, draw = load("gf-encoder"), torch.Generator().manual_seed(seed)

    def permuted(weights: Tensor) -> Tensor:  # (H, T, S)
        return weights[..., torch.randperm(weights.shape[-1], generator=draw)]

    moved: dict[str, list[float]] = {"permuted": [], "removed": []}
    for text in MASKED:
        trace = record(model, text)
        place = trace.tokens.index("[MASK]")
        layers, heads = model.config.depth, model.config.heads
        everything = [("encoder", i, j) for i in range(layers) for j in range(heads)]
        edits: dict[str, Any] = {
            "permuted": {"*.attention.weights": permuted},
            "removed": heads_off(trace, everything),
        }
        before = trace["logits"][place].softmax(-1)
        for name, edit in edits.items():
            after = record(model, text, keep="logits", edit=edit)["logits"][place].softmax(-1)
            moved[name].append(float((before - after).abs().sum() / 2))
    means = {name: sum(values) / len(values) for name, values in moved.items()}
    return [
        ReproducedEffect(
            effect="total variation of predictions, attention permuted",
            paper="Jain and Wallace 2019",
            published="near 0 for many texts of one attention layer over an RNN",
            ours=f"{means['permuted']:.2f}; with all heads removed {means['removed']:.2f}",
            holds=means["permuted"] < 0.1,
        )
    ]


def induction(
    *, steps: int = 1500, seed: int = 0, on_step: Callable[[int], None] | None = None
) -> list[ReproducedEffect]:
    """Attention-only models of one and two layers on random tokens that repeat after a random time.

    The paper trains on text; here the repetitions are all there is to learn.
    """
    figures = {}
    for depth in (1, 2):
        model = _attention_only(depth, seed)
        _train(model, steps, seed, on_step)
        figures[depth] = _repeated_loss(model), _prefix_score(model)
    (one, score_one), (two, score_two) = figures[1], figures[2]
    return [
        ReproducedEffect(
            effect="loss of repeated tokens minus loss of first ones, one and two layers",
            paper="Olsson et al. 2022",
            published="another quantity: about −0.4 nats at token 500 against 50 of a text, with "
            "two layers or more",
            ours=f"{one:.2f} and {two:.2f} nats",
            holds=two < one - 0.4,
        ),
        ReproducedEffect(
            effect="prefix matching of the best head, one and two layers",
            paper="Olsson et al. 2022",
            published="appears with two layers, not with one",
            ours=f"{score_one:.2f} and {score_two:.2f}",
            holds=score_two > 0.4 and score_two > score_one,
        ),
    ]


VOCABULARY, LENGTH = 48, 48


def _attention_only(depth: int, seed: int) -> Model:
    config = ModelConfig(
        family="decoder", vocab_size=VOCABULARY, width=64, depth=depth, heads=4, mlp_width=1,
        max_length=LENGTH, position="rotary", norm_place="pre",
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Model(build_task(config, TaskConfig(kind="causal_lm")))
    for block in blocks_of(stacks_of(model.task)["decoder"]):
        for parameter in block.mlp.parameters():  # an MLP that adds nothing
            parameter.data.zero_()
            parameter.requires_grad_(False)
    return model


def _repeating(count: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Texts (count, LENGTH) of random tokens that begin again after 8 to 24, and these periods."""
    periods = torch.randint(8, 25, (count, 1), generator=draw)
    tokens = torch.rand(count, VOCABULARY, generator=draw).argsort(-1)  # each token once
    places = torch.arange(LENGTH) % periods
    return tokens.gather(1, places), periods[:, 0]


def _train(model: Model, steps: int, seed: int, on_step: Callable[[int], None] | None) -> None:
    draw = torch.Generator().manual_seed(seed)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=3e-3, weight_decay=0.01)
    model.train()
    for step in range(steps):
        texts, _ = _repeating(32, draw)
        logits = model(Batch.of(texts.tolist())).logits.unflatten(0, texts.shape)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), texts[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if on_step is not None:
            on_step(step)
    model.eval()


@torch.no_grad()
def _repeated_loss(model: Model) -> float:
    """The mean loss of repeated tokens minus that of the others."""
    texts, periods = _repeating(64, torch.Generator().manual_seed(1))
    logits = model(Batch.of(texts.tolist())).logits.unflatten(0, texts.shape)
    loss = F.cross_entropy(logits[:, :-1].transpose(1, 2), texts[:, 1:], reduction="none")
    again = torch.arange(1, LENGTH) > periods[:, None]
    return float(loss[again].mean() - loss[~again].mean())


@torch.no_grad()
def _prefix_score(model: Model) -> float:
    texts, _ = _repeating(8, torch.Generator().manual_seed(2))
    rows = [record(model, text, keep="*.weights") for text in texts.tolist()]
    scores = [head_scores(trace, "decoder")["induction"] for trace in rows]
    return float(torch.stack(scores).mean(0).max())


EFFECTS: dict[str, Callable[[], list[ReproducedEffect]]] = {
    "heads": neighbour_heads,
    "permuted": permuted_attention,
    "induction": induction,
}
GPT2_EFFECTS: dict[str, Callable[[Model], list[ReproducedEffect]]] = {
    "indirect_objects": indirect_objects,
    "greater_than": greater_than,
}


def reproduce(names: Sequence[str], gpt2: Model | None = None) -> list[ReproducedEffect]:
    """The effects of these names, one after the other; some need `gpt2`."""
    for name in names:
        if name not in EFFECTS | GPT2_EFFECTS:
            raise ConfigError(f"effect {name!r}: write {', '.join([*EFFECTS, *GPT2_EFFECTS])}")
    rows: list[ReproducedEffect] = []
    for name in names:
        if name in EFFECTS:
            rows += EFFECTS[name]()
        elif gpt2 is not None:
            rows += GPT2_EFFECTS[name](gpt2)
    return rows
