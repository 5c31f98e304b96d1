"""Ids on disk: what was written is read, whole or refused by name."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.store import META, Meta, Store, Writer, read_meta
from glassformer.errors import InputError
from stores import store_of

LISTS = st.lists(st.lists(st.integers(0, 65_535), max_size=9), min_size=1, max_size=15)


@settings(max_examples=40)
@given(LISTS, st.integers(1, 4))
def test_what_was_written_is_read(tmp_path_factory, lists, shards):
    folder = tmp_path_factory.mktemp("store")
    column = store_of(folder, shards=shards, tokens=lists)["tokens"]
    assert np.diff(column.offsets).tolist() == [len(each) for each in lists]
    assert column.row.tolist() == [i for each in lists for i in each]
    assert [each.tolist() for each in column.lists()] == lists
    assert len(column) == column.offsets[-1] == sum(map(len, lists))


@settings(max_examples=40)
@given(LISTS.filter(any), st.integers(1, 4), st.data())
def test_spans_are_taken_across_shards(tmp_path_factory, lists, shards, data):
    column = store_of(tmp_path_factory.mktemp("store"), shards=shards, tokens=lists)["tokens"]
    whole = [i for each in lists for i in each]
    starts = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=6))
    spans = [(start, data.draw(st.integers(0, len(whole) - start))) for start in starts]
    found = column.take(np.array(spans, dtype=np.int64).reshape(-1, 2))
    assert found.tolist() == [i for start, size in spans for i in whole[start : start + size]]


def test_a_large_vocabulary_has_four_bytes_an_id(tmp_path):
    writer = Writer(tmp_path, Meta("x", "<u4", ["tokens"]))
    writer.add({"tokens": [70_000, 3]})
    writer.close_shard(done=True)
    assert Store(tmp_path)["tokens"].row.tolist() == [70_000, 3]
    assert (tmp_path / "tokens-00000.bin").stat().st_size == 8


def test_an_id_that_does_not_fit_is_not_bent(tmp_path):
    with pytest.raises(OverflowError):
        store_of(tmp_path, tokens=[[70_000]])


def test_columns_go_together(tmp_path):
    store = store_of(tmp_path, source=[[1, 2], [3]], target=[[4], [5, 6, 7]])
    assert store.documents == 2
    assert store["source"].row.tolist() == [1, 2, 3]
    assert store["target"].offsets.tolist() == [0, 1, 4]
    with pytest.raises(InputError, match=r"no column 'tokens', there are source, target: prepare"):
        store["tokens"]


def test_a_store_is_for_one_tokenizer(tmp_path):
    store = store_of(tmp_path, tokens=[[1]])
    store.check("none")
    with pytest.raises(InputError, match=r"prepared with another tokenizer .* prepare the data"):
        store.check("sha256:other")


# damage


@pytest.fixture
def folder(tmp_path):
    store_of(tmp_path / "s", shards=2, tokens=[[1, 2, 3], [4, 5], [6]])
    return tmp_path / "s"


@pytest.mark.parametrize("name", ["tokens-00000.bin", "tokens-00001.idx", "tokens-00001.bin"])
def test_a_file_that_is_missing_or_short_is_named(folder, name):
    path = folder / name
    whole = path.read_bytes()
    for damaged in (whole[:-8], whole[:-1], whole[: len(whole) // 2], b""):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="prepare the data again") as error:
            Store(folder)
        assert "\n" not in str(error.value) and str(folder) in str(error.value)
    path.unlink()
    with pytest.raises(InputError, match=name):
        Store(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"done": False}, "no prepared data: run glassformer data prepare"),
        ({"version": 99}, "version 99: delete .* and prepare the data again"),
        ({"extra": 1}, "prepare the data again"),
        ({"columns": ["tokens", "sentences"]}, "sentences-00000.idx"),
        ({"kind": "|O"}, "prepare the data again"),
        ({"columns": ["../tokens"]}, "prepare the data again"),
        ({"documents": "two"}, "documents: .* list: delete .* and prepare"),
        ({"tokens": {"tokens": [3.5]}}, "tokens.tokens.0: .*: delete .* and prepare"),
    ],
)
def test_a_meta_file_that_says_something_else_is_named(folder, change, told):
    meta = json.loads((folder / META).read_text()) | change
    (folder / META).write_text(json.dumps(meta))
    with pytest.raises(InputError, match=told):
        Store(folder)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\xff{}", b'{"version": NaN}', b"[" * 9_000]
)
def test_a_meta_file_that_is_no_json_is_named(folder, content):
    (folder / META).write_bytes(content)
    with pytest.raises(InputError, match=r"store\.json: .*: delete .* and prepare the data again"):
        Store(folder)


def test_a_flipped_bit_is_found(folder):
    Store(folder).verify(10)
    for path in sorted(folder.glob("tokens-*.bin")):
        whole = path.read_bytes()
        path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
        with pytest.raises(InputError, match=f"{path.name}: its sha256 differs from store.json"):
            Store(folder).verify(10)
        path.write_bytes(whole)


@pytest.mark.parametrize(
    "offsets",
    [[0, 9, 5], [1, 3, 5], [0, -1, 5], [0, 2**53, 5], [0, 5], [0, 3, 5, 5], [0, 3, 2**53]],
)
def test_an_index_that_leads_astray_is_refused_before_anything_is_allocated(folder, offsets):
    path = folder / "tokens-00000.idx"
    path.write_bytes(np.array(offsets, dtype="<i8").tobytes())
    with pytest.raises(InputError, match=r"tokens-00000\.(idx|bin): it.*: delete .* and prepare"):
        Store(folder)


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"tokens": [[1, 10]]}, "tokens-00000.bin: a number in it is no token id"),
        ({"tokens": [[1, 2]], "sentences": [[0, 2]]}, "sentences-00000.bin: .* no position in its"),
        ({"tokens": [[1, 2]], "sentences": [[-1]]}, "sentences-00000.bin: .* no position in its"),
        ({"tokens": [[1]], "labels": [[3]]}, "labels-00000.bin: .* no label"),
        ({"tokens": [[1]], "labels": [[-101]]}, "labels-00000.bin: .* no label"),
        ({"tokens": [[1]], "several": [[0, -1]]}, "several-00000.bin: .* no label"),
        ({"tokens": [[1]], "values": [[float("nan")]]}, "values-00000.bin: .* no finite number"),
        ({"question": [[1]], "tokens": [[1]], "labels": [[0, 1]]}, "labels-00000.bin: .* no label"),
    ],
)
def test_numbers_out_of_range_are_named(tmp_path, columns, named):
    store = store_of(tmp_path, **columns)
    with pytest.raises(InputError, match=named):
        store.verify(10)


def test_a_shard_that_is_no_file_does_not_block(folder):
    (folder / "tokens-00001.bin").unlink()
    os.mkfifo(folder / "tokens-00001.bin")
    with pytest.raises(InputError, match=r"tokens-00001\.bin: there is no such file"):
        Store(folder)


def test_the_metadata_of_many_files_is_read_again(folder):
    meta = json.loads((folder / META).read_text())
    meta["files"] = [
        {"name": f"{i}", "size": 1, "changed": 2, "digest": "3"} for i in range(50_000)
    ]
    (folder / META).write_text(json.dumps(meta))
    assert len(Store(folder).meta.files) == 50_000


def test_no_meta_file_is_no_store(tmp_path):
    assert read_meta(tmp_path) is None
    with pytest.raises(InputError, match="no prepared data"):
        Store(tmp_path)


def test_nothing_is_left_beside_a_store(folder):
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        [META, *(f"tokens-0000{i}.{kind}" for i in (0, 1) for kind in ("bin", "idx"))]
    )
