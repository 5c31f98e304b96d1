"""The peer of finetune.py: transformers in a plain training loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from glassformer.distributed import DistributedContext
from glassformer.evaluation import metrics
from glassformer.objectives.labelled import LabelledEvaluator
from glassformer.recipe.schema import Recipe
from glassformer.train.optim.schedule import share

WARM = 5  # steps before the clock starts
SOME = 200  # steps to measure the compiled peer; its accuracy is that of the eager one
LONGEST = 30  # tokens of the peer's answers
CUDA = torch.cuda.is_available()
settle = torch.cuda.synchronize if CUDA else lambda: None
Rows = list[dict[str, Any]]  # tokenised texts: lists of numbers, and single numbers
Batch = dict[str, torch.Tensor]


@dataclass
class Done:
    metrics: dict[str, float]
    seconds: float  # for all steps, at the speed after the first few
    first: float  # for the first few steps: compilation


@dataclass
class Prepared:
    """The training and evaluation data of both sides."""

    recipe: Recipe
    world: DistributedContext
    documents: list[Any]
    measured: LabelledEvaluator
    batch: int  # texts in a step


def timed(steps: Iterator[Any], count: int) -> tuple[float, float]:
    """Seconds of `count` steps at the speed of all but the first, and seconds of the first."""
    begin = time.perf_counter()
    for _ in range(WARM):
        next(steps)
    settle()
    middle = time.perf_counter()
    for _ in steps:
        pass
    settle()
    later = time.perf_counter() - middle
    return later * count / (count - WARM), middle - begin


def theirs(prepared: Prepared, seed: int, model: Path, compiled: bool) -> Done:
    torch.manual_seed(seed)
    recipe, device = prepared.recipe, prepared.world.device
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    kind = KINDS[recipe.objective.kind]
    rows = kind.rows(recipe, tokenizer, prepared.documents)
    rates = recipe.model["dropout"]
    net = kind.model.from_pretrained(
        model, dtype=torch.float32, num_labels=len(prepared.measured.labels) or 2,
        attention_probs_dropout_prob=rates["attention"], hidden_dropout_prob=rates["residual"],
    ).to(device).train()  # fmt: skip
    batches = list(laid_out(rows, prepared.batch, recipe.train.steps, seed))
    if device.type == "cuda":
        batches = [{name: t.pin_memory() for name, t in batch.items()} for batch in batches]
    call = torch.compile(net, dynamic=True) if compiled else net
    if compiled:
        batches = batches[:SOME]
    else:
        meet(net, batches, recipe, device)
    seconds, first = timed(learn(net, call, batches, prepared), len(batches))
    with torch.no_grad():
        values = {} if compiled else kind.metrics(net.eval(), tokenizer, prepared)
    return Done(values, seconds * recipe.train.steps / len(batches), first)


def laid_out(rows: Rows, size: int, steps: int, seed: int) -> Iterator[Batch]:
    """Batches for all steps: shuffled, and sorted by length within 50 batches."""
    draw, count = np.random.default_rng(seed), 0
    while count < steps:
        order = draw.permutation(len(rows))
        runs = [order[i : i + 50 * size] for i in range(0, len(order), 50 * size)]
        order = np.concatenate([sorted(r, key=lambda i: -len(rows[i]["input_ids"])) for r in runs])
        for which in draw.permutation(-(-len(order) // size))[: steps - count]:
            count += 1
            yield padded([rows[i] for i in order[which * size : (which + 1) * size]])


def padded(rows: Rows) -> Batch:
    longest = max(len(row["input_ids"]) for row in rows)
    batch = {}
    for name, first in rows[0].items():
        if isinstance(first, int):
            batch[name] = torch.tensor([row[name] for row in rows])
            continue
        fill = [-100 if name == "labels" else 0]
        lists = [row[name] + fill * (longest - len(row[name])) for row in rows]
        batch[name] = torch.tensor(lists)
    return batch


def meet(net: Any, batches: list[Batch], recipe: Recipe, device: torch.device) -> None:
    """A forward and backward pass on one batch of each shape."""
    for batch in {batch["input_ids"].shape: batch for batch in batches}.values():
        with autocast(recipe, device):
            net(**moved(batch, device)).loss.backward()
    net.zero_grad()


def learn(net: Any, call: Any, batches: list[Batch], prepared: Prepared) -> Iterator[None]:
    recipe, device, train = prepared.recipe, prepared.world.device, prepared.recipe.train
    parts: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    for parameter in net.parameters():
        parts[parameter.dim() >= 2].append(parameter)
    optimiser = torch.optim.AdamW(
        [{"params": parts[True], "weight_decay": train.weight_decay},
         {"params": parts[False], "weight_decay": 0.0}],
        lr=train.learning_rate, betas=train.betas, eps=train.eps, fused=True,
    )  # fmt: skip
    for step, batch in enumerate(batches):
        rate = train.learning_rate * share(
            train.schedule, step, steps=train.steps, warmup=train.warmup,
            decay=train.decay_fraction, final=train.min_lr_ratio,
        )  # fmt: skip
        for group in optimiser.param_groups:
            group["lr"] = rate
        with autocast(recipe, device):
            loss = call(**moved(batch, device)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), train.max_grad_norm)
        optimiser.step()
        optimiser.zero_grad()
        yield


def autocast(recipe: Recipe, device: torch.device) -> torch.autocast:
    half = recipe.train.precision == "bfloat16"
    return torch.autocast(device.type, torch.bfloat16, enabled=half)


def moved(batch: Batch, device: torch.device) -> Batch:
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


def scores(net: Any, prepared: Prepared, rows: Rows, *names: str) -> Iterator[list[torch.Tensor]]:
    """The peer's prediction for each row; rows of similar length are batched."""
    order = sorted(range(len(rows)), key=lambda i: -len(rows[i]["input_ids"]))
    predictions: dict[int, list[torch.Tensor]] = {}
    for at in range(0, len(order), 256):
        part = order[at : at + 256]
        batch = moved(padded([rows[i] for i in part]), prepared.world.device)
        with autocast(prepared.recipe, prepared.world.device):
            output = net(**batch)
        outputs = zip(*(output[name].float().cpu() for name in names), strict=True)
        predictions |= {i: list(each) for i, each in zip(part, outputs, strict=True)}
    yield from (predictions[i] for i in range(len(rows)))


