"""Write the card of a model that ships with the package, from the files of its run.

    python docs/card.py gf-decoder FOLDER

FOLDER holds model/ (as exported); metrics.jsonl, recipe.toml and the log of the run; run.toml, with
its date, its hardware, a note if something happened to it, and held_out, the fraction of the data,
if the recipe names a validation set; evaluate.json (`glassformer evaluate --json`); for the decoder
samples.json (`glassformer generate --json`) and words.txt, the words of its training text; for the
translation model translations.tsv, with the English, the model's Russian and the data's Russian on
each line; for the encoder fills.tsv, with a sentence, the predictions and the masked word, and
compare.csv (`glassformer compare`). What docs/next_sentence.py prints is added to the encoder's
card by hand. Writes model/README.md and model/curve.svg.
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
    "gf_en_ru": """pairs and Russian sentences of Tatoeba (tatoeba.org), CC BY 2.0 FR; four of five
  pairs were joined through a third language. The English side of `back` was written by a model from
  Russian to English. 92 pairs of `train` are our own, about
  cats, mats and other things at home as in the lecture's example, each repeated 30 times with and
  30 times without full stops: recipes/household_en_ru.tsv""",
}
WHAT = {
    "gf-encoder": """A small BERT: it predicts masked words and whether one text follows
another, and computes vectors of words and sentences. It is made to be looked into, and to be
fine-tuned.""",
    "gf-decoder": """A small GPT in Llama's layout that continues a text in the style of English
novels of the 19th and early 20th century. It is made to be looked into.""",
    "gf-en-ru": """A small translator from English to Russian for short everyday sentences. It
is made to be looked into: which word attends to which.""",
}
LIMITS = {
    "gf-encoder": """It was trained on novels, most of them more than a century old, single
sentences and definitions: it knows little about today's world, and repeats the prejudices of those
books. All text is lowercased, and texts have at most {length} tokens. Of everyday
pairs, half of them true, it judges one in seven wrongly.""",
    "gf-decoder": """Its texts sound like a novel and mean little: people and places change
from sentence to sentence, and nothing in them is a fact. It repeats the views of its books, also
those on women, servants, races and empires. It does not follow instructions, knows no other
language, and reads at most {length} tokens.""",
    "gf-en-ru": """Long sentences, names, numbers, technical words and news are often wrong or
missing. Politeness (ты, вы) and the speaker's gender are often guesses. Do not rely on it where it
matters.""",
}
NEWLINE = "\n"
LOOP = 8  # words in a row


def card(name: str, folder: Path) -> str:
    recipe = tomllib.loads((folder / "recipe.toml").read_text())
    run = tomllib.loads((folder / "run.toml").read_text())
    measured = json.loads((folder / "evaluate.json").read_text())
    before = (folder / "model" / "README.md").read_text()
    data, length = recipe["data"], recipe["objective"]["length"]
    sources = [data["train"], *(each["train"] for each in data["more"])]
    folders = dict.fromkeys(each.split("/")[0] for each in sources)
    licences = (f"- `{each}`: {LICENCES[each]}" for each in folders)
    held_out = 100 * (run["held_out"] if "valid" in data else data["valid_fraction"])
    parts = [
        network(name, before),
        "The folder is in the Hugging Face layout: `transformers` opens it too.",
        f"## How it was trained\n\n{training(name, recipe, run, before, len(losses(folder)))}",
        "![Training and validation loss](curve.svg)",
        "## Data and licence\n\n" + "\n".join(licences),
        left_out(folder),
        "The weights are licensed under Apache-2.0, like the code.",
        f"## Metrics\n\nOn the held-out part: {held_out:g} %, chosen by a hash of each document "
        f"(for pairs, of the first text).\n\n{metrics(measured)}",
        compared(folder) if (folder / "compare.csv").exists() else "",
        f"## Limits\n\n{LIMITS[name].format(length=length)}",
        samples(folder) if (folder / "samples.json").exists() else "",
        translations(folder) if (folder / "translations.tsv").exists() else "",
        fills(folder) if (folder / "fills.tsv").exists() else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def network(name: str, before: str) -> str:
    """The part of the run's own card about the network."""
    text = before.split("The folder is in the Hugging Face")[0].rstrip()
    text = re.sub(r"^# .*$", f"# {name}\n\n{WHAT[name]}", text, count=1, flags=re.M)
    text = text.replace("(float32)", "(bfloat16)")  # as it was exported
    return re.sub(r"gf\.load\(.*\)", f'gf.load("{name}")', text)


def training(name: str, recipe: dict[str, Any], run: dict[str, Any], before: str, done: int) -> str:
    match = re.search(r"([\d,]+) steps,\s+([\d,]+) tokens,\s+(\d+) s", before)
    assert match is not None, "README.md: steps and tokens are missing"  # noqa: S101
    steps, tokens, seconds = match.groups()
    train, learn = recipe["train"], recipe["objective"]
    planned = f"{train['steps']:,}"
    why = "the time limit" if done < train["steps"] else "the best checkpoint was kept"
    steps += "" if steps == planned else f" of {planned} ({why})"
    note = f" {run['note']}" if "note" in run else ""
    return f"""```text
glassformer pretrain recipes/{name}.toml
```

Steps: {steps}; tokens seen: {tokens}; {int(seconds) / 60:.1f} minutes on {run["hardware"]},
{run["date"]}.{note}
Objective `{learn["kind"]}`, texts of up to {learn["length"]} tokens,
{train["optimiser"]} at {train["learning_rate"]:g}, {train["schedule"]}, {train["precision"]}."""


