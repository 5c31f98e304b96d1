"""Important-word pooling, with the variants of the lecture."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from glassformer.glass import Recorder
from glassformer.model import Sequences
from glassformer.tasks import ImportantWords

PROFILE = settings(deadline=None, max_examples=40, derandomize=True)
C, HEADS, MAPPED = 5, 3, 7
VARIANTS = {
    "one vector": {},
    "a linear map first": {"mapped": MAPPED},
    "a non-linearity": {"activation": "relu"},
    "a map and a non-linearity": {"mapped": MAPPED, "activation": "gelu"},
    "several heads": {"heads": HEADS},
    "all of it": {"heads": HEADS, "mapped": MAPPED, "activation": "silu"},
}
ACT = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


def words_of(seed=0, **variant):
    torch.manual_seed(seed)
    return ImportantWords(C, **variant).double().requires_grad_(False).eval()


def noise(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, C, generator=generator, dtype=torch.float64)


def by_hand(words, text, activation=None):
    """r_i = v · act(W x_i + b); a = softmax(r); document = Σ a_i x_i; one after the other."""
    y = text if words.map is None else text @ words.map.weight.T + words.map.bias
    y = ACT[activation](y) if activation else y
    return torch.cat([(y @ v).softmax(0) @ text for v in words.vectors])


@pytest.mark.parametrize("variant", VARIANTS)
def test_important_word_pooling_variants(variant):
    """The lecture's variants: a linear map, a non-linearity, several v's."""
    words, x = words_of(**VARIANTS[variant]), noise(11)
    vectors = words(x, Sequences.of([4, 1, 6]))
    expected = [by_hand(words, t, VARIANTS[variant].get("activation")) for t in x.split([4, 1, 6])]
    torch.testing.assert_close(vectors, torch.stack(expected))
    assert vectors.shape == (3, VARIANTS[variant].get("heads", 1) * C)


def test_important_word_pooling_hierarchical():
    """Words → sentence vectors → document, attention at both levels."""
    lower, upper, x = words_of(1), words_of(2), noise(9)
    sentences = lower(x, Sequences.of([4, 2, 3]))
    expected = torch.stack([by_hand(lower, text) for text in x.split([4, 2, 3])])
    document = upper(sentences, Sequences.of([3]))
    torch.testing.assert_close(document[0], by_hand(upper, expected))


@PROFILE
@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(0, 99))
def test_a_batch_gives_what_each_text_gives_alone(lengths, seed):
    words, x = words_of(seed, heads=HEADS), noise(sum(lengths), seed)
    alone = [words(text, Sequences.of([len(text)])) for text in x.split(lengths)]
    torch.testing.assert_close(words(x, Sequences.of(lengths)), torch.cat(alone))


@PROFILE
@given(st.lists(st.integers(0, 7), min_size=1, max_size=5).filter(any), st.integers(0, 99))
def test_weights_of_each_text_sum_to_one(lengths, seed):
    words = words_of(seed, heads=HEADS)
    recorder = Recorder(words)
    words(noise(sum(lengths), seed), Sequences.of(lengths), recorder)
    weights = recorder.tensors["weights"]
    assert weights.shape == (sum(lengths), HEADS)
    for text in weights.split(lengths):
        if len(text):
            torch.testing.assert_close(text.sum(0), torch.ones(HEADS, dtype=torch.float64))


def test_equal_scores_give_the_mean():
    words, x = words_of(), noise(6)
    words.vectors.zero_()
    vectors = words(x, Sequences.of([4, 2]))
    torch.testing.assert_close(vectors, torch.stack([x[:4].mean(0), x[4:].mean(0)]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_empty_texts_are_zero_and_give_no_nan_gradient(variant):
    words = words_of(**VARIANTS[variant]).requires_grad_()
    x = noise(6).requires_grad_()
    texts = Sequences.of([4, 0, 2], texts=5, longest=7)
    vectors = words(x, texts)
    assert not vectors[[1, 3, 4]].any()
    torch.testing.assert_close(vectors[[0, 2]], words(x, Sequences.of([4, 2])))
    vectors.square().sum().backward()
    for leaf in (x, *words.parameters()):
        assert torch.isfinite(leaf.grad).all()
    assert x.grad.any()


def test_the_vector_learns_which_word_counts():
    """Gradients reach v: the word that holds the answer gets nearly all the weight."""
    torch.manual_seed(3)
    words, marked = ImportantWords(C), torch.zeros(4, C)
    marked[2, 0] = 1.0
    optimiser = torch.optim.Adam(words.parameters(), lr=0.5)
    for _ in range(60):
        loss = -words(marked, Sequences.of([4]))[0, 0]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert -loss > 0.95
