"""A mistake that somebody new makes is answered by one line that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from commands import glassformer, refused
from folders import one_line
from glassformer.data.readers.examples import TableColumns, guessed
from glassformer.durable import not_written
from glassformer.errors import GlassformerError
from tiny import write_recipe

COMMANDS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "a misspelt command": (("fil",), 2, "'fil'. Did you mean 'fill'? See glassformer --help"),
    "an argument is missing": (("fill",), 2, "Missing argument 'model'. See glassformer fill"),
    "a prompt without quotation marks": (
        ("generate", "gf-decoder", "Once", "upon"), 2,
        "(upon): write a text of several words in quotation marks. See glassformer generate",
    ),
    "an argument too many": (("doctor", "cuda"), 2, "argument(s) (cuda). See glassformer doctor"),
    "a word for a number": (
        ("generate", "gf-decoder", "Once", "--temperature", "hot"), 2,
        "'--temperature': write a number. See",
    ),
    "the text before the model": (
        ("fill", "A [MASK] sat.", "gf-encoder"), 2,
        "'A [MASK] sat.' is not a model: write the model first, then the text",
    ),
    "an unknown model": (("embed", "gf-en-de", "a"), 1, "a name of `glassformer list`, or OWNER/"),
    "no model": (("embed", "", "a"), 2, "load(''): give a folder, a file or a name"),
    "a name without its owner": (
        ("embed", "gpt2", "a"), 1, "write openai-community/gpt2 for the model of the hub, or the",
    ),
    "the address of a model": (
        ("embed", "https://huggingface.co/FacebookAI/roberta-base/tree/main", "a"), 1,
        "main: write FacebookAI/roberta-base, the name of this model on the hub",
    ),
    "a folder for a file": (
        ("embed", "gf-encoder", "--file", "folder"), 1, "folder: this is a folder: give a file",
    ),
    "an encoding without a file": (
        ("embed", "gf-encoder", "a", "--encoding", "utf9"), 2, "encoding = 'utf9': write one such",
    ),
    "an encoder to translate": (
        ("translate", "gf-encoder", "Hello"), 1,
        "this model is an encoder (masked_lm_nsp) and cannot translate: use fill, follows or embed",
    ),
    "no size of a vocabulary": (
        ("tokenizer", "train", "notes.txt", "--out", "tokens"), 2, "vocab_size: bpe needs a number",
    ),
    "a table for a recipe": (
        ("finetune", "gf-encoder", "notes.txt"), 2, "notes.txt: this is not a recipe: give a TOML",
    ),
    "an objective without a short form": (
        ("finetune", "gf-en-ru", "--objective", "translation", "--data", "notes.txt"), 2,
        "or a recipe: `glassformer recipe new translation`",
    ),
    "another family": (
        ("finetune", "gf-en-ru", "--objective", "classification", "--data", "cased.csv"), 2,
        "gf-en-ru: this model is an encoder-decoder, and objective.kind = 'classification' needs",
    ),
    "a sentence for a word with its tag": (
        ("finetune", "gf-encoder", "--objective", "token_classification", "--data", "notes.txt"), 1,
        "line 1 has 1 column: write 2, a word and its tags",
    ),
    "other JSON for SQuAD": (
        ("finetune", "gf-encoder", "--objective", "question_answering", "--data", "list.json"), 1,
        'not a SQuAD file, {"data": [{"paragraphs": [{"context": …, "qas": […]}]}]}: write an obj',
    ),
    "a file for a folder": (
        ("pretrain", "recipe.toml", "--out", "notes.txt", "--train.steps", "1"), 1,
        "could not be written: notes.txt is a file: choose another path",
    ),
}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path)
    Path("notes.txt").write_text("hello\n")
    Path("list.json").write_text("[]")
    Path("cased.csv").write_text("Text,Label\n" + "good,pos\nbad,neg\n" * 5)
    Path("folder").mkdir()
    return tmp_path


@pytest.mark.parametrize("mistake", COMMANDS)
def test_a_mistake_in_a_command_is_answered_by_one_line(mistake: str, here: Path) -> None:
    words, code, line = COMMANDS[mistake]
    assert line in refused(*words, code=code)


def test_every_command_has_a_short_option_for_help() -> None:
    for command in ((), ("fill",), ("tokenizer", "train")):
        assert glassformer(*command, "-h") == glassformer(*command, "--help")


def test_columns_are_found_in_capitals(here: Path) -> None:
    columns = guessed(here / "cased.csv", TableColumns(""))
    assert (columns.text, columns.label) == ("Text", "Label")


def test_a_group_and_a_list_in_a_recipe(here: Path) -> None:
    recipe = here / "recipe.toml"
    text = recipe.read_text()
    recipe.write_text(text.replace("[data]", "[dataset]"))
    assert "'valid_fraction': 0.1}): did you mean 'data'?" in refused("pretrain", recipe, code=2)
    more = '[[data.more]]\ntrain = "text.txt"\ndocment = "line"\n'
    recipe.write_text(f"{text}\n{more}")
    assert "'data.more.0.docment' (value 'line'): did you mean" in refused(
        "pretrain", recipe, code=2
    )
    recipe.write_text(text.replace('"text.txt"', '["text.txt"]'))
    assert "data.train = ('text.txt',): write one, not a list" in (
        refused("pretrain", recipe, code=2)
    )


def test_only_a_lack_of_space_is_told_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = not_written(tmp_path / "file" / "model", 5, NotADirectoryError())
    assert line.endswith("file is a file: choose another path")
    assert "5 bytes are needed" in not_written(tmp_path / "new", 5, OSError(28, "No space left"))


@pytest.fixture(scope="module")
def models() -> dict[str, gf.Model]:
    return {name: gf.load(name) for name in ("gf-encoder", "gf-decoder", "gf-en-ru")}


CALLS: dict[str, str] = {
    "decoder.generate('a', max_length=5)": "'max_length' (value 5): did you mean 'max_new_tokens'?",
    "decoder.generate('a', zzz=5)": "no setting of generation has this name",
    "decoder.generate(['a', None])": "prompt 1 is None: give texts, or lists of token ids",
    "decoder.generate(['a', [1]])": "prompt 1 is [1]: give texts, or lists of token ids",
    "encoder.similarity('a', torch.zeros(3))": "shapes [1, 256] and [3] have no cosine: give (A, C",
    "encoder.tokenizer.decode('abc')": "decode('abc'): give token ids, such as [17, 5]",
    "encoder.tokenizer.decode(5)": "decode(5): give token ids, such as [17, 5]",
    "gf.record(encoder, 'a', edit=[5])": "edit = [5]: give a dict from a tensor's name to its chan",
    "gf.record(encoder, 'a', edit={'*.mixed': gf.ablate(9)})": "ablate(9): write heads from 0 to 3",
    "gf.record(encoder, 'a').figure('alignment')": "no cross-attention, which an enc",
    "gf.Trace.load('none.safetensors')": "File not found: ",
    "gf.build('gpt2')": "build('gpt2'): give a gf.ModelConfig",
    "gf.build_task(gf.PRESETS['bert-tiny'].model, 'tag')": "task = 'tag': give a gf.TaskConfig",
    "gf.Tokenizer('gf-encoder')": "Tokenizer('gf-encoder'): use the tokenizer of a model",
    "gf.view(encoder)": "give a trace: gf.record(model, text)",
    "gf.load('bert-base-uncased')": "write google-bert/bert-base-uncased for the model of the hub",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_mistake_in_python_is_answered_by_one_line(
    call: str, models: dict[str, gf.Model], here: Path
) -> None:
    names: dict[str, Any] = {"gf": gf, "torch": torch}
    names |= {"encoder": models["gf-encoder"], "decoder": models["gf-decoder"]}
    with pytest.raises(GlassformerError) as caught:
        eval(call, names)
    one_line(caught.value, CALLS[call])
