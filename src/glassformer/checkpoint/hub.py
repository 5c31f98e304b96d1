"""Models by their name on the Hugging Face hub: fetched when asked for, opened from disk."""

from __future__ import annotations

import os
import re
from pathlib import Path

from glassformer.checkpoint.folder import CONFIG, INDEX, SIDE_FILES, WEIGHTS
from glassformer.errors import CheckpointError

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
FILES = (CONFIG, WEIGHTS, INDEX, "model-*-of-*.safetensors", *SIDE_FILES)


def find(path: str | os.PathLike[str]) -> Path:
    """A path that is there, as it is; else, if it looks like a name of the hub, its folder."""
    if not isinstance(path, str) or not NAME.fullmatch(path) or Path(path).exists():
        return Path(path)
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise CheckpointError(
            f"{path}: no such folder; to fetch it from the hub: pip install huggingface_hub"
        ) from None
    try:
        return Path(snapshot_download(path, allow_patterns=list(FILES)))
    except Exception as error:  # whatever the network, its proxies or the hub say
        why = next(iter(str(error).splitlines()), "")[:120]
        raise CheckpointError(
            f"{path}: no such folder here, and the hub does not give it ({type(error).__name__}: "
            f"{why}): check the name, or fetch the folder where there is a network and give its "
            "path"
        ) from None