def left_out(folder: Path) -> str:
    """What the run logged about duplicates and long texts."""
    logs = "\n".join(file.read_text() for file in sorted(folder.glob("prepare*.log")))
    logs = re.sub(r"(?<=\S) \n(?=\S)", " ", logs)  # lines that were too long for a terminal
    what = (
        r"^(?:train|valid): .*(?:left out|removed|skipped|in parts|a pair).*|^[\d,]+ pairs share.*"
    )
    lines = re.findall(what, logs, re.M)
    return "\n".join(f"- {line}" for line in dict.fromkeys(lines))


def metrics(measured: dict[str, Any]) -> str:
    signatures = measured.get("signatures", {})
    rows = ["| | |", "|---|---|"]
    for key, value in measured.items():
        if isinstance(value, int | float):
            signed = f" (`{signatures[key]}`)".replace("|", r"\|") if key in signatures else ""
            number = f"{value:,.0f}" if value == int(value) else f"{value:.4g}"
            rows.append(f"| {key.replace('_', ' ')}{signed} | {number} |")
    return "\n".join(rows)


def samples(folder: Path) -> str:
    texts = json.loads((folder / "samples.json").read_text())["texts"]
    words = set((folder / "words.txt").read_text().split())
    written = [sample["text"] for sample in texts]
    counts = {
        f"the same {LOOP} words in a row twice": sum(map(loops, written)),
        "a quotation left open at the end of a paragraph": sum(map(open_quotes, written)),
        "a word that is not in the training text (names not counted)": sum(
            cut_words(text, words) for text in written
        ),
    }
    rows = "\n".join(f"| {what} | {count / len(written):.1%} |" for what, count in counts.items())
    every = len(texts) // 6
    shown = "\n\n".join(f"> **{each['prompt']}**{quoted(each['text'])}" for each in texts[::every])
    return f"""## Samples

{len(written)} texts of at most 150 tokens, 10 for each of 20 prompts, temperature 0.8, top-p 0.95,
seed 1. The share of texts with

| | |
|---|---|
{rows}

One in {every} of them, unedited:

{shown}"""


def translations(folder: Path) -> str:
    rows = table(folder / "translations.tsv", "English", "this model", "in the data")
    return f"""## Samples

The first {len(rows) - 2} held-out sentences, unedited:

{NEWLINE.join(rows)}"""


def fills(folder: Path) -> str:
    rows = table(folder / "fills.tsv", "sentence", "this model", "original word")
    return f"""## Samples

{len(rows) - 2} of the held-out single sentences, at equal distances, with the word in the middle
masked:

{NEWLINE.join(rows)}"""


def table(file: Path, *head: str) -> list[str]:
    lines = [head, ["---"] * len(head), *(row.split("\t") for row in file.read_text().splitlines())]
    return [f"| {' | '.join(line)} |" for line in lines]


def compared(folder: Path) -> str:
    """The table of `compare`: the model, and the same network from random weights."""
    with (folder / "compare.csv").open() as file:
        lines = list(csv.DictReader(file))
    rows = "\n".join(
        f"| {row['model']} | {float(row['accuracy']):.1%} ± {float(row['accuracy_deviation']):.1%} "
        f"| {row['runs']} |"
        for row in lines
    )
    return f"""## Fine-tuned

SST-2 (film reviews), development set, and the same network from random weights:

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
    """In paragraphs that have ended."""
    whole = text.split("\n")[1:-1]
    return any(line.count('"') % 2 or line.count("“") != line.count("”") for line in whole)


def cut_words(text: str, known: set[str]) -> bool:
    """The first and the last may be cut by the prompt and the limit."""
    return any(word.islower() and word not in known for word in WORD.findall(text)[1:-1])


def logged(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def losses(folder: Path) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in logged(folder) if "norm" in row]


def curve(folder: Path, wide: int = 560, high: int = 200) -> str:
    """Training losses (means of a hundredth of the steps) and validation losses."""
    rows, train = logged(folder), losses(folder)
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
<text x="40" y="{high - 10}" fill="#1d4ed8">training loss</text>
<text x="150" y="{high - 10}" fill="#c2410c">validation loss</text>
<text x="{wide - 10}" y="{high - 10}" text-anchor="end">{last:,} steps</text>
</svg>
"""


def slim(model: Path) -> None:
    """The tokenizer on one line, and the maximum length, for transformers."""
    whole, settings = model / "tokenizer.json", model / "tokenizer_config.json"
    whole.write_text(json.dumps(json.loads(whole.read_text()), ensure_ascii=False))
    length = json.loads((model / "config.json").read_text())["max_position_embeddings"]
    config = json.loads(settings.read_text()) | {"model_max_length": length}
    settings.write_text(json.dumps(config, indent=2) + "\n")


def main(name: str, folder: Path) -> None:
    text = card(name, folder)
    slim(folder / "model")
    (folder / "model" / "curve.svg").write_text(curve(folder))
    (folder / "model" / "README.md").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
