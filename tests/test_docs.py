"""What the pages of docs/ say is true."""

from __future__ import annotations

import contextlib
import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.main import get_command

import glassformer as gf
from commands import glassformer
from documented import NOT_RUN, inline_commands, script
from furnished import furnish
from glassformer import glass
from glassformer.cli.main import ANY_FIELD, application
from glassformer.cli.training import split_fields
from glassformer.recipe.field_names import GROUPS
from sitebuild import build_site
from sources import FILES, room

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
# In the order in which a reader would follow them: later pages use what earlier ones write.
HOWTO = [DOCS / f"{name}.md" for name in (
    "index", "howto/use", "howto/inside", "howto/train", "howto/checkpoints", "howto/finetune",
    "howto/adapters", "howto/generate", "howto/translate", "howto/pictures", "howto/machines",
    "howto/bulk",
)]  # fmt: skip
CONLL = "".join(
    f"{who}\tB-PER\nmade\tO\ncoffee\tO\nin\tO\n{where}\tB-LOC\n.\tO\n\n"
    for who in ("Ramona", "Paul", "Anna", "Ivan")
    for where in ("Paris", "London", "Rome", "Berlin", "Vienna")
)


def fenced(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def fenced_commands(page: Path, *languages: str) -> list[list[str]]:
    """The commands in code blocks, as the words after `glassformer`."""
    lines = "".join(block for name in languages for block in fenced(page, name)).splitlines()
    split = [shlex.split(line, comments=True) for line in lines if "glassformer " in line]
    return [words[words.index("glassformer") + 1 :] for words in split if "glassformer" in words]


def named_commands(page: Path) -> list[list[str]]:
    """Commands in the text itself."""
    return [each.split()[1:] for each in re.findall(r"`(glassformer [^`]+)`", page.read_text())]


@pytest.mark.parametrize(("name", "lines", "formulas"), [("lecturers", 40, 25), ("causes", 6, -1)])
def test_every_formula_stands_beside_its_line(name: str, lines: int, formulas: int) -> None:
    hook, page = script("pages"), (DOCS / f"{name}.md").read_text()
    listings = hook.CODE.findall(page)
    assert len(listings) > lines and len(hook.MATH.findall(page)) > formulas
    assert page.count("```python ") == len(listings)
    for file, scope, code in listings:
        line = hook.find(file, scope, code)
        first = (ROOT / "src/glassformer" / file).read_text().splitlines()[line - 1]
        assert first.strip() == code.splitlines()[0]


@pytest.mark.parametrize(
    ("scope", "code"),
    [
        ("attend_in_the_open", "scores = q @ k.transpose(-1, -2)\n"),  # changed
        ("attend", "return weights @ v\n"),  # moved to another function
        ("attend_in_the_open", "\n"),
        ("no_such_function", "return weights @ v\n"),
        ("visible", "return None\nrow = torch.arange(T)\n"),  # the second line differs
    ],
)
def test_a_line_that_changed_or_moved_stops_the_build(scope: str, code: str) -> None:
    with pytest.raises(LookupError):
        script("pages").on_page_markdown(f"```python model/attention.py {scope}\n{code}```\n")


def test_a_line_that_stands_twice_stops_the_build() -> None:
    code = "if self.cross is not None and self.cross_norm is not None:"
    with pytest.raises(LookupError, match="2 times"):
        script("pages").find("model/block.py", "Block.forward", code)


@functools.cache
def command_line() -> typer.core.TyperGroup:
    return get_command(application())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_commands_name_verbs_and_options_that_are(page: Path) -> None:
    for words in fenced_commands(page, "bash", "text") + named_commands(page):
        command, rest = command_line(), words
        while hasattr(command, "commands") and not rest[0].startswith("-"):
            assert rest[0] in command.commands, words
            command, rest = command.commands[rest[0]], rest[1:]
        if not rest:  # a command that is only named
            continue
        with contextlib.suppress(typer.Exit):  # --version
            extra = command.make_context(words[0], rest).args
            assert not extra or words[0] in ANY_FIELD, words
            for name in split_fields(extra)[0]:
                group, field = name.split(".")
                assert field in GROUPS[group].model_fields, words


def test_commands_with_a_typo_are_found() -> None:
    command = get_command(application()).commands["inspect"]
    with pytest.raises(Exception, match="No such option"):
        command.make_context("inspect", ["copy", "--lense"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        assert "://" not in link, f"{link}: pages are read without the network"
        assert (page.parent / link.split("#")[0]).exists(), link


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    for page in PAGES:
        assert f": {page.relative_to(DOCS)}\n" in menu


def test_measurements_have_command_hardware_and_date() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (DOCS / "figures.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| what")
    ]
    assert len(rows) > 40
    for *_, source in rows:
        assert "as above" in source or (
            ("2-core" in source or "H200" in source) and re.search(r"\d{4}-\d\d-\d\d", source)
        ), source
    for name in re.findall(r"`((?:recipes|benchmarks)/[\w.-]+)", str(rows)):
        assert (ROOT / name).exists(), name


def test_every_benchmark_of_the_measurements_is_run() -> None:
    """By test_benchmarks.py; the commands of glassformer by test_readme.py."""
    commands = inline_commands((DOCS / "figures.md").read_text())
    assert len(commands) > 5
    for command in commands:
        run = re.fullmatch(r"python benchmarks/\w+\.py|glassformer pretrain recipes/\S+", command)
        assert run or command in NOT_RUN, f"no test runs `{command}`"


def test_the_drawing_of_the_imports_is_that_of_the_code() -> None:
    rooms = script("rooms")
    assert (DOCS / "rooms.svg").read_text() == rooms.draw(), "run python docs/rooms.py"
    arrows = rooms.rooms()
    assert set(arrows) == {room(path) for path in FILES} - {"__init__", "__main__"}
    assert "model" in arrows["tasks"] and "tasks" not in arrows["model"]
    row = rooms.rows(arrows)
    assert all(row[lower] > row[upper] for upper, lowers in arrows.items() for lower in lowers)
    drawn = rooms.reduced(arrows)
    assert all(below(upper, drawn) == below(upper, arrows) for upper in arrows)


def below(start: str, arrows: dict[str, set[str]]) -> set[str]:
    return set(arrows[start]).union(*(below(lower, arrows) for lower in arrows[start]))


def test_contributing_has_a_row_for_every_room() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for name in script("rooms").rooms():
        assert f"`{name}/`" in text or f"`{name}.py`" in text, name


def test_the_course_lists_every_notebook() -> None:
    page = script("pages").on_page_markdown((DOCS / "course.md").read_text())
    books = sorted(ROOT.glob("notebooks/*.ipynb"))
    listed = (ROOT / "notebooks" / "README.md").read_text()
    assert len(books) >= 4 and page.count("| `") == len(books) and "](" not in page
    assert all(f"]({book.name})" in listed for book in books)


@pytest.mark.parametrize("page", sorted(DOCS.glob("reference/*.md")), ids=lambda page: page.stem)
def test_the_reference_is_that_of_the_code(page: Path) -> None:
    """It is committed, so that it can be read without building the site."""
    assert page.read_text("utf-8") == script("reference").written(page.read_text("utf-8")), (
        "run python docs/reference.py"
    )


def test_the_reference_has_every_command_field_and_name() -> None:
    text = {page.stem: page.read_text("utf-8") for page in DOCS.glob("reference/*.md")}
    for name in get_command(application()).commands:
        assert f"## `glassformer {name}" in text["cli"]
    for module, page in ((gf, "python"), (glass, "glass")):
        for name in module.__all__:
            assert f"`{name}`" in text[page] or name in ("__version__", "PRESETS"), name
    assert (
        "| `learning_rate` | `0.001` | The highest, after the warm-up (number). |"
        in (text["recipes"])
    )


@pytest.mark.slow
def test_commands_and_python_of_the_pages_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One page after the other, in one folder, as a reader would."""
    tomls = [toml for page in HOWTO for toml in fenced(page, "toml") if toml.startswith("# ")]
    furnish(tmp_path, *tomls)
    (tmp_path / "names.conll").write_text(CONLL)
    monkeypatch.chdir(tmp_path)
    ran, outputs = 0, {}
    for page in HOWTO:
        for words in fenced_commands(page, "bash"):
            assert glassformer(*words).strip(), words
            ran += 1
        code = "\n".join(fenced(page, "python"))
        run = [sys.executable, "-W", "error", "-c", code]
        process = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        outputs[page.stem] = process.stdout
    assert ran > 45
    assert "tensor(0.76" in outputs["use"] or "tensor(0.77" in outputs["use"]
    assert float(re.findall(r"loss ([\d.]+)", outputs["train"])[-1]) < 1.0
    assert (tmp_path / "copy" / "model.safetensors").exists()
    assert "Content-Security-Policy" in (tmp_path / "head.html").read_text()


@pytest.mark.slow
def test_the_site_has_no_warning_no_dead_link_and_asks_nothing_of_the_network(
    tmp_path: Path,
) -> None:
    assert "WARNING" not in build_site(tmp_path)
    texts = {page.resolve(): page.read_text() for page in tmp_path.rglob("*.html")}
    assert len(texts) > 12
    for page, text in texts.items():
        links = re.findall(r'<[a-z]+ [^>]*?(?:src|href)="?([^">\s]+)', text)
        assert links
        for link in links:
            file, _, place = link.partition("#")
            assert "//" not in file, (page, link)
            if page.name == "404.html":  # is served from anywhere: its links begin with /
                continue
            target = (page.parent / file).resolve() if file else page
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), (page, link)
            known = re.search(rf'id="?{re.escape(place)}["\s>]', texts.get(target, ""))
            assert not place or place == "only-light" or place == "only-dark" or known, (page, link)
    assert (tmp_path / "lecturers.html").read_text().count("<math") > 25
