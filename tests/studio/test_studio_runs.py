"""Runs are kept, dropped and stopped; and what each kind of model says."""

import asyncio
import copy
import http.client
import json
import socket
import threading
import time

import pytest
import uvicorn

from glassformer.asgi.requests import Refused
from glassformer.studio.app import create_app
from glassformer.studio.jobs import Cancelled, ClientLeft, JobMonitor, JobQueue
from glassformer.studio.runs import RecordedRuns, max_tokens, record_run, stack_sizes
from glassformer.studio.samples import ServedModel
from glassformer.studio.schemas import RunRequest

from folders import tiny  # isort: skip
from speakers import LONG, bert  # isort: skip

NAMES = {"id2label": {0: "no", 1: "perhaps", 2: "yes"}}


def asking(text):
    return RunRequest(model="1", text=text)


def test_the_newest_runs_are_kept(served):
    model, runs, never = served[1].model, RecordedRuns(max_entries=2), JobMonitor()
    first, second = (runs.add(model, asking(text), never) for text in ("man", "woman"))
    assert runs.get(first.id) is first  # asked for: it is the newer one now
    third = runs.add(model, asking("the"), never)
    assert list(runs.entries) == [first.id, third.id]
    with pytest.raises(Refused, match="no longer in memory") as gone:
        runs.get(second.id)
    assert gone.value.status == 404
    assert runs.same(asking("man")) is first and runs.same(asking("woman")) is None


def test_runs_are_bounded_in_bytes_too(served):
    model, never = served[1].model, JobMonitor()
    size = record_run(model, asking("man"), "r0", never).bytes
    runs = RecordedRuns(max_bytes=3 * size)
    for text in ("man", "woman", "the", "cat"):
        runs.add(model, asking(text), never)
    assert len(runs.entries) == 3
    small = RecordedRuns(max_bytes=1)
    assert small.add(model, asking("man"), never).id in small.entries  # the last one always is


def test_the_same_question_is_answered_from_memory(run):
    assert run(0)["run"] == run(0)["run"] != run(0, off=[["encoder", 0, 0]])["run"]


def test_room_for_weights_bounds_the_text():
    wide = tiny("decoder", depth=24, heads=12, max_length=131_072)
    assert 600 < max_tokens(wide) < 700
    assert max_tokens(tiny("decoder")) == 17


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_run_stops_where_it_is(served, number):
    left = JobMonitor()
    left.stopped.set()
    ask = RunRequest(model="0", text=served[number].texts[0])
    with pytest.raises(Cancelled):
        record_run(served[number].model, ask, "r1", left)


def test_what_the_toys_say(run):
    assert run(0)["predictions"]["at"][0]["top"][0]["text"] == "money"
    for who, what in (("man", "chicken"), ("woman", "beef")):
        says = run(1, f"{who} ordered the")["predictions"]
        assert says["kind"] == "next" and says["at"][-1]["top"][0]["text"] == what
    assert (
        run(2)["predictions"]["text"] == "кот сел на коврик" and run(2)["predictions"]["complete"]
    )
    assert run(0, "I ate the apple.")["predictions"]["kind"] == "none"


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [
        ("BertForSequenceClassification", "label", 1),
        ("BertForNextSentencePrediction", "label", 1),
        ("BertForTokenClassification", "label", 5),
        ("BertForPreTraining", "masked", 1),
        ("BertForQuestionAnswering", "none", 0),
        ("BertModel", "none", 0),
    ],
)
def test_what_each_kind_says(open_studio, tmp_path, name, kind, count):
    labels = NAMES if name.endswith(("SequenceClassification", "TokenClassification")) else {}
    model, _ = bert(name, tmp_path, **LONG, **labels)
    client = open_studio([ServedModel(name, model)])
    row = client.post("/api/runs", json={"model": name, "text": "the cat [MASK]"}).json()
    assert (row["predictions"]["kind"], len(row["predictions"]["at"])) == (kind, count)
    if kind == "label":
        top = row["predictions"]["at"][0]["top"]
        assert sum(each["p"] for each in top) == pytest.approx(1)
        assert {each["text"] for each in top} == set(model.task.spec.labels)
    if name == "BertForSequenceClassification":
        best = model.classify("the cat [MASK]")[0]
        assert (top[0]["text"], top[0]["p"]) == (best.label, pytest.approx(best.score))
    if kind == "masked":
        blank = model.fill("the cat [MASK]")[0]
        texts = [each["text"] for each in row["predictions"]["at"][0]["top"]]
        assert texts == [each.text for each in blank.candidates]


