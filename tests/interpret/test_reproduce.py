"""Published effects: their sign and order on our models."""

import json

import pytest

import glassformer as gf
from commands import glassformer
from folders import one_line
from glassformer.errors import ConfigError, InputError
from glassformer.interpret.gpt2_effects import NAMES, greater_than, indirect_objects
from glassformer.interpret.reproduce import induction, reproduce
from glassformer.text.training import train_tokenizer


def test_heads_and_permuted_attention() -> None:
    said = glassformer("reproduce", "heads", "permuted", "--json")
    rows = [json.loads(line) for line in said.splitlines()]
    assert [row["paper"] for row in rows] == ["Clark et al. 2019"] * 2 + ["Jain and Wallace 2019"]
    assert [row["holds"] for row in rows[:2]] == [True, True]
    assert rows[2]["holds"] is False  # attention is all that mixes words here


def test_without_gpt2_there_is_one_line_about_it() -> None:
    said = glassformer("reproduce", "greater_than", "indirect_objects", "--json")
    assert said == "" and said.errors.count("\n") == 1 and "--gpt2 FOLDER" in said.errors


def test_of_a_model_that_is_not_gpt2() -> None:
    """Its names are single tokens, and it knows no indirect objects; its years are not."""
    tokenizer = train_tokenizer([f"then {name} and {name} went" for name in NAMES * 9], "bpe", 400)
    config = gf.ModelConfig(
        family="decoder", vocab_size=tokenizer.highest + 1, width=8, depth=1, heads=2, mlp_width=8,
        max_length=128,
    )  # fmt: skip
    task = gf.build_task(config, gf.TaskConfig(kind="causal_lm"))
    model = gf.Model(task, tokenizer).eval()
    (row,) = indirect_objects(model)
    assert row.published == "3.56, 99.3 %" and abs(float(row.ours.split(",")[0])) < 0.5
    with pytest.raises(InputError) as caught:
        greater_than(model)
    one_line(caught.value, "of 100 two-digit years", "GPT-2")


def test_effects_of_gpt2_need_a_decoder_and_a_known_name() -> None:
    for effect in (indirect_objects, greater_than):
        with pytest.raises(InputError) as caught:
            effect(gf.load("gf-encoder"))
        one_line(caught.value, "GPT-2", "encoder")
    with pytest.raises(ConfigError) as caught:
        reproduce(["heads", "magic"])
    one_line(caught.value, "'magic'", "greater_than")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_induction_needs_two_layers(seed: int) -> None:
    assert all(row.holds for row in induction(seed=seed))


@pytest.mark.slow
def test_without_training_there_is_no_induction() -> None:
    assert not any(row.holds for row in induction(steps=1))