# what a text, its tags or its answer are to transformers


def text_rows(recipe: Recipe, tokenizer: Any, documents: Sequence[Any]) -> Rows:
    sides = map(list, zip(*(each.texts for each in documents), strict=True))
    read = tokenizer(*sides, truncation=True, max_length=recipe.objective.length)
    rows = [dict(zip(read, values, strict=True)) for values in zip(*read.values(), strict=True)]
    return [row | {"labels": int(each.label)} for row, each in zip(rows, documents, strict=True)]


def text_metrics(net: Any, tokenizer: Any, prepared: Prepared) -> dict[str, float]:
    rows = text_rows(prepared.recipe, tokenizer, prepared.measured.documents)
    predictions = torch.stack([each.argmax() for (each,) in scores(net, prepared, rows, "logits")])
    targets = torch.tensor([row["labels"] for row in rows])
    return metrics.of_classes(predictions, targets, len(prepared.measured.labels))


def tag_rows(recipe: Recipe, tokenizer: Any, documents: Sequence[Any]) -> Rows:
    rows = []
    for each in documents:
        read = tokenizer(
            list(each.words), is_split_into_words=True, truncation=True,
            max_length=recipe.objective.length,
        )  # fmt: skip
        before, tags = [None, *read.word_ids()], []
        for i, word in enumerate(read.word_ids()):
            tags.append(-100 if word is None or word == before[i] else each.tags[word])
        rows.append({**read, "labels": tags})
    return rows


