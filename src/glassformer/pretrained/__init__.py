"""Small models that come with the package, each in a folder of its name, with its card."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

HOME = Path(__file__).parent


def shipped() -> dict[str, Path]:
    """Those that are here, by name."""
    found = sorted(HOME.iterdir()) if HOME.is_dir() else ()  # inside a zip there are no folders
    return {each.name: each for each in found if (each / "config.json").is_file()}


def nearly(name: str) -> str:
    """What an error adds for a name that is nearly one of ours."""
    near = difflib.get_close_matches(name, shipped(), 1, 0.8)
    return f"did you mean {near[0]}, which comes with the package?" if near else ""


def named(path: str | os.PathLike[str]) -> Path:
    """A path that is there, as it is; else the folder of the shipped model of this name, if any."""
    path = os.path.expanduser(path)  # noqa: PTH111 - these two take any string, unlike Path's
    if os.path.exists(path):  # noqa: PTH110
        return Path(path)
    # By the list of names: a file system may find a folder in spite of its case.
    return shipped().get(path, Path(path))
