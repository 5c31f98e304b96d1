"""Tables and pictures: the numbers are the trace's, and no text or size breaks them."""

import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

import glassformer as gf
from folders import one_line, tiny
from glassformer import glass
from glassformer.errors import ConfigError, InputError
from sampling import mostly_slow

TEXT, SOURCE = [3, 14, 15, 9, 26, 5, 35], [8, 9, 7, 9, 3]
HOSTILE = ["$x_1$", "\x1b[31mred", "[bold]b[/bold]", "猫", "a\nb", "", "w" * 40]
FAMILIES = ["encoder", "decoder", "seq2seq"]
OF_ALL = {"map": {}, "head": {"layer": 1, "head": 2}, "path": {"token": 3}}


def recorded(family: str):
    model = tiny(family)
    return model, gf.record(model, (SOURCE, TEXT) if family == "seq2seq" else TEXT)


def made(weights, tokens, stack="encoder") -> gf.Trace:
    rows = torch.tensor(weights)[None]
    return gf.Trace({f"{stack}.blocks.0.attention.weights": rows}, tokens)


def test_one_heads_weights_as_the_lectures_print_them() -> None:
    trace = made([[1.0, 0.0], [0.254, 0.746]], ["the", "cat"], "decoder")
    assert str(trace.table("weights", head=0)) == (
        "decoder layer 0, head 0\n       the   cat\n the  1.00     ·\n cat  0.25  0.75"
    )
    assert repr(trace.table()) == str(trace.table("weights"))


def test_the_mean_of_heads() -> None:
    _, trace = recorded("seq2seq")
    text = str(trace.table("weights", stack="cross", layer=2))
    assert text.startswith("cross layer 2, mean of 3 heads\n")
    mean = glass.weights(trace, "cross")[2].mean(0)
    rows = [line.split() for line in text.splitlines()[1:]]
    assert rows[0] == trace.source_tokens
    assert [row[0] for row in rows[1:]] == trace.tokens
    assert [row[1:] for row in rows[1:]] == [[f"{v:.2f}" for v in row] for row in mean.tolist()]


def test_a_wide_table_is_cut_with_a_note() -> None:
    many = [f"word{i}" for i in range(50)]
    trace = made((torch.ones(50, 50) / 50).tolist(), many)
    text = str(trace.table("weights", width=60))
    assert max(map(len, text.splitlines())) <= 60
    assert text.splitlines()[-1] == "7 of 50 columns and 40 of 50 rows shown"
    whole = str(trace.table("weights", width=1000, rows=50))
    assert "shown" not in whole and "word49" in whole.splitlines()[1]
    narrow = str(trace.table("weights", width=1))
    assert narrow.endswith("1 of 50 columns and 40 of 50 rows shown")


def test_measures_of_all_heads() -> None:
    _, trace = recorded("decoder")
    text = str(trace.table("heads", measure="entropy")).splitlines()
    assert text[0] == "decoder: entropy" and text[1].split() == [
        "head",
        "0",
        "head",
        "1",
        "head",
        "2",
    ]
    found = glass.entropy(glass.weights(trace, "decoder"))
    assert [line.split()[2:] for line in text[2:]] == [
        [f"{value:.2f}" for value in row] for row in found.tolist()
    ]
    types = str(trace.table("heads")).splitlines()
    names = [name or "–" for row in glass.head_types(trace, "decoder") for name in row]
    assert [name for line in types[2:] for name in line.split()[2:]] == names
    with pytest.raises(ConfigError) as caught:
        trace.table("heads", measure="fame")
    one_line(caught.value, "'fame'", "type, entropy, distance, previous")


@pytest.mark.parametrize("family", FAMILIES)
def test_what_it_says_now_and_after_each_layer(family: str) -> None:
    model, trace = recorded(family)
    said = glass.predictions(model, trace, top_k=2)
    lines = str(trace.table("predictions", model=model, top_k=2, at=[1, 4])).splitlines()
    assert lines[1].split() == ["best", "or"]
    expected = [
        f"{word} {chance:.2f}"
        for word, chance in zip(said.words[4], said.probabilities[4].tolist(), strict=True)
    ]
    assert lines[3].split() == [trace.tokens[4], *" ".join(expected).split()]
    lens = str(trace.table("lens", model=model, width=500)).splitlines()
    depth = 3 if family == "seq2seq" else 2
    assert [line.split()[0] for line in lines[2:]] == [trace.tokens[1], trace.tokens[4]]
    assert [line.split()[0] for line in lens[2:]] == ["embedding", *map(str, range(depth))]
    assert lens[-1].split()[1::2] == [words[0] for words in glass.predictions(model, trace).words]
    inside = str(trace.table("lens", model=model, inside=True, width=500))
    assert " 1 attention " in inside


def test_a_words_path_and_the_tokens() -> None:
    _, trace = recorded("seq2seq")
    path = glass.word_path(trace, 3, "decoder")
    lines = str(trace.table("path", token=3)).splitlines()
    assert lines[0] == "9 through the layers"
    assert lines[-1].split() == ["2", f"{path.norm[-1]:.2f}", f"{path.to_start[-1]:.2f}", "1.00"]
    lines = str(trace.table("tokens")).splitlines()
    assert lines[2].split() == ["source", *map(str, SOURCE)]
    assert lines[3].split() == ["target", *map(str, TEXT)]


