"""The toys, served; one of each family."""

import drawings
import pytest
from fastapi.testclient import TestClient

import glassformer as gf
from glassformer.studio.app import create_app
from glassformer.studio.samples import ServedModel

PORT = 8642
HERE = f"http://127.0.0.1:{PORT}"
IDS = ("toy-encoder", "toy-decoder", "toy-translator")
TEXTS = ("I deposited [MASK] in the bank.", "man ordered the", "The cat sat on the mat")


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    drawings.train_toys(tmp_path_factory.getbasetemp())
    return drawings.TOYS


@pytest.fixture
def open_studio():
    """A client of a new studio with these models."""

    def opened(models, **more):
        app = create_app(models, port=PORT)
        return TestClient(app, base_url=HERE, headers={"origin": HERE}, **more)

    return opened


@pytest.fixture
def client(served, open_studio):
    return open_studio(served)


@pytest.fixture
def run(client):
    """Ask for a run; what the studio answers."""

    def asked(model=0, text=None, **more):
        body = {"model": IDS[model], "text": TEXTS[model] if text is None else text, **more}
        answer = client.post("/api/runs", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return asked


@pytest.fixture
def drawn(open_studio):
    """A client, a run, and the same run by `record`."""

    def asked(model, ids=drawings.IDS):
        client = open_studio([ServedModel("it", model)])
        row = client.post("/api/runs", json={"model": "it", "text": " ".join(map(str, ids))}).json()
        queries = row["tokens"]["queries"]
        both = len(queries) > 1
        given = (ids, [int(each["piece"]) for each in queries["decoder"]]) if both else ids
        return client, row, gf.record(model, given)

    return asked
