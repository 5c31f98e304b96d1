"""Documents: read by sentences or in windows, told as a whole; and what mattered in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.data.prepare import sentences
from glassformer.errors import InputError, shown
from glassformer.glass import Recorder
from glassformer.inference.windows import WindowedText, read, rows
from glassformer.tasks import Ids, Task
from glassformer.text import Text, Tokenizer

WORDS, SENTENCES = "important.words.weights", "important.sentences.weights"
WORD = re.compile(r"\w+|[^\w\s]")
Ranked = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Document:
    """The texts that the model sees one by one: its sentences, or all of it."""

    texts: list[str]
    readings: list[WindowedText]

    @property
    def count(self) -> int:
        """How many texts of a batch it is: a text that is too long is several windows."""
        return sum(len(each.windows) for each in self.readings)


def read_documents(task: Task, tokenizer: Tokenizer, texts: Sequence[Text]) -> list[Document]:
    found = []
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {i} is {shown(text)}: this model reads documents: write one")
        parts = sentences(text) if task.spec.pool == "hierarchy" else [text]
        known = list(_with_words(parts, tokenizer))
        if not known:
            raise InputError(f"text {i} is {shown(text)}: the tokenizer finds no token in it")
        found.append(Document(known, read(task, tokenizer, known, overlap=0)))
    return found


def _with_words(parts: Sequence[str], tokenizer: Tokenizer) -> Iterator[str]:
    for part, ids in zip(parts, tokenizer.ids(parts), strict=True):
        if ids:
            yield part


def laid_out(task: Task, documents: Sequence[Document]) -> tuple[Ids, Ids | None, list[int]]:
    """Ids and segments of all texts, and how many of them each document has."""
    ids, segments = rows(task, [each for document in documents for each in document.readings])
    return ids, segments, [each.count for each in documents]


@torch.no_grad()
def logits(task: Task, documents: Sequence[Document]) -> list[Tensor]:
    """What the head says of each, in double precision."""
    ids, segments, counts = laid_out(task, documents)
    found = task.logits(ids, segments=segments, documents=counts)
    return [each.cpu().double() for each in found]


@torch.no_grad()
def important(task: Task, document: Document, top: int) -> tuple[Ranked, Ranked]:
    """The words and the sentences that weighed most in it, by their share of the whole; a word that
    comes often counts with all of it."""
    recorder = Recorder(task, (WORDS, SENTENCES))
    ids, segments, counts = laid_out(task, [document])
    (batch,) = task.batches(ids, segments=segments, documents=counts)
    task(batch, visitor=recorder)
    words = recorder.tensors[WORDS][:, 0].tolist()
    shares = [1.0] * len(ids)
    if SENTENCES in recorder.tensors:
        shares = recorder.tensors[SENTENCES][:, 0].tolist()
    weights, share = iter(words), iter(shares)
    by_word: dict[str, float] = {}
    by_sentence: dict[str, float] = {}
    for text, reading in zip(document.texts, document.readings, strict=True):
        owner = {i: match[0].lower() for match in WORD.finditer(text) for i in range(*match.span())}
        for window in reading.windows:
            whole = next(share)
            by_sentence[text] = by_sentence.get(text, 0.0) + whole
            for place in window.places:
                word = owner.get(reading.encoding.spans[place][0])
                weight = whole * next(weights)
                if word is not None and not reading.encoding.special[place]:
                    by_word[word] = by_word.get(word, 0.0) + weight
    return _best(by_word, top), _best(by_sentence, top) if SENTENCES in recorder.tensors else ()


def _best(found: dict[str, float], top: int) -> Ranked:
    return tuple(sorted(found.items(), key=lambda item: -item[1])[:top])
