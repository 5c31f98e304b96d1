"""Fits the next-sentence classifier of gf-encoder once more, after pretraining.

    python docs/next_sentence.py MODEL DATA

MODEL is the folder of the model, whose classifier is replaced, and DATA the folder of its training
data. Few everyday texts have two sentences: in pretraining, the false second text of such a pair
mostly comes from a novel, so that its style gives it away, and unrelated everyday sentences often
look as if one followed the other. Here both texts of a pair come from the same source. Only the
last linear map is fitted, by logistic regression; all other weights stay as they are.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

import glassformer as gf
from glassformer.data.prepare import sentences
from glassformer.data.readers.text import documents
from glassformer.data.split import is_held
from glassformer.model.context import Look
from glassformer.tasks.heads import pool

PAIRS = 10_000  # at most, of each source, that follow each other, and as many that do not
HELD, HELD_PAIRS = 0.03, 400  # the validation data of recipes/gf-encoder.toml
PIECE = 4  # the most sentences of a text
WORDS = 40  # the most words of a text, so that two fit the model
DECAY = 1e-4
HEAD = "cls.seq_relationship"

Pair = tuple[str, str]


def everyday(data: Path, draw: random.Random, held: bool) -> list[Pair]:
    """Texts of two sentences."""
    lines = documents(data / "tatoeba_mono/tatoeba.en.txt.xz", ends="line")
    texts = [sentences(line) for line in lines if is_held(line, HELD) == held]
    pairs = [(_join(text[:1]), _join(text[1:])) for text in texts if len(text) == 2]
    pairs = list(filter(_fits, pairs))
    return draw.sample(pairs, min(len(pairs), HELD_PAIRS if held else PAIRS))


def novels(data: Path, draw: random.Random, held: bool) -> list[Pair]:
    """Neighbouring pieces of one to four sentences, book by book; half of them are short."""
    books = documents(data / "english_novels/novels.txt.xz")
    texts = [sentences(book) for book in books if is_held(book, HELD) == held]
    texts = [text for text in texts if len(text) > 2 * PIECE]
    pairs = []
    for text in texts:
        for _ in range(max(1, (HELD_PAIRS if held else PAIRS) // len(texts))):
            most = draw.choice((1, PIECE))
            cut = draw.randrange(most, len(text) - most)
            first = text[cut - draw.randint(1, most) : cut]
            second = text[cut : cut + draw.randint(1, most)]
            pair = _join(first), _join(second)
            if _fits(pair):
                pairs.append(pair)
    return pairs


def _join(piece: list[str]) -> str:
    return " ".join(" ".join(piece).split())


def _fits(pair: Pair) -> bool:
    return all(0 < len(text.split()) <= WORDS for text in pair)


@torch.no_grad()
def features(model: gf.Model, pairs: list[Pair]) -> Tensor:
    """What the classifier reads of each pair: (pairs, C)."""
    encoded = model.tokenizer.encode_all(pairs)
    ids, segments = [each.ids for each in encoded], [each.segments for each in encoded]
    rows = []
    for batch in model.task.batches(ids, segments=segments):
        first = pool(model.task.backbone(batch), batch.sequences, "first")
        rows.append(model.task.pooler(first, Look(visitor=None)).float())
    return torch.cat(rows)


def examples(model: gf.Model, pairs: list[Pair], draw: random.Random) -> tuple[Tensor, Tensor]:
    """The features of these pairs and of as many false ones, and which of them follow.

    As often as not, the second text of a false pair is that of the pair before: in novels, mostly
    from the same book.
    """
    any_second = [second for _, second in draw.sample(pairs, len(pairs))]
    false = [
        (first, pairs[i - 1][1] if draw.random() < 0.5 else any_second[i])
        for i, (first, _) in enumerate(pairs)
    ]
    x = features(model, [*pairs, *false])
    return x, torch.tensor([1.0] * len(pairs) + [0.0] * len(false))


def fit(x: Tensor, follows: Tensor) -> tuple[Tensor, Tensor]:
    """Logistic regression: the weights and the bias."""
    v, c = torch.zeros(x.shape[1], requires_grad=True), torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([v, c], max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> float:
        optimizer.zero_grad()
        value = F.binary_cross_entropy_with_logits(x @ v + c, follows) + DECAY * v.square().sum()
        value.backward()
        return value.item()

    optimizer.step(loss)
    return v.detach(), c.detach()


def main(folder: Path, data: Path) -> None:
    draw, model = random.Random(0), gf.load(folder)  # noqa: S311
    sources = {"everyday sentences": everyday, "novels": novels}
    train = [examples(model, each(data, draw, held=False), draw) for each in sources.values()]
    v, c = fit(*(torch.cat(parts) for parts in zip(*train, strict=True)))
    weights = load_file(folder / "model.safetensors")
    weight, bias = weights[f"{HEAD}.weight"].float(), weights[f"{HEAD}.bias"].float()
    before = weight[0] - weight[1], bias[0] - bias[1]  # the first class is "follows"
    for name, each in sources.items():
        x, follows = examples(model, each(data, draw, held=True), draw)
        right = [((x @ v + c > 0) == follows.bool()).float().mean() for v, c in (before, (v, c))]
        sys.stdout.write(f"{name}, held out: {right[0]:.1%} right before, {right[1]:.1%} now\n")
    new = {"weight": torch.stack([v, -v]) / 2, "bias": torch.stack([c, -c]) / 2}
    changed = {f"{HEAD}.{key}": value.to(weights[f"{HEAD}.{key}"]) for key, value in new.items()}
    save_file(weights | changed, folder / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
