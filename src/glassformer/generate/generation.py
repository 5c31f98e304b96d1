"""What comes out: a text with its ids and scores, and the same text as it grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from glassformer.text import Tokenizer
from glassformer.text.tokenizer import REPLACEMENT

Stopped = Literal["end", "stop", "length"]  # an end token, a stop string, no more tokens allowed


@dataclass(frozen=True)
class Generation:
    """One text that was written."""

    ids: tuple[int, ...]  # the new tokens, with the one that ended it
    stopped: Stopped
    score: float | None = None  # of a beam: with its length penalty; else the sum of logprobs
    logprobs: tuple[float, ...] = ()  # the model's own, one a token, if they were asked for
    text: str = ""  # before the stop string; empty without a tokenizer

    def __str__(self) -> str:
        return self.text


def decode_tokens(
    tokenizer: Tokenizer, ids: Sequence[int], stop: Sequence[str]
) -> tuple[str, bool]:
    """The text of these ids, before the first stop string; and whether there was one."""
    text = tokenizer.decode(ids)
    places = [place for place in map(text.find, stop) if place >= 0]
    return text[: min(places, default=None)], bool(places)


class IncrementalDecoder:
    """The text of ids that come one by one.

    What a token adds can depend on its neighbour (a space, the rest of a character), so a few
    tokens are spelt again with each new one; a half character is held back until it is whole.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = ()) -> None:
        self.tokenizer = tokenizer
        self.stop = stop
        self.text = ""
        self.stopped = False
        self._recent: list[int] = []  # a few tokens of the text, then those that are not in it yet
        self._spelt = 0  # how many of them are in it
        self._held = ""  # what the others look like so far
        self._told = 0  # characters of the text that were handed out

    def add(self, token: int) -> None:
        self._recent.append(token)
        before = self.tokenizer.decode(self._recent[: self._spelt])
        self._held = self.tokenizer.decode(self._recent)[len(before) :]
        whole = self._held.rstrip(REPLACEMENT)
        found = [place for each in self.stop if (place := self._find(each, whole)) >= 0]
        if found:
            self.stopped = True
            self.text = (self.text + whole)[: min(found)]
        elif self._held and whole == self._held:
            self.text += whole
            self._recent = self._recent[self._spelt :]
            self._spelt, self._held = len(self._recent), ""

    def _find(self, stop: str, new: str) -> int:
        """Where it is, if the new piece has a part in it."""
        return (self.text + new).find(stop, max(0, len(self.text) - len(stop) + 1))

    def more(self, *, last: bool = False) -> str:
        """What may be shown by now and was not: all but the beginning of a stop string."""
        if last and not self.stopped:
            self.text += self._held
        end = len(self.text)
        if not last:
            end -= max((_overlap(self.text, each) for each in self.stop), default=0)
        shown, self._told = self.text[self._told : end], max(self._told, end)
        return shown


def _overlap(text: str, stop: str) -> int:
    """How much of the stop string the text ends with."""
    lengths = range(min(len(stop) - 1, len(text)), 0, -1)
    return next((n for n in lengths if text.endswith(stop[:n])), 0)
