"""From a recipe to a trainer: tokenizer, data, model and run folder, each built once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.checkpoint import about_vectors, is_vectors, read_configs
from glassformer.checkpoint.folder import side_files
from glassformer.data.batches import PackedRows
from glassformer.data.dataset import Dataset
from glassformer.data.fingerprints import MOST_FILES, Fingerprint, difference, fingerprints
from glassformer.data.label_alignment import Document, texts_of
from glassformer.data.mixture import counted_sources
from glassformer.data.prepare import prepare
from glassformer.data.run_paths import RunPaths
from glassformer.data.store import META, Store, read_meta
from glassformer.distributed import DistributedContext
from glassformer.durable import write_whole
from glassformer.errors import CheckpointError, ConfigError, InputError, check_installed, counted
from glassformer.loaded import FINGERPRINT
from glassformer.objectives import objective_of
from glassformer.objectives.base import DatasetParts, Evaluator
from glassformer.objectives.labelled import LabelledObjective, describe_counts, label_counts
from glassformer.pretrained import named
from glassformer.recipe.schema import Recipe
from glassformer.strictjson import parse_as
from glassformer.tasks import Task
from glassformer.text import Tokenizer
from glassformer.text.training import Purpose, tokenizer_files, train_tokenizer
from glassformer.train.adapter import with_new_adapter
from glassformer.train.batch_size import largest_batch, steps_of_epochs
from glassformer.train.init_from import build_model, check_model
from glassformer.train.parallel.mode import Mode, parallel_mode
from glassformer.train.run_dir import RunDir, check_same, checkpoints
from glassformer.train.source_files import source_files
from glassformer.train.state import State
from glassformer.train.trainer import Trainer

PURPOSES: dict[str, Purpose] = {
    "decoder": "decoder",
    "encoder": "encoder",
    "seq2seq": "translation",
}
ALGORITHMS = {"decoder": "bpe", "encoder": "wordpiece", "seq2seq": "bpe"}
NEVER = 1e9  # times the usual gradient norm


@dataclass(frozen=True)
class TokenizerSource:
    """made_from.json: what a tokenizer was trained with, and on which files."""

    settings: list[Any]
    files: list[Fingerprint]


class Builder:
    """Builds the parts of a run. What it resolves on the way, it writes into its `recipe`."""

    def __init__(self, recipe: Recipe, paths: RunPaths) -> None:
        self.recipe, self.paths = recipe, paths
        self.objective = objective_of(recipe)

    def trainer(self, world: DistributedContext) -> Trainer:
        """Prepare the data, and build the model and the trainer of the run."""
        self._check(world)
        if world.is_main:
            self._check_files("train", "valid")
        if self.objective.labelled:
            self.objective.check_packages()
            self.paths = replace(self.paths, labels=self._labels())
            self._resolve_metric()
        if world.is_main:
            tokenizer = self.make_tokenizer()
            for part in ("train", "valid"):
                self._prepare(part, tokenizer)
        world.wait()
        task = self._model(self.tokenizer, self.paths.log)
        adapted = self.recipe.adapter is not None
        mode = parallel_mode(self.recipe.distributed, task, world, adapted=adapted)
        self._check_mode(mode, world)
        if mode != "sharded":  # sharding moves what stays
            task = task.to(world.device)
        if adapted:
            task = with_new_adapter(self.recipe, task, self.paths.source)
        if self.recipe.train.micro_batch_tokens == "auto":
            tokens = largest_batch(self.recipe, self.objective, task, self.paths.out, world)
            self._update(micro_batch_tokens=tokens)
        train, valid = (self._rows(part, self.tokenizer, task) for part in ("train", "valid"))
        assert train is not None  # noqa: S101
        for line in describe_counts(label_counts(train.dataset.store)):
            self.paths.log(line)
        evaluator = None if valid is None else self._training_evaluator()
        self._update(**steps_of_epochs(self.recipe.train, train))
        files = self.objective.model_files(self.recipe, self.files, task.width)
        run = RunDir(self.paths.out, files, {FINGERPRINT: self.tokenizer.fingerprint})
        losses = self.objective.losses(self.recipe, task, train.dataset)
        state = State(task, self.recipe.train, mode=mode, world=world)
        return Trainer(run, state, train, valid, world, losses=losses, evaluator=evaluator)

    def validation(self, world: DistributedContext) -> tuple[Task, PackedRows]:
        """The initial model and the validation data alone, to measure the one on the other."""
        check_model(self.recipe, self.paths.source)
        self._check_files("valid")
        if self.recipe.init_from is not None:  # its classes are those of the data
            labels = read_configs(self.recipe.init_from)[1].labels
            self.paths = replace(self.paths, labels=labels)
        tokenizer = self.make_tokenizer()
        self._prepare("valid", tokenizer)
        task = self._model(tokenizer).to(world.device)
        rows = self._rows("valid", tokenizer, task)
        if rows is None:
            raise ConfigError(
                f"{self.paths.source}: there is no validation data: write data.valid or "
                "data.valid_fraction"
            )
        return task, rows

    def evaluator(self, **options: Any) -> Evaluator | None:
        """What computes metrics on the validation data; `options` are the objective's."""
        if self._prepared("valid"):
            raise ConfigError(
                f"{self.paths.source}: data.valid = {self.recipe.data.valid!r} holds token ids: "
                f"the metrics of {self.objective.name} need text: write the file that it was "
                "prepared from"
            )
        return self.objective.evaluator(
            self.recipe, self.paths, self.make_tokenizer(), self.files, **options
        )

    def _check(self, world: DistributedContext) -> None:
        train, source = self.recipe.train, self.paths.source
        if train.bleu_sentences:
            option = f"{source}: train.bleu_sentences = {train.bleu_sentences}"
            check_installed(option, "metrics", "sacrebleu")
        if train.micro_batches % world.size:
            raise ConfigError(
                f"{source}: train.micro_batches = {train.micro_batches} over {world.size} "
                "processes: write a multiple of their number"
            )
        check_same(self.recipe, self.paths.out)
        check_model(self.recipe, source)

    def _check_mode(self, mode: Mode, world: DistributedContext) -> None:
        train, source = self.recipe.train, self.paths.source
        if mode == "sharded" and world.device.type == "mps":
            raise ConfigError(
                f"{source}: train.device = {train.device!r}: distributed.shard = 'full' cannot "
                "use mps: write cpu or cuda"
            )
        if train.cuda_graphs and mode != "plain":
            raise ConfigError(
                f"{source}: train.cuda_graphs = true is for a single process that is not sharded: "
                "write false"
            )
        if train.micro_batch_tokens == "auto" and mode == "sharded":
            raise ConfigError(
                f"{source}: train.micro_batch_tokens = 'auto' cannot be measured with distributed."
                "shard = 'full': write a number"
            )

    def _check_files(self, *parts: str) -> None:
        """A wrong path fails now, not when its turn comes."""
        path = self.recipe.tokenizer.path
        if path is not None:
            self.paths.find("tokenizer.path", path)
        for part in parts:
            needed = part == "train" or self.recipe.data.valid is not None
            if needed and not self._prepared(part):
                source_files(self.recipe.data, self.paths.silent, part)

    def _update(self, **fields: Any) -> None:
        train = self.recipe.train.model_copy(update=fields)
        self.recipe = self.recipe.model_copy(update={"train": train})

    def _labels(self) -> tuple[str, ...]:
        """Those that the run started with, or those of the training data."""
        out = self.paths.out
        before = read_meta(out / "data" / "train") if checkpoints(out) else None
        if before is not None:
            return tuple(before.labels)
        return self.objective.labels(self.recipe, self.paths)

    def _resolve_metric(self) -> None:
        """The metric that chooses the best checkpoint; gradient spikes are not watched."""
        assert isinstance(self.objective, LabelledObjective)  # noqa: S101
        names = self.objective.metric_names(self.recipe, self.paths.labels)
        train = self.recipe.train
        by = train.best_by or names[0]
        if by not in ("loss", *names):
            raise ConfigError(
                f"{self.paths.source}: train.best_by = {by!r}: for this data write one of loss, "
                f"{', '.join(names)}"
            )
        self._update(best_by=by, grad_spike_factor=train.grad_spike_factor or NEVER)

    def _training_evaluator(self) -> Evaluator | None:
        if self.objective.labelled:
            return self.evaluator()
        if self.recipe.train.bleu_sentences:  # greedy search is enough during training
            return self.evaluator(sentences=self.recipe.train.bleu_sentences, num_beams=1)
        return None

    def _model(self, tokenizer: Tokenizer, log: Any = lambda line: None) -> Task:
        source, labels = self.paths.source, self.paths.labels
        return build_model(self.recipe, tokenizer, source, labels, self.files, log)

    # ----------------------------------------------------------------------------- the tokenizer

    @property
    def _tokenizer_folder(self) -> Path:
        if self.recipe.init_from is not None:
            return named(self.recipe.init_from)
        if self.recipe.tokenizer.path is not None:
            return self.paths.root / self.recipe.tokenizer.path
        return self.paths.out / "tokenizer"

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The tokenizer's files, and those beside the initial model."""
        folder = self._tokenizer_folder
        if is_vectors(folder):
            return about_vectors(folder)[1]
        skipped = ("README.md", "LICENSE", "generation_config.json")
        names = [name for name in side_files(folder) if name not in skipped]
        return {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_files(self.files, str(self._tokenizer_folder))
        if tokenizer is None:
            raise InputError(f"{self._tokenizer_folder}: there is no tokenizer in this folder")
        return tokenizer

    def make_tokenizer(self) -> Tokenizer:
        """The tokenizer that the recipe names or that was trained before; else a new one."""
        folder, settings = self._tokenizer_folder, self.recipe.tokenizer
        family = self.objective.family
        made_from = folder / "made_from.json"
        key = [family, self.recipe.data.key(), settings.model_dump()]
        if folder != self.paths.out / "tokenizer" or self._is_trained(made_from, key):
            return self.tokenizer
        self.paths.report("training a tokenizer", None)
        kind = settings.kind or ALGORITHMS[family]
        sized = kind not in ("chars", "bytes")
        # An alphabet must be complete: the validation data may have characters of its own.
        both = kind == "chars" and (self.recipe.data.valid is not None or self.recipe.data.splits)
        texts = (
            text
            for part in (("train", "valid") if both else ("train",))
            for document in self.objective.read(self.recipe, self.paths.silent, part)
            for text in texts_of(document)
        )
        tokenizer = train_tokenizer(
            texts, kind, settings.vocab_size if sized else None,  # type: ignore[arg-type]
            purpose=PURPOSES[family], lowercase=settings.lowercase,
        )  # fmt: skip
        made_from.unlink(missing_ok=True)
        for name, content in tokenizer_files(tokenizer).items():
            write_whole(folder / name, content)
        # Written last: until then the tokenizer may be incomplete.
        files = source_files(self.recipe.data, self.paths, "train") or {}
        source = TokenizerSource(key, fingerprints(files))
        write_whole(made_from, json.dumps(asdict(source), indent=2).encode())
        return tokenizer

    def _is_trained(self, path: Path, key: list[Any]) -> bool:
        """Whether a tokenizer with these settings exists; before the first step, also from the text
        as it is now."""
        if not path.is_file():
            return False
        try:
            record = parse_as(
                TokenizerSource, path.read_bytes(), str(path), values=8 * MOST_FILES,
                objects=MOST_FILES,
            )  # fmt: skip
        except CheckpointError as error:
            raise InputError(f"{error}: delete {path.parent}: it is made again") from None
        if record.settings != key:
            return False
        if checkpoints(self.paths.out):
            return True
        files = source_files(self.recipe.data, self.paths, "train")
        return files is None or not difference(record.files, files)

    # ---------------------------------------------------------------------------------- the data

    def _prepared(self, part: str) -> Path | None:
        """A store written by `glassformer data prepare`, where the recipe names one."""
        data = self.recipe.data
        name = data.valid if part == "valid" else data.train
        folder = None if name is None else self.paths.data(name)
        if folder is None or not (folder / META).is_file():
            return None
        if data.more or data.deduplicate or data.text is not None:
            raise ConfigError(
                f"{folder}: this data is prepared: leave data.more, data.deduplicate and data.text "
                "out, or name its text"
            )
        if data.splits:
            raise ConfigError(
                f"{self.paths.source}: data.valid_fraction = {data.valid_fraction}: {folder} is "
                "prepared and cannot be split: prepare validation data and name it data.valid, or "
                "write valid_fraction = 0"
            )
        return folder

    def _prepare(self, part: str, tokenizer: Tokenizer) -> None:
        data, paths = self.recipe.data, self.paths
        if part == "valid" and data.valid is None and not data.splits:
            return
        if self._prepared(part):
            return
        counts: list[int] = []
        documents = self.objective.read(self.recipe, paths, part)
        if part == "train" and data.shares:
            documents = self._read_sources(counts)
        steps = prepare(
            documents, tokenizer, paths.out / "data" / part, source_documents=counts,
            files=source_files(data, paths, part), again=not checkpoints(paths.out),
            kind=self.objective.store_kind(self.recipe, paths),
            sources=[json.dumps([part, data.key()])], labels=paths.labels, workers=data.workers,
        )  # fmt: skip
        for progress in steps:
            paths.report(f"preparing {part}" if progress.characters else part, progress)

    def _read_sources(self, counts: list[int]) -> Iterator[Document]:
        """The training documents of each source, which are counted."""
        data, read = self.recipe.data, self.objective.read
        recipes = (
            self.recipe.model_copy(update={"data": data.source(i)})
            for i in range(len(data.sources))
        )
        return counted_sources((read(each, self.paths, "train") for each in recipes), counts)

    def _rows(self, part: str, tokenizer: Tokenizer, task: Task) -> PackedRows | None:
        folder = self._prepared(part) or self.paths.out / "data" / part
        if not folder.exists():
            return None
        store, train = Store(folder), self.recipe.train
        store.check(tokenizer.fingerprint)
        store.verify(tokenizer.highest + 1)
        seed = -1 if part == "valid" else train.seed
        parts = DatasetParts(store, tokenizer, task, seed, self.paths.source)
        dataset = self.objective.dataset(self.recipe, parts)
        assert train.micro_batch_tokens != "auto"  # noqa: S101
        # Compiled models and CUDA graphs need rows of one shape.
        fixed = train.compile or (train.cuda_graphs and task.device.type == "cuda")
        plan = self.paths.out / "plan" / part
        shares = self.recipe.data.shares if part == "train" else ()
        rows = PackedRows(
            dataset, budget=train.micro_batch_tokens, folder=plan, fixed=fixed, shares=shares
        )
        self._report_skipped(dataset, part)
        return rows

    def _report_skipped(self, dataset: Dataset, part: str) -> None:
        skipped = [each for each in dataset.skipped() if each.count]
        for each in skipped:
            if each.too_long and self.recipe.objective.on_truncate == "error":
                raise InputError(
                    f"{dataset.store.folder}: {counted(each.count, each.reason)}: raise "
                    f"objective.length = {self.recipe.objective.length}, or add --on-truncate warn"
                )
        if skipped:
            self.paths.log(
                f"{part}: " + "; ".join(counted(each.count, each.reason) for each in skipped)
            )
