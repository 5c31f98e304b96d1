"""Do vectors of a word in its sentence separate its senses? Word-in-context (WiC) pairs.

    python benchmarks/senses.py --model MINILM --data wic/train.jsonl        about 3 minutes, CPU
    python benchmarks/senses.py --tiny                                       checks that it runs

Given two sentences with the same word: does it have the same sense? It is predicted by a threshold
on the cosine of the two `model.word(…)`. The threshold is chosen on the first half of the pairs and
evaluated on the second; the layer is chosen on the first 1,000 pairs alone.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

import glassformer as gf
from glassformer.text.training import train_tokenizer

PAIR = re.compile(r"Word: (.+?)\. Sentence 1: (.+?) Sentence 2: (.+)", re.DOTALL)
WORD = re.compile(r"\w+(?:[-']\w+)*")
TRIED = 1_000  # pairs that choose the layer


@dataclass(frozen=True)
class Pair:
    word: str
    sentences: tuple[str, str]
    same: bool


def read(path: Path) -> list[Pair]:
    pairs = []
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        parts = PAIR.fullmatch(row["text"])
        assert parts is not None, line
        pairs.append(Pair(parts[1], (parts[2], parts[3]), bool(row["label"])))
    return pairs


class Finder:
    """The form in which a word occurs in a sentence: went for go. Forms of a word have similar
    vectors in the model's embedding table."""

    def __init__(self, model: gf.Model) -> None:
        self.model, self.table = model, model.task.backbone.token_embedding.detach().float()
        self.vector = lru_cache(maxsize=None)(self._vector)

    def _vector(self, word: str) -> Tensor:
        read = self.model.tokenizer.encode(word)
        ids = [i for i, special in zip(read.ids, read.special, strict=True) if not special]
        return torch.nn.functional.normalize(self.table[ids].mean(0), dim=0)

    def form(self, word: str, sentence: str) -> str:
        words = WORD.findall(sentence)
        same = [each for each in words if each.lower() == word.lower()]
        target = self.vector(word)
        return same[0] if same else max(words, key=lambda each: float(self.vector(each) @ target))


def cosines(model: gf.Model, finder: Finder, pairs: list[Pair], layer: int | None) -> Tensor:
    values = []
    for pair in pairs:
        one, other = (
            model.word(sentence, finder.form(pair.word, sentence), layer=layer)
            for sentence in pair.sentences
        )
        values.append(torch.cosine_similarity(one, other, dim=0))
    return torch.stack(values)


def choose(cosines: Tensor, same: Tensor) -> tuple[float, float]:
    """The threshold with the highest accuracy, and that accuracy."""
    tried = torch.cat([cosines.sort().values, cosines.new_tensor([2.0])])
    right = ((cosines >= tried[:, None]) == same).double().mean(1)
    return float(tried[right.argmax()]), float(right.max())


def tiny() -> tuple[gf.Model, list[Pair]]:
    """An untrained model, and four pairs."""
    bank, money = "I sat by the river bank.", "I took money to the bank."
    pairs = [
        Pair("bank", (bank, money), False), Pair("bank", (bank, bank), True),
        Pair("river", (bank, bank), True), Pair("take", (money, bank), False),
    ]  # fmt: skip
    tokenizer = train_tokenizer([bank, money], "wordpiece", 60, lowercase=True)
    config = gf.ModelConfig(
        family="encoder", vocab_size=tokenizer.highest + 1, width=16, depth=2, heads=2,
        mlp_width=16, max_length=32,
    )  # fmt: skip
    return gf.Model(gf.build_task(config, gf.TaskConfig()), tokenizer).eval(), pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    if not args.tiny and (args.model is None or args.data is None):
        parser.error("write --model and --data, or --tiny")
    model, pairs = tiny() if args.tiny else (gf.load(args.model), read(args.data))
    finder, half = Finder(model), len(pairs) // 2
    same = torch.tensor([pair.same for pair in pairs])
    tried: dict[int, float] = {}
    for layer in range(model.task.backbone.config.depth):
        some = cosines(model, finder, pairs[:TRIED], layer)
        tried[layer] = choose(some, same[:TRIED])[1]
        print(f"after block {layer}: {tried[layer]:.1%} of {len(some)} pairs", flush=True)
    best = max(tried, key=lambda layer: tried[layer])
    for layer, name in ((None, "word(…)"), (best, f"word(…, layer={best})")):
        values = cosines(model, finder, pairs, layer)
        threshold, known = choose(values[:half], same[:half])
        right = ((values[half:] >= threshold) == same[half:]).double().mean()
        print(
            f"{name}: cosine ≥ {threshold:.3f} chosen on {half} pairs ({known:.1%}), "
            f"right on {len(pairs) - half} others: {right:.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
