"""Direct logit attribution is exact: its summands add up to the difference of two logits."""

import pytest
import torch

import glassformer as gf
from folders import CONFIGS, TASKS, heat, one_line, tiny
from glassformer.errors import ConfigError, InputError
from glassformer.interpret.attribution import direct_logit_attribution

TEXT, SOURCE = [3, 14, 15, 9, 26, 5, 35], [8, 9, 7, 9, 3]
# Post-norm, windows, shared blocks; pre-norm, parallel blocks, norms before and after, norms after;
# three encoder-decoders, of which one has norms that do not centre.
NINE = [
    "BertForMaskedLM", "ModernBertForMaskedLM", "AlbertForMaskedLM",
    "GPT2LMHeadModel", "GPTNeoXForCausalLM", "Gemma2ForCausalLM", "Olmo2ForCausalLM",
    "MarianMTModel", "T5ForConditionalGeneration",
]  # fmt: skip


def hot(name: str, dtype: torch.dtype = torch.float32) -> gf.Model:
    return heat(gf.Model(gf.build_task(CONFIGS[name], TASKS[name], dtype=dtype)).eval())


def asked(model: gf.Model):
    return (SOURCE, TEXT) if model.config.family == "seq2seq" else TEXT


@pytest.mark.parametrize("name", NINE)
def test_the_summands_add_up_to_the_difference(name: str) -> None:
    model = hot(name)
    for position in (2, 6):
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
