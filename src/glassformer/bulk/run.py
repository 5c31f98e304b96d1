"""Run a bulk job: plan it or resume it, compute the missing shards, report progress."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from glassformer.bulk.manifest import (
    ERRORS,
    MANIFEST,
    BulkJob,
    BulkManifest,
    ModelFolders,
    as_json,
    check_same,
    plan,
    read_manifest,
    write_manifest,
)
from glassformer.bulk.processes import shards_in_processes
from glassformer.bulk.shards import ShardResult, ShardWorker, WorkerSpec
from glassformer.bulk.tasks import TASKS
from glassformer.bulk.writers import FORMATS, JSONL, PARQUET
from glassformer.data.readers import arrow
from glassformer.data.readers.files import UTF8, check_encoding
from glassformer.data.remote import fetch, is_address
from glassformer.durable import remove, sweep, writing
from glassformer.errors import ConfigError, InputError, check_device_name, check_installed, counted
from glassformer.pretrained import named
from glassformer.progress import progress_bar
from glassformer.safe_files import kind_of

LOCK = ".lock"


@dataclass(frozen=True)
class BulkSummary:
    """A finished job."""

    output: str
    shards: int
    computed: int  # of them, in this run
    rows: int  # that were written
    errors: int  # rows in the side files, in the folder _errors
    seconds: float  # of this run
    warnings: int  # of this run, such as texts that were truncated
    first_warning: str


def map_files(
    task: str, inputs: str | Path, output: str | Path, *, model: str | Path,
    columns: Sequence[str] = (), format: str | None = None, shard_rows: int | None = None,
    encoding: str = UTF8, device: str = "auto", dtype: str | None = None, processes: int = 1,
    ray: bool = False, progress: bool = False, adapter: str | Path | None = None, **options: Any,
) -> BulkSummary:  # fmt: skip
    """Compute something for each row of a file, or of all files of a folder, however large.

    Each shard of the input has one file in `output`, in the same order, with the rows and their new
    columns. Interrupt it at any time; the same call resumes, and the files are the same, byte for
    byte. Rows that cannot be read are listed in `output/_errors`.

    Args:
        task: embed, classify, tag, translate, generate or tokenize
        inputs: text (one per line), .jsonl, .csv, .tsv or .parquet; a file or a folder, or the
            address of one, such as s3://BUCKET/FOLDER, which is fetched
        output: a folder, which is created
        model: a folder, or a name, as for `load`
        columns: that of the texts in a table; two for pairs of texts
        format: jsonl or parquet (for embed and tokenize); by the name of `output`, if not given
        shard_rows: the rows of a shard; 10,000, or 1,000 to translate and generate, if not given
        encoding: of the input
        device: auto, cpu, cuda or mps
        dtype: what the model computes in; its own precision, if not given
        processes: how many hold the model and compute; each has a GPU of its own, if there are
        ray: let them be actors of a Ray cluster, on any of its hosts
        progress: show a progress bar
        adapter: a folder with an adapter in PEFT's layout, merged into the model's weights
        options: those of the model's call of this name, such as prompt_name of `embed`

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("texts.txt").write_text("A cat sat.\\nA dog ran.\\n")
        >>> summary = gf.map_files("embed", "texts.txt", "vectors", model="gf-encoder")
        >>> summary.rows, [path.name for path in Path("vectors").glob("part-*")]
        (2, ['part-00000.jsonl'])
    """
    address = str(inputs) if is_address(inputs) else None
    source = Path(inputs).absolute() if address is None else fetch(address)
    output = Path(output).absolute()
    weights = ModelFolders(_model_folder(task, model), _adapter_folder(task, adapter))
    _check_device(task, device, ray=ray)
    job = _job(task, output, columns, format, shard_rows, encoding, dtype, options)
    _check_place(source, output, processes)
    if ray:
        check_installed("--ray", "ray", "ray", "pandas", "pyarrow")
    began = time.monotonic()
    with _locked(output):
        manifest = _resumed(output, job, weights, source)
        if manifest is None:
            remove(output / ERRORS)
            manifest = plan(job, weights, source)
            write_manifest(manifest, output)
        spec = WorkerSpec(source, output, weights, device, address=address)
        numbers = manifest.unfinished(output)
        results = _engine(spec, numbers, processes, ray)
        done, warnings, first = 0, 0, ""
        for result in _with_progress(results, manifest, numbers, shown=progress):
            done, warnings = done + 1, warnings + result.warnings
            first = first or result.first_warning
        rows = sum(shard.part.rows for shard in manifest.shards)
        errors = _count_errors(output)
    seconds = time.monotonic() - began
    return BulkSummary(
        str(output), len(manifest.shards), done, rows - errors, errors, seconds, warnings, first
    )


def _resumed(output: Path, job: BulkJob, model: ModelFolders, source: Path) -> BulkManifest | None:
    """The manifest of the job that began in the folder; None if none has written anything."""
    manifest = read_manifest(output)
    if manifest is None:
        return None
    try:
        check_same(manifest, job, model, source, output)
    except ConfigError:
        if len(manifest.unfinished(output)) == len(manifest.shards):
            return None
        raise
    return manifest


def _model_folder(task: str, model: str | Path) -> Path:
    if task not in TASKS:
        raise ConfigError(f"map {task}: write one of {', '.join(TASKS)}")
    here = named(model)
    if task == "tokenize" and here.exists():  # without torch
        return here.absolute()
    from glassformer.checkpoint import find, is_gguf

    return (Path(model) if is_gguf(model) else find(model)).absolute()


def _adapter_folder(task: str, adapter: str | Path | None) -> Path | None:
    if adapter is None:
        return None
    if task == "tokenize":
        raise ConfigError(f"--adapter {adapter}: it does not change token ids: leave it out")
    folder = Path(adapter).absolute()
    if not folder.is_dir():
        raise ConfigError(f"--adapter {adapter}: there is no such folder")
    return folder


def _check_device(task: str, device: str, *, ray: bool) -> None:
    """ConfigError before a worker starts. The hosts of a Ray cluster may have other devices."""
    check_device_name(device, "--device")
    if task != "tokenize" and not ray:  # tokenizing needs neither a device nor torch
        from glassformer.distributed import check_device

        check_device(device, "--device")


def _job(
    task: str, output: Path, columns: Sequence[str], format: str | None, shard_rows: int | None,
    encoding: str, dtype: str | None, options: Mapping[str, Any],
) -> BulkJob:  # fmt: skip
    check_encoding(encoding)
    known = TASKS[task]
    if isinstance(columns, str):
        raise ConfigError(f"columns = {columns!r}: write a list of names")
    most = 2 if known.takes_pairs else 1
    if len(columns) > most:
        many = "one, or two for pairs" if known.takes_pairs else "one"
        raise ConfigError(f"map {task}: {len(columns)} columns of texts: write {many}")
    format = format or (PARQUET if output.suffix.lower() == f".{PARQUET}" else JSONL)
    if format not in FORMATS:
        raise ConfigError(f"format = {format!r}: write {' or '.join(FORMATS)}")
    if format == PARQUET:
        if known.parquet is None:
            raise ConfigError(
                f"map {task}: Parquet holds vectors and ids: write format = {JSONL!r}"
            )
        arrow.check_installed(output)
    rows = known.shard_rows if shard_rows is None else shard_rows
    if rows < 1:
        raise ConfigError(f"shard_rows = {rows}: write at least 1")
    return BulkJob(task, list(columns), encoding, rows, format, dtype, as_json(options))


def _check_place(source: Path, output: Path, processes: int) -> None:
    """ConfigError if the output would be read as input, or is something else already."""
    if processes < 1:
        raise ConfigError(f"processes = {processes}: write at least 1")
    if not source.exists():
        raise InputError(f"File not found: {source}")
    resolved = source.resolve()
    if resolved == output.resolve() or (source.is_dir() and resolved in output.resolve().parents):
        raise ConfigError(f"{output}: this folder is in the input: choose another one")
    kind = kind_of(output)
    if kind not in (None, "a folder"):
        raise ConfigError(f"{output}: this is {kind}: choose a new folder")
    if kind and kind_of(output / MANIFEST) is None:
        others = [path.name for path in output.iterdir() if not path.name.startswith(".")]
        if others:
            raise ConfigError(
                f"{output}: {sorted(others)[0]} is in it, and no job of `map`: choose a new folder"
            )


@contextmanager
def _locked(output: Path) -> Iterator[None]:
    """InputError if another process writes there. What killed ones have left is removed."""
    with writing(output, 0):
        output.mkdir(parents=True, exist_ok=True)
        try:
            # The system releases it when the process ends, however it ends.
            lock = FileLock(output / LOCK, blocking=False).acquire()
        except Timeout:
            raise InputError(f"{output}: another process writes here: wait for it") from None
    with lock:
        for folder in (output, output / ERRORS):
            sweep(folder)
        yield


def _engine(
    spec: WorkerSpec, numbers: Sequence[int], processes: int, ray: bool
) -> Iterator[ShardResult]:
    if not numbers:
        return iter(())
    if ray:
        from glassformer.bulk.ray_cluster import on_ray

        return on_ray(spec, numbers, processes)
    if processes > 1:
        return shards_in_processes(spec, numbers, processes)
    worker = ShardWorker(spec)
    return map(worker.run, numbers)


def _with_progress(
    results: Iterator[ShardResult], manifest: BulkManifest, numbers: Sequence[int], *, shown: bool
) -> Iterator[ShardResult]:
    sizes = [shard.part.rows for shard in manifest.shards]
    total, left = sum(sizes), sum(sizes[number] for number in numbers)
    began, rows, errors = time.monotonic(), 0, 0
    with progress_bar(f"map {manifest.job.task}", total, done=total - left, shown=shown) as advance:
        for result in results:
            rows, errors = rows + sizes[result.number], errors + result.errors
            rate = rows / max(time.monotonic() - began, 1e-9)
            note = f"{rate:,.0f} rows/s" + (f", {counted(errors, 'errors')}" if errors else "")
            advance(sizes[result.number], note)
            yield result


def _count_errors(output: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in (output / ERRORS).glob("*.jsonl"))
