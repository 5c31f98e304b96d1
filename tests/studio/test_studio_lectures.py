"""Pooling, Toy and what the slides print: every number is Python's."""

import math

import pytest
import torch

import glassformer as gf
import speakers
from glassformer import toys
from glassformer.model.position import sinusoid
from glassformer.studio.pooling_toys import (
    LABELS,
    REVIEWS,
    VARIANTS,
    random_vectors,
    train_variant,
)
from glassformer.studio.samples import ServedModel
from glassformer.studio.views import slides, toy

TEXT = "We saw it on a rainy night. I loved the movie!"
WORDS = ("i", "loved", "the", "movie", "!")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A trained pooling model, vectors of the same width, and vectors of another."""
    root = tmp_path_factory.mktemp("pooling")
    train_variant(VARIANTS[0]).save(root / "reviews")
    generator = torch.Generator().manual_seed(5)
    for width in (8, 3):
        rows = torch.randn(len(WORDS), width, generator=generator).tolist()
        lines = [
            f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, rows, strict=True)
        ]
        (root / f"glove.{width}d.txt").write_text("".join(lines))
    return root


@pytest.fixture(scope="module")
def models(folders):
    return [
        ServedModel(name, gf.load(folders / name), folder=str(folders / name))
        for name in ("reviews", "glove.8d.txt", "glove.3d.txt")
    ]


def weigh(client, status=200, **question):
    answer = client.post("/api/pooling", json={"text": TEXT, **question})
    assert answer.status_code == status, answer.text
    return answer.json()


def flat(document, what):
    return [word[what][0] for each in document["sentences"] for word in each["words"]]


def test_a_pooling_model_is_listed_and_has_no_heads(open_studio, models):
    client = open_studio(models)
    row, table, _ = client.get("/api/models").json()["models"]
    assert (row["pools"], row["stacks"], table["pools"]) == (True, [], False)
    assert row["samples"] and not row["samples"][0]["second"]
    refused = client.post("/api/runs", json={"model": "reviews", "text": TEXT})
    assert refused.status_code == 400 and "Pooling" in refused.json()["error"]


def test_weights_and_scores_are_the_recorders(open_studio, models):
    answer = weigh(open_studio(models), model="reviews")
    (document,) = answer["variants"]
    trace = gf.record(models[0].model, TEXT)
    assert flat(document, "weights") == trace["important.words.weights"][:, 0].tolist()
    assert flat(document, "scores") == trace["important.words.scores"][:, 0].tolist()
    whole = trace["important.sentences.weights"][:, 0].tolist()
    assert [each["weight"] for each in document["sentences"]] == whole
    assert [len(each["words"]) for each in document["sentences"]] == trace.sentences == [8, 5]
    for sentence in document["sentences"]:
        assert sum(word["weights"][0] for word in sentence["words"]) == pytest.approx(1)
    (best,) = models[0].model.classify([TEXT])
    assert (document["labels"][0]["text"], document["labels"][0]["p"]) == (
        best.label, pytest.approx(best.score, abs=1e-5),
    )  # fmt: skip
    scope: dict[str, object] = {}
    exec(answer["python"], scope)
    assert torch.equal(scope["words"], trace["important.words.weights"])


def test_the_walk_is_computed_in_the_open(open_studio, models):
    """v · x entry by entry is r; e^r over its sum is a; Σ a x is the sentence's vector."""
    model = models[0].model
    (document,) = weigh(open_studio(models), model="reviews", word=9)["variants"]
    score, weights, mixture, sentences = document["walk"]
    trace = gf.record(model, TEXT)
    x, v = trace["encoder.embedding.out"], model.task.important.words.vectors[0].detach()
    *entries, (_, _, _, total) = score["rows"]
    assert score["title"].startswith("“loved”")
    for name, of_v, of_x, product in entries:
        i = int(name.removeprefix("entry "))
        assert (of_v, of_x) == pytest.approx((float(v[i]), float(x[9, i])))
        assert product == pytest.approx(of_v * of_x)
    assert (
        total
        == pytest.approx(sum(row[3] for row in entries))
        == pytest.approx(float(trace["important.words.scores"][9, 0]), abs=1e-5)
    )
    *words, (_, _, exponents, whole) = weights["rows"]
    assert whole == pytest.approx(1)
    for _, r, exponent, a in words:
        assert (exponent, a) == pytest.approx((math.exp(r), math.exp(r) / exponents), rel=1e-5)
    a = trace["important.words.weights"][8:, 0]
    for name, own, part, mixed in mixture["rows"]:
        i = int(name)
        assert own == pytest.approx(float(x[9, i]))
        assert part == pytest.approx(float(a[1] * x[9, i]), abs=1e-6)
        assert mixed == pytest.approx(float(a @ x[8:, i]), abs=1e-6)
    assert [row[0] for row in sentences["rows"][:-1]] == [TEXT[:27], TEXT[28:]]


