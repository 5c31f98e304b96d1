"""`glassformer generate`."""

import io
import json
import subprocess
import sys

import pytest
import torch

import glassformer as gf
from commands import glassformer, refused
from generate.storytellers import speaker


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("speaker")
    speaker("bpe").save(home)
    return home


@pytest.fixture(scope="module")
def model(folder):
    return gf.load(folder)


def test_one_text_is_streamed(folder, model):
    asked = {"max_new_tokens": 12, "temperature": 0.8, "top_p": 0.9, "seed": 1}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in asked.items()]
    expected = model.generate("The cat", **asked)[0].text
    said = glassformer("generate", folder, "The cat", *words)
    assert said.endswith("\n")
    assert plain(said) == plain(expected + "\n")


def plain(text):
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def test_nothing_moves_the_cursor(folder):
    said = glassformer("generate", folder, "The cat", "--max-new-tokens", 40)
    assert all(c.isprintable() or c in "\n\t" for c in said)


def test_no_room_for_all_that_was_asked_for_is_said(folder, model):
    said = glassformer("generate", folder, "The cat", "--max-new-tokens", 900)
    room = 65 - len(model.tokenizer.encode("The cat").ids)
    assert f"reads at most 64 tokens, so a text ends after {room}\n" in said.errors
    assert not glassformer("generate", folder, "The cat", "--max-new-tokens", room).errors


def test_several_samples_as_json(folder, model):
    words = ["--do-sample", "--num-return-sequences", 3, "--logprobs", "--stop", r"\n", "--json"]
    said = json.loads(glassformer("generate", folder, "The cat", *words))
    found = said["texts"]
    asked = {"do_sample": True, "num_return_sequences": 3, "logprobs": True, "stop": "\n"}
    asked["seed"] = said["seed"]  # of a call without one, too
    expected = model.generate("The cat", **asked)
    assert [tuple(each["ids"]) for each in found] == [each.ids for each in expected]
    assert [each["text"] for each in found] == [each.text for each in expected]
    assert [each["prompt"] for each in found] == ["The cat"] * 3
    assert all(len(each["logprobs"]) == len(each["ids"]) for each in found)
    assert {each["stopped"] for each in found} <= {"end", "stop", "length"}


def test_prompts_from_a_file_and_from_stdin(folder, model, tmp_path, monkeypatch):
    (tmp_path / "prompts.txt").write_text("The cat\n\nКошка\n", "utf-8")
    words = ["--num-beams", 2, "--length-penalty", 0.5, "--early-stopping", "never"]
    said = glassformer("generate", folder, "--file", tmp_path / "prompts.txt", *words)
    asked = {"num_beams": 2, "length_penalty": 0.5, "early_stopping": "never"}
    texts = [each.text for each in model.generate(["The cat", "Кошка"], **asked)]
    expected = zip((1, 2, 3), (texts[0], "", texts[1]), strict=True)  # nothing follows nothing
    assert said == "".join(f"--- prompt {i}, text 1\n{plain(text)}\n" for i, text in expected)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("The cat\n\nКошка\n".encode())))
    assert glassformer("generate", folder, "-", *words) == said


def test_without_a_seed_each_call_samples_anew(model):
    asked = {"do_sample": True, "max_new_tokens": 30}
    one, other = (model.generate("The cat", **asked)[0].ids for _ in range(2))
    assert one != other
    torch.manual_seed(0)
    assert model.generate("The cat", **asked)[0].ids == one  # the tests begin with this seed
    asked["seed"] = 5
    assert model.generate("The cat", **asked) == model.generate("The cat", **asked)


def test_a_translator_writes_too(tmp_path):
    model = speaker("bpe", "seq2seq")
    model.generate("The cat")  # it reads the prompt, and first numbers its start token
    assert model.generate(["The cat", "on"], num_beams=2)[1] == model.generate("on", num_beams=2)[0]


def test_refused_in_one_line(folder, tmp_path):
    def wrong(*words, code=2):
        return refused("generate", folder, *words, code=code)

    assert "one of them" in wrong()
    assert "one of them" in wrong("a", "--file", "b")
    assert "temperature = -1.0: " in wrong("a", "--temperature", "-1")
    assert "--temperature nan: write a finite number" in wrong("a", "--temperature", "nan")
    assert "top_p = 1.2: " in wrong("a", "--top-p", "1.2")
    assert "is not one of 'true', 'false', 'never'" in wrong("a", "--early-stopping", "soon")
    assert "--device 'tpu'" in wrong("a", "--device", "tpu")
    assert "batch_size = 0: write at least 1" in wrong("a", "--batch-size", 0)
    assert "the text is empty" in wrong("", code=1)
    assert "prompt 0 has " in wrong("cat " * 90, code=1)
    assert "File not found: " in wrong("--file", tmp_path / "none", code=1)
    (tmp_path / "empty").write_text("\n")
    assert "there is no text in it" in wrong("--file", tmp_path / "empty", code=1)
    assert "no such folder" in refused("generate", tmp_path / "nowhere", "a")


def test_help_and_mistakes_cost_no_torch(folder):
    code = (
        "import sys; sys.argv[1:] = {}; from glassformer.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
    )
    for words in (["generate", "--help"], ["generate", str(folder), "a", "--top-p", "2"]):
        subprocess.run([sys.executable, "-c", code.format(words)], check=True, capture_output=True)
