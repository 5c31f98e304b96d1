"""What goes over the wire for Generate, Layers and Positions."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from glassformer.config import Position, Strict
from glassformer.generate.generation import Stopped
from glassformer.studio.schemas import Guess, Says, StackName, Token

Part = Literal["embedding", "attention", "cross", "block"]
MOST_STEPS = 64
MOST_BEAMS = 8
COLDEST = 0.01  # scores divided by less leave the numbers there are


class WriteAsk(Strict):
    """Go on from a text, and let me watch."""

    model: str = Field(max_length=64)
    step: int | None = None  # a checkpoint; none is the model itself
    text: str
    taken: tuple[tuple[int, int], ...] = Field(default=(), max_length=MOST_STEPS)  # (step, token)
    max_new_tokens: int = Field(default=12, ge=1, le=MOST_STEPS)
    do_sample: bool = False
    temperature: float | None = Field(default=None, ge=COLDEST)
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    num_beams: int = Field(default=1, ge=1, le=MOST_BEAMS)


class SamplingRule(BaseModel):
    """A setting that changes the scores."""

    name: str  # temperature, top-k, …
    value: float | None
    left: int  # how many tokens can still come


class CandidateRow(BaseModel):
    id: int
    text: str
    p: list[float]  # the model's own, then after each rule
    cut: int | None  # the rule that took it out


class CacheRow(BaseModel):
    """What the cache has when a choice is made, and what the step before it did with it."""

    kept: int  # tokens, of all beams
    written: int
    read: int
    source: int  # tokens of the source: written once, read at every step
    bytes: int  # in use


class StepRow(BaseModel):
    token: int
    logprob: float  # the model's own
    chosen: bool  # by the user
    rules: list[SamplingRule]
    top: list[CandidateRow]
    cache: CacheRow


class Room(BaseModel):
    """One token's keys and values: layers × heads × (key + value) numbers of so many bytes."""

    layers: int
    heads: int
    key: int
    value: int
    item: int
    token: int  # all of that multiplied: bytes
    capacity: int  # tokens of each text
    source: int
    reserved: int  # bytes


class Node(BaseModel):
    """A way to go on in a beam search."""

    turn: int
    parent: int | None  # the node it continues
    text: str
    token: int
    sum: float  # of the log-probabilities up to here
    logprob: float
    state: Literal["kept", "done", "dropped"]
    score: float | None  # of a text that is done: with its length penalty


class Ending(BaseModel):
    """A text that a beam search has found."""

    ids: list[int]
    text: str
    score: float
    stopped: Stopped


class Beams(BaseModel):
    nodes: list[Node]
    best: list[Ending]
    caches: list[CacheRow]  # one a turn
    penalty: float  # a score is the sum divided by length ** this


class WritingRow(BaseModel):
    writing: str
    prompt: list[Token]  # what the decoder begins with
    source: list[Token]  # what a translator reads
    written: list[Token]
    text: str
    stopped: Stopped
    steps: list[StepRow]
    room: Room
    beams: Beams | None


class Looked(BaseModel):
    """What each step looked at, as far as there were tokens."""

    weights: list[list[float]]


class Point(BaseModel):
    """A place on the way through the layers."""

    name: str
    layer: int | None  # none: before the first block
    part: Part


class Decided(BaseModel):
    """What would be said if the model stopped there; p and kl are (points, tokens)."""

    points: list[Point]
    words: list[str]  # what it says at the end, one a token
    p: list[list[float]]  # the chance of that word
    kl: list[list[float]]  # bits to the distribution at the end


class LensReading(BaseModel):
    """One token's best words at each point."""

    tops: list[list[Guess]]


class Way(BaseModel):
    """A word's vector on its way; each list has a number a point."""

    points: list[Point]
    norm: list[float]
    to_start: list[float]
    to_end: list[float]
    between: list[float] | None  # cosine with a word of another text


class Places(BaseModel):
    """How positions are told apart: a row a place, a column a number."""

    kind: Position
    first: int  # what the first row is: place 0, or a distance
    columns: list[str]
    values: list[list[float]]
    similar: list[list[float]]  # of each row to each; none where there is nothing to compare
    buckets: list[int]  # of each distance: relative only


class ShuffleAsk(Strict):
    """Put the words of a run into another order."""

    run: str = Field(max_length=64)
    seed: int = Field(ge=0, lt=1 << 31)
    positions: bool = True  # no: as if the model did not know any


class Shuffle(BaseModel):
    shuffle: str
    order: list[int]  # which token stands at each place
    after: list[Token]  # the text in its new order
    says: Says  # before; tokens are numbered as in the run
    says_after: Says
    moved: dict[StackName, float]  # the share of attention that goes elsewhere
