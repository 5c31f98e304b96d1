"""The host's memory that a sharded checkpoint needs while it is written.

    python benchmarks/checkpoint_memory.py           GPT-2 XL, 1.6 billion float32 weights: 6.2 GB
    python benchmarks/checkpoint_memory.py --tiny    small sizes, to check that it runs

Four processes have a quarter of the weights each, their shard, and write one checkpoint, without an
optimiser's state. First straight from their memory, as a training on CPUs does; then from a copy,
as on GPUs, where the training changes the weights meanwhile. What counts is how far the resident
memory of a process, by the kernel's high-water mark, rises above that before; of the four the one
in which it rises most.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from glassformer.distributed import join
from glassformer.presets import PRESETS
from glassformer.tasks import outline
from glassformer.train.parallel import checkpoint
from glassformer.train.parallel.sharded import ShardedWeights

PROCESSES = 4


def peak() -> int:
    """The most bytes of this process that were resident since `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def write(folder: Path, preset: str) -> None:
    """What each of the processes does."""
    world = join("cpu")
    task = outline(PRESETS[preset].model, PRESETS[preset].task)  # no process has all weights
    weights = ShardedWeights(task, torch.float32, world)
    tensors = {f"master/{name}": torch.ones(p.shape) for name, p in weights.masters.items()}
    shard = sum(tensor.nbytes for tensor in tensors.values())
    for name, copied in (("warm-up", False), ("from the weights", False), ("from a copy", True)):
        checkpoint.in_background = lambda device, copied=copied: copied  # type: ignore[assignment]
        only = dict([*tensors.items()][:1]) if name == "warm-up" else tensors
        world.wait()
        forget_peak()
        before = peak()
        checkpoint.write_sharded(weights, folder / name, only, {}, lambda: None).finish()
        figures = torch.tensor([peak() - before, shard], dtype=torch.int64)
        torch.distributed.all_reduce(figures, torch.distributed.ReduceOp.MAX)
        growth, largest = figures.tolist()
        if world.is_main and name != "warm-up":
            print(
                f"{name}: shard {largest / 1e6:,.0f} MB, resident memory rises by "
                f"{growth / 1e6:,.0f} MB ({growth / largest:.2f} shards)",
                flush=True,
            )
    world.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--folder", type=Path, help="of one of the processes")
    args = parser.parse_args()
    preset = "bert-tiny" if args.tiny else "gpt2-xl"
    if args.folder:
        write(args.folder, preset)
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(PROCESSES), __file__, "--folder", folder]
        subprocess.run(
            [*command, *(["--tiny"] if args.tiny else [])], check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip


if __name__ == "__main__":
    main()
