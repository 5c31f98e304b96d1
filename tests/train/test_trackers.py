"""Every tracker gets the curves of metrics.jsonl; its library is imported only when asked for."""

from __future__ import annotations

import importlib.machinery
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, get_args

import pytest

import glassformer as gf
from folders import one_line
from glassformer.errors import GlassformerError
from glassformer.fields import TrackerName
from glassformer.train.trackers import EXTRAS, TRACKERS
from tiny import write_recipe


def install(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, module)


@dataclass
class Wandb:
    """What we use of wandb."""

    starts: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, float]] = field(default_factory=list)
    metrics: list[Any] = field(default_factory=list)
    finished: int = 0

    def init(self, **options: Any) -> Wandb:
        self.starts.append(options)
        return self

    def define_metric(self, name: str, step_metric: str) -> None:
        self.metrics.append((name, step_metric))

    def log(self, row: dict[str, float]) -> None:
        self.rows.append(row)

    def finish(self) -> None:
        self.finished += 1


@dataclass
class MlflowServer:
    """What we use of an MLflow client, with what it would keep on a server."""

    experiments: dict[str, SimpleNamespace] = field(default_factory=dict)
    runs: list[SimpleNamespace] = field(default_factory=list)
    metrics: list[tuple[str, float, int, int]] = field(default_factory=list)
    states: list[str] = field(default_factory=list)

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        return self.experiments.get(name)

    def create_experiment(self, name: str) -> str:
        self.experiments[name] = SimpleNamespace(experiment_id="e1")
        return "e1"

    def search_runs(self, ids: list[str], query: str, max_results: int) -> list[SimpleNamespace]:
        return [run for run in self.runs if query == f"tags.{run.tag[0]} = '{run.tag[1]}'"]

    def create_run(self, experiment: str, tags: dict[str, str], run_name: str) -> SimpleNamespace:
        (tag,) = tags.items()
        info = SimpleNamespace(run_id=f"r{len(self.runs)}")
        self.runs.append(SimpleNamespace(tag=tag, info=info, name=run_name, params={}))
        return self.runs[-1]

    def update_run(self, run: str, status: str) -> None:
        self.states.append(status)

    def log_batch(self, run: str, metrics: Any = (), params: Any = ()) -> None:
        assert run == "r0"
        self.metrics += metrics
        self.runs[0].params |= dict(params)

    def set_terminated(self, run: str) -> None:
        self.states.append("FINISHED")


def points(run: Path) -> dict[str, list[tuple[int, float]]]:
    """The curves of metrics.jsonl."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        if "loss" in event:
            curves.setdefault("train/loss", []).append((event["step"], event["loss"]))
        for name, value in event.get("valid", {}).items():
            curves.setdefault(f"valid/{name}", []).append((event["step"], value))
    return curves


def test_wandb_gets_all_curves_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, recipe, run = Wandb(), write_recipe(tmp_path), tmp_path / "run"
    install(monkeypatch, "wandb", init=server.init)
    for steps in (3, 6):
        list(gf.fit(recipe, out=run, changes={"train.steps": steps, "train.trackers": "wandb"}))
    first, second = server.starts
    assert first["id"] == second["id"] and second["resume"] == "allow" and first["name"] == "tiny"
    assert first["config"]["train.steps"] == "3" and first["config"]["name"] == "tiny"
    assert server.metrics == [("*", "step")] * 2 and server.finished == 2
    for name, expected in points(run).items():
        assert [(row["step"], row[name]) for row in server.rows if name in row] == expected


def test_mlflow_gets_all_curves_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, recipe, run = MlflowServer(), write_recipe(tmp_path), tmp_path / "run"
    entities = {"Metric": lambda *each: each, "Param": lambda *each: each}
    install(monkeypatch, "mlflow")
    install(monkeypatch, "mlflow.entities", **entities)
    install(monkeypatch, "mlflow.tracking", MlflowClient=lambda: server)
    for steps in (3, 6):
        list(gf.fit(recipe, out=run, changes={"train.steps": steps, "train.trackers": ["mlflow"]}))
    assert len(server.runs) == 1 and server.runs[0].params["objective.kind"] == "causal_lm"
    assert server.states == ["FINISHED", "RUNNING", "FINISHED"]
    for name, expected in points(run).items():
        found = [(step, value) for key, value, _, step in server.metrics if key == name]
        assert found == expected


def test_a_tracker_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**options: Any) -> None:
        raise RuntimeError("no API key\nconfigured")

    install(monkeypatch, "wandb", init=init)
    with pytest.raises(GlassformerError) as caught:
        list(gf.fit(write_recipe(tmp_path), out=tmp_path / "run",
                    changes={"train.trackers": "wandb"}))  # fmt: skip
    one_line(caught.value, "train.trackers", "wandb", "no API key configured")


def test_names_and_extras_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(get_args(TrackerName)) == set(TRACKERS) == set(EXTRAS)
    recipe, out = write_recipe(tmp_path), tmp_path / "run"
    with pytest.raises(GlassformerError) as caught:
        gf.fit(recipe, out=out, changes={"train.trackers": "wandbb"})
    one_line(caught.value, "train.trackers", "wandb")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, extra in EXTRAS.items():
        with pytest.raises(GlassformerError) as caught:
            next(gf.fit(recipe, out=out, changes={"train.trackers": name}))
        one_line(caught.value, name, f"glassformer[{extra}]")
    assert not out.exists()
