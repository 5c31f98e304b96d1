"""A generated text with its ids and scores, and incremental decoding of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from glassformer.text import Tokenizer
from glassformer.text.tokenizer import REPLACEMENT

Stopped = Literal["end", "stop", "length"]  # an end token, a stop string, the maximum length


@dataclass(frozen=True)
class Generation:
    """One generated text."""

    ids: tuple[int, ...]  # the new tokens, with the one that ended it
    stopped: Stopped
    score: float | None = (
        None  # of a beam: with its length penalty; else the sum of logprobs, if they were requested
    )
    logprobs: tuple[float, ...] = ()  # the model's own, one per token, if requested
    text: str = ""  # up to the stop string; empty without a tokenizer
    # With top_logprobs: the likeliest tokens at each place and their log-probabilities.
    top_logprobs: tuple[tuple[tuple[int, float], ...], ...] = ()

    def __str__(self) -> str:
        return self.text


def decode_tokens(
    tokenizer: Tokenizer, ids: Sequence[int], stop: Sequence[str]
) -> tuple[str, bool]:
    """The text of these ids up to the first stop string, and whether there was one."""
    text = tokenizer.decode(ids)
    places = [place for place in map(text.find, stop) if place >= 0]
    return text[: min(places, default=None)], bool(places)


class IncrementalDecoder:
    """The text of ids that come one by one.

    The text of a token can depend on its neighbour (a space, the rest of a character), so a few
    tokens are decoded again with each new one; half a character is held back until it is complete.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = ()) -> None:
        self.tokenizer = tokenizer
        self.stop = stop
        self.text = ""
        self.stopped = False
        self._recent: list[int] = []  # the last tokens of the text, then those not yet in it
        self._decoded = 0  # how many of them are in the text
        self._held = ""  # the text of the others so far
        self._shown = 0  # characters of the text that `more` returned

    def add(self, token: int) -> None:
        """Append a token; `stopped` is true if a stop string is complete."""
        self._recent.append(token)
        before = self.tokenizer.decode(self._recent[: self._decoded])
        self._held = self.tokenizer.decode(self._recent)[len(before) :]
        whole = self._held.rstrip(REPLACEMENT)
        stops = [place for text in self.stop if (place := self._find(text, whole)) >= 0]
        if stops:
            self.stopped = True
            self.text = (self.text + whole)[: min(stops)]
        elif self._held and whole == self._held:
            self.text += whole
            self._recent = self._recent[self._decoded :]
            self._decoded, self._held = len(self._recent), ""

    def _find(self, stop: str, new: str) -> int:
        """Where a stop string is that the new text completes, else -1."""
        return (self.text + new).find(stop, max(0, len(self.text) - len(stop) + 1))

    def more(self, *, last: bool = False) -> str:
        """The text since the last call, without what may be the start of a stop string."""
        if last and not self.stopped:
            self.text += self._held
        end = len(self.text)
        if not last:
            end -= max((_overlap(self.text, stop) for stop in self.stop), default=0)
        shown, self._shown = self.text[self._shown : end], max(self._shown, end)
        return shown


def _overlap(text: str, stop: str) -> int:
    """How many characters of the stop string the text ends with."""
    lengths = range(min(len(stop) - 1, len(text)), 0, -1)
    return next((n for n in lengths if text.endswith(stop[:n])), 0)
