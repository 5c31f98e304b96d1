"""Real tokens a second in training, and its peers on the same work in the same run.

    python benchmarks/train_speed.py                  one GPU, bf16, compiled
    python benchmarks/train_speed.py --only gpt       one of mixed, full, gpt, pairs
    python benchmarks/train_speed.py --tiny           small sizes on a CPU: does it run at all?

A step is everything: batches made from ids on disk, forward, backward, clipping, AdamW. Padding and
filler do not count. Attention dropout is 0 on both sides. Every way of using a peer is printed, the
common one first; we compare ourselves with the fastest.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

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
from glassformer.fields import TrainConfig
from glassformer.kernels.compiler import compile_for_training
from glassformer.objectives.causal_lm import CausalLMDataset
from glassformer.objectives.masked_lm import MaskedLMDataset
from glassformer.objectives.translation import TranslationDataset
from glassformer.presets import PRESETS
from glassformer.sizes import measure
from glassformer.tasks import build_task
from glassformer.train.loop import fit, losses_of
from glassformer.train.state import State
from train_speed_peers import WAYS, Texts, speed, sync

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
    batch: int  # texts a peer takes at once in the common way


def mixed(count: int, longest: int, mean: float = 119.0) -> np.ndarray:
    """Lognormal lengths, 8 to 512, mean 119: what web pages and mails look like."""
    draw = np.random.default_rng(0)
    found = np.exp(draw.normal(np.log(mean) - 0.32, 0.8, count)).astype(int)
    return found.clip(min(8, longest), longest)


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
    # Of texts of one length all rows are full: another shape would be compiled again.
    many, row = 40_960 // cut**2, 65_536 // cut**2
    return {
        "mixed": Work(
            "BERT-base, masked words, mixed lengths", bert, masked,
            mixed(many, 510 // cut, 119 / cut), 512 // cut, row, 64 // cut,
        ),
        "full": Work(
            "BERT-base, masked words, 128 tokens each", bert, masked,
            np.full(many, 128 // cut - 2), 128 // cut, row, 256 // cut,
        ),
        "gpt": Work(
            "GPT-2, next word, 1,024 tokens each", gpt, words,
            np.full(many // 16, 1024 // cut + 1), 1024 // cut, row, 32 // cut,
        ),
        "pairs": Work(
            "encoder-decoder base, ragged pairs", pairs, pair,
            mixed(many, 200 // cut, 30.0), 256 // cut, row // 2, 256 // cut,
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
    """Of a token, there and back, on average: products with weights, and attention's own."""
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
        losses = compile_for_training(losses)
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


def texts_of(work: Work) -> Texts:
    """The same lengths for the peers, with the special tokens that ours have."""
    draw = np.random.default_rng(3)
    lengths = work.lengths[:, None] + (2 if work.task.kind == "masked_lm" else 0)
    if work.task.kind == "translation":
        other = np.maximum(4, lengths * draw.uniform(0.8, 1.25, lengths.shape)).astype(int)
        lengths = np.concatenate([lengths, other], 1) + 1
    return Texts(
        lengths.clip(max=work.longest), work.longest, work.config.vocab_size, work.batch,
        work.tokens, work.task.kind == "masked_lm",
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=None)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() and not given.tiny else "cpu"
    steps = 2 if given.tiny else given.steps
    where = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {where}")
    for key, work in works(given.tiny).items():
        if given.only and key not in given.only:
            continue
        work.tokens = given.tokens or work.tokens
        torch._dynamo.reset()
        with tempfile.TemporaryDirectory() as folder:
            own, more = ours(work, device, steps, Path(folder))
        cost = flops(work)
        line = f"{work.name}: {own:,.0f} tokens/s, {cost / 1e6:,.0f} MFLOP each"
        print(f"{line}, {own * cost / 1e12:,.1f} TFLOP/s ({more})", flush=True)
        for way in () if given.no_peer else WAYS[key]:
            peer = speed(way, work.config, texts_of(work), device, steps)
            print(f"    {way.name}: {peer:,.0f}; {own / peer:.2f} times", flush=True)


if __name__ == "__main__":
    main()
