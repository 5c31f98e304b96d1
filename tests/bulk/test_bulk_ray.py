"""Ray: a cluster of two nodes on this machine, one of which is killed in the middle."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from bulkjobs import MODEL, finish, outputs, start, write_rows

from glassformer.bulk.ray_cluster import ENDED
from ports import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="no ray"),
]
# In a process of its own: Ray leaves threads and handlers behind. The second node is killed when
# some shards are finished; the job has to continue with the first.
CLUSTER = """
import pathlib, sys, threading, time
import ray
from ray.cluster_utils import Cluster
from glassformer.bulk import map_files

if __name__ == "__main__":
    source, output = map(pathlib.Path, sys.argv[1:3])
    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    node = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)

    def kill():
        while len([*output.glob("part-*")]) < 4:
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)
        shards = len([*output.glob("part-*")])
        print("killed with", shards, "shards", file=sys.__stdout__, flush=True)

    thread = threading.Thread(target=kill)
    thread.start()
    summary = map_files(
        "tokenize", source, output, model=sys.argv[3], columns=["text"], shard_rows=200,
        processes=2, ray=True, device="cpu",
    )
    thread.join()
    print(summary.shards, summary.computed, summary.rows, flush=True)
    ray.shutdown()  # first: a driver whose raylet ends before it is terminated with 1 by Ray
    cluster.shutdown()
"""


def environment(folder: Path) -> dict[str, str]:
    """Ray writes the token of its cluster to the home folder, and asks the network for nothing."""
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
    (folder / "token").write_text("0123456789abcdef" * 2)
    own["RAY_raylet_start_wait_time_s"] = "300"  # on a machine with other work
    own["RAY_agent_register_timeout_ms"] = "300000"
    return {**os.environ, **own, "RAY_USAGE_STATS_ENABLED": "0"}


def test_a_node_is_killed_in_the_middle(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.jsonl", 20_000)
    options = ("--column", "text", "--shard-rows", "200")
    finish(start("tokenize", source, tmp_path / "one", *options))
    command = [sys.executable, "-c", CLUSTER, str(source), str(tmp_path / "ray"), MODEL]
    process = subprocess.run(
        command, capture_output=True, text=True, env=environment(tmp_path), timeout=1_800
    )
    assert process.returncode == 0, process.stderr[-4_000:]
    lines = process.stdout.splitlines()  # some are Ray's
    (killed,) = (line for line in lines if line.startswith("killed with"))
    assert 4 <= int(killed.split()[2]) < 100, "it was killed too late"
    assert "100 100 20000" in lines
    assert outputs(tmp_path / "ray") == outputs(tmp_path / "one")


def test_the_command_starts_a_cluster_of_this_machine(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.jsonl", 2_000)
    options = ("--column", "text", "--shard-rows", "500")
    finish(start("tokenize", source, tmp_path / "one", *options))
    command = [sys.executable, "-m", "glassformer", "map", "tokenize", str(source)]
    command += [str(tmp_path / "ray"), "--model", MODEL, *options, "--ray", "--processes", "2"]
    process = subprocess.run(
        [*command, "--device", "cpu"], capture_output=True, text=True, env=environment(tmp_path)
    )
    assert process.returncode == 0, process.stderr[-4_000:]
    assert process.stdout == f"{tmp_path / 'ray'}: 2,000 rows in 4 shards\n"
    assert outputs(tmp_path / "ray") == outputs(tmp_path / "one")


def test_the_commands_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes of one core on this machine, without a dashboard, and a small job."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as in Ray's actors: the same last digits
    source = write_rows(tmp_path / "rows.jsonl", 2_000)
    options = ("--column", "text", "--shard-rows", "200", "--device", "cpu")
    finish(start("embed", source, tmp_path / "one", *options))
    page = (Path(__file__).parents[2] / "docs" / "howto" / "machines.md").read_text()
    block = page.partition("## A Ray cluster")[2].split("```")[1]
    head, other, job = (line.split() for line in block.splitlines()[1:])
    assert head[:2] == other[:2] == ["ray", "start"] and "--ray" in job
    port, ray = str(free_port()), Path(sys.executable).with_name("ray")
    head += ["--include-dashboard", "false"]
    words = {"SHARED/texts": source, "SHARED/vectors": tmp_path / "ray", "SHARED/model": MODEL}
    words |= {"6379": port, "HOST:6379": f"127.0.0.1:{port}", "16": "2", "ray": ray}
    words |= {"glassformer": Path(sys.executable).with_name("glassformer")}
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # a name of a socket has to be short
        own = {**environment(tmp_path), "RAY_TMPDIR": folder}
        nodes: list[subprocess.Popen[bytes]] = []
        try:
            for each in (head, other):
                command = [*(str(words.get(word, word)) for word in each), "--num-cpus", "1"]
                nodes.append(subprocess.Popen([*command, "--block"], env=own))
                wait_for_nodes(len(nodes), f"127.0.0.1:{port}", own)
            command = [*(str(words.get(word, word)) for word in job), *options]
            done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
        finally:
            for node in reversed(nodes):
                node.terminate()
            for node in nodes:
                node.wait()
    assert done.returncode == 0, done.stderr[-4_000:]
    assert outputs(tmp_path / "ray") == outputs(tmp_path / "one")


def wait_for_nodes(count: int, address: str, own: dict[str, str]) -> None:
    """Until so many nodes have joined the cluster."""
    script = """
