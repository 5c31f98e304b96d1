"""With a cache or without: the same answer, for ragged prompts, beams and translations."""

import re

import pytest
import torch

from glassformer.config import ModelConfig
from glassformer.errors import InputError
from glassformer.model import Batch, Cache, build

SIZES = {"vocab_size": 31, "width": 24, "depth": 3, "heads": 4, "mlp_width": 17}
SIZES |= {"max_length": 23, "init_std": 0.3}
TEXTS = [[3, 1, 4, 1, 5, 9, 2], [6, 5], [3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]]
PROMPTS = [3, 1, 5]  # how much of each text is read at first

STRUCTURES = {
    "learned": {},
    "sinusoidal": {"position": "sinusoidal"},
    "rotary": {"position": "rotary"},
    "relative": {"position": "relative", "relative_buckets": 8, "relative_distance": 7},
    "no positions": {"position": "none"},
    "window": {"window": 2},
    "window, rotary, some layers global": {"position": "rotary", "window": 1, "global_every": 2},
    "grouped heads": {"key_heads": 2},
    "other value width": {"head_width": 5, "value_width": 7},
    "post-norm": {"norm_place": "post"},
}
UNEQUAL = {
    "decoder_width": 30, "decoder_heads": 5, "decoder_key_heads": 1, "decoder_mlp_width": 19,
    "shared_embedding": False,
}  # fmt: skip


def model_of(family, **structure):
    torch.manual_seed(11)
    config = ModelConfig(family=family, **SIZES, **structure)
    return build(config, dtype=torch.float64).eval().requires_grad_(False)


def cache_of(model, texts=3, capacity=13, **more):
    return Cache(model.config, texts, capacity, dtype=torch.float64, **more)


def split(hidden, lists):
    return hidden.split([len(each) for each in lists])


def feed(model, cache, steps, **first):
    """Each step's new tokens through the cache; all vectors of each text, joined."""
    parts = [[] for _ in steps[0]]
    for step in steps:
        hidden = model(Batch.of(step, **first), cache=cache)
        first = {}
        for part, vectors in zip(parts, split(hidden, step), strict=True):
            part.append(vectors)
    return [torch.cat(part) for part in parts]


def in_steps(texts, prompts):
    """A ragged prompt, one token a text as long as all have one, then a ragged rest."""
    steps = [[text[:n] for text, n in zip(texts, prompts, strict=True)]]
    singles = min(len(text) - n for text, n in zip(texts, prompts, strict=True))
    for i in range(singles):
        steps.append([text[n + i : n + i + 1] for text, n in zip(texts, prompts, strict=True)])
    steps.append([text[n + singles :] for text, n in zip(texts, prompts, strict=True)])
    return steps


