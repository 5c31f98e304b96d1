"""`--dry-run` of `pretrain` and `finetune`: what would be done, down to the first batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glassformer.cli.common import grid, safe, size, visible
from glassformer.config import TaskConfig
from glassformer.data.store import OTHERS
from glassformer.recipe.schema import LABELLED

if TYPE_CHECKING:
    from glassformer.data.batches import PackedRows
    from glassformer.data.objectives import Objective
    from glassformer.model import Batch
    from glassformer.recipe.schema import Recipe
    from glassformer.text import Tokenizer
    from glassformer.train.trainer import Trainer

SHOWN, CHARACTERS = 3, 240  # texts of the first batch, and of each
NONE = -100


def describe(session: Trainer, recipe: Recipe, out: Path, as_json: bool) -> None:
    facts = gather(session, recipe, out)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        _print(facts, Console(highlight=False))


def gather(session: Trainer, recipe: Recipe, out: Path) -> dict[str, Any]:
    from glassformer.sizes import measure
    from glassformer.text import Tokenizer

    task, rows, train = session.state.task, session.rows, recipe.train
    tokenizer = Tokenizer.from_files(session.run.files, str(out))
    assert tokenizer is not None  # noqa: S101
    sizes = measure(task.backbone.config, task.spec)
    plan = rows.plan(0)
    real = int(rows.objective.costs(plan.samples).sum())
    room = len(plan) * rows.budget * (2 if recipe.objective.kind == "translation" else 1)
    return {
        "name": recipe.name,
        "out": str(out),
        "objective": recipe.objective.kind,
        "init_from": recipe.init_from,
        "config": task.backbone.config.model_dump(),
        "parameters": {"bare": sizes.bare, "with_head": sizes.with_head},
        "memory_bytes": memory(session, recipe),
        "data": {
            name: _size(part)
            for name, part in (("train", rows), ("valid", session.valid))
            if part is not None
        },
        "steps": train.steps,
        "rows_a_step": train.micro_batches,
        "row_tokens": rows.budget,
        "tokens_a_step": round(real / len(plan) * train.micro_batches),
        "rows_an_epoch": len(plan),
        "epochs": train.steps * train.micro_batches / len(plan),
        "filler_share": 1 - real / room,
        "left_out": _left_out(rows.objective),
        "first_batch": _first(rows, tokenizer, task.spec),
    }


def memory(session: Trainer, recipe: Recipe) -> dict[str, int]:
    """What the tensors of a step take. Activations are a rough count: they depend on kernels."""
    import torch

    state, train = session.state, recipe.train
    parameters = list(state.task.parameters())
    count = sum(p.numel() for p in parameters)
    learning = 0
    for optimiser in state.optimisers:
        moments = 1 if isinstance(optimiser, torch.optim.Muon) else 2
        held = [p.numel() for group in optimiser.param_groups for p in group["params"]]
        learning += 4 * moments * sum(held)
    found = {
        "weights": sum(p.numel() * p.element_size() for p in parameters),
        "masters": 4 * count if state.weights.copies else 0,
        "gradients": 4 * count * min(2, train.micro_batches // session.world.size),
        "optimiser": learning,
        "average": 4 * count if state.average else 0,
        "activations": _activations(session, recipe),
    }
    return {name: size for name, size in found.items() if size} | {"total": sum(found.values())}


def _activations(session: Trainer, recipe: Recipe) -> int:
    """Of each block: what its norms, maps and MLP need again on the way back. Of each logit:
    12 bytes, for itself and its gradient in the precision of the model and in float32."""
    config = session.state.task.backbone.config
    size = next(session.state.task.parameters()).element_size()
    mlp = config.mlp_width * (4 if config.gated else 2)
    block = 10 * config.width + mlp
    blocks = config.depth * block
    if config.decoder_depth:
        blocks += config.decoder_depth * (block + 6 * config.width)
    if recipe.train.activation_checkpointing:
        blocks = (config.depth + (config.decoder_depth or 0)) * config.width + 2 * block
    masked = recipe.objective.kind in ("masked_lm", "masked_lm_nsp")
    answers = recipe.objective.mask_rate if masked else 1.0
    labelled = recipe.objective.kind in LABELLED
    choices = len(session.state.task.spec.labels) if labelled else config.vocab_size
    logits = answers * choices * 12
    return int(session.rows.budget * (size * blocks + logits))


def _size(rows: PackedRows) -> dict[str, int]:
    store = rows.objective.store
    tokens = sum(sum(each) for name, each in store.meta.tokens.items() if name not in OTHERS)
    return {"documents": store.documents, "tokens": tokens}


def _left_out(objective: Objective) -> dict[str, int]:
    """What the model will not see, or not in one piece; only what there is some of."""
    from glassformer.data.objectives import MaskedPairs

    found = {each.what: each.count for each in objective.left_out()}
    if isinstance(objective, MaskedPairs):
        count = len(objective.store["tokens"])
        found["tokens in no pair (in the first epoch)"] = _unseen(objective, count)
    return {what: count for what, count in found.items() if count}


def _unseen(objective: Objective, count: int) -> int:
    """How many tokens stand in no sample."""
    samples = objective.samples(0)
    seen = np.zeros(count + 1, dtype=np.int64)
    for spans in (samples.first, samples.second):
        if spans is not None:
            np.add.at(seen, spans[:, 0], 1)
            np.add.at(seen, spans.sum(1), -1)
    return int((seen.cumsum()[:-1] == 0).sum())


def _first(rows: PackedRows, tokenizer: Tokenizer, spec: TaskConfig) -> dict[str, Any]:
    row = rows[0]
    batch = row.batch
    assert batch.labels is not None  # noqa: S101
    real = len(rows.plan(0).row(0))
    return {
        "texts": real,
        "tokens": row.tokens,
        "answers": int((batch.labels != NONE).sum()),
        "shown": [
            _text(batch, i, tokenizer, spec) for i in range(min(SHOWN, real * rows.objective.texts))
        ],
    }


def _text(batch: Batch, number: int, tokenizer: Tokenizer, spec: TaskConfig) -> dict[str, Any]:
    """One text of the batch: its tokens, and the answer that is wanted at each, or of all."""
    begin, end = batch.sequences.offsets[number : number + 2].tolist()
    piece = _pieces(tokenizer)
    answers = _answers(batch, number, spec, piece)
    found: dict[str, Any] = {
        "tokens": [piece(i) for i in batch.tokens[begin:end].tolist()],
        "answers": [answers.get(place) for place in range(begin, end)],
    }
    if spec.kind in ("classification", "features"):
        found["label"] = _label(batch, number, spec)
    if batch.next_sentence_labels is not None and int(batch.next_sentence_labels[number]) != NONE:
        found["follows"] = int(batch.next_sentence_labels[number]) == 0
    if batch.source is not None:
        begin, end = batch.source.sequences.offsets[number : number + 2].tolist()
        found["source"] = [piece(i) for i in batch.source.tokens[begin:end].tolist()]
    return found


def _answers(
    batch: Batch, number: int, spec: TaskConfig, piece: Callable[[int], str]
) -> dict[int, str]:
    """By their places in the row."""
    assert batch.labels is not None  # noqa: S101
    if spec.kind in ("classification", "features"):
        return {}
    if spec.kind == "question_answering":
        begin = int(batch.sequences.offsets[number])
        ends = zip(batch.labels[number].tolist(), ("first", "last"), strict=True)
        return {begin + place: what for place, what in ends if place != NONE}
    name = spec.labels.__getitem__ if spec.kind == "token_classification" else piece
    places = (
        range(len(batch.tokens))
        if batch.label_positions is None
        else batch.label_positions.tolist()
    )
    labels = zip(places, batch.labels.tolist(), strict=True)
    return {place: name(label) for place, label in labels if label != NONE}


def _label(batch: Batch, number: int, spec: TaskConfig) -> str:
    """What is wanted of a whole text, or of its pair."""
    assert batch.labels is not None  # noqa: S101
    label = batch.labels[number // 2 if spec.kind == "features" else number]
    if spec.several:
        names = zip(spec.labels, label.tolist(), strict=True)
        return ", ".join(name for name, has in names if has == 1) or "(none)"
    if batch.labels.is_floating_point():
        return f"{label:.4g}"
    return f"pair {label}" if spec.kind == "features" else spec.labels[int(label)]


def _pieces(tokenizer: Tokenizer) -> Callable[[int], str]:
    """A token as it stands in a text; a part of a letter, as the tokenizer calls it."""
    of_bytes = "ByteLevel" in type(tokenizer.backend.decoder).__name__

    def piece(i: int) -> str:
        text = tokenizer.decode([i]) if of_bytes else tokenizer.token(i)
        return text if text and "\ufffd" not in text else tokenizer.token(i)

    return piece


def _print(facts: dict[str, Any], console: Console) -> None:
    origin = f"from {facts['init_from']}" if facts["init_from"] else "from fresh weights"
    title = Text.assemble((facts["name"], "bold cyan"), f"  {facts['objective']}, {origin}")
    console.print(title, soft_wrap=True)
    console.print(grid(_rows(facts)))
    batch = facts["first_batch"]
    many = "1 text" if batch["texts"] == 1 else f"{batch['texts']:,} texts"
    told = f"{many}, {batch['tokens']:,} tokens, {batch['answers']:,} answers (seen←answer)"
    console.print(Text.assemble(("\nThe first row: ", "bold"), told), soft_wrap=True)
    table = Table.grid(padding=(0, 0, 0, 2))
    for number, text in enumerate(batch["shown"], 1):
        lines = [_shown(text)]
        if "source" in text:
            lines.insert(0, _line(text["source"], [None] * len(text["source"])))
        table.add_row(Text(f"{number}", "cyan"), Text("\n").join(lines))
    console.print(table)
    console.print("\nNothing was trained.", style="dim")


def _rows(facts: dict[str, Any]) -> dict[str, str]:
    config, taken = facts["config"], dict(facts["memory_bytes"])
    depths = " + ".join(str(d) for d in (config["depth"], config["decoder_depth"]) if d)
    total = taken.pop("total")
    parts = " + ".join(f"{name} {size(count)}" for name, count in taken.items())
    step = f"{facts['rows_a_step']:,} × {facts['row_tokens']:,} tokens"
    step += " on each side" if facts["objective"] == "translate" else ""
    rows = {
        "model": f"{config['family']}, {depths} blocks, width {config['width']}, "
        f"{config['heads']} heads, {config['vocab_size']:,} pieces",
        "parameters": f"{facts['parameters']['with_head']:,} with the head, "
        f"{facts['parameters']['bare']:,} without",
        "memory": f"about {size(total)}: {parts} (activations are a rough count)",
    }
    for name, part in facts["data"].items():
        many = "1 document" if part["documents"] == 1 else f"{part['documents']:,} documents"
        rows[name] = f"{many}, {part['tokens']:,} tokens"
    rows |= {
        "a step": f"{step}, {facts['tokens_a_step']:,} of them real "
        f"({facts['filler_share']:.1%} of a row stays free)",
        "steps": f"{facts['steps']:,}: {facts['epochs']:.2f} epochs of {facts['rows_an_epoch']:,} "
        "rows",
    }
    left = [f"{count:,} {what}" for what, count in facts["left_out"].items()]
    rows["note"] = "; ".join(left) or "nothing"
    return rows | {"folder": facts["out"]}


def _shown(text: dict[str, Any]) -> Text:
    """cat←dog: the model sees cat and is to tell dog."""
    ahead = all(answer is not None for answer in text["answers"])  # each token tells the next one
    found = _line(text["tokens"], [None if ahead else a for a in text["answers"]])
    if ahead:
        found.append(f" → {visible(text['answers'][-1])}", "bold")
    if "label" in text:
        found.append(f"  → {safe(text['label'])}", "bold green")
    if "follows" in text:
        found.append("  (it follows)" if text["follows"] else "  (it does not follow)", "dim")
    return found


def _line(tokens: list[str], answers: list[str | None]) -> Text:
    found = Text()
    spaces = any(" " in token for token in tokens)
    between = "|" if spaces else " "
    if all(len(token) == 1 for token in tokens):  # characters
        between = ""
    for i, (token, answer) in enumerate(zip(tokens, answers, strict=True)):
        if len(found) > CHARACTERS:
            found.append(f" … ({len(tokens):,} tokens)", "dim")
            break
        found.append(between if i else "", "dim")
        found.append(safe(token), "" if answer is None else "bold")
        if answer is not None:
            found.append(f"←{safe(answer)}", "bold green")
    return found
