"""How time and memory grow: of a training step, and of preparing text.

    python benchmarks/scaling.py                         text: the README, repeated
    python benchmarks/scaling.py --text novels.txt.xz    text of your own, repeated to 1 GB
    python benchmarks/scaling.py --tiny                  small sizes, to check that it runs

Time is the processor time of a forward and backward pass of BERT-mini on a row of 1 to 64 texts of
mixed length, 256 tokens on average, the best of six in turns. (A step also has a fixed cost, which
dominates for a single short text and is not measured here.) Memory is what the row keeps for the
backward pass, counted tensor by tensor. Preparing runs in its own process; its peak memory is that
reported by the system.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from glassformer.data.readers.files import read_lines
from glassformer.model import Batch
from glassformer.presets import PRESETS
from glassformer.tasks import Task, build_task
from glassformer.text.training import tokenizer_files, train_tokenizer

README = Path(__file__).parent.parent / "README.md"
# Of texts; always 256 on average, so that only their number grows.
LENGTHS = {1: (256,), 2: (64, 448), 4: (64, 448, 192, 320)}


def batch_of(texts: int, vocab: int) -> Batch:
    draw = torch.Generator().manual_seed(0)
    sizes = LENGTHS[min(texts, 4)] * max(1, texts // 4)
    ids = [torch.randint(5, vocab, (size,), generator=draw).tolist() for size in sizes]
    batch = Batch.of(ids)
    positions = torch.arange(0, len(batch.tokens), 7)  # every seventh is masked
    return Batch(
        batch.tokens, batch.sequences, labels=batch.tokens[positions], label_positions=positions
    )


def step(task: Task, batch: Batch) -> None:
    task(batch).loss.backward()
    task.zero_grad()


def kept(task: Task, batch: Batch) -> int:
    """Bytes of all tensors kept for the backward pass, without weights."""
    weights = {p.untyped_storage().data_ptr() for p in task.parameters()}
    storages: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = task(batch).loss  # kept, so that no address is used twice
    del loss
    return sum(storages.values())


def grow(tiny: bool) -> None:
    preset = PRESETS["bert-tiny" if tiny else "bert-mini"]
    task = build_task(preset.model, preset.task.model_copy(update={"kind": "masked_lm"})).train()
    batches = {n: batch_of(n, preset.model.vocab_size) for n in ((1, 4) if tiny else
               (1, 2, 4, 8, 16, 32, 64))}  # fmt: skip
    best = dict.fromkeys(batches, float("inf"))
    for _ in range(2 if tiny else 6):  # in turns, so that other load affects all alike
        for texts, batch in batches.items():
            begin = time.process_time()
            step(task, batch)
            best[texts] = min(best[texts], time.process_time() - begin)
    print("texts  tokens µs per token KB per token")
    slow, memory = {}, {}
    for texts, batch in batches.items():
        tokens = len(batch.tokens)
        slow[texts], memory[texts] = 1e6 * best[texts] / tokens, kept(task, batch) / tokens / 1e3
        print(f"{texts:5} {tokens:7,} {slow[texts]:12.1f} {memory[texts]:12.1f}")
    for name, each in (("time", slow), ("memory", memory)):
        spread = max(each.values()) / min(each.values())
        print(f"{name} per token: the maximum is {spread:.2f} times the minimum")


def repeated(source: Path, size: int) -> Iterator[str]:
    """Lines of the source, repeated; each repetition makes other documents."""
    written = turn = 0
    while written < size:
        turn += 1
        for _, line in read_lines(source):
            if line.startswith("# "):
                line = f"\n{line} ({turn})"
            written += len(line.encode()) + 1
            yield line + "\n"
            if written >= size:
                return


def most_memory(process: int) -> int:
    """Peak memory of a process so far. (getrusage would report that of its parent.)"""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def prepare(source: Path, size: int, folder: Path) -> None:
    text = folder / "text.txt"
    with text.open("w") as file:
        file.writelines(repeated(source, size))
    sample = (line for _, line in zip(range(20_000), repeated(source, size), strict=False))
    (folder / "tokenizer").mkdir()
    for name, data in tokenizer_files(train_tokenizer(sample, "bpe", 8_000)).items():
        (folder / "tokenizer" / name).write_bytes(data)
    words = ["data", "prepare", text, "--tokenizer", folder / "tokenizer", "--out", folder / "s"]
    command = [sys.executable, "-m", "glassformer.cli", *map(str, words), "--json"]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, most_memory(process.pid))
            time.sleep(0.05)
        output = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"preparing ended with {process.returncode}")
    facts = json.loads(output)
    seconds = time.perf_counter() - begin
    print(
        f"prepare: {text.stat().st_size / 1e6:,.0f} MB, {facts['documents']:,} documents, "
        f"{facts['tokens']['tokens']:,} tokens in {seconds:,.0f} s "
        f"({text.stat().st_size / 1e6 / seconds:.1f} MB/s), peak memory {peak / 1e6:,.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, default=README)
    parser.add_argument("--size", type=float, default=1e9, help="bytes of text to prepare")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads of {os.cpu_count()}")
    grow(args.tiny)
    with tempfile.TemporaryDirectory() as folder:
        prepare(args.text, int(2e5 if args.tiny else args.size), Path(folder))


if __name__ == "__main__":
    main()
