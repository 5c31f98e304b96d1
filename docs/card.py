"""The card of a model that comes with the package, from what its training left behind.

    python docs/card.py gf-decoder FOLDER

FOLDER holds model/ (as exported); metrics.jsonl, recipe.toml and the log of the run; evaluate.json
(`glassformer evaluate --json`); of the decoder samples.json (`glassformer generate --json`) and
words.txt, the words of its training text; of the translator translations.tsv, with the English,
its own and the data's Russian in each line; of the encoder fills.tsv, with a sentence, its guesses
and the word that was hidden, and compare.csv (`glassformer compare`). Writes model/README.md and
model/curve.svg.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
LICENCES = {
    "english_novels": """195 English novels (100_english_novels of the Computational Stylistics
  Group, and ELTeC-eng of the COST Action CA16204): the texts are in the public domain; ELTeC's
  mark-up, which is not used, is CC BY 4.0""",
    "tatoeba_mono": "English sentences of Tatoeba (tatoeba.org), CC BY 2.0 FR",
    "wordnet_glosses": "glosses of WordNet 3.0 (Princeton University), WordNet 3.0 licence",
    "translation_en_ru": """English-Russian pairs of Tatoeba (tatoeba.org), CC BY 2.0 FR; four of
  five were joined by way of a third language""",
}
WHAT = {
    "gf-encoder": """BERT's network, small: it fills in hidden words, tells whether one text
follows another, and gives vectors of words and sentences. Made to be looked into, and to be
fine-tuned.""",
    "gf-decoder": """A small GPT in Llama's layout that goes on writing in the manner of English
novels of the 19th and early 20th century. Made to be looked into.""",
    "gf-en-ru": """A small translator from English to Russian for short everyday sentences. Made to
be looked into: which word looked at which.""",
}
LIMITS = {
    "gf-encoder": """It has read novels, most of them older than a century, single sentences and
definitions: it knows little of today's world, and says of people what those books said. Everything
is lowercase, and texts end after {length} tokens. Of the false pairs that it learnt from some were
easy (cut inside a sentence, or a lone sentence); those that it is measured by are not.""",
    "gf-decoder": """What it writes sounds like a novel and means little: persons and places change
from sentence to sentence, and nothing it says is a fact. It repeats the views of its books, those
on women, servants, races and empires too. It knows no instructions and no other language, and sees
{length} tokens.""",
    "gf-en-ru": """Long sentences, names, numbers, technical words and news come out wrong or are
left out. Politeness (ты, вы) and the speaker's gender are often guessed. Do not rely on it where it
matters.""",
}
NEWLINE = "\n"
LOOP = 8  # words in a row that come twice


def card(name: str, folder: Path) -> str:
    recipe = tomllib.loads((folder / "recipe.toml").read_text())
    measured = json.loads((folder / "evaluate.json").read_text())
    before = (folder / "model" / "README.md").read_text()
    data, length = recipe["data"], recipe["objective"]["length"]
    sources = [data["train"], *(each["train"] for each in data["more"])]
    licences = (f"- `{each}`: {LICENCES[each.split('/')[0]]}" for each in sources)
    held = f"{100 * data['held_out']:g} %"
    parts = [
        network(name, before),
        "The folder is in the Hugging Face layout: `transformers` opens it too.",
        f"## How it was trained\n\n{training(name, recipe, before, len(losses(folder)))}",
        "![Loss while training](curve.svg)",
        "## Data and licence\n\n" + "\n".join(licences),
        left_out(folder),
        "The weights are Apache-2.0, as the code.",
        f"## Figures\n\nOn the part that was held out: {held}, chosen by the hash of each document "
        f"(of pairs, of their first text).\n\n{figures(measured)}",
        compared(folder) if (folder / "compare.csv").exists() else "",
        f"## Limits\n\n{LIMITS[name].format(length=length)}",
        samples(folder) if (folder / "samples.json").exists() else "",
        translations(folder) if (folder / "translations.tsv").exists() else "",
        fills(folder) if (folder / "fills.tsv").exists() else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def network(name: str, before: str) -> str:
    """What the card of the run says about the network."""
    found = before.split("The folder is in the Hugging Face")[0].rstrip()
    found = re.sub(r"^# .*$", f"# {name}\n\n{WHAT[name]}", found, count=1, flags=re.M)
    found = found.replace("(float32)", "(bfloat16)")  # as it was exported
    return re.sub(r"gf\.load\(.*\)", f'gf.load("{name}")', found)


def training(name: str, recipe: dict[str, Any], before: str, done: int) -> str:
    found = re.search(r"([\d,]+) steps, ([\d,]+) tokens,\s+(\d+) s", before)
    assert found is not None, "README.md: no word about steps and tokens"  # noqa: S101
    steps, tokens, seconds = found.groups()
    train, learn = recipe["train"], recipe["objective"]
    planned = f"{train['steps']:,}"
    why = "then the time was up" if done < train["steps"] else "the best of them was kept"
    steps += "" if steps == planned else f" of {planned} ({why})"
    return f"""```text
glassformer pretrain recipes/{name}.toml
```

