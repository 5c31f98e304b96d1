"""The numbers in docs/howto/first-lesson.md are those of the shipped models."""

import re
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.studio.samples import ServedModel

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "first-lesson.md"
KEYS = "The keys to the cabinet [MASK] on the table."


@pytest.fixture
def ask(open_studio):
    """Posts a run; its best words and their probabilities at the last place, and its id."""
    names = ("gf-encoder", "gf-decoder")
    client = open_studio([ServedModel(name, gf.load(name, dtype=torch.float32)) for name in names])

    def run(model, text, **more):
        answer = client.post("/api/runs", json={"model": model, "text": text, **more}).json()
        top = answer["predictions"]["at"][-1]["top"]
        return {each["text"]: f"{each['p']:.2f}" for each in top}, answer["run"], client

    return run


def test_the_quoted_numbers(ask):
    text = " ".join(PAGE.read_text("utf-8").split())

    def quoted(pattern):
        match = re.search(pattern, text)
        assert match, pattern
        return match.groups()

    blen, kins, p = quoted(
        r'the text "(.*?)" and the model\'s answer: "(\w+)", with probability ([\d.]+\d)'
    )
    assert ask("gf-decoder", blen)[0][kins] == p
    before, run, client = ask("gf-encoder", KEYS)
    layer, head, weight = quoted(r"chosen layer (\d), head (\d): .*? with ([\d.]+\d)")
    best = client.get(f"/api/runs/{run}/find", params={"what": "[MASK]>keys"}).json()
    assert (best["layer"], best["head"]) == (int(layer), int(head))
    assert f"{best['value']:.2f}" == weight
    trace = gf.record(gf.load("gf-encoder", dtype=torch.float32), KEYS)
    weights = trace[f"encoder.blocks.{layer}.attention.weights"][int(head)]
    row, column = (trace.tokens.index(word) for word in ("cabinet", "keys"))
    assert f"{weights[row, column]:.2f}" == quoted(r'It looks at "keys" with ([\d.]+\d)')[0]
    off, _, _ = ask("gf-encoder", KEYS, off=[["encoder", int(layer), int(head)]])
    are, was, rises = quoted(
        r'"are" falls from ([\d.]+) and leaves .*?, and "is" rises from ([\d.]+) to ([\d.]+\d)'
    )
    assert "are" not in off
    assert (before["are"], before["is"], off["is"]) == (are, was, rises)
    other, _, _ = ask("gf-encoder", KEYS.replace("keys", "key"))
    assert other["is"] == quoted(r'The answer is "is" now, with ([\d.]+\d)')[0]
