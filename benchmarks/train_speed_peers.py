"""The peers of train_speed.py: transformers and a model in the style of nanoGPT.

Each is measured in the way that is common and in every better way we know of. Batches are made
before the clock starts, the optimizer is fused AdamW, and attention goes through torch's SDPA.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import ModelConfig

Batch = dict[str, Tensor]


class Way(NamedTuple):
    """How a peer is used."""

    name: str
    model: Callable[[ModelConfig], nn.Module]
    multiple: int | None = None  # texts of similar length together, padded to a multiple of this
    compiled: bool = False  # for each shape
    dtype: torch.dtype = torch.float32  # of the weights; float32 computes in bfloat16 by autocast


@dataclass
class Texts:
    """What the peers train on."""

    lengths: np.ndarray  # (texts, 1), or (texts, 2) for source and target
    longest: int
    vocab_size: int
    batch: int  # texts at once, in the common way
    budget: int  # tokens at once, padding included, in the better ways
    masked: bool  # a label for 15 % of the tokens only


def speed(way: Way, config: ModelConfig, texts: Texts, device: str, steps: int) -> float:
    """Real tokens a second."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch._dynamo.config.recompile_limit = 64  # else the ninth shape would not be compiled
    model = way.model(config).to(device, way.dtype).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")
    compiled = way.compiled and device == "cuda"
    call = torch.compile(model, dynamic=False) if compiled else model
    batches = list(batches_of(way, texts, steps))
    if device == "cuda":
        batches = [({n: t.pin_memory() for n, t in batch.items()}, n) for batch, n in batches]

    def step(batch: Batch) -> None:
        batch = {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}
        with torch.autocast(device, torch.bfloat16, enabled=way.dtype == torch.float32):
            loss = call(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    shapes = {tuple(t.shape for t in batch.values()): batch for batch, _ in batches}
    for batch in [*shapes.values()] * 2:  # compiles, and gets the memory that each shape needs
        step(batch)
    sync(device)
    begin = time.perf_counter()
    for batch, _ in batches:
        step(batch)
    sync(device)
    return sum(real for _, real in batches) / (time.perf_counter() - begin)


def batches_of(way: Way, texts: Texts, steps: int) -> Iterator[tuple[Batch, int]]:
    """`steps` batches or a few more, and the real tokens in each."""
    draw = np.random.default_rng(2)
    if way.multiple is None:
        for _ in range(steps):
            lengths = texts.lengths[draw.integers(0, len(texts.lengths), texts.batch)]
            widths = [texts.longest] * lengths.shape[1]
            yield batch_of(lengths, widths, texts, draw), int(lengths.sum())
        return
    count = int(steps * texts.budget / texts.lengths.max(1).mean())
    lengths = texts.lengths[draw.integers(0, len(texts.lengths), count)]
    widths = np.minimum(-(-lengths // way.multiple) * way.multiple, texts.longest)
    if way.compiled:  # source and target alike: fewer shapes to compile
        widths = np.broadcast_to(widths.max(1, keepdims=True), widths.shape)
    groups = grouped_by_shape if way.compiled else sorted_by_length
    parts = groups(widths, texts.budget)
    for number in draw.permutation(len(parts)):
        chosen = parts[number]
        shape = widths[chosen].max(0).tolist()
        yield batch_of(lengths[chosen], shape, texts, draw), int(lengths[chosen].sum())


def grouped_by_shape(widths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Few shapes, each with as many texts as the budget allows."""
    parts = []
    for width in np.unique(widths, axis=0):
        members = np.flatnonzero((widths == width).all(1))
        size = budget // int(width.max())
        parts += [members[i : i + size] for i in range(0, len(members) - size + 1, size)]
    return parts


def sorted_by_length(widths: np.ndarray, budget: int) -> list[np.ndarray]:
    """As little padding as possible; every batch may have a shape of its own."""
    order = np.lexsort((*widths.T, widths.max(1)))
    parts, first = [], 0
    for last in range(len(order)):  # sorted: the last text is the longest
        if (last + 1 - first) * widths[order[last]].max() > budget:
            parts.append(order[first:last])
            first = last
    return [*parts, order[first:]]


def batch_of(
    lengths: np.ndarray, widths: list[int], texts: Texts, draw: np.random.Generator
) -> Batch:
    """Random tokens; a mask only where there is padding."""

    def padded(side: int, fill: int) -> tuple[Tensor, Tensor]:
        ids = torch.from_numpy(draw.integers(5, texts.vocab_size, (len(lengths), widths[side])))
        real = torch.arange(widths[side]) < torch.from_numpy(lengths[:, side, None])
        return ids.where(real, fill), real

    ids, real = padded(0, 0)
    batch = {"input_ids": ids}
    if not real.all():
        batch["attention_mask"] = real.long()
    if lengths.shape[1] == 2:
        batch["labels"] = padded(1, -100)[0]
    elif texts.masked:
        batch["labels"] = ids.where(real & (torch.rand(ids.shape) < 0.15), -100)
    else:
        batch["labels"] = ids
    return batch


def bert(c: ModelConfig) -> nn.Module:
    return transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=c.vocab_size, hidden_size=c.width, num_hidden_layers=c.depth,
            num_attention_heads=c.heads, intermediate_size=c.mlp_width,
            attention_probs_dropout_prob=0.0,
        )
    )  # fmt: skip


def gpt2(c: ModelConfig) -> nn.Module:
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=c.vocab_size, n_embd=c.width, n_layer=c.depth, n_head=c.heads,
            attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0, use_cache=False,
        )
    )  # fmt: skip


def marian(c: ModelConfig) -> nn.Module:
    return transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=c.vocab_size, d_model=c.width, encoder_layers=c.depth,
            decoder_layers=c.depth, encoder_attention_heads=c.heads,
            decoder_attention_heads=c.heads, encoder_ffn_dim=c.mlp_width,
            decoder_ffn_dim=c.mlp_width, dropout=0.1, attention_dropout=0.0, pad_token_id=0,
            decoder_start_token_id=0, eos_token_id=3, use_cache=False, max_position_embeddings=512,
        )
    )  # fmt: skip


class Loss(NamedTuple):
    loss: Tensor


class NanoGPT(nn.Module):
    """GPT-2 as nanoGPT writes it: one product for q, k and v, no biases, SDPA, tied weights."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(c.vocab_size, c.width), nn.Embedding(1024, c.width)
        self.blocks = nn.ModuleList(NanoBlock(c) for _ in range(c.depth))
        self.norm = nn.LayerNorm(c.width, bias=False)
        self.head = nn.Linear(c.width, c.vocab_size, bias=False)
        nn.init.normal_(self.token.weight, std=0.02)
        self.head.weight = self.token.weight

    def forward(self, input_ids: Tensor, labels: Tensor) -> Loss:
        x = self.token(input_ids) + self.position.weight[: input_ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return Loss(F.cross_entropy(logits.flatten(0, 1), labels.flatten()))


class NanoBlock(nn.Module):
    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.heads = c.heads
        self.first, self.second = (nn.LayerNorm(c.width, bias=False) for _ in range(2))
        self.qkv = nn.Linear(c.width, 3 * c.width, bias=False)
        self.output = nn.Linear(c.width, c.width, bias=False)
        self.up = nn.Linear(c.width, c.mlp_width, bias=False)
        self.down = nn.Linear(c.mlp_width, c.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*qkv, is_causal=True)  # (B, H, T, D)
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))


def sync(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


# The first way of each is the common one. Where all texts fill the maximum, there is only that.
WAYS = {
    "mixed": (
        Way("transformers, padded to the maximum, compiled", bert, None, True),
        Way("transformers, sorted by length", bert, 8),
        Way("transformers, sorted by length, bf16 weights", bert, 8, False, torch.bfloat16),
        Way("transformers, grouped in multiples of 64, compiled for each shape", bert, 64, True),
    ),
    "full": (Way("transformers, compiled", bert, 64, True),),
    "gpt": (
        Way("transformers, compiled", gpt2, 64, True),
        Way("nanoGPT style, compiled", NanoGPT, 64, True),
    ),
    "pairs": (
        Way("transformers, padded to the maximum, compiled", marian, None, True),
        Way("transformers, sorted by length", marian, 8),
        Way("transformers, sorted by length, bf16 weights", marian, 8, False, torch.bfloat16),
    ),
}
