"""The server itself: slow clients, other sites, what stays in memory; and surprisal."""

import contextlib
import gc
import gzip
import math
import socket
import threading

import pytest
import torch

import glassformer as gf
from glassformer.asgi import server
from glassformer.studio.app import create_app
from glassformer.studio.jobs import JobQueue
from glassformer.studio.runs import MAX_RUNS, RecordedRun
from glassformer.studio.samples import ServedModel, model_ids
from glassformer.studio.standalone import script, style
from glassformer.studio.tokenization import tokens_from_pieces
from glassformer.studio.views.generation import RecordedGeneration
from glassformer.studio.views.shuffle import ShuffledRun
from sampling import every_nth, mostly_slow
from speakers import LONG, bert, bytewise


@contextlib.contextmanager
def running(models):
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    serving = server.server(create_app(models, port=port))
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield port
    finally:
        serving.should_exit = True
        thread.join()
        listening.close()


def test_half_sent_headers_are_hung_up(served, monkeypatch):
    """At the start of a connection, and after a whole request; in time they are served."""
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.3)
    with running(served) as port:
        request = f"GET /api/models HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode()
        silent, half, later = (socket.create_connection(("127.0.0.1", port), 20) for _ in range(3))
        half.sendall(request)
        later.sendall(request + b"\r\n")
        assert later.recv(12) == b"HTTP/1.1 200"
        answer = b""
        while not answer.endswith(b"]}"):
            answer += later.recv(1 << 16)
        later.sendall(request)
        for each in (silent, half, later):
            assert each.recv(1) == b""
            each.close()


