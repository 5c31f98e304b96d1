"""ONNX files say in onnxruntime what the model says, for padded texts of mixed lengths."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
import kit
from commands import glassformer, refused
from glassformer.checkpoint import onnx_export
from glassformer.errors import CheckpointError, ConfigError, InputError
from kit import Case
from parity import (
    albert,
    bart,
    bert,
    deberta,
    distilbert,
    electra,
    gemma2,
    gemma3,
    gpt2,
    gpt_neox,
    llama,
    m2m_100,
    marian,
    mbart,
    modernbert,
    mpnet,
    nomic_bert,
    qwen3,
    roberta,
    t5,
    t5gemma,
    umt5,
)

DEPTHS = {"num_hidden_layers", "encoder_layers", "decoder_layers"}
SMALL = [
    replace(case, sizes={key: 1 if key in DEPTHS else value for key, value in case.sizes.items()})
    for case in (bert.CASES[0], llama.CASES[0], marian.CASES[0])
]
LARGE = [
    each.CASES[0]
    for each in (albert, bart, bert, deberta, distilbert, electra, gemma2, gemma3, gpt2, gpt_neox,
                 llama, m2m_100, marian, mbart, modernbert, mpnet, nomic_bert, qwen3, roberta, t5,
                 t5gemma, umt5)
]  # fmt: skip
HEADS = [*bert.CASES[1:], *modernbert.CASES[2:], *bart.CASES[2:], *llama.CASES[1:]]


def padded(lists: list[list[int]], left: bool) -> np.ndarray:
    """Zeros on the right; or on the left of every second row."""
    longest = max(map(len, lists))
    rows = []
    for i, row in enumerate(lists):
        zeros = [0] * (longest - len(row))
        rows.append([*zeros, *row] if left and i % 2 else [*row, *zeros])
    return np.array(rows)


def session(folder: Path, name: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(folder / name, options, ["CPUExecutionProvider"])


def run(session: Any, **given: np.ndarray) -> dict[str, Any]:
    outputs = [output.name for output in session.get_outputs()]
    return dict(zip(outputs, session.run(None, given), strict=True))


def answers(folder: Path, given: kit.Given, *, left: bool) -> list[torch.Tensor]:
    """What the files say of each text, without its padding."""
    ids, mask = padded(given["ids"], left), padded([[1] * len(x) for x in given["ids"]], left)
    if (folder / "decoder_model.onnx").exists():
        source = run(session(folder, "encoder_model.onnx"), input_ids=ids, attention_mask=mask)
        targets = padded(given["targets"], False)
        mask, states = padded([[1] * len(x) for x in given["targets"]], False), mask
        outputs = run(
            session(folder, "decoder_model.onnx"), input_ids=targets,
            encoder_hidden_states=source["last_hidden_state"], encoder_attention_mask=states,
        )  # fmt: skip
    else:
        kinds = {"token_type_ids": padded(given["segments"], left)} if "segments" in given else {}
        outputs = run(session(folder, "model.onnx"), input_ids=ids, attention_mask=mask, **kinds)
    first = torch.from_numpy(next(iter(outputs.values())))
    if "start_logits" in outputs:
        first = torch.stack([torch.from_numpy(value) for value in outputs.values()], -1)
    return list(first) if first.dim() == 2 else [x[m] for x, m in zip(first, mask > 0, strict=True)]


def write(case: Case, folder: Path) -> Path:
    """A model's folder and its ONNX files, beside each other."""
    _, model = kit.saved(case, folder / "model")
    assert model.export_onnx(folder / "onnx") <= 1e-4
    return folder


def check_same(case: Case, folder: Path) -> None:
    given = kit.inputs(case)
    ours = kit.our_answers(gf.load(folder / "model"), given)
    for left in (False, True):
        assert kit.difference(answers(folder / "onnx", given, left=left), ours) <= 1e-4
    given["ids"][1][0] += 1  # the test can fail
    with pytest.raises(AssertionError):
        assert kit.difference(answers(folder / "onnx", given, left=False), ours) <= 1e-4


FIRST = replace(gpt2.CASES[0], sizes=gpt2.CASES[0].sizes | {"n_layer": 1, "vocab_size": 20_011})


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export takes seconds: several tests share this one."""
    return write(FIRST, tmp_path_factory.mktemp("onnx"))


@pytest.fixture
def same_graph(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is exported is that graph, whatever the model's weights are now."""

    def copy(graph: Any, path: Path) -> None:
        shutil.copyfile(written / "onnx" / path.name, path)

    monkeypatch.setattr(onnx_export, "write_graph", copy)


def test_onnxruntime_says_the_same(written: Path) -> None:
    check_same(FIRST, written)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*SMALL, *LARGE, *HEADS], ids=str)
def test_every_architecture_and_head_says_the_same(case: Case, tmp_path: Path) -> None:
    check_same(case, write(case, tmp_path))


@pytest.mark.slow
@pytest.mark.usefixtures("same_graph")
def test_the_command_writes_int8(written: Path, tmp_path: Path) -> None:
    small, out = written / "model", tmp_path / "int8"
    said = json.loads(glassformer("export", small, out, "--onnx", "--quantize", "int8", "--json"))
    assert said["files"].keys() >= {"config.json", "model.onnx"}
    assert not [name for name in said["files"] if name.endswith(".safetensors")]
    model, given = gf.load(small), {"ids": kit.texts(kit.LENGTHS, 20_011)}
    weights = 4 * sum(parameter.numel() for parameter in model.parameters())
    assert said["files"]["model.onnx"] < weights
    ours, theirs = kit.our_answers(model, given), answers(out, given, left=True)
    assert 1e-4 < said["largest_difference"] < 0.3
    assert kit.difference(theirs, ours) < 0.3 * max(row.abs().max().item() for row in ours)


@pytest.mark.usefixtures("same_graph")
def test_files_that_differ_are_not_kept(written: Path, tmp_path: Path) -> None:
    model = gf.load(written / "model")
    assert model.export_onnx(tmp_path / "same") <= 1e-4
    with torch.no_grad():
        model.task.backbone.token_embedding.neg_()
    with pytest.raises(CheckpointError, match=r"logits .* differs .* nothing was written"):
        model.export_onnx(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["same"]


def test_what_cannot_be_written_is_one_line(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = written / "model"
    said = refused("export", small, tmp_path / "out", "--onnx", "--quantize", "int4", code=2)
    assert "float32 or int8" in said
    said = refused("export", small, tmp_path / "out", "--onnx", "--dtype", "float16", code=2)
    assert "float32 or int8" in said
    config = gf.ModelConfig(
        family="encoder", vocab_size=11, width=4, depth=0, heads=1, mlp_width=4, max_length=8
    )
    task = gf.TaskConfig(kind="classification", labels=("a", "b"), pool="words")
    with pytest.raises(InputError, match="documents"):
        onnx_export.export_onnx(gf.build_task(config, task), tmp_path / "out", {})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'glassformer\[onnx\]'"):
        gf.load(small).export_onnx(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_model_in_the_folder_stays(written: Path, tmp_path: Path) -> None:
    """ONNX files may stand beside the weights."""
    small = Path(shutil.copytree(written / "model", tmp_path / "model"))
    before = (small / "model.safetensors").read_bytes()
    glassformer("export", small, small, "--onnx", "--force")
    assert (small / "model.safetensors").read_bytes() == before
    assert gf.load(small).config.family == "decoder"
    assert b".py" not in (small / "model.onnx").read_bytes()  # where torch was installed
    assert answers(small, {"ids": [[5, 6]]}, left=False)[0].shape == (2, 20_011)
