"""How a model represents positions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.glass.recorder import modules
from glassformer.glass.stacks import StackName
from glassformer.loaded import Model
from glassformer.model import Look, Sequences
from glassformer.model.position import relative_bucket, sinusoid
from glassformer.model.stack import Distances, Relative, Stack
from glassformer.precision import widen
from glassformer.studio.page_schemas import PositionKind, PositionTable

MAX_SHOWN = 100  # positions, and entries of each
MAX_DISTANCE = 40  # of relative positions


def lecture_positions() -> PositionTable:
    """The lecture's sinusoids: 100 positions, 100 numbers each."""
    return _table("sinusoidal", sinusoid(MAX_SHOWN, MAX_SHOWN))


def model_positions(model: Model, stack: StackName) -> PositionTable:
    """The positions of a model's stack; raises InputError if it has no such stack."""
    module = modules(model).get("encoder" if stack == "encoder" else "decoder")
    if not isinstance(module, Stack):
        raise InputError(f"stack = {stack!r}: this model has none")
    embedding = module.embedding
    if embedding.wave is not None:
        return _table("sinusoidal", embedding.wave)
    if embedding.position is not None:
        return _table("learned", embedding.position.weight[embedding.offset :])
    if module.turns is not None:
        cos, sin = module.turns[:, :MAX_SHOWN]
        return _table("rotary", cos, torch.cat([cos, sin], -1))
    for relative in (module.relative, *(module.relative_layers or ())):  # the first layer's
        if isinstance(relative, Relative):
            return _distances(relative)
    if module.distances is not None:
        return _distance_vectors(module.distances)
    return PositionTable(kind="none", first=0, columns=[], values=[], similar=[], buckets=[])


def _table(kind: PositionKind, values: Tensor, vectors: Tensor | None = None) -> PositionTable:
    """A vector for each position. `vectors` are compared if they are longer than `values`."""
    values = widen(values[:MAX_SHOWN].detach()).cpu()
    vectors = values if vectors is None else widen(vectors).cpu()
    return PositionTable(
        kind=kind,
        first=0,
        columns=[str(i) for i in range(min(MAX_SHOWN, values.shape[1]))],
        values=values[:, :MAX_SHOWN].tolist(),
        similar=F.cosine_similarity(vectors[:, None], vectors[None], dim=-1).tolist(),
        buckets=[],
    )


@torch.no_grad()
def _distance_vectors(distances: Distances) -> PositionTable:
    """DeBERTa has a vector for each distance from query to key."""
    vectors, rows = distances(Sequences.of([MAX_DISTANCE + 1]), Look())
    chosen = torch.cat([rows[-1, :-1], rows[0]])  # of the keys before a query, and after it
    table = _table("disentangled", vectors[chosen])
    return table.model_copy(update={"first": -MAX_DISTANCE, "buckets": chosen.tolist()})


@torch.no_grad()
def _distances(relative: Relative) -> PositionTable:
    """T5 adds a bias to each score that depends on the distance from query to key."""
    both = Sequences.of([MAX_DISTANCE + 1])
    bias = widen(relative(both, both))[0].cpu()  # (H, T, S)
    values = torch.cat([bias[:, -1, :-1], bias[:, 0]], 1)  # (H, 2 · MAX_DISTANCE + 1)
    buckets = relative_bucket(
        torch.arange(-MAX_DISTANCE, MAX_DISTANCE + 1),
        both_sides=not relative.causal,
        buckets=relative.buckets,
        furthest=relative.furthest,
    )
    return PositionTable(
        kind="relative",
        first=-MAX_DISTANCE,
        columns=[str(head) for head in range(len(bias))],
        values=values.T.tolist(),
        similar=[],
        buckets=buckets.tolist(),
    )
