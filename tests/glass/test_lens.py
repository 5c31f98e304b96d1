"""The lens, a word's path, and what happens without a head."""

import math
from functools import partial

import pytest
import torch

import glassformer as gf
from folders import one_line, tiny
from glassformer import glass, toys
from glassformer.errors import ConfigError, InputError
from glassformer.model import Look

TEXT, SOURCE = [3, 14, 15, 9, 26, 5, 35], [8, 9, 7, 9, 3]
T, H, V = len(TEXT), 3, 53
FAMILIES = ["encoder", "decoder", "seq2seq"]
LAST = {"encoder": "encoder.blocks.1.out", "decoder": "decoder.blocks.1.out"}
LAST["seq2seq"] = "decoder.blocks.2.out"


def looker(family: str, **changes):
    model = tiny(family, **changes)
    return model, partial(gf.record, model, (SOURCE, TEXT) if family == "seq2seq" else TEXT)


def close(a, b) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_at_the_last_point_the_lens_shows_what_the_model_says(family: str) -> None:
    model, look = looker(family)
    trace = look()
    found = glass.lens(model, trace, top_k=V)
    assert list(found)[-1] == LAST[family]
    last, said = found[LAST[family]], glass.predictions(model, trace, top_k=V)
    close(last.probabilities, said.probabilities)
    assert last.words == said.words and last.tokens == trace.tokens
    best = trace["logits"].softmax(-1).max(-1)
    close(said.probabilities[:, 0], best.values)
    assert [row[0] for row in said.words] == [str(int(i)) for i in best.indices]
    first = next(iter(found.values()))
    assert not torch.allclose(first.probabilities, said.probabilities)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_lens_is_the_norm_and_the_head_on_each_vector(family: str) -> None:
    model, look = looker(family)
    trace, stack = look(), "encoder" if family == "encoder" else "decoder"
    for name, said in glass.lens(model, trace, top_k=3, inside=True).items():
        x = trace[name]
        if family == "decoder":  # pre-norm: the final norm comes first
            norm = model.task.backbone.decoder.norm
            x = torch.nn.functional.layer_norm(x, (12,), norm.weight, norm.bias, norm.eps)
        if family == "encoder":
            x = model.task.transform(x, Look())
        logits = x @ model.task.backbone.token_embedding.T
        if model.task.lm_head.bias is not None:
            logits = logits + model.task.lm_head.bias
        close(said.probabilities, logits.softmax(-1).topk(3).values.detach())
    points = list(glass.stream(trace, stack, inside=True))
    assert points[0] == f"{stack}.embedding.out"
    between = {
        "encoder": ["attention_norm.out", "out"],
        "decoder": ["attention_sum", "out"],
        "seq2seq": ["attention_norm.out", "cross_norm.out", "out"],
    }[family]
    depth = 3 if family == "seq2seq" else 2
    assert points[1:] == [f"{stack}.blocks.{i}.{name}" for i in range(depth) for name in between]


def test_the_lens_by_hand() -> None:
    """Three words with vectors along three axes; the head's table is the same."""
    model = tiny("decoder", vocab_size=3, width=3, heads=1, depth=1, final_norm=False)
    model.task.backbone.decoder.embedding.token.weight.data = torch.eye(3).double()
    if model.task.lm_head.bias is not None:
        model.task.lm_head.bias.data.zero_()
    vectors = {
        "decoder.embedding.out": torch.tensor([[0.0, 0, 0], [1, 0, 0]]).double(),
        "decoder.blocks.0.out": torch.tensor([[0.0, 5, 0], [0, 0, 2]]).double(),
    }
    found = glass.lens(model, gf.Trace(vectors, ["x", "y"]), top_k=2)
    start, end = found.values()
    e = math.e
    close(start.probabilities[0, 0].item(), 1 / 3)
    close(start.probabilities[1, 0].item(), e / (e + 2))
    assert start.words[1][0] == "0"
    assert [row[0] for row in end.words] == ["1", "2"]
    close(end.probabilities[1, 0].item(), e**2 / (e**2 + 2))


def test_a_model_without_words_gets_one_line() -> None:
    for kind in ("classification", "features"):
        model, look = looker("encoder", kind=kind)
        for call in (glass.lens, glass.predictions):
            with pytest.raises(InputError) as caught:
                call(model, look())
            one_line(caught.value, kind)
    toy = toys.OneHead(toys.FIRST)
    with pytest.raises(InputError) as caught:
        glass.lens(toy, toys.look(toys.FIRST, toy))
    one_line(caught.value, "OneHead")
    model, look = looker("encoder")
    with pytest.raises(InputError) as caught:
        glass.lens(model, look(), top_k=0)
    one_line(caught.value, "top_k = 0")
    with pytest.raises(ConfigError) as caught:
        glass.lens(model, look(keep="logits"))
    one_line(caught.value, "encoder.blocks.*.out")


