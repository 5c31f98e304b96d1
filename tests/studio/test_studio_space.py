"""Space: every number is the recorder's, for all architectures; the plane is the principal one."""

import numpy as np
import pytest
import torch
from drawings import IDS, KINDS, small

import folders
import glassformer as gf
from glassformer.glass.projection import principal_axes
from glassformer.studio.jobs import Cancelled, JobMonitor
from glassformer.studio.samples import ServedModel
from glassformer.studio.views.space import word_space

TEXTS = [[5, 11, 3, 47], [2, 9, 30, 5, 11], [3, 3, 8]]


def ask(client, model, texts, **more):
    answer = client.post("/api/spaces", json={"model": model, "texts": texts, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def read(client, path):
    answer = client.get(f"/api/spaces/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def unit_vectors(model, texts, side):
    """(P, W, C) by `record`: a token a word."""
    both = model.task.backbone.config.family == "seq2seq"
    rows = []
    for ids in texts:
        trace = gf.record(model, (ids, [0, 3]) if both else ids)
        depth = len(getattr(model.task.backbone, side).blocks)
        names = [f"{side}.embedding.out", *(f"{side}.blocks.{n}.out" for n in range(depth))]
        names += [f"{side}.norm.out"] if f"{side}.norm.out" in trace else []
        rows.append(torch.stack([trace[name].double() for name in names]))
    vectors = torch.cat(rows, 1)
    return (vectors / vectors.norm(dim=-1, keepdim=True)).numpy()


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_is_the_recorders(kind, open_studio):
    model = small(kind)
    client = open_studio([ServedModel("it", model)])
    row = ask(client, "it", [" ".join(map(str, ids)) for ids in TEXTS])
    family = model.task.backbone.config.family
    side = "decoder" if family == "decoder" else "encoder"
    assert row["side"] == side
    assert [each["text"] for each in row["words"]] == [0] * 4 + [1] * 5 + [2] * 3
    assert [each["word"] for each in row["words"]] == [str(i) for ids in TEXTS for i in ids]
    units = unit_vectors(model, TEXTS, side)
    assert len(row["points"]) == len(units)
    check_plane(row["xy"], row["shown"], units)
    for word in (0, 7):
        one = read(client, f"{row['space']}/words/{word}")
        cosines = np.einsum("pwc,pc->pw", units, units[:, word])
        assert np.abs(np.array(one["cosines"]) - cosines).max() < 1e-4
        name = row["words"][word]["word"]
        same = [i for i, each in enumerate(row["words"]) if each["word"] == name]
        assert one["same"] == same and len(same) == 2
        check_plane(one["xy"], one["shown"], units[:, same])


def check_plane(xy, shown, units):
    """No other plane shows more of the variance of all layers, and distances in it are exact."""
    centred = units - units.mean(1, keepdims=True)
    flat = centred.reshape(-1, centred.shape[-1])
    _, sizes, axes = np.linalg.svd(flat, full_matrices=False)
    expected = centred @ axes[:2].T
    gap = (sizes[:3] ** 2)[[0, 1]] - np.append(sizes, 0)[[1, 2]] ** 2
    signs = np.sign((np.array(xy) * expected).sum((0, 1)))
    for axis in (0, 1):
        if gap[axis] > 1e-3 * (sizes[0] ** 2 + 1e-9):  # else the axis is not determined
            near = np.abs(np.array(xy)[..., axis] - signs[axis] * expected[..., axis])
            assert near.max() < 2e-3
    part = (expected**2).sum((1, 2)) / np.maximum((centred**2).sum((1, 2)), 1e-30)
    assert np.abs(np.array(shown) - part).max() < 2e-3


def test_the_axes_are_principal_and_always_the_same():
    torch.manual_seed(0)
    for N, C in ((53, 7), (5, 31)):
        rows = torch.randn(N, C, dtype=torch.float64) * torch.linspace(3, 0.1, C)
        axes = principal_axes(rows)
        assert torch.allclose(axes.T @ axes, torch.eye(2, dtype=torch.float64), atol=1e-9)
        best = torch.linalg.svdvals(rows)[:2]
        assert torch.allclose((rows @ axes).norm(dim=0), best)
        assert torch.equal(axes, principal_axes(rows))
        assert (axes.gather(0, axes.abs().argmax(0, keepdim=True)) > 0).all()
    assert principal_axes(torch.zeros(1, 4)).shape == (4, 2)


def test_words_are_the_means_of_their_pieces():
    """As `model.word` has them, in both families with one stack; punctuation is no word."""
    for name in ("gf-encoder", "gf-decoder"):
        model = gf.load(name)
        texts = ["I sat by the river bank.", "Unbelievably, fishermen sat there!"]
        space = word_space(model, texts)
        assert [each.word for each in space.words if each.text == 0] == texts[0][:-1].split()
        pieces = max(len(each.tokens) for each in space.words)
        assert pieces > 1
        for i, each in enumerate(space.words):
            for layer in (0, 5):
                vector = model.word(texts[each.text], each.word, layer=layer).double()
                near = space.units[layer + 1, i] @ vector / vector.norm()
                assert float(near) == pytest.approx(1, abs=1e-5)
        ends = torch.stack([model.word(texts[each.text], each.word) for each in space.words])
        ends = ends.double() / ends.double().norm(dim=-1, keepdim=True)
        assert torch.allclose((ends * space.units[-1]).sum(-1), torch.ones(len(ends)).double())


def test_two_meanings_part():
    """The two banks: one vector before the first layer, two groups after the last."""
    for name in ("gf-encoder", "gf-decoder"):
        model = gf.load(name)
        texts = ["I sat by the river bank.", "We walked along the river bank.",
                 "I put money in the bank.", "She took money from the bank."]  # fmt: skip
        space = word_space(model, texts)
        banks = [i for i, each in enumerate(space.words) if each.word == "bank"]
        first, *_, last = (space.units[:, banks] @ space.units[:, banks].mT).unbind()
        assert float(first.min()) > 0.999
        assert min(last[0, 1], last[2, 3]) > last[:2, 2:].max() + 0.05


def test_sentences_are_what_embed_returns(open_studio):
    model = gf.load("gf-encoder")
    client = open_studio([ServedModel("gf-encoder", model)])
    row = client.get("/api/models").json()["models"][0]
    texts = row["texts"]
    space = ask(client, "gf-encoder", texts)["space"]
    shown = read(client, f"{space}/sentences")
    assert shown["pooling"] == ["mean"]
    assert np.abs(np.array(shown["cosines"]) - model.similarity(texts, texts).numpy()).max() < 1e-5
    units = torch.nn.functional.normalize(model.embed(texts).double(), dim=-1).numpy()
    check_plane([shown["xy"]], [shown["shown"]], units[None])


def test_what_it_refuses(client, open_studio):
    for body, line in {
        '{"model": "toy-encoder", "texts": []}': "texts",
        '{"model": "toy-encoder", "texts": ["!"]}': "no words",
        '{"model": "toy-encoder", "texts": ["%s"]}' % ("the " * 40): "shorten it",
        '{"model": "toy-encoder", "texts": ["the cat"], "step": 3}': "no such checkpoint",
    }.items():  # fmt: skip
        answer = client.post(
            "/api/spaces", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 400 and line in answer.json()["error"], answer.text
    assert client.get("/api/spaces/s9/sentences").status_code == 404
    space = ask(client, "toy-translator", ["the cat sat"])["space"]
    for path, line in {"sentences": "no sentence vectors", "words/7": "words 0 to 2"}.items():
        answer = client.get(f"/api/spaces/{space}/{path}")
        assert answer.status_code == 400 and line in answer.json()["error"]
    mute = open_studio([ServedModel("it", folders.tiny("encoder"))])
    space = ask(mute, "it", ["1 2 3"])["space"]
    assert "tokenizer" in mute.get(f"/api/spaces/{space}/sentences").json()["error"]


def test_a_trace_has_the_words_of_its_text(client, served):
    trace = gf.record(served[1].model, "man ordered the")
    send = {"content-type": "application/octet-stream"}
    upload = client.post("/api/traces", content=trace.to_bytes(), headers=send).json()["model"]
    models = client.get("/api/models").json()["models"]
    texts = next(each for each in models if each["id"] == upload)["texts"]
    row = ask(client, upload, texts)
    assert [each["word"] for each in row["words"]] == ["man", "ordered", "the"]
    answer = client.get(f"/api/spaces/{row['space']}/sentences")
    assert answer.status_code == 400 and "model's weights" in answer.json()["error"]


def test_it_stops_when_nobody_waits():
    left = JobMonitor()
    left.stopped.set()
    with pytest.raises(Cancelled):
        word_space(folders.tiny("decoder"), [" ".join(map(str, IDS))], left)
