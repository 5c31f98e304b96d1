"""A forward pass in which every reader of the stream has a stream of its own.

Nodes write to the stream: the embedding, each head, each MLP. Nodes also read it, and so do the
logits. An edge (u, v) says whether v reads what u wrote on this text (1), or what u wrote on the
corrupted text (0). With all edges it is the ordinary forward pass.

    stream of v = Σ_u  a_u + (mask_uv − 1) · (a_u − c_u)      through the norms that lie between

In an encoder-decoder, a head of cross attention reads two streams: the decoder's for its query, and
the encoder's for its keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.interpret.contrast import Contrast
from glassformer.interpret.reroute import Layers, blocks_of, rerouted, stacks_of
from glassformer.model import Attention, Block, Look, Sequences
from glassformer.model.context import Context
from glassformer.model.stack import Stack

NodeKind = Literal["embedding", "head", "cross_head", "mlp", "logits"]


@dataclass(frozen=True, order=True)
class Node:
    """What writes to the stream of a stack, or reads it."""

    stack: str
    layer: int  # -1 for an embedding; for the logits, the number of layers
    kind: NodeKind
    head: int | None = None

    def __str__(self) -> str:
        if self.kind in ("embedding", "logits"):
            return f"{self.stack} {self.kind}" if self.kind == "embedding" else "logits"
        place = f"{self.layer}" if self.head is None else f"{self.layer}.{self.head}"
        return f"{self.stack} {self.kind.replace('_', ' ')} {place}"


@dataclass(frozen=True, eq=False)
class StackGraph:
    """The writers and readers of one stream, in the order of computation."""

    writers: list[Node]
    readers: list[Node]

    @property
    def possible(self) -> Tensor:  # (U, R) bool
        """Which readers come after which writers.

        The heads of one attention read the same stream; parallel heads, the same as their MLP.
        """
        first: dict[tuple[str, int, str], int] = {}
        for number, node in enumerate(self.writers):
            first.setdefault((node.stack, node.layer, node.kind), number)
        limits = [
            min(first.get((v.stack, v.layer, kind), len(self.writers)) for kind in (v.kind, "mlp"))
            for v in self.readers
        ]
        return torch.arange(len(self.writers))[:, None] < torch.tensor(limits)


Masks = Mapping[str, Tensor]  # (U, R) for each stack
Outputs = dict[str, Tensor]  # (U, T, C) for each stack


def graphs(contrast: Contrast) -> dict[str, StackGraph]:
    """The graph of each stack of the model."""
    stacks, built = stacks_of(contrast.task), {}
    for name, body in stacks.items():
        inner = list(_nodes(body, name))
        built[name] = StackGraph([Node(name, -1, "embedding"), *inner], list(inner))
    last = list(built)[-1]
    built[last].readers.append(Node(last, len(stacks[last].blocks), "logits"))
    if len(built) == 2:
        crossing = [node for node in built["decoder"].writers if node.kind == "cross_head"]
        built["encoder"].readers.extend(crossing)
    return built


def _nodes(body: Stack, stack: str) -> Iterator[Node]:
    """The heads and MLPs of a stack, in the order of computation."""
    for layer, block in enumerate(blocks_of(body)):
        heads = [Node(stack, layer, "head", head) for head in range(block.attention.heads)]
        mlp = Node(stack, layer, "mlp")
        yield from [mlp, *heads] if block.parallel else heads
        if block.cross is not None:
            yield from (Node(stack, layer, "cross_head", head) for head in range(block.cross.heads))
        if not block.parallel:
            yield mlp


class SplitPass:
    """One forward pass of a contrast's text.

    Args:
        masks: of each stack's edges; all ones, if not given
        corrupted: what each node wrote on the corrupted text
        removed: a_u − c_u of each node, where it is held fixed; this pass's own, if not given
        embeddings: in the place of the text's own
    """

    def __init__(
        self, contrast: Contrast, masks: Masks | None = None, *, corrupted: Outputs | None = None,
        removed: Outputs | None = None, embeddings: Mapping[str, Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.contrast, self.masks = contrast, masks
        self.corrupted, self.removed, self.embeddings = corrupted, removed, embeddings or {}
        self.written: dict[str, list[Tensor]] = {}
        self.memories = torch.zeros(0)  # (heads of cross attention, S, C)

    def run(self) -> Tensor:
        """logit(answer) − logit(other)."""
        contrast, stacks = self.contrast, stacks_of(self.contrast.task)
        layers: dict[str, Layers] = {
            name: partial(self._layers, name, body) for name, body in stacks.items()
        }
        heads = max(blocks_of(body)[0].attention.heads for body in stacks.values())
        at = torch.tensor([contrast.position], device=contrast.batch.tokens.device)
        batch = replace(contrast.copies(heads), label_positions=at)
        return contrast.difference(rerouted(contrast.task, layers)(batch).logits)[0]

    @property
    def outputs(self) -> Outputs:
        """What each node wrote."""
        return {name: torch.cat(parts) for name, parts in self.written.items()}

    def _layers(self, name: str, body: Stack, x: Tensor, ctx: Context) -> Tensor:
        start = x[: len(self.contrast.side(name))]  # one of the equal texts
        start = self.embeddings.get(name, start)
        self.written[name] = []
        size = len(graphs(self.contrast)[name].readers)
        streams = self._read(name, start[None], start.new_zeros(size, 1, 1))  # (R, T, C)
        for layer, block in enumerate(blocks_of(body)):
            streams = self._block(name, block, streams, body.at(layer, ctx))
        if name == "encoder" and len(self.contrast.source_tokens):
            self.memories = streams if body.norm is None else body.norm(streams, Look())
            return x
        return streams[0]

    def _read(self, name: str, written: Tensor, streams: Tensor) -> Tensor:
        """Σ over nodes that wrote (U, T, C), as each of the last readers reads it: (R, T, C)."""
        first = sum(len(part) for part in self.written[name])
        self.written[name].append(written)
        whole = written.sum(0).expand(len(streams), -1, -1)
        if self.masks is None:
            return whole
        rows = slice(first, first + len(written))
        mask = self.masks[name][rows, -len(streams) :].to(written)  # (U, R)
        if self.removed is not None:
            gone = self.removed[name][rows]
        else:
            assert self.corrupted is not None  # noqa: S101
            gone = written - self.corrupted[name][rows]
        return whole + torch.einsum("ur,utc->rtc", mask - 1, gone)

    def _block(self, name: str, block: Block, streams: Tensor, ctx: Context) -> Tensor:
        if block.parallel:  # the MLP reads what the heads read: it comes first in the graph
            added, rest = self._mlp(name, block, streams)
            heads, rest = self._heads(name, block.attention, block.attention_norm, rest, ctx, False)
            attended = self._read(name, heads, rest) + _bias(block.attention, rest)
            both: Tensor = added[-len(rest) :] + block.attention_out_norm(attended, Look())
            return rest + both
        for part in ("attention", "cross"):
            module, norm = getattr(block, part), getattr(block, f"{part}_norm")
            if module is not None:
                heads, rest = self._heads(name, module, norm, streams, ctx, block.post)
                added = self._read(name, heads, rest) + _bias(module, rest)
                out_norm = getattr(block, f"{part}_out_norm")
                streams = rest + out_norm(added, Look())
                streams = norm(streams, Look()) if block.post else streams
        added, rest = self._mlp(name, block, streams)
        whole: Tensor = block.mlp_norm(rest + added, Look()) if block.post else rest + added
        return whole

    def _mlp(self, name: str, block: Block, streams: Tensor) -> tuple[Tensor, Tensor]:
        """What the MLP adds to the stream of each later reader, and those streams."""
        own, rest = streams[0], streams[1:]
        x = own if block.post else block.mlp_norm(own, Look())
        written = block.mlp(x, Look())[None]
        return block.mlp_out_norm(self._read(name, written, rest), Look()), rest

    def _heads(
        self, name: str, attention: Attention, norm: nn.Module, streams: Tensor, ctx: Context,
        post: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """What each head writes, (H, T, C), and the streams of the later readers.

        Each head reads a stream of its own: a batch of H texts, and of each text one head.
        """
        H, length = attention.heads, streams.shape[1]
        own, rest = streams[:H], streams[H:]
        x = own if post else norm(own, Look())
        seen, texts = _Mixed(attention), ctx.queries.count
        attention(_filled(x, texts), replace(ctx, visitor=seen, **self._memory(attention, texts)))
        mixed = seen.mixed.unflatten(0, (texts, length))[:H]  # (texts, T, heads, D)
        mixed = mixed.diagonal(dim1=0, dim2=2)  # (T, D, H)
        weight = attention.output.weight.unflatten(1, (H, -1))  # (C, H, D)
        return torch.einsum("tdh,chd->htc", mixed, weight), rest

    def _memory(self, attention: Attention, texts: int) -> dict[str, Any]:
        if not attention.cross:
            return {}
        H = attention.heads
        own = self.memories[attention.layer * H : (attention.layer + 1) * H]  # (H, S, C)
        keys = Sequences.of([own.shape[1]] * texts, device=own.device)
        return {"memory": _filled(own, texts), "memory_keys": keys}


class _Mixed:
    """A visitor that keeps what the heads mixed."""

    def __init__(self, attention: Attention) -> None:
        self.attention, self.mixed = attention, torch.zeros(0)

    def wants(self, module: nn.Module, name: str) -> bool:
        return False

    def visit(self, module: nn.Module, name: str, value: Tensor) -> Tensor:
        if module is self.attention and name == "mixed":
            self.mixed = value
        return value


def _filled(x: Tensor, texts: int) -> Tensor:  # (H, T, C) → (texts · T, C)
    """One text for each head, and the first again where another stack has more heads."""
    return torch.cat([x, x[:1].expand(texts - len(x), -1, -1)]).flatten(0, 1)


def _bias(attention: Attention, like: Tensor) -> Tensor | float:
    return 0.0 if attention.output.bias is None else attention.output.bias.to(like)
