"""Classification of whole documents, by sentences or in windows, and their most important words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.data.prepare import sentences
from glassformer.errors import InputError, shown
from glassformer.glass import Recorder
from glassformer.inference.windows import WindowedText, encode_windows, rows
from glassformer.tasks import Ids, Task
from glassformer.text import Text, Tokenizer

WORDS, SENTENCES = "important.words.weights", "important.sentences.weights"
WORD = re.compile(r"\w+|[^\w\s]")
Ranked = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class WindowedDocument:
    """The texts that the model reads one by one: the sentences of a document, or all of it."""

    texts: list[str]
    parts: list[WindowedText]  # the same, with their windows

    @property
    def count(self) -> int:
        """The number of its sequences in a batch: a text that is too long has several windows."""
        return sum(len(part.windows) for part in self.parts)


def read_documents(
    task: Task, tokenizer: Tokenizer, texts: Sequence[Text]
) -> list[WindowedDocument]:
    """Divide each text as the model's pool asks, and tokenize it."""
    documents = []
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"text {i} is {shown(text)}: this model reads single texts: write a string"
            )
        parts = sentences(text) if task.spec.pool == "hierarchy" else [text]
        known = list(_with_words(parts, tokenizer))
        if not known:
            raise InputError(f"text {i} is {shown(text)}: the tokenizer finds no token in it")
        windowed = encode_windows(task, tokenizer, known, overlap=0)
        documents.append(WindowedDocument(known, windowed))
    return documents


def _with_words(parts: Sequence[str], tokenizer: Tokenizer) -> Iterator[str]:
    for part, ids in zip(parts, tokenizer.ids(parts), strict=True):
        if ids:
            yield part


def batch_ids(
    task: Task, documents: Sequence[WindowedDocument]
) -> tuple[Ids, Ids | None, list[int]]:
    """The ids and segments of all sequences, and how many of them each document has."""
    ids, segments = rows(task, [part for document in documents for part in document.parts])
    return ids, segments, [document.count for document in documents]


@torch.no_grad()
def logits(task: Task, documents: Sequence[WindowedDocument]) -> list[Tensor]:
    """The logits of each document, in double precision."""
    ids, segments, counts = batch_ids(task, documents)
    tensors = task.logits(ids, segments=segments, documents=counts)
    return [tensor.cpu().double() for tensor in tensors]


@torch.no_grad()
def important(task: Task, document: WindowedDocument, top: int) -> tuple[Ranked, Ranked]:
    """The `top` words and sentences with the largest share of the attention.

    The shares of all occurrences of a word are added.
    """
    recorder = Recorder(task, (WORDS, SENTENCES))
    ids, segments, counts = batch_ids(task, [document])
    (batch,) = task.batches(ids, segments=segments, documents=counts)
    task(batch, visitor=recorder)
    words = recorder.tensors[WORDS][:, 0].tolist()
    shares = [1.0] * len(ids)
    if SENTENCES in recorder.tensors:
        shares = recorder.tensors[SENTENCES][:, 0].tolist()
    weights, share = iter(words), iter(shares)
    by_word: dict[str, float] = {}
    by_sentence: dict[str, float] = {}
    for text, part in zip(document.texts, document.parts, strict=True):
        owner = {i: match[0].lower() for match in WORD.finditer(text) for i in range(*match.span())}
        for window in part.windows:
            whole = next(share)
            by_sentence[text] = by_sentence.get(text, 0.0) + whole
            for place in window.places:
                word = owner.get(part.encoding.spans[place][0])
                weight = whole * next(weights)
                if word is not None and not part.encoding.special[place]:
                    by_word[word] = by_word.get(word, 0.0) + weight
    return _best(by_word, top), _best(by_sentence, top) if SENTENCES in recorder.tensors else ()


def _best(shares: dict[str, float], top: int) -> Ranked:
    return tuple(sorted(shares.items(), key=lambda item: -item[1])[:top])