def test_a_tagger_says_labels() -> None:
    model, look = looker("encoder", kind="token_classification")
    said = glass.predictions(model, look())
    assert {word for row in said.words for word in row} == {"no", "perhaps", "yes"}
    close(said.probabilities.sum(-1), torch.ones(T).double())


def test_half_precision() -> None:
    model, look = looker("decoder")
    model.to(torch.bfloat16)
    trace = look()
    last = list(glass.lens(model, trace).values())[-1]
    assert last.probabilities.dtype == torch.float32
    assert torch.equal(last.probabilities, glass.predictions(model, trace).probabilities)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_words_path(family: str) -> None:
    _, look = looker(family)
    trace, stack = look(), "encoder" if family == "encoder" else "decoder"
    path = glass.word_path(trace, 2, stack)
    assert path.token == "15"
    vectors = torch.stack([trace[name][2] for name in path.points])
    close(path.norm, vectors.norm(dim=-1))
    close(path.to_start[0], torch.tensor(1.0).double())
    close(path.to_end[-1], torch.tensor(1.0).double())
    close(path.to_start[-1], path.to_end[0])
    a, b = vectors[0], vectors[1]
    close(path.to_start[1], a @ b / (a.norm() * b.norm()))
    assert glass.word_path(trace, "15", stack).norm.equal(path.norm)


def test_a_path_of_the_text_that_is_read() -> None:
    trace = looker("seq2seq")[1]()
    assert glass.word_path(trace, 4, "encoder").token == "3"
    assert len(glass.word_path(trace, 4, "encoder", inside=True).points) == 5


def test_a_word_is_found_with_its_space_or_without() -> None:
    tokens = ["▁The", "▁cat", "Ġsat", "cat"]
    assert [glass.path.position(tokens, word) for word in ("▁cat", "cat", "The", "sat")] == [
        1, 3, 0, 2,
    ]  # fmt: skip
    for wrong in (4, -1, "dog"):
        with pytest.raises(ConfigError) as caught:
            glass.path.position(tokens, wrong)
        one_line(caught.value, str(wrong))


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_head_the_answer_changes(family: str) -> None:
    _, look = looker(family)
    for stack in glass.stacks(look()):
        for by in ("zero", "mean"):
            found = glass.effect(look, [(stack, 1, 2), (stack, 0, 0)], by=by)
            assert found.kl.shape == (T,) and found.kl.min() >= 0 and found.kl.max() > 0
            p, q = (each["logits"].softmax(-1) for each in (found.before, found.after))
            close(found.kl, (p * (p / q).log()).sum(-1))
            assert found.changed == [
                i for i in range(T) if p[i].argmax() != q[i].argmax()
            ]  # fmt: skip
            owner = "encoder" if family == "encoder" else "decoder"
            assert found.cosine(owner).max() <= 1 + 1e-9
    nothing = glass.effect(look, [])
    assert nothing.kl.abs().max() == 0 and nothing.changed == []


def test_zero_mean_and_a_value_of_ones_own() -> None:
    _, look = looker("encoder")
    name = "encoder.blocks.0.attention.mixed"
    before = look()[name]
    mean = look(edit={name: gf.ablate(1, by="mean")})[name]
    close(mean[:, 1], before[:, 1].mean(0).expand(T, -1))
    assert torch.equal(mean[:, [0, 2]], before[:, [0, 2]])
    own = torch.randn(H, 4)
    given = look(edit={name: gf.ablate(1, 2, by=own)})[name]
    close(given[:, 1:], own[1:].double().expand(T, -1, -1))
    assert torch.equal(given[:, 0], before[:, 0])
    edits = glass.heads_off(look(), [("encoder", 0, 1), ("encoder", 0, 2), ("encoder", 1, 0)])
    assert sorted(edits) == [name, name.replace("0", "1")]
    assert (look(edit=edits)[name][:, 1:] == 0).all()


def test_wrong_heads_get_one_line() -> None:
    _, look = looker("encoder")
    for head, words in (
        (("encoder", 2, 0), ("layer 2", "0 to 1")),
        (("encoder", 0, -1), ("head -1", "0 to 2")),
        (("cross", 0, 0), ("'cross'", "'encoder'")),
    ):
        with pytest.raises(ConfigError) as caught:
            glass.effect(look, [head])
        one_line(caught.value, *words)
    for by, words in (
        ("median", ("'median'", "'mean'")),
        (torch.zeros(2, 2), ("[2, 2]", "[3, 4]")),
    ):
        with pytest.raises(ConfigError) as caught:
            glass.effect(look, [("encoder", 0, 0)], by=by)
        one_line(caught.value, *words)


def test_a_model_without_a_head_is_compared_by_its_vectors() -> None:
    _, look = looker("encoder", kind="features")
    found = glass.effect(look, [("encoder", 1, 0)])
    assert found.cosine("encoder").min() < 0.999
    with pytest.raises(InputError) as caught:
        _ = found.kl
    one_line(caught.value, "cosine")
