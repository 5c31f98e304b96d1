"""`glassformer presets` and `glassformer params`: what they print, and what they refuse."""

import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import ggufs
from glassformer.cli.main import application
from glassformer.errors import CheckpointError, ConfigError
from glassformer.presets import PRESETS
from glassformer.sizes import measure
from sampling import every_nth, mostly_slow

PLAIN = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}


def run(*words, **env):
    done = CliRunner().invoke(application(), words, env=PLAIN | env)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def row(text, name):
    """The cells of the row that first numbers this name."""
    (line,) = re.findall(rf"^ *{re.escape(name)} +(.*\d.*)$", text, re.MULTILINE)
    return re.split(r" {1,}(?!\+)(?<!\+ )", line.strip())


# presets


@pytest.fixture(scope="module")
def listed():
    return json.loads(run("presets", "--json"))


def test_presets_json_has_a_row_for_each(listed):
    assert [each["name"] for each in listed] == list(PRESETS)
    keys = ["name", "what", "family", "depth", "decoder_depth", "width", "heads", "vocab_size"]
    assert all(list(each) == [*keys, "bare", "with_head"] for each in listed)
    assert {**listed[4]} == {
        "name": "bert-base-uncased", "what": "English lowercase", "family": "encoder", "depth": 12,
        "decoder_depth": None, "width": 768, "heads": 12, "vocab_size": 30522,
        "bare": 109_482_240, "with_head": 110_106_428,
    }  # fmt: skip


@pytest.mark.parametrize("columns", mostly_slow(["80", "120"]))
def test_presets_prints_a_line_for_each(listed, columns):
    out = run("presets", COLUMNS=columns)
    assert max(map(len, out.splitlines())) <= int(columns)
    assert "…" not in out
    for each in listed:
        cells = row(out, each["name"])
        assert " ".join(cells).startswith(each["what"])
        depth = (
            f"{each['depth']}+{each['decoder_depth']}" if each["decoder_depth"] else each["depth"]
        )
        wanted = [depth, each["width"], each["heads"], f"{each['vocab_size']:,}"]
        assert cells[-5:] == [*map(str, wanted), f"{each['bare'] / 1e6:.1f}M"]


# params


def test_params_json_is_the_table():
    found = json.loads(run("params", "bert-tiny", "--json"))
    preset = PRESETS["bert-tiny"]
    table = measure(preset.model, preset.task)
    assert list(found) == [
        "name", "bare", "with_head", "per_head", "per_block", "fp32_bytes", "bf16_bytes",
        "adamw_bytes", "parts", "config", "task",
    ]  # fmt: skip
    assert (found["bare"], found["with_head"]) == (4_385_920, table.with_head)
    assert found["fp32_bytes"] == 2 * found["bf16_bytes"] == 4 * table.with_head
    assert found["adamw_bytes"] == 16 * table.with_head
    assert found["per_block"] == {"encoder": 198_272}
    assert found["config"] == json.loads(preset.model.model_dump_json())
    assert sum(part["count"] for part in found["parts"]) == table.with_head
    assert sum(part["share"] for part in found["parts"]) == pytest.approx(100, abs=0.01)
    assert found["parts"][4] == {
        "stack": "encoder", "group": "attention", "name": "query", "per": "head",
        "shape": [128, 64], "bias": 64, "heads": 2, "blocks": 2, "each": 8_256, "count": 33_024,
        "share": 0.745, "fp32_bytes": 132_096, "bf16_bytes": 66_048,
    }  # fmt: skip


