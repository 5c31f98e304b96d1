"""Models by name: those that ship with the package, and those of the Hugging Face hub, which are
downloaded on request and opened from disk; and the way back."""

from __future__ import annotations

import os
import re
from pathlib import Path

from glassformer.checkpoint.folder import CONFIG, INDEX, MODULE_FILES, SIDE_FILES, WEIGHTS
from glassformer.errors import CheckpointError, ConfigError, GlassformerError
from glassformer.pretrained import named
from glassformer.version import __version__

NAME = re.compile(r"([A-Za-z0-9][\w.-]{0,95})/[A-Za-z0-9][\w.-]{0,95}")  # OWNER/NAME
ADDRESS = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/([^/]+/[^/?#]+)")
FILES = (
    CONFIG, WEIGHTS, INDEX, "model-*-of-*.safetensors", *SIDE_FILES,
    *(f"[0-9]_*/{name}" for name in MODULE_FILES),
)  # fmt: skip


def find(path: str | os.PathLike[str]) -> Path:
    """`path` if it exists; else the shipped model of this name; else, if it is OWNER/NAME and no
    folder here is called OWNER, the folder downloaded from the hub."""
    if isinstance(path, str) and (address := ADDRESS.match(path)):
        raise CheckpointError(f"{path}: write {address[1]}, the name of this model on the hub")
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
        return Path(snapshot_download(name[0], allow_patterns=list(FILES)))
    except Exception as error:  # the network, a proxy or the hub
        raise CheckpointError(
            f"{path}: no such folder, and the hub did not provide it ({_reason(error)}): check the "
            "name, or download the folder elsewhere and use its path"
        ) from None


def check_name(name: str) -> None:
    """ConfigError if this is no name of a model on the hub."""
    if not NAME.fullmatch(name):
        raise ConfigError(f"{name}: write the model's name on the hub as OWNER/NAME")


def upload(folder: Path, name: str, *, private: bool = False) -> str:
    """Upload a model folder to the hub as OWNER/NAME, in one commit; returns its address.

    The repository is created if there is none. The token is that of `hf auth login`, or HF_TOKEN.
    """
    check_name(name)
    try:
        from huggingface_hub import CommitOperationAdd, HfApi
    except ImportError:
        raise ConfigError("publish needs huggingface_hub: pip install huggingface_hub") from None
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    operations = [CommitOperationAdd(file.relative_to(folder).as_posix(), file) for file in files]
    api = HfApi(library_name="glassformer", library_version=__version__)
    try:
        address = api.create_repo(name, private=private, exist_ok=True)
        api.create_commit(name, operations, commit_message="Upload by glassformer")
    except Exception as error:  # the network, a proxy, the token or the hub
        raise GlassformerError(
            f"{name}: the hub did not take it ({_reason(error)}): log in by `hf auth login` with a "
            f"token that may write to {name.partition('/')[0]}, then run the same command again"
        ) from None
    return str(address)


def _reason(error: Exception) -> str:
    first = next(iter(str(error).splitlines()), "")[:120]
    return f"{type(error).__name__}: {first}"
