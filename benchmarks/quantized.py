"""What int8 and int4 weights cost in quality: perplexity of decoders, BLEU of a translator.

    python benchmarks/quantized.py --text novels.txt.xz MODEL …     decoders, on the end of a text
    python benchmarks/quantized.py --tiny                           checks that it runs
    python benchmarks/quantized.py --pairs en-ru.tsv.xz MODEL       a translator, on pairs of lines

Every model is measured in float32, int8 and int4 on the same tokens or sentences. The pairs are
those of the one per cent that the hash of the first text holds out, as in the recipes.
"""

from __future__ import annotations

import argparse
import lzma
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import sacrebleu
import torch
from torch.nn import functional as F

import glassformer as gf
from glassformer.data.readers import parallel
from glassformer.data.split import Pair, split_pairs

LENGTH = 256  # tokens of a passage


def models(name: str) -> Iterator[tuple[str, gf.Model]]:
    yield "float32", gf.load(name, dtype="float32")
    for method in ("int8", "int4"):
        yield method, gf.load(name, dtype="float32").quantize(method)


@torch.no_grad()
def perplexity(model: gf.Model, text: str, passages: int) -> float:
    assert model.tokenizer is not None
    ids = model.tokenizer.encode(text).ids
    total, count = 0.0, 0
    for start in range(0, passages * LENGTH, LENGTH):
        passage = ids[start : start + LENGTH]
        logits, labels = model.logits([passage])[0][:-1], torch.tensor(passage[1:])
        total += float(F.cross_entropy(logits, labels, reduction="sum"))
        count += len(labels)
    return math.exp(total / count)


def held_out(path: Path, count: int) -> list[Pair]:
    """At most so many pairs."""
    return [*islice(split_pairs(lambda: parallel.pairs(path), 0.01, held=True), count)]


def bleu(model: gf.Model, pairs: list[Pair]) -> float:
    texts = [str(text) for text in model.translate([pair[0] for pair in pairs])]
    return float(sacrebleu.corpus_bleu(texts, [[pair[1] for pair in pairs]]).score)


def opened(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
        yield from file


def main() -> None:
    about = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about)
    parser.add_argument("model", nargs="*", default=["gf-decoder"])
    parser.add_argument("--text", type=Path)
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--count", type=int, default=24, help="passages; 16 sentences for each")
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    if asked.tiny:
        asked.text, asked.count = Path(__file__), 1
    if asked.pairs is not None:
        pairs = held_out(asked.pairs, 16 * asked.count)
    else:
        text = "".join(opened(asked.text))[-2_000 * asked.count :]
    for name in asked.model:
        exact = None
        for method, model in models(name):
            if asked.pairs is not None:
                value = bleu(model, pairs)
                change = f"{value - (exact or value):+.2f}"
            else:
                value = perplexity(model, text, asked.count)
                change = f"{100 * (value / (exact or value) - 1):+.2f} %"
            exact = exact or value
            print(f"{Path(name).name:34s}{method:9s}{value:10.3f}{change:>12s}", flush=True)


if __name__ == "__main__":
    main()
