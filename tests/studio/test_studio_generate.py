"""Every number on Generate is the engine's: chances, cache, beams, attention, on 50 prompts."""

import itertools
import random

import numpy as np
import pytest
import torch
from drawings import execute

from glassformer.generate.beam import beam
from glassformer.generate.job import prepare
from glassformer.generate.processors import processors
from glassformer.generate.sampling import generate_tokens
from glassformer.glass import Recorder
from glassformer.studio.jobs import Cancelled, JobMonitor
from glassformer.studio.page_schemas import GenerationRequest
from glassformer.studio.views.generation import record_generation
from sampling import mostly_slow

DECODER, TRANSLATOR = 1, 2
WORDS = {
    DECODER: ("man", "woman", "ordered", "the", "chicken", "beef", "cat", "sat", "on", "mat"),
    TRANSLATOR: ("the", "cat", "dog", "man", "sat", "lay", "on", "mat", "sofa", "yesterday"),
}
SETTINGS = (
    {},
    {"do_sample": True, "temperature": 0.7, "top_k": 5, "top_p": 0.8, "seed": 3},
    {"do_sample": True, "temperature": 1.7, "top_p": 0.95, "seed": 11},
    {"do_sample": True, "top_k": 3, "seed": 0},
    {"do_sample": True, "seed": 5},
)
IDS = ("toy-encoder", "toy-decoder", "toy-translator")
MOST = {"max_new_tokens": 7}


def prompts(number, count=50):
    draw = random.Random(number)
    return [" ".join(draw.choices(WORDS[number], k=draw.randint(1, 8))) for _ in range(count)]


