"""What was there before is left out; what only looks like it stays."""

from __future__ import annotations

import json
import random
from pathlib import Path

from commands import glassformer, refused
from glassformer.data.deduplicate import Deduplicator
from glassformer.data.split import is_held

WORDS = [f"{first}{second}" for first in "bdfgklmn" for second in ("a", "ek", "il", "om", "us")]

RECIPE = """
name = "several"
[data]
train = "stories.txt"
valid_fraction = 0.3
deduplicate = true
[[data.more]]
train = "single.tsv"
document = "line"
[tokenizer]
kind = "chars"
[model]
preset = "gpt2"
width = 16
depth = 1
heads = 2
mlp_width = 16
[objective]
kind = "causal_lm"
length = 64
[train]
steps = 4
micro_batch_tokens = 256
"""


def story(seed: int, lines: int = 30, words: int = 40) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=words)).capitalize() + "." for _ in range(lines)]


def fresh(*texts: str, held: tuple[str, ...] = ()) -> tuple[list[str], Deduplicator]:
    copies = Deduplicator()
    for text in held:
        copies.remember(text)
    return list(copies.fresh(texts)), copies


def test_another_edition_is_a_copy() -> None:
    first, other = story(1), story(2)
    wrapped = "\n".join(f"“{line[:80]}\n{line[80:].upper()}”" for line in first)
    found, copies = fresh("\n".join(first), "\n".join(other), wrapped)
    assert found == ["\n".join(first), "\n".join(other)]
    assert (copies.documents, copies.lines, copies.characters) == (1, 0, len(wrapped))


def test_lines_that_come_twice_are_left_out_once() -> None:
    first, other = story(1), story(2)
    short = "Yes, said she."
    mixed = [*other[:9], first[4], short, *other[9:], first[20]]
    found, copies = fresh("\n".join([*first, short]), "\n".join(mixed))
    assert found[1] == "\n".join([*other[:9], short, *other[9:]])  # a few words repeat by chance
    assert (copies.documents, copies.lines) == (0, 2)


def test_short_texts_are_compared_whole() -> None:
    found, copies = fresh("I am here.", "i am HERE", "I was here.", "I am here too.")
    assert found == ["I am here.", "I was here.", "I am here too."] and copies.documents == 1


def test_what_is_held_out_is_not_trained_on() -> None:
    first, other = story(1), story(2)
    found, copies = fresh("\n".join(first), "\n".join(other), held=("\n".join(first),))
    assert found == ["\n".join(other)] and copies.documents == 1


def test_a_run_reads_several_files_each_in_its_own_way(tmp_path: Path) -> None:
    """Stories, of which one comes twice, and sentences, one a line; what is held out of both is
    neither trained on nor there in another edition."""
    stories = ["\n".join(story(i)) for i in range(40)]
    editions = [text.replace(".", "!") for text in stories]
    single = [" ".join(story(100 + i, 1, 5)) for i in range(200)]
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    (tmp_path / "stories.txt").write_text("\n\n".join([*stories, *editions]))
    (tmp_path / "single.tsv").write_text("\n".join([*single, single[0]]))
    said = glassformer(
        "pretrain", recipe, "--data", tmp_path, "--out", tmp_path / "run", "--dry-run", "--json"
    )
    held = {text.replace("!", ".") for text in [*stories, *editions] if is_held(text, 0.3)}
    lines = {text for text in single if is_held(text, 0.3)}
    facts = json.loads(said)["data"]
    assert facts["valid"]["documents"] == len(held) + len(lines)
    assert facts["train"]["documents"] == len(stories) - len(held) + len(single) - len(lines)
    again = sum(is_held(text, 0.3) == is_held(text.replace(".", "!"), 0.3) for text in held)
    assert f"valid: {again + is_held(single[0], 0.3):,} copies of documents" in said.errors


def test_ids_stand_alone(tmp_path: Path) -> None:
    """What is prepared can neither be looked through for copies nor read behind something, nor
    has it columns."""
    (tmp_path / "ids").mkdir()
    (tmp_path / "ids" / "store.json").write_text("{}")
    (tmp_path / "single.txt").write_text("One.\n")
    glassformer("tokenizer", "train", tmp_path / "single.txt", "--kind", "bytes", "--out",
                tmp_path / "bytes")  # fmt: skip
    own = RECIPE.replace("stories.txt", "ids").replace('kind = "chars"', 'path = "bytes"')
    (tmp_path / "recipe.toml").write_text(own)
    words = ("pretrain", tmp_path / "recipe.toml", "--out", tmp_path / "run")
    line = refused(*words, code=2)
    assert "leave data.more, data.deduplicate and data.text out, or name its text" in line
    column = ("--data.more", "[]", "--data.deduplicate", "false", "--data.text", "text")
    assert refused(*words, *column, code=2) == line
