"""Documents of plain text, for the objectives that need no labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from glassformer.data.deduplicate import Deduplicator
from glassformer.data.label_alignment import Document, texts_of
from glassformer.data.readers import text
from glassformer.data.readers.files import skip_or_stop
from glassformer.data.run_paths import RunPaths
from glassformer.data.split import is_held
from glassformer.data.store import META
from glassformer.errors import ConfigError, shown
from glassformer.fields import RecipeFields, SourceConfig
from glassformer.objectives.base import Objective
from glassformer.objectives.labelled import split_table

# Text is read as documents, or with data.text from the columns of a labelled table.
OF_DOCUMENTS = ("data.field", "data.document", "data.more", "data.share")
OF_TABLES = ("data.text_pair", "data.header", "data.separator", "data.fold")
OF_BOTH = ("data.text", "data.deduplicate")
FIELDS = (*OF_DOCUMENTS, *OF_TABLES, *OF_BOTH)


class PlainTextObjective(Objective):
    def check(self, recipe: RecipeFields) -> None:
        column = recipe.data.text
        for name in OF_TABLES if column is None else OF_DOCUMENTS:
            field = name.removeprefix("data.")
            value = getattr(recipe.data, field)
            if value == type(recipe.data).model_fields[field].default:
                continue
            if column is not None:
                raise ValueError(
                    f"{name} = {shown(value)}: data.text = {column!r} reads a table: leave one out"
                )
            raise ValueError(
                f"{name} = {shown(value)} is for a table: write in data.text the column to read, "
                f"or leave {name} out"
            )

        self._check_shares(recipe)

    def _check_shares(self, recipe: RecipeFields) -> None:
        shares, count = recipe.data.shares, len(recipe.data.sources)
        if not shares:
            return
        if len(shares) != count:
            raise ValueError(
                f"data.share: {len(shares)} of {count} sources have one: write it for all of them, "
                "or for none"
            )
        if abs(sum(shares) - 1) > 1e-6:
            raise ValueError(f"data.share: their sum is {sum(shares):g}: write shares of 1")
        if recipe.data.deduplicate:
            raise ValueError("data.share cannot be combined with data.deduplicate: leave one out")

    def documents(self, recipe: RecipeFields, paths: RunPaths, part: str) -> Iterator[Document]:
        if not recipe.data.deduplicate:
            yield from self._texts(recipe, paths, part)
            return
        unique = Deduplicator()
        if part == "train" and (recipe.data.valid is not None or recipe.data.splits):
            for text in self._texts(recipe, paths, "valid"):  # never train on validation text
                unique.remember(text)
        yield from unique.fresh(self._texts(recipe, paths, part))
        paths.log(f"{part}: {unique}")

    def _texts(self, recipe: RecipeFields, paths: RunPaths, part: str) -> Iterator[str]:
        if recipe.data.text is not None:
            return self._columns(recipe, paths, part)
        return self._documents(recipe, paths, part)

    def _columns(self, recipe: RecipeFields, paths: RunPaths, part: str) -> Iterator[str]:
        """The texts of a labelled table, split as its labels are."""
        path = text_path(paths, recipe.data.part(part)[0])
        for row in split_table(recipe, path, part, paths.log):
            yield from texts_of(row)

    def _documents(self, recipe: RecipeFields, paths: RunPaths, part: str) -> Iterator[str]:
        share = 0.0 if recipe.data.valid is not None else recipe.data.valid_fraction
        for source in recipe.data.part(part):
            for document in self._source(recipe, paths, source):
                if share == 0.0:
                    yield document
                elif source.document == "file":
                    cut = document.find("\n", int(len(document) * (1 - share))) + 1
                    yield document[cut:] if part == "valid" else document[:cut]
                elif is_held(document, share) == (part == "valid"):
                    yield document

    def _source(self, recipe: RecipeFields, paths: RunPaths, source: SourceConfig) -> Iterator[str]:
        path, data = text_path(paths, source), recipe.data
        with skip_or_stop(path, data.skip_bad, paths.log) as bad:
            yield from text.documents(
                path, source.field, ends=source.document, bad=bad, encoding=data.encoding
            )


def text_path(paths: RunPaths, source: SourceConfig) -> Path:
    path = paths.data(source.train)
    if (path / META).is_file():
        raise ConfigError(
            f"{path}: token ids without their text: name their tokenizer in tokenizer.path"
        )
    return path
