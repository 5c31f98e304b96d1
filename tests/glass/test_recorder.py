"""Looking changes nothing; what is to be changed is changed, and nothing else."""

from typing import Any

import pytest
import torch
from torch import Tensor

import glassformer as gf
from folders import one_line, tiny
from glassformer.errors import ConfigError, GlassformerError, InputError
from glassformer.glass import Recorder
from glassformer.model import attention

TEXT, OTHER, SOURCE = [3, 14, 15, 9, 26, 5, 35], [2, 7, 18, 2, 8, 1, 8], [8, 9, 7, 9, 3]
H = 3
FAMILIES = ["encoder", "decoder", "seq2seq"]
SHAPES = [
    ("encoder", {}), ("decoder", {}), ("seq2seq", {}), ("encoder", {"window": 2}),
    ("decoder", {"heads": 6, "key_heads": 2, "position": "rotary"}),
    ("decoder", {"position": "relative"}), ("encoder", {"value_width": 7}),
    ("encoder", {"shared_blocks": True, "depth": 3}), ("encoder", {"relative": "bias"}),
    ("encoder", {"relative": "disentangled", "position": "none", "relative_buckets": 8}),
]  # fmt: skip


def what(model: gf.Model, text: list[int] = TEXT) -> Any:
    return (SOURCE, text) if model.task.backbone.config.family == "seq2seq" else text


def plain(model: gf.Model, text: list[int] = TEXT) -> Tensor:
    """The logits when nobody looks."""
    targets = {}
    if model.task.backbone.config.family == "seq2seq":
        targets, text = {"targets": [text]}, SOURCE
    with torch.no_grad():
        return model.logits([text], **targets)[0]


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("family", "changes"), SHAPES, ids=str)
def test_looking_does_not_change_the_answer(family: str, changes: dict) -> None:
    model = tiny(family, **changes)
    close(gf.record(model, what(model))["logits"], plain(model))


@pytest.mark.parametrize("family", FAMILIES)
def test_looking_does_not_change_the_answer_in_single_precision(family: str) -> None:
    """To 1e-6 of the largest logit: a few units in the last place."""
    model = tiny(family).float()
    seen, unseen = gf.record(model, what(model))["logits"], plain(model)
    assert seen.dtype == torch.float32
    assert (seen - unseen).abs().max() <= 1e-6 * unseen.abs().max()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_open_way_is_taken_only_for_scores_or_weights(family: str, monkeypatch) -> None:
    model = tiny(family)
    whole = gf.record(model, what(model))

    def closed(*_: object) -> Tensor:
        raise AssertionError("the open way")

    monkeypatch.setattr(attention, "attend_in_the_open", closed)
    inner = ("scores", "weights")
    fast = gf.record(model, what(model), keep=lambda name: not name.endswith(inner))
    assert list(fast) == [name for name in whole if not name.endswith(inner)]
    for name, tensor in fast.items():
        close(tensor, whole[name])
    for keep in ("*.scores", "*.weights"):
        with pytest.raises(AssertionError, match="the open way"):
            gf.record(model, what(model), keep=keep)
    with pytest.raises(AssertionError, match="the open way"):
        gf.record(model, what(model), keep="logits", edit={"*.scores": lambda scores: scores})


def test_only_the_layer_that_is_looked_at_is_opened(monkeypatch) -> None:
    opened = []
    real = attention.attend_in_the_open

    def counted(*args: Any) -> Tensor:
        opened.append(args[5])
        return real(*args)

    monkeypatch.setattr(attention, "attend_in_the_open", counted)
    model = tiny("encoder")
    gf.record(model, TEXT, keep="encoder.blocks.1.attention.weights")
    assert opened == [model.task.backbone.encoder.blocks[1].attention]


def test_each_layer_of_a_shared_block_has_its_own_name() -> None:
    """The same weights in other modules: the same tensors, and an edit counts in one layer."""
    shared = tiny("encoder", shared_blocks=True, depth=3)
    model = tiny("encoder", depth=3)
    assert len(list(shared.parameters())) < len(list(model.parameters()))
    model.load_state_dict(shared.state_dict())
    edit = {"encoder.blocks.1.attention.mixed": gf.ablate(0)}
    for changes in ({}, {"edit": edit}, {"keep": "encoder.blocks.2.attention.weights"}):
        found, expected = (gf.record(each, TEXT, **changes) for each in (shared, model))
        assert list(found) == list(expected)
        for name, tensor in expected.items():
            close(found[name], tensor)


