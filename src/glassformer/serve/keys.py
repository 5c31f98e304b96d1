"""Keys from a file: who may use the server, and how much."""

from __future__ import annotations

import hashlib
import hmac
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from glassformer.asgi.requests import Refused
from glassformer.errors import ConfigError
from glassformer.safe_files import read as read_file
from glassformer.strict import Named
from glassformer.strict import read as read_config

MAX_FILE = 1 << 20  # bytes
SHORTEST = 16  # characters of a key
EXAMPLE = '[NAME] with key = "…", a secret of at least 16 characters'


class KeyEntry(Named):
    """One table of the file."""

    key: str = Field(min_length=SHORTEST, max_length=512)
    tokens_per_minute: int | None = Field(None, gt=0)
    admin: bool = False  # it may load and unload models


@dataclass(eq=False)
class ClientKey:
    """A client. Its budget is refilled evenly, and holds at most a minute's tokens."""

    name: str
    digest: bytes
    tokens_per_minute: int | None = None
    budget: float = 0.0  # the tokens that it may use now
    since: float = field(default_factory=time.monotonic)
    admin: bool = False

    def check(self, tokens: int) -> None:
        """Refused with 429 if the budget is spent, with 413 if no budget would do."""
        if self.tokens_per_minute is None:
            return
        if tokens > self.tokens_per_minute:
            raise Refused(
                413, f"the request may need {tokens:,} tokens and this key may use "
                f"{self.tokens_per_minute:,} per minute: send less",
            )  # fmt: skip
        now = time.monotonic()
        refill = (now - self.since) * self.tokens_per_minute / 60
        self.budget, self.since = min(self.tokens_per_minute, self.budget + refill), now
        if tokens > self.budget:
            missing = tokens - self.budget
            wait = str(max(1, round(missing * 60 / self.tokens_per_minute)))
            line = f"this key may use {self.tokens_per_minute:,} tokens per minute: wait {wait} s"
            raise Refused(429, line, {"retry-after": wait})

    def spend(self, tokens: int) -> None:
        """Negative tokens are a refund."""
        if self.tokens_per_minute is not None:
            self.budget -= tokens


class Keys:
    """All keys. Without any, everybody who reaches the server may use it."""

    def __init__(self, keys: list[ClientKey]) -> None:
        self.keys = keys

    def __bool__(self) -> bool:
        return bool(self.keys)

    def find(self, secret: str) -> ClientKey | None:
        """The key with this secret. The time depends neither on the secret nor on a match."""
        digest = _digest(secret)
        match = None
        for key in self.keys:
            if hmac.compare_digest(key.digest, digest):
                match = key
        return match


def read_keys(path: Path) -> Keys:
    """The keys in a TOML file; ConfigError says what to write."""
    data = read_file(path.parent, path.name, MAX_FILE)
    if data is None:
        raise ConfigError(f"--keys {path}: no such file: write a TOML file with {EXAMPLE}")
    try:
        tables = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        # The parser's own message could quote a key.
        raise ConfigError(f"--keys {path}: this is not TOML: write {EXAMPLE}") from None
    keys = []
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"--keys {path}: {name} is not a table: write {EXAMPLE}")
        secret = table.get("key")
        if not isinstance(secret, str) or not SHORTEST <= len(secret) <= 512:
            raise ConfigError(f"--keys {path}: [{name}]: key: write {SHORTEST} to 512 characters")
        unknown = sorted(table.keys() - KeyEntry.model_fields.keys())
        if unknown:  # its value may be a secret
            fields = " and ".join(KeyEntry.model_fields)
            raise ConfigError(
                f"--keys {path}: [{name}]: unknown field {unknown[0]!r}: there are {fields}"
            )
        entry = read_config(KeyEntry, table, f"--keys {path}: [{name}]")
        limit, admin = entry.tokens_per_minute, entry.admin
        keys.append(ClientKey(name, _digest(entry.key), limit, float(limit or 0), admin=admin))
    if not keys:
        raise ConfigError(f"--keys {path}: there is no key in it: write {EXAMPLE}")
    if len({key.digest for key in keys}) < len(keys):
        raise ConfigError(f"--keys {path}: two names have the same key: write another one")
    return Keys(keys)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