def check(hidden, whole):
    for one, other in zip(hidden, whole, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_decoder_with_a_cache_equals_without(structure):
    model = model_of("decoder", **STRUCTURES[structure])
    hidden = feed(model, cache_of(model), in_steps(TEXTS, PROMPTS))
    check(hidden, split(model(Batch.of(TEXTS)), TEXTS))


@pytest.mark.parametrize("structure", ["learned", "rotary", "relative", "grouped heads"])
def test_even_prompts_with_a_cache_equal_without(structure):
    """All texts of one length: the rectangle without a mask."""
    model = model_of("decoder", **STRUCTURES[structure])
    texts = [text[:5] for text in (TEXTS[0], TEXTS[2])]
    steps = [[text[a:b] for text in texts] for a, b in ((0, 3), (3, 4), (4, 5))]
    hidden = feed(model, cache_of(model, texts=2), steps)
    check(hidden, split(model(Batch.of(texts)), texts))


SOURCES = [[7, 7, 2], [1, 2, 3, 4, 5, 6, 7, 8], [9]]


@pytest.mark.parametrize("sizes", [{}, UNEQUAL], ids=["alike", "unequal"])
@pytest.mark.parametrize("structure", ["learned", "sinusoidal", "rotary", "relative"])
def test_seq2seq_with_a_cache_equals_without(structure, sizes):
    """The source is read once, at the first step, and recalled at all others."""
    model = model_of("seq2seq", decoder_depth=2, **STRUCTURES[structure], **sizes)
    source, cache = Batch.of(SOURCES), cache_of(model, memory_capacity=11)
    hidden = feed(model, cache, in_steps(TEXTS, PROMPTS), source=source)
    check(hidden, split(model(Batch.of(TEXTS, source=source)), TEXTS))


def test_cache_notices_a_wrong_past():
    """Negative control: another prompt must give other vectors afterwards."""
    model = model_of("decoder")
    hidden = feed(model, cache_of(model, texts=1), [[[3, 1, 5]], [[1, 5]]])
    whole = model(Batch.of([[3, 1, 4, 1, 5]]))
    assert (hidden[0][3:] - whole[3:]).abs().max() > 1e-3


ORDERS = {"beams fork": [1, 0, 0, 2, 1], "a finished text leaves": [2, 0], "swap": [2, 1, 0]}


@pytest.mark.parametrize("order", ORDERS)
def test_select_makes_text_i_what_text_index_i_was(order):
    model, index = model_of("decoder"), ORDERS[order]
    cache = cache_of(model)
    model(Batch.of(TEXTS), cache=cache)
    cache.select(torch.tensor(index))
    new = [[20 + i] for i in range(len(index))]
    hidden = model(Batch.of(new), cache=cache)
    whole = [TEXTS[i] + new[place] for place, i in enumerate(index)]
    last = [vectors[-1] for vectors in split(model(Batch.of(whole)), whole)]
    torch.testing.assert_close(hidden, torch.stack(last))
    assert cache.counts == tuple(map(len, whole))
    assert cache.lengths.tolist() == list(cache.counts)


@pytest.mark.parametrize("order", ORDERS)
def test_select_takes_the_memory_along(order):
    model, index = model_of("seq2seq"), ORDERS[order]
    cache = cache_of(model, memory_capacity=8)
    model(Batch.of(TEXTS, source=Batch.of(SOURCES)), cache=cache)
    cache.select(torch.tensor(index))
    new = [[20 + i] for i in range(len(index))]
    hidden = model(Batch.of(new), cache=cache)
    whole = [TEXTS[i] + new[place] for place, i in enumerate(index)]
    source = Batch.of([SOURCES[i] for i in index])
    last = [vectors[-1] for vectors in split(model(Batch.of(whole, source=source)), whole)]
    torch.testing.assert_close(hidden, torch.stack(last))


def test_a_full_cache_says_what_to_do():
    model = model_of("decoder")
    cache = cache_of(model, texts=2, capacity=5)
    model(Batch.of([[1, 2, 3, 4], [5]]), cache=cache)
    line = "room for 5 tokens per text and 6 are needed: create it with a larger capacity"
    with pytest.raises(InputError, match=re.escape(line)):
        model(Batch.of([[5, 6], [6]]), cache=cache)
    assert cache.counts == (4, 1)


def test_after_an_overflow_the_cache_can_go_on():
    """Nothing was written: the next step that fits is as right as ever."""
    model = model_of("decoder")
    cache = cache_of(model, texts=1, capacity=5)
    model(Batch.of([[3, 1, 4]]), cache=cache)
    with pytest.raises(InputError):
        model(Batch.of([[1, 5, 9]]), cache=cache)
    hidden = model(Batch.of([[1, 5]]), cache=cache)
    torch.testing.assert_close(hidden, model(Batch.of([[3, 1, 4, 1, 5]]))[3:])


def test_the_last_slot_can_be_used():
    model = model_of("decoder")
    cache = cache_of(model, texts=1, capacity=7)
    hidden = feed(model, cache, [[TEXTS[0][:6]], [TEXTS[0][6:]]])
    torch.testing.assert_close(hidden[0], model(Batch.of(TEXTS[:1])))
    assert cache.longest == cache.capacity == 7


def test_an_encoder_refuses_a_cache():
    model = model_of("encoder")
    with pytest.raises(InputError, match="cannot use a cache"):
        model(Batch.of([[1, 2]]), cache=cache_of(model, texts=1))


@pytest.mark.parametrize("cached", [True, False])
def test_a_translation_without_a_source_says_so(cached):
    model = model_of("seq2seq")
    with pytest.raises(InputError, match="needs a source text"):
        cache = cache_of(model, texts=1, memory_capacity=3) if cached else None
        model(Batch.of([[1, 2]]), cache=cache)


def test_the_cache_is_rectangular_and_as_deep_as_the_decoder():
    model = model_of("seq2seq", decoder_depth=2, key_heads=2, value_width=7)
    cache = cache_of(model, texts=5, capacity=13, memory_capacity=11)
    assert [each.shape for each in cache.keys] == 2 * [(5, 2, 13, 6)]
    assert [each.shape for each in cache.values] == 2 * [(5, 2, 13, 7)]
    assert [each.shape for each in cache.memory_keys] == 2 * [(5, 2, 11, 6)]
    assert [each.shape for each in cache.memory_values] == 2 * [(5, 2, 11, 7)]
    assert cache.longest == 0