def test_an_alignment_by_hand() -> None:
    """Two layers; the upper one counts, and the look before a token is written."""
    upper = [[[0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.0, 0.0, 1.0]]]
    trace = gf.Trace(
        {
            "decoder.blocks.0.cross.weights": torch.full((1, 3, 3), 1 / 3),
            "decoder.blocks.1.cross.weights": torch.tensor(upper),
        },
        ["<s>", "chat", "le"],
        ["the", "cat", "</s>"],
    )
    found = glass.align_tokens(trace)
    assert (found.source, found.target) == (["the", "cat", "</s>"], ["chat", "le"])
    torch.testing.assert_close(found.weights, torch.tensor(upper[0][:2]))
    assert found.links() == [(0, 1), (1, 0)] and found.pharaoh() == "0-1 1-0"
    after = glass.align_tokens(trace, reading=True)
    torch.testing.assert_close(after.weights, torch.tensor(upper[0][1:]))
    both = glass.align_tokens(trace, layers=[0, 1])
    torch.testing.assert_close(both.weights, (torch.tensor(upper[0]) + 1 / 3)[:2] / 2)
    lines = str(trace.table("alignment")).splitlines()
    assert lines[2].split() == ["chat", "0.10", "0.80", "0.10"]
    for wrong in ([2], [-1], []):
        with pytest.raises(ConfigError) as caught:
            glass.align_tokens(trace, layers=wrong)
        one_line(caught.value, str(wrong), "0 to 1")
    with pytest.raises(ConfigError) as caught:
        glass.align_tokens(recorded("decoder")[1])
    one_line(caught.value, "'cross'", "'decoder'")


def test_what_there_is_not_gets_one_line() -> None:
    _, trace = recorded("encoder")
    for call, words in (
        (lambda: trace.table("wights"), ("'wights'", "tokens, weights, heads")),
        (lambda: trace.figure("mpa"), ("'mpa'", "map, head, lens")),
        (lambda: trace.table("weights", layer=2), ("layer 2", "0 to 1")),
        (lambda: trace.table("weights", head=3), ("head 3", "0 to 2")),
        (lambda: trace.figure("head", stack="cross"), ("'cross'",)),
        (lambda: trace.figure("path", token="dog"), ("'dog'",)),
    ):
        with pytest.raises(ConfigError) as caught:
            call()
        one_line(caught.value, *words)


def test_no_token_moves_the_cursor_or_becomes_markup(tmp_path: Path) -> None:
    n = len(HOSTILE)
    trace = made((torch.ones(n, n) / n).tolist(), HOSTILE)
    console = Console(width=300, color_system=None)
    with console.capture() as captured:
        console.print(trace.table("weights"))
    for text in (str(trace.table("weights")), str(trace.table("tokens")), captured.get()):
        assert "\x1b" not in text and "\\x1b[31mred" in text
        assert "[bold]b[/bold]" in text and "a\\nb" in text
    trace.figure("head").save(tmp_path / "head.png")
    trace.figure("map").save(tmp_path / "map.svg")
    assert (tmp_path / "head.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("family", mostly_slow(FAMILIES))
def test_every_picture_of_every_family(family: str, tmp_path: Path) -> None:
    model, trace = recorded(family)
    kinds = {**OF_ALL, "lens": {"model": model}}
    if family == "seq2seq":
        kinds["alignment"] = {}
    for kind, options in kinds.items():
        trace.figure(kind, **options).save(tmp_path / f"{kind}.png")
    for stack in glass.stacks(trace):
        trace.figure("head", stack=stack).savefig(tmp_path / "again.png")
        trace.figure("map", stack=stack).savefig(tmp_path / "again.png")
    assert len(list(tmp_path.iterdir())) == len(kinds) + 1


def test_a_picture_holds_the_weights() -> None:
    _, trace = recorded("decoder")
    found = glass.weights(trace, "decoder")
    (axes, bar) = trace.figure("head", layer=1, head=2).axes
    drawn = axes.images[0].get_array()
    assert [label.get_text() for label in axes.get_yticklabels()] == trace.tokens
    for i, row in enumerate(found[1, 2].tolist()):
        assert drawn[i, : i + 1].tolist() == pytest.approx(row[: i + 1])
        assert drawn.mask[i, i + 1 :].all()
    assert bar.get_ylabel() == "weight"
    board = torch.tensor(trace.figure("map").axes[0].images[0].get_array().filled(-1))
    T = len(TEXT)
    assert board.shape == (2 * (T + 1) - 1, 3 * (T + 1) - 1)
    for layer in range(2):
        for head in range(3):
            top, left = layer * (T + 1), head * (T + 1)
            torch.testing.assert_close(board[top : top + T, left : left + T], found[layer, head])
    assert (board[T] == -1).all() and (board[:, T] == -1).all()


def test_a_long_text_on_the_map_keeps_its_largest_weights() -> None:
    weights = torch.zeros(300, 300)
    weights[:, 7] = 1.0
    picture = made(weights.tolist(), ["x"] * 300).figure("map")
    drawn = torch.tensor(picture.axes[0].images[0].get_array().data)
    assert drawn.shape == (64, 64) and (drawn.max(1).values == 1).all()
    labels = made(weights.tolist(), ["x"] * 300).figure("head").axes[0].get_xticklabels()
    assert len(labels) <= 64


def test_a_notebook_shows_it_and_a_wrong_name_gets_one_line(tmp_path: Path) -> None:
    _, trace = recorded("encoder")
    picture = trace.figure("map")
    assert picture._repr_png_().startswith(b"\x89PNG")
    for name, error in (("map.gif", ConfigError), ("no/such/map.png", InputError)):
        with pytest.raises(error) as caught:
            picture.save(tmp_path / name)
        one_line(caught.value, name)


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    _, trace = recorded("encoder")
    monkeypatch.delitem(sys.modules, "glassformer.glass.figures", raising=False)
    for name in [each for each in sys.modules if each.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError) as caught:
        trace.figure("map")
    one_line(caught.value, "glassformer[plot]")
