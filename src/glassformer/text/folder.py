"""Tokenizer folders: open one, write one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from glassformer.durable import remove, write_whole
from glassformer.errors import CheckpointError, ConfigError
from glassformer.pretrained import named
from glassformer.safe_files import read
from glassformer.text.sentencepiece import MODEL_FILES
from glassformer.text.tokenizer import Tokenizer

FILES = (
    "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "tokenizer_config.json",
    *MODEL_FILES,
)  # fmt: skip
OLD_FILES = ("special_tokens_map.json", "added_tokens.json")  # they would contradict the new ones
MAX_BYTES = 32 << 20  # of one file


def open_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a folder, or of a model that comes with the package."""
    folder = named(folder)
    content = {name: read(folder, name, MAX_BYTES) for name in FILES}
    files = {name: data for name, data in content.items() if data is not None}
    tokenizer = Tokenizer.from_files(files, f"{folder}")
    if tokenizer is None:
        raise CheckpointError(f"{folder}: there is no tokenizer.json: give a folder that has one")
    return tokenizer


def check_writable(folder: Path, *, force: bool = False) -> None:
    """ConfigError, before any work, if a tokenizer is there or the folder cannot be written."""
    existing = [name for name in (*FILES, *OLD_FILES) if (folder / name).exists()]
    if existing and not force:
        raise ConfigError(f"{folder}: {existing[0]} exists: write --force to replace the tokenizer")
    home = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not home.is_dir() or not os.access(home, os.W_OK):
        raise ConfigError(f"{folder}: {home} is not a folder that can be written")


def write_tokenizer(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write these files, and remove other tokenizer files that are there."""
    for name, data in files.items():
        write_whole(folder / name, data)
    for name in {*FILES, *OLD_FILES} - files.keys():
        remove(folder / name)
