"""Ids on disk: what was written is read, whole or refused by name."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.store import META, Meta, Store, Writer, read_meta
from glassformer.errors import CheckpointError, InputError
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
        ({"version": 99}, "version 99: prepare the data again"),
        ({"extra": 1}, "prepare the data again"),
        ({"columns": ["tokens", "sentences"]}, "sentences-00000.idx"),
        ({"kind": "|O"}, "prepare the data again"),
        ({"columns": ["../tokens"]}, "prepare the data again"),
        ({"documents": "two"}, "documents: .* list.*: prepare the data again"),
        ({"tokens": {"tokens": [3.5]}}, "tokens.tokens.0: .*: prepare the data again"),
    ],
)
def test_a_meta_file_that_says_something_else_is_named(folder, change, told):
    meta = json.loads((folder / META).read_text()) | change
    (folder / META).write_text(json.dumps(meta))
    with pytest.raises((InputError, CheckpointError), match=told):
        Store(folder)


def test_no_meta_file_is_no_store(tmp_path):
    assert read_meta(tmp_path) is None
    with pytest.raises(InputError, match="no prepared data"):
        Store(tmp_path)


def test_nothing_is_left_beside_a_store(folder):
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        [META, *(f"tokens-0000{i}.{kind}" for i in (0, 1) for kind in ("bin", "idx"))]
    )
