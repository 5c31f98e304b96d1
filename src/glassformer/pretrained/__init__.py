"""Small models that come with the package, each in a folder of its name, with its card."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path


def shipped() -> dict[str, Path]:
    """Those that are here, by name."""
    home = Path(str(files(__name__)))
    found = sorted(home.iterdir()) if home.is_dir() else ()  # inside a zip there are no folders
    return {each.name: each for each in found if (each / "config.json").is_file()}


def named(path: str | os.PathLike[str]) -> Path:
    """A path that is there, as it is; else the folder of the shipped model of this name, if any."""
    there = os.path.exists(path)  # noqa: PTH110 - unlike Path's, it takes any string
    return Path(path) if there else shipped().get(os.fspath(path), Path(path))
