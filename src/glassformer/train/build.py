"""From a recipe to a session: tokenizer, data, model and run folder, each made once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from glassformer.checkpoint import about_vectors, is_vectors, read_configs
from glassformer.checkpoint.folder import SIDE_FILES
from glassformer.data.batches import PackedRows
from glassformer.data.fingerprints import Fingerprint, difference, fingerprints
from glassformer.data.label_alignment import texts_of
from glassformer.data.objectives import Objective
from glassformer.data.prepare import Kind, prepare
from glassformer.data.split import Pair
from glassformer.data.store import META, Store, read_meta
from glassformer.distributed import DistributedContext
from glassformer.durable import write_whole
from glassformer.errors import ConfigError, InputError, check_installed
from glassformer.evaluate import metrics
from glassformer.evaluate.translation import Examples, TranslationEvaluator
from glassformer.loaded import FINGERPRINT
from glassformer.pretrained import named
from glassformer.recipe.schema import FAMILY, LABELLED, Recipe
from glassformer.strictjson import parse
from glassformer.tasks import Task
from glassformer.text import Tokenizer
from glassformer.text.training import Purpose, tokenizer_files, train_tokenizer
from glassformer.train import labelled
from glassformer.train.batch_size import resolve_batch_size, resolve_steps
from glassformer.train.documents import RunPaths, held_out, source_files
from glassformer.train.init_from import check_start
from glassformer.train.parts import objective_of, pool_of, task_of
from glassformer.train.run_dir import RunDir, check_same, checkpoints
from glassformer.train.sentence_files import SENTENCE_FILES, sentence_files
from glassformer.train.state import State
from glassformer.train.trainer import Trainer

STORES: dict[str, Kind] = {
    "causal_lm": "text",
    "masked_lm": "text",
    "masked_lm_nsp": "sentences",
    "translation": "pairs",
}
PURPOSES: dict[str, Purpose] = {
    "decoder": "decoder",
    "encoder": "encoder",
    "seq2seq": "translation",
}


def build_session(recipe: Recipe, place: RunPaths, world: DistributedContext) -> Trainer:
    if recipe.train.bleu_sentences:
        why = f"{place.source}: train.bleu_sentences = {recipe.train.bleu_sentences}"
        check_installed(why, "metrics", "sacrebleu")
    if recipe.train.micro_batches % world.size:
        raise ConfigError(
            f"{place.source}: train.micro_batches = {recipe.train.micro_batches} over "
            f"{world.size} processes: write a multiple of their number"
        )
    check_same(recipe, place.out)
    check_start(recipe, place.source)
    if recipe.objective.kind in LABELLED:
        why = f"objective.kind = {recipe.objective.kind!r}"
        check_installed(why, "metrics", *metrics.PACKAGES)
        place = replace(place, labels=_labels(recipe, place))
        recipe = labelled.judged(recipe, place.labels, place.source)
    if world.is_main:
        if recipe.data.valid is not None and not _ready_made(recipe, place, "valid"):
            source_files(recipe, place.quiet, "valid")  # a wrong path costs no work
        tokenizer = _tokenizer(recipe, place)
        for part in ("train", "valid"):
            _prepare(recipe, place, tokenizer, part)
    world.wait()
    files = _tokenizer_files(recipe, place)
    found = Tokenizer.from_files(files, str(place.out))
    assert found is not None  # noqa: S101
    task = task_of(recipe, found, place.source, place.labels, files, place.say).to(world.device)
    recipe = resolve_batch_size(recipe, place.out, world, task)
    train, valid = (_rows(recipe, place, found, task, part) for part in ("train", "valid"))
    assert train is not None  # noqa: S101
    judge: TranslationEvaluator | labelled.LabelledEvaluator | None = None
    if recipe.train.bleu_sentences and valid is not None:
        # While a model learns, the likeliest word each time is enough.
        judge = build_judge(recipe, place, recipe.train.bleu_sentences, num_beams=1)
    elif recipe.objective.kind in LABELLED and valid is not None:
        judge = build_measured(recipe, place, place.labels)
    recipe = resolve_steps(recipe, train)
    run = RunDir(place.out, run_files(recipe, files, task.width), {FINGERPRINT: found.fingerprint})
    losses = labelled.weighted(task, train.objective) if recipe.objective.class_weights else None
    state = State(task, recipe.train)
    return Trainer(run, state, train, valid, world, losses=losses, judge=judge)


def _labels(recipe: Recipe, place: RunPaths) -> tuple[str, ...]:
    """Those that the run began with, or those of the training data."""
    before = read_meta(place.out / "data" / "train") if checkpoints(place.out) else None
    if before is not None:
        return tuple(before.labels)
    return labelled.labels_of(recipe, place.root / recipe.data.train, place.say)


def build_valid(
    recipe: Recipe, place: RunPaths, world: DistributedContext
) -> tuple[Task, PackedRows]:
    """The model and the validation part alone, to measure the one on the other."""
    check_start(recipe, place.source)
    if recipe.init_from is not None:  # the classes are those that it knows
        place = replace(place, labels=read_configs(recipe.init_from)[1].labels)
    tokenizer = _tokenizer(recipe, place)
    _prepare(recipe, place, tokenizer, "valid")
    files = _tokenizer_files(recipe, place)
    task = task_of(recipe, tokenizer, place.source, place.labels, files).to(world.device)
    rows = _rows(recipe, place, tokenizer, task, "valid")
    if rows is None:
        raise ConfigError(
            f"{place.source}: nothing is held out: write data.valid or data.valid_fraction"
        )
    return task, rows


def build_judge(
    recipe: Recipe, place: RunPaths, most: int | None, **search: Any
) -> TranslationEvaluator:
    """Translations of the held-out part."""
    if _ready_made(recipe, place, "valid"):
        raise ConfigError(f"{place.source}: data.valid holds ids: BLEU needs its text")
    pairs = held_out(recipe, place.quiet, "valid")
    examples = Examples.of(cast("Iterator[Pair]", pairs), most)
    return TranslationEvaluator(_tokenizer(recipe, place), examples, search)


def build_measured(
    recipe: Recipe, place: RunPaths, labels: tuple[str, ...]
) -> labelled.LabelledEvaluator:
    """What the model says of the held-out part, beside what is right."""
    quiet = replace(place.quiet, labels=labels)
    pool = pool_of(recipe, _tokenizer_files(recipe, place))
    documents = list(held_out(recipe, quiet, "valid"))
    return labelled.LabelledEvaluator(
        recipe.objective.kind, _tokenizer(recipe, quiet), documents, labels, pool
    )


def _tokenizer_folder(recipe: Recipe, place: RunPaths) -> Path:
    if recipe.init_from is not None:
        return named(recipe.init_from)
    if recipe.tokenizer.path is not None:
        return place.root / recipe.tokenizer.path
    return place.out / "tokenizer"


def _tokenizer_files(recipe: Recipe, place: RunPaths) -> dict[str, bytes]:
    folder = _tokenizer_folder(recipe, place)
    if is_vectors(folder):
        return about_vectors(folder)[1]
    names = [n for n in SIDE_FILES if n not in ("README.md", "LICENSE", "generation_config.json")]
    return {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}


def run_files(recipe: Recipe, files: dict[str, bytes], width: int) -> dict[str, bytes]:
    """What lies beside the weights: how texts become vectors only where that is learnt."""
    if recipe.objective.kind == "sentence_embedding":
        return sentence_files(files, pool_of(recipe, files), recipe.objective.length, width)
    return {name: data for name, data in files.items() if name not in SENTENCE_FILES}


def _tokenizer(recipe: Recipe, place: RunPaths) -> Tokenizer:
    """The one that is named or was made before; else one learned from the training text."""
    folder = _tokenizer_folder(recipe, place)
    family, settings = FAMILY[recipe.objective.kind][0], recipe.tokenizer
    own, made_from = folder == place.out / "tokenizer", folder / "made_from.json"
    told = [family, recipe.data.model_dump(mode="json"), settings.model_dump()]
    if not own or _is_made(made_from, told, recipe, place):
        found = Tokenizer.from_files(_tokenizer_files(recipe, place), str(folder))
        if found is None:
            raise InputError(f"{folder}: there is no tokenizer in this folder")
        return found
    place.tell("learning a tokenizer", None)
    usual = {"decoder": "bpe", "encoder": "wordpiece", "seq2seq": "bpe"}[family]
    kind = settings.kind or usual
    sized = kind not in ("chars", "bytes")
    # An alphabet must be whole: the held-out part may have letters of its own.
    whole = kind == "chars" and (recipe.data.valid is not None or recipe.data.splits)
    quiet = place.quiet
    parts = (
        text
        for part in (("train", "valid") if whole else ("train",))
        for document in held_out(recipe, quiet, part)
        for text in texts_of(document)
    )
    made = train_tokenizer(
        parts, kind, settings.vocab_size if sized else None,  # type: ignore[arg-type]
        purpose=PURPOSES[family], lowercase=settings.lowercase,
    )  # fmt: skip
    made_from.unlink(missing_ok=True)
    for name, data in tokenizer_files(made).items():
        write_whole(folder / name, data)
    # Last: before it is there, the tokenizer may be half of one.
    read = [asdict(stamp) for stamp in fingerprints(source_files(recipe, place, "train") or {})]
    write_whole(made_from, json.dumps({"settings": told, "files": read}, indent=2).encode())
    return made


def _is_made(path: Path, told: list[Any], recipe: Recipe, place: RunPaths) -> bool:
    """Is there a tokenizer of these settings? Before the first step, of the text as it is now?"""
    found = parse(path.read_bytes(), str(path)) if path.is_file() else {}
    if found.get("settings") != told:
        return False
    files = None if checkpoints(place.out) else source_files(recipe, place, "train")
    return files is None or not difference([Fingerprint(**each) for each in found["files"]], files)


def _ready_made(recipe: Recipe, place: RunPaths, part: str) -> Path | None:
    """A store that `glassformer data prepare` has written, where the recipe names one."""
    data = recipe.data
    name = data.valid if part == "valid" else data.train
    folder = None if name is None else place.root / name
    if folder is None or not (folder / META).is_file():
        return None
    if data.more or data.deduplicate or data.text is not None:
        raise ConfigError(
            f"{folder}: it is prepared: leave data.more, data.deduplicate and data.text out, or "
            "name its text"
        )
    if data.splits:
        raise ConfigError(
            f"{place.source}: data.valid_fraction = {data.valid_fraction}: {folder} is prepared "
            "and cannot be split: prepare another one and name it data.valid, or write "
            "valid_fraction = 0"
        )
    return folder


def _prepare(recipe: Recipe, place: RunPaths, tokenizer: Tokenizer, part: str) -> None:
    data = recipe.data
    if part == "valid" and data.valid is None and not data.splits:
        return
    if _ready_made(recipe, place, part):
        return
    steps = prepare(
        held_out(recipe, place, part), tokenizer, place.out / "data" / part,
        files=source_files(recipe, place, part), again=not checkpoints(place.out),
        kind=_store_kind(recipe, place), sources=[json.dumps([part, data.model_dump()])],
        labels=place.labels,
    )  # fmt: skip
    for progress in steps:
        place.tell(f"preparing {part}" if progress.characters else part, progress)


def _store_kind(recipe: Recipe, place: RunPaths) -> Kind:
    if recipe.objective.kind in STORES:
        return STORES[recipe.objective.kind]
    return labelled.store_kind(recipe, place.root / recipe.data.train, place.labels)


def _rows(
    recipe: Recipe, place: RunPaths, tokenizer: Tokenizer, task: Task, part: str
) -> PackedRows | None:
    folder = _ready_made(recipe, place, part) or place.out / "data" / part
    if not folder.exists():
        return None
    store = Store(folder)
    store.check(tokenizer.fingerprint)
    seed = -1 if part == "valid" else recipe.train.seed
    objective = objective_of(recipe, store, tokenizer, task, seed, place.source)
    budget = recipe.train.micro_batch_tokens
    assert budget != "auto"  # noqa: S101
    plan = place.out / "plan" / part
    # Of one shape is what is compiled, and what is on tape.
    fixed = recipe.train.compile or (recipe.train.cuda_graphs and task.device.type == "cuda")
    rows = PackedRows(objective, budget=budget, folder=plan, fixed=fixed)
    _tell_left_out(objective, recipe, place, part)
    return rows


def _tell_left_out(objective: Objective, recipe: Recipe, place: RunPaths, part: str) -> None:
    left = [each for each in objective.left_out() if each.count]
    for each in left:
        if each.too_long and recipe.objective.on_truncate == "error":
            raise InputError(
                f"{objective.store.folder}: {each.count:,} {each.what}: raise objective.length = "
                f"{recipe.objective.length}, or write --on-truncate warn"
            )
    if left:
        place.tell(f"{part}: " + "; ".join(f"{each.count:,} {each.what}" for each in left), None)
