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
    first, *more = (source.train for source in data.part(part))
    try:
        files = _by_name(paths.root / first, data.languages)
        for path in more:
            names = _by_name(paths.root / path, data.languages)
            files |= {f"{path}: {name}": file for name, file in names.items()}
        return files
    except InputError as error:
        if not (paths.out / "data" / part / META).is_file():
            raise
        missing = str(error).partition(":")[0]
        paths.log(f"{missing}: not found: the data that was prepared from it is used")
        return None


def _by_name(path: Path, languages: tuple[str, ...]) -> dict[str, Path]:
    if languages:
        return {file.name: file for file in sides(path, languages)}
    files = find_files(path)
    return {
        file.relative_to(path).as_posix() if path.is_dir() else file.name: file for file in files
    }
