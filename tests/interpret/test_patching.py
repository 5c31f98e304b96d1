"""A sweep is what patching one cell after the other gives; controls are flat."""

import pytest
import torch

import glassformer as gf
from folders import CONFIGS, TASKS, heat, one_line, tiny
from glassformer.errors import ConfigError, InputError
from glassformer.interpret.circuits import edge_effects
from glassformer.interpret.patching import TENSORS, patching_sweep

CLEAN, CORRUPTED = [3, 14, 15, 9, 26], [3, 14, 40, 9, 26]
SOURCE, OTHER = [8, 9, 7, 3], [8, 30, 7, 3]
CELLS = [
    ("encoder", "encoder", "stream"), ("encoder", "encoder", "head"),
    ("decoder", "decoder", "attention"), ("decoder", "decoder", "mlp"),
    ("seq2seq", "decoder", "cross"), ("seq2seq", "decoder", "cross_head"),
    ("seq2seq", "encoder", "stream"),
]  # fmt: skip


def pair(family: str):
    if family == "seq2seq":
        return (SOURCE, CLEAN), (OTHER, CORRUPTED)
    return CLEAN, CORRUPTED


def one_by_one(model, clean, corrupted, stack, site, by_token):
    """The same with `record` and `edit`, one text at a time."""
    depth = len(getattr(model.task.backbone, stack).blocks)
    source, rows = gf.record(model, clean), []
    for layer in range(depth):
        name = f"{stack}.blocks.{layer}.{TENSORS[site]}"
        value = source[name]
        places = range(value.shape[0]) if by_token or "head" not in site else [slice(None)]
        heads = range(value.shape[1]) if "head" in site else [slice(None)]
        for place in places:
            for head in heads:

                def change(old, at=(place, head), value=value):
                    old[at] = value[at]
                    return old

                logits = gf.record(model, corrupted, keep="logits", edit={name: change})["logits"]
                rows.append(logits[2, 4] - logits[2, 31])
    return torch.stack(rows)


@pytest.mark.parametrize(("family", "stack", "site"), CELLS)
def test_a_sweep_equals_patching_one_by_one(family: str, stack: str, site: str) -> None:
    model = tiny(family)
    clean, corrupted = pair(family)
    result = patching_sweep(model, clean, corrupted, 4, 31, site=site, stack=stack, position=2)
    expected = one_by_one(model, clean, corrupted, stack, site, False)
    torch.testing.assert_close(result.patched.flatten(), expected, rtol=0, atol=1e-9)
    assert result.effect.abs().max() > 1e-3


@pytest.mark.parametrize(
    "name", ["AlbertForMaskedLM", "Gemma2ForCausalLM", "UMT5ForConditionalGeneration"]
)
def test_of_other_architectures_in_float32(name: str) -> None:
    """Blocks that are shared, windows and caps, and a bias of each layer."""
    model = heat(gf.Model(gf.build_task(CONFIGS[name], TASKS[name])).eval())
    clean, corrupted = pair(model.config.family)
    stack = "encoder" if model.config.family == "encoder" else "decoder"
    options = {"site": "head", "stack": stack, "position": 2, "by_token": True}
    result = patching_sweep(model, clean, corrupted, 4, 31, **options)
    expected = one_by_one(model, clean, corrupted, stack, "head", True)
    torch.testing.assert_close(result.patched.flatten(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["encoder", "decoder", "seq2seq"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_half_precision(family: str, dtype: torch.dtype) -> None:
    """The last block's output at the predicting token is the clean text's: all is recovered."""
    model = tiny(family).to(dtype)
    result = patching_sweep(model, *pair(family), 4, 31, position=2)
    assert float(result.recovered[-1, 2]) == pytest.approx(1, abs=0.05)
    edges = edge_effects(model, *pair(family), 4, 31, position=2, steps=1)
    assert edges.circuit(len(edges.edges)).faithfulness == pytest.approx(1, abs=0.1)


def test_the_stream_at_the_predicting_token_recovers_everything_at_the_end() -> None:
    result = patching_sweep(tiny("decoder"), CLEAN, CORRUPTED, 4, 31)
    torch.testing.assert_close(result.recovered[-1], torch.tensor([0, 0, 0, 0, 1.0]).double())
    assert (
        result.recovered[:, :2].abs().max() <= 1e-12
    )  # before the word that differs, texts are equal


def test_controls_are_flat() -> None:
    """A pair that differs only where a decoder cannot see it, and a pair of the same text."""
    model = tiny("decoder")
    for corrupted in (CLEAN, [*CLEAN[:4], 11]):
        result = patching_sweep(model, CLEAN, corrupted, 4, 31, position=3)
        assert result.effect.abs().max() <= 1e-12
        with pytest.raises(InputError) as caught:
            _ = result.recovered
        one_line(caught.value, "same difference")
    assert patching_sweep(model, CLEAN, CORRUPTED, 4, 31, position=3).effect.abs().max() > 1e-3


def test_a_shuffled_pair_has_a_flat_sweep() -> None:
    """Where words and positions do not matter, patches of the shuffled text change nothing."""
    shuffled = [15, 3, 14, *CLEAN[3:]]
    model = tiny("encoder")
    assert patching_sweep(model, CLEAN, shuffled, 4, 31, position=4).effect.abs().max() > 1e-3
    embedding = model.task.backbone.encoder.embedding
    embedding.position.weight.data.zero_()  # a bag of words: the order cannot matter
    result = patching_sweep(model, CLEAN, shuffled, 4, 31, site="head", position=4)
    assert abs(result.clean - result.corrupted) <= 1e-9
    flat = patching_sweep(model, CLEAN, shuffled, 4, 31, position=4).patched[:, 3:] - result.clean
    assert flat.abs().max() <= 1e-9


def test_mistakes_get_one_line() -> None:
    model = tiny("decoder")
    for call, error, words in (
        ({"site": "neuron"}, ConfigError, ("'neuron'", "stream")),
        ({"site": "cross"}, ConfigError, ("'cross'", "decoder")),
        ({"stack": "encoder"}, ConfigError, ("'encoder'", "'decoder'")),
        ({"corrupted": [3, 14]}, InputError, ("5 and 2 tokens",)),
    ):
        with pytest.raises(error) as caught:
            patching_sweep(model, **{"clean": CLEAN, "corrupted": CORRUPTED} | call)
        one_line(caught.value, *words)
