"""From a recipe to a session: tokenizer, data, model and run folder, each made once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from glassformer.checkpoint import load_task
from glassformer.checkpoint.folder import SIDE_FILES
from glassformer.config import TokenIds
from glassformer.data.frame import END, MASK, PAD, Frame, end_of_text, find_id
from glassformer.data.masking import Masking
from glassformer.data.objectives import Masked, MaskedPairs, NextWord, Objective, Translate
from glassformer.data.prepare import Document, Kind, Progress, prepare
from glassformer.data.readers import documents, pairs
from glassformer.data.rows import Rows
from glassformer.data.store import META, Store
from glassformer.durable import write_whole
from glassformer.errors import ConfigError, InputError
from glassformer.loaded import FINGERPRINT
from glassformer.tasks import Task, build_task
from glassformer.text import Tokenizer
from glassformer.text.training import Purpose, tokenizer_files, train_tokenizer
from glassformer.train.auto import settled
from glassformer.train.distributed import World
from glassformer.train.recipe import FAMILY, Recipe, model_config, task_config
from glassformer.train.run import Run
from glassformer.train.session import Session
from glassformer.train.state import State

STORES: dict[str, Kind] = {
    "next_word": "text",
    "masked": "text",
    "masked_pairs": "sentences",
    "translate": "pairs",
}
PURPOSES: dict[str, Purpose] = {
    "decoder": "decoder",
    "encoder": "encoder",
    "seq2seq": "translation",
}
Tell = Callable[[str, Progress | None], None]


@dataclass(frozen=True)
class Place:
    """Where a run reads and writes, and who is told what it does."""

    root: Path  # of the data
    out: Path
    source: str  # the recipe's file, for errors
    tell: Tell = lambda line, progress: None


def build_session(recipe: Recipe, place: Place, world: World) -> Session:
    if recipe.train.rows % world.size:
        raise ConfigError(
            f"{place.source}: train.rows = {recipe.train.rows} over {world.size} processes: "
            "write a multiple of their number"
        )
    if world.leads:
        tokenizer = _tokenizer(recipe, place)
        for part in ("train", "valid"):
            _prepare(recipe, place, tokenizer, part)
    world.wait()
    files = _tokenizer_files(recipe, place)
    found = Tokenizer.from_files(files, str(place.out))
    assert found is not None  # noqa: S101
    task = _task(recipe, found, place).to(world.device)
    recipe = settled(recipe, place.out, world, task)
    train, valid = (_rows(recipe, place, found, task, part) for part in ("train", "valid"))
    assert train is not None  # noqa: S101
    run = Run(place.out, files, {FINGERPRINT: found.fingerprint})
    return Session(run, State(task, recipe.train), train, valid, world)


def build_valid(recipe: Recipe, place: Place, world: World) -> tuple[Task, Rows]:
    """The model and the validation part alone, to measure the one on the other."""
    tokenizer = _tokenizer(recipe, place)
    _prepare(recipe, place, tokenizer, "valid")
    task = _task(recipe, tokenizer, place).to(world.device)
    rows = _rows(recipe, place, tokenizer, task, "valid")
    if rows is None:
        raise ConfigError(f"{place.source}: nothing is held out: write data.valid or data.held_out")
    return task, rows


def held_out(recipe: Recipe, place: Place, part: str) -> Iterator[Document]:
    """The documents of one part; which one a document is in depends on its own text alone."""
    data = recipe.data
    path = place.root / (data.valid if part == "valid" and data.valid is not None else data.train)
    share = 0.0 if data.valid is not None else data.held_out
    wanted = part == "valid" and data.valid is None
    nothing = True
    for document in _read(recipe, path):
        if share > 0.0 and data.document == "file" and isinstance(document, str):
            cut = document.find("\n", int(len(document) * (1 - share))) + 1
            document = document[cut:] if wanted else document[:cut]
        elif share > 0.0 and (_draw(document) < share) != wanted:
            continue
        nothing = False
        yield document
    if nothing:
        raise ConfigError(
            f"{path}: with data.held_out = {share} there is nothing to "
            f"{'test on' if wanted else 'learn from'}: write another share, or data.valid"
        )


def _read(recipe: Recipe, path: Path) -> Iterator[Document]:
    if (path / META).is_file():
        raise ConfigError(f"{path}: ids and no text: name their tokenizer in tokenizer.path")
    if recipe.objective.kind != "translate":
        return documents(path, recipe.data.field, whole=recipe.data.document == "file")
    return pairs(path, languages=recipe.data.languages or None)  # type: ignore[arg-type]


def _draw(document: Document) -> float:
    text = document if isinstance(document, str) else "\t".join(document)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def _tokenizer_folder(recipe: Recipe, place: Place) -> Path:
    if recipe.start is not None:
        return Path(recipe.start)
    if recipe.tokenizer.path is not None:
        return place.root / recipe.tokenizer.path
    return place.out / "tokenizer"


def _tokenizer_files(recipe: Recipe, place: Place) -> dict[str, bytes]:
    folder = _tokenizer_folder(recipe, place)
    names = [n for n in SIDE_FILES if n not in ("README.md", "LICENSE", "generation_config.json")]
    return {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}


def _tokenizer(recipe: Recipe, place: Place) -> Tokenizer:
    """The one that is named or was made before; else one learned from the training text."""
    folder = _tokenizer_folder(recipe, place)
    family, settings = FAMILY[recipe.objective.kind][0], recipe.tokenizer
    own, made_from = folder == place.out / "tokenizer", folder / "made_from.json"
    told = json.dumps([family, recipe.data.model_dump(), settings.model_dump()]).encode()
    if not own or (made_from.is_file() and made_from.read_bytes() == told):
        found = Tokenizer.from_files(_tokenizer_files(recipe, place), str(folder))
        if found is None:
            raise InputError(f"{folder}: there is no tokenizer in this folder")
        return found
    place.tell("learning a tokenizer", None)
    usual = {"decoder": "bpe", "encoder": "wordpiece", "seq2seq": "bpe"}[family]
    kind = settings.kind or usual
    sized = kind not in ("chars", "bytes")
    parts = (
        t for d in held_out(recipe, place, "train") for t in ((d,) if isinstance(d, str) else d)
    )
    made = train_tokenizer(
        parts, kind, settings.vocab_size if sized else None,  # type: ignore[arg-type]
        purpose=PURPOSES[family], lowercase=settings.lowercase,
    )  # fmt: skip
    made_from.unlink(missing_ok=True)
    for name, data in tokenizer_files(made).items():
        write_whole(folder / name, data)
    write_whole(made_from, told)  # last: before it is there, the tokenizer may be half of one
    return made


def _ready_made(recipe: Recipe, place: Place, part: str) -> Path | None:
    """A store that `glassformer data prepare` has written, where the recipe names one."""
    data = recipe.data
    name = data.valid if part == "valid" else data.train
    folder = None if name is None else place.root / name
    if folder is None or not (folder / META).is_file():
        return None
    if data.valid is None and data.held_out > 0:
        raise ConfigError(
            f"{place.source}: data.held_out = {data.held_out}: {folder} is prepared and cannot be "
            "split: prepare another one and name it data.valid, or write held_out = 0"
        )
    return folder


def _prepare(recipe: Recipe, place: Place, tokenizer: Tokenizer, part: str) -> None:
    data = recipe.data
    if part == "valid" and data.valid is None and data.held_out == 0.0:
        return
    if _ready_made(recipe, place, part):
        return
    steps = prepare(
        held_out(recipe, place, part), tokenizer, place.out / "data" / part,
        kind=STORES[recipe.objective.kind], sources=[json.dumps([part, data.model_dump()])],
    )  # fmt: skip
    for progress in steps:
        place.tell(f"preparing {part}", progress)


def _rows(recipe: Recipe, place: Place, tokenizer: Tokenizer, task: Task, part: str) -> Rows | None:
    folder = _ready_made(recipe, place, part) or place.out / "data" / part
    if not folder.exists():
        return None
    store = Store(folder)
    store.check(tokenizer.fingerprint)
    objective = _objective(recipe, store, tokenizer, task, -1 if part == "valid" else
                           recipe.train.seed, place.source)  # fmt: skip
    budget = recipe.train.tokens
    assert budget != "auto"  # noqa: S101
    plan = place.out / "plan" / part
    return Rows(objective, budget=budget, folder=plan, fixed=recipe.train.compile)


def _objective(
    recipe: Recipe, store: Store, tokenizer: Tokenizer, task: Task, seed: int, source: str
) -> Objective:
    frame, learn = Frame.of(tokenizer), recipe.objective
    if learn.length > task.backbone.config.max_length:
        raise ConfigError(
            f"{source}: objective.length = {learn.length}: the model reads at most "
            f"{task.backbone.config.max_length} tokens"
        )
    ids = task.backbone.config.ids
    pad = ids.pad or 0
    base = (store, frame, learn.length, pad, seed)
    if learn.kind == "next_word":
        return NextWord(*base)
    if learn.kind == "translate":
        end = end_of_text(tokenizer, frame)
        return Translate(*base, ids.start or pad, end, learn.label_smoothing if seed >= 0 else 0.0)
    masking = _masking(recipe, tokenizer, task.backbone.config.vocab_size, source)
    if learn.kind == "masked":
        return Masked(*base, masking)
    return MaskedPairs(*base, masking, learn.sentence_order)


def _masking(recipe: Recipe, tokenizer: Tokenizer, vocab: int, source: str) -> Masking:
    mask = find_id(tokenizer, MASK)
    if mask is None:
        raise ConfigError(f"{source}: the tokenizer has no [MASK]: masked words need one")
    special = set(tokenizer.backend.get_added_tokens_decoder())
    pieces = [tokenizer.token(i) for i in range(vocab)]
    return Masking(
        recipe.objective.mask_rate,
        recipe.objective.mask_unit,
        mask,
        vocab,
        forbidden=np.array([i in special or i > tokenizer.highest for i in range(vocab)]),
        begins=np.array(_begin_words(pieces)),
    )


def _begin_words(pieces: list[str]) -> list[bool]:
    """WordPiece marks what goes on, byte-level BPE and Unigram what begins; others are words."""
    if any(piece.startswith("##") for piece in pieces):
        return [not piece.startswith("##") for piece in pieces]
    marked = [piece[:1] in ("Ġ", "▁") for piece in pieces]
    return marked if any(marked) else [True] * len(pieces)


def _task(recipe: Recipe, tokenizer: Tokenizer, place: Place) -> Task:
    torch.manual_seed(recipe.train.seed)
    if recipe.start is not None:
        return _started(recipe)
    pad, end = find_id(tokenizer, PAD), find_id(tokenizer, END)
    family = FAMILY[recipe.objective.kind][0]
    start = pad if family == "seq2seq" else end
    ids = TokenIds(pad=pad, start=start, end=end)
    config = model_config(recipe, tokenizer.highest + 1, ids, place.source)
    return build_task(config, task_config(recipe, config)).train()


def _started(recipe: Recipe) -> Task:
    """A folder's model; where its head is for something else, with a fresh one."""
    task, _ = load_task(str(recipe.start))
    wanted = task_config(recipe, task.backbone.config)
    if task.spec.kind != wanted.kind:
        fresh = build_task(task.backbone.config, wanted)
        fresh.backbone.load_state_dict(task.backbone.state_dict())
        task = fresh
    return task.float().train()
