"""Every cell of the course runs, and so does every hidden solution."""

import ast
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cells import HOME, checks_of, read, run_here, run_in_jupyter, with_checks, with_data

sys.path.insert(0, str(HOME))
from render import source_hash

COURSE = sorted(HOME.glob("*.ipynb"))
# One without a trained model, and one with the model of both stacks: the others are slow.
QUICK = ("4-positions", "7-translation")
# fmt: off
WORKED = {  # what the lectures work out must be asserted, to the digit
    "1-one-head": (
        "[1, 2, 3, 5, 2, 4]", "[0, 0, 0.5, 0.5, 0]", "> 0.99", "< 1e-06",
        "[man, chicken]], 0.5)", "cue in unplaced[name])) > 0.9",
    ),
    "2-where-weights-come-from": (
        "37888", "[-114.5, 129.7, -38.0, 68.4, 10.8]", "37 * 1024 ** 2",
        "[0.0, 0.64, 0.03, 0.02, 0.32]", "(100, 37)", "(100, 100)", "[0.07, 0.58, 0.35]",
        "0.1 * v[0] + 0.3 * v[1] + 0.6 * v[2]", "0.5 * v[0] + 0.2 * v[1] + 0.3 * v[2]",
    ),
    "2b-reviews": (
        "torch.allclose(b, share", "abs(share.sum() - 1)", "min(right.values()) > 0.6",
        "all(claims.values())",
    ),
    "3-the-layer": (
        "[((2048, 512), (512, 2048)), ((512, 100), (100, 512))]",
        "torch.allclose(layer(x, ctx), y", "(100, 37)", "(100, 100)", "(100, 512)", "(512, 100)",
        "(32000, 100)", "17400", "30000",
    ),
    "4-positions": (
        "place(0, 4) == [0, 1, 0, 1]",
        "place(1, 4) == [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]",
        "sinusoid(99, 100)", "< 0.00501", "step < leap / 3", "2 * math.pi", "-0.4849",
    ),
    "4b-rnn-cnn-attention": (
        "(seen['CNN'][:16 - networks['CNN'].sees] == 0).all()", "near['CNN'][i] < 0.25",
        "min(near['attention']) > 0.95",
    ),
    "5-bert": (
        "[4, 28, 41, 109, 108, 102, 177, 335]", "(12, 16)", "words + order",
        "[0] * cut + [1] * (len(read.ids) - cut)", "sum(e['losses'].values())",
        "reached['runs/village/model'] > reached['bert-tiny'] + 0.15", "all(claims.values())",
    ),
    "5b-finetuning": (
        "table['two layers'][1] < table['gf-encoder'][1] == table['random'][1]",
        "(answer.start, answer.end) == (read.spans[i][0], read.spans[j][1])",
        "pair_right > max(always, by_sharing) + 0.03", "all(claims.values())",
    ),
    "6-gpt": (
        "abs(chances.sum() - 1)", "written[len(ids):len(ids) + len(said.ids)]",
        "next_word(written[:9])", "valid[-1][1] < (3.5 if QUICK else 1.8)", "all(claims.values())",
    ),
    "7-translation": (
        "(config.decoder_depth, config.heads, T, S)", "embedded", "made[name]", "row.sum() - 1",
        "attention.mixed'][cat, 0]", "tokenizer.decode(written[1:]).strip() == said.text",
        "abs(each.score - by_hand) < 0.001", "all(claims.values())",
    ),
    "8-look-inside": (
        "scores['previous'], by_hand", "torch.allclose(mixed, flow[-1]", "answer < 0.0001",
        "decided.distances[-1].abs().max()", "attention.out'][it]", "all(claims.values())",
    ),
    "8b-coreference": (
        "''.join(pieces) == word.lower()", "first_noun == nearest == len(texts) / 2",
        "first[chosen[name]] == first.max()", "torch.allclose(plain, pronoun_odds())",
        "all(claims.values())",
    ),
    "9-causes": (
        "abs(split.total - split.difference) < 0.001", "abs(sweep.recovered[-1, mask] - 1)",
        "abs(effects.circuit(total).faithfulness - 1)", "all(claims.values())",
    ),
}
# fmt: on


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_what_a_notebook_uses_is_there(path: Path) -> None:
    """Each name of the library, in the cells, the solutions and the checks."""
    tree = ast.parse("\n".join(with_checks(path)))
    names: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and "glassformer" in ast.unparse(node):
            exec(ast.unparse(node), names)
    modules = {name for name, value in names.items() if isinstance(value, ModuleType)}
    used = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in modules
    ]
    missing = [ast.unparse(each) for each in used if not hasattr(names[each.value.id], each.attr)]
    assert not missing
    assert used or names or path.stem == "4b-rnn-cnn-attention"


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=() if p.stem in QUICK else pytest.mark.slow) for p in COURSE],
    ids=lambda path: path.stem,
)
def test_every_cell_and_every_solution_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSFORMER_QUICK", "1")
    monkeypatch.chdir(with_data(tmp_path))
    run_here(with_checks(path), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_it_runs_whole_in_a_kernel(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSFORMER_QUICK", "")
    run_in_jupyter(with_checks(path), with_data(tmp_path), monkeypatch)


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_the_lectures_values_are_asserted(path: Path) -> None:
    """A notebook that only prints could go wrong unseen."""
    code = "\n".join(checks_of(path).values())
    asserted = [each for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Assert)]
    lines = "\n".join(ast.unparse(each) for each in asserted)
    missing = [value for value in WORKED[path.stem] if value not in lines]
    assert not missing, f"{path.name} does not assert {missing}"


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_a_notebook_has_exercises_and_no_asserts(path: Path) -> None:
    """And a way into the studio."""
    import nbformat

    book = read(path)
    nbformat.validate(book)
    code = [cell.source for cell in book.cells if cell.cell_type == "code"]
    text = "\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown")
    assert not any("assert " in each for each in code)
    assert 2 <= text.count("<details>") == text.count("</details>") <= 3
    assert "glassformer studio" in text
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (HOME / link).exists(), f"{path.name}: {link} is not there"


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_a_notebook_carries_the_outputs_of_its_source(path: Path) -> None:
    """Small ones, without anything of the machine that they were made on."""
    book = read(path)
    assert book.metadata.get("source_hash") == source_hash(book), (
        f"the code has changed: python notebooks/render.py {path.stem}"
    )
    assert path.stat().st_size < 400_000
    speaking = _speaking("\n".join(c.source for c in book.cells if c.cell_type == "code"))
    for cell in (each for each in book.cells if each.cell_type == "code"):
        shows = _calls(ast.parse(cell.source).body) & speaking
        assert cell.outputs or not shows, f"cell {cell.id} prints or draws, and has no output"
        assert all(each.output_type != "error" for each in cell.outputs)
        assert not re.search(r"/tmp/|/home/|/root/|Traceback", str(cell.outputs))


def test_sequences_and_context_are_explained_where_they_first_appear() -> None:
    for name in ("2-where-weights-come-from", "3-the-layer"):
        cells = read(HOME / f"{name}.ipynb").cells
        used = next(i for i, each in enumerate(cells) if "Sequences.of(" in each.source)
        text = "\n".join(each.source for each in cells[: used + 1] if each.cell_type == "markdown")
        assert "`Sequences`" in text and "`Context`" in text


def _calls(body: list[ast.stmt]) -> set[str]:
    """The names of what these statements call; not inside definitions."""
    run = [each for each in body if not isinstance(each, ast.FunctionDef | ast.ClassDef)]
    calls = (n.func for each in run for n in ast.walk(each) if isinstance(n, ast.Call))
    return {getattr(call, "id", "") or getattr(call, "attr", "") for call in calls}


def _speaking(code: str) -> set[str]:
    """print, show, and the functions of a notebook that call one of them."""
    names = {"print", "show"}
    defined = [each for each in ast.parse(code).body if isinstance(each, ast.FunctionDef)]
    for _ in defined:
        names |= {each.name for each in defined if _calls(each.body) & names}
    return names