def test_the_end_waits_for_nobody(served):
    """One client has sent half a request, and never sends the rest."""
    with running(served) as port:
        half = socket.create_connection(("127.0.0.1", port), 20)
        half.sendall(f"GET /api/models HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode())
    half.close()


SITES = {"same-origin": 200, "none": 200, "same-site": 403, "cross-site": 403, "": 403, "odd": 403}


@pytest.mark.parametrize("site", SITES)
def test_what_another_site_asks_is_not_computed(client, monkeypatch, site):
    """Browsers say where a request comes from even if they send no Origin, as for an image."""
    started, jobs = [], JobQueue.run
    monkeypatch.setattr(JobQueue, "run", lambda *given: started.append(1) or jobs(*given))
    client.headers = {"sec-fetch-site": site}
    for path in ("/api/positions", "/api/runs/r1/lens", "/studio.js"):
        answer = client.get(path)
        assert answer.status_code != 403 if SITES[site] == 200 else answer.status_code == 403
        if SITES[site] == 403:
            assert answer.json()["error"] == "requests from other sites are refused"
    assert bool(started) == (SITES[site] == 200)
    assert client.get("/").status_code == 200  # a link to the page may be followed


CODINGS = {
    "gzip, deflate, br": True, "br, *": True, "gzip;q=0.2": True, "GZIP": True,
    "": False, "identity": False, "br": False, "gzip;q=0, *": False, "*;q=0": False,
    "gzip;q=many": False,
}  # fmt: skip


@pytest.mark.parametrize("coding", every_nth(CODINGS, 3))
def test_files_are_compressed_for_those_who_read_gzip(client, coding):
    """Once: the same bytes again. Without the header they are sent as they are."""
    for path, content in (("/studio.js", script()), ("/studio.css", style())):
        answer = client.get(path, headers={"accept-encoding": coding})
        assert answer.headers["vary"] == "Accept-Encoding"
        assert (answer.headers.get("content-encoding") == "gzip") == CODINGS[coding]
        assert answer.text == content  # the client has unpacked it
        sent = int(answer.headers["content-length"])
        assert sent < len(content) / 3 if CODINGS[coding] else sent == len(content.encode())


def test_a_file_is_compressed_once(client, monkeypatch):
    packed = client.get("/studio.js", headers={"accept-encoding": "gzip"})
    monkeypatch.setattr(gzip, "compress", None)
    again = client.get("/studio.js", headers={"accept-encoding": "gzip"})
    assert again.text == packed.text and again.headers["content-encoding"] == "gzip"


def test_ids_of_models_are_their_names():
    names = ["gf-decoder", "runs/a/model", "runs/a/model", "<img src=x>", "..", "é ü", "x" * 99]
    ids = model_ids(names)
    assert ids[:4] == ["gf-decoder", "runs-a-model", "runs-a-model~2", "img-src-x"]
    assert ids[4:6] == ["model", "é-ü"] and len(ids[6]) < 64
    assert model_ids(["b", *names])[1:] == ids  # whatever else is served


def test_white_space_is_shown_as_such(open_studio, tmp_path):
    model, _ = bytewise("GPT2LMHeadModel", tmp_path)
    client = open_studio([ServedModel("gpt2", model)])
    row = client.post("/api/runs", json={"model": "gpt2", "text": "the  cat\n\nsat é"}).json()
    said = [guess["text"] for at in row["predictions"]["at"] for guess in at["top"]]
    said += [each["text"] for each in row["tokens"]["queries"]["decoder"]]
    lens = client.get(f"/api/runs/{row['run']}/lens").json()
    assert not {"Ġ", "Ċ"} & set("".join(said + lens["words"]))
    texts = [each.text for each in tokens_from_pieces(["Ġthe", "Ġ", "Ċ", "ĊĊ", "▁", "cat"])]
    assert texts == ["the", " ", "\n", "\n\n", " ", "cat"]
    letters = tokens_from_pieces(["Ċ", "a"])  # in Maltese
    assert [each.text for each in letters] == ["Ċ", "a"]


def test_guesses_have_the_ids_of_their_tokens(open_studio, tmp_path):
    model, _ = bytewise("GPT2LMHeadModel", tmp_path)
    client = open_studio([ServedModel("gpt2", model)])
    row = client.post("/api/runs", json={"model": "gpt2", "text": "the cat"}).json()
    logits = gf.record(model, "the cat")["logits"]
    for at in row["predictions"]["at"]:
        best = logits[at["token"]].topk(5).indices.tolist()
        assert [each["id"] for each in at["top"]] == best
        assert [each["piece"] for each in at["top"]] == [model.tokenizer.readable(i) for i in best]


@pytest.mark.parametrize("number", [1, 2])
def test_surprisal_of_the_next_token(client, served, run, number):
    row = run(number)
    found = client.get(f"/api/runs/{row['run']}/surprisal").json()
    model, tokens = served[number].model, row["tokens"]["queries"]["decoder"]
    ids = [model.tokenizer.id(each["piece"]) for each in tokens]
    given = ids if number == 1 else (model.tokenizer.encode("The cat sat on the mat").ids, ids)
    chances = gf.record(model, given)["logits"].softmax(-1)
    expected = [-math.log2(chances[i, id]) for i, id in enumerate(ids[1:])]
    assert found["side"] == "decoder" and found["bits"][0] is None
    assert found["bits"][1:] == pytest.approx(expected, abs=1e-4)


def test_surprisal_of_masked_tokens(client, served, run):
    text = "I deposited money in the bank."
    found = client.get(f"/api/runs/{run(0, text)['run']}/surprisal").json()
    model = served[0].model
    ids = model.tokenizer.encode(text).ids
    mask = model.tokenizer.id("[MASK]")
    assert found["side"] == "encoder" and found["bits"][0] is found["bits"][-1] is None
    for i in range(1, len(ids) - 1):
        masked = [mask if j == i else id for j, id in enumerate(ids)]
        chance = gf.record(model, masked)["logits"][i].softmax(-1)[ids[i]]
        assert found["bits"][i] == pytest.approx(-math.log2(chance), abs=1e-4)
    money = run(0, text, swaps=[["encoder", 3, "in"]])["run"]
    swapped = client.get(f"/api/runs/{money}/surprisal").json()["bits"]
    assert swapped[3] != found["bits"][3] and swapped[5] != found["bits"][5]


def test_a_model_without_words_has_no_surprisal(open_studio, tmp_path):
    client = open_studio([ServedModel("plain", bert("BertModel", tmp_path, **LONG)[0])])
    row = client.post("/api/runs", json={"model": "plain", "text": "the cat"}).json()
    answer = client.get(f"/api/runs/{row['run']}/surprisal")
    assert answer.status_code == 400 and "predicts no tokens" in answer.json()["error"]


def test_lens_and_alignment_are_computed_once(client, run, monkeypatch):
    row = run(2)
    paths = [f"/api/runs/{row['run']}/{name}" for name in ("lens", "lens/1", "alignment")]
    first = [client.get(path).content for path in paths]
    for name in ("layers.decided", "layers.lens", "measures.align"):
        monkeypatch.setattr(f"glassformer.studio.views.{name}", None)
    assert [client.get(path).content for path in paths] == first


@torch.no_grad()
def test_a_long_text_keeps_its_small_weights(open_studio):
    from folders import tiny

    model = tiny("decoder", max_length=150).float()
    client = open_studio([ServedModel("long", model)])
    ids = [7 * i % 53 for i in range(146)]
    row = client.post("/api/runs", json={"model": "long", "text": " ".join(map(str, ids))}).json()
    answer = client.get(f"/api/runs/{row['run']}/head/decoder/0/0")
    assert answer.headers["x-power"] == "2"
    bytes_ = torch.frombuffer(bytearray(answer.content), dtype=torch.uint8).view(146, 146)
    weights = gf.record(model, ids)["decoder.blocks.0.attention.weights"][0]
    assert torch.allclose((bytes_ / 255) ** 2, weights, atol=4e-3)
    small = (weights > 1e-4) & (weights < 1 / 512)
    assert small.any() and (bytes_[small] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("count", mostly_slow([20, 60]))
def test_what_is_dropped_is_freed(client, run, count):
    """After many different requests no more is alive than the caches hold."""
    kinds = (RecordedRun, RecordedGeneration, ShuffledRun)

    def alive():
        gc.collect()
        objects = [type(each) for each in gc.get_objects()]
        return [objects.count(kind) for kind in kinds]

    others = alive()  # of the studios of other tests
    for i in range(count):
        id = run(i % 3, f"{'the cat ' * (i % 5 + 1)}{'sat ' * (i % 7)}on", off=[])["run"]
        for path in ("map/decoder", "measures", "lens", "surprisal", "trace", "python"):
            client.get(f"/api/runs/{id}/{path}")
        client.post("/api/shuffles", json={"run": id, "seed": i})
        ask = {"model": "toy-decoder", "text": "the man", "max_new_tokens": i % 9 + 1, "seed": i}
        client.post("/api/generations", json=ask)
    for before, now in zip(others, alive(), strict=True):
        assert before < now <= before + MAX_RUNS
