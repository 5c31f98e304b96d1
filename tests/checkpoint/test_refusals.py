"""What a folder may be, and what of it is refused. Hostile folders by the hundred: tests/gate."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import folders
import glassformer as gf
from folders import WEIGHTS, edit_config
from glassformer import safe_files
from glassformer.checkpoint import budget
from glassformer.errors import CheckpointError, GlassformerError

BERT, CLASSIFY, GPT2, MARIAN, LLAMA, QWEN2 = KINDS = (
    "BertForMaskedLM", "BertForSequenceClassification", "GPT2LMHeadModel", "MarianMTModel",
    "LlamaForCausalLM", "Qwen2ForCausalLM",
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One good folder of each kind, to be copied and then damaged."""
    home = tmp_path_factory.mktemp("whole")
    return {name: folders.write(name, home / name) for name in KINDS}


def refusal(folder: Path, *words: str) -> str:
    with pytest.raises(GlassformerError) as caught:
        gf.load(folder)
    return folders.one_line(caught.value, str(folder), *words)


@pytest.mark.parametrize(
    ("key", "value"),
    [("hidden_size", -12), ("num_hidden_layers", -1), ("layer_norm_eps", -1.0),
     ("hidden_dropout_prob", 2), ("pad_token_id", "x"), ("num_attention_heads", 5)],
)  # fmt: skip
def test_a_field_is_named_as_its_file_names_it(
    key: str, value: Any, whole: dict[str, Path], tmp_path: Path
) -> None:
    folder = folders.copy(whole[BERT], tmp_path / "damaged")
    edit_config(folder, **{key: value})
    refusal(folder, key, repr(value))


@pytest.mark.parametrize(
    ("name", "change"),
    [(BERT, {"num_hidden_layers": 1}), (BERT, {"type_vocab_size": 0}), (GPT2, {"n_layer": 1}),
     (MARIAN, {"encoder_layers": 1}), (MARIAN, {"decoder_layers": 2})], ids=str,
)  # fmt: skip
def test_a_config_that_leaves_weights_of_the_body_over_is_refused(
    name: str, change: dict[str, int], whole: dict[str, Path], tmp_path: Path
) -> None:
    """A layer that is in the file and not in the model would be dropped without a word."""
    folder = folders.copy(whole[name], tmp_path / "damaged")
    edit_config(folder, **change)
    refusal(folder)


@pytest.mark.parametrize("name", ["MT5ForConditionalGeneration", "UMT5ForConditionalGeneration"])
def test_weights_that_contradict_a_tied_config_are_refused(name: str, tmp_path: Path) -> None:
    """transformers 5 writes "tied" for any mT5, whatever its weights are."""
    folder = folders.write(name, tmp_path / "untied")

    def own_matrix(tensors: dict[str, torch.Tensor]) -> None:
        tensors["lm_head.weight"] = tensors["shared.weight"] + 1

    folders.edit_tensors(folder, own_matrix)
    refusal(folder, "'lm_head.weight' must be a copy of")
    edit_config(folder, tie_word_embeddings=False)
    assert gf.load(folder).config.tied is False


@pytest.mark.parametrize(
    "value", [7, True, 1.5, "full_attention", {}, [], ["full_attention"], ["sliding_attention"] * 2]
)
def test_layers_that_are_not_listed_one_by_one_are_refused(
    value: Any, whole: dict[str, Path], tmp_path: Path
) -> None:
    folder = folders.copy(whole[QWEN2], tmp_path / "damaged")
    edit_config(folder, layer_types=["full_attention"] * 2)
    gf.load(folder)
    edit_config(folder, layer_types=value)
    refusal(folder, "layer_types", repr(value))


