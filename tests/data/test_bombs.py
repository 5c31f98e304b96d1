"""Small files that unpack to much, and tables of absurd shapes, are refused at no cost."""

from __future__ import annotations

import gzip
import lzma
import resource
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from glassformer.data.readers.conll import tagged
from glassformer.data.readers.examples import TableColumns, guessed
from glassformer.data.readers.files import stop
from glassformer.data.readers.folders import labelled_files
from glassformer.data.readers.squad import questions
from glassformer.data.readers.tables import located, rows
from glassformer.data.readers.text import documents
from glassformer.errors import InputError

MB = 2**20
LONG = "a" * (MB // 2)


def refused(read: Iterable[Any], *, most: int = 60) -> str:
    """The line of the error; the memory of the process grows by at most so many megabytes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError) as caught:
        for _ in read:
            pass
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < most * 1024
    assert "\n" not in str(caught.value)
    return str(caught.value)


MIXED = bytes(range(33, 127)) * 10 + b"\n"
PACKED = {  # packing takes seconds
    "short.txt.gz": lambda: gzip.compress(b"a\n" * 8 * MB),
    "documents.txt.gz": lambda: gzip.compress(b"a\n\n" * 8 * MB),
    "line.txt.gz": lambda: gzip.compress(b"a" * 32 * MB),
    "rows.jsonl.gz": lambda: gzip.compress(b'{"text": "a"}\n' * MB),
    "spaces.txt.xz": lambda: lzma.compress(b" " * 64 * MB),
    "text first.txt.gz": lambda: gzip.compress(MIXED + b"a\n" * 8 * MB),
}


@pytest.mark.parametrize("name", PACKED)
def test_text_that_is_packed_to_a_thousandth_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(PACKED[name]())
    line = refused(documents(tmp_path / name))
    assert f"{name}: its first" in line and "unpack it first, if you trust it" in line


@pytest.mark.parametrize("repeated", [10, 3_000])
def test_packed_text_of_usual_density_is_read(tmp_path: Path, repeated: int) -> None:
    text = "".join(f"{i} is {i * 7919 % 1009}\n" for i in range(repeated))
    for name, pack in (("a.txt.gz", gzip.compress), ("a.txt.xz", lzma.compress)):
        (tmp_path / name).write_bytes(pack(text.encode()) + pack(b"\nend\n"))  # two members
        assert list(documents(tmp_path / name)) == [text.removesuffix("\n"), "end"]


def test_questions_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"data": [' + b'{"paragraphs":[]},' * 100_000 + b"{}]}")
    assert "100,002 objects" in refused(questions(path))
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(path.read_bytes() * 9))
    assert "unpack it first" in refused(questions(tmp_path / "b.json.gz"))


def test_archives(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(20):
            archive.writestr(f"{'ab'[i % 2]}/{i}.txt", b"a\n" * MB)
    read = (guessed(path, TableColumns("")) for path in [tmp_path / "a.zip"])
    assert "a.zip: 20 files of 41,943,040 bytes" in refused(read)


def parquet(path: Path, **columns: Any) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd")
    return path


def test_parquet_files_that_unpack_to_far_more_than_they_are(tmp_path: Path) -> None:
    def line(name: str, cells: Any, **options: Any) -> str:
        return refused(located(parquet(tmp_path / f"{name}.parquet", text=cells)), **options)

    dictionary = pyarrow.array([LONG])
    shared = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 300), dictionary)
    lists = pyarrow.ListArray.from_arrays([0, 300], shared)
    assert "row 1 has 157,286,408 bytes" in line("shared", lists)
    assert "row 1 has" in line("cells", [[True] * 3_000_000], most=100)
    assert "2,000,000 rows" in line("rows", pyarrow.array(["a"] * 2_000_000))


@pytest.mark.parametrize("name", ["run-end encoded", "dictionary of nested", "list view"])
def test_arrow_types_that_repeat_without_a_bound(tmp_path: Path, name: str) -> None:
    lists = pyarrow.array([["a" * 1000]])
    cells = {
        "run-end encoded": pyarrow.RunEndEncodedArray.from_arrays([10**6], ["a" * 1000]),
        "dictionary of nested": pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 9), lists),
        "list view": pyarrow.ListViewArray.from_arrays([0] * 9, [1] * 9, pyarrow.array(["a"])),
    }[name]
    batch = pyarrow.record_batch({"text": cells})
    with pyarrow.ipc.new_stream(str(tmp_path / "a.arrow"), batch.schema) as stream:
        stream.write_batch(batch)
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "a.arrow"}]}')
    assert name in refused(located(tmp_path))


def test_a_text_that_rows_share_is_not_held_for_all_of_them(tmp_path: Path) -> None:
    shared = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 200), pyarrow.array([LONG]))
    path = parquet(tmp_path / "a.parquet", text=shared, label=list(range(200)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = 0
    for _, row in located(path):
        assert row == {"text": LONG, "label": read}
        read += 1
    assert read == 200
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 * 1024


def test_cells_of_every_type_come_back(tmp_path: Path) -> None:
    cells = [
        {"text": "a", "answers": {"text": ["x", "x"], "start": [1, 2]}, "n": 1.5, "b": b"z"},
        {"text": None, "answers": {"text": [], "start": []}, "n": None, "b": None},
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(cells), tmp_path / "a.parquet")
    assert [row for _, row in located(tmp_path / "a.parquet")] == cells


def test_tables_of_too_many_columns(tmp_path: Path) -> None:
    wide = "\t".join(f"c{i}" for i in range(40_000))
    for name, text in {
        "wide.tsv": wide, "wide.csv": wide.replace("\t", ","), "tabs.tsv": "\t" * 8 * MB,
        "commas.csv": "," * 8 * MB,
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text + "\n")
        begun = time.process_time()
        assert "columns" in refused(rows(tmp_path / name), most=100)
        assert time.process_time() - begun < 20  # a fraction of a second; it once took 36
    many = parquet(tmp_path / "a.parquet", **{f"c{i}": ["a"] for i in range(10_001)})
    assert "more than 10,000 columns" in refused(located(many), most=150)
    (tmp_path / "a.conll").write_text("a " * MB)
    assert "more than 65,536 characters" in refused(tagged(tmp_path / "a.conll"))


def test_an_error_names_a_few_columns_only(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("\t".join(f"c{i}" for i in range(99)) + "\nx\n")
    assert refused(rows(tmp_path / "a.tsv")).endswith("'c19', …")


def test_a_member_without_a_name_is_skipped(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("good/1.txt", "bad/2.txt", "x!"):
            archive.writestr(name, "a cat")
    data = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(data.replace(b"x!", b"./"))  # a path without parts
    read = labelled_files(tmp_path / "a.zip", stop)
    assert sorted(each.label for each in read) == ["bad", "good"]
