"""Shards on many hosts, by Ray Data: actors hold the model and write the output themselves."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from glassformer.bulk.shards import ShardResult, ShardWorker, WorkerSpec
from glassformer.errors import InputError

MOST_BLOCKS = 10_000  # Ray keeps a record of each


class ShardActor:
    """What Ray calls with the numbers of shards. Only numbers and counts travel: rows are read
    from the input and written to the output on the actor's host."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.worker = ShardWorker(spec)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        results = [asdict(self.worker.run(int(number))) for number in batch["item"]]
        return {name: [each[name] for each in results] for name in results[0]}


def on_ray(spec: WorkerSpec, numbers: Sequence[int], actors: int) -> Iterator[ShardResult]:
    """The results of these shards. The work of an actor that is lost goes to another one."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send them over the network
    logging.getLogger("ray").setLevel(logging.ERROR)
    import ray
    import ray.data

    if not ray.is_initialized():  # joins the cluster of this host, or starts one of this host only
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # Ray raises many kinds, and Exception itself
            reason = " ".join(str(error).split())
            raise InputError(f"--ray: Ray does not start here: {reason}") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    gpus = 1 if spec.device != "cpu" and ray.cluster_resources().get("GPU") else 0
    blocks = min(len(numbers), MOST_BLOCKS)
    results = ray.data.from_items(list(numbers), override_num_blocks=blocks).map_batches(
        ShardActor, fn_constructor_args=(spec,), batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(actors, blocks)), num_cpus=1, num_gpus=gpus,
    )  # fmt: skip
    for row in results.iter_rows():
        yield ShardResult(**row)
