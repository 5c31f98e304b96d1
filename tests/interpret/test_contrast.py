"""Which models, texts and words can be asked about, and that adapters count."""

import pytest
import torch
from torch import nn

import glassformer as gf
from folders import one_line, tiny
from glassformer.adapters import new_adapter
from glassformer.errors import ConfigError, InputError
from glassformer.fields import AdapterConfig
from glassformer.interpret.attribution import direct_logit_attribution
from glassformer.interpret.circuits import edge_effects
from glassformer.interpret.contrast import ask, ask_pair
from glassformer.interpret.patching import patching_sweep
from glassformer.text.training import train_tokenizer

CLEAN, CORRUPTED = [3, 14, 15, 9, 26], [3, 14, 40, 9, 26]


@pytest.fixture(scope="module")
def adapted() -> gf.Model:
    """A model whose adapter changes every linear layer of its blocks."""
    model = tiny("encoder")
    adapter = new_adapter(model.task, None, AdapterConfig(rank=2))
    for lora in adapter.loras:
        nn.init.normal_(lora.b, std=0.5)
    return gf.Model(adapter.apply_to(model.task)).eval()


@torch.no_grad()
def test_an_adapter_counts(adapted: gf.Model) -> None:
    logits = adapted.logits([CLEAN])[0][2]
    plain = tiny("encoder").logits([CLEAN])[0][2]
    assert (logits - plain).abs().max() > 1e-2
    split = direct_logit_attribution(adapted, CLEAN, 4, 31, position=2)
    assert split.difference == pytest.approx(float(logits[4] - logits[31]))
    assert split.total == pytest.approx(split.difference)
    effects = edge_effects(adapted, CLEAN, CORRUPTED, 4, 31, position=2, steps=1)
    assert effects.value(effects.edges) == pytest.approx(split.difference)
    assert adapted.logits([CLEAN])[0][2].equal(logits)  # the model itself stays as it is


class Rounded(nn.Module):
    """In the place of a linear layer, with integers as its weight."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.register_buffer("weight", (linear.weight * 100).round().to(torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.to(x).T / 100


def test_quantized_weights_are_refused() -> None:
    model = tiny("decoder")
    attention = model.task.backbone.decoder.blocks[1].attention
    attention.output = Rounded(attention.output)
    with pytest.raises(InputError) as caught:
        direct_logit_attribution(model, CLEAN, 4, 31)
    one_line(caught.value, "quantized")


@pytest.fixture(scope="module")
def masked() -> gf.Model:
    """A model that calls its mask <mask>."""
    tokenizer = train_tokenizer(["the cat sat on the mat"] * 9, "bpe", 300)
    tokenizer.backend.add_special_tokens(["<mask>"])
    config = gf.ModelConfig(
        family="encoder", vocab_size=tokenizer.highest + 1, width=8, depth=1, heads=2, mlp_width=8,
        max_length=64, segments=2,
    )  # fmt: skip
    return gf.Model(gf.build_task(config, gf.TaskConfig(kind="masked_lm")), tokenizer).eval()


def test_a_mask_has_one_name(masked: gf.Model) -> None:
    for what in ("the [MASK] sat", ("the cat", "the [MASK] sat")):
        contrast = ask(masked, what)
        assert contrast.tokens[contrast.position] == "<mask>"


def test_both_texts_of_a_pair_predict_at_the_same_token(masked: gf.Model) -> None:
    one, two = ask_pair(masked, "the cat [MASK] on", "the mat [MASK] on")
    assert one.position == two.position and one.tokens[one.position] == "<mask>"
    assert (one.answer, one.other) == (two.answer, two.other)
    for corrupted, words in (
        ("the [MASK] cat on", ("masks are tokens", "same place")),
        ("the cat mat on", ("no mask", "[MASK]")),
    ):
        with pytest.raises(InputError) as caught:
            patching_sweep(masked, "the cat [MASK] on", corrupted)
        one_line(caught.value, *words)


def test_words_outside_the_vocabulary() -> None:
    """A number as a word is checked as a number is."""
    for answer in (53, "53", -1):
        with pytest.raises(ConfigError) as caught:
            ask(tiny("decoder"), CLEAN, answer)
        one_line(caught.value, f"token id {answer}", "0 to 52")
    with pytest.raises(ConfigError) as caught:
        ask_pair(tiny("decoder"), CLEAN, CORRUPTED, 4, "4")
    one_line(caught.value, "both '4'", "two words")
