"""`glassformer export` writes what others open; model and tokenizer stay together."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer as Backend

import folders
import glassformer as gf
from commands import glassformer, refused
from glassformer.errors import CheckpointError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "mat"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = folders.write("BertForSequenceClassification", tmp_path / "source")
    (found / "vocab.txt").write_text("\n".join(WORDS))
    return found


def test_export_writes_a_folder_that_transformers_opens(folder: Path, tmp_path: Path) -> None:
    assert "model.safetensors" in glassformer(
        "export", folder, tmp_path / "out", "--dtype", "bfloat16"
    )
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert theirs.dtype == torch.bfloat16
    given, exported = gf.load(folder), gf.load(tmp_path / "out")
    assert torch.equal(
        exported.task.backbone.token_embedding, given.task.backbone.token_embedding.bfloat16()
    )
    assert exported.tokenizer.encode("the cats").tokens == ["[CLS]", "the", "cat", "##s", "[SEP]"]


def test_the_card_says_what_the_network_is(folder: Path, tmp_path: Path) -> None:
    gf.load(folder).export(tmp_path / "small")
    card = (tmp_path / "small" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: glassformer\n---\n\n# small\n")
    count = sum(p.numel() for p in gf.load(folder).parameters())
    for fact in (
        f"{count:,} parameters (float32)",
        "a label for a text",
        "| width | 12",
        "LABEL_1",
    ):
        assert fact in card, card


def test_a_card_that_is_there_stays(folder: Path, tmp_path: Path) -> None:
    (folder / "README.md").write_text("# Mine\n\nLicence: CC0.\n")
    gf.load(folder).export(tmp_path / "out")
    assert (tmp_path / "out" / "README.md").read_text() == "# Mine\n\nLicence: CC0.\n"


def test_the_card_tells_how_this_folder_is_opened(folder: Path, tmp_path: Path) -> None:
    folders.edit_config(folder, id2label={"0": "a\n\n# b|<c", "1": "x" * 999})
    glassformer("export", folder, tmp_path / "small")
    card = (tmp_path / "small" / "README.md").read_text()
    assert "# source\n" in card and 'gf.load("small")' in card
    assert f"| labels | a # b\\|&lt;c, {'x' * 80} |" in card


def test_everybody_may_read_what_may_be_read(folder: Path, tmp_path: Path) -> None:
    """safetensors writes a file for its owner only."""
    gf.load(folder).export(tmp_path / "out")
    assert len({file.stat().st_mode for file in (tmp_path / "out").iterdir()}) == 1


@pytest.mark.parametrize("call", ["save", "export"])
def test_another_tokenizer_is_written_with_its_model(
    call: str, folder: Path, tmp_path: Path
) -> None:
    given = gf.load(folder)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    other = gf.load(folder).tokenizer
    getattr(gf.Model(given.task, other, origin=given.origin), call)(tmp_path / "out")
    assert not (tmp_path / "out" / "vocab.txt").exists()
    assert gf.load(tmp_path / "out").tokenizer.fingerprint == other.fingerprint


def test_json_tells_the_files(folder: Path, tmp_path: Path) -> None:
    told = json.loads(glassformer("export", folder, tmp_path / "out", "--json"))
    assert told["files"] == {f.name: f.stat().st_size for f in (tmp_path / "out").iterdir()}


def test_nothing_is_written_over_without_force(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    assert "--force" in refused("export", folder, tmp_path / "out")
    glassformer("export", folder, tmp_path / "out", "--force")
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"


def test_no_model_is_one_line(tmp_path: Path) -> None:
    refused("export", tmp_path / "nothing", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    refused("export", tmp_path, tmp_path / ("x" * 300))


def test_the_fingerprint_keeps_model_and_tokenizer_together(folder: Path, tmp_path: Path) -> None:
    model = gf.load(folder)
    model.export(tmp_path / "out")
    stated = folders.read_config(tmp_path / "out")["tokenizer_fingerprint"]
    assert stated == model.tokenizer.fingerprint == gf.load(tmp_path / "out").tokenizer.fingerprint
    swapped = [*WORDS[:5], "cat", "the", *WORDS[7:]]
    (tmp_path / "out" / "vocab.txt").write_text("\n".join(swapped))
    with pytest.raises(CheckpointError, match="fingerprint") as raised:
        gf.load(tmp_path / "out")
    assert str(tmp_path / "out") in str(raised.value)


def test_a_model_of_our_own_states_it_from_the_start(folder: Path, tmp_path: Path) -> None:
    given = gf.load(folder)
    own = gf.Model(given.task, given.tokenizer)
    own.save(tmp_path / "own")
    stated = folders.read_config(tmp_path / "own")["tokenizer_fingerprint"]
    assert stated == given.tokenizer.fingerprint
    theirs = Backend.from_file(str(tmp_path / "own" / "tokenizer.json"))
    assert theirs.encode("the cat sat").tokens == given.tokenizer.encode("the cat sat").tokens


def test_the_fingerprint_sees_more_than_the_words(folder: Path) -> None:
    lower = gf.load(folder).tokenizer
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert gf.load(folder).tokenizer.fingerprint != lower.fingerprint
