"""Important-word pooling, the first and smallest model of the lectures; also hierarchical.

A text is the mean of its word vectors, but not all words weigh the same: a learned vector v says
how important each one is.

    r_i = v · x_i        a = softmax(r)        document = Σ a_i x_i

    I      loved   the    movie   !
   −3.4     2.4   −0.8    −1.2   1.7     r
    0.00    0.64   0.03    0.02  0.32    a
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.config import Activation
from glassformer.errors import ConfigError
from glassformer.model.block import ACTIVATIONS
from glassformer.model.context import Look, Visitor
from glassformer.model.sequences import Sequences


class ImportantWords(nn.Module):
    """From vectors of words to one vector per text; those of several `heads` are concatenated.

    With `mapped` (a width) and `activation`, the scores are v · act(W x + b); the weighted sum is
    over the x as they came in.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int = 1,
        mapped: int | None = None,
        activation: Activation | Literal["tanh"] | None = None,
    ) -> None:
        super().__init__()
        self.map = nn.Linear(width, mapped) if mapped else None
        self.vectors = nn.Parameter(torch.randn(heads, mapped or width) / math.sqrt(width))  # v
        known: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh}
        known.update((str(name), function) for name, function in ACTIVATIONS.items())
        if activation is not None and activation not in known:
            raise ConfigError(f"activation = {activation!r}: write one of {', '.join(known)}")
        self.activation = known[activation] if activation else None

    def forward(
        self, x: Tensor, sequences: Sequences, visitor: Visitor | None = None
    ) -> Tensor:  # (N, C) → (B, heads · C)
        look = Look(visitor=visitor)
        scores = look.see(self, "scores", self.inner(x) @ self.vectors.T)  # (N, heads)
        padded = sequences.pad(scores, fill=-math.inf)  # (B, T, heads)
        weights = look.see(self, "weights", sequences.unpad(padded.softmax(1), like=scores))
        weighted = weights[:, :, None] * x[:, None, :]  # (N, heads, C)
        documents = x.new_zeros(sequences.count, *weighted.shape[1:])
        return documents.index_add(0, sequences.texts(x), weighted).flatten(1)

    def inner(self, x: Tensor) -> Tensor:  # (N, C) → (N, mapped or C)
        """What v is multiplied with: x, or act(W x + b)."""
        y = x if self.map is None else self.map(x)
        return y if self.activation is None else self.activation(y)


class Important(nn.Module):
    """One vector per document, by attention over its words; or, with `sentences`, over the words of
    each sentence and then over the sentences.

        it was late . │ i loved the movie !        words
          a   a  a  a     a   a    a    a   a      words.weights: 1 in each sentence
               b                   b               sentences.weights: 1 in the document

    A document is one or more texts of the row: sentences, or windows if it is too long for one.
    `heads`, `mapped` and `activation` are those of the attention over words; several heads need
    `sentences`, whose linear map makes one vector of theirs.
    """

    def __init__(
        self,
        width: int,
        *,
        sentences: bool,
        heads: int = 1,
        mapped: int | None = None,
        activation: Activation | Literal["tanh"] | None = None,
    ) -> None:
        super().__init__()
        self.words = ImportantWords(width, heads=heads, mapped=mapped, activation=activation)
        self.map = nn.Linear(heads * width, width) if sentences else None
        self.sentences = ImportantWords(width) if sentences else None

    def forward(
        self,
        x: Tensor,
        texts: Sequences,
        documents: Sequences | None = None,
        visitor: Visitor | None = None,
    ) -> Tensor:  # (N, C) → (documents, C)
        if documents is None:
            documents = Sequences.of([1] * texts.count, device=x.device)
        if self.map is None or self.sentences is None:
            whole: Tensor = self.words(x, texts.joined(documents), visitor)
            return whole
        y = torch.tanh(self.map(self.words(x, texts, visitor)))  # (B, C)
        document: Tensor = self.sentences(y, documents, visitor)
        return document