import sys, time, ray
while True:
    try:
        ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
        break
    except ConnectionError:
        time.sleep(1)
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):
    time.sleep(0.2)
"""
    command = [sys.executable, "-c", script, address, str(count)]
    subprocess.run(command, env=own, check=True, timeout=300)


def raylet_of(driver: int) -> int | None:
    """The process of the raylet that this driver has started."""
    command = ["ps", "-o", "pid=,comm=", "--ppid", str(driver)]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    children = [line.split() for line in listed.splitlines()]
    return next((int(pid) for pid, name, *_ in children if name == "raylet"), None)


def test_a_driver_whose_raylet_stops_says_so(tmp_path: Path) -> None:
    """And the same command resumes."""
    source, output = write_rows(tmp_path / "rows.jsonl", 20_000), tmp_path / "ray"
    options = ("--column", "text", "--shard-rows", "200")
    finish(start("tokenize", source, tmp_path / "one", *options))
    command = [sys.executable, "-m", "glassformer", "map", "tokenize", str(source), str(output)]
    command += ["--model", MODEL, *options, "--ray", "--device", "cpu"]
    own, pipe = environment(tmp_path), subprocess.PIPE
    with subprocess.Popen(command, env=own, stdout=pipe, stderr=pipe, text=True) as driver:
        while not [*output.glob("part-*")]:
            assert driver.poll() is None
            time.sleep(0.05)
        os.kill(raylet_of(driver.pid) or 0, signal.SIGKILL)
        results, error = driver.communicate(timeout=300)
    assert driver.returncode == 1 and not results
    assert [x for x in error.splitlines() if x.startswith("glassformer: ")] == [ENDED]
    assert len([*output.glob("part-*")]) < 100, "it was killed too late"
    assert subprocess.run([*command, "--processes", "1"], env=own, check=False).returncode == 0
    assert outputs(output) == outputs(tmp_path / "one")


def test_a_wrong_device_is_one_line(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.jsonl", 10)
    command = [sys.executable, "-m", "glassformer", "map", "embed", str(source)]
    command += [str(tmp_path / "ray"), "--model", MODEL, "--column", "text", "--ray"]
    process = subprocess.run(
        [*command, "--device", "gpu"], capture_output=True, text=True, env=environment(tmp_path)
    )
    assert process.returncode == 2, process.stderr[-4_000:]
    lines = [x for x in process.stderr.splitlines() if x.startswith("glassformer: ")]
    assert lines == ["glassformer: --device 'gpu': write auto, cpu, cuda or mps"]
    assert "Traceback" not in process.stderr
