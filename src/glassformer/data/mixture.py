"""Several sources in the shares that a recipe asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from glassformer.data.dataset import Dataset, owners
from glassformer.data.hashing import shuffled
from glassformer.data.label_alignment import Document
from glassformer.data.packing import Numbers, Samples
from glassformer.errors import InputError


def counted_sources(sources: Iterable[Iterator[Document]], counts: list[int]) -> Iterator[Document]:
    """All documents, source after source; how many each has is appended to `counts`."""
    for documents in sources:
        counts.append(0)
        for document in documents:
            counts[-1] += 1
            yield document


def mixed(dataset: Dataset, samples: Samples, shares: Sequence[float], epoch: int) -> Samples:
    """An epoch of as many tokens as all samples have, in which each source has its share of them.

    A source that is too small is repeated as a whole; of the remainder, samples are drawn, others
    in every epoch.
    """
    store = dataset.store
    documents = owners(store[store.meta.columns[0]], samples.first)
    sources = np.searchsorted(np.cumsum(store.meta.source_documents), documents, "right")
    costs = dataset.costs(samples)
    tokens = costs.reshape(len(costs), -1).sum(1)
    chosen: list[Numbers] = []
    for number, share in enumerate(shares):
        own = np.flatnonzero(sources == number)
        if not len(own):
            raise InputError(f"{store.folder}: source {number + 1} of {len(shares)} has no text")
        passes, rest = divmod(share * tokens.sum(), tokens[own].sum())
        order = own[shuffled(len(own), dataset.seed, epoch, number)]
        chosen += [own] * int(passes)
        chosen.append(order[: np.searchsorted(tokens[order].cumsum(), rest, "right")])
    return samples.take(np.concatenate(chosen))
