"""How does it know the order? A model's positions, and what happens when the words are shuffled."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from threading import Event

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.config import Position
from glassformer.errors import InputError
from glassformer.glass import Edit, Trace, weights
from glassformer.glass.recorder import modules
from glassformer.glass.stacks import stacks
from glassformer.loaded import Model, record
from glassformer.model import Sequences
from glassformer.model.position import relative_bucket, sinusoid
from glassformer.model.stack import Relative, Stack
from glassformer.precision import widen
from glassformer.studio.cache import Shelf
from glassformer.studio.encode import to_bytes
from glassformer.studio.page_schemas import Places, Shuffle, ShuffleAsk
from glassformer.studio.predictions import predictions
from glassformer.studio.runs import RecordedRun, Stopped
from glassformer.studio.schemas import At, Says, StackName, Token

MOST = 100  # places, and numbers of each, that are shown
FURTHEST = 40  # distance, of relative positions
MOST_KEPT, MOST_BYTES = 16, 256 << 20


def lecture() -> Places:
    """The slides' waves: 100 places, 100 numbers each."""
    return _table("sinusoidal", sinusoid(MOST, MOST))


def places(model: Model, stack: StackName) -> Places:
    """As this model knows them."""
    home = modules(model).get("encoder" if stack == "encoder" else "decoder")
    if not isinstance(home, Stack):
        raise InputError(f"stack = {stack!r}: this model has none")
    embedding = home.embedding
    if embedding.wave is not None:
        return _table("sinusoidal", embedding.wave)
    if embedding.position is not None:
        return _table("learned", embedding.position.weight[embedding.offset :])
    if home.turns is not None:
        cos, sin = home.turns[:, :MOST]
        return _table("rotary", cos, torch.cat([cos, sin], -1))
    if home.relative is not None:
        return _distances(home.relative)
    return Places(kind="none", first=0, columns=[], values=[], similar=[], buckets=[])


def _table(kind: Position, values: Tensor, whole: Tensor | None = None) -> Places:
    """Places that have numbers; how similar two are is seen in all of their numbers."""
    values = widen(values[:MOST].detach()).cpu()
    whole = values if whole is None else widen(whole).cpu()
    return Places(
        kind=kind,
        first=0,
        columns=[str(i) for i in range(min(MOST, values.shape[1]))],
        values=values[:, :MOST].tolist(),
        similar=F.cosine_similarity(whole[:, None], whole[None], dim=-1).tolist(),
        buckets=[],
    )


@torch.no_grad()
def _distances(relative: Relative) -> Places:
    """T5 adds a number to each score: how far is the key from the query?"""
    both = Sequences.of([FURTHEST + 1])
    bias = widen(relative(both, both))[0].cpu()  # (H, T, S)
    values = torch.cat([bias[:, -1, :-1], bias[:, 0]], 1)  # (H, 2 · FURTHEST + 1)
    buckets = relative_bucket(
        torch.arange(-FURTHEST, FURTHEST + 1),
        both_sides=not relative.causal,
        buckets=relative.buckets,
        furthest=relative.furthest,
    )
    return Places(
        kind="relative",
        first=-FURTHEST,
        columns=[str(head) for head in range(len(bias))],
        values=values.T.tolist(),
        similar=[],
        buckets=buckets.tolist(),
    )


@dataclass(frozen=True, eq=False)
class Shuffled:
    """One text in two orders; both traces are numbered as the run is."""

    id: str
    ask: ShuffleAsk
    row: Shuffle
    before: dict[StackName, Tensor]  # (L, H, T, S)
    after: dict[StackName, Tensor]

    @property
    def bytes(self) -> int:
        return sum(t.nbytes for held in (self.before, self.after) for t in held.values())


class Shuffles(Shelf[Shuffled]):
    def __init__(self) -> None:
        super().__init__(MOST_KEPT, MOST_BYTES)

    def add(self, run: RecordedRun, ask: ShuffleAsk, stop: Event) -> Shuffled:
        return self.keep(shuffle(run, ask, f"s{self.number()}", stop))


def shuffle(run: RecordedRun, ask: ShuffleAsk, id: str, stop: Event) -> Shuffled:
    """The same words once more, elsewhere. What a decoder is asked last stays last."""
    config = run.whole.task.backbone.config
    if config.family == "encoder" and run.ask.second is not None:
        raise InputError("shuffle one text: take the second one away")
    moving: StackName = "decoder" if config.family == "decoder" else "encoder"
    tokens = run.tokens[moving]
    order = reorder(tokens, ask.seed, last_stays=moving == "decoder")
    edit = dict(run.edit) if ask.positions else {**run.edit, **no_positions(run.whole)}
    said, looked = {}, {}
    for name, places in (("before", list(range(len(order)))), ("after", order)):
        if stop.is_set():
            raise Stopped
        said[name], looked[name] = _again(run, places, _moved(edit, moving, places))
    moved = {
        stack: float((looked["after"][stack] - found).abs().sum(-1).mean() / 2)
        for stack, found in looked["before"].items()
    }
    row = Shuffle(
        shuffle=id,
        order=order,
        after=[tokens[i] for i in order],
        says=said["before"],
        says_after=said["after"],
        moved=moved,
    )
    return Shuffled(id, ask, row, looked["before"], looked["after"])