def test_swapped_vectors_are_those_of_a_model_with_that_table(open_studio, models, folders):
    client = open_studio(models)
    own, swapped = weigh(client, model="reviews", vectors="glove.8d.txt")["variants"]
    assert own == weigh(client, model="reviews")["variants"][0]
    model = gf.load(folders / "reviews")
    other = models[1].model
    table, theirs = (each.task.backbone.token_embedding for each in (model, other))
    with torch.no_grad():
        for i in range(len(table)):
            known = other.tokenizer.id(model.tokenizer.token(i))
            table[i] = 0 if known is None else theirs[known]
    trace = gf.record(model, TEXT)
    assert flat(swapped, "scores") == pytest.approx(trace["important.words.scores"][:, 0].tolist())
    whole = trace["important.sentences.weights"][:, 0].tolist()
    assert [each["weight"] for each in swapped["sentences"]] == pytest.approx(whole)
    assert flat(swapped, "scores") != flat(own, "scores")


@pytest.mark.slow
def test_two_heads_read_the_reviews_and_attend_to_different_words(open_studio, models):
    """“not dull”: one head attends to “not” and the other to “dull”; one vector cannot do both."""
    client = open_studio(models)
    answer = weigh(client)
    assert [each["name"] for each in answer["variants"]] == [each.name for each in VARIANTS]
    counts = []
    for variant, document in list(zip(VARIANTS, answer["variants"], strict=True))[::3]:
        model = train_variant(variant)
        labels = [each.label for each in model.classify([text for _, text in REVIEWS])]
        expected = [LABELS[label] for label, _ in REVIEWS]
        counts.append(sum(map(str.__eq__, labels, expected)))
        assert f"{counts[-1]} of {len(REVIEWS)} reviews right" in document["formula"]
        trace = gf.record(model, TEXT)
        assert flat(document, "weights") == trace["important.words.weights"][:, 0].tolist()
        words = document["sentences"][1]["words"]
        assert "loved" in {_attended(words, head) for head in range(len(words[0]["weights"]))}
    assert counts[0] < counts[1] == len(REVIEWS)
    two = weigh(client, text="The plot was not dull.")["variants"][3]
    words = two["sentences"][0]["words"]
    assert {_attended(words, head) for head in (0, 1)} == {"not", "dull"}


def _attended(words, head):
    return max(words, key=lambda word: word["weights"][head])["text"]


@pytest.mark.slow
def test_variants_on_other_vectors_are_trained_again(open_studio, models):
    """On random vectors, which stay as they are."""
    client = open_studio(models)
    fixed = train_variant(VARIANTS[0], random_vectors())
    assert torch.equal(fixed.task.backbone.token_embedding.detach(), random_vectors())
    trace = gf.record(fixed, TEXT)
    answer = weigh(client, vectors="~random")
    assert [id for id, _ in answer["vectors"]] == ["", "~random", "glove.8d.txt", "glove.3d.txt"]
    document = answer["variants"][0]
    assert flat(document, "weights") == trace["important.words.weights"][:, 0].tolist()


