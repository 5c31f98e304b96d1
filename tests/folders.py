"""Small model folders as transformers writes them, and ways to change them by hand."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

import glassformer as gf
from glassformer import ModelConfig, TaskConfig, build_task
from glassformer.checkpoint import ARCHITECTURES
from glassformer.config import DECODER_SIZES

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
GONE = object()  # in edit_config: take the key out
THEIRS = {kind: each for kind, each in ARCHITECTURES.items() if kind != "glassformer"}
KINDS = {name: kind for kind, each in THEIRS.items() for name in each.heads}

# Sizes that no two dimensions share, so that a swapped axis shows.
SIZES = {
    "bert": {
        "vocab_size": 53, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
        "intermediate_size": 19, "max_position_embeddings": 17,
    },
    "gpt2": {
        "vocab_size": 53, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_inner": 19,
        "n_positions": 17, "bos_token_id": 1, "eos_token_id": 2,
    },
    "marian": {
        "vocab_size": 53, "d_model": 12, "encoder_layers": 2, "decoder_layers": 3,
        "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 19,
        "decoder_ffn_dim": 19, "max_position_embeddings": 17, "pad_token_id": 52,
        "decoder_start_token_id": 52, "eos_token_id": 0, "forced_eos_token_id": 0,
    },
}  # fmt: skip
SIZES["roberta"] = {**SIZES["bert"], "max_position_embeddings": 19, "type_vocab_size": 1}
ALIKE = ("xlm-roberta", "camembert")  # RoBERTa's network: a new model is saved as RoBERTa
SIZES["xlm-roberta"] = SIZES["camembert"] = SIZES["roberta"]
SIZES["mpnet"] = {k: v for k, v in SIZES["roberta"].items() if k != "type_vocab_size"}
SIZES["nomic_bert"] = {**SIZES["bert"], "type_vocab_size": 2}
SIZES["electra"] = {**SIZES["bert"], "embedding_size": 7}
SIZES["albert"] = {**SIZES["electra"], "pad_token_id": 0}
SIZES["deberta-v2"] = {
    **SIZES["bert"], "type_vocab_size": 0, "position_biased_input": False, "position_buckets": 4,
    "relative_attention": True, "share_att_key": True, "pos_att_type": ["p2c", "c2p"],
    "norm_rel_ebd": "layer_norm", "pad_token_id": 0,
}  # fmt: skip
SIZES["distilbert"] = {
    "vocab_size": 53, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 19,
    "max_position_embeddings": 17,
}  # fmt: skip
SIZES["modernbert"] = {
    **{key: size for key, size in SIZES["bert"].items() if key != "type_vocab_size"},
    "local_attention": 6, "global_attn_every_n_layers": 3, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
}  # fmt: skip
SIZES["llama"] = {**SIZES["bert"], "num_key_value_heads": 1, "head_dim": 8, "pad_token_id": 0}
SIZES["qwen2"] = {**SIZES["bert"], "num_key_value_heads": 1, "pad_token_id": 0}
SIZES |= {"qwen3": SIZES["llama"], "olmo2": SIZES["qwen2"]}
SIZES["mistral"] = {**SIZES["llama"], "sliding_window": 3}
SIZES["phi3"] = {**SIZES["mistral"], "partial_rotary_factor": 0.5, "eos_token_id": 2}
SIZES["smollm3"] = {
    **SIZES["qwen2"], "no_rope_layer_interval": 2, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
SIZES["gemma2"] = {**SIZES["llama"], "query_pre_attn_scalar": 7, "sliding_window": 3}
SIZES["gemma3_text"] = {**SIZES["gemma2"], "sliding_window_pattern": 2}
SIZES["gpt_neox"] = {**SIZES["bert"], "rotary_pct": 0.5, "pad_token_id": 0}
SIZES["bart"] = {**SIZES["marian"], "pad_token_id": 1}
SIZES["t5"] = {
    "vocab_size": 53, "d_model": 12, "d_kv": 5, "d_ff": 19, "num_layers": 2,
    "num_decoder_layers": 3, "num_heads": 3, "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 11, "decoder_start_token_id": 0,
}  # fmt: skip
SIZES["t5gemma"] = {
    "vocab_size": 53,
    "encoder": {**SIZES["gemma2"], "query_pre_attn_scalar": 7},
    "decoder": {
        **SIZES["gemma2"], "hidden_size": 10, "num_attention_heads": 5, "num_key_value_heads": 5,
        "num_hidden_layers": 3, "intermediate_size": 23,
    },
}  # fmt: skip
SIZES["mbart"] = SIZES["m2m_100"] = {**SIZES["bart"], "pad_token_id": 0}
SIZES["mt5"] = SIZES["umt5"] = SIZES["t5"]
# The same sizes in our words, and what stands on them by the name of the reference's class.
COMMON = {"vocab_size": 53, "width": 12, "depth": 2, "heads": 3, "mlp_width": 19, "max_length": 17}
POST = {"norm_place": "post", "final_norm": False}
CONFIGS = {
    "bert": ModelConfig(family="encoder", segments=2, embedding_norm=True, **COMMON, **POST),
    "gpt2": ModelConfig(family="decoder", norm_place="pre", activation="gelu_tanh", **COMMON),
    "marian": ModelConfig(
        family="seq2seq",
        position="sinusoidal",
        sinusoid="halves",
        decoder_depth=3,
        ids={"start": 52, "end": 0, "pad": 52},
        **COMMON,
        **POST,
    ),
}
LABELS = {"labels": ("no", "perhaps", "yes")}
TASKS = {
    "BertModel": TaskConfig(kind="features", pooler="tanh"),
    "BertForMaskedLM": TaskConfig(kind="masked_lm"),
    "BertForPreTraining": TaskConfig(kind="masked_lm_nsp"),
    "BertForNextSentencePrediction": TaskConfig(
        kind="next_sentence", labels=("follows", "random"), pooler="tanh"
    ),
    "BertForSequenceClassification": TaskConfig(kind="classification", pooler="tanh", **LABELS),
    "BertForTokenClassification": TaskConfig(kind="token_classification", **LABELS),
    "BertForQuestionAnswering": TaskConfig(kind="question_answering"),
    "GPT2Model": TaskConfig(kind="features"),
    "GPT2LMHeadModel": TaskConfig(kind="causal_lm", bias=False),
    "GPT2ForSequenceClassification": TaskConfig(
        kind="classification", bias=False, pool="last", **LABELS
    ),
    "GPT2ForTokenClassification": TaskConfig(kind="token_classification", **LABELS),
    "GPT2ForQuestionAnswering": TaskConfig(kind="question_answering"),
    "MarianModel": TaskConfig(kind="features"),
    "MarianMTModel": TaskConfig(kind="translation"),
}
for _name, _kind in KINDS.items():  # the later ones, as their tables read them
    if _name in TASKS:
        CONFIGS[_name] = CONFIGS[_kind]
    else:
        _read = ARCHITECTURES[_kind].read({**SIZES[_kind], "architectures": [_name]}, _name)
        CONFIGS[_name], TASKS[_name] = _read
        CONFIGS.setdefault(_kind, _read[0])


def reference(name: str, *, dtype: torch.dtype = torch.float32, **changes: Any) -> nn.Module:
    """The class of transformers that has this name, small, with random weights."""
    import transformers  # slow, and not every test needs it

    transformers.utils.logging.disable_progress_bar()
    kind = KINDS[name]
    config = transformers.AutoConfig.for_model(kind, **SIZES[kind] | changes)
    model = getattr(transformers, name)(config)
    heat(model, skip="embed_positions")
    return model.to(dtype)


def heat(model: nn.Module, *, skip: str = " ", seed: int = 7) -> nn.Module:
    """Weights of standard deviation 0.3: fresh ones are so small that they hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in model.state_dict(keep_vars=True).items():
        if tensor.is_floating_point() and skip not in name:
            norm = re.search(r"(norm|ln_\w)\.weight$", name.lower())
            tensor.data.normal_(1.0 if norm else 0.0, 0.3, generator=generator)
    return model


