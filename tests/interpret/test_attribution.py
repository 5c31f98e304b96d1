"""Direct logit attribution is exact: its summands add up to the difference of two logits."""

from functools import partial

import pytest
import torch

import glassformer as gf
from folders import CONFIGS, TASKS, heat, one_line, tiny
from glassformer.errors import ConfigError, InputError
from glassformer.interpret.attribution import attribute, direct_logit_attribution
from glassformer.interpret.contrast import ask

TEXT, SOURCE = [3, 14, 15, 9, 26, 5, 35], [8, 9, 7, 9, 3]
# Post-norm, distances, windows, shared blocks; pre-norm, parallel blocks, norms before and after,
# norms after; three encoder-decoders, of which two have norms that do not centre.
NAMES = [
    "BertForMaskedLM", "DebertaV2ForMaskedLM", "ModernBertForMaskedLM", "AlbertForMaskedLM",
    "GPT2LMHeadModel", "GPTNeoXForCausalLM", "Gemma2ForCausalLM", "Olmo2ForCausalLM",
    "MarianMTModel", "T5ForConditionalGeneration", "T5GemmaForConditionalGeneration",
]  # fmt: skip


def hot(name: str, dtype: torch.dtype = torch.float32) -> gf.Model:
    return heat(gf.Model(gf.build_task(CONFIGS[name], TASKS[name], dtype=dtype)).eval())


def asked(model: gf.Model):
    return (SOURCE, TEXT) if model.config.family == "seq2seq" else TEXT


@pytest.mark.parametrize("name", NAMES)
def test_the_summands_add_up_to_the_difference(name: str) -> None:
    model = hot(name)
    for position in (0, 2, 6):
        split = direct_logit_attribution(model, asked(model), 4, 31, position=position)
        assert abs(split.total - split.difference) <= 1e-4
        with torch.no_grad():
            logits = model.logits(
                [SOURCE if model.config.family == "seq2seq" else TEXT],
                targets=[TEXT] if model.config.family == "seq2seq" else None,
            )[0][position]
        assert abs(split.difference - float(logits[4] - logits[31])) <= 1e-4
        assert max(abs(each.value) for each in split.contributions) > 1e-3


@pytest.mark.parametrize("family", ["encoder", "decoder", "seq2seq"])
def test_every_part_of_the_output_stack_has_a_summand(family: str) -> None:
    model = tiny(family)
    split = direct_logit_attribution(model, asked(model), 4, 31, position=3)
    assert abs(split.total - split.difference) <= 1e-9
    depth = 3 if family == "seq2seq" else 2
    kinds = [each.kind for each in split.contributions]
    assert kinds.count("head") == 3 * depth and kinds.count("mlp") == depth
    assert kinds.count("cross_head") == (3 * depth if family == "seq2seq" else 0)
    assert kinds[0] == "embedding" and kinds[-1] == "biases"


def test_a_head_that_is_removed_takes_its_summand_with_it() -> None:
    """In the last layer of a model without norm scales that move, ablation equals the summand."""
    model = tiny("decoder", final_norm=False)
    split = direct_logit_attribution(model, TEXT, 4, 31)
    edit = {"decoder.blocks.1.mlp.out": torch.zeros(len(TEXT), 12).double()}
    logits = gf.record(model, TEXT, keep="logits", edit=edit)["logits"][-1]
    mlp = next(each for each in split.contributions if each.name == "mlp 1")
    assert abs(split.difference - float(logits[4] - logits[31]) - mlp.value) <= 1e-9


@pytest.mark.parametrize("family", ["encoder", "decoder", "seq2seq"])
@pytest.mark.parametrize("name", ["out", "attention.out", "attention.mixed", "attention_sum"])
def test_what_an_edit_adds_is_a_summand_of_its_own(family: str, name: str) -> None:
    """Vectors of another token, as the Lab puts them: in a block's output and inside of it."""
    model = tiny(family)
    stack = "encoder" if family == "encoder" else "decoder"

    def put(x: torch.Tensor, donor: int) -> torch.Tensor:
        x[3] = x[donor]
        return x

    edit = {f"{stack}.blocks.{layer}.{name}": partial(put, donor=layer) for layer in (0, 1)}
    contrast = ask(model, asked(model), 4, 31, position=3)
    split = attribute(contrast, edit=edit)
    logits = gf.record(model, asked(model), keep="logits", edit=edit)["logits"][3]
    assert abs(split.difference - float(logits[4] - logits[31])) <= 1e-9
    assert abs(split.total - split.difference) <= 1e-9
    patches = [each for each in split.contributions if each.kind == "patch"]
    assert [each.layer for each in patches] == ([] if name == "attention.mixed" else [0, 1])
    assert all(abs(each.value) > 1e-3 for each in patches)
    assert not [each for each in attribute(contrast).contributions if each.kind == "patch"]


def test_a_logit_of_zero_under_a_cap() -> None:
    model = hot("Gemma2ForCausalLM", torch.float64)
    model.task.lm_head.weight = torch.nn.Parameter(model.task.backbone.token_embedding.clone())
    model.task.lm_head.weight.data[31] = 0
    split = direct_logit_attribution(model, TEXT, 4, 31)
    assert model.task.lm_head.cap and abs(split.total - split.difference) <= 1e-9


def test_in_half_precision_the_rest_is_a_row() -> None:
    split = direct_logit_attribution(hot("GPT2LMHeadModel", torch.bfloat16), TEXT, 4, 31)
    assert abs(split.rounding) >= 5e-5
    assert sum(each.value for each in split.strongest) == pytest.approx(split.difference)
    assert "rounding" in [each.name for each in split.strongest]
    exact = direct_logit_attribution(hot("GPT2LMHeadModel", torch.float64), TEXT, 4, 31)
    assert "rounding" not in [each.name for each in exact.strongest]


def test_another_pair_of_words_has_other_summands() -> None:
    """The test can fail: the summands belong to these two words only."""
    model = tiny("encoder")
    one, two = (direct_logit_attribution(model, TEXT, 4, b, position=1) for b in (31, 30))
    assert abs(one.total - two.difference) > 1e-3


def test_mistakes_get_one_line() -> None:
    model = tiny("encoder")
    for call, error, words in (
        ({}, InputError, ("[MASK]", "position")),
        ({"position": 7}, ConfigError, ("position = 7", "0 to 6")),
        ({"answer": 53, "position": 0}, ConfigError, ("53", "0 to 52")),
        ({"answer": 4, "other": 4, "position": 0}, ConfigError, ("two words",)),
    ):
        with pytest.raises(error) as caught:
            direct_logit_attribution(model, TEXT, **call)
        one_line(caught.value, *words)
    with pytest.raises(InputError) as caught:
        direct_logit_attribution(tiny("encoder", kind="classification"), TEXT)
    one_line(caught.value, "classification", "language model head")
