"""Lives of a run, and what can happen to them.

A life is `glassformer pretrain …` in a process of its own, forked from one that has imported torch
already: a fraction of a second each. What a life is to suffer (a kill inside a save, a full disk)
is a function that is called in it before it starts.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from glassformer.train.trainer import Trainer

Mischief = Callable[[], None]
PRELOAD = [
    "glassformer.cli.main", "glassformer.cli.training", "preloaded", "torch._dynamo",
    "torchmetrics.functional", "harness",
]  # fmt: skip
FAMILIES = ("decoder", "encoder", "seq2seq")
TEXT = "the cat sat on a mat and saw one dog run far from its home by the sea"
SMALL = {"width": 16, "depth": 1, "heads": 2, "mlp_width": 16}
PLACES = ("embedding", "attention", "mlp", "residual")  # of dropout
MODELS: dict[str, dict[str, Any]] = {
    "decoder": {"preset": "gpt2"},
    "encoder": {"preset": "bert-tiny"},
    "seq2seq": {"preset": "transformer-base", "sinusoid": "halves", "attention_bias": True},
}
OBJECTIVES = {"decoder": "causal_lm", "encoder": "masked_lm_nsp", "seq2seq": "translation"}


def sentences(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(TEXT.split(), k=draw.randint(2, 5))) + "." for _ in range(count)]


def write_text(path: Path, family: str, documents: int, seed: int) -> None:
    lines = sentences(3 * documents, seed)
    if family == "seq2seq":
        path.write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines))
    else:
        path.write_text("\n\n".join(" ".join(lines[i : i + 3]) for i in range(0, len(lines), 3)))


def write_recipe(
    folder: Path, family: str = "decoder", *, documents: int = 60, valid: int = 0,
    dropout: bool = True, objective: str = "", **train: Any,
) -> Path:  # fmt: skip
    """A recipe for something that learns in no time, and its text.

    With `valid` documents in a file of their own; else some are held out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "text.txt", family, documents, 0)
    if valid:
        write_text(folder / "valid.txt", family, valid, 1)
    settings = {
        "steps": 12, "micro_batch_tokens": 64, "save_every": 2, "evaluate_every": 4, "warmup": 3,
        "learning_rate": 0.01, "device": "cpu", **train,
    }  # fmt: skip
    parts = {
        "data": {
            "train": "text.txt",
            **({"valid": "valid.txt"} if valid else {"valid_fraction": 0.1}),
        },
        "tokenizer": {"kind": "chars"},
        "model": {**MODELS[family], **SMALL},
        "objective": {"kind": objective or OBJECTIVES[family], "length": 32},
        "train": settings,
    }
    text = 'name = "tiny"\n'
    for name, fields in parts.items():
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in fields.items()]
        text += f"\n[{name}]\n" + "".join(lines)
    if not dropout:
        text += "\n[model.dropout]\n" + "".join(f"{place} = 0.0\n" for place in PLACES)
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def session(recipe: Path, out: Path, **changes: str) -> Trainer:
    """The same in this process, ready for its first step."""
    from glassformer.data.run_paths import RunPaths
    from glassformer.distributed import DistributedContext
    from glassformer.recipe.schema import read_recipe
    from glassformer.train.build import Builder

    read = read_recipe(recipe, {f"train.{name}": value for name, value in changes.items()})
    world = DistributedContext(0, 1, torch.device("cpu"))
    return Builder(read, RunPaths(recipe.parent, out, str(recipe))).trainer(world)


# ---------------------------------------------------------------------------------------- lives


@dataclass(frozen=True)
class End:
    """How a life ended: its exit status (-9 if it was killed), what it said, the steps it did."""

    status: int
    said: str
    steps: int


class Life:
    """`glassformer VERB …` in a forked process."""

    def __init__(self, *words: object, mischief: Mischief | None = None) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOAD)
        handle, name = tempfile.mkstemp()
        os.close(handle)
        self.log = Path(name)
        self.ear, mouth = context.Pipe(duplex=False)
        self.steps = 0
        given = ([*map(str, words)], name, mouth, mischief)
        self.process = context.Process(target=_live, args=given)
        self.process.start()
        mouth.close()

    def hear(self) -> bool:
        """Wait for its next step; False if it ended before."""
        try:
            self.ear.recv_bytes()
        except (EOFError, OSError):
            return False
        self.steps += 1
        return True

    def kill(self, number: int = signal.SIGKILL) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid or 0, number)

    def end(self) -> End:
        while self.hear():
            pass
        self.process.join()
        said = self.log.read_text()
        self.log.unlink()
        return End(self.process.exitcode or 0, said, self.steps)


def live(*words: object, mischief: Mischief | None = None) -> End:
    return Life(*words, mischief=mischief).end()


def _live(words: list[str], log: str, mouth: Connection, mischief: Mischief | None) -> None:
    """In the child. Nothing has used torch before."""
    from glassformer.cli.main import main
    from glassformer.train.run_dir import RunDir

    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)  # inside inductor
    torch.set_num_threads(1)
    # All lives are forked with the same random numbers ahead: who uses them must be seen.
    random.seed()
    np.random.seed(random.getrandbits(32))
    torch.manual_seed(random.getrandbits(32))
    handle = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    told = RunDir.log

    def tell(run: RunDir, event: dict[str, Any]) -> None:
        if "loss" in event:
            mouth.send_bytes(b".")
        told(run, event)

    RunDir.log = tell  # type: ignore[method-assign]
    if mischief is not None:
        mischief()
    sys.argv = ["glassformer", *words]
    main()


# ------------------------------------------------------------------------------ what they leave


