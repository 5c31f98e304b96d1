"""Files of static vectors: every format gives the same table, and what is wrong is one line."""

import gzip
import io
import struct
import zipfile

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.checkpoint import read_configs
from glassformer.errors import CheckpointError, InputError

WORDS = ("the", "film", ".", "loved", "ünder")
ROWS = np.arange(15, dtype=np.float32).reshape(5, 3) / 8 - 1


def glove(words=WORDS, rows=ROWS):
    return "".join(
        f"{w} {' '.join(map(str, row))}\n" for w, row in zip(words, rows, strict=True)
    ).encode()


def word2vec(words=WORDS, rows=ROWS, ends=b"\n", count=None):
    head = f"{count or len(words)} {rows.shape[1]}\n".encode()
    each = (w.encode() + b" " + row.tobytes() + ends for w, row in zip(words, rows, strict=True))
    return head + b"".join(each)


def arrays(**named):
    file = io.BytesIO()
    np.savez_compressed(file, **named)
    return file.getvalue()


FILES = {
    "glove.txt": glove(),
    "glove.txt.gz": gzip.compress(glove()),
    "lines.vec": b"5 3\r\n" + glove().replace(b"\n", b" \r\n"),
    "binary.bin": word2vec(),
    "no-line-ends.bin": word2vec(ends=b""),
    "binary.bin.gz": gzip.compress(word2vec()),
    "arrays.npz": arrays(words=np.array(WORDS), vectors=ROWS),
    "half.npz": arrays(words=np.array(WORDS), vectors=ROWS.astype(np.float16)),
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_table(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    model = gf.load(path)
    assert torch.equal(model.task.backbone.token_embedding[1:], torch.from_numpy(ROWS))
    assert not model.task.backbone.token_embedding[0].any()
    encoding = model.tokenizer.encode("Loved THE film. Ünder? yes")
    assert encoding.tokens == ["loved", "the", "film", ".", "ünder", "[UNK]", "[UNK]"]
    (vector,) = model.embed(["loved film"])
    torch.testing.assert_close(vector, torch.from_numpy((ROWS[3] + ROWS[1]) / 2))
    assert read_configs(path)[0] == model.task.backbone.config
    with pytest.raises(InputError, match="layer = 0: it has none: leave it out"):
        model.word("loved film", "film", layer=0)


def test_saved_as_a_folder_it_is_the_same(tmp_path):
    (tmp_path / "glove.txt").write_bytes(glove())
    model = gf.load(tmp_path / "glove.txt")
    model.export(tmp_path / "folder")
    again = gf.load(tmp_path / "folder")
    assert again.tokenizer.fingerprint == model.tokenizer.fingerprint
    assert torch.equal(again.embed(["loved the film"]), model.embed(["loved the film"]))
    again.save(tmp_path / "other")
    name = "model.safetensors"
    assert (tmp_path / "other" / name).read_bytes() == (tmp_path / "folder" / name).read_bytes()
    card = (tmp_path / "folder/README.md").read_text()
    assert "no other library opens it" in card and "transformers" not in card


def test_words_as_they_stand_where_some_have_capitals(tmp_path):
    (tmp_path / "a.txt").write_bytes(glove(("The", "the", "a b", "film", "the")))
    model = gf.load(tmp_path / "a.txt")
    assert model.tokenizer.encode("The the film").tokens == ["The", "the", "film"]
    assert len(model.tokenizer) == 5  # the second "the" is not read; "a b" holds a space
    assert torch.equal(model.task.backbone.token_embedding[2], torch.from_numpy(ROWS[1]))


def lying(name):
    """An archive whose array says that it is larger than the file."""
    head = io.BytesIO()
    about = {"descr": "<f4", "fortran_order": False, "shape": (10**9, 10**6)}
    np.lib.format.write_array_header_1_0(head, about)
    file = io.BytesIO(arrays(**{each: ROWS for each in ("words", "vectors") if each != name}))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(f"{name}.npy", head.getvalue())
    return file.getvalue()


def broken_lzma():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("words.npy", bytes(range(256)) * 9)
    data = bytearray(file.getvalue())
    data[60:90] = b"\xff" * 30
    return bytes(data)


HUGE = b"1000000000 300\n" + b"the " + struct.pack("<3f", 1, 2, 3)
BAD = {
    "short.txt": (glove() + b"more 1 2\n", "line 6: 'more 1 2\\n': write a word and 3 numbers"),
    "letters.txt": (glove() + b"more 1 2 x\n", "line 6: 'more 1 2 x\\n': write a word and 3"),
    "nan.txt": (glove() + b"more 1 2 nan\n", "line 6: the vector of 'more' contains NaN"),
    "wordless.txt": (glove() + b" 1 2 3\n", "line 6: the word is '': write a word"),
    "latin.txt": (glove() + b"\xe9t\xe9 1 2 3\n", "line 6: not UTF-8"),
    "prose.txt": (b"hello\n", "line 1: vectors of 0 numbers"),
    "empty.txt": (b"", "there are no words in it"),
    "few.vec": (b"9 3\n" + glove(), "line 1 declares 9 words, and there are 5: correct"),
    "more.vec": (b"4 3\n" + glove(), "line 1 declares 4 words, and there are 5"),
    "wide.vec": (b"2 99999\n", "line 1: vectors of 99,999 numbers"),
    "cut.txt.gz": (gzip.compress(glove())[:-9], "cannot be read"),
    "huge.bin": (HUGE, "1,000,000,000 words of 300 numbers need at least 1,202,000,000,000 bytes"),
    "cut.bin": (word2vec()[:-9], "word 5: the file ends in the middle of it"),
    "cut.bin.gz": (gzip.compress(word2vec()[:-9]), "word 5: the file ends in the middle of it"),
    "latin.bin": (word2vec().replace("ünder".encode(), b"\xfcnd er"), "is not UTF-8"),
    "pickle.bin": (b"\x80\x02}q\x00.", "never opened here"),
    "no.npz": (b"PK", "cannot be read"),
    "one.npz": (arrays(words=np.array(WORDS)), "there is no array 'vectors'"),
    "flat.npz": (arrays(words=np.array(WORDS), vectors=ROWS[:, 0]), "write a vector of numbers"),
    "count.npz": (arrays(words=np.array(WORDS[:4]), vectors=ROWS), "words [4] and vectors [5, 3]"),
    "whole.npz": (arrays(words=np.array(WORDS), vectors=ROWS.astype(int)), "of int64"),
    "bytes.npz": (arrays(words=np.arange(5), vectors=ROWS), "write an array of strings"),
    "object.npz": (
        arrays(words=np.array(list(WORDS), dtype=object), vectors=ROWS), "not a numpy array"
    ),
    "half.npz": (
        arrays(words=np.array([*WORDS[:4], "\ud800"]), vectors=ROWS), "write a word"
    ),
    "far.npz": (
        arrays(words=np.array(["a"] * 5).view(np.int32).__add__(1 << 30).view("<U1"), vectors=ROWS),
        "words contain invalid characters",
    ),
    "vast.npz": (
        arrays(words=np.array(WORDS), vectors=np.full((5, 3), 1e300)), "contains NaN or infinity"
    ),
    "lzma.npz": (broken_lzma(), "cannot be read"),
    "bomb.npz": (
        arrays(words=np.array(WORDS), vectors=np.zeros((1000, 1000), np.float32)),
        "vectors: it unpacks to 4,000,128 bytes",
    ),
    "wide.npz": (arrays(words=np.array(["a" * 900_000]), vectors=ROWS), "words: it unpacks to"),
    "bomb.txt.gz": (gzip.compress(b"the 1 2 3\n" * 200_000), "times as large as the file"),
    "bomb.bin.gz": (
        gzip.compress(b"200000 3\n" + b"the aaaabbbbcccc" * 200_000), "times as large as the file"
    ),
    "lying.npz": (lying("vectors"), "an array of 4,000,000,000,000,000 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_one_line(name, tmp_path):
    data, why = BAD[name]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as caught:
        gf.load(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ") and why in line and "\n" not in line
