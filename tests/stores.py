"""Small tokenizers and stores for the tests of data."""

from itertools import pairwise
from pathlib import Path

import numpy as np

from glassformer.data.store import Meta, Store, Writer
from glassformer.text.training import train_tokenizer

TEXTS = [
    "The cat sat on the mat. The dog sat on the log! Was it playing?\nNobody knew.",
    "She was reading an old letter. It said nothing. Then the rain came.",
    "Birds sing in the morning, and the river runs. Kings come and go; stones remain.",
    "One sentence only",
    "He bought bread, cheese and unbelievably good olives. They were eaten at once. Why not?",
    "Ships sail at dawn. Sailors sing. The harbour sleeps until the evening bell rings twice.",
]
RUSSIAN = ["Кошка сидит на ковре.", "Собака лает на луну.", "Река течёт к морю."]


def wordpiece(lowercase=True):
    return train_tokenizer(TEXTS, "wordpiece", 200, lowercase=lowercase)


def bpe():
    return train_tokenizer(TEXTS, "bpe", 300)


def translation():
    return train_tokenizer([*TEXTS, *RUSSIAN], "bpe", 330, purpose="translation")


def unigram():
    return train_tokenizer(TEXTS, "unigram", 120)


def chars():
    return train_tokenizer(TEXTS, "chars")


def store_of(folder: Path, end=(), shards=1, **columns) -> Store:
    """A store of lists of ids, by column; the documents spread evenly over shards."""
    meta = Meta("none", "<u2", list(columns), end=list(end))
    writer = Writer(folder, meta)
    count = len(next(iter(columns.values())))
    for shard in np.array_split(np.arange(count), shards):
        for i in shard:
            writer.add({name: lists[i] for name, lists in columns.items()})
        writer.close_shard()
    writer.close_shard(done=True)
    return Store(folder)


def counted(sizes, first=10):
    """Documents of these sizes in which every token is another number."""
    begins = np.concatenate([[0], np.cumsum(sizes)]) + first
    return [list(range(a, b)) for a, b in pairwise(begins)]
