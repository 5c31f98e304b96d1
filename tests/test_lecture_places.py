"""The table of docs/lecturers.md: every place that it names exists."""

from __future__ import annotations

import ast
import json
import lzma
import os
import re
from functools import cache
from pathlib import Path

import pytest

from glassformer import pretrained
from glassformer.cli.main import application
from glassformer.config import TaskConfig
from glassformer.presets import PRESETS
from glassformer.sizes import measure

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "glassformer"
PAGE = (ROOT / "docs" / "lecturers.md").read_text(encoding="utf-8")
CORPORA = {  # of gf-encoder, and their files
    "novels": "english_novels/novels.txt.xz",
    "Tatoeba": "tatoeba_mono/tatoeba.en.txt.xz",
    "WordNet": "wordnet_glosses/glosses.tsv.xz",
}
COLUMNS = ["what", "computed in", "tested in", "taught in", "shown in"]
NOTEBOOK = re.compile(r"`([\w-]+)`: (.+)")
STUDIO = re.compile(r"studio: `(\w+)`")
COMMAND = re.compile(r"command: `glassformer (\w+)`")


def _table() -> list[list[str]]:
    lines = PAGE.split("## Where everything is\n")[1].splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    assert cells[0] == COLUMNS
    return cells[2:]  # after the header and its line


ROWS = _table()


def test_every_cell_is_filled() -> None:
    assert len(ROWS) > 45
    assert all(len(row) == len(COLUMNS) and all(row) for row in ROWS)
    assert len({row[0] for row in ROWS}) == len(ROWS)  # nothing twice


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_its_places_exist(row: list[str]) -> None:
    _, computed, tested, taught, shown = row
    if NOTEBOOK.fullmatch(computed):
        assert _is_heading(computed), computed
    else:
        file, scope = computed.strip("`").split(" ")
        assert _defined(SOURCE / file, scope), computed
    file, name = tested.strip("`").split(" ")
    if file.startswith("tests/notebooks/checks/"):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"\n# %% {name}\n" in text, tested
    else:
        assert name.startswith("test_")
        assert _defined(ROOT / file, name), tested
    assert _is_heading(taught), taught
    page, command = STUDIO.fullmatch(shown), COMMAND.fullmatch(shown)
    if page:
        assert page[1] in _studio_pages(), shown
    elif command:
        assert command[1] in _commands(), shown
    else:
        assert _is_heading(shown), shown


def test_a_place_that_is_not_there_is_noticed() -> None:
    assert not _defined(SOURCE / "toys.py", "Toy.trigrams")
    assert not _is_heading("`1-one-head`: A trigram table")
    assert "nowhere" not in _studio_pages() | _commands()


def test_no_preset_is_of_a_closed_model() -> None:
    """Their sizes are not published, so nobody could count them."""
    assert not [name for name in PRESETS if re.match(r"gpt-?[45]|claude|gemini", name)]


def test_the_training_corpora_stand_beside_ours() -> None:
    text = _text("5-bert")
    assert "| English Wikipedia (BERT) | 2,500 million |" in text
    assert "| BooksCorpus (BERT) | 800 million |" in text
    card = (Path(pretrained.__file__).parent / "gf-encoder" / "README.md").read_text()
    assert all(name in card for name in CORPORA)
    theirs, ours = 2_500 + 800, sum(map(_millions, CORPORA))
    assert "A hundred times less" in text and 95 < theirs / ours < 105
    count = re.search(r"An encoder with ([\d,]+) parameters", card)
    assert count is not None and "a fourteenth of BERT-base's parameters" in text
    bert = measure(PRESETS["bert-base-uncased"].model, TaskConfig())
    assert round(sum(part.count for part in bert.parts) / int(count[1].replace(",", ""))) == 14


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_the_words_of_our_corpora_are_counted(name: str) -> None:
    path = Path(os.environ.get("GLASSFORMER_DATA", "nowhere"), CORPORA[name])
    if not path.is_file():
        pytest.skip("GLASSFORMER_DATA names no folder with this corpus")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        words = sum(len(line.split()) for line in file)
    assert _millions(name) == pytest.approx(words / 1e6, abs=0.05)


def _millions(name: str) -> float:
    """The number of words that the course states for one of our corpora."""
    row = re.search(
        rf"^\| .*{name}.* \(gf-encoder\) \| ([\d.]+) million \|$", _text("5-bert"), re.M
    )
    assert row is not None, name
    return float(row[1])


def _defined(path: Path, scope: str) -> bool:
    """Does the file define this function, class or method?"""
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for name in scope.split("."):
        named = [n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        node = next((n for n in named if n.name == name), None)
        if node is None:
            return False
        body = node.body
    return True


@cache
def _text(notebook: str) -> str:
    book = json.loads((ROOT / "notebooks" / f"{notebook}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "markdown"]
    return "\n".join("".join(cell["source"]) for cell in cells)


def _is_heading(place: str) -> bool:
    match = NOTEBOOK.fullmatch(place)
    assert match, f"{place}: write `NOTEBOOK`: HEADING"
    return match[2] in re.findall(r"^#+ (.+)$", _text(match[1]), re.MULTILINE)


@cache
def _studio_pages() -> set[str]:
    """The list in the studio's main.js."""
    text = (SOURCE / "studio" / "web" / "main.js").read_text(encoding="utf-8")
    match = re.search(r"^const PAGES = \[([^\]]+)\]", text, re.MULTILINE)
    assert match
    return set(match[1].replace(",", " ").split())


@cache
def _commands() -> set[str]:
    return {each.name or "" for each in application().registered_commands}
