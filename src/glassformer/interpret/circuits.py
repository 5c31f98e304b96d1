"""Edges and circuits: which connections between heads, MLPs and embeddings make the prediction.

An edge's effect is how m = logit(a) − logit(b) of the clean text changes if the reader v reads what
the writer u wrote on the corrupted text. Its first-order estimate needs one backward pass for all
edges at once, edge attribution patching (Syed et al. 2023):

    effect(u, v) ≈ (c_u − a_u) · ∂m/∂x_v

With integrated gradients (EAP-IG, Hanna et al. 2024, "Have faith in faithfulness") ∂m/∂x_v is the
mean over embeddings between the corrupted and the clean ones. A circuit is the n strongest edges;
its faithfulness is measured by ablating all others, not estimated:

    faithfulness = (m(circuit) − m(corrupted)) / (m(clean) − m(corrupted))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.errors import ConfigError, InputError
from glassformer.interpret.contrast import Contrast, ask_pair
from glassformer.interpret.reroute import stacks_of
from glassformer.interpret.split import Masks, Node, Outputs, SplitPass, StackGraph, graphs
from glassformer.loaded import Model

MEMORY = 8 * 2**30  # bytes that the backward pass of all edges may keep


class Edge(NamedTuple):
    writer: Node
    reader: Node
    effect: float  # of corrupting it, on logit(answer) − logit(other)


@dataclass(frozen=True, eq=False)
class EdgeEffects:
    """The effect of corrupting each edge; 0 where there is none."""

    clean: Contrast
    corrupted: Contrast
    graphs: dict[str, StackGraph]
    effects: dict[str, Tensor]  # (U, R) of each stack
    written: Outputs  # on the corrupted text
    steps: int  # of the integral

    @cached_property
    def edges(self) -> list[Edge]:
        """All edges, the strongest first."""
        edges = [
            Edge(graph.writers[u], graph.readers[r], float(self.effects[name][u, r]))
            for name, graph in self.graphs.items()
            for u, r in graph.possible.nonzero().tolist()
        ]
        return sorted(edges, key=lambda edge: -abs(edge.effect))

    def circuit(self, count: int) -> Circuit:
        """The `count` strongest edges."""
        if not 1 <= count <= len(self.edges):
            raise ConfigError(f"edges = {count}: write a number from 1 to {len(self.edges)}")
        return Circuit(self, self.edges[:count])

    def random_weight_control(self, count: int, seed: int = 0) -> float:
        """The faithfulness, in this model, of the `count` strongest edges of random weights.

        About that of random edges if the effects depend on what the model learned; compare it with
        the faithfulness of `circuit(count)`.
        """
        pair = (each.untrained(seed) for each in (self.clean, self.corrupted))
        control = effects_of(*pair, steps=self.steps).circuit(count)
        return Circuit(self, control.edges).faithfulness

    @torch.no_grad()
    def value(self, edges: Sequence[Edge]) -> float:
        """m of the clean text with all edges but these ablated."""
        masks = {name: torch.zeros_like(graph.possible) for name, graph in self.graphs.items()}
        for edge in edges:
            name, u, r = self._places[edge.writer, edge.reader]
            masks[name][u, r] = True
        return float(SplitPass(self.clean, masks, corrupted=self.written).run())

    @torch.no_grad()
    def measured(self, edge: Edge) -> float:
        """The effect of corrupting this one edge, by a forward pass."""
        masks = {name: torch.ones_like(graph.possible) for name, graph in self.graphs.items()}
        name, u, r = self._places[edge.writer, edge.reader]
        masks[name][u, r] = False
        value = SplitPass(self.clean, masks, corrupted=self.written).run()
        return float(value) - self.clean.value()

    @cached_property
    def _places(self) -> dict[tuple[Node, Node], tuple[str, int, int]]:
        return {
            (writer, reader): (name, u, r)
            for name, graph in self.graphs.items()
            for u, writer in enumerate(graph.writers)
            for r, reader in enumerate(graph.readers)
        }


@dataclass(frozen=True, eq=False)
class Circuit:
    """Some edges of a model."""

    of: EdgeEffects
    edges: list[Edge]

    @property
    def faithfulness(self) -> float:
        """The share of the difference between the texts that is left without all other edges."""
        clean, corrupted = self.of.clean.value(), self.of.corrupted.value()
        if abs(clean - corrupted) < 1e-6:
            raise InputError(
                "the two texts have the same difference of logits: write a corrupted text that "
                "changes the prediction"
            )
        return (self.of.value(self.edges) - corrupted) / (clean - corrupted)

    @property
    def connected(self) -> list[Edge]:
        """The edges on a way from an embedding to the logits; the others change nothing."""
        ahead = _reached({(edge.writer, edge.reader) for edge in self.edges}, "embedding")
        back = _reached({(edge.reader, edge.writer) for edge in self.edges}, "logits")
        return [edge for edge in self.edges if edge.writer in ahead and edge.reader in back]

    def dot(self) -> str:
        """The graph in Graphviz's language."""
        lines = [
            f'  "{edge.writer}" -> "{edge.reader}" [label="{edge.effect:+.2f}"];'
            for edge in self.connected
        ]
        return "\n".join(["digraph circuit {", "  rankdir=BT;", *lines, "}"])


