"""Clients that were written for other servers, unmodified, against a real process."""

from __future__ import annotations

import json
import subprocess
import threading

import httpx
import numpy as np
import pytest
from libretranslatepy import LibreTranslateAPI

import glassformer as gf
from glassformer.asgi.requests import loopback_hosts
from glassformer.asgi.server import listen
from glassformer.asgi.server import server as asgi_server
from glassformer.serve.app import create_app
from glassformer.serve.host import Host, HostOptions
from glassformer.serve.state import ServeState
from ports import free_port

STORY = "Once upon a time"


@pytest.fixture(scope="module")
def official(server):
    import openai  # slow, and not every test needs it

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def greedy(models: dict[str, gf.Model], **settings: object) -> gf.Generation:
    return models["gf-decoder"].generate(STORY, **settings)[0]


def test_models(official) -> None:
    names = [each.id for each in official.models.list()]
    assert names[:3] == ["gf-encoder", "gf-decoder", "gf-en-ru"] and "reader" in names


def test_completions(official, models) -> None:
    ask = {"model": "gf-decoder", "prompt": STORY, "temperature": 0, "max_tokens": 9}
    whole = official.completions.create(**ask)
    expected = greedy(models, max_new_tokens=9)
    assert whole.choices[0].text == expected.text
    assert whole.choices[0].finish_reason == "length"
    usage = whole.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (5, 9, 14)
    events = list(official.completions.create(**ask, stream=True))
    assert "".join(each.choices[0].text for each in events) == expected.text
    assert [each.choices[0].finish_reason for each in events][-1] == "length"
    options = {"include_usage": True}
    *_, last = official.completions.create(**ask, stream=True, stream_options=options)
    assert last.choices == [] and last.usage.total_tokens == 14
    stop = expected.text[12:15]
    cut = official.completions.create(**ask, stop=[stop])
    assert cut.choices[0].text == expected.text[: expected.text.index(stop)]
    assert cut.choices[0].finish_reason == "stop"
    pieces = official.completions.create(**ask, stop=[stop], stream=True)
    assert "".join(each.choices[0].text for each in pieces) == cut.choices[0].text
    copies = official.completions.create(**ask, n=2)
    assert [each.text for each in copies.choices] == [expected.text] * 2


def test_samples_of_a_seed(official, models) -> None:
    ask = {"model": "gf-decoder", "prompt": [STORY, "A dog"], "max_tokens": 6}
    both = official.completions.create(**ask, n=2, seed=7, temperature=0.8)
    expected = models["gf-decoder"].generate(
        [STORY, "A dog"], do_sample=True, temperature=0.8, seed=7, num_return_sequences=2,
        max_new_tokens=6,
    )  # fmt: skip
    assert [each.text for each in both.choices] == [each.text for each in expected]
    assert [each.index for each in both.choices] == [0, 1, 2, 3]


def test_logprobs(official, models) -> None:
    ask = {"model": "gf-decoder", "prompt": STORY, "temperature": 0, "max_tokens": 4}
    choice = official.completions.create(**ask, logprobs=2).choices[0]
    expected = greedy(models, max_new_tokens=4, logprobs=True, top_logprobs=2)
    assert choice.logprobs.token_logprobs == pytest.approx(expected.logprobs, abs=1e-4)
    assert "".join(choice.logprobs.tokens) == choice.text
    for row, value in zip(choice.logprobs.top_logprobs, expected.logprobs, strict=True):
        assert len(row) == 2 and max(row.values()) == pytest.approx(value, abs=1e-4)
    streamed = list(official.completions.create(**ask, logprobs=2, stream=True))
    values = [p for each in streamed for p in each.choices[0].logprobs.token_logprobs]
    assert values == pytest.approx(expected.logprobs, abs=1e-4)


