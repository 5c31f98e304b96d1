"""Shards on many hosts, by Ray Data: actors hold the model and write the output themselves."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from functools import cached_property
from typing import Any

from glassformer.bulk.shards import ShardResult, ShardWorker, WorkerSpec
from glassformer.errors import CheckpointError, ConfigError, GlassformerError, InputError

MOST_BLOCKS = 10_000  # Ray keeps a record of each
WATCH = "import sys; sys.stdin.read() or print(sys.argv[1], file=sys.stderr)"
ENDED = (
    "glassformer: --ray: this process was ended from outside; Ray does so when its raylet on this "
    "host has stopped (logs: /tmp/ray/session_latest/logs). Run the same command to resume"
)
KINDS: dict[str, type[GlassformerError]] = {
    kind.__name__: kind for kind in (CheckpointError, ConfigError, InputError)
}


class ShardActor:
    """What Ray calls with the numbers of shards. Only numbers and counts travel: rows are read
    from the input and written to the output on the actor's host."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec

    @cached_property
    def worker(self) -> ShardWorker:
        return ShardWorker(self.spec)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        rows = [self._row(int(number)) for number in batch["item"]]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _row(self, number: int) -> dict[str, Any]:
        """The fields of a `ShardResult`, and the kind and the line of an error: Ray would raise it
        as one of its own, with a traceback."""
        try:
            return {**asdict(self.worker.run(number)), "kind": "", "line": ""}
        except GlassformerError as error:
            failed = ShardResult(number, errors=0, warnings=0, first_warning="")
            return {**asdict(failed), "kind": type(error).__name__, "line": str(error)}


def result_of(row: dict[str, Any]) -> ShardResult:
    """The result in a row of `ShardActor`; raises the error, if it has one."""
    kind, line = row.pop("kind"), row.pop("line")
    if line:
        raise KINDS.get(kind, GlassformerError)(line)
    return ShardResult(**row)


def on_ray(spec: WorkerSpec, numbers: Sequence[int], actors: int) -> Iterator[ShardResult]:
    """The results of these shards. The work of an actor that is lost goes to another one."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send them over the network
    logging.getLogger("ray").setLevel(logging.ERROR)
    import ray
    import ray.data
    import ray.exceptions

    connects = not ray.is_initialized()
    if connects:  # joins the cluster of this host, or starts one of this host only
        try:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # Ray raises many kinds, and Exception itself
            raise _in_one_line("Ray does not start here", error) from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    gpus = 1 if spec.device != "cpu" and ray.cluster_resources().get("GPU") else 0
    blocks = min(len(numbers), MOST_BLOCKS)
    results = ray.data.from_items(list(numbers), override_num_blocks=blocks).map_batches(
        ShardActor, fn_constructor_args=(spec,), batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(actors, blocks)), num_cpus=1, num_gpus=gpus,
    )  # fmt: skip
    try:
        # Ray writes about lost nodes to the standard output, which is for results.
        with message_if_ended(ENDED), redirect_stdout(sys.stderr):
            for row in results.iter_rows():
                yield result_of(row)
            if connects:
                ray.shutdown()
    except ray.exceptions.RayError as error:
        raise _in_one_line("the job has failed", error) from None


@contextmanager
def message_if_ended(message: str) -> Iterator[None]:
    """Another process writes the message if this one ends inside of the block: Ray ends a driver
    whose raylet has stopped from one of its threads, without an exception or a message."""
    command = [sys.executable, "-I", "-S", "-c", WATCH, message]
    watcher = subprocess.Popen(  # noqa: S603 - our own command
        command, stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield
    finally:
        watcher.communicate(b"still here")


def _in_one_line(what: str, error: Exception) -> InputError:
    return InputError(f"--ray: {what}: {' '.join(str(error).split())}")
