"""A run once more with its words in another order: what changes, with and without positions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.glass import Edit, Trace, weights
from glassformer.glass.stacks import StackName, stacks
from glassformer.loaded import Model, record
from glassformer.studio.cache import RecentCache
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.page_schemas import ShuffleRequest, ShuffleRow
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import Predictions, Token, TokenPrediction
from glassformer.studio.views.encode import to_bytes
from glassformer.studio.views.predictions import predictions

MAX_ENTRIES, MAX_BYTES = 16, 256 << 20


@dataclass(frozen=True, eq=False)
class ShuffledRun:
    """The weights of one text in two orders; both are indexed by the original order."""

    id: str
    request: ShuffleRequest
    row: ShuffleRow
    before: dict[StackName, Tensor]  # (L, H, T, S)
    after: dict[StackName, Tensor]

    @property
    def bytes(self) -> int:
        return sum(t.nbytes for weights in (self.before, self.after) for t in weights.values())


class ShuffledRuns(RecentCache[ShuffledRun]):
    def __init__(self) -> None:
        super().__init__(MAX_ENTRIES, MAX_BYTES)

    def add(self, run: RecordedRun, request: ShuffleRequest, progress: JobMonitor) -> ShuffledRun:
        return self.put(shuffle(run, request, f"s{self.next_number()}", progress))


def shuffle(
    run: RecordedRun, request: ShuffleRequest, id: str, progress: JobMonitor
) -> ShuffledRun:
    """Run the same words in a random order; a decoder's last word stays last.

    Raises InputError for a pair of texts, and Cancelled once the client has left.
    """
    model = run.loaded_model
    config = model.task.backbone.config
    if config.family == "encoder" and run.request.second is not None:
        raise InputError("only a single text can be shuffled: remove the second one")
    side: StackName = "decoder" if config.family == "decoder" else "encoder"
    tokens = run.tokens[side]
    order = reorder(tokens, request.seed, last_stays=side == "decoder")
    edit = dict(run.edit) if request.positions else {**run.edit, **no_positions(model)}
    answers, attention = {}, {}
    for done, (name, places) in enumerate((("before", sorted(order)), ("after", order))):
        progress.report("run", done, 2)
        answers[name], attention[name] = _run_in_order(run, places, _moved(edit, side, places))
    moved = {
        stack: float((attention["after"][stack] - before).abs().sum(-1).mean() / 2)
        for stack, before in attention["before"].items()
    }
    row = ShuffleRow(
        shuffle=id,
        order=order,
        after=[tokens[i] for i in order],
        predictions=answers["before"],
        predictions_after=answers["after"],
        moved=moved,
    )
    return ShuffledRun(id, request, row, attention["before"], attention["after"])


def reorder(tokens: list[Token], seed: int, *, last_stays: bool) -> list[int]:
    """The token for each position: words move as a whole, special tokens stay.

    Raises InputError if there are no two different words.
    """
    words = [[i for i, _ in group] for _, group in groupby(enumerate(tokens), key=_word)]
    free = [n for n, places in enumerate(words) if not tokens[places[0]].special]
    free = free[:-1] if last_stays else free
    if len({tuple(tokens[i].piece for i in words[n]) for n in free}) < 2:
        raise InputError("there is nothing to shuffle: write a few more words")
    draw, order = random.Random(seed), list(free)  # noqa: S311 - no secret
    while order == free:
        draw.shuffle(order)
    replaced = dict(zip(free, order, strict=True))
    return [i for n in range(len(words)) for i in words[replaced.get(n, n)]]


def _word(numbered: tuple[int, Token]) -> tuple[str, int]:
    """The key that groups pieces into words; a special token is a group by itself."""
    i, token = numbered
    return ("special", i) if token.word is None else ("word", token.word)


def _moved(edit: Edit, side: StackName, order: list[int]) -> Edit:
    """Edits of single tokens move with their tokens; ablated heads have no position."""
    back = torch.tensor(order).argsort().tolist()

    def follow(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda x: change(x[back])[order]

    per_token = (f"{side}.embedding.tokens", f"{side}.blocks.*.out")
    return {
        name: follow(change)
        if callable(change) and any(fnmatchcase(name, pattern) for pattern in per_token)
        else change
        for name, change in edit.items()
    }


def _run_in_order(
    run: RecordedRun, order: list[int], edit: Edit
) -> tuple[Predictions, dict[StackName, Tensor]]:
    """Predictions and weights with the tokens in this order, indexed by the original order."""
    trace, model = run.trace, run.loaded_model
    is_seq2seq = model.task.backbone.config.family == "seq2seq"
    own = token_ids(model, trace.tokens)
    moved = [(token_ids(model, trace.source_tokens) if is_seq2seq else own)[i] for i in order]
    keep = ("*.weights", "logits")
    shuffled = record(model, (moved, own) if is_seq2seq else moved, keep=keep, edit=edit)
    answer = predictions(model, shuffled, own if is_seq2seq else moved, run.target)
    at = answer.at if is_seq2seq or answer.kind == "label" else _original(answer.at, order)
    if answer.kind == "next":
        # Only the last token has the same words before it in both orders.
        at = [each for each in at if each.token == len(order) - 1]
    attention = {
        stack: _original_weights(shuffled, stack, order, is_seq2seq) for stack in stacks(shuffled)
    }
    return answer.model_copy(update={"at": at}), attention


def _original(at: Iterable[TokenPrediction], order: list[int]) -> list[TokenPrediction]:
    renumbered = (each.model_copy(update={"token": order[each.token]}) for each in at)
    return sorted(renumbered, key=lambda each: each.token)


def _original_weights(
    trace: Trace, stack: StackName, order: list[int], is_seq2seq: bool
) -> Tensor:  # (L, H, T, S)
    """Rows and columns in the original order."""
    heads = weights(trace, stack).cpu()
    back = torch.tensor(order).argsort()
    if stack == "encoder" or not is_seq2seq:
        heads = heads[:, :, back]
    return heads if stack == "decoder" and is_seq2seq else heads[..., back]


def token_ids(model: Model, pieces: list[str]) -> list[int]:
    """The ids of a trace's tokens."""
    tokenizer = model.tokenizer
    return [int(each) if tokenizer is None else tokenizer.id(each) or 0 for each in pieces]


