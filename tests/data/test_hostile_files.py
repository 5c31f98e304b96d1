"""Random damage to data files of every format: each is read, or refused in one line.

The cases run in a process of their own, with limited memory: native code may abort.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import random
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

MEMORY, SECONDS = 4 << 30, 60  # of address space; of a case, which needs a fraction of one
LINES = [f"the cat {i} sat on the mat" for i in range(30)]
HOSTILE = [
    b"\0", b"\xff", b'"', b"\t", b",", b"\n", b"\r", b"{", b"[" * 40, b"\xed\xa0\x80", b"NaN",
    b"-1", b"9" * 30, b"1e999", b"\xf0\x9f\x98\x80", b"\\ud800", b"PK\3\4", b"PAR1",
]  # fmt: skip
NUMBERS = [b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f"]


def seeds() -> dict[str, bytes]:
    """A small file of each format, by name."""
    import pyarrow
    import pyarrow.parquet

    rows = [{"text": line, "label": i % 2} for i, line in enumerate(LINES)]
    nested = [{"text": "a", "more": {"x": ["b", "b"], "y": [1, 2]}}] * 9
    tables = {}
    for name, each in (("a", rows), ("nested", nested)):
        file = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(each), file)
        tables[f"{name}.parquet"] = file.getvalue()
    stream = io.BytesIO()
    table = pyarrow.Table.from_pylist(rows)
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for i, line in enumerate(LINES):
            packed.writestr(f"{'ab'[i % 2]}/{i}.txt", line)
    answer = {"text": "cat", "answer_start": 4}
    asked = [{"id": f"{i}", "question": "who", "answers": [answer]} for i in range(5)]
    squad = {"data": [{"paragraphs": [{"context": LINES[0], "qas": asked}]}]}
    words = "".join("".join(f"{w}\tO\n" for w in line.split()) + "\n" for line in LINES)
    text = "\n\n".join(LINES).encode()
    jsonl = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return {
        "a.txt": text, "a.txt.gz": gzip.compress(text), "a.txt.xz": lzma.compress(text),
        "a.jsonl": jsonl, "b.jsonl.gz": gzip.compress(jsonl),
        "a.csv": b"text,label\n" + b"".join(f'"{x}, ""so""",1\n'.encode() for x in LINES),
        "a.tsv": b"text\tlabel\n" + b"".join(f"{x}\t0.5\n".encode() for x in LINES),
        "a.conll": words.encode(), "a.json": json.dumps(squad).encode(),
        "a.zip": archive.getvalue(), "saved/data.arrow": stream.getvalue(), **tables,
    }  # fmt: skip


def damaged(data: bytes, draw: random.Random) -> bytes:
    """One to three changes: a bit, a cut, hostile bytes, a part twice, a large number."""
    changed = bytearray(data)
    for _ in range(draw.randrange(1, 4)):
        place = draw.randrange(len(changed) + 1)
        match draw.randrange(6):
            case 0 if place < len(changed):
                changed[place] ^= 1 << draw.randrange(8)
            case 1:
                del changed[place : place + draw.choice([1, 4, 50, 10**6])]
            case 2:
                changed[place:place] = draw.choice(HOSTILE)
            case 3:
                changed[place:place] = changed[place : place + draw.randrange(200)]
            case 4:
                changed[place : place + 4] = draw.choice(
                    [b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f"]
                )
            case _:
                changed[place : place + 8] = draw.randbytes(8)
    return bytes(changed)


def readers(path: Path) -> Iterator[Callable[[], Any]]:
    """Every reader, whatever the file is called."""
    from glassformer.data.readers import conll, examples, parallel, squad, tables, text

    source = path.parent if path.suffix == ".arrow" else path
    columns = examples.TableColumns("")
    yield lambda: list(text.documents(source))
    yield lambda: list(text.documents(source, ends="line"))
    yield lambda: list(tables.rows(source))
    yield lambda: list(examples.examples(source, examples.guessed(source, columns)))
    if path.suffix in (".conll", ".txt", ".tsv"):
        yield lambda: list(conll.tagged(source))
        yield lambda: list(parallel.pairs(source))
    if path.suffix in (".json", ".gz"):
        yield lambda: list(squad.questions(source))


def attack(seed: int, count: int) -> str:
    """Read so many damaged files; returns how many were refused."""
    from glassformer.errors import GlassformerError

    draw, files, refused = random.Random(seed), sorted(seeds().items()), 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            name, data = files[number % len(files)]
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(damaged(data, draw))
            (path.parent / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
            if path.parent == Path(folder):
                (path.parent / "state.json").unlink()
            print(f"case {number}: {name}", file=sys.stderr, flush=True)
            for read in readers(path):
                begun = time.process_time()
                try:
                    read()
                except GlassformerError as error:
                    refused += 1
                    assert "\n" not in str(error) and str(error).isprintable()
                assert time.process_time() - begun < SECONDS
            path.unlink()
    return f"{refused} refused"


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 260), pytest.param(2, 6_500, marks=pytest.mark.slow)]
)
def test_damaged_data_is_read_or_refused(seed: int, count: int) -> None:
    words = [sys.executable, __file__, str(seed), str(count)]
    end = subprocess.run(words, capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stderr[-2_000:]
    assert int(end.stdout.split()[0]) > count


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.stdout.write(attack(int(sys.argv[1]), int(sys.argv[2])))
