"""Every cell of the course runs, and so does every hidden solution."""

import ast
import re
from pathlib import Path

import pytest
from cells import HOME, read, run_here, run_in_jupyter, with_data, with_solutions

from sampling import mostly_slow

COURSE = sorted(HOME.glob("*.ipynb"))
# fmt: off
WORKED = {  # what the lectures work out must be asserted, to the digit
    "1-one-head": ("[1, 2, 3, 5, 2, 4]", "[0, 0, 0.5, 0.5, 0]", "> 0.99", "< 1e-06"),
    "2-where-weights-come-from": (
        "37888", "[0.0, 0.64, 0.03, 0.02, 0.32]", "(100, 37)", "(100, 100)", "[0.07, 0.58, 0.35]",
        "0.1 * v[0] + 0.3 * v[1] + 0.6 * v[2]", "0.5 * v[0] + 0.2 * v[1] + 0.3 * v[2]",
    ),
    "3-the-layer": (
        "[((2048, 512), (512, 2048)), ((512, 100), (100, 512))]",
        "torch.allclose(layer(x, ctx), y", "(100, 37)", "(100, 100)", "(100, 512)", "(512, 100)",
        "(32000, 100)",
    ),
    "4-positions": (
        "place(0, 4) == [0, 1, 0, 1]",
        "place(1, 4) == [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]",
        "sinusoid(99, 100)", "< 0.00501", "step < leap / 3", "2 * math.pi",
    ),
    "5-bert": (
        "[4, 28, 41, 109, 108, 102, 177, 335]", "(12, 16)", "words + order",
        "[0] * cut + [1] * (len(read.ids) - cut)", "sum(e['losses'].values())",
        "reached['runs/village/model'] > reached['bert-tiny'] + 0.15", "all(claims.values())",
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
}
# fmt: on


@pytest.mark.parametrize("path", mostly_slow(COURSE, keep=3), ids=lambda path: path.stem)
def test_every_cell_and_every_solution_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSFORMER_QUICK", "1")
    monkeypatch.chdir(with_data(tmp_path))
    run_here(with_solutions(read(path)), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_it_runs_whole_in_a_kernel(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSFORMER_QUICK", "")
    run_in_jupyter(with_solutions(read(path)), with_data(tmp_path), monkeypatch)


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_the_lectures_values_are_asserted(path: Path) -> None:
    """A notebook that only prints could go wrong unseen."""
    code = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "code")
    asserted = [each for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Assert)]
    lines = "\n".join(ast.unparse(each) for each in asserted)
    missing = [value for value in WORKED[path.stem] if value not in lines]
    assert not missing, f"{path.name} does not assert {missing}"


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_a_notebook_is_a_source(path: Path) -> None:
    """No outputs, so that it reads well in a diff; exercises, and a way into the studio."""
    import nbformat

    book = read(path)
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    text = "\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown")
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert 2 <= text.count("<details>") == text.count("</details>") <= 3
    assert "glassformer studio" in text
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (HOME / link).exists(), f"{path.name}: {link} is not there"
