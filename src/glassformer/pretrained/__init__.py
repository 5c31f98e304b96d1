"""Small models and a training run that ship with the package, each in a folder of its name."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

HOME = Path(__file__).parent
# Who owns a model on the hub that others also call by a name alone.
OWNERS = {
    "openai-community": "gpt2 gpt2-medium gpt2-large gpt2-xl",
    "google-bert": "bert-base-uncased bert-base-cased bert-large-uncased bert-large-cased "
    "bert-base-multilingual-cased",
    "FacebookAI": "roberta-base roberta-large xlm-roberta-base",
    "distilbert": "distilbert-base-uncased distilbert-base-cased distilgpt2 distilroberta-base",
    "google-t5": "t5-small t5-base t5-large",
}


def shipped() -> dict[str, Path]:
    """The folders of the shipped models, by name."""
    folders = sorted(HOME.iterdir()) if HOME.is_dir() else ()  # a zipped package has none
    return {path.name: path for path in folders if (path / "config.json").is_file()}


def shipped_runs() -> dict[str, Path]:
    """The folders of the shipped training runs, by name."""
    folders = sorted(HOME.iterdir()) if HOME.is_dir() else ()
    return {path.name: path for path in folders if (path / "recipe.toml").is_file()}


def loadable() -> dict[str, Path]:
    """The folders of all shipped models by name, those of shipped training runs included."""
    return {**{name: run / "model" for name, run in shipped_runs().items()}, **shipped()}


def nearly(path: Path) -> str:
    """A hint for an error message: a shipped model of a similar name, one of the hub, or a
    neighbour; or empty."""
    if near := difflib.get_close_matches(str(path), loadable(), 1, 0.8):
        return f"did you mean {near[0]}, which ships with the package?"
    owner = next((owner for owner, names in OWNERS.items() if str(path) in names.split()), None)
    if owner is not None:
        return f"write {owner}/{path} for the model of the hub, or the path of a folder"
    try:
        neighbours = [each.name for each in path.parent.iterdir()]
    except (OSError, ValueError):
        return ""
    near = difflib.get_close_matches(path.name, neighbours, 1, 0.7)
    return f"did you mean {path.with_name(near[0])}?" if near else ""


def named(path: str | os.PathLike[str]) -> Path:
    """`path` if it exists, or the folder of the shipped model of this name, or else `path`."""
    path = os.path.expanduser(path)  # noqa: PTH111 - these two take any string, unlike Path's
    if os.path.exists(path):  # noqa: PTH110
        return Path(path)
    # By the list of names: some file systems ignore case.
    return loadable().get(path, Path(path))
