"""Write the training and validation pairs of gf-en-ru, below the data root.

    python recipes/gf_en_ru_pairs.py DATA               gf_en_ru/train and gf_en_ru/valid
    python recipes/gf_en_ru_pairs.py DATA RU_EN_MODEL   gf_en_ru/back

Validation pairs are the one per cent of the pairs that the hash of the English text selects, and no
text of theirs is on either side of a training pair of Tatoeba. A tenth of the training pairs comes
twice, the second time without full stops, as users often type; the pairs of household_en_ru.tsv,
which we wrote, come 30 times. Back-translation (Sennrich et al., 2016): a model from Russian to
English writes the English side of Russian sentences that have no translation.
"""

from __future__ import annotations

import lzma
import sys
from collections.abc import Iterable, Iterator
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import glassformer as gf
from glassformer.data.readers import parallel
from glassformer.data.split import Pair, in_range, is_held, plain, split_pairs

EVERYDAY = "translation_en_ru/everyday.tsv.xz"
RUSSIAN = "tatoeba_mono/tatoeba.ru.txt.xz"
HOUSEHOLD = Path(__file__).with_name("household_en_ru.tsv")
HELD_OUT = 0.01
REPEATS = 30
LONGEST = 200  # characters
PROCESSES = 8  # that translate at once on one GPU


def main(data: Path, model: Path | None) -> None:
    out = data / "gf_en_ru"
    out.mkdir(exist_ok=True)
    if model is None:
        for part in ("train", "valid"):
            write(out / part, pairs(data, part))
    else:
        write(out / "back", back_translated(data, model))


def pairs(data: Path, part: str) -> Iterator[Pair]:
    yield from split_pairs(lambda: everyday(data), HELD_OUT, held=part == "valid")
    if part == "train":
        for english, russian in split_pairs(lambda: everyday(data), HELD_OUT, held=False):
            if english.endswith(".") and russian.endswith(".") and in_range(english, 0.2, 0.3):
                yield english.rstrip("."), russian.rstrip(".")
        for english, russian in parallel.pairs(HOUSEHOLD):
            for _ in range(REPEATS):
                yield english, russian
                yield english.rstrip("."), russian.rstrip(".")


def everyday(data: Path) -> Iterable[Pair]:
    return parallel.pairs(data / EVERYDAY)


def back_translated(data: Path, model: Path) -> Iterator[Pair]:
    known = {plain(russian) for _, russian in everyday(data)}
    with lzma.open(data / RUSSIAN, "rt") as file:
        lines = (line.strip() for line in file)
        russian = [s for s in lines if s and len(s) <= LONGEST and plain(s) not in known]
    russian.sort(key=len)  # texts of one length are translated together
    parts = [russian[start : start + 2048] for start in range(0, len(russian), 2048)]
    with get_context("spawn").Pool(PROCESSES) as pool:
        for texts, found in zip(parts, pool.imap(partial(english_of, model), parts), strict=True):
            both = zip(found, texts, strict=True)
            yield from (pair for pair in both if not is_held(plain(pair[0]), HELD_OUT))


def english_of(model: Path, russian: list[str]) -> list[str]:
    found = translator(model).translate(russian, num_beams=1, max_new_tokens=100)
    return [each.text for each in found]


@cache
def translator(model: Path) -> gf.Model:
    """One for each process."""
    return gf.load(model, device="cuda", dtype="bfloat16")


def write(stem: Path, found: Iterable[Pair]) -> None:
    with (
        stem.with_suffix(".en").open("w") as english,
        stem.with_suffix(".ru").open("w") as russian,
    ):
        for one, other in found:
            english.write(" ".join(one.split()) + "\n")
            russian.write(" ".join(other.split()) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
