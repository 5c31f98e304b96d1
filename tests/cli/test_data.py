"""`data prepare` and `data stats` as a user meets them."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import glassformer, refused
from glassformer.data.stats import CorpusStats, histogram, spread
from glassformer.data.store import Store
from glassformer.text.training import tokenizer_files
from stores import RUSSIAN, TEXTS, bpe, chars, translation, wordpiece

GLASSFORMER = Path(sys.executable).with_name("glassformer")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Tokenizers and texts in files of all kinds."""
    folder = tmp_path_factory.mktemp("data")
    made = {"bpe": bpe(), "wordpiece": wordpiece(), "translation": translation(), "chars": chars()}
    for name, tokenizer in made.items():
        (folder / name).mkdir()
        for file, data in tokenizer_files(tokenizer).items():
            (folder / name / file).write_bytes(data)
    (folder / "text.txt").write_text("\n\n".join(TEXTS))
    (folder / "more.jsonl").write_text("".join(json.dumps({"body": t}) + "\n" for t in TEXTS))
    pairs = list(zip(TEXTS, RUSSIAN * 2, strict=True))
    flat = [(a.replace("\n", " "), b) for a, b in pairs]
    (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in flat))
    for side, name in enumerate(("train.en", "train.ru")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in flat))
    return folder


def ids(store, column="tokens"):
    return [each.tolist() for each in Store(store)[column].lists()]


# prepare


def test_prepare_writes_a_store_and_tells(place, tmp_path):
    said = glassformer(
        "data", "prepare", place / "text.txt", "--tokenizer", place / "bpe", "--out",
        tmp_path / "s", columns=200,
    )  # fmt: skip
    assert ids(tmp_path / "s") == [[*each, 0] for each in bpe().ids(TEXTS)]
    assert re.search(r"documents +6 ", said) and f"{tmp_path / 's'}: " in said
    again = glassformer(
        "data", "prepare", place / "text.txt", "--tokenizer", place / "bpe", "--out",
        tmp_path / "s", "--json",
    )  # fmt: skip
    facts = json.loads(again)
    assert facts["documents"] == 6 and facts["shards"] == 1
    assert facts["tokens"] == {"tokens": sum(map(len, ids(tmp_path / "s")))}
    assert facts["fingerprint"] == bpe().fingerprint


def test_prepare_takes_a_field_of_a_table_and_several_files(place, tmp_path):
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress((place / "text.txt").read_bytes()))
    glassformer(
        "data", "prepare", place / "more.jsonl", packed, "--field", "body", "--tokenizer",
        place / "bpe", "--out", tmp_path / "s",
    )  # fmt: skip
    assert len(ids(tmp_path / "s")) == 12
    assert ids(tmp_path / "s")[:6] == ids(tmp_path / "s")[6:]


def test_prepare_sentences(place, tmp_path):
    glassformer(
        "data", "prepare", place / "text.txt", "--kind", "sentences", "--tokenizer",
        place / "wordpiece", "--out", tmp_path / "s",
    )  # fmt: skip
    assert list(map(len, ids(tmp_path / "s", "sentences"))) == [4, 3, 2, 1, 3, 3]


def test_prepare_pairs_of_one_file_or_two(place, tmp_path):
    for name, files in (("one", ["pairs.tsv"]), ("two", ["train.en", "train.ru"])):
        glassformer(
            "data", "prepare", *(place / file for file in files), "--kind", "pairs", "--tokenizer",
            place / "translation", "--out", tmp_path / name,
        )  # fmt: skip
    for column in ("source", "target"):
        assert ids(tmp_path / "one", column) == ids(tmp_path / "two", column)
    assert ids(tmp_path / "one", "target") == translation().ids(RUSSIAN * 2)


