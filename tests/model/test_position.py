"""How a model knows the order of words."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.t5.modeling_t5 import T5Attention

from glassformer.config import ModelConfig
from glassformer.model import Batch, Sequences, build, relative_bucket, rotate, rotation, sinusoid
from glassformer.model.position import distance_rows
from glassformer.model.stack import Relative

PROFILE = settings(deadline=None, max_examples=50, derandomize=True)
SIZES = {"family": "encoder", "vocab_size": 29, "width": 24, "depth": 2, "heads": 3}
SIZES |= {"mlp_width": 17, "max_length": 13, "init_std": 0.3}


def model_of(**structure):
    torch.manual_seed(5)
    config = ModelConfig(**{**SIZES, **structure})
    return build(config, dtype=torch.float64).eval().requires_grad_(False)


# sinusoids


def test_sinusoid_wavelengths_run_from_2_pi_to_10000_times_2_pi():
    """A geometric row: the first is 2π, the one after the last would be 10000·2π (lecture)."""
    table = sinusoid(2, 100).double()
    waves = 2 * math.pi / torch.atan2(table[1, 0::2], table[1, 1::2])
    steps = torch.arange(50, dtype=torch.float64) / 50
    torch.testing.assert_close(waves, 2 * math.pi * 10_000**steps, rtol=1e-6, atol=0)


def test_sinusoid_slowest_wave_of_the_picture():
    """Index 49·2 over 0 … 62,800: up, down and up again, a little more than one wave (lecture)."""
    slow = sinusoid(62_801, 100)[:, 98]
    turns = (slow[1:].sign() != slow[:-1].sign()).nonzero().flatten().tolist()
    assert [round(t / (math.pi * 10_000**0.98), 3) for t in turns] == [0.0, 1.0, 2.0]


@PROFILE
@given(st.integers(0, 999), st.sampled_from([2, 6, 14, 22]))
def test_sinusoid_is_the_formula_of_the_slide(position, width):
    row = sinusoid(position + 1, width)[position]
    for i in range(width // 2):
        angle = position / 10_000 ** (2 * i / width)
        assert row[2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert row[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_halves_hold_the_same_numbers_with_all_sines_first():
    slide, halves = sinusoid(11, 14), sinusoid(11, 14, "halves")
    assert torch.equal(halves, torch.cat([slide[:, 0::2], slide[:, 1::2]], dim=1))


# what an order is worth


def shuffle_error(position):
    """How far the outputs of a shuffled text are from the shuffled outputs of the text."""
    model, ids, order = model_of(position=position), [11, 3, 7, 19], [2, 0, 3, 1]
    shuffled = model(Batch.of([[ids[i] for i in order]]))
    return (model(Batch.of([ids]))[order] - shuffled).abs().max().item()


def test_shuffled_words_without_positions_give_shuffled_outputs():
    """I ate the apple, and its shuffles (lecture): without positions the order is lost."""
    assert shuffle_error("none") < 1e-12


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary", "relative"])
def test_shuffled_words_with_positions_give_other_outputs(position):
    """With any kind of position a shuffle is another sentence (lecture)."""
    assert shuffle_error(position) > 1e-2


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary", "relative"])
def test_positions_begin_anew_in_each_text(position):
    model = model_of(position=position)
    twice = model(Batch.of([[2, 3, 5], [2, 3, 5]]))
    torch.testing.assert_close(twice[:3], twice[3:])


# rotary


def scores(i, j, q, k, width=10):
    turn = rotation(64, width, 10_000.0).double()
    a, b = (rotate(x, turn[:, [at]]) for x, at in ((q, i), (k, j)))
    return (a * b).sum(-1)


@PROFILE
@given(st.integers(0, 31), st.integers(0, 31), st.integers(1, 31), st.integers(0, 99))
def test_rotary_scores_depend_only_on_distance(i, j, shift, seed):
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 1, 3, 10, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(
        scores(i, j, q, k), scores(i + shift, j + shift, q, k), rtol=1e-4, atol=1e-4
    )


def test_rotary_scores_do_depend_on_distance():
    """Negative control."""
    q, k = torch.randn(2, 1, 3, 10, generator=torch.Generator().manual_seed(0)).double()
    assert (scores(3, 5, q, k) - scores(3, 11, q, k)).abs().max() > 0.1


def test_rotation_turns_pairs_and_keeps_lengths():
    """Entry i and entry i + D/2 are one pair; position 0 does not turn."""
    x = torch.randn(7, 3, 10, generator=torch.Generator().manual_seed(0))
    turned = rotate(x, rotation(7, 10, 10_000.0))
    assert torch.equal(turned[0], x[0])
    pairs = (x[..., :5].square() + x[..., 5:].square()).sqrt()
    torch.testing.assert_close((turned[..., :5].square() + turned[..., 5:].square()).sqrt(), pairs)
    quarter = rotate(torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0]], [[1.0]]]))
    assert quarter.tolist() == [[[0.0, 1.0]]]


def test_rotation_speeds_follow_the_base():
    cos, sin = rotation(2, 6, 100.0)
    angles = torch.atan2(sin[1], cos[1]).tolist()
    assert angles == pytest.approx([1, 100 ** (-1 / 3), 100 ** (-2 / 3)], rel=1e-6)


# relative


@pytest.mark.parametrize("both_sides", [True, False])
@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (8, 20), (12, 50), (4, 7)])
def test_relative_bucket_equals_t5(both_sides, buckets, furthest):
    distance = torch.arange(-300, 301)
    theirs = T5Attention._relative_position_bucket(distance, both_sides, buckets, furthest)
    ours = relative_bucket(distance, both_sides=both_sides, buckets=buckets, furthest=furthest)
    assert torch.equal(ours, theirs)
    assert set(ours.tolist()) <= set(range(buckets))


@pytest.mark.parametrize("causal", [True, False])
def test_relative_bias_depends_only_on_distance(causal):
    table = Relative(ModelConfig(**SIZES, relative_buckets=8), causal=causal)
    bias = table(Sequences.of([7]), Sequences.of([7])).detach()
    assert bias.shape == (1, 3, 7, 7)
    assert torch.equal(bias[..., 1:, 1:], bias[..., :-1, :-1])
    assert torch.equal(bias[..., 0, 0], bias[..., 0, 3]) == causal


def test_relative_bias_behind_a_cache_continues_where_it_was():
    """With more keys than queries, the ends of both are aligned, text by text."""
    table = Relative(ModelConfig(**SIZES, relative_buckets=8), causal=True)
    whole = table(Sequences.of([7]), Sequences.of([7])).detach()[0]
    bias = table(Sequences.of([2, 1]), Sequences.of([7, 4])).detach()
    assert torch.equal(bias[0], whole[:, 5:7])
    assert torch.equal(bias[1, :, :1, :4], whole[:, 3:4, :4])


@pytest.mark.parametrize(("rows", "furthest"), [(512, 512), (16, 17), (12, 10), (8, 4)])
def test_distance_rows_equal_deberta(rows, furthest):
    distance = torch.arange(-furthest - 9, furthest + 10)
    theirs = make_log_bucket_position(distance, rows // 2, furthest).long()
    ours = distance_rows(rows, furthest)[distance.clamp(-furthest, furthest) + furthest]
    assert torch.equal(ours, (theirs + rows // 2).clamp(0, rows - 1))


def test_disentangled_scores_are_the_only_positions():
    """Without the vectors for distances the order is lost, with them it is not."""
    model = model_of(position="none", relative="disentangled", relative_buckets=8)
    ids, order = [11, 3, 7, 19], [2, 0, 3, 1]

    def error():
        shuffled = model(Batch.of([[ids[i] for i in order]]))
        return (model(Batch.of([ids]))[order] - shuffled).abs().max().item()

    assert error() > 1e-2
    table = model.encoder.distances.table.weight
    table.copy_(table[:1].clone())
    assert error() < 1e-12


def test_a_relative_bias_counts_beside_learned_positions():
    """Learned positions of 0 say nothing: what is left of the order is the bias."""
    model, ids, order = model_of(position="learned", relative="bias"), [11, 3, 7, 19], [2, 0, 3, 1]
    model.encoder.embedding.position.weight.zero_()

    def error():
        shuffled = model(Batch.of([[ids[i] for i in order]]))
        return (model(Batch.of([ids]))[order] - shuffled).abs().max().item()

    assert error() > 1e-2
    model.encoder.relative.table.weight.zero_()
    assert error() < 1e-12
