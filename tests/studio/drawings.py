"""A small model of each architecture, the toys, and what the studio says of a run."""

import functools

import torch

import folders
import glassformer as gf
from glassformer import build_task
from glassformer.studio.toys import toys
from sampling import mostly_slow

CLASSES = {kind: next(iter(each.heads)) for kind, each in folders.THEIRS.items()}
CLASSES |= {"gpt2": "GPT2LMHeadModel", "t5": "T5ForConditionalGeneration"}
CLASSES |= {"bert": "BertForMaskedLM"}
# Each family; with and without gates, biases, relative positions and norms of branches.
FEW = ("bert", "deberta-v2", "gpt2", "gemma2", "marian", "t5")
KINDS = mostly_slow({**dict.fromkeys(FEW), **CLASSES}, keep=len(FEW))
IDS = [5, 11, 3, 47, 2, 9, 30]


trained_toys = functools.cache(toys)  # training takes seconds


def small(kind, dtype=torch.float32):
    name = CLASSES[kind]
    task = build_task(folders.CONFIGS[name], folders.TASKS[name], dtype=dtype)
    return folders.heat(gf.Model(task).eval())


def read(client, path):
    answer = client.get(f"/api/runs/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()