def test_prepare_refuses_in_one_line(place, tmp_path):
    usual = ("--tokenizer", place / "bpe", "--out", tmp_path / "s")

    def wrong(*words, code=1):
        return refused("data", "prepare", *words, code=code)

    assert f"File not found: {place / 'nowhere.txt'}" in wrong(place / "nowhere.txt", *usual)
    assert "no tokenizer.json" in wrong(
        place / "text.txt", "--tokenizer", tmp_path, "--out", tmp_path / "s"
    )
    assert "there is no field 'text'" in wrong(place / "more.jsonl", *usual)
    assert "a tab and its translation" in wrong(place / "text.txt", "--kind", "pairs", *usual)
    (tmp_path / "file").write_text("")
    assert "file" in wrong(
        place / "text.txt", "--tokenizer", place / "bpe", "--out", tmp_path / "file"
    )
    (tmp_path / "snow.txt").write_text("☃")
    assert "does not know '☃'" in wrong(
        tmp_path / "snow.txt", "--tokenizer", place / "chars", "--out", tmp_path / "t"
    )
    glassformer("data", "prepare", place / "text.txt", *usual)
    assert "other data was prepared here" in wrong(place / "more.jsonl", "--field", "body", *usual)


def test_prepare_wants_a_known_kind(place, tmp_path):
    said = glassformer(
        "data", "prepare", place / "text.txt", "--kind", "words", "--tokenizer", place / "bpe",
        "--out", tmp_path / "s", code=2,
    )  # fmt: skip
    assert "'words'" in said.errors and "Traceback" not in said.errors


DYING = """
import os, pathlib, signal, sys
from glassformer.data import prepare
prepare.CHUNK, prepare.prepare.__kwdefaults__["shard"] = 1, 400
out, real = pathlib.Path(sys.argv[-1]), prepare.encode
def encode(*words):
    if len([*out.glob("tokens-*.idx")]) > {shards}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*words)
prepare.encode = encode
from glassformer.cli.main import main
main()
"""


def test_killed_and_run_again_it_is_the_same_to_the_byte(place, tmp_path):
    text = tmp_path / "long.txt"
    text.write_text("\n\n".join(f"{text} {i}" for i in range(20) for text in TEXTS))

    def run(out, shards=999):
        """It is killed when it has written more shards than these."""
        words = ["data", "prepare", text, "--tokenizer", place / "bpe", "--out", out]
        return subprocess.run(
            [sys.executable, "-c", DYING.format(shards=shards), *map(str, words)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        ).returncode  # fmt: skip

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run(whole) == 0
    shards = len(json.loads((whole / "store.json").read_text())["documents"])
    assert shards > 5
    for shards in (1, 3):  # killed twice, the second time a little further on
        assert run(broken, shards) == -signal.SIGKILL
    assert not json.loads((broken / "store.json").read_text())["done"]
    refused("data", "stats", broken, "--tokenizer", place / "bpe")
    assert run(broken) == 0
    left = {file.name: file.read_bytes() for file in broken.iterdir()}
    assert left == {file.name: file.read_bytes() for file in whole.iterdir()}


def test_preparing_and_counting_import_no_torch(place, tmp_path):
    code = """
import sys
from glassformer.cli.main import main
sys.argv = ["glassformer", *sys.argv[1:]]
try:
    main()
finally:
    print("torch" in sys.modules)
"""
    for command, more in (("prepare", ["--out", tmp_path / "s"]), ("stats", [])):
        words = ["data", command, place / "text.txt", "--tokenizer", place / "bpe", *more]
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True
        )
        assert done.stdout.splitlines()[-1] == "False" and not done.stderr, done.stderr


# stats