Steps: {steps}; tokens seen: {tokens}; {int(seconds) / 60:.1f} minutes on one H200 that trained
several models at a time, 2026-11-15.
Objective `{learn["kind"]}`, texts of up to {learn["length"]} tokens,
{train["optimiser"]} at {train["learning_rate"]:g}, {train["schedule"]}, {train["precision"]}."""


def left_out(folder: Path) -> str:
    """What the run said about copies and long texts."""
    logs = "\n".join(file.read_text() for file in sorted(folder.glob("prepare*.log")))
    logs = re.sub(r"(?<=\S) \n(?=\S)", " ", logs)  # lines that were too long for a terminal
    what = r"^(?:train|valid): .*(?:left out|in parts|a pair).*|^[\d,]+ pairs share.*"
    lines = re.findall(what, logs, re.M)
    return "\n".join(f"- {line}" for line in dict.fromkeys(lines))


def figures(measured: dict[str, Any]) -> str:
    signatures = measured.get("signatures", {})
    rows = ["| | |", "|---|---|"]
    for key, value in measured.items():
        if isinstance(value, int | float):
            signed = f" (`{signatures[key]}`)".replace("|", r"\|") if key in signatures else ""
            told = f"{value:,.0f}" if value == int(value) else f"{value:.4g}"
            rows.append(f"| {key.replace('_', ' ')}{signed} | {told} |")
    return "\n".join(rows)


def samples(folder: Path) -> str:
    texts = json.loads((folder / "samples.json").read_text())["texts"]
    words = set((folder / "words.txt").read_text().split())
    said = [each["text"] for each in texts]
    counts = {
        f"a run of {LOOP} words twice": sum(map(loops, said)),
        "a quotation left open at the end of a paragraph": sum(map(open_quotes, said)),
        "a word that is not in the training text (names not counted)": sum(
            cut_words(text, words) for text in said
        ),
    }
    rows = "\n".join(f"| {what} | {count / len(said):.1%} |" for what, count in counts.items())
    every = len(texts) // 6
    shown = "\n\n".join(f"> **{each['prompt']}**{quoted(each['text'])}" for each in texts[::every])
    return f"""## Samples

{len(said)} texts of at most 150 tokens, 10 of each of 20 beginnings, temperature 0.8, top-p 0.95,
seed 1. How many of them had

| | |
|---|---|
{rows}

Some of them, {every} apart, as they came:

{shown}"""


def translations(folder: Path) -> str:
    rows = table(folder / "translations.tsv", "English", "this model", "in the data")
    return f"""## Samples

The first {len(rows) - 2} of the held-out sentences, as they came:

{NEWLINE.join(rows)}"""


def fills(folder: Path) -> str:
    rows = table(folder / "fills.tsv", "sentence", "this model", "what was hidden")
    return f"""## Samples

{len(rows) - 2} of the held-out single sentences, equally far apart, the word in the middle hidden:

