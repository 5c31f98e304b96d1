"""Fine-tuning on Python objects: a list, a DataFrame, a Dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from glassformer.checkpoint import find
from glassformer.data.run_paths import RunPaths
from glassformer.durable import write_whole
from glassformer.errors import ConfigError, shown
from glassformer.loaded import Model
from glassformer.objectives import OBJECTIVES
from glassformer.objectives.labelled import LabelledObjective
from glassformer.pretrained import named
from glassformer.recipe.paths import data_path, expanded, full_path
from glassformer.recipe.short_form import short_recipe
from glassformer.train.fit import Training, as_texts
from glassformer.train.run_dir import check_places, checkpoints

FinetuneTask = Literal[
    "classification", "token_classification", "question_answering", "sentence_embedding"
]
Examples = str | os.PathLike[str] | Iterable[Any] | Mapping[str, Any]


def finetune(
    model: str | os.PathLike[str] | Model,
    task: FinetuneTask,
    *,
    train: Examples,
    valid: Examples | None = None,
    out: str | os.PathLike[str] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Training:
    """Fine-tune a model: iterate over the steps, evaluations and checkpoints, or `run()` it.

    Args:
        model: a folder, a name, or a loaded model
        task: classification, token_classification, question_answering or sentence_embedding
        train: a file, or its address; or rows: a list of dicts or tuples, a dict of columns, a
            DataFrame, a Hugging Face Dataset
        valid: the same for validation; a tenth of `train` is held out, if not given
        out: the run's folder, runs/TASK if not given; the trained model is in its folder `model`
        changes: single fields of the recipe, as {"train.epochs": 3, "data.text": "review"}

    Rows are written into the run's folder, so that it is complete. An interrupted run is resumed
    by the same call.

    Examples:
        >>> rows = [("A warm and clever film.", "good"), ("A dull film.", "bad")]
        >>> training = gf.finetune("gf-encoder", "classification", train=rows, valid=rows)
        >>> training.run().classify("A clever film.")[0].label  # doctest: +SKIP
        'good'
    """
    objective = OBJECTIVES.get(task)
    if objective is None or not isinstance(objective, LabelledObjective):
        known = [name for name, each in OBJECTIVES.items() if each.short_form]
        raise ConfigError(f"finetune: task = {shown(task)}: write one of {', '.join(known)}")
    folder = Path("runs") / task if out is None else expanded(out)
    check_places(folder)
    data = _file(objective, train, "train", folder)
    held = None if valid is None else _file(objective, valid, "valid", folder)
    texts = {"name": task} | as_texts(changes)
    recipe = short_recipe(task, _initial(model, folder), data, texts, held)
    return Training(recipe, RunPaths(Path(data).parent, folder, f"finetune {task}"))


def _file(objective: LabelledObjective, value: Any, name: str, folder: Path) -> Path | str:
    """A file or an address as it is; rows as a file in the run's folder."""
    if isinstance(value, str | os.PathLike):
        return data_path(value)
    suffix, text = objective.as_file(value, name)
    path, content = full_path(folder) / "source" / f"{name}{suffix}", text.encode()
    if not path.is_file() or path.read_bytes() != content:
        _check_fresh(folder, f"{name} data")
        write_whole(path, content)
    return path


def _initial(model: Any, folder: Path) -> str:
    """The path or name of the model to start from; a loaded one is saved in the run's folder."""
    if isinstance(model, Model):
        path = full_path(folder) / "source" / "model"
        if not checkpoints(folder):
            model.save(path)
        return str(path)
    if not isinstance(model, str | os.PathLike):
        raise ConfigError(f"finetune({shown(model)}, …): give a folder, a name, or a loaded model")
    return os.fspath(model) if named(model).exists() else str(find(model))


def _check_fresh(folder: Path, what: str) -> None:
    if checkpoints(folder):
        raise ConfigError(
            f"{folder}: a run with other {what} is here: choose another out, or delete it"
        )
