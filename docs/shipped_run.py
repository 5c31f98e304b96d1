"""Makes the run that ships with the package: src/glassformer/pretrained/gf-shakespeare.

    glassformer pretrain recipes/gf-shakespeare.toml --data notebooks/data
    python docs/shipped_run.py runs/gf-shakespeare

Of the finished run it keeps a few checkpoints in bfloat16, without the optimiser's state, and one
in five lines of its training loss.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import torch

import glassformer as gf

HOME = Path(__file__).parents[1] / "src" / "glassformer" / "pretrained" / "gf-shakespeare"
STEPS = (10, 50, 200, 1000)
EVERY = 5  # steps
CARD = """# gf-shakespeare

A training run, made to be looked into: the studio's page Training shows its loss, and its model
after {steps} steps.
The model has {parameters:,} parameters and reads characters; it has learnt to spell, not to write.

    glassformer pretrain recipes/gf-shakespeare.toml --data notebooks/data
    python docs/shipped_run.py runs/gf-shakespeare

Data and licence: *Romeo and Juliet* by William Shakespeare (`notebooks/data/shakespeare.txt`, a
part of tiny Shakespeare of karpathy/char-rnn): the text is in the public domain. The weights are
under the licence of this package.

After {last} steps: loss {loss:.2f} nats and accuracy {accuracy:.0%} on the last tenth of the play,
which it has not read.
"""


def keep(run: Path, home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    for step in STEPS:
        folder = f"checkpoints/step-{step:08d}"
        _half(run / folder, home / folder)
        shutil.copy(run / folder / "trainer.json", home / folder)
    model = _half(run / "model", home / "model")
    recipe = (run / "recipe.toml").read_text("utf-8")
    (home / "recipe.toml").write_text(re.sub(r"(?m)^root = .*\n", "", recipe), "utf-8")
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    kept = [
        {"step": each["step"], **({"valid": each["valid"]} if "valid" in each else _rounded(each))}
        for each in events
        if "valid" in each or ("loss" in each and each["step"] % EVERY in (0, 1))
    ]
    lines = "".join(json.dumps(each) + "\n" for each in kept)
    (home / "metrics.jsonl").write_text(lines, "utf-8")
    valid = [each["valid"] for each in kept if "valid" in each][-1]
    card = CARD.format(
        steps=", ".join(map(str, STEPS)), last=f"{STEPS[-1]:,}", loss=valid["loss"],
        accuracy=valid["accuracy"], parameters=sum(each.numel() for each in model.parameters()),
    )  # fmt: skip
    (home / "README.md").write_text(card, "utf-8")


def _half(folder: Path, to: Path) -> gf.Model:
    """The model in `folder` in bfloat16, written to `to` without a card."""
    model = gf.load(folder).to(torch.bfloat16)
    model.save(to)
    (to / "README.md").unlink(missing_ok=True)
    return model


def _rounded(event: dict[str, float]) -> dict[str, float]:
    return {"loss": round(event["loss"], 4)}


if __name__ == "__main__":
    keep(Path(sys.argv[1]), HOME)
