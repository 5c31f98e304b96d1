"""A table is written back as it was, with more columns."""

import csv
import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from glassformer.data.table_files import (
    check_out,
    read_table,
    table_of,
    vector_cells,
    which_column,
    write_table,
)
from glassformer.errors import ConfigError, InputError

ROWS = [
    {"id": "1", "text": 'a "b", c', "label": "x"},
    {"id": "2", "text": "", "label": "y"},
    {"id": "3", "text": "d", "label": "x"},
]


def write(path, separator=","):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ROWS[0], delimiter=separator)
        writer.writeheader()
        writer.writerows(ROWS)
    return path


def predicted(table):
    lengths = table.apply(lambda texts: [len(text) for text in texts])
    cells = [None if n is None else {"label": "long", "probability": n / 8} for n in lengths]
    return table.with_cells(cells)


def test_other_columns_stay_and_empty_texts_keep_their_place(tmp_path):
    table = predicted(read_table(write(tmp_path / "x.csv"), ["text"]))
    assert table.names == ["id", "text", "label", "predicted_label", "probability"]
    write_table(table, tmp_path / "y.csv")
    with (tmp_path / "y.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
    assert [row["predicted_label"] for row in rows] == ["long", "", "long"]
    assert [row["probability"] for row in rows] == ["1.0", "", "0.125"]
    again = predicted(read_table(tmp_path / "y.csv", ["text"]))
    assert again.names[-2:] == ["predicted_predicted_label", "predicted_probability"]


def test_every_format_gives_the_same(tmp_path):
    table = predicted(read_table(write(tmp_path / "x.csv", ";"), ["text"]))
    for name in ("y.csv", "y.jsonl", "y.parquet"):
        write_table(table, tmp_path / name)
        read = read_table(tmp_path / name, ["text"])
        assert (read.names, read.texts) == (table.names, table.texts)
    assert (tmp_path / "y.csv").read_text().startswith("id;text;label;")
    rows = [json.loads(line) for line in (tmp_path / "y.jsonl").read_text().splitlines()]
    assert rows == table.rows
    with pytest.raises(InputError, match=r"row 3: text = 'e\\tf': a .tsv file cannot hold tabs"):
        write_table(table_of(["d", "e\tf"]), tmp_path / "y.tsv")


def test_parquet_keeps_its_types(tmp_path):
    types = {"text": pyarrow.large_string(), "n": pyarrow.int8()}
    columns = {"text": ["a", None], "n": [1, None]}
    schema = pyarrow.schema(types.items())
    pyarrow.parquet.write_table(pyarrow.table(columns, schema), tmp_path / "x.parquet")
    table = read_table(tmp_path / "x.parquet", ["text"])
    assert table.texts == ["a", ""]
    write_table(table.with_cells([{"vector": [0.5, 1.5]}, None]), tmp_path / "y.parquet")
    read = pyarrow.parquet.read_table(tmp_path / "y.parquet")
    assert {name: read.schema.field(name).type for name in types} == types
    assert read.to_pylist() == [
        {"text": "a", "n": 1, "vector": [0.5, 1.5]}, {"text": None, "n": None, "vector": None},
    ]  # fmt: skip


def test_vectors(tmp_path):
    table = table_of(["a", "", "b"])
    for name in ("v.npy", "v.csv"):
        cells = [vector_cells([1.0, 2.0], tmp_path / name), None]
        cells.append(vector_cells([3.0, 4.0], tmp_path / name))
        write_table(table.with_cells(cells), tmp_path / name)
    array = np.load(tmp_path / "v.npy")
    np.testing.assert_array_equal(array, [[1, 2], [np.nan, np.nan], [3, 4]])
    assert (tmp_path / "v.csv").read_text() == "text,0,1\na,1.0,2.0\n,,\nb,3.0,4.0\n"


def test_columns_by_number_where_there_is_no_header(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("one\teins\ntwo\tzwei\n")
    table = read_table(path, ["1"])
    assert table.texts == ["one", "two"]
    write_table(table.with_cells([{"translation": "a"}, {"translation": "b"}]), path)
    assert path.read_text() == "one\teins\ta\ntwo\tzwei\tb\n"
    path.write_text("2\t1\na\tb\n")
    assert read_table(path, ["1"]).texts == ["b"]  # this is its name
    assert read_table(path, ["1", "2"]).texts == [("b", "a")]


def test_refused_in_one_line(tmp_path):
    path = write(tmp_path / "x.csv")
    assert str(which_column(path)).startswith(f"{path}: this is a table: write --column ")
    assert str(which_column(path)).endswith(": 'id', 'text', 'label'")
    with pytest.raises(InputError, match="there is no column 'body': it has 'id', 'text'"):
        read_table(path, ["body"])
    with pytest.raises(ConfigError, match="only a table has columns"):
        read_table(tmp_path / "x.txt", ["text"])
    (tmp_path / "x.jsonl").write_text('{"text": 7}\n')
    with pytest.raises(InputError, match=r"x.jsonl: line 1: text = 7: write a text"):
        read_table(tmp_path / "x.jsonl", ["text"])
    (tmp_path / "x.jsonl").write_text('{"text": " "}\n')
    with pytest.raises(InputError, match="there is no text in column 'text'"):
        read_table(tmp_path / "x.jsonl", ["text"])
    with pytest.raises(ConfigError, match="this is the file to read: write another name"):
        check_out(path, path)
    with pytest.raises(ConfigError, match=r"write a name that ends in .jsonl, .csv, .tsv, .parq"):
        check_out(tmp_path / "y.npy", path)
