"""The words of several texts as points: principal components, cosines, sentence vectors.

vectors of the words at each layer, each of length 1, less the mean of its layer
    │ principal axes of all layers together
    ▼
two numbers a word and layer: one plane for all layers, so that a word has a trajectory
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.glass import Recorder, Trace, stream
from glassformer.glass.projection import principal_axes
from glassformer.loaded import Model
from glassformer.precision import widen
from glassformer.studio.cache import RecentCache
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.page_schemas import (
    LayerPoint,
    SentenceSpace,
    SpaceRequest,
    SpaceWord,
    SpaceWordView,
    WordSpace,
)
from glassformer.studio.runs import BLOCK, RecordedRun, check_length
from glassformer.studio.schemas import Side, Token
from glassformer.studio.tokenization import TokenizedText, tokenize
from glassformer.studio.views.layers import layer_point

MAX_SPACES, MAX_BYTES = 8, 256 << 20
MAX_WORDS = 600  # of all texts together
DIGITS = 6
OF_STREAM = re.compile(r"\w+\.(embedding|blocks\.\d+|norm)\.out")


@dataclass(frozen=True, eq=False)
class SpaceVectors:
    """The words of some texts, and their vectors at each point of the residual stream."""

    side: Side
    points: list[LayerPoint]
    words: list[SpaceWord]
    units: Tensor  # (P, W, C), each of length 1
    model: Model | None = None  # None: an uploaded trace
    texts: tuple[TokenizedText, ...] = ()


@dataclass(frozen=True, eq=False)
class RecordedSpace:
    id: str
    request: SpaceRequest
    vectors: SpaceVectors
    row: WordSpace

    @property
    def bytes(self) -> int:
        return self.vectors.units.nbytes


class RecordedSpaces(RecentCache[RecordedSpace]):
    def __init__(self) -> None:
        super().__init__(MAX_SPACES, MAX_BYTES)

    def add(self, request: SpaceRequest, vectors: SpaceVectors) -> RecordedSpace:
        xy, shown = _projected(vectors.units)
        row = WordSpace(
            space=f"s{self.next_number()}", side=vectors.side, points=vectors.points,
            words=vectors.words, xy=_rounded(xy), shown=_rounded(shown),
        )  # fmt: skip
        return self.put(RecordedSpace(row.space, request, vectors, row))


def word_space(
    model: Model, texts: Sequence[str], progress: JobMonitor | None = None
) -> SpaceVectors:
    """Record every text; raises Cancelled once the client has left."""
    read = tuple(tokenize(model, text) for text in texts)
    for text in read:
        check_length(model, text.ids)
    side: Side = "decoder" if model.task.backbone.config.family == "decoder" else "encoder"
    words = [_words(text.tokens) for text in read]
    _check_count(sum(map(len, words)))
    trace = _recorded(model, [text.ids for text in read], side, progress or JobMonitor())
    starts = [0, *accumulate(len(text.ids) for text in read)]
    return _space(side, trace, words, starts, model, read)


def trace_space(run: RecordedRun) -> SpaceVectors:
    """The one text of an uploaded trace."""
    side: Side = "encoder" if "encoder" in run.tokens else "decoder"
    words = _words(run.tokens[side])
    _check_count(len(words))
    return _space(side, run.trace, [words], [0])


def one_word(space: SpaceVectors, word: int) -> SpaceWordView:
    """One word: its cosines with all, and where it stands in the texts in a plane of its own."""
    count = len(space.words)
    if not 0 <= word < count:
        raise InputError(f"word {word}: these texts have words 0 to {count - 1}")
    name = space.words[word].word.lower()
    same = [i for i, each in enumerate(space.words) if each.word.lower() == name]
    xy, shown = _projected(space.units[:, same])
    return SpaceWordView(
        cosines=_rounded((space.units @ space.units[:, word, :, None])[..., 0]),
        same=same, xy=_rounded(xy), shown=_rounded(shown),
    )  # fmt: skip


def sentences(space: SpaceVectors) -> SentenceSpace:
    """The vectors that `embed` returns for the texts; raises InputError if the model has none."""
    if space.model is None:
        raise InputError("A trace alone is not enough: sentence vectors need the model's weights.")
    if space.model.task.backbone.config.family == "seq2seq":
        raise InputError("An encoder-decoder has no sentence vectors: choose an encoder.")
    texts = [text.inputs for text in space.texts if not isinstance(text.inputs, list)]
    if not texts:  # they are token ids
        raise InputError("Sentence vectors need a tokenizer, and this model came without one.")
    vectors = space.model.embed(texts)
    units = F.normalize(widen(vectors).cpu().double(), dim=-1)  # (B, C)
    xy, shown = _projected(units[None])
    return SentenceSpace(
        xy=_rounded(xy)[0], shown=_rounded(shown)[0], cosines=_rounded(units @ units.T),
        pooling=list(space.model.recipe.pool),
    )  # fmt: skip


def _space(
    side: Side, trace: Trace, words: Sequence[Sequence[SpaceWord]], starts: Sequence[int],
    model: Model | None = None, texts: tuple[TokenizedText, ...] = (),
) -> SpaceVectors:  # fmt: skip
    """`starts`: where each text begins in the row of all tokens."""
    points = _stream(trace, side)
    rows = torch.stack(list(points.values())).cpu()  # (P, N, C)
    placed = [(i, start, word) for i, start in enumerate(starts[: len(words)]) for word in words[i]]
    means = [rows[:, [start + at for at in word.tokens]].mean(1) for _, start, word in placed]
    return SpaceVectors(
        side=side,
        points=[_point(name) for name in points],
        words=[word.model_copy(update={"text": i}) for i, _, word in placed],
        units=F.normalize(torch.stack(means, 1).double(), dim=-1),
        model=model,
        texts=texts,
    )


def _recorded(model: Model, ids: list[list[int]], side: Side, progress: JobMonitor) -> Trace:
    """The residual stream of all texts, laid end to end."""
    config = model.task.backbone.config
    start = [config.ids.start or 0]  # the encoder reads no target: any will do
    targets = [start] * len(ids) if config.family == "seq2seq" else None

    def keep(name: str) -> bool:
        block = BLOCK.match(name)
        if block is not None and block[1] == side:
            progress.report("layer", int(block[2]), config.depth)
        return OF_STREAM.fullmatch(name) is not None and name.startswith(side)

    rows: dict[str, list[Tensor]] = {}
    for batch in model.task.batches(ids, targets=targets):
        recorder = Recorder(model, keep)
        with torch.no_grad():
            model.task.backbone(batch, visitor=recorder)
        for name, tensor in recorder.tensors.items():
            rows.setdefault(name, []).append(tensor)
    tensors = {name: torch.cat(parts) for name, parts in rows.items()}
    return Trace(tensors, [], [], config.model_dump())


def _words(tokens: Sequence[Token]) -> list[SpaceWord]:
    """Words with the numbers of their tokens; special tokens and punctuation are none."""
    places = [(i, token) for i, token in enumerate(tokens) if token.word is not None]
    words = [
        SpaceWord(
            text=0,
            word="".join(token.text for _, token in pieces),
            tokens=[i for i, _ in pieces],
        )
        for _, group in groupby(places, key=lambda each: each[1].word)
        for pieces in [list(group)]
    ]
    return [each for each in words if any(map(str.isalnum, each.word))]


def _check_count(count: int) -> None:
    if not count:
        raise InputError("texts: there are no words in them: write some")
    if count > MAX_WORDS:
        raise InputError(f"texts: {count:,} words, and at most {MAX_WORDS} fit: write fewer")


def _stream(trace: Trace, side: Side) -> dict[str, Tensor]:
    """The residual stream, and what the last norm makes of it."""
    final = f"{side}.norm.out"
    return {**stream(trace, side), **({final: widen(trace[final])} if final in trace else {})}


def _point(name: str) -> LayerPoint:
    if ".blocks." not in name and name.endswith(".norm.out"):
        return LayerPoint(name="final norm", layer=None, part="norm")
    return layer_point(name)


def _projected(units: Tensor) -> tuple[Tensor, Tensor]:  # (P, W, C) → (P, W, 2), (P,)
    """Two numbers a word, and the share of each point's variance that they show."""
    centred = units - units.mean(1, keepdim=True)
    xy = centred @ principal_axes(centred.flatten(0, 1))
    total = centred.square().sum((1, 2)).clamp(min=1e-30)
    return xy, xy.square().sum((1, 2)) / total


def _rounded(values: Tensor) -> Any:
    """As nested lists: enough digits for all that is shown, and few enough to send."""
    return (values.double() * 10**DIGITS).round().div(10**DIGITS).tolist()
