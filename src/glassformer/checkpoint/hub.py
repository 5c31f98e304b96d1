"""Models by name: those that ship with the package, and those of the Hugging Face hub, which are
downloaded on request and opened from disk."""

from __future__ import annotations

import os
import re
from pathlib import Path

from glassformer.checkpoint.folder import CONFIG, INDEX, SIDE_FILES, WEIGHTS
from glassformer.errors import CheckpointError
from glassformer.pretrained import named

NAME = re.compile(r"([A-Za-z0-9][\w.-]{0,95})/[A-Za-z0-9][\w.-]{0,95}")  # OWNER/NAME
FILES = (CONFIG, WEIGHTS, INDEX, "model-*-of-*.safetensors", *SIDE_FILES)


def find(path: str | os.PathLike[str]) -> Path:
    """`path` if it exists; else the shipped model of this name; else, if it is OWNER/NAME and no
    folder here is called OWNER, the folder downloaded from the hub."""
    here = named(path)
    name = NAME.fullmatch(path) if isinstance(path, str) else None
    if name is None or here.exists() or Path(name[1]).exists():
        return here
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise CheckpointError(
            f"{path}: no such folder; to download it from the hub: pip install huggingface_hub"
        ) from None
    try:
        return Path(snapshot_download(path, allow_patterns=list(FILES)))
    except Exception as error:  # the network, a proxy or the hub
        why = next(iter(str(error).splitlines()), "")[:120]
        raise CheckpointError(
            f"{path}: no such folder, and the hub did not provide it ({type(error).__name__}: "
            f"{why}): check the name, or download the folder elsewhere and use its path"
        ) from None