def test_stats_of_text(place):
    facts = json.loads(
        glassformer(
            "data", "stats", place / "text.txt", "--tokenizer", place / "wordpiece", "--length",
            "20", "--json",
        )
    )  # fmt: skip
    lengths = sorted(map(len, wordpiece().ids(TEXTS)))
    assert facts["documents"] == 6 and facts["copies"] == 0
    assert facts["tokens"] == sum(lengths)
    assert facts["characters"] == facts["bytes"] == sum(map(len, TEXTS))
    found = facts["lengths"]["tokens"]
    assert (found["min"], found["max"]) == (lengths[0], lengths[-1])
    assert (found["median"], found["95 %"]) == (lengths[2], lengths[5])
    assert found["mean"] == pytest.approx(np.mean(lengths), abs=0.01)
    assert facts["cut"]["tokens"] == {
        "documents": sum(n > 20 for n in lengths),
        "tokens": sum(max(0, n - 20) for n in lengths),
        "windows": sum(-(-n // 20) for n in lengths),
    }


def test_stats_of_a_store_are_those_of_its_text(place, tmp_path):
    for kind, tokenizer, data in (
        ("text", "bpe", "text.txt"),
        ("sentences", "wordpiece", "text.txt"),
        ("pairs", "translation", "pairs.tsv"),
    ):
        usual = ("--kind", kind, "--tokenizer", place / tokenizer)
        glassformer("data", "prepare", place / data, *usual, "--out", tmp_path / kind)
        told = [
            json.loads(glassformer("data", "stats", each, *usual, "--length", "9", "--json"))
            for each in (place / data, tmp_path / kind)
        ]
        assert told[0].pop("characters") and told[0].pop("bytes")
        assert told[0] == told[1]


def test_stats_find_copies_and_unknown_words(place, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join([*TEXTS, TEXTS[0], TEXTS[2], TEXTS[0], "the ☃ and the ❄❄"]))
    words = ("data", "stats", text, "--tokenizer", place / "wordpiece")
    facts = json.loads(glassformer(*words, "--json"))
    assert facts["copies"] == 3
    assert facts["unknown"] == 2 and set(facts["unknown_examples"]) == {"☃", "❄❄"}
    said = glassformer(*words)
    assert "10, 3 (30.0%) of them duplicates" in said
    assert "☃" in said and "❄❄" in said


def test_stats_fit_into_eighty_columns(place):
    said = glassformer(
        "data", "stats", place / "pairs.tsv", "--kind", "pairs", "--tokenizer",
        place / "translation", "--length", "8",
    )  # fmt: skip
    assert max(map(len, said.splitlines())) <= 80
    assert "tokens of a source: " in said and "tokens of a target: " in said
    assert "source longer than 8" in said and "█" in said


def test_stats_refuse_in_one_line(place, tmp_path):
    glassformer(
        "data", "prepare", place / "text.txt", "--tokenizer", place / "bpe", "--out", tmp_path / "s"
    )
    usual = ("--tokenizer", place / "wordpiece")
    assert "another tokenizer" in refused("data", "stats", tmp_path / "s", *usual)
    assert "give one store at a time" in refused(
        "data", "stats", tmp_path / "s", tmp_path / "s", *usual, code=2
    )
    assert "File not found" in refused("data", "stats", tmp_path / "none", *usual)
    (tmp_path / "s" / "tokens-00000.bin").write_bytes(b"x")
    assert "prepare the data again" in refused(
        "data", "stats", tmp_path / "s", "--tokenizer", place / "bpe"
    )


@given(st.lists(st.integers(0, 70), min_size=1, max_size=60))
def test_spreads_are_those_of_the_sorted_list(sizes):
    found, ordered = spread(Counter(sizes)), sorted(sizes)
    assert (found["min"], found["max"]) == (ordered[0], ordered[-1])
    assert found["median"] == ordered[-(-len(ordered) // 2) - 1]
    assert found["95 %"] == ordered[-(-95 * len(ordered) // 100) - 1]
    bins = histogram(Counter(sizes))
    assert sum(count for _, _, count in bins) == len(sizes)
    for low, high, count in bins:
        assert count == sum(low <= size <= high for size in sizes)


def test_a_tally_holds_few_bytes_of_a_document():
    tally = CorpusStats(None)
    for i in range(1000):
        tally.add({"tokens": [i] * 50})
    assert len(tally.seen.tobytes()) == 8000 and tally.lengths == {"tokens": {50: 1000}}


def test_the_encoding_of_the_files_can_be_named(place, tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("\n\n".join(TEXTS).encode("utf-16"))
    words = (path, "--tokenizer", place / "bpe")
    assert "use --encoding utf-16" in refused("data", "stats", *words)
    coded = (*words, "--encoding", "utf-16")
    glassformer("data", "prepare", *coded, "--out", tmp_path / "s")
    assert ids(tmp_path / "s") == [[*each, 0] for each in bpe().ids(TEXTS)]
    assert json.loads(glassformer("data", "stats", *coded, "--json"))["documents"] == len(TEXTS)
    both = [tmp_path / name for name in ("train.en", "train.ru")]
    for side in both:
        side.write_bytes((place / side.name).read_text().encode("utf-16"))
    words = (*both, "--tokenizer", place / "translation", "--kind", "pairs")
    glassformer("data", "prepare", *words, "--encoding", "utf-16", "--out", tmp_path / "p")
    assert len(ids(tmp_path / "p", "source")) == len(TEXTS)
