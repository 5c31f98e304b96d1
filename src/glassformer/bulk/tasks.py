"""What a bulk job computes for texts: one function per task, the same as the calls of a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glassformer.bulk.manifest import ModelFolders
from glassformer.data.table_files import VECTOR, Cells
from glassformer.errors import ConfigError, InputError, shown

if TYPE_CHECKING:
    from glassformer.loaded import Model

PROBE = "a"  # the text that options are tried with
IDS = "ids"


@dataclass(frozen=True)
class ModelSpec:
    """Which model computes, and where."""

    folders: ModelFolders
    device: str  # auto, cpu, cuda or mps
    dtype: str | None
    process: int | None = None  # the number of this process, where several share the GPUs


@dataclass(frozen=True)
class TextFunction:
    """From texts, or pairs of texts, to the new columns of their rows."""

    apply: Callable[[Sequence[Any]], list[Cells]]
    empty: Cells | None = None  # for a row without a text; None: the task takes empty texts


@dataclass(frozen=True)
class BulkTask:
    """One of the tasks of `map_files`."""

    build: Callable[[ModelSpec, Mapping[str, Any], bool], TextFunction]  # True: of pairs
    shard_rows: int  # a shard should take minutes at most: a killed job computes one again
    takes_pairs: bool = False
    parquet: tuple[str, str] | None = None  # the new column of a Parquet file and its numbers' type


def _load(model: ModelSpec) -> Model:
    import torch

    from glassformer.distributed import resolve_device
    from glassformer.loaded import load

    device = resolve_device(model.device, "--device")
    if device.type == "cuda" and model.process is not None:
        device = torch.device("cuda", model.process % torch.cuda.device_count())
    adapter = model.folders.adapter
    loaded = load(model.folders.model, device=device, dtype=model.dtype, adapter=adapter)
    return loaded if adapter is None else loaded.merge_adapter()


def _probe(pairs: bool) -> list[Any]:
    return [(PROBE, PROBE) if pairs else PROBE]


def _keywords(call: Callable[..., Any]) -> set[str]:
    """The options of a model's call, less those that a bulk job decides."""
    parameters = inspect.signature(call).parameters.values()
    names = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    return names - {"adapter", "progress", "to_numpy"}


def _check_options(task: str, options: Mapping[str, Any], known: Collection[str]) -> None:
    for name in options:
        if name not in known:
            instead = f"write one of {', '.join(sorted(known))}" if known else "it has none"
            raise ConfigError(f"map {task}: {shown(name)} is not an option of it: {instead}")


def _embed(model: ModelSpec, options: Mapping[str, Any], pairs: bool) -> TextFunction:
    loaded = _load(model)
    _check_options("embed", options, _keywords(loaded.embed))

    def apply(texts: Sequence[Any]) -> list[Cells]:
        vectors = loaded.embed(texts, **options)
        return [{VECTOR: vector} for vector in vectors.float().cpu().tolist()]

    apply(_probe(pairs))
    return TextFunction(apply, {VECTOR: None})


def _classify(model: ModelSpec, options: Mapping[str, Any], pairs: bool) -> TextFunction:
    loaded = _load(model)
    _check_options("classify", options, _keywords(loaded.classify))

    def apply(texts: Sequence[Any]) -> list[Cells]:
        return [each.cells(loaded.task.spec) for each in loaded.classify(texts, **options)]

    return TextFunction(apply, dict.fromkeys(apply(_probe(pairs))[0]))


def _tag(model: ModelSpec, options: Mapping[str, Any], pairs: bool) -> TextFunction:
    _check_options("tag", options, {"words"})
    loaded, by_spaces = _load(model), options.get("words", False)

    def apply(texts: Sequence[str]) -> list[Cells]:
        tagged = loaded.tag([text.split() for text in texts] if by_spaces else texts)
        return [each.cells() for each in tagged]

    apply([PROBE])
    return TextFunction(apply)


def _translate(model: ModelSpec, options: Mapping[str, Any], pairs: bool) -> TextFunction:
    loaded = _load(model)
    settings = {name: value for name, value in options.items() if name != "scores"}

    def apply(texts: Sequence[str]) -> list[Cells]:
        translations = loaded.translate(texts, **settings)
        return [each.cells(scores=options.get("scores", False)) for each in translations]

    apply([PROBE])
    return TextFunction(apply)


def _generate(model: ModelSpec, options: Mapping[str, Any], pairs: bool) -> TextFunction:
    from glassformer.generate.job import generate, prepare

    loaded = _load(model)
    # Without a seed, each run would sample other texts.
    settings = {"seed": 0, **options}
    count = settings.get("num_return_sequences", 1)

    def job(texts: Sequence[str]) -> Any:
        return prepare(loaded.task, loaded.tokenizer, loaded.origin, list(texts), settings)

    fields = {"generated_text": "text", "stopped": "stopped"}
    fields |= {"logprobs": "logprobs"} if settings.get("logprobs") else {}

    def cells(generations: Sequence[Any]) -> Cells:
        columns = {
            name: [getattr(each, field) for each in generations] for name, field in fields.items()
        }
        return columns if count > 1 else {name: each[0] for name, each in columns.items()}

    def apply(texts: Sequence[str]) -> list[Cells]:
        generations = generate(job(texts))
        return [cells(generations[i : i + count]) for i in range(0, len(generations), count)]

    job([PROBE])
    return TextFunction(apply, dict.fromkeys(fields))


def _tokenize(model: ModelSpec, options: Mapping[str, Any], pairs: bool) -> TextFunction:
    from glassformer.text.folder import open_tokenizer

    _check_options("tokenize", options, ())
    tokenizer = open_tokenizer(model.folders.model)
    return TextFunction(lambda texts: [{IDS: each.ids} for each in tokenizer.encode_all(texts)])


TASKS = {
    "embed": BulkTask(_embed, 10_000, takes_pairs=True, parquet=(VECTOR, "float32")),
    "classify": BulkTask(_classify, 10_000, takes_pairs=True),
    "tag": BulkTask(_tag, 10_000),
    "translate": BulkTask(_translate, 1_000),
    "generate": BulkTask(_generate, 1_000),
    "tokenize": BulkTask(_tokenize, 10_000, takes_pairs=True, parquet=(IDS, "int32")),
}


def text_function(
    task: str, model: ModelSpec, options: Mapping[str, Any], *, pairs: bool
) -> TextFunction:
    """Load the model and try the options: a wrong one is an error of the job, not of its rows."""
    return TASKS[task].build(model, options, pairs)


def apply_to_rows(function: TextFunction, texts: Sequence[Any]) -> list[Cells | InputError]:
    """The new columns for each text; an error in the place of a text that the model cannot read.

    The error of a call does not say which text it is about, so halves are tried.
    """
    try:
        return list(function.apply(texts))
    except InputError as error:
        if len(texts) == 1:
            return [error]
    middle = len(texts) // 2
    return [
        *apply_to_rows(function, texts[:middle]), *apply_to_rows(function, texts[middle:]),
    ]  # fmt: skip