def no_positions(model: Model) -> dict[str, Callable[[Tensor], Tensor]]:
    """Edits that remove all position information from a model."""
    config = model.task.backbone.config
    if config.position == "rotary":
        local = config.window is not None and config.local_rotary_base is not None
        names = ("*.rotation", *(("*.local_rotation",) if local else ()))
        return dict.fromkeys(names, _no_rotation)
    placed = ("*.embedding.positions",) if config.position in ("learned", "sinusoidal") else ()
    distant = {
        "bias": ("*.relative*.bias",),
        "disentangled": ("*.content_to_position", "*.position_to_content"),
        None: (),
    }[config.distances]
    return dict.fromkeys((*placed, *distant), torch.zeros_like)


def _no_rotation(rotation: Tensor) -> Tensor:  # (2, N, D/2) cos and sin
    return torch.stack([torch.ones_like(rotation[0]), torch.zeros_like(rotation[1])])


def encoded_head(
    shuffled: ShuffledRun, when: str, stack: StackName, layer: int, head: int
) -> Tensor:  # (T, S)
    """One head `before` or `after`, as bytes; raises InputError if there is no such head."""
    attention = shuffled.after if when == "after" else shuffled.before
    if stack not in attention:
        raise InputError(f"stack = {stack!r}: this model has none")
    L, H = attention[stack].shape[:2]
    if not (0 <= layer < L and 0 <= head < H):
        raise InputError(f"layer {layer}, head {head}: write layers to {L - 1}, heads to {H - 1}")
    return to_bytes(attention[stack][layer, head])