def reorder(tokens: list[Token], seed: int, *, last_stays: bool) -> list[int]:
    """Which token comes to stand at each place: words move whole, special tokens do not."""
    pieces = [[i for i, _ in group] for _, group in groupby(enumerate(tokens), key=_word)]
    free = [i for i, places in enumerate(pieces) if not tokens[places[0]].special]
    free = free[:-1] if last_stays else free
    if len({tuple(tokens[i].piece for i in pieces[each]) for each in free}) < 2:
        raise InputError("there is nothing to shuffle: write a few more words")
    draw, order = random.Random(seed), list(free)  # noqa: S311 - no secret
    while order == free:
        draw.shuffle(order)
    goes = dict(zip(free, order, strict=True))
    return [i for each in range(len(pieces)) for i in pieces[goes.get(each, each)]]


def _word(numbered: tuple[int, Token]) -> tuple[str, int]:
    """Pieces of one word are one; a special token is one by itself."""
    i, token = numbered
    return ("special", i) if token.word is None else ("word", token.word)


def _moved(edit: Edit, side: StackName, order: list[int]) -> Edit:
    """What was changed at a token goes where the token goes; heads are off wherever."""
    back = torch.tensor(order).argsort().tolist()

    def follow(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda x: change(x[back])[order]

    rows = (f"{side}.embedding.tokens", f"{side}.blocks.*.out")
    return {
        name: follow(change)
        if callable(change) and any(fnmatchcase(name, each) for each in rows)
        else change
        for name, change in edit.items()
    }


def _again(run: RecordedRun, order: list[int], edit: Edit) -> tuple[Says, dict[StackName, Tensor]]:
    """What is said and looked at when the tokens stand in this order; numbered as they were."""
    trace, model = run.trace, run.whole
    translates = model.task.backbone.config.family == "seq2seq"
    own = ids_of(model, trace.tokens)
    moved = [(ids_of(model, trace.source_tokens) if translates else own)[i] for i in order]
    keep = ("*.weights", "logits")
    found = record(model, (moved, own) if translates else moved, keep=keep, edit=edit)
    said = predictions(model, found, own if translates else moved, run.target)
    at = said.at if translates or said.kind == "label" else _back(said.at, order)
    if said.kind == "next":
        at = [each for each in at if each.token == len(order) - 1]  # the others have other pasts
    looked = {stack: _unshuffled(found, stack, order, translates) for stack in stacks(found)}
    return said.model_copy(update={"at": at}), looked


def _back(at: Iterable[At], order: list[int]) -> list[At]:
    found = (each.model_copy(update={"token": order[each.token]}) for each in at)
    return sorted(found, key=lambda each: each.token)


def _unshuffled(trace: Trace, stack: StackName, order: list[int], translates: bool) -> Tensor:
    """Rows and columns in the order that the words had."""
    found = weights(trace, stack).cpu()  # (L, H, T, S)
    back = torch.tensor(order).argsort()
    if stack == "encoder" or not translates:
        found = found[:, :, back]
    return found if stack == "decoder" and translates else found[..., back]


def ids_of(model: Model, names: list[str]) -> list[int]:
    """What a trace calls its tokens, as numbers again."""
    tokenizer = model.tokenizer
    return [int(each) if tokenizer is None else tokenizer.id(each) or 0 for each in names]


def no_positions(model: Model) -> dict[str, Callable[[Tensor], Tensor]]:
    """Nothing is added, nothing is turned."""
    config = model.task.backbone.config
    if config.position == "rotary":
        names = ("*.rotation", *(("*.local_rotation",) if config.window else ()))
        return dict.fromkeys(names, _unturned)
    added = {"learned": "*.embedding.positions", "sinusoidal": "*.embedding.positions",
             "relative": "*.relative.bias"}  # fmt: skip
    return {added[config.position]: torch.zeros_like} if config.position in added else {}


def _unturned(turn: Tensor) -> Tensor:  # (2, N, D/2) cos and sin
    return torch.stack([torch.ones_like(turn[0]), torch.zeros_like(turn[1])])


def picture(found: Shuffled, when: str, stack: StackName, layer: int, head: int) -> Tensor:
    held = found.after if when == "after" else found.before
    if stack not in held:
        raise InputError(f"stack = {stack!r}: this model has none")
    L, H = held[stack].shape[:2]
    if not (0 <= layer < L and 0 <= head < H):
        raise InputError(f"layer {layer}, head {head}: write layers to {L - 1}, heads to {H - 1}")
    return to_bytes(held[stack][layer, head])
