"""The numbers are true: for all three families, and against cases done by hand."""

import math

import pytest
import torch

import glassformer as gf
from folders import one_line, tiny
from glassformer import glass, toys
from glassformer.errors import ConfigError, InputError
from glassformer.glass.recorder import modules
from glassformer.glass.stacks import attentions

TEXT, SOURCE = [3, 14, 15, 9, 26, 5, 35], [8, 9, 7, 9, 3]
T, S, H, C = len(TEXT), len(SOURCE), 3, 12
GROUPED = {"heads": 6, "key_heads": 2, "position": "rotary", "head_width": 4}
SHAPES = [
    ("encoder", {}), ("decoder", {}), ("seq2seq", {}), ("decoder", GROUPED),
    ("encoder", {"window": 2}), ("encoder", {"value_width": 7}), ("decoder", {"norm": "rms"}),
]  # fmt: skip


def recorded(family: str, **changes):
    model = tiny(family, **changes)
    return model, gf.record(model, (SOURCE, TEXT) if family == "seq2seq" else TEXT)


def close(a, b) -> None:
    torch.testing.assert_close(a, torch.as_tensor(b, dtype=a.dtype), rtol=1e-9, atol=1e-9)


def hand(rows) -> torch.Tensor:
    """One layer, one head."""
    return torch.tensor(rows, dtype=torch.float64)[None, None]


def test_a_trace_says_which_stacks_it_holds() -> None:
    assert glass.stacks(recorded("encoder")[1]) == {"encoder": (2, H, T, T)}
    assert glass.stacks(recorded("decoder")[1]) == {"decoder": (2, H, T, T)}
    model, both = recorded("seq2seq")
    found = {"encoder": (2, H, S, S), "decoder": (3, H, T, T), "cross": (3, H, T, S)}
    assert glass.stacks(both) == found
    assert list(glass.stacks(both)) == list(found)
    part = gf.record(model, (SOURCE, TEXT), keep="decoder.blocks.1.cross.weights")
    assert glass.stacks(part) == {"cross": (1, H, T, S)}
    assert glass.stacks(gf.record(model, (SOURCE, TEXT), keep="logits")) == {}
    toy = toys.look(toys.SECOND, toys.OneHead(toys.SECOND))
    assert glass.stacks(toy) == {"decoder": (1, 1, 5, 5)}


def test_weights_are_those_of_the_trace_with_their_tokens_beside_them() -> None:
    _, trace = recorded("seq2seq")
    words, source = [str(i) for i in TEXT], [str(i) for i in SOURCE]
    for stack, place, expected in (
        ("encoder", "encoder.blocks.1.attention", (source, source)),
        ("decoder", "decoder.blocks.1.attention", (words, words)),
        ("cross", "decoder.blocks.1.cross", (words, source)),
    ):
        found = glass.weights(trace, stack)
        assert torch.equal(found[1], trace[f"{place}.weights"])
        assert glass.sides(trace, stack) == expected
        assert found.shape[-2:] == tuple(map(len, expected))
    _, single = recorded("encoder")
    assert glass.sides(single, "encoder") == (words, words)


def test_half_precision_is_measured_in_single() -> None:
    model = tiny("encoder").to(torch.bfloat16)
    assert glass.weights(gf.record(model, TEXT), "encoder").dtype == torch.float32


def test_a_stack_that_is_not_there_gets_one_line() -> None:
    model, trace = recorded("encoder")
    for stack in ("cross", "decoder", "Encoder", ""):
        with pytest.raises(ConfigError) as caught:
            glass.weights(trace, stack)
        one_line(caught.value, repr(stack), "write 'encoder'")
    with pytest.raises(ConfigError) as caught:
        glass.weights(gf.record(model, TEXT, keep="logits"), "encoder")
    one_line(caught.value, 'keep="*.weights"')


