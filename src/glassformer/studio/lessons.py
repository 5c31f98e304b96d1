"""Lessons and glossary: data in two TOML files beside this one, read once."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

from glassformer.studio.page_schemas import Glossary, Lessons

HOME = Path(__file__).parent


@functools.cache
def lessons() -> Lessons:
    return Lessons.model_validate(_read("lessons.toml"))


@functools.cache
def glossary() -> Glossary:
    return Glossary.model_validate(_read("glossary.toml"))


def _read(name: str) -> dict[str, object]:
    return tomllib.loads((HOME / name).read_text("utf-8"))