def test_chats(official, models) -> None:
    ask = {
        "model": "gf-decoder", "messages": [{"role": "user", "content": "Hello!"}],
        "temperature": 0, "max_tokens": 5, "logprobs": True, "top_logprobs": 1,
    }  # fmt: skip
    answer = official.chat.completions.create(**ask)
    expected = models["gf-decoder"].generate("user: Hello!\nassistant:", max_new_tokens=5)[0]
    assert answer.choices[0].message.content == expected.text
    assert len(answer.choices[0].logprobs.content) == 5
    events = list(official.chat.completions.create(**ask, stream=True))
    assert "".join(each.choices[0].delta.content for each in events) == expected.text
    assert events[0].choices[0].delta.role == "assistant"


def test_embeddings(official, models) -> None:
    texts = ["A cat sat on the mat.", "A dog."]
    expected = models["gf-encoder"].embed(texts).numpy()
    for more in ({}, {"encoding_format": "float"}):  # the client asks for base64 by itself
        rows = official.embeddings.create(model="gf-encoder", input=texts, **more).data
        assert np.allclose([row.embedding for row in rows], expected, atol=1e-5)
    (short,) = official.embeddings.create(model="gf-encoder", input="A cat.", dimensions=8).data
    assert len(short.embedding) == 8 and np.linalg.norm(short.embedding) == pytest.approx(1)


def test_errors_have_the_shape_of_openai(official) -> None:
    import openai

    with pytest.raises(openai.NotFoundError) as missing:
        official.completions.create(model="no-such", prompt="x")
    assert missing.value.body["code"] == "model_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        official.completions.create(model="gf-decoder", prompt="x", logit_bias={"5": 9})
    assert "logit_bias" in wrong.value.body["message"]
    with pytest.raises(openai.BadRequestError):
        official.embeddings.create(model="gf-en-ru", input="x")
    with pytest.raises(openai.APIStatusError) as long:
        official.embeddings.create(model="gf-encoder", input="word " * 500)
    assert long.value.status_code == 413


def test_libretranslate(server, models) -> None:
    client = LibreTranslateAPI(server.url)
    text = "The cat sat on the mat."
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["ru"]}]
    assert client.translate(text, "en", "ru") == models["gf-en-ru"].translate(text)[0].text
    ask = {"q": [text, "A dog ran.\nHe slept."], "source": "en", "target": "ru"}
    answer = httpx.post(f"{server.url}/translate", json={**ask, "alternatives": 2}).json()
    expected = models["gf-en-ru"].translate(ask["q"], n_best=3)
    assert answer["translatedText"] == [each.text for each in expected]
    others = [[other.text for other in each.others] for each in expected]
    assert answer["alternatives"] == others
    wrong = httpx.post(f"{server.url}/translate", json={**ask, "target": "de"})
    assert wrong.status_code == 400 and "/languages" in wrong.json()["error"]


def test_curl(server) -> None:
    words = [
        "curl", "-s", f"{server.url}/fill", "-H", "Content-Type: application/json", "-d",
        '{"text": "The cat sat on the [MASK].", "top_k": 1}',
    ]  # fmt: skip
    answer = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert answer["blanks"][0]["candidates"][0]["text"] == "table"
    words = ["curl", "-sN", f"{server.url}/v1/completions", "-H", "Content-Type: application/json"]
    body = {"model": "gf-decoder", "prompt": STORY, "max_tokens": 3, "stream": True}
    lines = subprocess.run([*words, "-d", json.dumps(body)], capture_output=True, text=True)
    assert lines.stdout.endswith("data: [DONE]\n\n")


