"""The command line as a user meets it: real processes, what they print and where."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from commands import glassformer as run_here
from commands import refused
from glassformer.version import __version__
from sampling import mostly_slow

GLASSFORMER = Path(sys.executable).with_name("glassformer")
NUMBER = re.compile(r"\d\.\d\d")


def run(*command, **env):
    wanted = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80", "NO_COLOR": "1", **env}
    wanted = {name: value for name, value in wanted.items() if value}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=wanted, timeout=120
    )


def glassformer(*words, **env):
    return run(GLASSFORMER, *words, **env)


def python(code):
    return run(sys.executable, "-c", code)


# torch is slow to import: nothing imports it that does not need it

VERB = """
import sys
from glassformer.cli.main import main
sys.argv = ["glassformer", {word!r}]
try:
    main()
except SystemExit as stop:
    print("code", stop.code)
print("torch" in sys.modules)
"""


@pytest.mark.parametrize(
    ("word", "code"), mostly_slow([("--help", 0), ("nonsense", 2), ("--version", 0)])
)
def test_words_about_the_program_itself_import_no_torch(word, code):
    done = python(VERB.format(word=word))
    assert done.stdout.splitlines()[-2:] == [f"code {code}", "False"], done.stderr


def test_a_command_imports_no_other_command():
    code = """
import sys
from glassformer.cli.main import COMMANDS, main
sys.argv = ["glassformer", "translate", "--help"]
try:
    main()
except SystemExit as stop:
    print("code", stop.code)
modules = {f"glassformer.cli.{path.partition('.')[0]}" for path in COMMANDS.values()}
print(*sorted(modules & sys.modules.keys()))
"""
    lines = python(code).stdout.splitlines()
    assert lines[-2:] == ["code 0", "glassformer.cli.translate"]


def test_importing_glassformer_imports_no_torch():
    done = python("import sys, glassformer; print('torch' in sys.modules)")
    assert done.stdout == "False\n"


def test_a_bad_config_is_refused_without_torch():
    code = """
import sys
from glassformer.config import ModelConfig
from glassformer.strict import read
from glassformer.errors import ConfigError
try:
    read(ModelConfig, {"family": "encoder", "wdith": 7}, "run.toml")
except ConfigError as error:
    print(error)
print("torch" in sys.modules)
"""
    done = python(code)
    assert done.stdout.splitlines() == [
        "run.toml: unknown field 'wdith' (value 7): did you mean 'width'?",
        "False",
    ]


def test_tokenizers_are_made_without_torch():
    code = """
import sys
from glassformer.text import Tokenizer
print(Tokenizer.from_files({"vocab.txt": b"[UNK]\\n[CLS]\\n[SEP]\\ncat"}).encode("cat").ids)
print("torch" in sys.modules)
"""
    assert python(code).stdout.splitlines() == ["[1, 3, 2]", "False"]


# the program itself


def test_help_lists_every_verb_with_its_line():
    done = glassformer("--help")
    assert done.returncode == 0
    assert re.search(r"demo +Train both toys", done.stdout)
    assert re.search(r"doctor +Show versions", done.stdout)
    assert done.stderr == ""


def test_version():
    done = glassformer("--version")
    assert (done.returncode, done.stdout) == (0, f"glassformer {__version__}\n")


def test_module_is_the_same_program():
    done = run(sys.executable, "-m", "glassformer.cli", "--version")
    assert (done.returncode, done.stdout) == (0, f"glassformer {__version__}\n")


@pytest.mark.parametrize(
    ("words", "named"),
    mostly_slow(
        [
            (["demo", "--seed", "many"], "'--seed'"),
            (["nonsense"], "'nonsense'"),
            (["demo", "--nonsense"], "--nonsense"),
        ]
    ),
)
def test_wrong_usage_exits_2_and_says_so_on_stderr(words, named):
    done = glassformer(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert named in done.stderr
    assert "Traceback" not in done.stderr


# doctor


@pytest.fixture(scope="module")
def facts():
    done = glassformer("doctor", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_doctor_json_tells_versions_device_and_kernels(facts):
    assert facts["Versions"]["glassformer"] == __version__
    assert facts["Versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"torch", "tokenizers", "safetensors", "pydantic"} <= facts["Versions"].keys()
    assert "not installed" not in facts["Versions"].values()
    assert facts["Device"]["threads"] == "1"
    kernels = next(rows for title, rows in facts.items() if title.startswith("Attention on "))
    assert "open arithmetic" in kernels["with a recorder"]


def test_doctor_prints_the_same_facts_for_people(facts):
    said = run_here("doctor", columns=200)
    assert said.errors == ""
    for title, rows in facts.items():
        assert title in said
        for name, value in rows.items():
            assert re.search(rf"{re.escape(name)} +{re.escape(value)}", said), name


# demo


@pytest.fixture(scope="module")
def demo():
    """With a terminal's abilities, so that the progress bar shows; without colours."""
    done = glassformer("demo", FORCE_COLOR="1", NO_COLOR="")
    assert done.returncode == 0, done.stderr
    plain = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
    return plain.sub("", done.stdout), plain.sub("", done.stderr)


