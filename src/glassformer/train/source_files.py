"""The files that a run's data is read from."""

from __future__ import annotations

from pathlib import Path

from glassformer.data.readers.files import find_files
from glassformer.data.readers.parallel import sides
from glassformer.data.run_paths import RunPaths
from glassformer.data.store import META
from glassformer.errors import InputError
from glassformer.fields import DataConfig


def source_files(data: DataConfig, paths: RunPaths, part: str) -> dict[str, Path] | None:
    """The files of "train" or "valid" by name, so that the data root may move; None if all of them
    are gone and prepared data is there."""
    sources = [source.train for source in data.part(part)]
    fields = ["data.train", *(f"data.more[{i}].train" for i in range(len(data.more)))]
    if part == "valid" and data.valid is not None:
        fields = ["data.valid"]
    files: dict[str, Path] = {}
    try:
        for number, (field, source) in enumerate(zip(fields, sources, strict=True)):
            for name, file in _by_name(paths, field, source, data.languages).items():
                files[f"{source}: {name}" if number else name] = file
    except InputError as error:
        if not (paths.out / "data" / part / META).is_file():
            raise
        paths.log(f"{error}: the data that was prepared from it is used")
        return None
    return files


def _by_name(
    paths: RunPaths, field: str, source: str, languages: tuple[str, ...]
) -> dict[str, Path]:
    if languages:
        return {file.name: file for file in sides(paths.data(source), languages)}
    path = paths.find(field, source)
    files = find_files(path)
    return {
        file.relative_to(path).as_posix() if path.is_dir() else file.name: file for file in files
    }