def tiny(family: str, *, kind: str | None = None, **changes: Any) -> gf.Model:
    """A small model of ours with random weights, without a tokenizer, in float64."""
    name = {"encoder": "bert", "decoder": "gpt2", "seq2seq": "marian"}[family]
    usual = {"encoder": "masked_lm", "decoder": "causal_lm", "seq2seq": "translation"}[family]
    sizes = dict.fromkeys(("head_width", "value_width", "score_width", "key_heads"))
    sizes |= {f"decoder_{size}": None for size in DECODER_SIZES if size != "depth"}
    config = ModelConfig(**CONFIGS[name].model_dump() | sizes | changes)
    labels = ("no", "perhaps", "yes") if kind in ("classification", "token_classification") else ()
    task = build_task(config, TaskConfig(kind=kind or usual, labels=labels), dtype=torch.float64)
    return heat(gf.Model(task).eval())


def write(name: str, folder: Path, *, shards: str = "1GB", **changes: Any) -> Path:
    reference(name, **changes).save_pretrained(folder, max_shard_size=shards)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """Every file below the folder, by its relative name."""
    found = (each for each in sorted(folder.rglob("*")) if each.is_file())
    return {str(each.relative_to(folder)): each.read_bytes() for each in found}


def read_config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


def edit_config(folder: Path, **changes: Any) -> None:
    config = read_config(folder) | changes
    config = {key: value for key, value in config.items() if value is not GONE}
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def read_tensors(folder: Path, name: str = WEIGHTS) -> dict[str, Tensor]:
    with safe_open(folder / name, "pt") as file:
        return {each: file.get_tensor(each).clone() for each in file.keys()}  # noqa: SIM118


def write_tensors(folder: Path, tensors: dict[str, Tensor], name: str = WEIGHTS) -> None:
    save_file({k: t.clone() for k, t in tensors.items()}, folder / name, {"format": "pt"})


def edit_tensors(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """`change` alters the dictionary of tensors in place."""
    tensors = read_tensors(folder)
    change(tensors)
    write_tensors(folder, tensors)


def renamed(folder: Path, rename: Callable[[str], str]) -> None:
    """Give every tensor of the file another name."""
    tensors = read_tensors(folder)
    write_tensors(folder, {rename(name): tensor for name, tensor in tensors.items()})


def copy(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to)
    return to


def one_line(error: BaseException, *words: str) -> str:
    """The error's text, which must be one line that holds these words."""
    text = str(error)
    assert "\n" not in text, text
    assert "\r" not in text, text
    for word in words:
        assert word in text, f"{word!r} is not in: {text}"
    return text


def differences(a: nn.Module, b: nn.Module) -> Iterator[str]:
    """Names of parameters and buffers that are not bit for bit the same."""
    left, right = ({**dict(m.named_parameters()), **dict(m.named_buffers())} for m in (a, b))
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        if tensor.dtype != right[name].dtype or not torch.equal(tensor, right[name]):
            yield name
