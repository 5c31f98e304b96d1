"""GGUF files that are not whole, not known or not safe: each gets one line, fast and cheap."""

import os
import resource
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

import ggufs
import glassformer as gf
from folders import one_line
from ggufs import GONE, after, patch
from glassformer.errors import GlassformerError
from sampling import mostly_slow

Damage = Callable[[Path], object]
NAMES = ("blk.1.ffn_up.weight", "blk.2.ffn_up.weight")
TYPES = "tokenizer.ggml.token_type"
TOKENS = "tokenizer.ggml.tokens"
MERGES = "tokenizer.ggml.merges"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good file, to be copied and then damaged."""
    path = rewritten()(tmp_path_factory.mktemp("whole") / "good.gguf")
    gf.load(path)
    return path


def rewritten(**how: Any) -> Callable[[Path], Path]:
    changes = ggufs.tokenizer() | how.pop("changes", {})
    return lambda path: ggufs.write(path, ggufs.reference(vocab_size=301), changes=changes, **how)


def field(name: str, value: Any) -> Damage:
    return rewritten(changes={name: value})


def tokenizer(**changes: Any) -> Damage:
    return rewritten(changes={f"tokenizer.ggml.{name}": value for name, value in changes.items()})


def tensors(change: Callable[[dict[str, np.ndarray]], object]) -> Damage:
    return rewritten(tensors=change)


def renamed(old: str, new: str) -> Damage:
    return tensors(lambda weights: weights.update({new: weights.pop(old)}))


def number(value: float, name: str = NAMES[0]) -> Damage:
    return tensors(lambda weights: weights[name].__setitem__((3, 5), value))


def at(place: int, code: str, *values: Any) -> Damage:
    return lambda path: patch(path, place, code, *values)


def inside(name: str, skip: int, code: str, *values: Any) -> Damage:
    """Other bytes behind the name of a field or a tensor."""
    return lambda path: patch(path, after(path.read_bytes(), name) + skip, code, *values)


def sizes(*values: int) -> Damage:
    return inside(NAMES[0], 4, "QQ", *values)


def kind(value: int) -> Damage:
    return inside(NAMES[0], 20, "I", value)


def offset(value: int) -> Damage:
    return inside(NAMES[0], 24, "Q", value)


def cut(keep: int) -> Damage:
    return lambda path: os.truncate(path, keep if keep >= 0 else path.stat().st_size + keep)


def content(data: bytes) -> Damage:
    return lambda path: path.write_bytes(data)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(target: str) -> Damage:
    def change(path: Path) -> None:
        path.rename(path.with_name("real"))
        path.symlink_to(target)

    return change


def texts(count: int) -> bytes:
    """A header with one field, a list of so many empty texts."""
    front = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + struct.pack(
        "<Q4sIIQ", 4, b"many", 9, 8, count
    )
    return front + bytes(8 * min(count, 9 << 20))


def two_on_one(path: Path) -> None:
    data = path.read_bytes()
    places = [after(data, name) + 24 for name in NAMES]
    (there,) = struct.unpack_from("<Q", data, places[1])
    patch(path, places[0], "Q", there)


def twice(name: str, other: str) -> Damage:
    """Two names of one length become one."""
    return lambda path: path.write_bytes(path.read_bytes().replace(other.encode(), name.encode()))


def merges(*more: str) -> Damage:
    return field(MERGES, [*ggufs.tokenizer()[MERGES], *more])


def without(name: str) -> Damage:
    """A list without its last item."""
    return field(name, ggufs.tokenizer()[name][:-1])


def aligned(value: int) -> Damage:
    def change(path: Path) -> None:
        field("general.alignment", 64)(path)
        inside("general.alignment", 4, "I", value)(path)

    return change


REFUSED: dict[str, tuple[Damage, tuple[str, ...]]] = {
    # the file
    "nothing there": (Path.unlink, ("File not found",)),
    "a FIFO": (fifo, ("a FIFO",)),
    "a link": (link("real"), ("a link",)),
    "a link to a device": (link("/dev/zero"), ("a link",)),
    "empty": (content(b""), ("empty",)),
    "one letter": (content(b"G"), ("not a GGUF file",)),
    "another file": (content(b"PK\x03\x04" + bytes(99)), ("not a GGUF file",)),
    "nothing but a name": (content(b"GGUF"), ("version",)),
    "version 1": (at(4, "I", 1), ("version = 1",)),
    "version 4": (at(4, "I", 4), ("version = 4",)),
    "big-endian": (rewritten(endian=gguf.GGUFEndian.BIG), ("big-endian",)),
    "cut in the counts": (cut(20), ("number of fields",)),
    "cut in the fields": (cut(1_500), ("field", "truncated")),
    "cut in its first field": (cut(50), ("tensors",)),
    "cut in the tokens": (cut(3_000), (TOKENS, "truncated")),
    "cut in the weights": (cut(-700), ("truncated",)),
    "cut by one byte": (cut(-1), ("truncated",)),
    # counts and lengths
    "many tensors": (at(8, "Q", 1 << 60), ("1,152,921,504,606,846,976 tensors",)),
    "more tensors than fit": (at(8, "Q", 50_000), ("50,000 tensors",)),
    "one tensor more": (at(8, "Q", 31), ("tensor",)),
    "many fields": (at(16, "Q", (1 << 64) - 1), ("18,446,744,073,709,551,615 fields",)),
    "one field more": (at(16, "Q", 40), ("field",)),
    "a long name": (at(24, "Q", 1 << 63), ("field 0", "9,223,372,036,854,775,808")),
    "a name of 2 kB": (at(24, "Q", 2_000), ("field 0", "2,000")),
    "a long text": (inside("tokenizer.ggml.pre", 4, "Q", 1 << 63), ("tokenizer.ggml.pre",)),
    "a long list": (inside(TOKENS, 8, "Q", 1 << 61), (TOKENS, "2,305,843,009,213,693,952")),
    "a long list of numbers": (inside(TYPES, 8, "Q", 1 << 63), (TYPES,)),
    "a list of lists": (inside(TOKENS, 4, "I", 9), (TOKENS, "type 9")),
    "a field of no kind": (inside("llama.block_count", 0, "I", 77), ("block_count", "77")),
    "millions of texts": (content(texts(3 << 20)), ("'many'", "3,145,728 texts")),
    "as many as may be": (content(texts(1 << 20)), ("general.architecture", "None")),
    "a field twice": (
        twice("llama.rope.freq_base", "llama.context_length"), ("llama.rope.freq_base", "twice"),
    ),
    "no text": (inside(TOKENS, 16 + 8, "B", 255), (TOKENS, "UTF-8")),
    # tensors
    "three dimensions": (
        tensors(lambda t: t.update({NAMES[0]: t[NAMES[0]][None]})), (NAMES[0], "[1, 37, 24]"),
    ),
    "no dimension": (inside(NAMES[0], 0, "I", 0), (NAMES[0], "0 dimensions")),
    "many dimensions": (inside(NAMES[0], 0, "I", (1 << 32) - 1), (NAMES[0], "4294967295")),
    "an empty tensor": (sizes(0, 37), (NAMES[0], "empty")),
    "absurd sizes": (sizes(1 << 62, 1 << 62), (NAMES[0], "truncated")),
    "sizes that wrap around": (sizes(1 << 32, 1 << 32), (NAMES[0], "truncated")),
    "another shape": (sizes(23, 37), (NAMES[0], "[37, 23]", "[37, 24]")),
    "the other way round": (sizes(37, 24), (NAMES[0], "[24, 37]", "[37, 24]")),
    "an unknown kind": (kind(999), (NAMES[0], "999")),
    "a kind of the past": (kind(4), (NAMES[0], "4")),
    "whole numbers": (kind(26), (NAMES[0], "I32")),
    "a kind that is not unpacked": (kind(16), (NAMES[0], "IQ2_XXS")),
    "rows that are no blocks": (kind(8), (NAMES[0], "rows of 24", "Q8_0")),
    "an offset outside": (offset(1 << 40), (NAMES[0], "truncated")),
    "an offset that wraps around": (offset((1 << 64) - 32), (NAMES[0], "truncated")),
    "an odd offset": (offset(33), (NAMES[0], "33", "32")),
    "one tensor on another": (two_on_one, (*NAMES, "overlap")),
    "a tensor twice": (twice(*NAMES), (NAMES[0], "there twice")),
    "NaN": (number(float("nan")), (NAMES[0], "NaN")),
    "infinity": (number(float("inf"), "token_embd.weight"), ("token_embd.weight", "infinity")),
    "a tensor missing": (tensors(lambda t: t.pop(NAMES[0])), (NAMES[0], "missing")),
    "no token table": (tensors(lambda t: t.pop("token_embd.weight")), ("token_embd.weight",)),
    "an unknown tensor": (renamed("output_norm.weight", "evil.weight"), ("output_norm.weight",)),
    "scaled rotations": (
        tensors(lambda t: t.update({"rope_freqs.weight": np.ones(2, np.float32)})),
        ("rope_freqs.weight",),
    ),
    "a layer too many": (
        tensors(lambda t: t.update({"blk.3.ffn_up.weight": t[NAMES[0]]})), ("blk.3.ffn_up.weight",),
    ),
    # fields
    "another architecture": (rewritten(architecture="mamba"), ("'mamba'", "'llama'", "'qwen3'")),
    "an adapter": (field("general.type", "adapter"), ("general.type", "'adapter'")),
    "a part of a file": (field("split.count", 3), ("split.count", "3")),
    "alignment of 0": (aligned(0), ("general.alignment = 0",)),
    "alignment of 48": (aligned(48), ("general.alignment = 48",)),
    "a large alignment": (aligned(1 << 31), ("token_embd.weight", "2,147,")),
    "linear scaling": (field("llama.rope.scaling.type", "linear"), ("'linear'", "'none'")),
    "yarn": (field("llama.rope.scaling.type", "yarn"), ("llama.rope.scaling.type", "'yarn'")),
    "a scaling factor": (field("llama.rope.scaling.factor", 2.0), ("scaling.factor", "2.0")),
    "experts": (field("llama.expert_count", 8), ("llama.expert_count", "8")),
    "an unknown field": (field("llama.logit_scale", 0.5), ("llama.logit_scale", "arithmetic")),
    "a window": (field("llama.attention.sliding_window", 4), ("llama.attention.sliding_window",)),
    "part of a head turns": (field("llama.rope.dimension_count", 2), ("dimension_count", "2", "4")),
    "another value width": (field("llama.attention.value_length", 8), ("value_length", "8")),
    "an odd head": (field("llama.attention.key_length", 5), ("llama.",)),
    "no width": (field("llama.embedding_length", GONE), ("llama.embedding_length", "missing")),
    "no norm": (field("llama.attention.layer_norm_rms_epsilon", GONE), ("rms_epsilon", "missing")),
    "NaN as a base": (field("llama.rope.freq_base", float("nan")), ("llama.rope.freq_base",)),
    "a base of 0": (field("llama.rope.freq_base", 0.0), ("llama.rope.freq_base", "0.0")),
    "a text as depth": (field("llama.block_count", "3"), ("llama.block_count", "'3'")),
    "a negative depth": (field("llama.block_count", -3), ("llama.block_count", "-3")),
    "depth 0": (field("llama.block_count", 0), ("llama.block_count", "0")),
    "a large depth": (field("llama.block_count", (1 << 32) - 1), ("4294967295",)),
    "one layer more": (field("llama.block_count", 4), ("blk.3.",)),
    "one layer less": (field("llama.block_count", 2), ("blk.2.",)),
    "heads that do not divide": (field("llama.attention.head_count", 5), ("head_count", "5")),
    "heads for each layer": (field("llama.attention.head_count_kv", [2, 2, 2]), ("head_count_kv",)),
    "a large context": (field("llama.context_length", (1 << 32) - 1), ("4294967295",)),
    "a large vocabulary": (field("llama.vocab_size", (1 << 32) - 1), ("4294967295",)),
    "another vocabulary": (field("llama.vocab_size", 300), ("token_embd.weight", "[301, 24]")),
    # the tokenizer
    "no tokens": (tokenizer(tokens=GONE), (TOKENS,)),
    "tokens are numbers": (tokenizer(tokens=[1, 2]), (TOKENS, "texts")),
    "a token twice": (tokenizer(tokens=["a"] * 301), (TOKENS, "'a'")),
    "a token too many": (tokenizer(tokens=[str(i) for i in range(302)]), ("token_type",)),
    "more tokens than rows": (
        tokenizer(tokens=[str(i) for i in range(302)], token_type=[1] * 302, merges=["1 2"]),
        ("301", "vocab_size"),
    ),
    "a kind missing": (without(TYPES), (TYPES, "275", "276")),
    "no merges": (tokenizer(merges=GONE), (MERGES,)),
    "a merge of three": (merges("t h e"), (MERGES, "['t', 'h', 'e']")),
    "a merge of one": (merges("t"), (MERGES, "['t']")),
    "a merge to no token": (merges("Z Z"), (MERGES, "['Z', 'Z']")),
    "a start of no token": (tokenizer(bos_token_id=301), ("bos_token_id", "301")),
    "an end in words": (tokenizer(eos_token_id="</s>"), ("eos_token_id", "'</s>'")),
    "a start that is not there": (
        tokenizer(add_bos_token=True, bos_token_id=GONE),
        ("add_bos_token", "bos_token_id"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_damaged_file_gets_one_line(name: str, whole: Path, tmp_path: Path) -> None:
    damage, words = REFUSED[name]
    path = tmp_path / "damaged.gguf"
    shutil.copyfile(whole, path)
    damage(path)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(GlassformerError) as caught:
        gf.load(path)
    line = one_line(caught.value, "damaged.gguf", *words)
    assert time.process_time() - start < 20, line  # a fraction of a second
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10, line


def test_the_good_file_is_good(whole: Path) -> None:
    model = gf.load(whole)
    assert model.tokenizer.encode("the cat").tokens == ["the", "Ġcat"]
    assert torch.isfinite(model.logits([[1, 2, 3]])[0]).all()


@pytest.mark.parametrize("seed", mostly_slow(range(5)))
def test_random_damage_never_gives_more_than_one_line(
    seed: int, whole: Path, tmp_path: Path
) -> None:
    """Any byte of the header changed: refused in one line, or harmless."""
    data = whole.read_bytes()
    draw = np.random.default_rng(seed)
    end = data.index(b"output_norm.weight") + 40
    path = tmp_path / "damaged.gguf"
    for place in draw.integers(0, end, 60):
        damaged = bytearray(data)
        damaged[place] = draw.integers(0, 256)
        path.write_bytes(damaged)
        try:
            gf.load(path)
        except GlassformerError as error:
            one_line(error)
        except UserWarning:
            pass  # a tokenizer whose name is damaged


def test_a_folder_may_be_called_so(tmp_path: Path) -> None:
    (tmp_path / "folder.gguf").mkdir()
    with pytest.raises(GlassformerError) as caught:
        gf.load(tmp_path / "folder.gguf")
    one_line(caught.value, "config.json")
