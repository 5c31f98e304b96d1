"""Tokens per second in training, beside transformers on the same work in the same run.

    python benchmarks/train_speed.py                  one GPU, bf16, compiled
    python benchmarks/train_speed.py --only gpt       one of mixed, full, gpt, pairs
    python benchmarks/train_speed.py --tiny           small sizes on a CPU, to check that it runs

A step includes everything: batches built from ids on disk, forward, backward, clipping, AdamW.
Padding and filler do not count. Attention dropout is 0 on both sides. transformers pads every text
to the longest; its best way, batches grouped by length, is not measured yet.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from glassformer.config import ModelConfig, TaskConfig
from glassformer.data.batches import PackedRows
from glassformer.data.dataset import Dataset
from glassformer.data.masking import Masking
from glassformer.data.special_tokens import SpecialTokenTemplate
from glassformer.data.store import Meta, Store, Writer
from glassformer.distributed import DistributedContext
from glassformer.objectives.causal_lm import CausalLMDataset
from glassformer.objectives.masked_lm import MaskedLMDataset
from glassformer.objectives.translation import TranslationDataset
from glassformer.presets import PRESETS
from glassformer.recipe.schema import TrainConfig
from glassformer.sizes import measure
from glassformer.tasks import build_task
from glassformer.train.loop import fit, losses_of
from glassformer.train.state import State

SIZES = {"width": 64, "depth": 2, "heads": 4, "mlp_width": 128, "head_width": 16, "value_width": 16,
         "key_heads": 4, "embedding_width": 64}  # fmt: skip


@dataclass
class Work:
    name: str
    config: ModelConfig
    task: TaskConfig
    lengths: np.ndarray
    longest: int
    tokens: int  # in a row
    peer: Callable[[Work], tuple[Any, Iterator[tuple[dict[str, torch.Tensor], int]]]]
    batch: int  # texts in a batch of the peer


def mixed(count: int, longest: int, mean: float = 119.0) -> np.ndarray:
    """Lognormal lengths, like web pages and mails: mean 119, 8 to 512."""
    draw = np.random.default_rng(0)
    lengths = np.exp(draw.normal(np.log(mean) - 0.32, 0.8, count)).astype(int)
    return lengths.clip(min(8, longest), longest)


def works(tiny: bool) -> dict[str, Work]:
    bert, gpt = PRESETS["bert-base-uncased"].model, PRESETS["gpt2"].model
    pairs = PRESETS["transformer-base"].model
    small = {"vocab_size": 512} | SIZES if tiny else {}
    bert, pairs = (c.model_copy(update=small) for c in (bert, pairs))
    gpt = gpt.model_copy(update=small or {"vocab_size": 50_304})
    dropless = gpt.dropout.model_copy(update={"embedding": 0.0, "residual": 0.0})
    gpt = gpt.model_copy(update={"dropout": dropless, "ids": gpt.ids.model_copy(
        update={"start": 0, "end": 0})})  # fmt: skip
    pairs = pairs.model_copy(update={"max_length": 512, "sinusoid": "halves"})
    masked, words = TaskConfig(kind="masked_lm"), TaskConfig(kind="causal_lm", bias=False)
    pair = TaskConfig(kind="translation", bias=False)
    cut = 16 if tiny else 1  # tiny: everything this many times smaller
    # Texts of one length fill each row: another shape would be compiled again.
    many, row = 40_960 // cut**2, 65_536 // cut**2
    return {
        "mixed": Work(
            "BERT-base, masked words, mixed lengths", bert, masked,
            mixed(many, 510 // cut, 119 / cut), 512 // cut, row, bert_peer, 64 // cut,
        ),
        "full": Work(
            "BERT-base, masked words, 128 tokens each", bert, masked,
            np.full(many, 128 // cut - 2), 128 // cut, row, bert_peer, 256 // cut,
        ),
        "gpt": Work(
            "GPT-2, next word, 1,024 tokens each", gpt, words,
            np.full(many // 16, 1024 // cut + 1), 1024 // cut, row, gpt_peer, 32 // cut,
        ),
        "pairs": Work(
            "encoder-decoder base, ragged pairs", pairs, pair,
            mixed(many, 200 // cut, 30.0), 256 // cut, row // 2, pairs_peer, 256 // cut,
        ),
    }  # fmt: skip


def store_of(work: Work, folder: Path) -> Store:
    draw = np.random.default_rng(1)
    vocab = work.config.vocab_size
    two = work.task.kind == "translation"
    writer = Writer(folder, Meta("none", "<u2", ["source", "target"] if two else ["tokens"]))
    for length in work.lengths.tolist():
        ids = draw.integers(5, vocab, length)
        other = draw.integers(5, vocab, max(4, int(length * draw.uniform(0.8, 1.25))))
        writer.add({"source": ids, "target": other[: work.longest - 4]} if two else {"tokens": ids})
    writer.close_shard(done=True)
    return Store(folder)


def objective_of(work: Work, store: Store) -> Dataset:
    vocab = work.config.vocab_size
    forbidden = np.zeros(vocab, dtype=bool)
    forbidden[:5] = True
    if work.task.kind == "masked_lm":
        frame = SpecialTokenTemplate((2,), (3,), (3,), (3,), True)
        masking = Masking(0.15, "token", 4, vocab, forbidden, ~forbidden)
        return MaskedLMDataset(store, frame, work.longest, 0, 0, masking)
    if work.task.kind == "causal_lm":
        return CausalLMDataset(
            store, SpecialTokenTemplate((), (), (), (), False), work.longest, 0, 0
        )
    return TranslationDataset(
        store, SpecialTokenTemplate((), (3,), (3,), (3,), False), work.longest, 0, 0, 0, (3,), 0.1
    )


def flops(work: Work) -> float:
    """FLOPs of a token, forward and backward: products with weights, and attention."""
    c, stacks = work.config, measure(work.config, work.task).per_block
    asked = {"masked_lm": 0.15, "causal_lm": 1.0, "translation": 0.5}[
        work.task.kind
    ]  # share of tokens
    # A token of a pair is either read or written; one that is written also looks at the source.
    blocks = c.depth * sum(stacks.values()) / len(stacks)
    keys = float((work.lengths.astype(float) ** 2).sum() / work.lengths.sum())  # seen by a token
    seen = {"masked_lm": 1.0, "causal_lm": 0.5, "translation": 1.25}[work.task.kind] * keys
    return 6 * (blocks + asked * c.vocab_size * c.width) + 12 * c.depth * c.width * seen


def ours(work: Work, device: str, steps: int, folder: Path) -> tuple[float, dict[str, float]]:
    train = TrainConfig(
        steps=10**6, micro_batch_tokens=work.tokens, workers=4, learning_rate=1e-4,
        precision="bfloat16" if device == "cuda" else "float32", compile=device == "cuda",
    )  # fmt: skip
    torch.manual_seed(0)
    state = State(build_task(work.config, work.task).to(device).train(), train)
    rows = PackedRows(objective_of(work, store_of(work, folder)), budget=work.tokens, fixed=True)
    losses = losses_of(state.task)
    if train.compile:
        losses = torch.compile(losses, fullgraph=True, dynamic=False)
    loop = fit(state, rows, DistributedContext(0, 1, torch.device(device)), losses)
    begin = time.perf_counter()
    for _ in range(3):
        next(loop)
    sync(device)
    compiled = time.perf_counter() - begin
    begin, tokens = time.perf_counter(), 0
    for _ in range(steps):
        tokens += next(loop).tokens
    sync(device)
    seconds = time.perf_counter() - begin
    loop.close()
    memory = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else 0.0
    more = {"compile_s": compiled, "ms": 1e3 * seconds / steps, "GB": memory}
    return tokens / seconds, {name: round(value, 1) for name, value in more.items()}


def peer_speed(work: Work, device: str, steps: int) -> float:
    model, batches = work.peer(work)
    model = model.to(device).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")
    call = torch.compile(model, dynamic=False) if device == "cuda" else model
    tokens, begin = 0, 0.0
    for number in range(3 + steps):
        if number == 3:
            sync(device)
            tokens, begin = 0, time.perf_counter()
        batch, real = next(batches)
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        with torch.autocast(device, torch.bfloat16):
            loss = call(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        tokens += real
    sync(device)
    return tokens / (time.perf_counter() - begin)


def padded(lists: list[np.ndarray], length: int, fill: int = 0) -> torch.Tensor:
    whole = np.full((len(lists), length), fill)
    for row, each in zip(whole, lists, strict=True):
        row[: len(each)] = each
    return torch.from_numpy(whole)


def ragged(work: Work, longest: int) -> Iterator[tuple[list[np.ndarray], int]]:
    draw = np.random.default_rng(2)
    while True:
        lengths = draw.choice(work.lengths, work.batch).clip(max=longest)
        yield [draw.integers(5, work.config.vocab_size, n) for n in lengths], int(lengths.sum())


def bert_peer(work: Work) -> Any:
    c = work.config
    config = transformers.BertConfig(
        vocab_size=c.vocab_size, hidden_size=c.width, num_hidden_layers=c.depth,
        num_attention_heads=c.heads, intermediate_size=c.mlp_width,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip

    def batches() -> Iterator[Any]:
        for texts, real in ragged(work, work.longest):
            ids = padded(texts, work.longest)
            labels = torch.where(torch.rand(ids.shape) < 0.15, ids, -100)
            mask = padded([np.ones(len(t), dtype=int) for t in texts], work.longest)
            full = bool(mask.all())
            batch = {"input_ids": ids, "labels": labels.masked_fill(mask == 0, -100)}
            yield batch if full else batch | {"attention_mask": mask}, real

    return transformers.BertForMaskedLM(config), batches()


def gpt_peer(work: Work) -> Any:
    c = work.config
    config = transformers.GPT2Config(
        vocab_size=c.vocab_size, n_embd=c.width, n_layer=c.depth, n_head=c.heads, attn_pdrop=0.0,
        resid_pdrop=0.0, embd_pdrop=0.0, use_cache=False,
    )  # fmt: skip

    def batches() -> Iterator[Any]:
        for texts, real in ragged(work, work.longest):
            ids = padded(texts, work.longest)
            yield {"input_ids": ids, "labels": ids}, real

    return transformers.GPT2LMHeadModel(config), batches()


def pairs_peer(work: Work) -> Any:
    c = work.config
    config = transformers.MarianConfig(
        vocab_size=c.vocab_size, d_model=c.width, encoder_layers=c.depth, decoder_layers=c.depth,
        encoder_attention_heads=c.heads, decoder_attention_heads=c.heads,
        encoder_ffn_dim=c.mlp_width, decoder_ffn_dim=c.mlp_width, dropout=0.1,
        attention_dropout=0.0, pad_token_id=0,
        decoder_start_token_id=0, eos_token_id=3, use_cache=False, max_position_embeddings=512,
    )  # fmt: skip

    def batches() -> Iterator[Any]:
        source, target = ragged(work, work.longest), ragged(work, work.longest)
        for (a, n), (b, m) in zip(source, target, strict=True):
            ids, goal = padded(a, work.longest), padded(b, work.longest, -100)
            mask = padded([np.ones(len(t), dtype=int) for t in a], work.longest)
            yield {"input_ids": ids, "attention_mask": mask, "labels": goal}, n + m

    return transformers.MarianMTModel(config), batches()


def sync(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=None)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() and not args.tiny else "cpu"
    steps = 2 if args.tiny else args.steps
    where = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {where}")
    for key, work in works(args.tiny).items():
        if args.only and key not in args.only:
            continue
        work.tokens = args.tokens or work.tokens
        torch._dynamo.reset()
        with tempfile.TemporaryDirectory() as folder:
            speed, more = ours(work, device, steps, Path(folder))
        cost = flops(work)
        line = f"{work.name}: {speed:,.0f} tokens/s, {cost / 1e6:,.0f} MFLOP each"
        line += f", {speed * cost / 1e12:,.1f} TFLOP/s ({more})"
        if not args.no_peer:
            torch._dynamo.reset()
            peer = peer_speed(work, device, steps)
            line += f"; transformers {peer:,.0f}; {speed / peer:.2f} times"
        print(line, flush=True)


if __name__ == "__main__":
    main()