@pytest.fixture
def ask(client):
    def asked(number, text, **more):
        answer = client.post("/api/generations", json={"model": IDS[number], "text": text, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()

    return asked


def refused(client, **body):
    answer = client.post("/api/generations", json={"model": "toy-decoder", "text": "man", **body})
    assert answer.status_code == 400
    return answer.json()["error"]


def logits_after(model, row, count):
    """What the model says after so many steps, read anew and without a cache."""
    pieces = [model.tokenizer.id(each["piece"]) for each in row["prompt"]]
    ids = [*pieces, *(step["token"] for step in row["steps"][:count])]
    if not row["source"]:
        return model.logits([ids])[0][-1]
    source = [model.tokenizer.id(each["piece"]) for each in row["source"]]
    return model.logits([source], targets=[ids])[0][-1]


def narrowed(logits, rules):
    """Chances (1 + rules, V) by temperature, top-k and top-p, in plain numbers."""
    scores = logits.detach().double().numpy()
    found = [softmax(scores)]
    for rule in rules:
        if rule["name"] == "temperature":
            scores = scores / rule["value"]
        elif rule["name"] == "top-k":
            scores = np.where(scores < np.sort(scores)[-int(rule["value"])], -np.inf, scores)
        else:
            chances, kept = softmax(scores), np.zeros(len(scores), bool)
            for token in np.argsort(-chances):
                kept[token] = True
                if chances[kept].sum() >= rule["value"]:
                    break
            scores = np.where(kept, scores, -np.inf)
        found.append(softmax(scores))
    return np.stack(found)


def softmax(scores):
    found = np.exp(scores - scores.max())
    return found / found.sum()


@pytest.mark.parametrize(
    ("number", "count"), mostly_slow([(DECODER, 6), (DECODER, 50), (TRANSLATOR, 50)])
)
def test_many_prompts(served, ask, number, count):
    """The words, their log-probabilities, the candidates' chances, and the bytes of the cache."""
    model = served[number].model
    texts = prompts(number)[:count]
    for text, settings in zip(texts, itertools.cycle(SETTINGS), strict=False):
        row = ask(number, text, **MOST, **settings)
        (own,) = model.generate([text], logprobs=True, **MOST, **settings)
        assert [step["token"] for step in row["steps"]] == list(own.ids)
        assert [step["logprob"] for step in row["steps"]] == list(own.logprobs)
        assert (row["text"], row["stopped"]) == (own.text, own.stopped)
        assert not any(step["chosen"] for step in row["steps"])
        caches = filled(model, text, settings)
        for i, (step, cache) in enumerate(zip(row["steps"], caches, strict=True)):
            wanted = narrowed(logits_after(model, row, i), step["rules"])
            ids = [each["id"] for each in step["top"]]
            found = np.array([each["p"] for each in step["top"]]).T
            assert np.abs(found - wanted[:, ids]).max() < 1e-5
            for each in step["top"]:
                gone = np.flatnonzero(wanted[:, each["id"]] == 0)
                assert each["cut"] == (gone[0] - 1 if len(gone) else None)
            assert [rule["left"] for rule in step["rules"]] == (wanted[1:] > 0).sum(1).tolist()
            assert step["cache"] == cache


def filled(model, text, settings):
    """What the tensors of the engine's own cache hold before each choice, counted."""
    made = prepare(model.task, model.tokenizer, None, [text], {**MOST, **settings})
    engine, rows = made.engine(), []

    def count(scores, _):
        rows.append(counted(engine.cache, rows))
        return scores

    vocab = model.task.backbone.config.vocab_size
    steps = (count, *processors(made.settings, vocab, engine.device))
    list(generate_tokens(engine, made.requests(), made.settings, steps=steps))
    return rows


def searched(model, text, beams):
    """The same of a beam search, at each of its turns."""
    made = prepare(model.task, model.tokenizer, None, [text], {**MOST, "num_beams": beams})
    engine, rows = made.engine(), []
    beam(
        engine, made.prompts, made.settings, made.sources, made.tokenizer,
        watch=lambda _: rows.append(counted(engine.cache, rows)),
    )  # fmt: skip
    return rows


def counted(cache, rows):
    """Places of the tensors that are not empty, of all texts together, and their bytes."""
    every = {
        name: torch.stack(getattr(cache, name))  # (L, B, H, S, D)
        for name in ("keys", "values", "memory_keys", "memory_values")
    }
    used = {name: int(each.abs().sum((0, 2, 4)).ne(0).sum()) for name, each in every.items()}
    kept, before = used["keys"], rows[-1]["kept"] if rows else 0
    size = sum(used[name] * each[:, :1, :, :1].nbytes for name, each in every.items())
    return {
        "kept": kept, "written": kept - before, "read": before,
        "source": used["memory_keys"], "bytes": size,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("number", "count"), mostly_slow([(TRANSLATOR, 4), (TRANSLATOR, 50), (DECODER, 50)])
)
def test_many_beams(served, ask, number, count):
    """The texts found, their scores and the cache; each node is its parent and a token more."""
    model = served[number].model
    texts = prompts(number)[:count]
    for text, beams in zip(texts, itertools.cycle((2, 3, 4)), strict=False):
        row = ask(number, text, num_beams=beams, **MOST)
        own = model.generate(
            [text], num_beams=beams, num_return_sequences=beams, logprobs=True, **MOST
        )
        best, nodes = row["beams"]["best"], row["beams"]["nodes"]
        assert [tuple(each["ids"]) for each in best] == [each.ids for each in own]
        assert [each["score"] for each in best] == [each.score for each in own]
        done = {ids_of(nodes, i): node for i, node in enumerate(nodes) if node["state"] == "done"}
        for each in own:
            assert done[each.ids]["score"] == each.score
            assert done[each.ids]["sum"] == pytest.approx(sum(each.logprobs), abs=1e-4)
        for node in nodes:
            before = 0 if node["parent"] is None else nodes[node["parent"]]["sum"]
            assert node["sum"] == pytest.approx(before + node["logprob"], abs=1e-5)
            assert node["parent"] is None or nodes[node["parent"]]["state"] == "kept"
        turns = len(row["beams"]["caches"])
        assert row["beams"]["penalty"] == 1
        for turn in range(turns):
            here = [node for node in nodes if node["turn"] == turn]
            assert sum(node["state"] == "kept" for node in here) <= beams
            assert [node["sum"] for node in here] == sorted((n["sum"] for n in here), reverse=True)
        length = len(row["prompt"])
        caches = row["beams"]["caches"]
        assert [each["kept"] for each in caches] == [
            beams * (length + turn) for turn in range(turns)
        ]
        assert caches == searched(model, text, beams)


def ids_of(nodes, i):
    parent = nodes[i]["parent"]
    return (*(() if parent is None else ids_of(nodes, parent)), nodes[i]["token"])


@pytest.mark.parametrize("number", mostly_slow([TRANSLATOR, DECODER]))
def test_attention_is_what_the_engine_looked_at(served, client, ask, number):
    """Step by step, with the cache: each new token's weights in every layer."""
    model, text = served[number].model, served[number].texts[0]
    row = ask(number, text, **MOST)
    made = prepare(model.task, model.tokenizer, None, [text], MOST)
    recorder = Recorder(model, "decoder.*.weights")
    looked = []

    def see(scores, rows):
        looked.append({name: value[:, -1].clone() for name, value in recorder.tensors.items()})
        return scores

    list(
        generate_tokens(made.engine(visitor=recorder), made.requests(), made.settings, steps=(see,))
    )
    assert len(looked) == len(row["steps"])
    home = f"/api/generations/{row['generation']}"
    parts = {"decoder": "attention", "cross": "cross"}
    for stack in ("decoder", "cross") if number == TRANSLATOR else ("decoder",):
        for step, layer in itertools.product(range(len(looked)), (0, 1)):
            own = looked[step][f"decoder.blocks.{layer}.{parts[stack]}.weights"]  # (H, S)
            for head, wanted in ((None, own.mean(0)), (3, own[3])):
                which = {} if head is None else {"head": head}
                found = client.get(f"{home}/rows/{stack}/{layer}", params=which).json()["weights"]
                assert len(found) == len(looked)
                assert torch.allclose(torch.tensor(found[step]), wanted, atol=1e-5)
                answer = client.get(f"{home}/attention/{stack}/{layer}", params=which)
                shape = tuple(map(int, answer.headers["x-shape"].split(",")))
                picture = np.frombuffer(answer.content, np.uint8).reshape(shape)
                near = picture[step, : len(wanted)] - 255 * wanted.numpy()
                assert np.abs(near).max() < 0.51 and not picture[step, len(wanted) :].any()


def test_another_word(served, ask):
    """A branch: what was before stays, the word is taken, and the text goes on from there."""
    first = ask(TRANSLATOR, "The cat sat on the mat")
    other = first["steps"][1]["top"][1]
    second = ask(TRANSLATOR, "The cat sat on the mat", taken=[[1, other["id"]]])
    assert [step["chosen"] for step in second["steps"][:3]] == [False, True, False]
    assert second["steps"][0] == first["steps"][0]
    assert second["steps"][1] == {
        **first["steps"][1],
        "token": other["id"],
        "logprob": pytest.approx(np.log(other["p"][0]), abs=1e-5),
        "chosen": True,
    }
    assert second["generated"][1]["text"] == other["text"] != first["generated"][1]["text"]
    assert ask(TRANSLATOR, "The cat sat on the mat") == first  # kept, and not made again


def test_what_cannot_be_written_is_one_line(served, client):
    assert "cannot generate: use " in refused(client, model="toy-encoder")
    assert "write numbers from 0 to" in refused(client, taken=[[0, 99]])
    assert "takes no chosen tokens" in refused(client, taken=[[0, 1]], num_beams=2)
    assert "is for sampling" in refused(client, temperature=0.5)
    assert "temperature" in refused(client, do_sample=True, temperature=1e-40)
    assert "max_new_tokens" in refused(client, max_new_tokens=1000)
    assert "at most" in refused(client, text="man " * 99)
    assert client.post("/api/generations", json={"model": "9", "text": "man"}).status_code == 404
    assert client.get("/api/generations/g9/rows/decoder/0").status_code == 404
    row = client.post("/api/generations", json={"model": "toy-decoder", "text": "man"}).json()
    for path in (
        "rows/cross/0",
        "rows/decoder/7",
        "attention/decoder/0?head=9",
    ):
        answer = client.get(f"/api/generations/{row['generation']}/{path}")
        assert answer.status_code == 400 and "\n" not in answer.json()["error"]
    search = client.post(
        "/api/generations", json={"model": "toy-decoder", "text": "man", "num_beams": 2}
    ).json()
    answer = client.get(f"/api/generations/{search['generation']}/attention/decoder/0")
    assert "step through one" in answer.json()["error"]


@pytest.mark.parametrize("beams", [1, 3])
def test_writing_stops_where_it_is(served, beams):
    left = JobMonitor()
    left.stopped.set()
    with pytest.raises(Cancelled):
        record_generation(
            served[1].model, GenerationRequest(model="1", text="man", num_beams=beams), "w1", left
        )


@pytest.mark.parametrize("number", mostly_slow([DECODER, TRANSLATOR]))
@pytest.mark.parametrize("settings", mostly_slow([SETTINGS[1], {}, {"num_beams": 3}]))
def test_the_python_writes_the_same(client, ask, number, settings):
    text = "the cat sat on"
    row = ask(number, text, **MOST, **settings)
    names = execute(client.get(f"/api/generations/{row['generation']}/python").json()["code"])
    assert names["generation"].text == row["text"]
    own = [step["logprob"] for step in row["steps"]]
    assert list(names["generation"].logprobs)[: len(own)] == pytest.approx(own, abs=1e-5)


def test_python_cannot_take_words_by_hand(client, ask):
    row = ask(DECODER, "the", taken=[[0, 5]], **MOST)
    code = client.get(f"/api/generations/{row['generation']}/python").json()["code"]
    assert "chosen by hand" in code
