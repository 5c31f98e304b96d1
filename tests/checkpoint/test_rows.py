"""The row engine: names as data, both ways, bit for bit."""

import pytest
import torch

from folders import one_line
from glassformer.checkpoint.rows import Link, Row, check_known, links, pair
from glassformer.config import ModelConfig
from glassformer.errors import CheckpointError

HIDDEN, C, WIDE = 5, 3, 7


def link(row: Row, ours: list[str]) -> Link:
    (link,) = links([row], ours)
    return link


def shapes(state: dict[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def test_a_plain_row_keeps_the_tensor_as_it_is() -> None:
    state = {"up.weight": torch.randn(WIDE, C)}
    each = link(Row("fc.weight", "up.weight"), list(state))
    theirs = each.to_theirs(state)
    assert torch.equal(theirs, state["up.weight"])
    assert each.shape(shapes(state)) == tuple(theirs.shape) == (WIDE, C)
    assert torch.equal(each.to_ours(theirs, shapes(state))["up.weight"], state["up.weight"])


def test_transpose_turns_a_matrix_and_leaves_a_vector() -> None:
    state = {"up.weight": torch.randn(WIDE, C), "up.bias": torch.randn(WIDE)}
    for each in links([Row("fc.*", "up.*", transpose=True)], list(state)):
        (name,) = each.ours
        theirs = each.to_theirs(state)
        assert theirs.is_contiguous()
        assert torch.equal(theirs, state[name].T if theirs.dim() == 2 else state[name])
        assert each.shape(shapes(state)) == tuple(theirs.shape)
        assert torch.equal(each.to_ours(theirs, shapes(state))[name], state[name])


QKV = tuple(f"blocks.{{}}.{part}.*" for part in ("query", "key", "value"))
FUSED = Row("h.{}.c_attn.*", QKV, transpose=True)


def fused_state() -> dict[str, torch.Tensor]:
    """Parts of three different heights, as grouped heads have them."""
    tall = {"query": 6, "key": 2, "value": 4}
    state = {f"blocks.0.{part}.weight": torch.randn(n, C) for part, n in tall.items()}
    return state | {f"blocks.0.{part}.bias": torch.randn(n) for part, n in tall.items()}


def test_parts_of_each_head_stand_together() -> None:
    """Two heads of three rows: query, key and value of head 0, then of head 1."""
    config = ModelConfig(
        family="decoder", vocab_size=5, width=6, depth=1, heads=2, mlp_width=7, max_length=4
    )
    state = {f"blocks.0.{part}.weight": torch.randn(6, C) for part in ("query", "key", "value")}
    (each,) = links([Row("layers.{}.qkv.*", QKV, by_head=True)], list(state), config)
    theirs = each.to_theirs(state)
    expected = [state[name][rows] for rows in (slice(3), slice(3, 6)) for name in state]
    assert torch.equal(theirs, torch.cat(expected))
    assert each.shape(shapes(state)) == tuple(theirs.shape) == (18, C)
    for name, tensor in each.to_ours(theirs, shapes(state)).items():
        assert torch.equal(tensor, state[name])


def test_fused_parts_stand_side_by_side_in_the_order_of_the_row() -> None:
    state = fused_state()
    weight, bias = links([FUSED], list(state))
    assert (weight.theirs, bias.theirs) == ("h.0.c_attn.weight", "h.0.c_attn.bias")
    theirs = weight.to_theirs(state)
    assert weight.shape(shapes(state)) == tuple(theirs.shape) == (C, 12)
    assert torch.equal(theirs[:, :6], state["blocks.0.query.weight"].T)
    assert torch.equal(theirs[:, 6:8], state["blocks.0.key.weight"].T)
    assert torch.equal(bias.to_theirs(state)[8:], state["blocks.0.value.bias"])


def test_fused_parts_come_back_bit_for_bit() -> None:
    state = fused_state()
    back = {}
    for each in links([FUSED], list(state)):
        back |= each.to_ours(each.to_theirs(state), shapes(state))
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)
    assert all(tensor.is_contiguous() for tensor in back.values())


def test_lift_makes_a_matrix_of_one_row() -> None:
    state = {"words.bias": torch.randn(HIDDEN)}
    each = link(Row("final_logits_bias", "words.bias", lift=True), list(state))
    theirs = each.to_theirs(state)
    assert each.shape(shapes(state)) == tuple(theirs.shape) == (1, HIDDEN)
    assert torch.equal(each.to_ours(theirs, shapes(state))["words.bias"], state["words.bias"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_no_precision_is_lost(dtype: torch.dtype) -> None:
    state = {name: tensor.to(dtype) for name, tensor in fused_state().items()}
    for each in links([FUSED], list(state)):
        back = each.to_ours(each.to_theirs(state), shapes(state))
        assert all(back[n].dtype == dtype and torch.equal(back[n], state[n]) for n in each.ours)


def test_layer_numbers_are_filled_in_each_for_itself() -> None:
    ours = ["blocks.0.norm.weight", "blocks.11.norm.weight", "blocks.11.norm.bias", "norm.weight"]
    all_links = links([Row("layer.{}.LayerNorm.*", "blocks.{}.norm.*")], ours)
    assert {each.theirs: each.ours for each in all_links} == {
        "layer.0.LayerNorm.weight": ("blocks.0.norm.weight",),
        "layer.11.LayerNorm.weight": ("blocks.11.norm.weight",),
        "layer.11.LayerNorm.bias": ("blocks.11.norm.bias",),
    }


def paired(rows: list[Row], ours: list[str], names: list[str], optional: tuple[str, ...] = ()):
    return pair(links(rows, ours), names, "bert.", "a/folder", optional)


NORM = [Row("LayerNorm.*", "norm.*")]
NORM_OURS = ["norm.weight", "norm.bias"]


@pytest.mark.parametrize("prefix", ["", "bert."])
@pytest.mark.parametrize("leaves", [("weight", "bias"), ("gamma", "beta")])
def test_greek_leaves_and_prefixes_are_found(prefix: str, leaves: tuple[str, str]) -> None:
    names = [f"{prefix}LayerNorm.{leaf}" for leaf in leaves]
    by_name = paired(NORM, NORM_OURS, names)
    assert {name: each.ours for name, each in by_name.items()} == {
        names[0]: ("norm.weight",),
        names[1]: ("norm.bias",),
    }


def test_a_missing_tensor_is_named_with_its_file() -> None:
    with pytest.raises(CheckpointError) as caught:
        paired(NORM, NORM_OURS, ["bert.LayerNorm.weight"])
    one_line(caught.value, "a/folder", "'LayerNorm.bias'", "missing")


def test_a_constant_table_may_be_missing_and_a_parameter_may_not() -> None:
    rows = [Row("embed_positions.weight", "wave")]
    assert paired(rows, ["wave"], [], optional=("wave",)) == {}
    with pytest.raises(CheckpointError, match="embed_positions"):
        paired(rows, ["wave"], [], optional=("other",))


def test_an_unknown_tensor_is_named_with_its_file() -> None:
    with pytest.raises(CheckpointError) as caught:
        check_known(["LayerNorm.weight", "evil.weight"], ["LayerNorm.*"], "bert.", "a/folder")
    one_line(caught.value, "a/folder", "'evil.weight'")


def test_a_known_tensor_of_another_part_is_kept() -> None:
    names = ["bert.pooler.dense.weight", "pooler.dense.bias", "layer.12.position_ids"]
    patterns = ["pooler.dense.*", "layer.{}.position_ids"]
    check_known(names, patterns, "bert.", "a/folder")


@pytest.mark.parametrize("pattern", ["LayerNorm.*", "LayerNorm.weight"])
def test_a_kept_tensor_may_have_a_greek_leaf(pattern: str) -> None:
    check_known(["LayerNorm.gamma"], [pattern], "bert.", "a/folder")


@pytest.mark.parametrize(
    "name", ["h.0.attn.c_attn.bias", "h.0.attn.bias.more", "xh.0.attn.bias", "h.x.attn.bias",
             "h.0.attn.weight", "h.0.attnXbias"]
)  # fmt: skip
def test_a_mask_buffer_swallows_nothing_else(name: str) -> None:
    check_known(["h.0.attn.bias"], ["h.{}.attn.bias"], "bert.", "a")
    with pytest.raises(CheckpointError):
        check_known([name], ["h.{}.attn.bias"], "bert.", "a")


def test_a_mask_buffer_is_not_taken_for_the_bias_of_the_projection() -> None:
    row = Row("h.{}.attn.c_attn.*", "blocks.{}.query.*")
    names = ["h.0.attn.bias", "h.0.attn.c_attn.bias"]
    assert list(paired([row], ["blocks.0.query.bias"], names)) == ["h.0.attn.c_attn.bias"]


WORDS = [
    Row("wte.weight", "table.weight"),
    Row("lm_head.weight", "words.weight"),
    Row("lm_head.weight", "table.weight", tied=True),
]


def test_an_untied_output_has_its_own_tensor() -> None:
    by_name = paired(WORDS, ["table.weight", "words.weight"], ["wte.weight", "lm_head.weight"])
    assert by_name["lm_head.weight"].ours == ("words.weight",)
    assert not by_name["lm_head.weight"].row.tied


def test_an_untied_output_must_be_in_the_file() -> None:
    with pytest.raises(CheckpointError, match=r"'lm_head\.weight' is missing"):
        paired(WORDS, ["table.weight", "words.weight"], ["wte.weight"])


def test_a_tied_output_is_the_table_and_may_be_missing() -> None:
    both = paired(WORDS, ["table.weight"], ["wte.weight", "lm_head.weight"])
    assert both["lm_head.weight"].ours == ("table.weight",)
    assert both["lm_head.weight"].row.tied
    assert list(paired(WORDS, ["table.weight"], ["wte.weight"])) == ["wte.weight"]
