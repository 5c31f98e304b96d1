"""Alignment error rate of a translation model's cross attention, for each block of its decoder.

    python benchmarks/align.py MODEL GOLD    GOLD.src-tgt holds `source ||| target`, GOLD.gold links
    python benchmarks/align.py --tiny        small sizes, to check that it runs

Blocks are numbered from 0. "writing" uses the attention of the step that predicts a word, "reading"
that of the step that reads it. "all": each target word has a link; "mutual": only where both words
choose each other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import product
from pathlib import Path

import glassformer as gf
from glassformer.config import TokenIds
from glassformer.data.readers.alignments import Gold, Link, read_gold
from glassformer.errors import GlassformerError, InputError
from glassformer.generate.align import AlignedWords, align, error_rate
from glassformer.glass.alignment import usual_layers
from glassformer.text.training import train_tokenizer

TINY = "the cat sat . ||| le chat dort .\n", "1-1 2-2 3p3 4-4\n"


def links(
    model: gf.Model, gold: list[Gold], layers: range, reading: bool
) -> list[list[list[Link]]]:
    """All links and the mutual links of each sentence; none for a sentence that is too long."""
    alignments: list[list[list[Link]]] = [[], []]
    for each in gold:
        sides = AlignedWords.joined(each.source), AlignedWords.joined(each.target)
        try:
            aligned = align(model.task, model.tokenizer, *sides, layers=layers, reading=reading)
        except InputError:
            chosen = [], []
        else:
            chosen = aligned.links(), aligned.links(mutual=True)
        for list_, one in zip(alignments, chosen, strict=True):
            list_.append(one)
    return alignments


def tiny(folder: Path) -> tuple[gf.Model, list[Gold]]:
    for end, text in zip(("src-tgt", "gold"), TINY, strict=True):
        (folder / f"tiny.{end}").write_text(text)
    tokenizer = train_tokenizer([TINY[0]], "bpe", 270, purpose="translation")
    config = gf.ModelConfig(
        family="seq2seq", vocab_size=tokenizer.highest + 1, width=8, depth=2, heads=2, mlp_width=8,
        max_length=64, ids=TokenIds(pad=2, start=2, end=0),
    )  # fmt: skip
    task = gf.build_task(config, gf.TaskConfig(kind="translation"))
    return gf.Model(task, tokenizer).eval(), list(read_gold(folder / "tiny"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("gold", nargs="?")
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    if asked.tiny:
        with tempfile.TemporaryDirectory() as folder:
            model, gold = tiny(Path(folder))
    elif asked.gold is None:
        parser.error("write a model folder and the stem of the gold files")
    else:
        model, gold = gf.load(asked.model), list(read_gold(asked.gold))
    config = model.task.backbone.config
    depth = config.decoder_depth or config.depth
    print(f"{len(gold)} sentences\nblocks  step     links   AER")
    single = [range(layer, layer + 1) for layer in range(depth)]
    for layers, reading in product(dict.fromkeys([*single, usual_layers(depth)]), (False, True)):
        for kind, alignments in zip(
            ("all", "mutual"), links(model, gold, layers, reading), strict=True
        ):
            usual = "  (the usual ones)" if layers == usual_layers(depth) and not reading else ""
            where = f"{layers[0]}-{layers[-1]}" if len(layers) > 1 else f"{layers[0]}"
            look = "reading" if reading else "writing"
            rate = error_rate(alignments, gold)
            print(f"{where:>6}  {look}  {kind:<6}  {rate:.3f}{usual}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except GlassformerError as error:
        sys.exit(f"align: {error}")
