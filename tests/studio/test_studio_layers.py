"""Layers and Positions: the lens at every point, words on their way, and words out of order."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import glassformer as gf
from folders import tiny
from glassformer.glass import decided, lens, weights
from glassformer.model import Look
from glassformer.model.position import relative_bucket, sinusoid
from glassformer.studio.jobs import Cancelled, JobMonitor
from glassformer.studio.page_schemas import ShuffleRequest
from glassformer.studio.runs import record_run
from glassformer.studio.samples import ServedModel
from glassformer.studio.schemas import RunRequest, Token
from glassformer.studio.views.positions import lecture_positions, model_positions
from glassformer.studio.views.shuffle import reorder, shuffle

NEVER = JobMonitor()


def read(client, path):
    answer = client.get(f"/api/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def traced(served, number, row):
    """The same run, by `record`."""
    model = served[number].model
    tokens = row["tokens"]["queries"]
    ids = [[model.tokenizer.id(each["piece"]) for each in side] for side in tokens.values()]
    return model, gf.record(model, tuple(ids) if len(ids) > 1 else ids[0])


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_parts_of_a_logit(served, client, run, number):
    row = run(number)
    _, trace = traced(served, number, row)
    found = read(client, f"runs/{row['run']}/parts/1")
    best = trace["logits"][1].topk(2).values
    assert found["difference"] == pytest.approx(float(best[0] - best[1]), abs=1e-4)
    parts = [part for part in found["parts"] if part["name"] != "rounding"]
    assert sum(part["value"] for part in parts) == pytest.approx(found["difference"], abs=1e-4)
    stacks = {part["stack"] for part in found["parts"]} - {None}
    assert stacks == [{"encoder"}, {"decoder"}, {"decoder", "cross"}][number]
    assert client.get(f"/api/runs/{row['run']}/parts/99").status_code == 400


def test_the_parts_of_a_logit_with_a_patch(client, run):
    """What the vector from another text changes is a part of its own."""
    row = run(0, patches=[["encoder", 0, 1, 3]], other="I sat by the river bank.")
    split = read(client, f"runs/{row['run']}/parts/1")
    parts = {part["name"]: part["value"] for part in split["parts"] if part["name"] != "rounding"}
    assert abs(parts["patch 0"]) > 1e-3
    assert sum(parts.values()) == pytest.approx(split["difference"], abs=1e-4)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_lens_at_every_point(served, client, run, number):
    """By hand: final norm, head, softmax; bits as Σ p log2(p / q)."""
    row = run(number)
    model, trace = traced(served, number, row)
    found = read(client, f"runs/{row['run']}/lens")
    stack = "encoder" if number == 0 else "decoder"
    parts = ["attention_sum", "cross_sum", "out"] if number == 2 else ["attention_sum", "out"]
    names = [f"{stack}.embedding.out"]
    names += [f"{stack}.blocks.{i}.{part}" for i in (0, 1) for part in parts]
    if model.task.backbone.config.norm_place == "post":
        names = [name.replace("_sum", "_norm.out") for name in names]
    assert [point["name"] for point in found["points"]] == ["embedding"] + [
        f"{'block' if part == 'out' else part.removesuffix('_sum')} {i}"
        for i in (0, 1)
        for part in parts
    ]
    home = getattr(model.task.backbone, stack)
    said = []
    with torch.no_grad():
        for name in names:
            x = trace[name]
            x = x if home.norm is None else home.norm(x, Look())
            said.append(model.task.lm_logits(x, Look()).double().softmax(-1).numpy())
    assert np.abs(said[-1] - trace["logits"].double().softmax(-1).numpy()).max() < 1e-6
    best = said[-1].argmax(-1)
    for i, chances in enumerate(said):
        bits = (said[-1] * np.log2(said[-1] / chances)).sum(-1)
        assert np.abs(np.array(found["kl"][i]) - bits).max() < 1e-4
        own = np.take_along_axis(chances, best[:, None], 1)[:, 0]
        assert np.abs(np.array(found["p"][i]) - own).max() < 1e-5
    assert max(found["kl"][-1]) < 1e-6 < max(found["kl"][0])
    words = [model.tokenizer.token(int(i)) for i in best]
    assert found["words"] == words
    one = read(client, f"runs/{row['run']}/lens/2")["tops"]
    whole = lens(model, trace, inside=True)
    for tops, each in zip(one, whole.values(), strict=True):
        assert [top["text"] for top in tops] == each.words[2]
        assert [top["p"] for top in tops] == pytest.approx(each.probabilities[2].tolist(), abs=1e-6)


def test_a_post_norm_model_ends_with_its_own_words():
    model = tiny("encoder", norm_place="post", final_norm=False)
    found = decided(model, gf.record(model, [1, 2, 3, 4]))
    assert found.distances[-1].max() < 1e-12 and found.distances[0].min() > 0
    assert found.words == [str(int(i)) for i in model.logits([[1, 2, 3, 4]])[0].argmax(-1)]


def test_the_two_banks(served, client, run):
    """The same word in two texts: alike where it comes in, less so behind the layers."""
    texts = ("I sat by the river bank.", "I deposited money in the bank.")
    rows = [run(0, text) for text in texts]
    at = [[t["text"] for t in row["tokens"]["queries"]["encoder"]].index("bank") for row in rows]
    path = f"runs/{rows[0]['run']}/trajectory/encoder/{at[0]}?other={rows[1]['run']}&mate={at[1]}"
    found = read(client, path)
    model = served[0].model
    traces = [gf.record(model, text) for text in texts]
    for i, name in enumerate(["embedding.out", "blocks.0.attention_sum", "blocks.0.out"]):
        a, b = (trace[f"encoder.{name}"][place] for trace, place in zip(traces, at, strict=True))
        start = traces[0]["encoder.embedding.out"][at[0]]
        end = traces[0]["encoder.blocks.1.out"][at[0]]
        assert found["between"][i] == pytest.approx(float(F.cosine_similarity(a, b, 0)), abs=1e-6)
        assert found["to_start"][i] == pytest.approx(
            float(F.cosine_similarity(a, start, 0)), abs=1e-6
        )
        assert found["to_end"][i] == pytest.approx(float(F.cosine_similarity(a, end, 0)), abs=1e-6)
        assert found["norm"][i] == pytest.approx(float(a.norm()), rel=1e-6)
    assert read(client, path.partition("?")[0])["between"] is None


def test_wrong_questions_about_layers(client, run):
    row, other = run(0), run(1)
    wrong = {
        f"{row['run']}/lens/99": "this text has tokens 0 to 8",
        f"{row['run']}/trajectory/encoder/99": "this text has tokens 0 to 8",
        f"{row['run']}/trajectory/decoder/1": "no vectors of a stack",
        f"{row['run']}/trajectory/encoder/1?other={row['run']}": "or neither",
        f"{row['run']}/trajectory/encoder/1?other={row['run']}&mate=-1": "this text has tokens",
        f"{row['run']}/trajectory/encoder/1?other={other['run']}&mate=1": "of the same model",
    }
    for path, line in wrong.items():
        answer = client.get(f"/api/runs/{path}")
        assert answer.status_code == 400 and line in answer.json()["error"], answer.text
    assert client.get("/api/runs/r99/lens").status_code == 404


def test_a_model_without_words_has_no_lens(open_studio):
    client = open_studio([ServedModel("labels", tiny("encoder", kind="classification"))])
    row = client.post("/api/runs", json={"model": "labels", "text": "1 2 3"}).json()
    answer = client.get(f"/api/runs/{row['run']}/lens")
    assert answer.status_code == 400 and "has no language model head" in answer.json()["error"]
    assert len(read(client, f"runs/{row['run']}/trajectory/encoder/1")["to_end"]) > 2


def test_the_slides_waves(client):
    """The worked values: positions 20, 21 and 98, d = 100; and what is near is alike."""
    found = read(client, "positions")
    worked = {
        0: (0.91, 0.84, -0.57), 11: (-0.11, -0.48, 0.25), 20: (-0.03, -0.19, 0.18),
        31: (0.30, 0.24, 1.00), 40: (0.48, 0.50, 0.63), 60: (0.08, 0.08, 0.38),
        80: (0.01, 0.01, 0.06), 91: (1.00, 1.00, 1.00),
    }  # fmt: skip
    for index, values in worked.items():
        own = [found["values"][place][index] for place in (20, 21, 98)]
        assert own == pytest.approx(values, abs=0.0051)
    assert found["similar"][20][21] > found["similar"][20][25] > found["similar"][20][98]
    waves = sinusoid(100, 100)
    assert found["similar"][20][21] == pytest.approx(float(waves[20] @ waves[21]) / 50, abs=1e-5)


def test_learned_rotary_relative_and_none(served, client):
    found = read(client, "positions/toy-encoder/encoder")
    table = served[0].model.task.backbone.encoder.embedding.position.weight.detach()
    assert found["kind"] == "learned" and torch.equal(torch.tensor(found["values"]), table)
    cosine = F.cosine_similarity(table[3], table[5], 0)
    assert found["similar"][3][5] == pytest.approx(float(cosine), abs=1e-6)
    assert client.get("/api/positions/toy-encoder/decoder").status_code == 400
    assert client.get("/api/positions/7/decoder").status_code == 404

    model = tiny("decoder", position="rotary", heads=2, width=16, max_length=17)
    found = model_positions(model, "decoder")
    turns = model.task.backbone.decoder.turns
    assert found.kind == "rotary" and found.values == turns[0].tolist()
    angles = [math.cos(4 / 10_000 ** (i / 4)) for i in range(4)]
    assert found.similar[9][5] == pytest.approx(sum(angles) / 4, abs=1e-5)  # only how far apart

    model = tiny("seq2seq", position="relative", heads=3, width=12)
    for stack in ("encoder", "decoder"):
        found = model_positions(model, stack)
        relative = getattr(model.task.backbone, stack).relative
        for row, distance in ((0, -40), (37, -3), (40, 0), (41, 1), (80, 40)):
            bucket = relative_bucket(
                torch.tensor(distance), both_sides=stack == "encoder",
                buckets=relative.buckets, furthest=relative.furthest,
            )  # fmt: skip
            assert found.buckets[row] == int(bucket)
            assert found.values[row] == relative.table.weight[bucket].tolist()
    model = tiny("encoder", position="none", relative="disentangled", relative_buckets=8)
    found, distances = model_positions(model, "encoder"), model.task.backbone.encoder.distances
    vectors = distances.norm(distances.table.weight, Look()).tolist()
    for row, distance in ((0, -40), (37, -3), (40, 0), (41, 1), (80, 40)):  # key − query
        assert found.first + row == distance
        assert found.buckets[row] == int(distances.rows[distances.furthest - distance])
        assert found.values[row] == pytest.approx(vectors[found.buckets[row]])
    assert model_positions(tiny("encoder", position="none"), "encoder").kind == "none"
    assert lecture_positions().kind == "sinusoidal"


def asked(model, text):
    return record_run(model, RunRequest(model="0", text=text), "r1", NEVER)


CASES = {
    "learned": ("encoder", {}), "sinusoidal": ("seq2seq", {"position": "sinusoidal", "width": 12}),
    "rotary": ("encoder", {"position": "rotary", "width": 16, "heads": 2}),
    "relative": ("seq2seq", {"position": "relative", "width": 12}),
    "both": ("encoder", {"relative": "bias"}),
    "disentangled": ("encoder", {"relative": "disentangled", "relative_buckets": 8}),
    "window": ("encoder", {"position": "rotary", "width": 16, "heads": 2, "window": 9}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_without_positions_nothing_changes(name):
    """With them it does; the pictures are those of the shuffled text, put back word by word."""
    family, changes = CASES[name]
    model = tiny(family, **changes)
    run = asked(model, "1 2 3 4 5 6")
    moved = shuffle(run, ShuffleRequest(run="r1", seed=5), "s1", NEVER)
    order = moved.row.order
    assert sorted(order) == list(range(6)) != order
    ids = [1 + i for i in order]
    own = [int(each.text) for each in run.tokens["decoder"]] if family == "seq2seq" else None
    again = gf.record(model, ids if own is None else (ids, own))
    found = weights(again, "encoder")
    for i, j in ((0, 3), (5, 1), (2, 2)):
        wanted = found[:, :, order.index(i), order.index(j)]
        assert torch.equal(moved.after["encoder"][:, :, i, j], wanted)
    assert moved.row.moved["encoder"] > 0.01
    still = shuffle(run, ShuffleRequest(run="r1", seed=5, positions=False), "s2", NEVER)
    assert max(still.row.moved.values()) < 1e-9
    for before, after in zip(still.row.predictions.at, still.row.predictions_after.at, strict=True):
        assert [top.p for top in before.top] == pytest.approx([top.p for top in after.top])


def test_a_model_without_positions_does_not_see_the_order():
    run = asked(tiny("encoder", position="none"), "1 2 3 4 5 6")
    for positions in (True, False):
        found = shuffle(run, ShuffleRequest(run="r1", seed=2, positions=positions), "s1", NEVER)
        assert found.row.moved["encoder"] < 1e-9


def test_what_the_toys_say_to_shuffled_words(client, run):
    """The blank is asked where it has gone to; the decoder's last word stays last."""
    row = run(0)
    found = client.post("/api/shuffles", json={"run": row["run"], "seed": 3}).json()
    after = [each["piece"] for each in found["after"]]
    blank = next(t for t, each in enumerate(row["tokens"]["queries"]["encoder"])
                 if each["piece"] == "[MASK]")  # fmt: skip
    assert after[0] == "[CLS]" and after[-1] == "[SEP]" and after.index("[MASK]") != blank
    assert found["predictions"] == row["predictions"]
    again = run(0, " ".join(after[1:-1]))["predictions"]["at"][0]["top"]
    (told,) = found["predictions_after"]["at"]
    assert told["token"] == blank
    assert [each["text"] for each in told["top"]] == [each["text"] for each in again]
    row = run(1, "the cat sat on the mat")
    found = client.post("/api/shuffles", json={"run": row["run"], "seed": 1}).json()
    assert found["order"][0] == 0 and found["order"][-1] == 6
    assert [each["token"] for each in found["predictions_after"]["at"]] == [6]
    path = f"/api/shuffles/{found['shuffle']}"
    before = client.get(f"{path}/before/decoder/1/2").content
    assert before == client.get(f"/api/runs/{row['run']}/head/decoder/1/2").content
    assert before != client.get(f"{path}/after/decoder/1/2").content
    assert client.get(f"{path}/after/decoder/9/2").status_code == 400
    assert client.get(f"{path}/after/cross/0/0").status_code == 400