def test_the_first_screen_is_never_empty(client):
    for model in client.get("/api/models").json()["models"]:
        for sample in model["samples"]:
            found = client.post("/api/runs", json={
                "model": model["id"], "text": sample["text"], "second": sample["second"],
            })  # fmt: skip
            assert found.status_code == 200
            tokens = [each for row in found.json()["tokens"]["queries"].values() for each in row]
            assert "[UNK]" not in [each["text"] for each in tokens]


class Client:
    """A request whose sender may leave."""

    def __init__(self, name=None):
        self.left = asyncio.Event()
        self.headers = {} if name is None else {"x-job": name}

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}


def test_few_jobs_run_at_once_and_the_queue_is_short():
    async def story():
        jobs, release = JobQueue(max_running=1, max_waiting=2), threading.Event()
        done = []

        def work(number):
            release.wait(60)
            done.append(number)
            return number

        async def come(client, number):
            return await jobs.run(client, lambda _: work(number))

        clients = [Client() for _ in range(3)]
        tasks = [asyncio.create_task(come(c, i)) for i, c in enumerate(clients)]
        await asyncio.sleep(0.05)
        with pytest.raises(Refused, match="try again") as busy:
            await come(Client(), 3)
        assert busy.value.status == 429
        clients[1].left.set()  # it only waited
        with pytest.raises(ClientLeft):
            await tasks[1]
        release.set()
        assert (await tasks[0], await tasks[2]) == (0, 2)
        assert done == [0, 2] and not jobs.jobs

    asyncio.run(story())


def test_who_leaves_keeps_no_seat_for_long():
    async def story():
        jobs, begun, told = JobQueue(1, 1), threading.Event(), threading.Event()

        def work(progress):
            begun.set()
            assert progress.stopped.wait(60)
            told.set()
            raise Cancelled

        leaving = Client()
        task = asyncio.create_task(jobs.run(leaving, work))
        await asyncio.to_thread(begun.wait, 60)
        leaving.left.set()
        with pytest.raises(ClientLeft):
            await task
        assert await jobs.run(Client(), lambda _: "next") == "next"
        assert told.is_set()

    asyncio.run(story())


def test_a_job_tells_how_far_it_is():
    async def story():
        jobs, told, release = JobQueue(), threading.Event(), threading.Event()

        def work(progress):
            progress.report("layer", 3, 12)
            told.set()
            assert release.wait(60)

        task = asyncio.create_task(jobs.run(Client("mine"), work))
        await asyncio.to_thread(told.wait, 60)
        now = jobs.progress("mine")
        assert (now.unit, now.done, now.of) == ("layer", 3, 12)
        release.set()
        await task
        for name in ("mine", "another"):
            with pytest.raises(Refused, match="no such job"):
                jobs.progress(name)

    asyncio.run(story())


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_run_tells_each_layer(served, number):
    told = []

    class Heard(JobMonitor):
        def report(self, unit, done, of):
            told.append((unit, done, of))

    model = served[number].model
    record_run(model, RunRequest(model="0", text=served[number].texts[0]), "r1", Heard())
    layers = [(done, of) for unit, done, of in told if unit == "layer"]
    depth = sum(each.layers for each in stack_sizes(model) if each.name != "cross")
    assert layers == sorted(layers) and set(layers) == {(i, depth) for i in range(depth)}
    assert ("token" in {unit for unit, *_ in told}) == (number == 2)


def test_work_ends_when_the_client_hangs_up(served, monkeypatch):
    """A real server and a real socket: the second block is never computed."""
    model, blocks, monitors = copy.deepcopy(served[0].model), [], []

    class Noted(JobMonitor):
        def __init__(self):
            super().__init__()
            monitors.append(self)

    def wait(*_):
        blocks.append(time.monotonic())
        monitors[0].stopped.wait(60)

    monkeypatch.setattr("glassformer.studio.jobs.JobMonitor", Noted)
    for block in model.task.backbone.encoder.blocks:
        block.register_forward_pre_hook(wait)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    app = create_app([ServedModel("slow", model)], port=port)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        body = json.dumps({"model": "slow", "text": "I ate the apple."})
        headers = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/json"}
        leaving = http.client.HTTPConnection("127.0.0.1", port)
        leaving.request("POST", "/api/runs", body, headers)
        while not blocks:
            time.sleep(0.01)
        leaving.close()
        staying = http.client.HTTPConnection("127.0.0.1", port)
        staying.request("GET", "/api/models")
        assert staying.getresponse().status == 200
        staying.close()
        assert monitors[0].stopped.wait(60)
    finally:
        server.should_exit = True
        thread.join()  # it waits for the work
        listening.close()
    assert len(blocks) == 1
