"""A text that is longer than the model is read in windows that overlap. Nothing is cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.tasks import Ids, Task
from glassformer.text import Encoding, Text, Tokenizer


@dataclass(frozen=True)
class Window:
    """The tokens a model sees at once: a part of the text, and all that stands around it.

    [CLS] question [SEP] a context too long to read [SEP]
    [CLS] question [SEP] a context too              [SEP]
    [CLS] question [SEP]           too long to      [SEP]
    [CLS] question [SEP]               long to read [SEP]
    """

    places: list[int]  # of its tokens, in the whole
    start: int  # of the part, in the whole
    end: int
    lead: int  # tokens in front of the part

    def index(self, place: int) -> int:
        """Where a token of the part stands in the window."""
        return self.lead + place - self.start


@dataclass(frozen=True)
class WindowedText:
    """A text, or a pair of texts, and the windows it is read in: mostly one."""

    encoding: Encoding
    windows: list[Window]

    def home(self, place: int) -> int:
        """The window that shows most of a token's surroundings: it is nearest to the middle."""
        off = [abs(2 * place - (each.start + each.end - 1)) for each in self.windows]
        return off.index(min(off))


def read(
    task: Task,
    tokenizer: Tokenizer,
    texts: Sequence[Text],
    *,
    side: int | None = None,
    overlap: int | None = None,
) -> list[WindowedText]:
    """Token ids, in windows where they are too many for the model.

    Of a pair, `side` (0 or 1; the longer one, if not given) is cut into windows and the other
    stands in each of them. Neighbours share at least `overlap` tokens: a quarter, if not given.
    """
    most = task.backbone.config.max_length
    found = []
    for i, encoding in enumerate(tokenizer.encode_all(texts)):
        if not encoding.ids:
            raise InputError(f"text {i} is {texts[i]!r:.40}: the tokenizer finds no token in it")
        try:
            found.append(WindowedText(encoding, windows(encoding, most, side, overlap)))
        except InputError as error:
            raise InputError(f"text {i}: {error}") from None
    return found


def windows(
    encoding: Encoding, most: int, side: int | None = None, overlap: int | None = None
) -> list[Window]:
    """As few as can be, all of the same size, and evenly spread: none counts more than another."""
    if side is None:
        side = int(encoding.texts.count(1) > encoding.texts.count(0))
    inside = [place for place, text in enumerate(encoding.texts) if text == side]
    first, end = (inside[0], inside[-1] + 1) if inside else (0, 0)
    size, whole = end - first, len(encoding.ids)
    if whole <= most:
        return [Window(list(range(whole)), first, end, first)]
    room = most - (whole - size)
    if room < 1:
        raise InputError(
            f"what stands around the longer part has {whole - size} tokens and the model reads "
            f"at most {most}: shorten it"
        )
    shared = room // 4 if overlap is None else overlap
    if type(shared) is not int or not 0 <= shared < room:
        raise InputError(f"overlap = {overlap!r}: write a number from 0 to {room - 1}")
    count = 1 + -(-(size - room) // (room - shared))
    starts = [first + round(i * (size - room) / (count - 1)) for i in range(count)]
    around = list(range(first)), list(range(end, whole))
    return [
        Window([*around[0], *range(start, start + room), *around[1]], start, start + room, first)
        for start in starts
    ]


def rows(task: Task, readings: Sequence[WindowedText]) -> tuple[Ids, Ids | None]:
    """The ids and the segments of all windows, one after the other."""
    pairs = [(reading.encoding, window) for reading in readings for window in reading.windows]
    ids = [[whole.ids[place] for place in window.places] for whole, window in pairs]
    if not task.backbone.config.segments:
        return ids, None
    return ids, [[whole.segments[place] for place in window.places] for whole, window in pairs]


@torch.no_grad()
def logits(task: Task, readings: Sequence[WindowedText]) -> list[list[Tensor]]:
    """What the head says: for each reading, one tensor a window, in double precision."""
    ids, segments = rows(task, readings)
    found = iter(task.logits(ids, segments=segments))
    return [[next(found).cpu().double() for _ in reading.windows] for reading in readings]
