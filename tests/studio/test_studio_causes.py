"""The page Causes: its numbers are those of `interpret`, and its Python gives them again."""

import pytest
from drawings import execute

from glassformer.interpret import (
    fit_probe,
    fit_tuned_lens,
    input_attribution,
    word_vectors,
)
from sampling import mostly_slow

MASK, OTHER = "I deposited [MASK] in the bank.", "I ate [MASK] in the bank."
LABELLED = "I x\nate y\nthe x\nbank y\n\n" * 6


@pytest.fixture
def ask(client, run):
    def asked(kind, *, model=0, text=None, code=200, **more):
        answer = client.post(
            "/api/causes", json={"run": run(model, text)["run"], "kind": kind, **more}
        )
        assert answer.status_code == code, answer.text
        return answer.json()

    return asked


def numbers(sheet, column=1):
    return [row[column] for row in sheet["rows"]]


@pytest.mark.parametrize(("model", "token"), mostly_slow([(2, 0), (0, 3), (1, 2)]))
def test_the_scores_of_words_with_their_checks(ask, served, model, token):
    answer = ask("input", model=model, token=token)
    names = execute(answer["python"])
    result = names["result"]
    scores = [x for each in result.scores.values() for x in each.tolist()]
    assert numbers(answer["sheets"][0]) == pytest.approx(scores, abs=1e-5)
    checks = dict(answer["sheets"][1]["rows"])
    assert checks["completeness gap"] == f"{result.gap:.1%}".replace("%", " %")
    assert checks["rank correlation with random weights"] == pytest.approx(names["control"])
    (curve,) = answer["curves"]
    assert curve["values"] == pytest.approx(names["curve"], abs=1e-5)
    assert curve["values"][0] == pytest.approx(result.difference, abs=1e-5)
    assert len(answer["places"]) == len(curve["values"]) == len(scores) + 1
    plain = input_attribution(served[model].model, names["text"], position=token)
    assert plain.difference == result.difference


def test_a_circuit_is_a_graph(ask, run):
    other = run(0, OTHER)["run"]
    answer = ask("circuit", token=3, other=other, edges=12)
    names = execute(answer["python"])
    effects = names["effects"]
    assert numbers(answer["sheets"][1], 2) == pytest.approx(
        [edge.effect for edge in effects.edges[:12]], abs=1e-6
    )
    facts = numbers(answer["sheets"][0])
    circuit = effects.circuit(12)
    assert facts[2:4] == pytest.approx([circuit.faithfulness, names["control"]], abs=1e-5)
    assert len(answer["edges"]) == len(circuit.connected) == facts[4]
    nodes = answer["nodes"]
    for edge in answer["edges"]:
        assert nodes[edge["writer"]]["y"] > nodes[edge["reader"]]["y"]
    assert nodes[0]["name"] == "encoder embedding" and nodes[-1]["name"] == "logits"
    assert {node["y"] for node in (nodes[0], nodes[-1])} == {0, 1}
    assert len({(node["x"], node["y"]) for node in nodes}) == len(nodes)


@pytest.mark.slow
def test_a_circuit_of_a_translator_keeps_the_translation(ask, run):
    other = run(2, "The dog sat on the mat")["run"]
    answer = ask("circuit", model=2, token=1, other=other, edges=400)
    assert isinstance(execute(answer["python"])["effects"].clean.source_tokens, list)
    assert any(node["name"].startswith("encoder") for node in answer["nodes"])


def test_steering(ask):
    texts = {"towards": "I ate the apple.", "away": "I sat by the river.\n"}
    answer = ask("steer", token=3, layer=1, strength=3.0, **texts)
    (sheet,) = answer["sheets"]
    trace = execute(answer["python"])["trace"]
    best = trace["logits"][3].softmax(-1).topk(5).values.tolist()
    assert numbers(sheet, 3) == pytest.approx(best, abs=1e-5)
    unmoved = ask("steer", token=3, towards="I ate.", away="I sat.", strength=0)["sheets"][0]
    assert numbers(unmoved, 1) == numbers(unmoved, 3) == pytest.approx(numbers(sheet, 1), abs=1e-6)


def test_a_probe_of_each_layer(ask, served):
    answer = ask("probe", labelled=LABELLED)
    sentences = [["I", "ate", "the", "bank"]] * 6
    words = [word for each in sentences for word in each]
    layers = word_vectors(served[0].model, sentences)
    probes = [fit_probe(x, ["x", "y"] * 12, words) for x in layers.values()]
    assert numbers(answer["sheets"][0]) == [each.accuracy for each in probes]
    assert numbers(answer["sheets"][0], 3) == [each.selectivity for each in probes]
    assert [each.accuracy for each in execute(answer["python"])["probes"]] == [
        p.accuracy for p in probes
    ]


@pytest.mark.slow
def test_a_lens_is_trained(ask, served):
    texts = ["I ate the apple.", "I sat by the river bank.", "I deposited the money."]
    answer = ask("lens", texts="\n".join(texts))
    names = execute(answer["python"])
    assert numbers(answer["sheets"][0], 2) == pytest.approx(names["distances"].tolist(), abs=1e-4)
    lens = fit_tuned_lens(served[0].model, names["texts"][1:], steps=40)
    assert names["lens"].bias.equal(lens.bias)


@pytest.mark.parametrize(("kind", "model", "more", "part"), [
    ("circuit", 0, {}, "another sentence"),
    ("circuit", 0, {"edges": 0}, "edges"),
    ("input", 0, {"method": "magic"}, "method"),
    ("input", 0, {"token": 99}, "position = 99"),
    ("input", 2, {"method": "value_zeroing"}, "one stack"),
    ("steer", 0, {"towards": "I ate.", "away": " \n"}, "both kinds"),
    ("steer", 0, {"towards": "I ate.", "away": "I sat.", "layer": 9}, "layer = 9"),
    ("steer", 0, {"towards": "I ate.", "away": "I sat.", "token": 99}, "token 99"),
    ("steer", 2, {"towards": "a", "away": "b"}, "one stack"),
    ("probe", 0, {"labelled": "I ate x"}, "line 1"),
    ("probe", 0, {}, "words"),
    ("lens", 0, {"texts": "I ate."}, "two texts"),
    ("magic", 0, {}, "kind"),
])  # fmt: skip
def test_mistakes_get_one_line(ask, kind, model, more, part):
    answer = ask(kind, model=model, code=400, **more)
    assert part in answer["error"] and "\n" not in answer["error"]


def test_a_circuit_needs_two_texts_of_one_model(ask, run):
    other = run(1)["run"]
    assert "same model" in ask("circuit", other=other, code=400)["error"]
