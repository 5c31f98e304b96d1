"""The recipes of the shipped models at a hundredth of their size, on text that is made here."""

from __future__ import annotations

import lzma
import random
from pathlib import Path

from glassformer.data.run_paths import RunPaths
from glassformer.distributed import join
from glassformer.recipe.schema import read_recipe
from glassformer.train.build import Builder
from glassformer.train.trainer import Trainer

RECIPES = Path(__file__).parent.parent / "recipes"
# English and Russian by place: who, did what, to what.
WHO = [("The cat", "Кот"), ("A boy", "Мальчик"), ("The girl", "Девочка"), ("A dog", "Собака"),
       ("The old man", "Старик"), ("My brother", "Мой брат")]  # fmt: skip
DOES = [("sees", "видит"), ("loves", "любит"), ("finds", "находит"), ("takes", "берёт")]
WHAT = [("the house", "дом"), ("a book", "книгу"), ("the river", "реку"), ("a table", "стол"),
        ("the mat", "коврик")]  # fmt: skip
SMALLER = {
    "gf-encoder": {"objective.length": "48", "tokenizer.vocab_size": "160"},
    "gf-decoder": {"objective.length": "64", "tokenizer.vocab_size": "300"},
    "gf-en-ru": {
        "tokenizer.vocab_size": "300",
        "model.decoder_depth": "1",
        "train.bleu_sentences": "4",
    },
}
SMALL = {
    "model.width": "32", "model.depth": "2", "model.heads": "2", "model.mlp_width": "64",
    "train.steps": "20", "train.warmup": "4", "train.micro_batch_tokens": "256",
    "train.evaluate_every": "20", "train.save_every": "20", "train.precision": "float32",
    "train.compile": "false", "train.workers": "0", "train.device": "cpu",
}  # fmt: skip


def sentence(chance: random.Random) -> tuple[str, str]:
    parts = [chance.choice(part) for part in (WHO, DOES, WHAT)]
    english, russian = (" ".join(part[side] for part in parts) + "." for side in (0, 1))
    return english, russian


def write_data(root: Path) -> None:
    """Where the recipes look for it, packed as they expect it."""
    chance = random.Random(0)
    pairs = [sentence(chance) for _ in range(400)]

    def novel(number: int) -> str:
        lines = [" ".join(sentence(chance)[0] for _ in range(4)) for _ in range(6)]
        return "\n".join([f"# Novel {number}", *lines])

    write(root / "english_novels/novels.txt.xz", "\n\n".join(map(novel, range(40))))
    write(root / "tatoeba_mono/tatoeba.en.txt.xz", "\n".join(sorted({a for a, _ in pairs})))
    write(root / "wordnet_glosses/glosses.tsv.xz", "noun\triver\ta stream of water\n" * 2)
    for stem, part in (("train", pairs[:280]), ("back", pairs[280:380]), ("valid", pairs[380:])):
        for side, language in enumerate(("en", "ru")):
            text = "".join(f"{pair[side]}\n" for pair in part)
            write(root / f"gf_en_ru/{stem}.{language}.xz", text)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(text.encode()))


def changes(name: str) -> dict[str, str]:
    return SMALL | SMALLER[name]


def small_session(name: str, root: Path, out: Path) -> Trainer:
    recipe = read_recipe(RECIPES / f"{name}.toml", changes(name))
    return Builder(recipe, RunPaths(root, out, name)).trainer(join("cpu"))
