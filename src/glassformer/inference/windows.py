"""A text that is longer than the model is read in overlapping windows. Nothing is cut off."""

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
    """The tokens that a model reads at once: a part of the text, and everything around it.

    [CLS] question [SEP] a context too long to read [SEP]
    [CLS] question [SEP] a context too              [SEP]
    [CLS] question [SEP]           too long to      [SEP]
    [CLS] question [SEP]               long to read [SEP]
    """

    places: list[int]  # of its tokens in the whole text
    start: int  # of the part in the whole text
    end: int
    lead: int  # tokens before the part

    def index(self, place: int) -> int:
        """The position in the window of a token of the part."""
        return self.lead + place - self.start


@dataclass(frozen=True)
class WindowedText:
    """A text, or a pair of texts, and its windows: mostly one."""

    encoding: Encoding
    windows: list[Window]

    def best_window(self, place: int) -> int:
        """The window with the most context around a token: where it is nearest to the middle."""
        off = [abs(2 * place - (window.start + window.end - 1)) for window in self.windows]
        return off.index(min(off))


def encode_windows(
    task: Task,
    tokenizer: Tokenizer,
    texts: Sequence[Text],
    *,
    side: int | None = None,
    overlap: int | None = None,
) -> list[WindowedText]:
    """Tokenize texts, and divide those that are too long for the model into windows.

    Args:
        side: which text of a pair (0 or 1) is divided, with the other in each window; the longer
            one, if not given
        overlap: the least number of tokens that neighbours share; a quarter, if not given
    """
    most = task.backbone.config.max_length
    windowed = []
    for i, encoding in enumerate(tokenizer.encode_all(texts)):
        if not encoding.ids:
            raise InputError(f"text {i} is {texts[i]!r:.40}: the tokenizer finds no token in it")
        try:
            windowed.append(WindowedText(encoding, windows(encoding, most, side, overlap)))
        except InputError as error:
            raise InputError(f"text {i}: {error}") from None
    return windowed


def windows(
    encoding: Encoding, most: int, side: int | None = None, overlap: int | None = None
) -> list[Window]:
    """As few as possible, all of the same size and evenly spread, so that all count the same."""
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
            f"the text around the longer part has {whole - size} tokens and the model reads "
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


def rows(task: Task, windowed: Sequence[WindowedText]) -> tuple[Ids, Ids | None]:
    """The ids and the segments of all windows, one after the other."""
    pairs = [(text.encoding, window) for text in windowed for window in text.windows]
    ids = [[whole.ids[place] for place in window.places] for whole, window in pairs]
    if not task.backbone.config.segments:
        return ids, None
    return ids, [[whole.segments[place] for place in window.places] for whole, window in pairs]


@torch.no_grad()
def logits(task: Task, windowed: Sequence[WindowedText]) -> list[list[Tensor]]:
    """The logits of the head: for each text, one tensor per window, in double precision."""
    ids, segments = rows(task, windowed)
    tensors = iter(task.logits(ids, segments=segments))
    return [[next(tensors).cpu().double() for _ in text.windows] for text in windowed]
