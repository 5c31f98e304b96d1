"""An untrained model and a few rows for each recipe of benchmarks/finetune.py --tiny."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import glassformer as gf
from glassformer.text.training import train_tokenizer

SENTENCES = [f"the {a} {b} on the {c} ." for a in ("cat", "dog", "old man")
             for b in ("sat", "slept") for c in ("mat", "log", "bank", "roof")]  # fmt: skip
TAGS = {"the": "DET", "on": "ADP", ".": "PUNCT", "sat": "VERB", "slept": "VERB", "old": "ADJ"}


def write(folder: Path) -> tuple[Path, Path]:
    """The folders of the model and of the data."""
    tokenizer = train_tokenizer(SENTENCES, "wordpiece", 90, lowercase=True)
    config = gf.ModelConfig(
        family="encoder", vocab_size=tokenizer.highest + 1, width=16, depth=1, heads=2,
        mlp_width=16, max_length=512, segments=2, embedding_norm=True, norm_place="post",
        final_norm=False,
    )  # fmt: skip
    task = gf.build_task(config, gf.TaskConfig(kind="masked_lm"))
    gf.Model(task, tokenizer).save(folder / "model")
    label = ["sat" in text for text in SENTENCES]
    rows = [f"{text}\t{is_so:d}" for text, is_so in zip(SENTENCES, label, strict=True)]
    pairs = [f"{is_so:d}\t1\t2\t{text}\t{SENTENCES[0]}"
             for text, is_so in zip(SENTENCES, label, strict=True)]  # fmt: skip
    words = ("\n".join(_conllu(text)) + "\n" for text in SENTENCES)
    files = {
        "sst2/{}.tsv": ("train", "dev", "\n".join(["sentence\tlabel", *rows])),
        "mrpc/msr_paraphrase_{}.txt": ("train", "test", "\n".join(
            ["ï»¿Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *pairs]
        )),
        "ud_english_ewt/en_ewt-ud-{}.conllu.xz": ("train", "dev", "\n".join(words)),
        "qa/policyqa_{}.json.xz": ("test", "dev", json.dumps(_asked())),
    }  # fmt: skip
    for name, (*parts, text) in files.items():
        for part in parts:
            path = folder / "data" / name.format(part)
            path.parent.mkdir(parents=True, exist_ok=True)
            data = f"{text}\n".encode()
            path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)
    return folder / "model", folder / "data"


def _conllu(text: str) -> list[str]:
    return ["\t".join([f"{i}", word, word, TAGS.get(word, "NOUN"), *"_" * 6])
            for i, word in enumerate(text.split(), 1)]  # fmt: skip


def _asked() -> dict[str, object]:
    paragraphs = []
    for i, text in enumerate(SENTENCES):
        answer = {"text": text.split()[1], "answer_start": text.index(text.split()[1])}
        paragraphs.append({
            "context": text, "qas": [{"id": f"{i}", "question": "the cat ?", "answers": [answer]}],
        })  # fmt: skip
    return {"data": [{"title": "tiny", "paragraphs": paragraphs}]}
