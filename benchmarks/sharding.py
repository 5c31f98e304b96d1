"""The speed of one process that is sharded (FSDP2 of one rank) beside that of a plain one.

    python benchmarks/sharding.py                 BERT-base and GPT-2 on one GPU, bf16
    python benchmarks/sharding.py --only gpt      one of full, gpt
    python benchmarks/sharding.py --tiny          small sizes on a CPU: does it run at all?

The work is that of train_speed.py: whole steps, from ids on disk to AdamW. Both take the same
batches, in turns, so that other load affects both alike; the speed of each is that of its fastest
turn. Of a sharded model each block is compiled, of a plain one the whole.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from glassformer.data.batches import PackedRows
from glassformer.distributed import DistributedContext, join
from glassformer.fields import TrainConfig
from glassformer.kernels.compiler import compile_for_training
from glassformer.tasks import build_task
from glassformer.train.loop import Step, fit, losses_of
from glassformer.train.parallel.mode import Mode
from glassformer.train.setup import compile_blocks
from glassformer.train.state import State
from train_speed import Work, objective_of, store_of, works
from train_speed_peers import sync


def training(
    work: Work, mode: Mode, world: DistributedContext, folder: Path, *, compiled: bool
) -> Iterator[Step]:
    """The steps of a run that never ends."""
    cuda = world.device.type == "cuda"
    train = TrainConfig(
        steps=10**6, micro_batch_tokens=work.tokens, workers=4, learning_rate=1e-4,
        precision="bfloat16" if cuda else "float32",
    )  # fmt: skip
    torch.manual_seed(0)
    task = build_task(work.config, work.task).to(world.device).train()
    state = State(task, train, mode=mode, world=world)
    rows = PackedRows(objective_of(work, store_of(work, folder)), budget=work.tokens, fixed=True)
    losses = losses_of(state.task)
    if compiled and mode == "sharded":
        compile_blocks(state.task)
    elif compiled:
        losses = compile_for_training(losses)
    return fit(state, rows, world, losses)


def tokens_per_second(steps: Iterator[Step], count: int, device: str) -> float:
    begin, tokens = time.perf_counter(), 0
    for _ in range(count):
        tokens += next(steps).tokens
    sync(device)
    return tokens / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", nargs="*", default=("full", "gpt"))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() and not args.tiny else "cpu"
    turns, steps = (2, 2) if args.tiny else (args.turns, args.steps)
    world = join(device, group=True)
    print(
        f"torch {torch.__version__}, {torch.cuda.get_device_name() if device == 'cuda' else 'CPU'}"
    )
    modes: tuple[Mode, ...] = ("plain", "sharded")
    for key in args.only:
        work = works(args.tiny)[key]
        for compiled in (False,) if args.tiny else (False, True):
            with tempfile.TemporaryDirectory() as folder:
                runs = {
                    mode: training(work, mode, world, Path(folder) / mode, compiled=compiled)
                    for mode in modes
                }
                speeds = dict.fromkeys(modes, 0.0)
                for turn in range(turns + 1):
                    for mode, run in runs.items():
                        speed = tokens_per_second(run, steps, device)
                        if turn:  # the first one warms up
                            speeds[mode] = max(speeds[mode], speed)
                for run in runs.values():
                    run.close()  # type: ignore[attr-defined]
            plain, sharded = speeds["plain"], speeds["sharded"]
            print(
                f"{work.name}, {'compiled' if compiled else 'eager'}: plain {plain:,.0f} tokens/s, "
                f"sharded {sharded:,.0f} ({100 * (sharded / plain - 1):+.1f} %)"
            )
    world.close()


if __name__ == "__main__":
    main()
