"""A small model of each architecture, the toys, and what the studio says of a run."""

import copy
import os
import pickle
from unittest import mock

import torch
from filelock import FileLock

import folders
import glassformer as gf
from glassformer import build_task
from glassformer.studio import toys as studio_toys
from glassformer.studio.samples import ServedModel
from sampling import mostly_slow

CLASSES = {kind: next(iter(each.heads)) for kind, each in folders.THEIRS.items()}
CLASSES |= {"gpt2": "GPT2LMHeadModel", "t5": "T5ForConditionalGeneration"}
CLASSES |= {"bert": "BertForMaskedLM"}
# Each family; with and without gates, biases and relative positions.
FEW = ("deberta-v2", "gemma2", "marian")
KINDS = mostly_slow({**dict.fromkeys(FEW), **CLASSES}, keep=len(FEW))
IDS = [5, 11, 3, 47, 2, 9, 30]


TOYS: list[ServedModel] = []  # trained: the fixture `served` fills it


def train_toys(temporary):
    """Training takes seconds: one process trains the toys, and all workers read them."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        temporary = temporary.parent
    file = temporary / "toys.pickle"
    with FileLock(temporary / "toys.lock"):
        if not file.exists():
            file.write_bytes(pickle.dumps(studio_toys.toys()))
    TOYS[:] = pickle.loads(file.read_bytes())


def execute(code):
    """The names that this code of a page defines. It gets the toys as they were trained before;
    in `test_the_python_does_the_same` it trains them itself."""
    names = {}
    trained = {each.name: each for each in TOYS}
    with mock.patch.object(studio_toys, "toy", lambda name: copy.deepcopy(trained[name])):
        exec(code, names)
    return names


def small(kind, dtype=torch.float32):
    name = CLASSES[kind]
    task = build_task(folders.CONFIGS[name], folders.TASKS[name], dtype=dtype)
    return folders.heat(gf.Model(task).eval())


def read(client, path):
    answer = client.get(f"/api/runs/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()