def test_keep_is_a_pattern_a_list_or_a_function() -> None:
    model = tiny("decoder")
    names = list(gf.record(model, TEXT))
    kept = {
        "*": names,
        "decoder.blocks.1.*": [name for name in names if name.startswith("decoder.blocks.1.")],
        ("logits", "*.q"): [name for name in names if name == "logits" or name.endswith(".q")],
        (): [],
    }
    for keep, expected in kept.items():
        assert list(gf.record(model, TEXT, keep=keep)) == expected
    assert list(gf.record(model, TEXT, keep=iter(["logits"]))) == ["logits"]
    with pytest.raises(ConfigError, match="did you mean 'logits'"):
        gf.record(model, TEXT, keep="logit")
    by_length = gf.record(model, TEXT, keep=lambda name: len(name) < 20)
    assert list(by_length) == [name for name in names if len(name) < 20]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_replaced_by_itself_changes_nothing(family: str) -> None:
    model = tiny(family)
    trace = gf.record(model, what(model))
    again = gf.record(model, what(model), edit=dict(trace))
    assert list(again) == list(trace)
    for name in trace:
        assert torch.equal(again[name], trace[name]), name
    same = gf.record(model, what(model), edit={"*": lambda tensor: tensor})
    assert torch.equal(same["logits"], trace["logits"])


@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_matters(family: str) -> None:
    """Whatever is changed, what comes after it changes, and what came before does not."""
    model = tiny(family)
    trace = gf.record(model, what(model))
    names = list(trace)
    for i, name in enumerate(names):
        value = trace[name] + torch.randn_like(trace[name])
        edited = gf.record(model, what(model), edit={name: value})
        assert torch.equal(edited[name], value)
        assert not torch.allclose(edited["logits"], trace["logits"]), name
        assert all(torch.equal(edited[each], trace[each]) for each in names[:i]), name


@pytest.mark.parametrize("family", FAMILIES)
def test_without_heads_only_the_bias_comes_out(family: str) -> None:
    model = tiny(family)
    trace = gf.record(model, what(model), edit={"*.mixed": gf.ablate(*range(H))})
    modules = dict(model.task.backbone.named_modules())
    found = {**trace.find("*.attention.out"), **trace.find("*.cross.out")}
    assert len(found) == (8 if family == "seq2seq" else 2)
    for name, out in found.items():
        bias = modules[name.removesuffix(".out")].output.bias.detach()
        close(out, bias.expand_as(out))


def test_one_head_is_taken_out_and_the_others_stay() -> None:
    model = tiny("encoder")
    name = "encoder.blocks.0.attention.mixed"
    before = gf.record(model, TEXT)[name]
    after = gf.record(model, TEXT, edit={name: gf.ablate(1)})[name]
    assert (after[:, 1] == 0).all()
    assert torch.equal(after[:, [0, 2]], before[:, [0, 2]])
    assert (before[:, 1] != 0).any()


def test_no_head_taken_out_changes_nothing() -> None:
    model = tiny("encoder")
    edited = gf.record(model, TEXT, edit={"*.mixed": gf.ablate()})
    assert torch.equal(edited["logits"], gf.record(model, TEXT)["logits"])


@pytest.mark.parametrize("head", [H, -H - 1, 99])
def test_a_head_that_is_not_there_gets_one_line(head: int) -> None:
    with pytest.raises(GlassformerError) as caught:
        gf.record(tiny("encoder"), TEXT, edit={"*.mixed": gf.ablate(head)})
    one_line(caught.value, str(head))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("block", [0, 1])
def test_the_stream_of_another_text_gives_its_answer(family: str, block: int) -> None:
    """All that a layer hands on is its output: with that in its place, the rest follows."""
    model = tiny(family)
    stack = "encoder" if family == "encoder" else "decoder"
    name = f"{stack}.blocks.{block}.out"
    other = gf.record(model, what(model, OTHER))
    patched = gf.record(model, what(model), edit={name: other[name]})
    close(patched["logits"], plain(model, OTHER))
    assert not torch.allclose(patched["logits"], plain(model))


def test_edited_scores_become_weights() -> None:
    """All look at the third token; in a decoder the first two cannot."""
    third = [2]

    def look(scores: Tensor) -> Tensor:
        return scores.index_fill(-1, torch.tensor(third), 1e4)

    for family, rows in (("encoder", slice(None)), ("decoder", slice(2, None))):
        trace = gf.record(tiny(family), TEXT, edit={"*.blocks.1.attention.scores": look})
        weights = trace[f"{family}.blocks.1.attention.weights"]
        assert (weights[:, rows, 2] == 1).all()
        assert (trace[f"{family}.blocks.1.attention.scores"][:, :, 2] == 1e4).all()
        if family == "decoder":
            assert (weights[:, :2, 2] == 0).all()