{NEWLINE.join(rows)}"""


def table(file: Path, *head: str) -> list[str]:
    lines = [head, ["---"] * len(head), *(row.split("\t") for row in file.read_text().splitlines())]
    return [f"| {' | '.join(line)} |" for line in lines]


def compared(folder: Path) -> str:
    """The table of `compare`: the model, and the same network with fresh weights."""
    with (folder / "compare.csv").open() as file:
        found = list(csv.DictReader(file))
    rows = "\n".join(
        f"| {row['model']} | {float(row['accuracy']):.1%} ± {float(row['accuracy_deviation']):.1%} "
        f"| {row['runs']} |"
        for row in found
    )
    return f"""## Fine-tuned

Film reviews, SST-2's development set; beside it the same network with fresh weights:

```text
glassformer compare --task recipes/sst2.toml --test sst2/dev.tsv gf-encoder gf-encoder:random
```

| model | accuracy | runs |
|---|---|---|
{rows}"""


def quoted(text: str) -> str:
    return text.strip("\n").replace("\n", "\n>\n> ")


def loops(text: str) -> bool:
    words = [word.lower() for word in WORD.findall(text)]
    runs = [tuple(words[i : i + LOOP]) for i in range(len(words) - LOOP + 1)]
    return len(set(runs)) < len(runs)


def open_quotes(text: str) -> bool:
    """In paragraphs that came to their end."""
    whole = text.split("\n")[1:-1]
    return any(line.count('"') % 2 or line.count("“") != line.count("”") for line in whole)


def cut_words(text: str, known: set[str]) -> bool:
    """The first and the last may be cut by the prompt and the limit."""
    return any(word.islower() and word not in known for word in WORD.findall(text)[1:-1])


def told(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def losses(folder: Path) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in told(folder) if "norm" in row]


def curve(folder: Path, wide: int = 560, high: int = 200) -> str:
    """Losses of training (the mean of a hundredth each) and of evaluation, as a picture."""
    rows, train = told(folder), losses(folder)
    valid = [(row["step"], row["valid"]["loss"]) for row in rows if "valid" in row]
    size = max(1, len(train) // 100)
    mean = [
        (part[-1][0], sum(loss for _, loss in part) / len(part))
        for part in (train[i : i + size] for i in range(0, len(train), size))
    ]
    last = train[-1][0]
    low, top = min(y for _, y in mean + valid), max(y for _, y in mean[1:] + valid)

    def at(points: Sequence[tuple[int, float]]) -> list[tuple[str, str]]:
        across, up = (wide - 50) / last, (high - 40) / (top - low)
        return [
            (f"{40 + across * x:.1f}", f"{10 + up * (top - min(y, top)):.1f}") for x, y in points
        ]

    line = " ".join(",".join(each) for each in at(mean))
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="3" fill="#c2410c"/>' for x, y in at(valid))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}"
  font-family="sans-serif" font-size="11">
<rect width="{wide}" height="{high}" fill="#fff"/>
<polyline points="{line}" fill="none" stroke="#1d4ed8" stroke-width="1.5"/>{dots}
<text x="4" y="16">{top:.2f}</text><text x="4" y="{high - 30}">{low:.2f}</text>
<text x="40" y="{high - 10}" fill="#1d4ed8">loss while training</text>
<text x="150" y="{high - 10}" fill="#c2410c">held out</text>
<text x="{wide - 10}" y="{high - 10}" text-anchor="end">{last:,} steps</text>
</svg>
"""


def slim(model: Path) -> None:
    """The tokenizer on one line, and how much the model reads, for transformers."""
    whole, settings = model / "tokenizer.json", model / "tokenizer_config.json"
    whole.write_text(json.dumps(json.loads(whole.read_text()), ensure_ascii=False))
    length = json.loads((model / "config.json").read_text())["max_position_embeddings"]
    told = json.loads(settings.read_text()) | {"model_max_length": length}
    settings.write_text(json.dumps(told, indent=2) + "\n")


def main(name: str, folder: Path) -> None:
    text = card(name, folder)
    slim(folder / "model")
    (folder / "model" / "curve.svg").write_text(curve(folder))
    (folder / "model" / "README.md").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
