"""A model card with what the model itself shows."""

from __future__ import annotations

import json
import re

from glassformer.checkpoint.load import layout_of
from glassformer.config import ModelConfig, TaskConfig
from glassformer.tasks import Task
from glassformer.tasks.quantize import count_parameters, quantization
from glassformer.version import __version__


def model_card(task: Task, title: str, precision: str, folder: str | None = None) -> str:
    """The README.md of a model folder.

    `precision` is the dtype of the saved weights; `folder` the folder's name, if not the title.
    """
    config, spec = task.backbone.config, task.spec
    count = count_parameters(task)
    rows = "\n".join(f"| {key} | {value} |" for key, value in _facts(config, spec).items())
    kind = f"{'An' if config.family == 'encoder' else 'A'} {config.family}"
    return f"""---
library_name: glassformer
---

# {title}

{kind} with {count:,} parameters ({precision}) that gives {spec.traits.gives}.

| | |
|---|---|
{rows}

```python
import glassformer as gf

model = gf.load({json.dumps(folder or title, ensure_ascii=False)})
```

{_layout(task)} It was written by glassformer
{__version__}. This card describes the network, not its training: add the data, its licence
and the limits before you share the model.
"""


def card_for_hub(card: str, name: str) -> str:
    """The card with the model's name on the hub in its example."""
    return re.sub(r"gf\.load\(.*?\)", f"gf.load({json.dumps(name)})", card, count=1)


def _layout(task: Task) -> str:
    if quantization(task) is not None or layout_of(task.backbone.config, task.spec)[0].ours:
        return "The folder is in glassformer's own layout: no other library opens it."
    return "The folder is in the Hugging Face layout: `transformers` opens it, too."


def _facts(config: ModelConfig, spec: TaskConfig) -> dict[str, str]:
    depth = f"{config.depth}"
    if config.family == "seq2seq":
        depth = f"{config.depth} in the encoder, {config.decoder_depth} in the decoder"
    facts = {
        "layers": depth,
        **_sizes(config),
        "positions": config.positions,
        "vocabulary": f"{config.vocab_size:,}",
        "longest text": f"{config.max_length:,} tokens",
    }
    if spec.labels:
        some = ", ".join(_plain(label) for label in spec.labels[:20])
        facts["labels"] = some + (" …" if len(spec.labels) > 20 else "")
    return facts


def _sizes(config: ModelConfig) -> dict[str, str]:
    """Widths and heads; of the decoder, too, if it has others."""
    both = []
    for own in (config, config.output_stack):
        heads = f"{own.heads} of width {own.query_width}"
        if own.group_heads != own.heads:
            heads += f", {own.group_heads} for keys and values"
        both.append({"width": f"{own.width}, feed-forward {own.mlp_width}", "heads": heads})
    return {
        name: mine if mine == its else f"{mine}; in the decoder {its}"
        for (name, mine), its in zip(both[0].items(), both[1].values(), strict=True)
    }


def _plain(label: str) -> str:
    """A label as one short line in a cell of a Markdown table."""
    return " ".join(label[:80].split()).replace("|", "\\|").replace("<", "&lt;")
