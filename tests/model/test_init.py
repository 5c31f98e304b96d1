"""Fresh weights: one table of rules."""

import math

import pytest
import torch

from glassformer.config import ModelConfig, TaskConfig
from glassformer.model import build
from glassformer.model.init import initialise
from glassformer.tasks import build_task

WIDE = {"vocab_size": 211, "width": 96, "depth": 3, "heads": 4, "mlp_width": 197, "max_length": 53}
RESIDUAL = ("attention.output.weight", "cross.output.weight", "mlp.down.weight")


def fresh(family="encoder", **changes):
    torch.manual_seed(2)
    return build(ModelConfig(**{**WIDE, "family": family, "init_std": 0.05, **changes}))


def spread(parameter):
    return parameter.detach().std().item()


@pytest.mark.parametrize("family", ["encoder", "decoder", "seq2seq"])
def test_norms_start_at_one_and_biases_at_zero(family):
    model = fresh(family, embedding_norm=True, segments=2)
    norms = {n: p for n, p in model.named_parameters() if n.endswith("norm.weight")}
    biases = {n: p for n, p in model.named_parameters() if n.endswith("bias")}
    assert len(norms) >= 2 * 3 + 1
    assert len(biases) >= 3 * 6
    assert all((p == 1).all() for p in norms.values())
    assert not any(p.any() for p in biases.values())


def test_norms_that_multiply_by_one_more_start_at_zero():
    places = {"norm_place": "sandwich", "qk_norm": "head"}
    model = fresh("decoder", norm="rms", norm_plus_one=True, **places)
    norms = [p for name, p in model.named_parameters() if name.endswith("norm.weight")]
    assert len(norms) == 6 * 3 + 1
    assert not any(p.any() for p in norms)


@pytest.mark.parametrize("family", ["encoder", "decoder", "seq2seq"])
def test_pre_norm_residual_maps_start_smaller(family):
    """std / √(2 · depth) for the maps that add to the stream, std for all others."""
    for name, parameter in fresh(family).named_parameters():
        if parameter.dim() == 2:
            small = name.endswith(RESIDUAL)
            expected = 0.05 / math.sqrt(6) if small else 0.05
            assert spread(parameter) == pytest.approx(expected, rel=0.06), name


def test_post_norm_residual_maps_start_like_all_others():
    for name, parameter in fresh(norm_place="post").named_parameters():
        if parameter.dim() == 2:
            assert spread(parameter) == pytest.approx(0.05, rel=0.06), name


@pytest.mark.parametrize("std", [0.02, 0.3])
def test_init_std_is_the_configs(std):
    assert spread(fresh(init_std=std).token_embedding) == pytest.approx(std, rel=0.03)


def test_weights_have_mean_zero():
    words = fresh().token_embedding
    assert abs(words.mean().item()) < 4 * 0.05 / math.sqrt(words.numel())


def test_relative_and_gated_weights_are_drawn_too():
    model = fresh(position="relative", gated=True)
    assert spread(model.encoder.relative.table.weight) == pytest.approx(0.05, rel=0.3)
    assert spread(model.encoder.blocks[0].mlp.gate.weight) == pytest.approx(0.05, rel=0.06)


@pytest.mark.parametrize("family", ["encoder", "decoder", "seq2seq"])
def test_the_seed_decides_every_weight(family):
    one, same = fresh(family), fresh(family)
    for a, b in zip(one.parameters(), same.parameters(), strict=True):
        assert torch.equal(a, b)
    other = build(one.config)
    assert not torch.equal(one.token_embedding, other.token_embedding)


def test_every_parameter_has_memory_of_the_asked_kind():
    model = build(fresh("seq2seq").config, dtype=torch.bfloat16)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert not any(p.is_meta for p in model.parameters())


@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
def test_computed_tables_are_real_though_shapes_come_first(position):
    model = fresh(position=position)
    tables = [buffer for _, buffer in model.named_buffers()]
    assert tables
    assert all(not table.is_meta and table.any() for table in tables)


def test_translation_shares_one_token_table():
    model = fresh("seq2seq")
    assert model.decoder.embedding.token.weight is model.encoder.embedding.token.weight
    assert model.token_embedding is model.encoder.embedding.token.weight


@pytest.mark.parametrize("tied", [True, False])
def test_tied_output_has_no_matrix_of_its_own(tied):
    torch.manual_seed(2)
    config = ModelConfig(family="decoder", tied=tied, init_std=0.05, **WIDE)
    task = build_task(config, TaskConfig(kind="causal_lm"))
    own = [n for n, _ in task.named_parameters() if n == "lm_head.weight"]
    assert own == ([] if tied else ["lm_head.weight"])
    if not tied:
        assert spread(task.lm_head.weight) == pytest.approx(0.05, rel=0.06)


def test_initialise_draws_anew():
    model = fresh()
    for parameter in model.parameters():
        parameter.data.fill_(7)
    initialise(model, model.config)
    assert not any((p == 7).any() for p in model.parameters())
