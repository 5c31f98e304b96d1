"""Processes and hosts that die: nothing is lost but the steps since the last checkpoint."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import damaged, live, metrics, steps, write_recipe
from ranks import notice_soon, start
from test_sharding import check_ends, check_losses

from ports import free_port

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "howto" / "machines.md").read_text()
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
EVERY, SLOWEST = 2, 300.0  # steps between saves; seconds until all processes have noticed


class Agent:
    """Starts processes, kills one at a random moment, and ends the others, as torchrun does."""

    def __init__(self, recipe: Path, out: Path, seed: int) -> None:
        self.recipe, self.out, self.draw = recipe, out, random.Random(seed)
        self.moved = 0  # how often a step was done before the kill
        self.longest = 0.0  # seconds from a kill until all processes had ended

    def kill_one(self, shard: str, count: int) -> None:
        saved = steps(self.out)[1]
        words = ("--distributed.shard", shard)
        lives = start(count, self.recipe, self.out, *words, everywhere=notice_soon)
        heard = [lives[0].hear() for _ in range(self.draw.randint(0, 3))]
        self.moved += any(heard)
        time.sleep(self.draw.uniform(0, 0.4))
        lives[self.draw.randrange(count)].kill()
        if not heard:  # still starting: torchrun would end the others
            for life in lives:
                life.kill()
        since = time.monotonic()
        ends = [life.end() for life in lives]
        self.longest = max(self.longest, time.monotonic() - since)
        assert self.longest < SLOWEST, "they hung"
        assert all("Traceback" not in end.said for end in ends), ends
        assert damaged(self.out) == []
        now = steps(self.out)
        assert now[1] >= saved, "a checkpoint was lost"
        assert now[0] - now[1] <= EVERY, "more than one interval is lost"


def check_kills(tmp_path: Path, kills: int, seed: int) -> None:
    """A run whose processes are killed again and again comes to the same end."""
    recipe = write_recipe(
        tmp_path, micro_batches=6, steps=4 * kills + 4, save_every=EVERY, evaluate_every=1000
    )
    assert live("pretrain", recipe, "--out", tmp_path / "one").status == 0
    agent = Agent(recipe, tmp_path / "killed", seed)
    for number in range(kills):
        agent.kill_one(("full", "none")[number % 2], agent.draw.choice((2, 3)))
    print(f"{kills} kills: all had ended after at most {agent.longest:.1f} s")
    assert agent.moved >= kills / 3, "they were killed before they did anything"
    check_ends([life.end() for life in start(2, recipe, tmp_path / "killed")])
    check_losses(tmp_path / "killed", tmp_path / "one", within=1e-4)
    assert not [*(tmp_path / "killed").rglob(".*.tmp*")]


def test_kills_of_any_process_cost_one_interval(tmp_path: Path) -> None:
    check_kills(tmp_path, 1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_a_hundred_kills_of_any_process(seed: int, tmp_path: Path) -> None:
    check_kills(tmp_path, 10, seed)


# ------------------------------------------------------------------------- the page of commands


def commands() -> list[list[str]]:
    return [line.split()[1:] for line in PAGE.splitlines() if line.startswith("torchrun ")]


def smallest(words: list[str], recipe: Path, out: Path, port: int) -> list[str]:
    """The command on one machine without GPUs."""
    text = " ".join(words).replace("RECIPE", str(recipe)).replace("HOST:29500", f"127.0.0.1:{port}")
    text = re.sub(r"--nproc-per-node 8", "--nproc-per-node 1", text)
    text = re.sub(r"--train.micro_batches \d+", "--train.micro_batches 2", text)
    text = re.sub(r" --out \S+", "", text)
    return [sys.executable, "-m", "torch.distributed.run", *text.split(), "--out", str(out)]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_the_commands_of_the_page(number: int, tmp_path: Path) -> None:
    words = commands()[number]
    assert len(commands()) == 4
    recipe = write_recipe(tmp_path, micro_batches=2, steps=4)
    hosts = 1 if "--standalone" in words else 2
    command = smallest(words, recipe, tmp_path / "run", free_port())
    agents = [
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ONE_THREAD)
        for _ in range(hosts)
    ]
    for agent in agents:
        _, said = agent.communicate(timeout=300)
        assert agent.returncode == 0, said
    assert live("pretrain", recipe, "--out", tmp_path / "one").status == 0
    check_losses(tmp_path / "run", tmp_path / "one", within=1e-5)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language} title=.*?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_files_of_the_page_are_complete() -> None:
    (script,) = blocks("bash")
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    (manifest,) = blocks("yaml")
    service, job = yaml.safe_load_all(manifest)
    pod = job["spec"]["template"]["spec"]
    assert service["kind"] == "Service" and job["kind"] == "Job"
    assert service["spec"]["selector"]["job-name"] == job["metadata"]["name"]
    mounted = {each["name"] for each in pod["containers"][0]["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["volumes"]}
    words = pod["containers"][0]["command"]
    assert f"--nnodes={job['spec']['parallelism']}" in words and "pretrain" in words


# -------------------------------------------------------------------------------------- two hosts


def run(*words: object) -> None:
    subprocess.run([*map(str, words)], check=True, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[list[str]]:
    """Two network namespaces on one bridge, with addresses 10.77.0.1 and 10.77.0.2."""
    names = [f"gf{os.getpid()}{letter}" for letter in "ab"]
    if not shutil.which("ip") or os.geteuid() != 0:
        pytest.skip("network namespaces need root and iproute2")
    try:
        for name in names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "va", "netns", names[0], "type", "veth", "peer", "vb",
            "netns", names[1])  # fmt: skip
        for number, (name, link) in enumerate(zip(names, ("va", "vb"), strict=True), 1):
            inside = ("ip", "-n", name)
            run(*inside, "addr", "add", f"10.77.0.{number}/24", "dev", link)
            run(*inside, "link", "set", link, "up")
            run(*inside, "link", "set", "lo", "up")
    except subprocess.CalledProcessError as error:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        pytest.skip(f"network namespaces cannot be made: {error.stderr.decode().strip()}")
    yield names
    for name in names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


class Host:
    """torchrun on one of the hosts, its output in a file."""

    def __init__(self, name: str, number: int, recipe: Path, out: Path, *words: object) -> None:
        self.name, self.log = name, out.parent / f"host-{number}.log"
        link = ("va", "vb")[number]
        environment = {**ONE_THREAD, "GLOO_SOCKET_IFNAME": link}
        command = [
            "ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run", "--nnodes",
            "1:2", "--nproc-per-node", "1", "--max-restarts", "20", "--rdzv-backend", "c10d",
            "--rdzv-endpoint", "10.77.0.1:29500", "--local-addr", f"10.77.0.{number + 1}",
            "--rdzv-conf", f"last_call_timeout=5,is_host={1 - number}", "-m", "glassformer",
            "pretrain", recipe, "--out", out, *words,
        ]  # fmt: skip
        with self.log.open("a") as file:
            words = [*map(str, command)]
            self.process = subprocess.Popen(words, stdout=file, stderr=file, env=environment)

    def kill(self) -> None:
        """All processes of the host."""
        listed = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, check=True)
        for pid in listed.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        self.process.wait()


def wait_for(condition: Any, seconds: float, host: Host) -> float:
    since = time.monotonic()
    while not condition():
        assert time.monotonic() - since < seconds, host.log.read_text()[-4000:]
        assert host.process.poll() is None or condition(), host.log.read_text()[-4000:]
        time.sleep(0.5)
    return time.monotonic() - since


def logged(out: Path) -> int:
    return max((each["step"] for each in metrics(out)), default=0) if out.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("what", ["link", "host"])
def test_two_hosts(what: str, hosts: list[str], tmp_path: Path) -> None:
    """The second host's link is cut and restored, or the host is killed: the run goes on."""
    recipe = write_recipe(
        tmp_path, micro_batches=2, steps=4000, save_every=20, evaluate_every=10_000,
        schedule="constant",
    )  # fmt: skip
    out = tmp_path / "run"
    first, second = (Host(name, i, recipe, out) for i, name in enumerate(hosts))
    try:
        wait_for(lambda: (out / "metrics.jsonl").exists() and logged(out) > 30, 120, first)
        if what == "host":
            second.kill()
        else:
            run("ip", "-n", hosts[1], "link", "set", "vb", "down")
        time.sleep(1)
        before = steps(out)[1]
        text = first.log.read_text()
        seconds = wait_for(
            lambda: "resuming after step" in first.log.read_text()[len(text) :], 180, first
        )
        print(f"{what}: resumed after {seconds:.0f} s")
        resumed = int(re.findall(r"resuming after step ([\d,]+)",
                                 first.log.read_text())[-1].replace(",", ""))  # fmt: skip
        assert resumed >= before
        if what == "link":
            run("ip", "-n", hosts[1], "link", "set", "vb", "up")
        wait_for(lambda: logged(out) > resumed + 30, 180, first)
        assert damaged(out) == []
    finally:
        for host in (first, second):
            host.kill()
