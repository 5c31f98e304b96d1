"""Our own layout, for encoders that no other can store: fields and tensors have our names.

It is used for static vectors, and for attention over the words and sentences of documents.
"""

from typing import Any

from pydantic_core import PydanticUndefined

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import REQUIRED, Key
from glassformer.checkpoint.rows import Row
from glassformer.config import DropoutRates, ModelConfig, RotaryScaling, TokenIds
from glassformer.strict import Strict

GROUPS: dict[str, type[Strict]] = {
    "rotary_scaling": RotaryScaling, "dropout": DropoutRates, "ids": TokenIds,
}  # fmt: skip
BODY = (
    "embedding.token.weight", "embedding.position.weight", "embedding.segment.weight",
    "embedding.norm.*", "embedding.project.*", "relative.table.weight",
    "distances.table.weight", "distances.norm.*",
    "blocks.{}.attention.query.*", "blocks.{}.attention.key.*", "blocks.{}.attention.value.*",
    "blocks.{}.attention.output.*", "blocks.{}.attention.query_norm.*",
    "blocks.{}.attention.key_norm.*", "blocks.{}.attention_norm.*",
    "blocks.{}.attention_out_norm.*", "blocks.{}.mlp.gate.*", "blocks.{}.mlp.up.*",
    "blocks.{}.mlp.down.*", "blocks.{}.mlp_norm.*", "blocks.{}.mlp_out_norm.*", "norm.*",
)  # fmt: skip
LABELS = (
    "important.words.vectors", "important.map.*", "important.sentences.vectors", "labels.linear.*",
)  # fmt: skip


def _rows(names: tuple[str, ...], home: str = "") -> tuple[Row, ...]:
    return tuple(Row(home + name, home + name) for name in names)


def _keys() -> tuple[Key, ...]:
    """A key for each field, in the order of the config."""
    keys = []
    for name, field in ModelConfig.model_fields.items():
        if name in GROUPS:
            inside = GROUPS[name].model_fields.items()
            keys += [Key(f"{name}.{leaf}", f"{name}.{leaf}", f.default) for leaf, f in inside]
        elif name != "family":
            default: Any = field.default
            keys.append(Key(name, name, REQUIRED if default is PydanticUndefined else default))
    return tuple(keys)


OWN = Architecture(
    model_type="glassformer",
    prefix="",
    rows=_rows(BODY, "backbone.encoder."),
    heads={
        "Features": Head("features"),
        "Classification": Head(
            "classification",
            _rows(LABELS),
            dropout=("label_dropout",),
            pool=("pool", {name: name for name in ("mean", "words", "hierarchy")}),
        ),
    },
    keys=_keys(),
    constants={"family": "encoder"},
    fixed={},
    tables=True,
    ours=True,
)
