"""A batch is a row of tokens: where texts begin and end, and the way to a rectangle and back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.model import Batch, Sequences

PROFILE = settings(deadline=None, max_examples=50, derandomize=True)
LENGTHS = st.lists(st.integers(0, 7), min_size=1, max_size=6)


def row(lengths, *shape):
    size = (sum(lengths), *shape)
    return torch.arange(1, torch.Size(size).numel() + 1, dtype=torch.float64).reshape(size)


def test_the_example_of_the_docstring():
    """the cat sat │ hello │ it was so."""
    texts, x = Sequences.of([3, 1, 3]), torch.zeros(7)
    assert texts.offsets.tolist() == [0, 3, 4, 7]
    assert texts.texts(x).tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert texts.positions(x).tolist() == [0, 1, 2, 0, 0, 1, 2]
    assert (texts.count, texts.longest, texts.lengths) == (3, 3, (3, 1, 3))


@PROFILE
@given(LENGTHS)
def test_texts_and_positions_count_up(lengths):
    texts, x = Sequences.of(lengths), row(lengths)
    assert texts.texts(x).tolist() == [b for b, n in enumerate(lengths) for _ in range(n)]
    assert texts.positions(x).tolist() == [t for n in lengths for t in range(n)]
    assert texts.sizes.tolist() == lengths
    assert texts.offsets.dtype == torch.int32


@PROFILE
@given(LENGTHS, st.integers(0, 3), st.integers(0, 5))
def test_pad_and_unpad_round_trip(lengths, more_texts, more_room):
    """Also with empty texts appended and the longest length rounded up."""
    count, longest = len(lengths) + more_texts, max(max(lengths) + more_room, 1)
    texts, x = Sequences.of(lengths, texts=count, longest=longest), row(lengths, 3, 2)
    rectangle = texts.pad(x)
    assert rectangle.shape == (count, longest, 3, 2)
    assert torch.equal(texts.unpad(rectangle, like=x), x)


@PROFILE
@given(LENGTHS)
def test_pad_puts_each_text_in_its_own_line_and_zeros_behind_it(lengths):
    texts, x = Sequences.of(lengths), row(lengths, 3)
    rectangle = texts.pad(x)
    for line, text in zip(rectangle, x.split(lengths), strict=True):
        assert torch.equal(line[: len(text)], text)
        assert not line[len(text) :].any()


@PROFILE
@given(LENGTHS)
def test_unpad_drops_what_stands_in_the_padding(lengths):
    texts, x = Sequences.of(lengths), row(lengths)
    room = torch.arange(texts.longest) >= texts.sizes[:, None]
    assert torch.equal(texts.unpad(texts.pad(x).masked_fill(room, torch.nan), like=x), x)


@PROFILE
@given(LENGTHS)
def test_even_and_exact_say_whether_the_row_is_a_rectangle(lengths):
    texts = Sequences.of(lengths)
    assert texts.even(row(lengths)) == (len(set(lengths)) == 1)
    assert texts.exact == (len(set(lengths)) == 1)


def test_a_rounded_longest_is_not_a_rectangle():
    texts = Sequences.of([5, 5], longest=7)
    assert not texts.even(row([5, 5]))
    assert not texts.exact


def test_padding_a_rectangle_copies_nothing():
    texts, x = Sequences.of([5, 5, 5]), row([5, 5, 5], 2)
    assert texts.pad(x).data_ptr() == x.data_ptr()


def test_pad_and_unpad_carry_gradients():
    """The gradient of each token comes home, that of the padding does not exist."""
    lengths = [3, 0, 5]
    texts, x = Sequences.of(lengths), row(lengths).requires_grad_()
    texts.unpad(texts.pad(x) * 2, like=x).square().sum().backward()
    assert torch.equal(x.grad, 8 * x.detach())


def test_appended_texts_are_empty():
    texts = Sequences.of([3, 2], texts=5)
    assert texts.lengths == (3, 2, 0, 0, 0)
    assert texts.offsets.tolist() == [0, 3, 5, 5, 5, 5]
    assert texts.count == 5


@pytest.mark.parametrize("segments", [None, [[0, 1, 1], [0]]])
def test_batch_of_lays_lists_end_to_end(segments):
    source = Batch.of([[2, 2], [2]])
    batch = Batch.of([[5, 3, 2], [7]], segments=segments, source=source)
    assert batch.tokens.tolist() == [5, 3, 2, 7]
    assert batch.tokens.dtype == torch.long
    assert batch.sequences.lengths == (3, 1)
    assert (None if batch.segments is None else batch.segments.tolist()) == (
        segments and [0, 1, 1, 0]
    )
    assert batch.source is source
