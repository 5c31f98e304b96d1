"""Input attribution against captum and by hand, with its completeness and its controls."""

from typing import get_args

import pytest
import torch

import glassformer as gf
from folders import one_line, tiny
from glassformer.errors import ConfigError, InputError
from glassformer.interpret import inputs
from glassformer.interpret.contrast import ask
from glassformer.interpret.inputs import Method, differences, input_attribution, token_vectors
from glassformer.interpret.statistics import rank_correlation

TEXT, SOURCE = [3, 14, 15, 9, 26, 5], [8, 9, 7, 3]
FAMILIES = ["encoder", "decoder", "seq2seq"]


@pytest.fixture(scope="module", params=FAMILIES)
def case(request):
    what = (SOURCE, TEXT) if request.param == "seq2seq" else TEXT
    return tiny(request.param), what


def test_integrated_gradients_are_captums_and_complete(case) -> None:
    from captum.attr import IntegratedGradients

    model, what = case
    result = input_attribution(model, what, 4, 31, position=2, steps=64)
    vectors = token_vectors(result.contrast)

    def forward(*texts):
        return differences(result.contrast, dict(zip(vectors, texts, strict=True)))

    theirs = IntegratedGradients(forward).attribute(
        tuple(x[None] for x in vectors.values()), n_steps=64, internal_batch_size=64
    )
    for ours, each in zip(result.scores.values(), theirs, strict=True):
        torch.testing.assert_close(ours, each[0].sum(-1), rtol=0, atol=1e-4)
    assert result.gap <= 0.01


def test_occlusion_is_what_zeroing_each_vector_changes(case) -> None:
    model, what = case
    result = input_attribution(model, what, 4, 31, position=2, method="occlusion")
    for stack, scores in result.scores.items():
        name = f"{stack}.embedding.tokens"
        for token in range(len(scores)):

            def without(x, token=token):
                x[token] = 0
                return x

            logits = gf.record(model, what, keep="logits", edit={name: without})["logits"][2]
            expected = result.difference - float(logits[4] - logits[31])
            assert abs(float(scores[token]) - expected) <= 1e-9


def test_gradient_x_input_is_exact_where_the_model_is_linear_in_it() -> None:
    """It is the derivative along x; the integral's mean over many steps differs from it here."""
    model = tiny("decoder")
    result = input_attribution(model, TEXT, 4, 31, method="gradient_x_input")
    contrast = ask(model, TEXT, 4, 31)
    (x,) = token_vectors(contrast).values()
    step = 1e-6
    for token in range(len(TEXT)):
        texts = torch.stack([x, x])
        texts[0, token] *= 1 + step
        texts[1, token] *= 1 - step
        up, down = differences(contrast, {"decoder": texts}).tolist()
        assert abs((up - down) / (2 * step) - float(result.scores["decoder"][token])) <= 1e-5
    assert result.gap > 0.01


def test_tokens_after_the_prediction_have_no_part_in_it() -> None:
    for method in ("integrated_gradients", "gradient_x_input", "occlusion", "attention_rollout",
                   "value_zeroing"):  # fmt: skip
        result = input_attribution(tiny("decoder"), TEXT, 4, 31, position=2, method=method, steps=8)
        assert result.scores["decoder"][3:].abs().max() <= 1e-9
        assert result.scores["decoder"][:3].abs().max() > 1e-6


@pytest.mark.parametrize("method", get_args(Method))
def test_in_half_precision_and_in_small_batches(method, monkeypatch) -> None:
    """Of at most two texts at once: the same scores, and in bfloat16 nearly the same."""
    model = tiny("encoder")
    options = {"position": 2, "method": method, "steps": 4}
    whole = input_attribution(model, TEXT, 4, 31, **options)
    curve = whole.deletion_curve()
    monkeypatch.setattr(inputs, "ROW", 2 * len(TEXT))
    parts = input_attribution(model, TEXT, 4, 31, **options)
    torch.testing.assert_close(parts.scores, whole.scores)
    assert parts.deletion_curve() == pytest.approx(curve)
    half = input_attribution(model.to(torch.bfloat16), TEXT, 4, 31, **options)
    error = (half.scores["encoder"] - whole.scores["encoder"]).abs().max()
    assert error <= 0.1 * whole.scores["encoder"].abs().max()