MOVING = {
    "another word": (0, "encoder", {"swaps": [["encoder", 2, "money"]]}),
    "a patch": (0, "encoder", {"patches": [["encoder", 0, 2, 5]], "other": "I ate the apple."}),
    "a translation": (2, "encoder", {"swaps": [["encoder", 2, "dog"], ["decoder", 1, "dog"]],
                                     "off": [["cross", 0, 1]]}),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVING)
def test_what_was_changed_moves_with_its_word(client, run, name):
    """Without positions nothing else is left that could change; with them it is another text."""
    number, stack, changes = MOVING[name]
    row = run(number, **changes)
    ask = {"run": row["run"], "seed": 1}
    still = client.post("/api/shuffles", json={**ask, "positions": False}).json()
    assert max(still["moved"].values()) < 1e-6
    found = client.post("/api/shuffles", json=ask).json()
    assert found["moved"][stack] > 0.001
    assert found["predictions"] == row["predictions"]


def test_words_move_whole_and_special_tokens_stay():
    words = [None, 0, 1, 1, 2, None, 3]
    tokens = [Token(text=f"t{i}", piece=f"t{i}", special=word is None, word=word)
              for i, word in enumerate(words)]  # fmt: skip
    seen = {tuple(reorder(tokens, seed, last_stays=False)) for seed in range(40)}
    assert len(seen) > 10 and (0, 1, 2, 3, 4, 5, 6) not in seen
    for order in seen:
        assert order.index(3) == order.index(2) + 1  # the pieces of a word
    kept = {tuple(reorder(tokens, seed, last_stays=True)) for seed in range(40)}
    assert {order[-1] for order in kept} == {6} and {order[0] for order in kept} == {0}


def test_nothing_to_shuffle_is_one_line(client, run):
    for row in (run(0, "I"), run(1, "man ordered"), run(0, "bank bank bank")):
        answer = client.post("/api/shuffles", json={"run": row["run"], "seed": 0})
        assert answer.status_code == 400 and "nothing to shuffle" in answer.json()["error"]
    row = run(0, "I sat", second="by the bank")
    answer = client.post("/api/shuffles", json={"run": row["run"], "seed": 0})
    assert "remove the second one" in answer.json()["error"]
    answer = client.post("/api/shuffles", json={"run": "r99", "seed": 0})
    assert answer.status_code == 404
    left = JobMonitor()
    left.stopped.set()
    with pytest.raises(Cancelled):
        shuffle(asked(tiny("encoder"), "1 2 3"), ShuffleRequest(run="r1", seed=0), "s1", left)
