"""The page's lines for Ray Serve, on a cluster of two nodes; a replica is killed under load."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ports import free_port
from serve.test_serve_docs import blocks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="no ray"),
]
# In a process of its own: Ray leaves threads and handlers behind.
CLUSTER = """
import collections, json, sys, threading, time
import httpx, ray
from ray import serve
from ray.cluster_utils import Cluster

port = int(sys.argv[1])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
cluster.add_node(num_cpus=2)
ray.init(address=cluster.address, log_to_driver=False)
serve.start(proxy_location="HeadOnly", http_options={"port": port})
exec(compile(sys.stdin.read(), "docs", "exec"))
url, ask = f"http://127.0.0.1:{port}", {"model": "gf-decoder", "prompt": "Once", "temperature": 0}
answers, texts, stop = collections.Counter(), set(), threading.Event()

def client():
    with httpx.Client(base_url=url, timeout=300) as http:
        while not stop.is_set():
            answer = http.post("/v1/completions", json=ask)
            answers[answer.status_code] += 1
            if answer.status_code == 200:
                texts.add(answer.json()["choices"][0]["text"])

def replicas():
    return {each["name"] for each in ray.util.list_named_actors(all_namespaces=True)
            if each["name"].startswith("SERVE_REPLICA")}

def wait(condition):
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, answers
        time.sleep(0.1)

threads = [threading.Thread(target=client) for _ in range(4)]
for thread in threads:
    thread.start()
wait(lambda: answers[200] >= 20)
before = replicas()
victim = min(before)
ray.kill(ray.get_actor(victim, namespace="serve"), no_restart=True)
killed_after = answers[200]
wait(lambda: answers[200] >= killed_after + 20)
wait(lambda: len(replicas() - {victim}) == 2)
stop.set()
for thread in threads:
    thread.join()
nodes = len([node for node in ray.nodes() if node["Alive"]])
print(json.dumps([len(before), nodes, dict(answers), sorted(texts)]))
sys.stdout.flush()
"""


def environment(folder: Path) -> dict[str, str]:
    """Ray writes the token of its cluster to the home folder, and asks the network for nothing."""
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
    (folder / "token").write_text("0123456789abcdef" * 2)
    own["RAY_raylet_start_wait_time_s"] = "300"  # on a machine with other work
    own |= {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **own}


def test_a_replica_is_killed_under_load(tmp_path: Path, models) -> None:
    (lines,) = [block for block in blocks("python") if "ray" in block]
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CLUSTER, str(free_port())], input=lines,
        capture_output=True, text=True, env=environment(tmp_path), timeout=900,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2_000:]
    replicas, nodes, answers, texts = json.loads(process.stdout.splitlines()[-1])
    assert (replicas, nodes) == (2, 2)
    expected = models["gf-decoder"].generate("Once", max_new_tokens=16)[0].text
    assert texts == [expected]
    # Only what the dead replica was working on fails: at most one request of each client.
    assert set(answers) <= {"200", "500"} and answers.get("500", 0) <= 4
