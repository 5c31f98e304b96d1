"""Nothing is cut or skipped in silence: it is counted and logged, or the run does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import glassformer
from tiny import write_recipe

LONG = "the dog sat on a mat " * 20
FITS = {
    "causal_lm": "the cat sat\n\nthe dog sat far from home\n\n",
    "masked_lm": "the cat sat\n\nthe dog sat far from home\n\n",
    "masked_lm_nsp": "The cat sat. It ran far.\n\nThe dog sat. It ran home.\n\n",
    "translation": "the cat\tTHE CAT\nthe dog\tTHE DOG\n",
}
TOO_LONG = {
    "causal_lm": (LONG, "1 document of more than 32 tokens, read in parts"),
    "masked_lm": (LONG, "1 document of more than 30 tokens, read in parts"),
    "masked_lm_nsp": (
        f"It sat. {LONG}. It ran.",
        "3 sentences too long for a pair of 32 tokens, skipped",
    ),
    "translation": (f"{LONG}\tDOG\n", "1 pair with a side of more than 32 tokens, skipped"),
}


def write(folder: Path, kind: str, text: str) -> tuple[object, ...]:
    recipe = write_recipe(folder, kind, data={"valid_fraction": 0.0}, train={"steps": 1})
    (folder / "text.txt").write_text(text)
    return "pretrain", recipe, "--out", folder / "run", "--tokenizer.vocab_size", 290


@pytest.mark.parametrize("kind", FITS)
def test_what_is_too_long_is_counted(kind: str, tmp_path: Path) -> None:
    text, reason = TOO_LONG[kind]
    words = write(tmp_path, kind, FITS[kind] + text)
    end = glassformer(*words, "--on-truncate", "error", code=1)
    said = end.errors.splitlines()[-1]
    assert said.startswith(
        f"glassformer: {tmp_path / 'run' / 'data' / 'train'}: {reason}: raise obj"
    )
    assert not (tmp_path / "run" / "checkpoints").exists()
    going = glassformer(*words, "--on-truncate", "warn")
    assert f"train: {reason}" in " ".join(going.errors.split())


@pytest.mark.parametrize("kind", FITS)
def test_where_all_fits_nothing_is_logged(kind: str, tmp_path: Path) -> None:
    said = glassformer(*write(tmp_path, kind, FITS[kind]), "--on-truncate", "error").errors
    assert [each for each in ("skipped", "in parts", "in no pair") if each in said] == []


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (
            "translation",
            f"{LONG}\tDOG\n",
            "with a side of more than 32 tokens, skipped: raise obj",
        ),
        (
            "masked_lm_nsp",
            "One only.\n\nAnother",
            "2 documents of one sentence, without a pair: add",
        ),
    ],
)
def test_where_nothing_is_left_it_says_why(
    kind: str, text: str, reason: str, tmp_path: Path
) -> None:
    end = glassformer(*write(tmp_path, kind, text), code=1)
    assert "no text is left: " in end.errors.splitlines()[-1]
    assert reason in end.errors.splitlines()[-1]
