"""`glassformer studio` as a process: it starts, it answers, it ends quietly."""

import http.client
import os
import signal
import socket
import subprocess
import sys

import pytest

import folders
from commands import refused
from glassformer.asgi.server import listen
from glassformer.cli.studio import names
from glassformer.studio.standalone import bundle
from ports import free_port


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return folders.write("BertForMaskedLM", tmp_path_factory.mktemp("model") / "bert-<b>small")


def test_it_serves_a_folder_until_ctrl_c(folder):
    port = free_port()
    command = [sys.executable, "-m", "glassformer", "studio", str(folder), "--no-open"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment,
    )  # fmt: skip
    try:
        assert process.stdout.readline().startswith(f"http://127.0.0.1:{port}/")
        asking = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        asking.request("GET", "/api/models")
        answer = asking.getresponse()
        assert answer.status == 200 and b'"name":"bert-<b>small"' in answer.read()
        assert "server" not in {name.lower() for name, _ in answer.getheaders()}
        line = refused("studio", str(folder), "--no-open", "--port", port, code=2)
        assert f"--port {port}" in line and "write --port" in line
        asking.close()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=120)
        assert (process.returncode, out, errors) == (0, "", "")
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_ctrl_c_waits_for_nobody(folder):
    """One client has sent half a request, and never sends the rest."""
    port = free_port()
    command = [sys.executable, "-m", "glassformer", "studio", str(folder), "--no-open"]
    process = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        assert process.stdout.readline()
        here = f"127.0.0.1:{port}"
        half = (
            f"POST /api/runs HTTP/1.1\r\nHost: {here}\r\nOrigin: http://{here}\r\n"
            "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.sendall(half.encode())
            asking = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            asking.request("GET", "/api/models")
            assert asking.getresponse().read()
            asking.close()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        assert process.returncode == 0 and "Traceback" not in errors
    finally:
        process.kill()
        process.wait()


def test_small_answers_do_not_wait():
    """asyncio sends at once (TCP_NODELAY) only where it is told that this is TCP."""
    with listen(free_port()) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_models_are_told_apart(tmp_path):
    folders = [tmp_path / name for name in ("a/model", "b/model", "c/small", "d/e/f", "d/g/f")]
    for each in folders:
        each.mkdir(parents=True)
    found = names([*map(str, folders), "org/name"])
    assert found == ["a/model", "b/model", "small", "e/f", "g/f", "org/name"]


def test_a_wrong_folder_is_one_line(tmp_path):
    line = refused("studio", str(tmp_path), "--no-open", "--port", free_port())
    assert str(tmp_path) in line
    refused("studio", "a" * 5_000, "--no-open", "--port", free_port())


def test_a_wrong_port_is_one_line():
    refused("studio", "--port", "70000", code=2)


@pytest.mark.parametrize("option", ["--host", "--insecure"])
def test_it_serves_this_machine_only(option):
    assert option in refused("studio", option, "0.0.0.0", code=2)


def test_an_exported_page_has_no_comments():
    """Only whole lines: what looks like a comment inside a string stays."""
    source = "// About it.\n\n/**\n * More\n * @param {x} x * y\n */\nexport const f = () => {\n"
    source += '  // inside\n  return "a // b"; // after\n};\n'
    script = bundle({"main": source}, "main")
    assert "About" not in script and "More" not in script and "inside" not in script
    assert 'return "a // b"; // after' in script and "return { f }" in script
