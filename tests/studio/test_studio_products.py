"""Matrix times vector on Numbers: W, x and W x + b are the model's, for all architectures."""

import numpy as np
import pytest
import torch
from drawings import IDS, KINDS, small
from slides import Slide

import glassformer as gf
from glassformer.studio.samples import ServedModel


def parts(formula):
    """[W, operand] of each product in a formula."""
    if not isinstance(formula, list):
        return []
    own = [formula[1:]] if formula[0] == "of" else []
    return own + [each for part in formula for each in parts(part)]


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_every_product_is_the_formulas(kind, open_studio):
    """Every matrix of every step: its operand, the product with its bias, and one row."""
    model = small(kind, torch.float64)
    client = open_studio([ServedModel("it", model)])
    row = client.post("/api/runs", json={"model": "it", "text": " ".join(map(str, IDS))}).json()
    queries = row["tokens"]["queries"]
    given = (IDS, [int(each["piece"]) for each in queries["decoder"]]) if len(queries) > 1 else IDS
    trace = gf.record(model, given)
    seen = set()
    for stack in row["stacks"]:
        for layer, head, query in ((0, 0, 1), (stack["layers"] - 1, stack["heads"] - 1, 0)):
            at = f"{stack['name']}/{layer}/{head}"
            home = f"/api/runs/{row['run']}"
            shown = client.get(f"{home}/numbers/{at}/{query}").json()
            slide = Slide(model, trace, shown, stack["name"], layer, head, query)
            for step in shown["steps"]:
                for name, operand in (each for f in step["formulas"] for each in parts(f)):
                    answer = client.get(f"{home}/product/{at}/{query}/{name}/2")
                    assert answer.status_code == 200, answer.text
                    check(slide, name, operand, answer.json())
                    check_picture(slide, name, client.get(f"{home}/matrix/{at}/{name}"))
                    seen.add(name)
    assert {"W_Q", "W_K", "W_V", "W_O", "W_1", "W_2"} <= seen
    assert ("W_g" in seen) == model.config.gated


def check(slide, name, operand, told):
    weight = slide.weights(name).double()
    bias = slide.weights(name.replace("W", "b"))
    x = slide.value(operand, "")
    if told["key"] is not None:  # the key with the most weight
        assert told["key"] == int(slide.known["a_j"].argmax())
        x = x[told["key"]]
    near = {"rtol": 1e-4, "atol": 2e-5}
    np.testing.assert_allclose(told["x"], x.double().numpy(), **near)
    y = torch.nn.functional.linear(x.double(), weight, None if bias is None else bias.double())
    np.testing.assert_allclose(told["y"], y.numpy(), **near)
    assert told["rows"] == len(weight) and told["row"] == 2
    np.testing.assert_allclose(told["weights"], weight[2].numpy(), **near)
    assert (told["bias"] is None) == (bias is None)
    total = np.dot(told["weights"], told["x"]) + (told["bias"] or 0)
    assert total == pytest.approx(told["y"][2], rel=1e-4, abs=2e-5)


def check_picture(slide, name, answer):
    weight = slide.weights(name).double()
    shape = [int(each) for each in answer.headers["X-Shape"].split(",")]
    assert shape == [min(weight.shape[0], 64), min(weight.shape[1], 128)]
    cells = (np.frombuffer(answer.content, np.uint8).reshape(shape).astype(float) - 128) / 127
    if shape == list(weight.shape):
        wanted = (weight / weight.abs().max()).numpy()
        assert np.abs(cells - wanted).max() <= 0.5 / 127 + 1e-6
    assert np.abs(cells).max() == 1


def test_large_matrices_keep_their_largest_entries():
    from glassformer.studio.views.products import _largest

    torch.manual_seed(3)
    rows = torch.randn(131, 5)
    small = _largest(rows, 64)
    for part, cells in zip(rows.tensor_split(64), small, strict=True):
        assert torch.equal(cells.abs(), part.abs().amax(0)) and set(cells.tolist()) <= set(
            part.flatten().tolist()
        )


def test_what_it_refuses(client, run):
    row = run(0)
    for path, line in {
        "product/encoder/0/0/1/W_x/0": "no such matrix", "product/encoder/0/0/1/W_g/0": "W_g",
        "product/encoder/0/0/1/W_Q/-1": "rows 0 to 7", "matrix/encoder/9/0/W_Q": "layer 9",
        "product/encoder/0/0/99/W_Q/0": "tokens 0 to 8",
    }.items():  # fmt: skip
        answer = client.get(f"/api/runs/{row['run']}/{path}")
        assert answer.status_code == 400 and line in answer.json()["error"], answer.text
    far = client.get(f"/api/runs/{row['run']}/product/encoder/0/0/1/W_Q/999").json()
    assert far["row"] == 7
