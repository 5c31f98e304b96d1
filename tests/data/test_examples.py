"""Labelled rows: which columns are read, how labels are spelt and ordered, what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.data.readers.examples import (
    TableColumns,
    are_values,
    examples,
    find_labels,
    guessed,
    number_of,
    value_of,
)
from glassformer.data.split import in_range
from glassformer.errors import ConfigError, InputError


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("sentence\tlabel", TableColumns("sentence", None, "label")),
        ("idx\tpremise\thypothesis\tlabel", TableColumns("premise", "hypothesis", "label")),
        ("score\tsentence1\tsentence2", TableColumns("sentence1", "sentence2", "score")),
        ("words\tclass", TableColumns("words", None, "class")),
    ],
)
def test_columns_are_guessed_by_their_names(
    header: str, expected: TableColumns, tmp_path: Path
) -> None:
    row = "\t".join("1" for _ in header.split("\t"))
    path = write(tmp_path / "a.tsv", f"{header}\n{row}\n")
    assert guessed(path, TableColumns("")) == expected


def test_what_is_named_is_not_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "sentence1\tsentence2\tlabel\tgrade\na\tb\tc\td\n")
    assert guessed(path, TableColumns("sentence2")) == TableColumns("sentence2", None, "label")
    assert guessed(path, TableColumns("", label="grade")).label == "grade"
    with pytest.raises(ConfigError, match=r"which column is the text\? It has 'a', 'b', 'label'"):
        guessed(write(tmp_path / "b.tsv", "a\tb\tlabel\n1\t2\t3\n"), TableColumns(""))
    with pytest.raises(ConfigError, match=r"which column is the label\? .* write data\.label"):
        guessed(write(tmp_path / "c.tsv", "text\tb\n1\t2\n"), TableColumns(""))
    bad = write(tmp_path / "d.tsv", "text\tlabel\nalone\na\tb\n")  # is told when it is read
    assert guessed(bad, TableColumns("")) == TableColumns("text", None, "label")


def test_a_file_that_is_no_table_by_its_name(tmp_path: Path) -> None:
    """As TREC's: one line is not UTF-8."""
    data = b"DESC:manner How did it go ?\nNUM:date When\xf0 was it ?\nHUM:ind Who  was it ?\n"
    path = write(tmp_path / "train.txt", data)
    table = TableColumns("text", None, "label", ("label", "text"), " ", ":")
    bad: list[InputError] = []
    found = list(examples(path, table, bad.append))
    assert [(each.texts, each.label) for each in found] == [
        (("How did it go ?",), "DESC"), (("Who  was it ?",), "HUM"),
    ]  # fmt: skip
    assert [each.where for each in found] == [f"{path}: line 1", f"{path}: line 3"]
    assert len(bad) == 1 and f"{path}: line 2, byte 42" in str(bad[0])
    with pytest.raises(InputError, match="line 2"):
        list(examples(path, table))


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        '{"text": "a", "label": 1}\n{"text": 7, "label": 1}\n{"text": "b"}\n'
        '{"text": "c", "label": null}\n{"text": "d", "label": true}\nno json\n',
    )
    bad: list[InputError] = []
    found = list(examples(path, TableColumns("text", None, "label"), bad.append))
    assert [(each.texts[0], each.label) for each in found] == [("a", "1"), ("d", "True")]
    lines = [str(each).removeprefix(f"{path}: ") for each in bad]
    assert lines[0] == "line 2: text = 7: write a text"
    assert lines[1] == "line 3: there is no field 'label': it has 'text'"
    assert lines[2] == "line 4: label = None: write a label"
    assert lines[3].startswith("line 6")


def test_classes_and_values() -> None:
    assert find_labels(["b", "10", "9", "a", "b"]) == ("9", "10", "a", "b")
    assert are_values(["0.5", "-1.25", "3.0"]) and not are_values(["0", "1"])
    assert not are_values(["0.0", "1.0"])  # classes, as pandas writes them beside an empty cell
    assert number_of("b", ("a", "b"), "f: line 1", "label") == 1
    with pytest.raises(InputError, match=r"^f: line 1: label = 'c' is none of the labels"):
        number_of("c", ("a", "b"), "f: line 1", "label")
    assert value_of("2.5", "f: line 1", "score") == 2.5
    for wrong in ("x", "nan", "inf", "-100"):
        with pytest.raises(InputError, match=r"^f: line 1: score = "):
            value_of(wrong, "f: line 1", "score")


def test_ranges_of_hashes_are_a_partition() -> None:
    for i in range(200):
        parts = [in_range(f"text {i}", k / 7, (k + 1) / 7) for k in range(7)]
        assert sum(parts) == 1


def test_a_nan_among_decimal_labels_is_no_class():
    assert are_values(["0.5", "nan", "1.25", "-inf"])
    assert not are_values(["nan"]) and not are_values(["1.0", "nan", "0.0"])
    with pytest.raises(InputError, match="label = 'nan': write a number"):
        value_of("nan", "a.tsv: line 2", "label")
