"""`find`: the studio measures which head shows a phenomenon best."""

import itertools

import pytest
import torch

import glassformer as gf
from folders import heat, tiny
from glassformer.glass import head_scores, weights
from glassformer.pretrained import shipped
from glassformer.studio.jobs import Cancelled, JobMonitor
from glassformer.studio.runs import record_run
from glassformer.studio.samples import ServedModel, samples
from glassformer.studio.schemas import RunRequest
from glassformer.studio.views.find import find_head

IDS = "5 11 3 11 2 9 3"
FAMILIES = ("encoder", "decoder", "seq2seq")


@pytest.fixture(scope="module", params=FAMILIES)
def hot(request):
    """A run of a small model with large random weights."""
    model = heat(tiny(request.param))
    return record_run(model, RunRequest(model="0", text=IDS), "r1", JobMonitor())


def stacks(run):
    return [stack.name for stack in run.row.stacks]


def test_the_highest_score(hot):
    found = find_head(hot, "induction", JobMonitor())
    scores = {name: head_scores(hot.trace, name).get("induction") for name in stacks(hot)}
    best = {name: each.max() for name, each in scores.items() if each is not None}
    assert found.stack == max(best, key=best.get) and found.query is None
    heads = scores[found.stack]
    assert found.value == pytest.approx(float(heads.max()))
    assert float(heads[found.layer, found.head]) == float(heads.max()) > float(heads.min())


def test_the_highest_weight_from_the_last_word(hot):
    """From the last 3 to both 11s; a causal model reads back only."""
    stack = stacks(hot)[0]
    found = find_head(hot, f"{stack}:3>11", JobMonitor())
    heads = weights(hot.trace, stack)[:, :, 6, [1, 3]].sum(-1)
    assert found.query == 6 and found.stack == stack
    assert float(heads[found.layer, found.head]) == pytest.approx(float(heads.max()))
    assert found.value == pytest.approx(float(heads.max()))


def test_from_any_word(hot):
    stack = stacks(hot)[-1]
    found = find_head(hot, f"{stack}:>9", JobMonitor())
    every = weights(hot.trace, stack)[:, :, :, 5]
    rows = [i for i in range(every.shape[-1]) if stack == "cross" or i != 5]
    assert found.value == pytest.approx(float(every[:, :, rows].max()))
    assert found.value == pytest.approx(float(every[found.layer, found.head, found.query]))


def test_the_head_that_the_answer_needs(served):
    """By hand: every head off, one at a time; the winner's fall is the largest."""
    model, text = served[1].model, "man ordered the"
    run = record_run(model, RunRequest(model="0", text=text), "r1", JobMonitor())
    found = find_head(run, "ablation", JobMonitor())
    whole = gf.record(model, text)["logits"][-1].softmax(-1)
    answer = int(whole.argmax())
    falls = torch.zeros(2, 4)
    for layer in range(2):
        for head in range(4):
            off = {f"decoder.blocks.{layer}.attention.mixed": gf.ablate(head)}
            chances = gf.record(model, text, edit=off)["logits"][-1].softmax(-1)
            falls[layer, head] = whole[answer] - chances[answer]
    assert found.value == pytest.approx(float(falls.max()), abs=1e-5) and found.value > 0.01
    assert float(falls[found.layer, found.head]) == pytest.approx(float(falls.max()))


def test_heads_that_are_off_stay_off(served):
    request = RunRequest(model="0", text="man ordered the")
    first = record_run(served[1].model, request, "r1", JobMonitor())
    best = find_head(first, "ablation", JobMonitor())
    off = request.model_copy(update={"off": ((best.stack, best.layer, best.head),)})
    second = find_head(
        record_run(served[1].model, off, "r2", JobMonitor()), "ablation", JobMonitor()
    )
    assert (second.layer, second.head) != (best.layer, best.head)


def test_over_http(client, run):
    row = run(1)
    path = f"/api/runs/{row['run']}/find"
    answer = client.get(path, params={"what": "the>man"}).json()
    assert answer["stack"] == "decoder" and answer["query"] == 3
    for what, line in {
        "the>pizza": "no head of this run shows", "man>the": "no head of this run shows",
        "beauty": "write it>pizza, ablation, or one of entropy", "cross:induction": "write it>",
    }.items():  # fmt: skip
        refused = client.get(path, params={"what": what})
        assert refused.status_code == 400 and line in refused.json()["error"], refused.text
    assert client.get("/api/runs/r99/find", params={"what": "induction"}).status_code == 404


def test_it_stops_when_nobody_waits(served):
    request = RunRequest(model="0", text="man ordered the")
    recorded = record_run(served[1].model, request, "r1", JobMonitor())
    left = JobMonitor()
    left.stopped.set()
    with pytest.raises(Cancelled):
        find_head(recorded, "ablation", left)


@pytest.mark.parametrize("name", sorted(shipped()))
def test_examples_of_the_shipped_models(name):
    """Each example has a group and a head; those of a group stand side by side."""
    model = gf.load(name)
    examples = samples(ServedModel(name, model))
    groups = [each.group for each in examples]
    assert {"agreement", "coreference", "two meanings"} <= set(groups)
    assert sum(a != b for a, b in itertools.pairwise(groups)) == len(set(groups)) - 1
    for example in examples:
        if example.second is None:
            request = RunRequest(model="0", text=example.text)
            recorded = record_run(model, request, "r1", JobMonitor())
            assert example.find and find_head(recorded, example.find, JobMonitor()).value > 0.1


def test_a_word_that_the_tokenizer_does_not_know_is_not_sought(served):
    examples = samples(ServedModel("it", served[1].model))
    assert [each.find for each in examples if "Blenkinsop" in each.text] == ["induction"]
    assert [each.find for each in examples if "keys" in each.text] == [""]
    assert [each.find for each in examples if each.text == "The cat sat on"] == ["on>cat"]
