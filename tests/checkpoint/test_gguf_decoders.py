"""GGUF files of the newer decoders: the weights of their safetensors folders, bit for bit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

import glassformer as gf
import kit
from ggufs import turn
from glassformer.checkpoint.tables.gguf_kinds import PLUS_ONE
from glassformer.errors import CheckpointError
from kit import Case
from parity import gemma2, gemma3, gpt_neox, olmo2, phi3, smollm3

KINDS = {
    "gemma2": gemma2, "gemma3": gemma3, "gptneox": gpt_neox, "olmo2": olmo2, "phi3": phi3,
    "smollm3": smollm3,
}  # fmt: skip
FIELDS = {  # theirs → llama.cpp's
    "num_hidden_layers": "block_count", "max_position_embeddings": "context_length",
    "hidden_size": "embedding_length", "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "layer_norm_eps": "attention.layer_norm_epsilon",
    "use_parallel_residual": "use_parallel_residual", "sliding_window": "attention.sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping", "vocab_size": "vocab_size",
}  # fmt: skip


def case(kind: str) -> Case:
    """Its parity case, as far as llama.cpp has the same: some numbers are fixed there."""
    found = next(c for c in KINDS[kind].CASES if c.name.endswith("ForCausalLM"))
    sizes = dict(found.sizes)
    if kind == "smollm3":
        sizes |= {"no_rope_layer_interval": 4, "num_hidden_layers": 5}
    if kind in PLUS_ONE:
        sizes["query_pre_attn_scalar"] = sizes["head_dim"]
    if kind == "gemma3":
        sizes |= {"num_hidden_layers": 7}
        sizes = {
            k: v for k, v in sizes.items() if k not in ("layer_types", "sliding_window_pattern")
        }
    return replace(found, sizes=sizes)


def fields(kind: str, config: Any) -> dict[str, Any]:
    values = {ours: getattr(config, theirs, None) for theirs, ours in FIELDS.items()}
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope = config.rope_parameters
    values["rope.freq_base"] = float(rope.get("full_attention", rope)["rope_theta"])
    if "sliding_attention" in rope:
        values["rope.freq_base_swa"] = float(rope["sliding_attention"]["rope_theta"])
        if rope["full_attention"]["rope_type"] == "linear":
            values["rope.scaling.type"] = "linear"
            values["rope.scaling.factor"] = float(rope["full_attention"]["factor"])
    turned = int(width * rope.get("partial_rotary_factor", 1.0))
    values |= {"rope.dimension_count": turned}
    if kind != "gptneox":
        values |= {"attention.key_length": width, "attention.value_length": width}
    return {f"{kind}.{name}": value for name, value in values.items() if value is not None}


def converted(kind: str, name: str, weight: np.ndarray, config: Any) -> np.ndarray:
    """What llama.cpp's converter does to the weights."""
    heads = config.num_attention_heads
    if kind in PLUS_ONE and name.endswith("norm.weight"):
        return weight + 1
    if kind == "smollm3" and ("q_proj" in name or "k_proj" in name):
        return turn(weight, config.hidden_size // heads)
    if "query_key_value" in name:  # by head; there, all queries, all keys, all values
        parts = weight.reshape(heads, 3, -1, *weight.shape[1:])
        return np.ascontiguousarray(parts.swapaxes(0, 1).reshape(weight.shape))
    return weight


def write(path: Path, kind: str, model: Any, dtype: type = np.float32, **changes: Any) -> Path:
    """The names of the tensors are those of the gguf package."""
    architecture = next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names = gguf.get_tensor_name_map(architecture, model.config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, kind)
    for key, value in (fields(kind, model.config) | changes).items():
        whole = type(value) is int
        type_ = gguf.GGUFValueType.UINT32 if whole else gguf.GGUFValueType.get_type(value)
        writer.add_key_value(key, value, type_)
    for theirs, tensor in model.state_dict().items():
        tied = theirs in ("lm_head.weight", "embed_out.weight")
        if tied and model.config.tie_word_embeddings:
            continue
        weight = converted(kind, theirs, tensor.numpy(), model.config)
        stored = dtype if weight.ndim == 2 else np.float32
        named = names.get_name(theirs, try_suffixes=(".weight", ".bias"))
        assert named is not None, theirs
        writer.add_tensor(named, weight.astype(stored))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_weights_and_answers_are_those_of_the_folder(kind: str, tmp_path: Path) -> None:
    reference, folder = kit.saved(case(kind), tmp_path / "folder")
    model = gf.load(write(tmp_path / "model.gguf", kind, reference))
    assert model.config.model_copy(update={"dropout": None, "ids": None, "init_std": 0}) == (
        folder.config.model_copy(update={"dropout": None, "ids": None, "init_std": 0})
    )
    ours, theirs = model.state_dict(), folder.state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        if kind in PLUS_ONE and "norm" in name:
            assert torch.equal(1 + tensor, 1 + theirs[name]), name
        else:
            assert torch.equal(tensor, theirs[name]), name
    given = {"ids": kit.texts(kit.LENGTHS, reference.config.vocab_size)}
    expected = kit.our_answers(folder, given)
    assert kit.difference(kit.our_answers(model, given), expected) <= 1e-5
    given["ids"][1][0] = (given["ids"][1][0] + 1) % 50 + 3
    assert kit.difference(kit.our_answers(model, given), expected) > 1e-2


def test_half_precision_and_the_way_back(kind: str, tmp_path: Path) -> None:
    reference, _ = kit.saved(case(kind), tmp_path / "folder")
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.copy_(parameter.half().float())
    model = gf.load(write(tmp_path / "model.gguf", kind, reference, np.float16))
    model.save(tmp_path / "saved")
    again = gf.load(tmp_path / "saved")
    assert again.origin is not None
    assert again.origin.architecture.model_type == reference.config.model_type
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name


@pytest.mark.parametrize(("kind", "depth"), [("gemma2", 46), ("gemma3", 62)])
def test_models_whose_scale_the_file_does_not_say(kind: str, depth: int, tmp_path: Path) -> None:
    reference, _ = kit.saved(case(kind), tmp_path / "folder")
    path = write(tmp_path / "model.gguf", kind, reference, **{f"{kind}.block_count": depth})
    with pytest.raises(CheckpointError, match="how scores are scaled"):
        gf.load(path)


def test_what_could_change_the_arithmetic_is_refused(tmp_path: Path) -> None:
    reference, _ = kit.saved(case("phi3"), tmp_path / "folder")
    wrong = {
        "phi3.rope.dimension_count": 2, "phi3.rope.scaling.factor": 2.0, "phi3.something": 1,
    }  # fmt: skip
    for name, value in wrong.items():
        path = write(tmp_path / "model.gguf", "phi3", reference, **{name: value})
        if name == "phi3.rope.dimension_count":
            assert gf.load(path).config.rotary_width == 2
            continue
        with pytest.raises(CheckpointError, match=name.partition(".")[2]):
            gf.load(path)