def test_an_edit_gets_a_tensor_of_its_own() -> None:
    """What a function does in place to its argument is seen only in what it returns."""
    model = tiny("encoder")
    before = gf.record(model, TEXT)

    def spoil(tensor: Tensor) -> Tensor:
        kept = tensor.clone()
        tensor.zero_()
        return kept

    # A block's output is its last norm's, under a second name.
    for pattern in ("*", "encoder.blocks.0.out"):
        after = gf.record(model, TEXT, edit={pattern: spoil})
        assert all(torch.equal(after[name], before[name]) for name in before)


def test_several_edits_are_made_one_after_the_other() -> None:
    model = tiny("encoder")
    edits = {"*.mixed": lambda t: t + 1, "encoder.blocks.0.*.mixed": lambda t: t * 2}
    before = gf.record(model, TEXT)["encoder.blocks.0.attention.mixed"]
    after = gf.record(model, TEXT, edit=edits)["encoder.blocks.0.attention.mixed"]
    close(after, (before + 1) * 2)


def test_an_edit_is_turned_into_the_precision_of_the_model() -> None:
    model = tiny("encoder").float()
    name = "encoder.blocks.0.out"
    value = torch.zeros(len(TEXT), 12, dtype=torch.float64)
    trace = gf.record(model, TEXT, edit={name: value})
    assert trace[name].dtype == trace["logits"].dtype == torch.float32
    assert (trace[name] == 0).all()


WEIGHTS = "encoder.blocks.0.attention.weights"
WRONG_EDITS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "wrong shape": ({WEIGHTS: torch.zeros(2, 7, 7)}, (WEIGHTS, "[2, 7, 7]", "[3, 7, 7]")),
    "function of a wrong shape": ({WEIGHTS: lambda t: t[0]}, (WEIGHTS, "[7, 7]", "[3, 7, 7]")),
    "function without a result": ({WEIGHTS: lambda t: None}, (WEIGHTS, "NoneType")),
    "unknown name": ({WEIGHTS + "s": torch.abs}, (repr(WEIGHTS + "s"), repr(WEIGHTS))),
    "unknown pattern": ({"*.wights": torch.abs}, ("'*.wights'",)),
    "one known, one not": ({WEIGHTS: torch.abs, "x": torch.abs}, ("'x'",)),
    "a number": ({WEIGHTS: 0.5}, (WEIGHTS, "0.5")),
    "nothing": ({WEIGHTS: None}, (WEIGHTS, "None")),
}


@pytest.mark.parametrize("name", WRONG_EDITS)
def test_a_wrong_edit_gets_one_line(name: str) -> None:
    edit, words = WRONG_EDITS[name]
    with pytest.raises(ConfigError) as caught:
        gf.record(tiny("encoder"), TEXT, edit=edit)
    one_line(caught.value, *words)


def test_a_model_that_is_training_is_not_looked_into() -> None:
    with pytest.raises(InputError) as caught:
        gf.record(tiny("encoder").train(), TEXT)
    one_line(caught.value, "eval()")


WRONG_TEXTS: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    "no tokens": ("encoder", [], ("empty",)),
    "an empty pair": ("encoder", (), ()),
    "a number": ("encoder", 5, ("5",)),
    "nothing": ("encoder", None, ("None",)),
    "fractions": ("encoder", [1.5, 2.5], ("1.5",)),
    "a text without a tokenizer": ("encoder", "hello", ("tokenizer",)),
    "a pair of lists": ("encoder", ([1, 2], [3, 4]), ("[1, 2]",)),
    "an id out of range": ("encoder", [1, 53], ("53", "52")),
    "too long": ("encoder", [1] * 18, ("18", "17")),
    "no target": ("seq2seq", [1, 2], ("target",)),
    "an empty target": ("seq2seq", ([1, 2], []), ("targets", "empty")),
}


@pytest.mark.parametrize("name", WRONG_TEXTS)
def test_a_text_that_cannot_be_recorded_gets_one_line(name: str) -> None:
    family, text, words = WRONG_TEXTS[name]
    with pytest.raises(InputError) as caught:
        gf.record(tiny(family), text)
    one_line(caught.value, *words)


def test_a_bare_task_has_the_same_names() -> None:
    model = tiny("decoder")
    names = []
    for each in (model, model.task):
        recorder = Recorder(each)
        with torch.no_grad():
            each(gf.Batch.of([TEXT]), visitor=recorder)
        names.append(list(recorder.tensors))
    assert names[0] == names[1] != []
