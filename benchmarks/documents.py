"""Classify long reviews by attention over words and sentences: 10 folds, and the top words.

    python benchmarks/documents.py --data DATA --vectors VECTORS     recipes/reviews-*.toml
    python benchmarks/documents.py --tiny                            checks that it runs

No setting in the recipes was chosen on these reviews, and the last step of each fold counts. The
folds are those of `glassformer compare --folds 10`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import glassformer as gf
from glassformer.cli import compare
from glassformer.data.readers.examples import FOLDERS, examples
from glassformer.errors import GlassformerError
from glassformer.recipe.schema import Recipe, read_recipe

RECIPES = Path(__file__).parent.parent / "recipes"
NAMES = ("reviews-words", "reviews-hierarchy")
WHY, SHOWN = 8, 100  # words; characters of a sentence


def pointed_at(model: gf.Model, recipe: Recipe, root: Path, count: int) -> None:
    """The first held-out documents of each label, with the prediction and the top words."""
    low, high = recipe.data.held
    held = [
        each
        for each in examples(root / recipe.data.train, FOLDERS)
        if each.place is not None and low <= each.place < high
    ]
    for label in model.task.spec.labels:
        for each in [each for each in held if each.label == label][:count]:
            (guess,) = model.classify(each.texts[0], explain=WHY)
            print(
                f"\n{Path(each.where).name}: {label}; predicted: {guess.label} ({guess.score:.2f})"
            )
            print("  words: " + ", ".join(f"{word} {share:.2f}" for word, share in guess.words))
            for sentence, share in guess.sentences[:3]:
                print(f"  {share:.2f}  {sentence[:SHOWN]}")


def folds(
    path: Path, vectors: Path, root: Path, count: int, show: int, changes: Mapping[str, str]
) -> None:
    fields = [f"--{name}={value}" for name, value in changes.items()]
    output = io.StringIO()
    with tempfile.TemporaryDirectory() as out:
        with contextlib.redirect_stdout(output):
            compare.run(
                [str(vectors), *fields], task=path, data=root, folds=count, out=Path(out),
                seeds=None, test=None, evaluate_only=False, figure=None, as_json=True,
            )  # fmt: skip
        (line,) = json.loads(output.getvalue())["models"]
        last = Path(line["runs"][-1]["folder"])
        pointed_at(gf.load(last / "model"), read_recipe(last), root, show)
    print(f"\n{path.stem}", *(f"{100 * run['metrics']['accuracy']:.1f}" for run in line["runs"]))
    mean, off = (100 * line[name]["accuracy"] for name in ("means", "deviations"))
    print(f"  {mean:.1f} ± {off:.1f} % of {count} folds, {line['seconds']:.0f} s each", flush=True)


def tiny(folder: Path) -> tuple[Path, Path, Mapping[str, str]]:
    """Six reviews of a few words, and vectors for them."""
    words = ("good", "bad", "film", "the", "was", ".")
    rows = (f"{word} {i / 6} {i % 2}" for i, word in enumerate(words))
    (folder / "tiny.txt").write_text("\n".join(rows) + "\n")
    for label, word in (("neg", "bad"), ("pos", "good")):
        (folder / "reviews" / label).mkdir(parents=True)
        for i in range(3):
            text = f"The film was {word}. The film.\n" * (i + 1)
            (folder / "reviews" / label / f"cv{i}.txt").write_text(text)
    return (
        folder,
        folder / "tiny.txt",
        {"data.train": str(folder / "reviews"), "train.device": "cpu"},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder that the recipes' data lies in")
    parser.add_argument("--vectors", type=Path, help="a GloVe or word2vec file, or a model")
    parser.add_argument("--recipe", action="append", choices=NAMES, help="only this one")
    parser.add_argument("--show", type=int, default=2, help="documents of each label to explain")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    if not args.tiny and (args.data is None or args.vectors is None):
        parser.error("write --data and --vectors, or --tiny")
    with tempfile.TemporaryDirectory() as scratch:
        root, vectors, changes = args.data, args.vectors, {"train.device": "cpu"}
        if args.tiny:
            root, vectors, changes = tiny(Path(scratch))
        for name in args.recipe or NAMES:
            count = 3 if args.tiny else 10
            try:
                folds(RECIPES / f"{name}.toml", vectors, root, count, args.show, changes)
            except GlassformerError as error:
                sys.exit(f"{parser.prog}: {error}")


if __name__ == "__main__":
    main()