def test_value_zeroing_by_hand() -> None:
    model = tiny("encoder", depth=1)
    result = input_attribution(model, TEXT, 4, 31, position=1, method="value_zeroing")
    name, out = "encoder.blocks.0.attention.v", "encoder.blocks.0.out"
    base, turned = gf.record(model, TEXT)[out][1], []
    for token in range(len(TEXT)):

        def without(v, token=token):
            v[token] = 0
            return v

        other = gf.record(model, TEXT, edit={name: without})[out][1]
        turned.append(1 - torch.cosine_similarity(base, other, dim=0))
    expected = torch.stack(turned)
    torch.testing.assert_close(result.scores["encoder"], expected / expected.sum())


def test_the_deletion_curve_ends_without_any_word(case) -> None:
    model, what = case
    result = input_attribution(model, what, 4, 31, position=2, method="occlusion")
    curve = result.deletion_curve()
    assert len(curve) == 1 + sum(map(len, result.scores.values()))
    assert abs(curve[0] - result.difference) <= 1e-9
    assert abs(curve[-1] - result.baseline) <= 1e-9
    best = max(float(scores.max()) for scores in result.scores.values())
    assert abs(curve[0] - curve[1] - best) <= 1e-9


def test_attention_rollout_by_hand() -> None:
    """(A_1 + I) / 2 · (A_0 + I) / 2, with the mean of the heads."""
    model = tiny("decoder")
    result = input_attribution(model, TEXT, 4, 31, method="attention_rollout")
    trace, product = gf.record(model, TEXT), torch.eye(len(TEXT)).double()
    for layer in (0, 1):
        weights = trace[f"decoder.blocks.{layer}.attention.weights"].mean(0)
        product = (weights + torch.eye(len(TEXT))) / 2 @ product
    torch.testing.assert_close(result.scores["decoder"], product[-1])
    assert result.gap is None


def test_the_control_knows_what_was_learned_from_what_was_not() -> None:
    """Scores of learned weights differ from those of random ones; random weights repeat theirs."""
    model = tiny("encoder")
    result = input_attribution(model, TEXT, 4, 31, position=2, method="occlusion")
    values = [result.random_weight_control(seed) for seed in range(8)]
    assert abs(sum(values) / len(values)) <= 0.5 and len(set(values)) > 1
    with torch.random.fork_rng():
        torch.manual_seed(3)
        untrained = gf.Model(gf.build_task(model.config, model.task.spec)).eval()
    same = input_attribution(untrained, TEXT, 4, 31, position=2, method="occlusion")
    assert same.random_weight_control(3) == pytest.approx(1)


def test_the_control_leaves_out_what_a_decoder_has_not_read() -> None:
    """Zeros after the prediction would correlate for any two models."""
    model = tiny("decoder")
    text = [*TEXT[:3], *([5] * 9)]
    short = input_attribution(model, TEXT[:3], 4, 31, method="occlusion").random_weight_control()
    long = input_attribution(model, text, 4, 31, position=2, method="occlusion")
    assert long.random_weight_control() == pytest.approx(short)


def test_rank_correlation() -> None:
    a = torch.tensor([1.0, 2, 3, 4])
    assert rank_correlation(a, a**3) == pytest.approx(1)
    assert rank_correlation(a, -a) == pytest.approx(-1)
    assert rank_correlation(a, torch.ones(4)) == 0
    assert rank_correlation(a, torch.tensor([1.0, 1, 2, 2])) == pytest.approx(0.8944, abs=1e-4)


def test_mistakes_get_one_line() -> None:
    for call, words in (
        ({"method": "magic"}, ("'magic'", "occlusion")),
        ({"steps": 0}, ("steps = 0",)),
    ):
        with pytest.raises(ConfigError) as caught:
            input_attribution(tiny("decoder"), TEXT, 4, 31, **call)
        one_line(caught.value, *words)
    with pytest.raises(InputError) as caught:
        input_attribution(tiny("seq2seq"), (SOURCE, TEXT), 4, 31, method="value_zeroing")
    one_line(caught.value, "value_zeroing", "occlusion")