@pytest.mark.parametrize(("family", "changes"), SHAPES, ids=str)
def test_rows_sum_to_one_and_weights_times_values_are_what_is_taken_home(family, changes) -> None:
    _, trace = recorded(family, **changes)
    for stack in glass.stacks(trace):
        found = glass.weights(trace, stack)
        close(found.sum(-1), torch.ones(found.shape[:-1]))
        for a, place in zip(found, attentions(trace, stack), strict=True):
            v = trace[f"{place}.v"]
            v = v.repeat_interleave(a.shape[0] // v.shape[1], 1)
            close(torch.einsum("hts,shd->thd", a, v), trace[f"{place}.mixed"])


@pytest.mark.parametrize(("family", "changes"), SHAPES, ids=str)
def test_value_weighted_parts_sum_to_the_layers_output(family, changes) -> None:
    model, trace = recorded(family, **changes)
    named = modules(model)
    for stack, shape in glass.stacks(trace).items():
        norms = glass.value_weighted(model, trace, stack)
        assert norms.shape == shape
        for layer, place in enumerate(attentions(trace, stack)):
            for query in range(shape.T):
                parts = glass.value_parts(model, trace, stack, layer, query)  # (H, S, C)
                out = parts.sum((0, 1)) + named[place].output.bias.detach()
                close(out, trace[f"{place}.out"][query])
                close(norms[layer, :, query], parts.norm(dim=-1))


def test_value_weighted_by_hand() -> None:
    """Half a look at a value of length 5 arrives as 2.5, whatever stands in the other head."""
    model = tiny("encoder", heads=2, width=4, depth=1)
    place = "encoder.blocks.0.attention"
    attention = modules(model)[place]
    attention.output.weight.data = torch.eye(4, dtype=torch.float64)
    values = torch.tensor([[[3.0, 4.0], [0.0, 0.0]], [[0.0, 1.0], [6.0, 8.0]]]).double()
    weights = torch.tensor([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 0.75]]]).double()
    trace = gf.Trace({f"{place}.v": values, f"{place}.weights": weights}, ["a", "b"])
    expected = [[[2.5, 0.5], [0.0, 1.0]], [[0.0, 0.0], [0.0, 7.5]]]
    close(glass.value_weighted(model, trace, "encoder")[0], expected)


def test_values_of_another_model_get_one_line() -> None:
    _, trace = recorded("decoder")
    with pytest.raises(InputError) as caught:
        glass.value_weighted(tiny("encoder"), trace, "decoder")
    one_line(caught.value, "another model", "decoder.blocks.0.attention")
    with pytest.raises(InputError) as caught:
        glass.value_weighted(tiny("decoder", value_width=7), trace, "decoder")
    one_line(caught.value, "another model")
    model, trace = recorded("encoder")
    for wrong, words in (((2, 0), ("layer 2", "0 to 1")), ((0, T), (f"query = {T}", "0 to 6"))):
        with pytest.raises(ConfigError) as caught:
            glass.value_parts(model, trace, "encoder", *wrong)
        one_line(caught.value, *words)


def test_rollout_by_hand() -> None:
    """Two layers of two tokens: the first looks at both alike, then the second only at the first.

    Ã_1 = [[.75 .25] [.25 .75]]   Ã_2 = [[1 0] [.5 .5]]   R = Ã_2 Ã_1 = [[.75 .25] [.5 .5]]
    """
    both = hand([[0.5, 0.5], [0.5, 0.5]])
    first = hand([[1.0, 0.0], [1.0, 0.0]])
    found = glass.rollout(torch.cat([both, first]))
    close(found[0], [[0.75, 0.25], [0.25, 0.75]])
    close(found[1], [[0.75, 0.25], [0.5, 0.5]])


def test_rollout_takes_the_mean_of_heads_and_its_rows_sum_to_one() -> None:
    heads = torch.cat([hand([[1.0, 0.0], [0.0, 1.0]]), hand([[0.0, 1.0], [1.0, 0.0]])], 1)
    close(glass.rollout(heads)[0], [[0.75, 0.25], [0.25, 0.75]])
    for family in ("encoder", "decoder"):
        found = glass.rollout(glass.weights(recorded(family)[1], family))
        close(found.sum(-1), torch.ones(2, T))
        if family == "decoder":
            assert torch.equal(found, found.tril())


def test_rollout_is_for_one_text_only() -> None:
    _, trace = recorded("seq2seq")
    for wrong in (glass.weights(trace, "cross"), glass.weights(trace, "encoder")[0]):
        with pytest.raises(InputError) as caught:
            glass.rollout(wrong)
        one_line(caught.value, str(list(wrong.shape)), "(L, H, T, T)")


def test_entropy_by_hand() -> None:
    found = glass.entropy(torch.cat([hand([[1, 0, 0, 0]] * 2), hand([[0.25] * 4] * 2)], 1))
    close(found[0], [0.0, math.log(4)])
    close(glass.entropy(hand([[0.5, 0.5], [0, 1]])), [[math.log(2) / 2]])


def test_sink_share_by_hand() -> None:
    some = hand([[0.5, 0.25, 0.25], [0.75, 0.25, 0.0]])
    close(glass.sink_share(some), [[0.625]])
    close(glass.sink_share(some, [1, 2]), [[0.375]])
    close(glass.sink_share(some, []), [[0.0]])


def test_separators() -> None:
    pair = ["[CLS]", "it", "rains", ",", "he", "said", "[SEP]", "yes", ".", "[SEP]"]
    assert glass.separators(pair) == [3, 6, 8, 9]
    assert glass.separators(["▁It", "▁rains", "▁.", "</s>"]) == [2, 3]
    assert glass.separators(["it", "rains"]) == []


def test_distance_by_hand() -> None:
    close(glass.distance(hand([[0.5, 0.0, 0.5], [0, 1, 0], [1, 0, 0]])), [[(1 + 0 + 2) / 3]])