def tag_metrics(net: Any, tokenizer: Any, prepared: Prepared) -> dict[str, float]:
    rows = tag_rows(prepared.recipe, tokenizer, prepared.measured.documents)
    names = [*prepared.measured.labels]
    predictions, targets = [], []
    for row, (logits,) in zip(rows, scores(net, prepared, rows, "logits"), strict=True):
        places = [i for i, tag in enumerate(row["labels"]) if tag != -100]
        predictions.append([names[i] for i in logits[places].argmax(-1).tolist()])
        targets.append([names[row["labels"][i]] for i in places])
    return metrics.of_tags(predictions, targets, names)


def windows(recipe: Recipe, tokenizer: Any, asked: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """A question with each part of its context, and the offsets of the context's tokens."""
    read = tokenizer(
        asked.question, asked.context, truncation="only_second", stride=recipe.objective.overlap,
        max_length=recipe.objective.length, return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )  # fmt: skip
    for i, offsets in enumerate(read["offset_mapping"]):
        places = [o if s == 1 else None for o, s in zip(offsets, read.sequence_ids(i), strict=True)]
        names = ("input_ids", "token_type_ids", "attention_mask")
        yield {name: read[name][i] for name in names}, places


def answer_rows(recipe: Recipe, tokenizer: Any, documents: Sequence[Any]) -> Rows:
    rows = []
    for each in documents:
        for row, places in windows(recipe, tokenizer, each):
            row |= {"start_positions": 0, "end_positions": 0}
            if each.answers:
                text, begin = each.answers[0]
                inside = [
                    i for i, place in enumerate(places)
                    if place and place[0] < begin + len(text) and place[1] > begin
                ]  # fmt: skip
                known = [place for place in places if place]
                if inside and known[0][0] <= begin and begin + len(text) <= known[-1][1]:
                    row |= {"start_positions": inside[0], "end_positions": inside[-1]}
            rows.append(row)
    return rows


def answer_metrics(net: Any, tokenizer: Any, prepared: Prepared) -> dict[str, float]:
    asked = prepared.measured.documents
    parts = [
        (number, row, places)
        for number, each in enumerate(asked)
        for row, places in windows(prepared.recipe, tokenizer, each)
    ]
    predictions = scores(net, prepared, [row for _, row, _ in parts], "start_logits", "end_logits")
    best = [(-np.inf, "")] * len(asked)
    for (number, _, places), (starts, ends) in zip(parts, predictions, strict=True):
        outside = torch.tensor([place is None for place in places])
        starts, ends = (each[: len(places)].masked_fill(outside, -1e9) for each in (starts, ends))
        size = torch.arange(len(places))[None] - torch.arange(len(places))[:, None]
        wrong = (size < 0) | (size >= LONGEST)
        pairs = (starts[:, None] + ends[None]).masked_fill(wrong, -np.inf)
        first, last = divmod(int(pairs.argmax()), len(places))
        score = float(pairs[first, last])
        if score > best[number][0] and places[first] and places[last]:
            best[number] = score, asked[number].context[places[first][0] : places[last][1]]
    targets = [[text for text, _ in each.answers] for each in asked]
    return metrics.of_answers([text for _, text in best], targets)


@dataclass(frozen=True)
class Kind:
    model: Any
    rows: Callable[[Recipe, Any, Sequence[Any]], Rows]
    metrics: Callable[[Any, Any, Prepared], dict[str, float]]


KINDS = {
    "classification": Kind(
        transformers.AutoModelForSequenceClassification, text_rows, text_metrics
    ),
    "token_classification": Kind(
        transformers.AutoModelForTokenClassification, tag_rows, tag_metrics
    ),
    "question_answering": Kind(
        transformers.AutoModelForQuestionAnswering, answer_rows, answer_metrics
    ),
}
