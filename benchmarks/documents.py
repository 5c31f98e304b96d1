"""Long reviews by attention over words and sentences: 10 folds by file name, and what it points at.

    python benchmarks/documents.py --data DATA --vectors VECTORS     recipes/reviews-*.toml
    python benchmarks/documents.py --tiny                            does it run at all?

The recipes say nothing that was chosen on these reviews, and of each fold the last step counts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import glassformer as gf
from glassformer.data.examples import FOLDERS, examples
from glassformer.errors import GlassformerError
from glassformer.train.build import Place, build_session
from glassformer.train.distributed import join
from glassformer.train.recipe import Recipe, read_recipe
from glassformer.train.setup import finish, ready

RECIPES = Path(__file__).parent.parent / "recipes"
NAMES = ("reviews-words", "reviews-hierarchy")
WHY, SHOWN = 8, 100  # words; letters of a sentence


def learnt(recipe: Recipe, root: Path, out: Path) -> tuple[gf.Model, float]:
    """The model of a recipe, and how many of the held-out documents it tells right."""
    world = join("cpu")
    session = build_session(recipe, Place(root, out, recipe.name), world)
    recipe = recipe.model_copy(update={"train": session.state.train})
    ready(session, recipe, lambda line: None)
    for _ in session.pursue():
        pass
    result = finish(session, recipe)
    return gf.load(result["model"]), float(result["valid"]["accuracy"])


def pointed_at(model: gf.Model, recipe: Recipe, root: Path, count: int) -> None:
    """The first held-out documents of each label: what the model says, and why."""
    low, high = recipe.data.held
    held = [
        each
        for each in examples(root / recipe.data.train, FOLDERS)
        if each.place is not None and low <= each.place < high
    ]
    for label in model.task.spec.labels:
        for each in [each for each in held if each.label == label][:count]:
            (said,) = model.classify(each.texts[0], why=WHY)
            print(f"\n{Path(each.where).name}: {label}; it says {said.label} ({said.score:.2f})")
            print("  words: " + ", ".join(f"{word} {share:.2f}" for word, share in said.words))
            for sentence, share in said.sentences[:3]:
                print(f"  {share:.2f}  {sentence[:SHOWN]}")


def folds(
    path: Path, vectors: Path, root: Path, count: int, show: int, changes: Mapping[str, str]
) -> list[float]:
    begun, found = time.monotonic(), []
    for number in range(1, count + 1):
        wanted = {"start": str(vectors), "data.fold": f"{number}/{count}", **changes}
        recipe = read_recipe(path, wanted)
        with tempfile.TemporaryDirectory() as out:
            model, accuracy = learnt(recipe, root, Path(out))
        found.append(accuracy)
        print(f"{recipe.name}  fold {number}/{count}  {100 * accuracy:.1f} %", flush=True)
        if number == count:
            pointed_at(model, recipe, root, show)
    mean, spread = statistics.mean(found), statistics.pstdev(found)
    seconds = time.monotonic() - begun
    print(
        f"\n{path.stem}: {100 * mean:.1f} ± {100 * spread:.1f} % of {count} folds, {seconds:.0f} s"
    )
    return found


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
    return folder, folder / "tiny.txt", {"data.train": "reviews"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder that the recipes' data lies in")
    parser.add_argument("--vectors", type=Path, help="a GloVe or word2vec file, or a model")
    parser.add_argument("--recipe", action="append", choices=NAMES, help="only this one")
    parser.add_argument("--show", type=int, default=2, help="documents of each label to explain")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    if not given.tiny and (given.data is None or given.vectors is None):
        parser.error("write --data and --vectors, or --tiny")
    with tempfile.TemporaryDirectory() as scratch:
        root, vectors, changes = given.data, given.vectors, {}
        if given.tiny:
            root, vectors, changes = tiny(Path(scratch))
        for name in given.recipe or NAMES:
            count = 3 if given.tiny else 10
            try:
                folds(RECIPES / f"{name}.toml", vectors, root, count, given.show, changes)
            except GlassformerError as error:
                sys.exit(f"{parser.prog}: {error}")


if __name__ == "__main__":
    main()