@pytest.mark.parametrize(
    ("side", "change", "words"),
    [
        ("encoder", {"layer_types": ["full_attention"] * 2}, "encoder.layer_types"),
        ("decoder", {"head_dim": 4}, "decoder.head_dim = 4, but encoder.head_dim"),
        ("decoder", {"num_key_value_heads": 2}, "decoder.num_key_value_heads = 2"),
        ("decoder", {"hidden_size": 12}, "has shape"),
        ("encoder", {"rope_parameters": {"rope_type": "yarn"}}, "encoder.rope_parameters.rope"),
    ],
    ids=str,
)  # fmt: skip
def test_a_side_that_cannot_be_is_refused(
    side: str, change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    folder = folders.write("T5GemmaForConditionalGeneration", tmp_path / "t5gemma")
    edit_config(folder, **{side: folders.read_config(folder)[side] | change})
    refusal(folder, words)


@pytest.mark.parametrize("value", [7, "evil", True, []])
@pytest.mark.parametrize("name", [LLAMA, QWEN2])
def test_a_group_of_fields_that_is_none_is_not_passed_over(
    name: str, value: Any, whole: dict[str, Path], tmp_path: Path
) -> None:
    """Else the positions would silently turn at the usual speed."""
    folder = folders.copy(whole[name], tmp_path / "damaged")
    edit_config(folder, rope_parameters=value)
    refusal(folder, "rope_parameters", repr(value))


def test_an_unknown_architecture_is_named_before_its_weights_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    refusal(tmp_path, "'mamba'", "modernbert", "CONTRIBUTING.md")


@pytest.mark.parametrize(
    ("kind", "nearest"),
    [("gemma", "gemma2"), ("gemma3", "gemma3_text"), ("olmo3", "olmo2"), ("qwen3_moe", "qwen3"),
     ("phi", "phi3"), ("gpt_neo", "gpt_neox"), ("ministral", "mistral"), ("llama4", "llama"),
     ("deberta", "deberta-v2"), ("deberta-v3", "deberta-v2"), ("nomic", "nomic_bert"),
     ("plbart", "bart")],
)  # fmt: skip
def test_an_unknown_architecture_is_told_the_nearest(
    kind: str, nearest: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    refusal(tmp_path, repr(kind), f"the nearest is {nearest};")


@pytest.mark.parametrize("path", ["x" * 300 + ".gguf", "a\0b/x.gguf", "x" * 300, "a\0b"])
def test_a_name_no_file_can_have_is_refused_too(path: str) -> None:
    with pytest.raises(GlassformerError) as caught:
        gf.load(path)
    folders.one_line(caught.value)


def cache(folder: Path, root: Path) -> Path:
    """As the hub's client lays a download down: links to blobs named by their digests."""
    home, blobs = root / "snapshots" / "0123abcd", root / "blobs"
    blobs.mkdir(parents=True)
    for number, file in enumerate(each for each in sorted(folder.rglob("*")) if each.is_file()):
        shutil.copy(file, blobs / f"{number:040}")
        place = home / file.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(blobs / f"{number:040}", place.parent))
    return home


def test_the_hubs_cache_is_read_and_no_other_link(whole: dict[str, Path], tmp_path: Path) -> None:
    folder = folders.copy(whole[BERT], tmp_path / "bert")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    home = cache(folder, tmp_path / "models--a--bert")
    assert (home / "config.json").is_symlink()
    model = gf.load(home)
    assert list(folders.differences(model, gf.load(folder))) == []
    assert model.recipe.pool == ("first",)
    model.save(tmp_path / "saved")
    assert folders.files(tmp_path / "saved") == folders.files(folder)
    home.parent.rename(tmp_path / "models--a--bert" / "elsewhere")  # no snapshots, no exception
    refusal(tmp_path / "models--a--bert" / "elsewhere" / "0123abcd", "config.json", "a link to")


def test_the_folder_itself_may_be_a_link(whole: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(whole[GPT2])
    assert list(folders.differences(gf.load(tmp_path / "mine"), gf.load(whole[GPT2]))) == []
    (tmp_path / "cached").symlink_to(cache(whole[GPT2], tmp_path / "models--a--gpt2"))
    assert list(folders.differences(gf.load(tmp_path / "cached"), gf.load(whole[GPT2]))) == []


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../../b", "", ".", "a\0b", ".."])
def test_no_name_leads_out_of_a_folder(name: str, tmp_path: Path) -> None:
    for look in (safe_files.locate, safe_files.open_plain, lambda f, n: safe_files.read(f, n, 9)):
        with pytest.raises(CheckpointError) as caught:
            look(tmp_path, name)
        folders.one_line(caught.value, str(tmp_path), repr(name))


@pytest.mark.parametrize("name", [BERT, MARIAN, LLAMA])
def test_a_model_larger_than_the_machine_is_refused(
    name: str, whole: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights and, where there are any, computed tables; a byte more is enough."""
    tables = {BERT: 0, MARIAN: 2 * 17 * 12, LLAMA: 17 * 8}[name]
    weights = (whole[name] / WEIGHTS).stat().st_size
    size = int.from_bytes((whole[name] / WEIGHTS).read_bytes()[:8], "little")
    needed = weights - 8 - size + tables * budget.WORK
    monkeypatch.setattr(budget, "memory", lambda: needed)
    gf.load(whole[name])
    monkeypatch.setattr(budget, "memory", lambda: needed - 1)
    refusal(whole[name], "config.json", f"{needed:,}", f"{needed - 1:,}")


def test_this_machine_says_how_much_memory_it_has() -> None:
    assert 1 << 28 < budget.memory() < 1 << 50


@pytest.mark.parametrize(
    ("name", "width"), [(MARIAN, 2 * 12), (LLAMA, 8)], ids=["sinusoidal", "rotary"]
)
def test_a_computed_table_may_be_long_but_not_without_end(
    name: str, width: int, whole: dict[str, Path], tmp_path: Path
) -> None:
    folder = folders.copy(whole[name], tmp_path / "long")
    folders.edit_tensors(  # in the file the table has its old length
        folder, lambda t: [t.pop(key) for key in list(t) if "embed_positions" in key]
    )
    longest = budget.SMALL_TABLE // width
    edit_config(folder, max_position_embeddings=longest)
    assert gf.load(folder).task.backbone.config.max_length == longest
    edit_config(folder, max_position_embeddings=longest + 1)
    refusal(folder, "max_position_embeddings", f"{(longest + 1) * width:,}")


@pytest.mark.slow
def test_what_is_said_of_a_pickle_helps(whole: dict[str, Path], tmp_path: Path) -> None:
    """The line of the error, run as it stands, makes a folder that opens."""
    old = folders.copy(whole[CLASSIFY], tmp_path / "old")
    torch.save(folders.read_tensors(old), old / "pytorch_model.bin")
    (old / WEIGHTS).unlink()
    command = re.search(r"python -c \"(.*)\"", refusal(old, "pytorch_model.bin"))[1]
    code = command.replace("FOLDER", str(old)).replace("NEW", str(tmp_path / "new"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(folders.differences(gf.load(tmp_path / "new"), gf.load(whole[CLASSIFY]))) == []


def test_a_file_that_changes_between_a_look_and_its_reading_gets_one_line(
    whole: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(next(iter(whole.values())), tmp_path / "model"))
    look = safe_files.kind_of
    with monkeypatch.context() as patch:  # a link when it is looked at, then a file
        patch.setattr(
            safe_files, "kind_of", lambda p: "a link" if p.name == "config.json" else look(p)
        )
        refusal(folder, "config.json", "cannot be read")
    with monkeypatch.context() as patch:  # there when it is looked at, then gone
        patch.setattr(safe_files, "locate", lambda home, name: home / "gone")
        refusal(folder, "config.json", "cannot be read")


def test_a_disk_that_fails_gets_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __enter__(self) -> None:
            raise OSError(5, "Input/output error")

        def __exit__(self, *why: object) -> None: ...

    monkeypatch.setattr(safe_files, "open_plain", lambda folder, name: Failing())
    with pytest.raises(CheckpointError, match=r"config.json: cannot be read: Input/output error"):
        safe_files.read(tmp_path, "config.json", 99)