@pytest.mark.slow
def test_variants_are_trained_on_vectors_of_any_width(open_studio, models):
    answer = weigh(open_studio(models), vectors="glove.3d.txt")
    scope: dict[str, object] = {}
    exec(answer["python"], scope)
    shown = [flat(each, "weights") for each in answer["variants"]]
    assert shown == [trace["important.words.weights"][:, 0].tolist() for trace in scope["traces"]]


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"model": "glove.8d.txt"}, "no attention over words"),
        ({"model": "reviews", "vectors": "glove.3d.txt"}, "3 numbers a word"),
        ({"model": "reviews", "text": " "}, "finds no token"),
        ({"model": "reviews", "text": "dull " * 5000}, "at most 4,096"),
        ({"word": -1}, "word"),
        pytest.param({"text": " "}, "finds no token", marks=pytest.mark.slow),
        pytest.param({"text": "dull " * 5000}, "at most 4,096", marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_pooled_is_refused_in_one_line(open_studio, models, question, says):
    assert says in weigh(open_studio(models), status=400, **question)["error"]


def test_unknown_models_and_vectors_are_not_there(open_studio, models):
    client = open_studio(models)
    weigh(client, status=404, model="nobody")
    weigh(client, status=404, vectors="nobody")
    weigh(client, status=404, model="reviews", vectors="~random")


# The slides


def test_v_is_solved_from_the_printed_x_and_r():
    v = slides.pooling_vector()
    assert v.tolist() == pytest.approx([-114.5, 129.7, -38.0, 68.4, 10.8], abs=0.05)
    walk, solved, *_ = slides.pooling_sheets()
    assert solved.rows == [["v", "−114.5", "129.7", "−38.0", "68.4", "10.8"]]  # as shown
    *words, mixture = walk.rows
    for (word, *numbers), printed, x in zip(words, slides.R, slides.X, strict=True):
        *own, r, exponent, a, shown = numbers
        assert tuple(own) == x
        assert (r, exponent) == pytest.approx((printed, math.exp(printed)))
        assert abs(a - shown) < (0.0061 if word == "the" else 0.005), word
    weights = torch.tensor(slides.R).double().softmax(0)
    assert mixture[1:6] == pytest.approx((weights @ torch.tensor(slides.X).double()).tolist())
    assert "0.0260" in walk.text and "17.28" in walk.text


def test_both_tables_of_parameters_are_counted():
    assert slides.parameter_counts(37) == {
        "W_Q": 3_700, "W_K": 3_700, "W_V": 10_000, "W1_ff": 51_200, "W2_ff": 51_200,
        "embeddings": 3_200_000,
    }  # fmt: skip
    (sheet,) = slides.parameter_sheets()
    assert sheet.rows[0] == ["W_Q", "100×37", "3,700", "100×100", "10,000"]
    assert sheet.rows[-1] == ["sum", "", "3,319,800", "", "3,332,400"]
    assert "not published" in sheet.text


def test_the_table_of_positions_20_21_98():
    """Only −0.49 differs from what is printed; rows 10, 30, … are the cosines beside them."""
    table, worked = slides.position_sheets()
    waves = sinusoid(100, 100)
    differing = []
    for index, kind, printed, *values, otherwise in table.rows:
        i = int(index)
        assert kind == ("sin" if i % 2 == 0 else "cos")
        assert int(printed) == i - i % 2
        assert values == pytest.approx([float(waves[place, i]) for place in (20, 21, 98)])
        own = slides.WAVES[int(printed)][1]
        differing += [
            round(v, 4) for v, p in zip(values, own, strict=True) if f"{v:.2f}" != f"{p:.2f}"
        ]
        assert bool(otherwise) == (i == 11)
    assert differing == [-0.4849]
    assert "−0.4849" in table.text and "0.97" in table.text and "0.46" in table.text
    sines = [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]
    assert worked.rows[1][1:] == pytest.approx(sines, abs=1e-6)
    assert "0.00316" in worked.text


def test_slides_are_served_with_their_python(client):
    for name, sheets in (
        ("pooling", slides.pooling_sheets()), ("positions", slides.position_sheets()),
    ):  # fmt: skip
        answer = client.get(f"/api/slides/{name}").json()
        assert answer["sheets"] == [each.model_dump() for each in sheets]
        scope: dict[str, object] = {}
        exec(answer["python"], scope)
        assert scope["sheets"] == sheets


# Toy


def test_a_toy_is_the_demos(client):
    """Trained from the same seed: its predictions, weights and cues."""
    torch.manual_seed(4)
    model = toys.OneHead(toys.SECOND)
    with toys.one_thread():
        for _ in toys.train(toys.SECOND, model):
            pass
    answer = client.get("/api/toy/second/4/1").json()
    sheets = {each["title"]: each for each in answer["sheets"]}
    trace = toys.look(toys.SECOND, model, 1)
    shown = [row[1:] for row in sheets["One head: the next word (T×V)"]["rows"]]
    chances = trace["logits"].softmax(-1)
    assert torch.tensor(shown).shape == (5, 7)
    assert torch.allclose(torch.tensor(shown), chances, atol=1e-5)
    weights = [row[1:] for row in sheets["Attention weights (T×T)"]["rows"]]
    for t, row in enumerate(weights):
        assert row[: t + 1] == pytest.approx(trace["attention.weights"][0, t, : t + 1].tolist())
        assert row[t + 1 :] == [None] * (4 - t)
    measured = toys.cues(toys.SECOND, model)
    rows = [row[1:] for row in sheets["Words or position?"]["rows"]]
    assert rows == [
        pytest.approx([cue.whole, cue.no_positions, cue.no_words], abs=1e-5) for cue in measured
    ]
    assert answer["conclusion"] == toys.conclusion(measured)
    table = [row[1:] for row in sheets["A bigram table (T×V)"]["rows"]]
    assert torch.tensor(table).equal(toys.SECOND.bigrams()[toys.SECOND.ids[1]])


def test_the_toy_page_shows_that_w_x_cannot_work():
    mixed, ways = toy.mixture_sheets()
    rows = {i: row[1:] for i, row in enumerate(mixed.rows)}
    assert rows[1] == pytest.approx([0, 0, 0.5, 0.5, 0], abs=1e-5) == rows[4]
    errors = [row[1:] for row in ways.rows]
    assert errors[0] == pytest.approx([0.5, 0.5], abs=1e-5)
    assert errors[1] == pytest.approx([0, 0], abs=1e-5)
    assert errors[2] == pytest.approx([1, 1], abs=1e-5)
    assert max(errors[3]) < 0.05


@pytest.mark.parametrize("path", ["third/4/0", "first/-1/0", "first/4/1", "second/4/2"])
def test_a_toy_that_is_not_there_is_refused(client, path):
    answer = client.get(f"/api/toy/{path}")
    assert answer.status_code == 400 and answer.json()["error"].count("\n") == 0


# Answers and the next sentence


def test_the_span_of_an_answer_is_that_of_answer(open_studio, tmp_path):
    model, _ = speakers.bert("BertForQuestionAnswering", tmp_path / "qa", **speakers.LONG)
    client = open_studio([ServedModel("qa", model, folder="qa")])
    sample = client.get("/api/models").json()["models"][0]["samples"][0]
    pair = (sample["text"], sample["second"])
    body = {"model": "qa", "text": pair[0], "second": pair[1]}
    row = client.post("/api/runs", json=body).json()
    shown, tokens = row["predictions"], row["tokens"]["queries"]["encoder"]
    best = model.answer(*pair, top_k=5)
    assert shown["kind"] == "span"
    assert [each["p"] for each in shown["spans"]] == pytest.approx([each.score for each in best])
    first = shown["spans"][0]
    inside = "".join(each["text"] for each in tokens[first["start"] : first["end"] + 1])
    known = best[0].text.replace(" ", "")
    assert len(inside.replace("[UNK]", "")) <= len(known)
    logits = gf.record(model, pair)["logits"].double()
    context = [i for i, each in enumerate(shown["starts"]) if each > 0]
    for column, name in enumerate(("starts", "ends")):
        shares = logits[context, column].softmax(0).tolist()
        assert [shown[name][i] for i in context] == pytest.approx(shares)
        assert sum(shown[name]) == pytest.approx(1)
    alone = client.post("/api/runs", json={"model": "qa", "text": pair[0]}).json()
    assert alone["predictions"]["kind"] == "none"


def test_no_answer_starts_or_ends_with_white_space_alone(open_studio, tmp_path):
    """Tokens of white space are no answers, in the studio as in `model.answer`."""
    model, _ = speakers.bytewise("RobertaForQuestionAnswering", tmp_path / "qa")
    client = open_studio([ServedModel("qa", model, folder="qa")])
    question, context = "who?", "a   cat \n sat   on  a mat"
    body = {"model": "qa", "text": question, "second": context}
    shown = client.post("/api/runs", json=body).json()["predictions"]
    places = model.tokenizer.encode((question, context)).spans
    spans = [(places[each["start"]][0], places[each["end"]][1]) for each in shown["spans"]]
    best = model.answer(question, context, top_k=5)
    assert [context[start:end].strip() for start, end in spans] == [each.text for each in best]
    assert [each["p"] for each in shown["spans"]] == pytest.approx([each.score for each in best])
    blank = client.post("/api/runs", json=body | {"second": "   "}).json()["predictions"]
    assert blank["kind"] == "span" and blank["spans"] == []


def test_the_next_sentence_is_that_of_follows(open_studio, tmp_path):
    model, _ = speakers.bert("BertForPreTraining", tmp_path / "bert", **speakers.LONG)
    client = open_studio([ServedModel("bert", model, folder="bert")])
    pair = ("the cat sat", "it was good")
    body = {"model": "bert", "text": pair[0], "second": pair[1]}
    shown = client.post("/api/runs", json=body).json()["predictions"]
    known = model.follows(*pair)
    assert shown["follows"] == pytest.approx(known, abs=1e-5)
    off = client.post("/api/runs", json={**body, "off": [["encoder", 0, 0]]}).json()
    assert off["predictions"]["follows"] != shown["follows"]
    alone = client.post("/api/runs", json={"model": "bert", "text": pair[0]}).json()
    assert alone["predictions"]["follows"] is None
