"""Recipes for something that trains in a second, with their text beside them."""

import json
import random

WORDS = "the cat sat on a mat and saw one dog run far from its home by the sea"
SIZES = {"width": 16, "depth": 1, "heads": 2, "mlp_width": 24}
KINDS = {
    "causal_lm": ("gpt2", "bpe", 300),
    "masked_lm": ("bert-tiny", "wordpiece", 70),
    "masked_lm_nsp": ("bert-tiny", "wordpiece", 70),
    "translation": ("marian-base", "bpe", 300),
}
LABELLED = ("classification", "token_classification", "question_answering", "sentence_embedding")
TAGS = {"cat": "B-animal", "dog": "B-animal", "mat": "B-thing", "sea": "B-place", "home": "B-place"}


def sentences(count, seed=0):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS.split(), k=draw.randint(3, 9))) + "." for _ in range(count)]


def text(documents=50, seed=0):
    lines = sentences(4 * documents, seed)
    return "\n\n".join(" ".join(lines[i : i + 4]) for i in range(0, len(lines), 4))


def pairs(count=120, seed=0):
    return "".join(f"{line}\t{line.upper()}\n" for line in sentences(count, seed))


def labelled(kind, count=120, seed=0):
    """A name for a file, and labelled sentences: is there a cat; animals, things and places; who
    sat; the same sentence said twice."""
    lines = [line.removesuffix(".") for line in sentences(count, seed)]
    if kind == "classification":
        rows = [(line, "cat" if "cat" in line.split() else "none") for line in lines]
        return "text.tsv", _table("sentence", "label", rows)
    if kind == "sentence_embedding":
        return "text.tsv", _table("text1", "text2", [(line, f"{line} far") for line in lines])
    if kind == "token_classification":
        words = ([f"{word}\t{TAGS.get(word, 'O')}" for word in line.split()] for line in lines)
        return "text.conll", "".join("\n".join(each) + "\n\n" for each in words)
    asked = []
    for i, line in enumerate(lines):
        answer = {"text": line.split()[0], "answer_start": 0}
        asked.append({
            "context": line, "qas": [{"id": f"{i}", "question": "the dog", "answers": [answer]}],
        })  # fmt: skip
    return "text.json", json.dumps({"data": [{"paragraphs": asked}]})


def _table(one, other, rows):
    return f"{one}\t{other}\n" + "".join(f"{a}\t{b}\n" for a, b in rows)


def as_toml(value):
    """As JSON, but for tables: those have = where JSON has a colon."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {as_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value)


def write_recipe(folder, kind="causal_lm", **groups):
    """recipe.toml and its text in the folder; groups are replaced field by field."""
    folder.mkdir(parents=True, exist_ok=True)
    name, written = "text.txt", pairs() if kind == "translation" else text()
    if kind in LABELLED:
        name, written = labelled(kind)
    (folder / name).write_text(written)
    preset, tokenizer, size = KINDS.get(kind, ("bert-tiny", "wordpiece", 70))
    parts = {
        "data": {"train": name, "valid_fraction": 0.1},
        "tokenizer": {"kind": tokenizer, "vocab_size": size},
        "model": {"preset": preset, **SIZES},
        "objective": {"kind": kind, "length": 32},
        "train": {
            "steps": 6, "micro_batch_tokens": 96, "evaluate_every": 3, "save_every": 3,
            "device": "cpu", "warmup": 2,
        },
    }  # fmt: skip
    written = 'name = "tiny"\n'
    for name, fields in parts.items():
        whole = fields | groups.get(name, {})
        lines = [f"{key} = {as_toml(value)}\n" for key, value in whole.items()]
        written += f"\n[{name}]\n" + "".join(lines)
    (folder / "recipe.toml").write_text(written)
    return folder / "recipe.toml"