def result(run: Path) -> dict[str, Any]:
    """All that must be the same: weights, optimiser, facts and the metrics of every step."""
    found: dict[str, Any] = {"metrics": (run / "metrics.jsonl").read_text()}
    for path in sorted([*run.glob("checkpoints/step-*/*"), *run.glob("model/*")]):
        name = str(path.relative_to(run))
        if path.name == "trainer.json":
            found[name] = {**json.loads(path.read_text()), "seconds": 0}
        elif path.suffix == ".safetensors" or path.name == "config.json":
            found[name] = path.read_bytes()
    return found


def damaged(run: Path) -> list[str]:
    from glassformer.checkpoint.folder import verify
    from glassformer.errors import CheckpointError

    wrong = []
    for folder in run.glob("checkpoints/step-*"):
        try:
            verify(folder)
        except CheckpointError as error:
            wrong.append(str(error))
    return wrong


def steps(run: Path) -> tuple[int, int]:
    """The last step of the metrics, and that of the newest checkpoint."""
    logged = run / "metrics.jsonl"
    lines = logged.read_text().splitlines(keepends=True) if logged.exists() else []
    whole = [json.loads(line)["step"] for line in lines if line.endswith("\n")]
    saved = [int(each.name[5:]) for each in run.glob("checkpoints/step-*")]
    return max(whole, default=0), max(saved, default=0)


# ------------------------------------------------------------------------------------- mischief


def at_step(step: int, what: Callable[[], None]) -> None:
    """`what` happens right after this step has been logged."""
    from glassformer.train.run_dir import RunDir

    told = RunDir.log

    def tell(run: RunDir, event: dict[str, Any]) -> None:
        told(run, event)
        if event["step"] == step and "loss" in event:
            what()

    RunDir.log = tell  # type: ignore[method-assign]


def at_step_of(name: str, step: int, what: Callable[[], None]) -> None:
    """As `at_step`, in the run whose folder has this name."""
    from glassformer.train.run_dir import RunDir

    told = RunDir.log

    def tell(run: RunDir, event: dict[str, Any]) -> None:
        told(run, event)
        if run.folder.name == name and event["step"] == step and "loss" in event:
            what()

    RunDir.log = tell  # type: ignore[method-assign]


def signal_self(number: int) -> None:
    os.kill(os.getpid(), number)


class Points:
    """Everything that changes the disk, one after the other.

    `at` is called with the number and the name of each such point before it is done (and, of
    files, once more when half of it is); it may kill the process or raise.
    """

    def __init__(self, at: Callable[[int, str], None]) -> None:
        self.at, self.count = at, 0

    def reach(self, name: str) -> None:
        self.count += 1
        self.at(self.count - 1, name)

    def watch(self) -> None:
        """From now on, in this process."""
        from glassformer.checkpoint import folder

        for home, name in (
            (folder, "save_file"), (os, "fsync"), (os, "unlink"), (os, "rmdir"),
            (Path, "rename"), (Path, "replace"), (Path, "mkdir"), (Path, "write_text"),
        ):  # fmt: skip
            self._wrap(home, name)
        whole, opened = Path.write_bytes, Path.open

        def by_halves(path: Path, data: bytes) -> int:
            self.reach("write_bytes")
            whole(path, data[: len(data) // 2])
            self.reach("half of write_bytes")
            return whole(path, data)

        def to_write(path: Path, mode: str = "r", *given: Any, **options: Any) -> Any:
            if set(mode) & set("wa"):
                self.reach("open")
            return opened(path, mode, *given, **options)

        Path.write_bytes = by_halves  # type: ignore[method-assign]
        Path.open = to_write  # type: ignore[method-assign, assignment]

    def _wrap(self, home: Any, name: str) -> None:
        done = getattr(home, name)

        def first(*args: Any, **options: Any) -> Any:
            self.reach(name)
            return done(*args, **options)

        setattr(home, name, first)


def snapshots(out: Path, folder: Path) -> None:
    """At each point, what a kill would leave there."""

    def at(reached: int, name: str) -> None:
        if out.exists():
            shutil.copytree(out, folder / f"{reached:04d} {name}")

    Points(at).watch()


def die_inside_save(number: int, point: int) -> None:
    """Killed in this life's save `number`, at its point `point`, if there are so many."""
    from glassformer.train.run_dir import RunDir

    save, seen = RunDir.save, [0]
    inside = [False]

    def at(reached: int, name: str) -> None:
        if inside[0] and reached - start[0] == point:
            os.kill(os.getpid(), signal.SIGKILL)

    points, start = Points(at), [0]
    points.watch()

    def counted(run: RunDir, state: Any) -> Path:
        inside[0], start[0] = seen[0] == number, points.count
        seen[0] += 1
        try:
            return save(run, state)
        finally:
            inside[0] = False

    RunDir.save = counted  # type: ignore[method-assign]


def write_naively() -> None:
    """A writer as many have it: straight under the final name."""
    from safetensors.torch import save_file

    from glassformer.checkpoint import folder, load

    def write(path: Path, *, texts: Any, shards: Any, manifest: bool = False) -> None:
        path = Path(path)
        path.mkdir(parents=True, exist_ok=True)
        for name, data in texts.items():
            (path / name).write_bytes(data)
        for name, (tensors, metadata) in shards.items():
            save_file(tensors, path / name, metadata or None)
        if manifest:
            (path / folder.MANIFEST).write_text(json.dumps(folder.digests(path)))

    load.write_folder = write  # type: ignore[assignment]


def naive_and(mischief: Mischief | None) -> None:
    write_naively()
    if mischief is not None:
        mischief()


def fail_at(number: int, error: int) -> None:
    """The write with this number does not succeed: the disk is full, or broken."""

    def at(reached: int, name: str) -> None:
        if reached == number:
            raise OSError(error, os.strerror(error))

    Points(at).watch()