def test_text_embeddings_inference(server, models) -> None:
    with httpx.Client(base_url=server.url) as http:
        texts = ["A cat sat.", "It rained all day."]
        rows = http.post("/embed", json={"inputs": texts, "normalize": True}).json()
        expected = models["gf-encoder"].embed(texts, normalize=True).numpy()
        assert np.allclose(rows, expected, atol=1e-5)
        long = http.post("/embed", json={"inputs": "word " * 500})
        assert long.status_code == 413 and long.json()["error_type"] == "Validation"
        cut = http.post("/embed", json={"inputs": "word " * 500, "truncate": True})
        assert cut.status_code == 200
        assert http.post("/embed", json={"inputs": 5}).status_code == 422
        ask = {"query": "Who sat?", "texts": texts}
        ranked = http.post("/rerank", json={**ask, "return_text": True}).json()
        assert sorted(each["index"] for each in ranked) == [0, 1]
        assert ranked[0]["score"] >= ranked[1]["score"] and ranked[0]["text"] in texts
        (one, other) = http.post("/predict", json={"inputs": "A film."}).json()
        assert {one["label"], other["label"]} == {"good", "bad"}
        many = http.post("/predict", json={"inputs": [["A film."], ["One.", "Two."]]}).json()
        assert many[0][0]["score"] == pytest.approx(one["score"])
        pair = http.post("/predict", json={"inputs": ["One.", "Two."]}).json()
        assert pair[0]["score"] == pytest.approx(many[1][0]["score"])
        assert http.get("/info").json()["max_input_length"] == 128
        jina = {"model": "reranker", "query": "Who sat?", "documents": texts, "top_n": 1}
        row = http.post("/v1/rerank", json=jina).json()["results"][0]
        assert row["index"] == ranked[0]["index"]
        assert row["relevance_score"] == pytest.approx(ranked[0]["score"])


def test_own_routes_explain_themselves(server) -> None:
    asks = {
        "/fill": {"text": "The cat sat on the [MASK]."}, "/classify": {"text": "A film."},
        "/tag": {"text": "Ramona lives in Paris."}, "/follows": {"a": "One.", "b": "Two."},
        "/answer": {"question": "Who sat?", "context": "A cat sat."},
    }  # fmt: skip
    with httpx.Client(base_url=server.url, timeout=60) as http:
        for path, ask in asks.items():
            answer = http.post(path, json={**ask, "explain": True})
            assert answer.status_code == 200, answer.text
            why = answer.json()["explain"]
            assert why["tokens"][0] == "[CLS]" and why["heads"]["encoder"], path
            assert bool(why["lens"]) == (path in ("/fill", "/follows"))
        ask = {"q": "A cat sat.", "source": "en", "target": "ru", "explain": True}
        (why,) = http.post("/translate", json=ask).json()["explain"]
        assert why["alignment"] and len(why["heads"]["cross"]) == 3
        ask = {"model": "gf-decoder", "prompt": STORY, "max_tokens": 3, "explain": True}
        why = http.post("/v1/completions", json=ask).json()["explain"]
        assert len(why["tokens"]) == 8 and len(why["lens"][0]["words"]) == 8


def test_the_client_tries_again_when_the_queue_was_full() -> None:
    """The model is held until the client was refused; `Retry-After` says when it returns."""
    import openai

    host = Host({"gf-encoder": "gf-encoder"}, options=HostOptions(queue_tokens=8))
    host.load("gf-encoder")
    scheduler, go = host.models["gf-encoder"].scheduler, threading.Event()
    calls = scheduler._calls
    scheduler._calls = lambda: calls() if go.wait(60) else 0
    port, statuses = free_port(), []

    def note(response: httpx.Response) -> None:
        statuses.append(response.status_code)
        if response.status_code == 429:
            assert int(response.headers["retry-after"]) >= 1
            go.set()

    app = create_app(ServeState(host), hosts=loopback_hosts(port))
    with listen(port) as listening:
        running = asgi_server(app)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        url, body = f"http://127.0.0.1:{port}", {"inputs": "one two three four"}
        first = threading.Thread(target=lambda: httpx.post(f"{url}/embed", json=body, timeout=60))
        first.start()
        while not scheduler.queue.tokens:
            first.join(0.01)
        noted = httpx.Client(event_hooks={"response": [note]})
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", http_client=noted) as client:
            rows = client.embeddings.create(model="gf-encoder", input="one two three four").data
        assert statuses == [429, 200] and len(rows[0].embedding) == 256
        first.join()
        running.should_exit = True
        thread.join()
