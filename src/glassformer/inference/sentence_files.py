"""The files by which sentence-transformers, and `embed` here, know how texts become vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from glassformer.inference.embed import embedding_config

SENTENCE_FILES = (
    "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
    "1_Pooling/config.json",
)  # fmt: skip
MODES = {"first": "cls_token", "last": "lasttoken", "mean": "mean_tokens"}


def sentence_files(
    files: Mapping[str, bytes], how: str, length: int, width: int
) -> dict[str, bytes]:
    """With files that say how; those that say the same already are left as they are."""
    if "modules.json" in files and embedding_config(files, "modules.json").pool == how:
        return dict(files)
    names = {"0": ("", "Transformer"), "1": ("1_Pooling", "Pooling")}
    modules = [
        {"idx": int(i), "name": i, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in names.items()
    ]
    modes = {f"pooling_mode_{name}": name == MODES[how] for name in MODES.values()}
    pooling = {"word_embedding_dimension": width, **modes}
    made = {
        "modules.json": modules,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": length, "do_lower_case": False},
    }
    return {**files, **{name: json.dumps(each, indent=2).encode() for name, each in made.items()}}
