"""The texts of a recipe: from which files, and which of them are held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.data.deduplicate import Deduplicator
from glassformer.data.label_alignment import Document, texts_of
from glassformer.data.prepare import Progress
from glassformer.data.readers.files import find_files
from glassformer.data.readers.parallel import pairs, sides
from glassformer.data.readers.text import documents
from glassformer.data.split import Pair, is_held, split_pairs
from glassformer.data.store import META
from glassformer.errors import ConfigError, InputError
from glassformer.recipe.schema import LABELLED, DataConfig, Recipe, SourceConfig
from glassformer.train import labelled

Tell = Callable[[str, Progress | None], None]


def _quiet(line: str, progress: Progress | None) -> None:
    pass


@dataclass(frozen=True)
class RunPaths:
    """Where a run reads and writes, and who is told what it does."""

    root: Path  # of the data
    out: Path
    source: str  # the recipe's file, for errors
    tell: Tell = _quiet
    labels: tuple[str, ...] = ()  # the names of the classes, where texts are labelled

    @property
    def quiet(self) -> RunPaths:
        return replace(self, tell=_quiet)

    def say(self, line: str) -> None:
        self.tell(line, None)


def held_out(recipe: Recipe, place: RunPaths, part: str) -> Iterator[Document]:
    """The documents of one part; which one a document is in depends on its own text alone."""
    path = place.root / _sources(recipe, part)[0].train
    nothing = True
    if recipe.objective.kind in LABELLED:
        found = labelled.documents(recipe, path, place.labels, part, place.say)
    else:
        found = _pairs(recipe, place, part) if _is_paired(recipe) else _fresh(recipe, place, part)
    for document in found:
        nothing = False
        yield document
    if nothing:
        raise ConfigError(f"{path}: {_nothing(recipe.data, part)}")


def _nothing(data: DataConfig, part: str) -> str:
    to = "test on" if part == "valid" else "learn from"
    if not data.splits:
        return f"there is nothing in it to {to}: write another file"
    if data.fold is not None:
        return f"with data.fold = {data.fold!r} there is nothing to {to}: write fewer folds"
    return (
        f"with data.valid_fraction = {data.valid_fraction} there is nothing to {to}: write another "
        "share, or data.valid"
    )


def _sources(recipe: Recipe, part: str) -> tuple[SourceConfig, ...]:
    data = recipe.data
    if part == "valid" and data.valid is not None:
        return (SourceConfig(train=data.valid, document=data.document, field=data.field),)
    return data.sources


def _share(recipe: Recipe) -> float:
    return 0.0 if recipe.data.valid is not None else recipe.data.valid_fraction


def _is_paired(recipe: Recipe) -> bool:
    return recipe.objective.kind == "translation"


def _pairs(recipe: Recipe, place: RunPaths, part: str) -> Iterator[Document]:
    languages, share = recipe.data.languages or None, _share(recipe)

    def read() -> Iterator[Pair]:
        for source in _sources(recipe, part):
            yield from pairs(_text(place, source), languages=languages)  # type: ignore[arg-type]

    def told(left_out: int) -> None:
        place.say(f"{left_out:,} pairs share a text with a held-out one: not trained on")

    if share > 0.0:
        return split_pairs(read, share, held=part == "valid", tell=told)
    return read()


def _fresh(recipe: Recipe, place: RunPaths, part: str) -> Iterator[Document]:
    """The texts of a part; without copies, if they are not wanted."""
    if not recipe.data.deduplicate:
        yield from _texts(recipe, place, part)
        return
    copies = Deduplicator()
    if part == "train" and (recipe.data.valid is not None or recipe.data.splits):
        for text in _texts(recipe, place, "valid"):  # what is tested must not be learnt
            copies.remember(text)
    yield from copies.fresh(_texts(recipe, place, part))
    place.say(f"{part}: {copies}")


def _texts(recipe: Recipe, place: RunPaths, part: str) -> Iterator[str]:
    if recipe.data.text is not None:
        return _columns(recipe, place, part)
    return _documents(recipe, place, part)


def _columns(recipe: Recipe, place: RunPaths, part: str) -> Iterator[str]:
    """Of a labelled table: each text is in the part that its row is in where labels are learnt."""
    path = _text(place, _sources(recipe, part)[0])
    for row in labelled.documents(recipe, path, (), part, place.say):
        yield from texts_of(row)


def _documents(recipe: Recipe, place: RunPaths, part: str) -> Iterator[str]:
    share, wanted = _share(recipe), part == "valid"
    for source in _sources(recipe, part):
        found = documents(_text(place, source), source.field, ends=source.document)
        for document in found:
            if share == 0.0:
                yield document
            elif source.document == "file":
                cut = document.find("\n", int(len(document) * (1 - share))) + 1
                yield document[cut:] if wanted else document[:cut]
            elif is_held(document, share) == wanted:
                yield document


def _text(place: RunPaths, source: SourceConfig) -> Path:
    path = place.root / source.train
    if (path / META).is_file():
        raise ConfigError(f"{path}: ids and no text: name their tokenizer in tokenizer.path")
    return path


def source_files(recipe: Recipe, place: RunPaths, part: str) -> dict[str, Path] | None:
    """What the part is read from, by name: the data root may move. None if all of it is gone."""
    first, *more = (source.train for source in _sources(recipe, part))
    try:
        found = _named(place.root / first, recipe.data.languages)
        for path in more:
            names = _named(place.root / path, recipe.data.languages)
            found |= {f"{path}: {name}": file for name, file in names.items()}
        return found
    except InputError as error:
        if not (place.out / "data" / part / META).is_file():
            raise
        gone = str(error).partition(":")[0]
        place.say(f"{gone}: it is gone: what was prepared from it is used")
        return None


def _named(path: Path, languages: tuple[str, ...]) -> dict[str, Path]:
    if languages:
        return {file.name: file for file in sides(path, languages)}
    files = find_files(path)
    return {
        file.relative_to(path).as_posix() if path.is_dir() else file.name: file for file in files
    }
