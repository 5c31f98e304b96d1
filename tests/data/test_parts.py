"""Parts of a file, read one by one, are the whole file."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glassformer.data.parts import InputPart, cut, read_part
from glassformer.data.readers.tables import rows as read_rows
from glassformer.errors import GlassformerError, InputError

CELLS = st.text(st.characters(exclude_categories=("C",)) | st.sampled_from('"\n\r,; '), max_size=8)
TABLES = st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=12)
ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


def parts_of(
    file: Path, columns: tuple[str, ...], count: int, **options: str
) -> list[list[object]]:
    parts = cut(file, columns, count, **options)
    rows = [[row for _, row in read_part(file, part, columns, **options)] for part in parts]
    assert [len(each) for each in rows] == [part.rows for part in parts]
    return rows


def csv_bytes(rows: list[tuple[str, str]]) -> bytes:
    file = io.StringIO()
    # Otherwise a carriage return would stand without quotation marks.
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("a", "b"), *rows])
    return file.getvalue().encode()


@ONE_FOLDER
@given(TABLES, st.integers(1, 5))
def test_parts_of_a_csv_file(tmp_path: Path, table: list[tuple[str, str]], count: int) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(csv_bytes(table))
    parts = parts_of(file, ("a",), count)
    assert all(len(rows) <= count for rows in parts)
    assert [row for rows in parts for row in rows] == list(read_rows(file, ("a",)))


@ONE_FOLDER
@given(TABLES, st.integers(1, 5))
def test_parts_of_other_files(tmp_path: Path, table: list[tuple[str, str]], count: int) -> None:
    rows = [{"a": a, "b": b} for a, b in table]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet", row_group_size=2
    )
    for name in ("x.jsonl", "x.parquet"):
        parts = parts_of(tmp_path / name, ("a",), count)
        assert [row for each in parts for row in each] == rows
        assert [len(each) for each in parts[:-1]] == [count] * (len(parts) - 1)
    lines = [" ".join(a.split()) for a, _ in table]
    (tmp_path / "x.txt").write_text("\n".join(lines) + "\n")
    parts = parts_of(tmp_path / "x.txt", (), count)
    assert [row for each in parts for row in each] == [{"text": line} for line in lines]


def test_bad_rows_keep_their_place_and_number(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(b'{"a": "1"}\n\n{"a"\n\xff\n{"b": "2"}\n{"a": "3"}\n')
    for count in (1, 2, 9):
        rows = [row for part in cut(file, ("a",), count) for row in read_part(file, part, ("a",))]
        assert [number for number, _ in rows] == [1, 3, 4, 5, 6]
        assert [isinstance(row, InputError) for _, row in rows] == [False, True, True, True, False]
    assert "line 4, byte 18 of the file is not UTF-8" in str(rows[2][1])
    table = tmp_path / "x.csv"
    table.write_text('a,b\n1,2\n3\n"4,5\n6,7\n')
    read = [row for part in cut(table, ("a",), 1) for row in read_part(table, part, ("a",))]
    assert [number for number, _ in read] == [2, 3, 4, 5]
    assert [isinstance(row, InputError) for _, row in read] == [False, True, True, False]


def test_files_that_cannot_be_cut_are_one_part(tmp_path: Path) -> None:
    content = csv_bytes([("1", "2"), ("3", "4"), ("5", "6")])
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(content))
    (tmp_path / "x.csv").write_bytes(content.decode().encode("utf-16"))
    expected = [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}, {"a": "5", "b": "6"}]
    assert parts_of(tmp_path / "x.csv.gz", ("a",), 1) == [expected]
    assert parts_of(tmp_path / "x.csv", ("a",), 1, encoding="utf-16") == [expected]


def test_columns_by_number_and_empty_files(tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_text("one\ttwo\nthree\tfour\n")
    assert parts_of(file, ("2",), 1) == [[{"1": "one", "2": "two"}], [{"1": "three", "2": "four"}]]
    file.write_text("a\tb\n")
    assert cut(file, ("a",), 5) == []
    (tmp_path / "empty.txt").touch()
    assert cut(tmp_path / "empty.txt", (), 5) == []


def test_a_part_ends_after_64_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.data.parts.MOST_BYTES", 20)
    file = tmp_path / "x.txt"
    file.write_text("a line of 18 bytes\n" * 3)
    assert cut(file, (), 100) == [InputPart(0, 38, 1, 2), InputPart(38, None, 3, 1)]


WRONG = {
    "x.csv": (b"a,b\n1,2\n", ("c",), ("no column 'c'", "'a', 'b'")),
    "x.jsonl": (b'{"a": "1"}\n', ("c",), ("line 1", "no field 'c'")),
    "y.csv": (b"a,b\n1,2\n", (), ("--column", "'a', 'b'")),
    "x.txt": (b"a line\n", ("c",), ("'c'", "only a table has columns")),
    "x.json": (b"{}", ("c",), (".jsonl",)),
    "z.txt": (b"\x89PNG\r\n", (), ("PNG image",)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_one_line(name: str, tmp_path: Path) -> None:
    content, columns, words = WRONG[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(GlassformerError) as caught:
        cut(tmp_path / name, columns, 5)
    assert all(word in str(caught.value) for word in (str(tmp_path / name), *words))
