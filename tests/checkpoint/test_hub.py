"""Names of the hub: fetched from a small hub of our own, over real HTTP; offline, one line."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import folders

NOBODY = "http://127.0.0.1:9"  # answers there
SHA = "0123456789abcdef0123456789abcdef01234567"
LOAD = """
import sys, glassformer as gf
for name in sys.argv[1:]:
    try:
        print(len(gf.load(name).hidden([[1, 2, 3]])))
    except gf.GlassformerError as error:
        print(error)
"""


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's interface as a download needs."""

    folder: Path
    asked: list[str]

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        self.asked.append(path)
        files = {f.name: f.read_bytes() for f in self.folder.iterdir()}
        kind, _, rest = path.removeprefix("/").removeprefix("api/models/").partition("/")
        if kind != "someone" or not rest.startswith("small"):
            return self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)
        rest = rest.removeprefix("small/")
        if rest.startswith("revision/"):
            names = [{"rfilename": name} for name in files]
            info = {"id": "someone/small", "sha": SHA, "siblings": names}
            return self.reply(200, json.dumps(info).encode(), {}, body)
        if rest.startswith("tree/"):
            rows = [
                {"type": "file", "path": n, "size": len(d), "oid": hashlib.sha1(d).hexdigest()}
                for n, d in files.items()
            ]
            return self.reply(200, json.dumps(rows).encode(), {}, body)
        data = files[rest.rpartition("/")[2]]
        tag = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": SHA}
        return self.reply(200, data, tag, body)

    def reply(self, code: int, data: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    folder = folders.write("BertModel", tmp_path / "served")
    (folder / "pytorch_model.bin").write_bytes(b"never fetched")
    handler = type("Served", (Hub,), {"folder": folder, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", handler.asked
    server.shutdown()
    server.server_close()


def load(*names: str, home: Path, endpoint: str, **more: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: it prints how many texts were read, or the error."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "http", "HTTP"))}
    env |= {"HF_HOME": str(home), "HF_ENDPOINT": endpoint, "OMP_NUM_THREADS": "1", **more}
    return subprocess.run(
        [sys.executable, "-c", LOAD, *names],
        env=env,
        cwd=home.parent,
        capture_output=True,
        text=True,
    )


def test_a_name_is_fetched_once_and_then_opened_offline(
    hub: tuple[str, list[str]], tmp_path: Path
) -> None:
    """One that nobody has is said to be unknown; offline, one line says what to do."""
    endpoint, asked = hub
    first = load("someone/small", "someone/else", home=tmp_path / "home", endpoint=endpoint)
    known, unknown = first.stdout.splitlines()
    assert known == "1", first.stderr
    assert "someone/else" in unknown and "check the name" in unknown
    assert any("config.json" in path for path in asked)
    assert not any(".bin" in path for path in asked)
    names = ("someone/small", "someone/other")
    again = load(*names, home=tmp_path / "home", endpoint=NOBODY, HF_HUB_OFFLINE="1")
    known, unknown = again.stdout.splitlines()
    assert known == "1", again.stderr
    check_offline(unknown, "someone/other")


def test_what_looks_like_a_path_asks_no_network(hub: tuple[str, list[str]], tmp_path: Path) -> None:
    endpoint, asked = hub
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    paths = ("./small", "a/b/c", "/no/where", "~x", "a b", "../small", "small", "runs/mien")
    done = load(*paths, home=tmp_path / "home", endpoint=endpoint)
    assert done.stdout.count("no such folder") == len(paths)
    assert "runs/mien: no such folder: did you mean runs/mine?" in done.stdout
    assert "small: no such folder: write a model folder, a name of `glassf" in done.stdout
    assert asked == []


def check_offline(line: str, name: str) -> None:
    assert line.startswith(f"{name}: no such folder, and the hub did not provide it")
    assert "use its path" in line


@pytest.mark.slow
def test_a_hub_that_does_not_answer_gets_one_line(tmp_path: Path) -> None:
    done = load("someone/small", home=tmp_path / "home", endpoint=NOBODY)
    (line,) = done.stdout.splitlines()
    check_offline(line, "someone/small")