def edge_effects(
    model: Model, clean: Any, corrupted: Any, answer: str | int | None = None,
    other: str | int | None = None, *, position: int | None = None, steps: int = 5,
) -> EdgeEffects:  # fmt: skip
    """Estimate the effect of corrupting each edge of a model, by EAP-IG.

    Args:
        clean: the input of `record`; for a translation model (source, target)
        corrupted: another one with the same number of tokens
        answer: the clean text's word, or its id; the model's best one, if not given
        other: the corrupted text's word; the model's best one there, if not given
        position: the token that predicts; the mask of an encoder, the last one of a decoder
        steps: of the integral; 1 is plain edge attribution patching
    """
    pair = ask_pair(model, clean, corrupted, answer, other, position=position)
    return effects_of(*pair, steps=steps)


def effects_of(clean: Contrast, corrupted: Contrast, *, steps: int = 5) -> EdgeEffects:
    """The same for a contrast of two texts."""
    if steps < 1:
        raise ConfigError(f"steps = {steps}: write a whole number from 1 on")
    _check_memory(clean)
    built, here, there = graphs(clean), written(clean), written(corrupted)
    removed = {name: here[name] - there[name] for name in built}
    sums = {name: torch.zeros(graph.possible.shape) for name, graph in built.items()}
    for step in range(1, steps + 1):
        between = {name: there[name][0] + step / steps * removed[name][0] for name in built}
        for name, gradient in _gradients(clean, built, removed, between).items():
            sums[name] += gradient.cpu().float() / steps
    effects = {name: -sums[name] * graph.possible for name, graph in built.items()}
    return EdgeEffects(clean, corrupted, built, effects, there, steps)


def _check_memory(contrast: Contrast) -> None:
    """InputError if the streams of all readers, kept for the backward pass, are too large."""
    stacks = stacks_of(contrast.task)
    numbers = [
        2 * len(stacks[name].blocks) * len(graph.readers) * len(contrast.side(name))
        for name, graph in graphs(contrast).items()
    ]
    weight = contrast.task.backbone.token_embedding
    size = sum(numbers) * contrast.task.width * weight.element_size()
    if size > MEMORY:
        tokens = int(contrast.length * MEMORY / size)
        raise InputError(
            f"the edges of {contrast.length:,} tokens need about {size / 2**30:.0f} GB of memory: "
            f"write texts of {tokens:,} tokens at most"
        )


@torch.no_grad()
def written(contrast: Contrast) -> Outputs:
    """What each node writes on this text."""
    forward = SplitPass(contrast)
    forward.run()
    return forward.outputs


@torch.enable_grad()
def _gradients(
    contrast: Contrast, built: dict[str, StackGraph], removed: Outputs, embeddings: Outputs
) -> dict[str, Tensor]:
    """∂m/∂mask = (a_u − c_u) · ∂m/∂x_v, for all edges by one backward pass."""
    device = contrast.batch.tokens.device
    masks: Masks = {
        name: torch.ones(graph.possible.shape, device=device, requires_grad=True)
        for name, graph in built.items()
    }
    value = SplitPass(contrast, masks, removed=removed, embeddings=embeddings).run()
    gradients = torch.autograd.grad(value, list(masks.values()))
    return dict(zip(masks, gradients, strict=True))


def _reached(arrows: set[tuple[Node, Node]], kind: str) -> set[Node]:
    """All nodes that the arrows lead to from the nodes of this kind, with those."""
    nodes = {node for arrow in arrows for node in arrow if node.kind == kind}
    while more := {end for start, end in arrows if start in nodes} - nodes:
        nodes |= more
    return nodes
