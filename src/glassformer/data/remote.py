"""Data at an address (s3://…, https://…, gs://…): fetched by fsspec, then read like local files.

~/.cache/glassformer/remote/KEY/   the files of one address; the key changes if they do

Each file appears whole, and is fetched once on each machine. Nothing is ever written to an address.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from glassformer.durable import replacing
from glassformer.errors import ConfigError, InputError, check_installed

ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://")  # C:\ has one letter
PART = 2**20  # bytes that are in memory


def is_address(text: str | os.PathLike[str]) -> bool:
    return isinstance(text, str) and ADDRESS.match(text) is not None


@cache  # so that a job reads one version from its start to its end
def fetch(address: str) -> Path:
    """The file, or the folder of files, at an address."""
    check_installed(address, "remote", "fsspec")
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(address)
        single = system.info(path)["type"] == "file"
        if single:  # after the name, a web address may have a query
            name = PurePosixPath(urlsplit(path).path if "://" in path else path).name
            files = {name: path}
        else:
            start = path.rstrip("/") + "/"
            files = {name.removeprefix(start): name for name in sorted(system.find(path))}
        versions = [f"{name} {system.ukey(each)}" for name, each in files.items()]
        key = hashlib.sha256("\n".join([address, *versions]).encode()).hexdigest()[:16]
        folder = _cache() / key
        for name, each in files.items():
            _copy(system, each, folder, name, address)
    except (ConfigError, InputError):
        raise
    except ImportError as error:  # of the package for this kind of address
        raise ConfigError(
            f"{address}: {' '.join(str(error).split())}: pip install 'glassformer[remote]' has "
            "what s3:// and https:// need"
        ) from None
    except FileNotFoundError as error:
        why = f" ({error.__cause__})" if isinstance(error.__cause__, OSError) else ""
        raise InputError(f"File not found: {address}{why}") from None
    except Exception as error:  # each kind of storage raises its own
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{address}: cannot be read: {reason:.300}") from None
    if not files:
        raise InputError(f"File not found: {address}")
    return folder / next(iter(files)) if single else folder


def _copy(system: Any, source: str, folder: Path, name: str, address: str) -> None:
    """Fetch one file, unless it is there already."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute() or "\\" in name:
        raise InputError(f"{address}: {name!r} is not the name of a file: write that of a file")
    target = folder.joinpath(*parts)
    if target.is_file():
        return
    with system.open(source, "rb") as stream, replacing(target) as file:
        while data := stream.read(PART):
            file.write(data)


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "glassformer" / "remote"