def tables(text, title):
    """Each table of that title: its rows' names and numbers."""
    found = []
    for part in text.split(title)[1:]:
        lines = part.splitlines()[2:]  # behind the title and the columns' names
        end = next(i for i, line in enumerate(lines) if not re.match(r" \S+ +[\d·]", line))
        found.append([(line.split()[0], NUMBER.findall(line)) for line in lines[:end]])
    return found


def test_demo_shows_both_toys(demo):
    out, _ = demo
    assert "First toy: <start> the man ordered the chicken" in out
    assert "Second toy: <ST> man ordrd the chkn  /  <ST> woman ordrd the beef" in out


def test_demo_prints_what_the_head_says(demo):
    """After "the": man and chicken, chkn, beef, each with more than 0.95."""
    first, man, woman = tables(demo[0], "one head: the next word (T×V)")
    words = [word for word, _ in first]
    assert words == ["<start>", "the", "man", "ordered", "the", "chicken"]
    assert float(first[1][1][2]) > 0.95  # the → man
    assert float(first[4][1][3]) > 0.95  # the → chicken
    assert float(man[3][1][3]) > 0.95  # the → chkn
    assert float(woman[3][1][6]) > 0.95  # the → beef


def test_demo_prints_what_a_bigram_table_says(demo):
    first, man, woman = tables(demo[0], "a bigram table")
    assert first[1] == first[4] == ("the", ["0.00", "0.00", "0.50", "0.50", "0.00"])
    assert man[3] == woman[3] == ("the", ["0.00", "0.00", "0.00", "0.50", "0.00", "0.00", "0.50"])


def test_demo_prints_where_the_head_looks(demo):
    """A triangle: row t has t numbers, which sum to one."""
    found = tables(demo[0], "attention weights (T×T)")
    assert [len(rows) for rows in found] == [6, 5, 5]
    for rows in found:
        for t, (_, numbers) in enumerate(rows):
            assert len(numbers) == t + 1
            assert sum(map(float, numbers)) == pytest.approx(1, abs=0.04)


def test_demo_says_whether_its_heads_use_words_or_positions(demo):
    """The sentence follows from the numbers above it."""
    parts = demo[0].split("words or position?")[1:]
    assert len(parts) == 2
    for part in parts:
        lines = part.splitlines()[2:]
        rows = [
            [float(each) for each in line.split()[3:]]
            for line in itertools.takewhile(lambda line: not line.startswith("This head"), lines)
            if "→" in line
        ]
        assert [len(row) for row in rows] == [3, 3]
        kept = [all(row[i] >= 0.75 for row in rows) for i in (1, 2)]
        rest = itertools.dropwhile(lambda line: not line.startswith("This head"), lines)
        sentence = " ".join(map(str.strip, itertools.takewhile(str.strip, rest)))  # it is wrapped
        said = {(True, True): "either", (True, False): "the words", (False, True): "the position"}
        assert said.get(tuple(kept), "both") in sentence
        assert all(f"{min(row[i] for row in rows):.2f} without" in sentence for i in (1, 2))


def test_demo_shows_its_progress_on_stderr_only(demo):
    out, err = demo
    assert "training" in err
    assert "400/400" in err
    assert "training" not in out
    assert "bigram" not in err


@pytest.mark.slow
def test_demo_into_a_pipe_is_plain_text_and_the_same(demo):
    done = glassformer("demo", "--seed", "4")
    assert done.returncode == 0
    assert done.stdout == demo[0]
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nope"], "No such command 'nope'"),
        (["--nope"], "No such option"),
        (["params"], "Missing argument"),
        (["params", "a", "b"], "unexpected extra argument"),
        (["export", "a", "b", "--dtype", "int8"], "float16"),
        (["demo", "--seed", "x"], "--seed"),
    ],
)
def test_a_wrong_call_is_one_line(words: list[str], told: str) -> None:
    line = refused(*words, code=2)
    assert told in line and "--help" in line
