"""`glassformer tokenizer train` and `show`, as a user meets them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer
from typer.testing import CliRunner

from glassformer.cli.main import application
from glassformer.errors import CheckpointError, ConfigError, GlassformerError, InputError
from sampling import mostly_slow

GLASSFORMER = Path(sys.executable).with_name("glassformer")
PLAIN = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
TEXT = "\n\n".join(
    f"The cat number {i} sat on the mat.\nIt slept there, and slept." for i in range(50)
)
SIZES = {"bpe": 290, "wordpiece": 80, "unigram": 43}


def run(*words, stdin="", **env):
    done = CliRunner().invoke(application(), ["tokenizer", *map(str, words)], stdin, PLAIN | env)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def refused(*words, stdin=""):
    with pytest.raises(GlassformerError) as caught:
        run(*words, stdin=stdin)
    return caught.value


def facts(text):
    """The two columns that are printed, lines that were folded put together."""
    return {
        name: " ".join(value.split())
        for name, value in re.findall(r"^(\S+(?: \S+)*)  +(.*(?:\n {10,}.*)*)", text, re.MULTILINE)
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "cats.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory, data):
    """Each kind, trained from the command line."""
    home = tmp_path_factory.mktemp("tokenizers")
    for kind in ("bpe", "wordpiece", "unigram", "chars", "bytes"):
        size = ("--vocab-size", SIZES[kind]) if kind in SIZES else ()
        out = run("train", data, "--kind", kind, *size, "--out", home / kind)
        (home / f"{kind}.out").write_text(out)
    return home


# train


@pytest.mark.parametrize(
    ("kind", "purpose", "special"),
    [
        ("bpe", "for a decoder", "<|endoftext|> 0"),
        ("wordpiece", "for an encoder", "[PAD] 0 [UNK] 1 [CLS] 2 [SEP] 3 [MASK] 4"),
        ("unigram", "for translation", "</s> 0 <unk> 1 <pad> 2"),
        ("chars", "for a decoder", "none"),
        ("bytes", "for a decoder", "<|endoftext|> 0"),
    ],
)
def test_train_prints_what_it_made(folders, kind, purpose, special):
    found = facts((folders / f"{kind}.out").read_text())
    theirs = AutoTokenizer.from_pretrained(folders / kind)
    assert found["kind"] == f"{kind}, {purpose}"
    assert found["tokens"] == f"{len(theirs)}"
    assert found["special tokens"] == special
    assert found["trained on"] == f"50 texts, {len(TEXT) - 49 * 2:,} bytes"
    texts = TEXT.split("\n\n")
    tokens = sum(len(ids) for ids in theirs(texts, add_special_tokens=False)["input_ids"])
    assert found["bytes per token"] == f"{sum(map(len, texts)) / tokens:.2f}"
    assert ("unknown" in found) == (kind in ("wordpiece", "unigram"))
    assert found["written to"].replace(" ", "") == str(folders / kind)
    if kind == "bpe":
        assert found["longest tokens"].split()[0] == "␣number"
    assert sorted(path.name for path in (folders / kind).iterdir()) == [
        "tokenizer.json",
        "tokenizer_config.json",
    ]


@pytest.mark.parametrize("columns", mostly_slow(["80", "120"]))
def test_train_fits_the_terminal(data, tmp_path, columns):
    words = ("train", data, "--vocab-size", 300, "--out", tmp_path)
    out = run(*words, COLUMNS=columns)
    assert max(map(len, out.splitlines())) <= int(columns)
    assert "…" not in out


def test_train_json_is_the_same_facts(data, tmp_path):
    words = ("train", data, "--kind", "wordpiece", "--vocab-size", 900, "--lowercase")
    found = json.loads(run(*words, "--out", tmp_path, "--json"))
    assert found["kind"] == "wordpiece" and found["purpose"] == "encoder"
    assert (found["asked"], found["documents"], found["unknown"]) == (900, 50, 1)
    assert found["size"] == len(AutoTokenizer.from_pretrained(tmp_path)) < 900
    assert found["bytes"] == found["sample_bytes"] == len(TEXT) - 98
    assert found["unknown_share"] == 0 and found["bytes_per_token"] > 2
    assert found["longest"][0] == "number" and "[MASK]" not in found["longest"]
    assert found["fingerprint"].startswith("sha256:")
    assert "(of 900: the text gives no more)" in run(*words, "--out", tmp_path, "--force")


def test_train_reads_fields_folders_and_pairs(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"body": "abc"}\n')
    (tmp_path / "in" / "b.csv").write_text("body,label\ncde,1\n")
    (tmp_path / "p.tsv").write_text("one\tдва\tnobody\n", encoding="utf-8")
    words = ("--kind", "chars", "--json", "--force", "--out", tmp_path / "out")
    found = json.loads(run("train", tmp_path / "in", "--field", "body", *words))
    assert (found["documents"], found["size"]) == (2, 5)
    found = json.loads(run("train", tmp_path / "p.tsv", "--purpose", "translation", *words))
    assert (found["documents"], found["size"]) == (2, 3 + 3 + 3)
    assert "no column 'text'" in str(refused("train", tmp_path / "p.tsv", *words))
    both = ("train", tmp_path / "p.tsv", tmp_path / "in" / "b.csv", "--field", "body", *words)
    assert "no column 'body'" in str(refused(*both))


def test_train_measures_an_even_sample_of_long_data(tmp_path, monkeypatch):
    monkeypatch.setattr("glassformer.text.describe.SAMPLE", 2**14)
    path = tmp_path / "long.txt"
    path.write_text("a" * 40_000 + "\nb" * 20_000)
    words = ("train", path, "--kind", "chars", "--purpose", "encoder", "--out", tmp_path / "o")
    found = json.loads(run(*words, "--json"))
    assert found["bytes"] == 80_000
    assert 2**12 < found["sample_bytes"] <= 2**14
    assert found["bytes_per_token"] == 1
    assert "a sample of" in run(*words, "--force")


def test_train_measures_both_sides_of_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr("glassformer.text.describe.SAMPLE", 2**10)
    path = tmp_path / "pairs.tsv"
    path.write_text("aaaa\tбббб\n" * 5_000, encoding="utf-8")
    words = ("train", path, "--kind", "chars", "--purpose", "translation")
    found = json.loads(run(*words, "--out", tmp_path / "o", "--json"))
    assert found["bytes"] == 60_000 > 20 * found["sample_bytes"]
    assert found["bytes_per_token"] == pytest.approx(1.5, abs=0.02)


def test_train_asks_before_it_overwrites(data, tmp_path):
    words = ("train", data, "--kind", "bytes", "--out", tmp_path)
    (tmp_path / "special_tokens_map.json").write_text("{}")
    (tmp_path / "config.json").write_text("{}")
    error = refused(*words)
    assert isinstance(error, ConfigError) and error.exit_code == 2
    assert str(error) == (
        f"{tmp_path}: special_tokens_map.json exists: write --force to replace the tokenizer"
    )
    run(*words, "--force")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json", "tokenizer.json", "tokenizer_config.json"
    ]  # fmt: skip
    before = (tmp_path / "tokenizer.json").read_bytes()
    assert "tokenizer.json exists" in str(refused(*words))
    assert (tmp_path / "tokenizer.json").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "kind", "line"),
    [
        (["nowhere.txt"], InputError, "File not found: "),
        ([], ConfigError, "vocab_size: bpe needs a number, such as 8000"),
        (["--vocab-size", "9"], ConfigError, "vocab_size = 9: write at least 257"),
        (["--kind", "bytes", "--vocab-size", "9"], ConfigError, "vocab_size = 9: bytes do not"),
        (["--kind", "wordpiece", "--purpose", "decoder"], ConfigError, "purpose = 'decoder'"),
    ],
)
def test_train_refuses_in_one_line(data, tmp_path, words, kind, line):
    data = [] if words[:1] == ["nowhere.txt"] else [data]
    words = [*words, "--vocab-size", "300"] if not data else words
    error = refused("train", *data, *words, "--out", tmp_path / "out")
    assert isinstance(error, kind)
    assert str(error).startswith(line)


def test_train_says_where_it_cannot_write_before_it_works(tmp_path):
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "out"
    words = ("train", tmp_path / "no data", "--kind", "bytes")
    error = refused(*words, "--out", out)
    assert isinstance(error, ConfigError)
    assert str(error) == f"{out}: {tmp_path / 'file'} is not a folder that can be written"
    refused(*words, "--out", tmp_path / "new")
    assert not (tmp_path / "new").exists()


# show


def table(text):
    """The rows of each table, cell by cell."""
    parts = re.split(r"^\d+ tokens  .*\n.*\n", text, flags=re.MULTILINE)[1:]
    return [
        [re.split(r" {2,}", line.strip()) for line in part.strip().splitlines()] for part in parts
    ]


def test_show_cuts_a_text_in_pieces_with_ids_and_spans(folders):
    out = run("show", folders / "wordpiece", "The cat\nmat. Ω", "mat")
    assert facts(out.split("\n\n")[0]) == {
        "kind": "wordpiece",
        "tokens": "80",
        "special tokens": "[PAD] 0 [UNK] 1 [CLS] 2 [SEP] 3 [MASK] 4",
    }
    theirs = AutoTokenizer.from_pretrained(folders / "wordpiece")
    ids = {token: str(theirs.convert_tokens_to_ids(token)) for token in ("The", "cat", "mat", ".")}
    assert "7 tokens  The cat\\nmat. Ω" in out
    assert table(out)[0] == [
        ["2", "[CLS]", "special"],
        [ids["The"], "The", "The", "0–3"],
        [ids["cat"], "cat", "cat", "4–7"],
        [ids["mat"], "mat", "mat", "8–11"],
        [ids["."], ".", ".", "11–12"],
        ["1", "[UNK]", "Ω", "13–14", "unknown"],
        ["3", "[SEP]", "special"],
    ]
    assert [row[1] for row in table(out)[1]] == ["[CLS]", "mat", "[SEP]"]


def test_show_lets_blanks_and_bytes_be_seen_and_nothing_move_the_cursor(folders):
    out = run("show", folders / "bytes", "a \n\x1b[2Jé")
    assert "\x1b" not in out
    rows = table(out)[0]
    assert rows[1] == ["33", "Ġ", "␣", "1–2"]
    assert rows[2] == ["11", "Ċ", "\\n", "2–3"]
    assert rows[3][2:] == ["\\x1b", "3–4"]
    assert [row[2] for row in rows[-2:]] == ["é", "é"]


@pytest.mark.parametrize("columns", mostly_slow(["80", "120"]))
@pytest.mark.parametrize(
    "kind", mostly_slow(["wordpiece", "bytes", "bpe", "unigram", "chars"], keep=2)
)
def test_show_fits_the_terminal(folders, kind, columns):
    out = run("show", folders / kind, TEXT[:200], "The cat", COLUMNS=columns)
    assert max(map(len, out.splitlines())) <= int(columns)
    assert facts(out)["kind"] == kind
    assert len(table(out)) == 2


def test_show_reads_lines_from_stdin(folders):
    assert table(run("show", folders / "bpe")) == []
    piped = run("show", folders / "bpe", stdin="The cat\r\n\n sat\n")
    assert [len(rows) for rows in table(piped)] == [2, 0, 1]
    assert run("show", folders / "bpe", "The cat", "", " sat") == piped
    assert "stdin: line 2" in str(refused("show", folders / "bpe", stdin=b"a\n\xff"))


def test_show_json(folders):
    found = json.loads(run("show", folders / "unigram", "The cat Ω", "--json"))
    assert (found["kind"], found["size"], found["unknown"]) == ("unigram", 43, 1)
    assert found["special"] == {"</s>": 0, "<unk>": 1, "<pad>": 2}
    (text,) = found["texts"]
    assert text["text"] == "The cat Ω"
    assert [token["piece"] for token in text["tokens"]][-2:] == ["Ω", "</s>"]
    assert text["tokens"][-2] == {
        "piece": "Ω", "id": 1, "start": 8, "end": 9, "special": False, "unknown": True
    }  # fmt: skip


def test_show_opens_what_others_made(tmp_path):
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\nthe\ncat\n##s")
    rows = table(run("show", tmp_path, "The cats"))[0]
    assert [row[1] for row in rows] == ["[CLS]", "the", "cat", "##s", "[SEP]"]


def test_show_refuses_in_one_line(folders, tmp_path):
    assert str(refused("show", tmp_path)).startswith(f"{tmp_path}: there is no tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{")
    error = refused("show", tmp_path)
    assert isinstance(error, CheckpointError) and "tokenizer.json" in str(error)
    assert "cannot encode this" in str(refused("show", folders / "chars", "Ω"))


# real processes


def process(*words, **env):
    return subprocess.run(
        [GLASSFORMER, "tokenizer", *map(str, words)],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, env=os.environ | PLAIN | env,
    )  # fmt: skip


def test_a_process_shows_progress_on_stderr_only_and_the_result_on_stdout(data, tmp_path):
    words = ("train", data, "--kind", "wordpiece", "--vocab-size", 70, "--out", tmp_path)
    quiet = process(*words)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    shown = process(*words, "--force", FORCE_COLOR="1", TERM="xterm")
    assert "learning from" in shown.stderr
    assert "learning from" not in shown.stdout
    wrong = process(*words)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("glassformer: ") and wrong.stderr.count("\n") == 1


CODE = """
import sys
from glassformer.cli.main import main
sys.argv = ["glassformer", "tokenizer", *sys.argv[1:]]
try:
    main()
finally:
    print("torch" in sys.modules)
"""


def test_neither_verb_imports_torch(data, tmp_path):
    out = tmp_path / "out"
    for words in (("train", data, "--vocab-size", "300", "--out", out), ("show", out, "The cat")):
        done = subprocess.run(
            [sys.executable, "-c", CODE, *map(str, words)], capture_output=True, text=True
        )
        assert done.stdout.splitlines()[-1] == "False", done.stderr
        assert "bpe" in done.stdout
