"""Fine-tuning with recipes of recipes/, beside transformers with the same settings.

    python benchmarks/finetune.py --model MINILM --data DATA              one GPU, bf16, CUDA graphs
    python benchmarks/finetune.py --model MINILM --data DATA --only mrpc --seeds 3
    python benchmarks/finetune.py --model MINILM --data DATA --compiled   the peer compiled, too
    python benchmarks/finetune.py --model MINILM --data DATA --train.epochs 1.0
    python benchmarks/finetune.py --tiny                                  checks that it runs

The peer is a plain training loop: batches are built before the clock starts and grouped by length,
bf16 autocast, fused AdamW; eager, or some steps compiled. Both read the same texts equally often,
with the same number of texts per step, learning rates and dropout. Both are evaluated after their
last step, on data that was not used for any choice. The clock starts when everything is compiled
and each shape has been seen once: a new shape takes a tenth of a second on a GPU. You can set any
field of the recipes, for both.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch
import transformers

import tinytasks
from finetune_peer import CUDA, WARM, Done, Prepared, theirs, timed
from glassformer.cli.training import fields_of
from glassformer.data.run_paths import RunPaths
from glassformer.distributed import join
from glassformer.objectives import objective_of
from glassformer.objectives.labelled import LabelledEvaluator
from glassformer.recipe.schema import Recipe, read_recipe
from glassformer.train.build import Builder
from glassformer.train.loop import fit
from glassformer.train.setup import resume
from glassformer.train.trainer import Trainer

RECIPES = Path(__file__).resolve().parent.parent / "recipes"


@dataclass(frozen=True)
class Work:
    recipe: str
    test_data: str  # data that was not used for any choice
    metrics: tuple[str, ...]


WORKS = (
    Work("sst2", "sst2/dev.tsv", ("accuracy",)),
    Work("mrpc", "mrpc/msr_paraphrase_test.txt", ("f1", "accuracy")),
    Work("ewt-pos", "ud_english_ewt/en_ewt-ud-dev.conllu.xz", ("accuracy",)),
    Work("qa", "qa/policyqa_dev.json.xz", ("exact_match", "f1")),
)


# --------------------------------------------------------------------------------------- ours


def prepare(
    work: Work, args: argparse.Namespace, seed: int, folder: Path
) -> tuple[Trainer, Prepared]:
    recipe = read_recipe(RECIPES / f"{work.recipe}.toml", changes(args, seed))
    world, place = join(), RunPaths(args.data, folder, work.recipe)
    session = Builder(recipe, place).trainer(world)
    recipe = recipe.model_copy(update={"train": session.state.train})
    place = replace(place, labels=session.state.task.spec.labels)
    documents, measured = (
        objective_of(recipe).read(recipe, place, "train"),
        judge(work, recipe, place, args.tiny),
    )
    texts = len(session.rows.dataset.samples(0)) / len(session.rows.plan(0))
    return session, Prepared(recipe, world, list(documents), measured, max(1, round(texts)))


def ours(session: Trainer, prepared: Prepared) -> Done:
    resume(session, prepared.recipe.train, print)
    loop = fit(session.state, session.rows, prepared.world, session.losses)
    seconds, first = timed(loop, prepared.recipe.train.steps)
    task = session.state.inference_task()
    if prepared.recipe.train.precision == "bfloat16":
        task = task.bfloat16()
    return Done(prepared.measured.metrics(task), seconds, first)


def changes(args: argparse.Namespace, seed: int) -> dict[str, str]:
    fields = {"init_from": str(args.model), "train.seed": str(seed), "train.workers": "2"}
    if args.tiny:
        fields |= {"train.steps": "8", "train.micro_batch_tokens": "512", "train.precision":
                  "float32", "data.valid_fraction": "0.3"}  # fmt: skip
    return fields | args.fields


def judge(work: Work, recipe: Recipe, place: RunPaths, tiny: bool) -> LabelledEvaluator:
    """The evaluation data; a few rows of it with --tiny."""
    data = recipe.data.model_copy(update={"valid": work.test_data})
    builder = Builder(recipe.model_copy(update={"data": data}), place)
    prepared = cast("LabelledEvaluator", builder.evaluator())
    return replace(prepared, documents=prepared.documents[:40]) if tiny else prepared


# --------------------------------------------------------------------------------------- report


def report(name: str, runs: list[Done], metrics: tuple[str, ...]) -> float:
    line = f"  {name:24}"
    for metric in metrics if runs[0].metrics else ():
        values = [100 * run.metrics[metric] for run in runs]
        off = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        line += f"{metric} {statistics.mean(values):.2f}{off}  "
    seconds = statistics.mean(run.seconds for run in runs)
    first = ", ".join(f"{run.first:.1f}" for run in runs)
    print(f"{line}{seconds:.2f} s  (first {WARM} steps: {first} s)", flush=True)
    return seconds


def compare(work: Work, args: argparse.Namespace) -> None:
    mine: list[Done] = []
    peers: dict[str, list[Done]] = {"transformers": []}
    if args.compiled:
        peers["transformers, compiled"] = []
    for seed in range(args.seeds):
        with tempfile.TemporaryDirectory() as folder:
            session, prepared = prepare(work, args, seed, Path(folder))
            mine.append(ours(session, prepared))
            print(f"  seed {seed}: {mine[-1]}", file=sys.stderr, flush=True)
        for name, runs in peers.items():
            if name == "transformers" or seed == 0:
                runs.append(theirs(prepared, seed, args.model, name != "transformers"))
                print(f"  seed {seed}: {name} {runs[-1]}", file=sys.stderr, flush=True)
        torch._dynamo.reset()
    train = prepared.recipe.train
    print(
        f"{work.recipe}: {train.steps} steps of {prepared.batch} texts, rate {train.learning_rate}"
    )
    seconds = report("glassformer", mine, work.metrics)
    best = min(report(name, runs, work.metrics) for name, runs in peers.items() if runs)
    print(f"  {best / seconds:.2f} times as fast", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="*", default=[work.recipe for work in WORKS])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    args, words = parser.parse_known_args()
    args.fields = fields_of(words)
    if not args.tiny and (args.model is None or args.data is None):
        parser.error("write --model and --data, or --tiny")
    transformers.utils.logging.set_verbosity_error()
    where = torch.cuda.get_device_name() if CUDA else "CPU"
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {where}")
    with tempfile.TemporaryDirectory() as folder:
        if args.tiny:
            args.model, args.data = tinytasks.write(Path(folder))
        for work in WORKS:
            if work.recipe in args.only:
                compare(work, args)


if __name__ == "__main__":
    main()
