"""Small GGUF files as llama.cpp's converter writes them, and ways to damage their bytes."""

import functools
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from kit import hot

LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500_000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
}  # fmt: skip
GONE = object()  # in `write`: leave the field out
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
}  # fmt: skip
SIZES = {
    "vocab_size": 101, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "intermediate_size": 37, "max_position_embeddings": 17,
    "rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}, "rms_norm_eps": 1e-3,
}  # fmt: skip


def reference(kind: str = "llama", **changes: Any) -> Any:
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(kind, **SIZES | changes)
    model = transformers.AutoModelForCausalLM.from_config(config)
    return hot(model, config.hidden_size).eval()


def fields(config: Any) -> dict[str, Any]:
    width = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    llama = {
        "llama.block_count": config.num_hidden_layers,
        "llama.context_length": config.max_position_embeddings,
        "llama.embedding_length": config.hidden_size,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.attention.key_length": width,
        "llama.attention.value_length": width,
        "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "llama.rope.freq_base": config.rope_parameters["rope_theta"],
        "llama.rope.dimension_count": width,
        "llama.vocab_size": config.vocab_size,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    return {key.replace("llama.", f"{config.model_type}."): value for key, value in llama.items()}


def write(
    path: Path,
    model: Any,
    kind: str = "F32",
    changes: Mapping[str, Any] | None = None,
    tensors: Callable[[dict[str, np.ndarray]], object] = lambda found: None,
    architecture: str | None = None,
    endian: gguf.GGUFEndian = gguf.GGUFEndian.LITTLE,
) -> Path:
    """Write the model, its matrices packed as `kind`; it keeps the weights that come out again."""
    packing = gguf.GGMLQuantizationType[kind]
    config, found = model.config, {}
    for theirs, weight in model.state_dict().items():
        if theirs == "lm_head.weight" and config.tie_word_embeddings:
            continue
        packed = weight.numpy()
        if weight.dim() == 2:
            packed = gguf.quantize(packed, packing)
            weight.copy_(torch.from_numpy(gguf.dequantize(packed, packing).copy()))
        if config.model_type == "llama" and ("q_proj" in theirs or "k_proj" in theirs):
            packed = turn(packed, config.head_dim)
        found[name(theirs)] = packed
    if config.rope_parameters["rope_type"] == "llama3":
        found["rope_freqs.weight"] = factors(config)
    tensors(found)
    writer = gguf.GGUFWriter(path, architecture or config.model_type, endianess=endian)
    for key, value in (fields(config) | dict(changes or {})).items():
        if key == "general.alignment":
            writer.add_custom_alignment(value)
        elif value is not GONE:
            wanted = gguf.GGUFValueType.get_type(value)
            unsigned = type(value) is int and value >= 0
            writer.add_key_value(key, value, gguf.GGUFValueType.UINT32 if unsigned else wanted)
    for key, packed in found.items():
        raw = packing if packed.ndim == 2 and packed.dtype == np.uint8 else None
        writer.add_tensor(key, packed, raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def factors(config: Any) -> np.ndarray:
    """By how much each pair of entries turns slower, as llama.cpp's converter computes it."""
    width, rope = config.head_dim, config.rope_parameters
    plain = 1.0 / rope["rope_theta"] ** (torch.arange(0, width, 2) / width)
    slowed, _ = ROPE_INIT_FUNCTIONS["llama3"](config)
    return (plain / slowed).numpy()


def name(theirs: str) -> str:
    stem, _, leaf = theirs.rpartition(".")
    if not stem.startswith("model.layers."):
        return f"{NAMES[stem]}.{leaf}"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{NAMES[rest]}.{leaf}"


def turn(rows: np.ndarray, width: int) -> np.ndarray:
    """The rows of each head in the order 0, D/2, 1, D/2 + 1, …, as llama.cpp wants them."""
    halves = rows.reshape(-1, 2, width // 2, *rows.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows.shape))


@functools.cache
def tokenizer() -> dict[str, Any]:
    """The fields of a small byte-level tokenizer: 4 special tokens, bytes, merges, an added one."""
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    trainer = trainers.BpeTrainer(
        vocab_size=275,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.train_from_iterator(["the cat sat on the mat, then the hat sat on the cat"], trainer)
    model = json.loads(backend.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    tokens.append("<think>")
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * 4 + [1] * (len(tokens) - 5) + [4],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.padding_token_id": 3,
    }


def after(data: bytes, name: str) -> int:
    """Where the value of a field, or the sizes of a tensor, begin."""
    sized = struct.pack("<Q", len(name)) + name.encode()
    assert data.count(sized) == 1
    return data.index(sized) + len(sized)


def patch(path: Path, at: int, code: str, *values: Any) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into("<" + code, data, at, *values)
    path.write_bytes(data)
