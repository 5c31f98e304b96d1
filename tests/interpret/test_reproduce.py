"""Published effects: their sign and order on our models."""

import json
import math
from dataclasses import replace

import pytest
import torch

import glassformer as gf
from commands import glassformer
from folders import one_line, tiny
from glassformer.data.readers.alignments import Gold
from glassformer.errors import ConfigError, InputError
from glassformer.interpret import grokking as addition
from glassformer.interpret import induction as copying
from glassformer.interpret.gpt2_effects import NAMES, greater_than, indirect_objects
from glassformer.interpret.grokking import build_addition, cosines, grokking
from glassformer.interpret.induction import induction, induction_in_text
from glassformer.interpret.reproduce import reproduce
from glassformer.interpret.word_alignment import in_order, word_alignments
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
        list(reproduce(["heads", "magic"]))
    one_line(caught.value, "'magic'", "greater_than")


def test_without_hand_alignments_there_is_one_line_about_them() -> None:
    said = glassformer("reproduce", "alignments", "--json")
    assert said == "" and said.errors.count("\n") == 1
    assert "--translator MODEL --alignments STEM" in said.errors
    said = glassformer("reproduce", "alignments", "--translator", "gf-en-ru", code=2)
    assert said.errors.count("\n") == 1 and "write both" in said.errors


def test_cross_attention_against_hand_alignments(tmp_path) -> None:
    """Words in order are right here, and random weights are not better."""
    (tmp_path / "hand.src-tgt").write_text("the cat sat ||| кошка тут сидит\n" * 2)
    (tmp_path / "hand.gold").write_text("1-1 2-2 3-3\n" * 2)
    stem = str(tmp_path / "hand")
    said = glassformer(
        "reproduce", "alignments", "--translator", "gf-en-ru", "--alignments", stem, "--json"
    )
    row = json.loads(said)
    assert row["effect"].endswith("2 sentences") and row["holds"] is False
    assert row["ours"].endswith("words in order 0.000")
    with pytest.raises(InputError) as caught:
        word_alignments(tiny("seq2seq"), [])
    one_line(caught.value, "no sentences")


def test_words_in_order() -> None:
    gold = Gold(["a", "b"], ["x", "y", "z", "w"], frozenset(), frozenset())
    assert in_order(gold) == [(0, 0), (0, 1), (1, 2), (1, 3)]


def test_the_cosines_of_logits_are_measured() -> None:
    """Two waves are two frequencies; noise explains nothing."""
    p, numbers = 23, torch.arange(23.0)
    distance = numbers[:, None, None] + numbers[:, None] - numbers
    waves = [a * torch.cos(2 * math.pi * k * distance / p) for a, k in ((3, 4), (1, 9))]
    frequencies, explained = cosines(sum(waves) + 7, count=2)
    assert frequencies == [4, 9] and abs(explained - 1) <= 1e-5
    assert abs(cosines(sum(waves), count=1)[1] - 0.9) <= 1e-5
    noise = torch.randn(p, p, p, generator=torch.Generator().manual_seed(0))
    assert cosines(noise)[1] < 0.01


def test_addition_that_was_not_trained_has_no_cosines() -> None:
    how = replace(addition.SMALL, modulus=11, steps=100)
    model = build_addition(how)
    assert cosines(addition.addition_logits(model, 11))[1] < 0.1
    untrained = grokking(replace(how, lr=1e-9))
    assert not any(row.holds for row in untrained)
    assert untrained[0].ours == "not in 100 and not in 100"


def test_a_text_for_induction_is_long_enough() -> None:
    with pytest.raises(InputError) as caught:
        induction_in_text(torch.zeros(1000, dtype=torch.long))
    one_line(caught.value, "1,000 tokens", "51,200")


def test_without_training_there_is_no_induction() -> None:
    assert not any(row.holds for row in induction(how=replace(copying.SMALL, steps=1)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_induction_needs_two_layers(seed: int) -> None:
    assert all(row.holds for row in induction(seed=seed))


@pytest.mark.slow
def test_addition_is_learned_by_heart_and_then_by_a_rule() -> None:
    assert all(row.holds for row in grokking())