def test_params_prints_the_table_for_people():
    out = run("params", "bert-base-uncased")
    assert out.startswith("bert-base-uncased  English lowercase\nencoder, 12 blocks, width 768,")
    assert row(out, "token") == ["30522×768", "1", "23,440,896", "21.3", "93.8", "46.9"]
    assert row(out, "query") == ["768×64 + 64", "12×12", "7,087,104", "6.4", "28.3", "14.2"]
    assert row(out, "attention_norm") == ["768 + 768", "12", "18,432", "<0.1", "0.1", "<0.1"]
    assert row(out, "MLP") == ["56,669,184", "51.5", "226.7", "113.3"]
    assert row(out, "Bare") == ["109,482,240", "99.4", "437.9", "219.0"]
    assert row(out, "With head") == ["110,106,428", "100.0", "440.4", "220.2"]
    assert re.search(r"one head +147,648: query, key and value", out)
    assert re.search(r"one block +7,087,872 in the encoder", out)
    assert re.search(r"bare +as BertModel", out)
    assert re.search(r"with head +as BertForPreTraining", out)
    assert re.search(r"AdamW +1,761.7 MB to train in fp32 \(weight, gradient, two moments", out)


def test_params_of_a_translator_show_both_stacks():
    out = run("params", "transformer-base")
    assert row(out, "Decoder cross attention")[0] == row(out, "Decoder attention")[0] == "6,291,456"
    assert re.search(r"one block +3,150,336 in the encoder, 4,199,936 in the decoder", out)
    assert "(its output matrix is the token embedding)" in out
    assert len(re.findall(r"^  token ", out, re.MULTILINE)) == 1


@pytest.mark.parametrize("name", every_nth(PRESETS, 6))
@pytest.mark.parametrize("columns", mostly_slow(["80", "120"]))
def test_params_of_every_preset_fit_the_terminal(name, columns):
    out = run("params", name, COLUMNS=columns)
    assert max(map(len, out.splitlines())) <= int(columns)
    assert "…" not in out


# a folder


@pytest.fixture
def folder(tmp_path):
    config = {"model_type": "gpt2", "architectures": ["GPT2Model"], "n_layer": 3}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def test_params_of_a_folder_need_its_config_only(folder):
    found = json.loads(run("params", str(folder), "--json"))
    assert (found["name"], found["config"]["depth"]) == (str(folder), 3)
    assert found["bare"] == found["with_head"] == 124_439_808 - 9 * 7_087_872
    out = run("params", str(folder))
    assert out.splitlines()[0] == f"{folder}  a model folder"
    assert re.search(r"with head +there is no head", out)


def test_params_of_a_gguf_file(tmp_path):
    path = ggufs.write(tmp_path / "small.gguf", ggufs.reference())
    found = json.loads(run("params", str(path), "--json"))
    assert (found["name"], found["config"]["width"]) == (str(path), 24)
    assert run("params", str(path)).splitlines()[0] == f"{path}  a GGUF file"
    with pytest.raises(CheckpointError, match=r"File not found: .*none\.gguf"):
        run("params", str(tmp_path / "none.gguf"))


def test_a_folder_that_asks_for_too_much_is_refused_by_name(folder):
    config = {"model_type": "gpt2", "n_embd": 12 << 27, "n_inner": 8}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(folder))}: a matrix of "):
        run("params", str(folder))


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"config\.json is missing"):
        run("params", str(tmp_path))


# a wrong name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("bert-bse", "did you mean 'bert-base-cased'?"),
        ("GPT3", "did you mean 'gpt2'?"),
        ("google/t5-base", "did you mean 't5-base'?"),
        ("nowhere", "`glassformer presets` lists the presets"),
        ("x" * 300, "`glassformer presets` lists the presets"),
    ],
)
def test_a_wrong_name_gets_the_nearest(name, hint):
    with pytest.raises(ConfigError) as caught:
        run("params", name)
    assert str(caught.value) == f"{name}: no preset, no folder and no file: {hint}"


VERB = """
import sys
from glassformer.cli.main import main
sys.argv = ["glassformer", "params", {word!r}]
try:
    main()
except SystemExit as stop:
    print("code", stop.code)
print("torch" in sys.modules)
"""


@pytest.mark.parametrize(("word", "code"), mostly_slow([("gpt3", 2), ("--help", 0)]))
def test_help_and_wrong_names_import_no_torch(word, code):
    done = subprocess.run(
        [sys.executable, "-c", VERB.format(word=word)], capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-2:] == [f"code {code}", "False"], done.stderr
    if code:
        assert (
            done.stderr
            == "glassformer: gpt3: no preset, no folder and no file: did you mean 'gpt2'?\n"
        )
