"""The names of all fields of a recipe, and which one somebody means who writes another name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import cache

from pydantic import BaseModel

from glassformer.config import ModelConfig
from glassformer.fields import (
    AdapterConfig,
    DataConfig,
    DistributedConfig,
    ObjectiveConfig,
    TokenizerConfig,
    TrainConfig,
)

GROUPS: dict[str, type[BaseModel]] = {
    "data": DataConfig, "tokenizer": TokenizerConfig, "model": ModelConfig,
    "objective": ObjectiveConfig, "train": TrainConfig, "adapter": AdapterConfig,
    "distributed": DistributedConfig,
}  # fmt: skip
# What other libraries call a field.
ELSEWHERE = {
    "train.learning_rate": ("lr", "peak_lr", "max_lr"),
    "train.micro_batch_tokens": (
        "batch_size", "bs", "tokens", "batch", "per_device_train_batch_size", "train_batch_size",
    ),
    "train.micro_batches": ("gradient_accumulation_steps", "grad_accum", "accumulate"),
    "train.epochs": ("num_epochs", "num_train_epochs", "max_epochs", "n_epochs"),
    "train.steps": ("max_steps", "num_steps", "max_iters", "iterations"),
    "train.warmup": ("warmup_steps", "warmup_ratio", "warmup_iters"),
    "train.min_lr_ratio": ("min_lr",),
    "train.schedule": ("scheduler", "lr_scheduler", "lr_scheduler_type"),
    "train.optimiser": ("optimizer", "optim"),
    "train.max_grad_norm": ("grad_clip", "clip", "gradient_clip_val", "clip_grad_norm"),
    "train.precision": ("fp16", "bf16", "dtype", "amp"),
    "train.evaluate_every": ("eval_steps", "eval_interval", "eval_every", "evaluation_strategy"),
    "train.save_every": ("save_steps", "save_interval"),
    "train.keep_checkpoints": ("save_total_limit",),
    "train.activation_checkpointing": ("gradient_checkpointing", "grad_checkpoint"),
    "train.ema_decay": ("ema",),
    "train.patience": ("early_stopping", "early_stopping_patience"),
    "train.layerwise_lr_decay": ("llrd", "layer_decay"),
    "train.workers": ("num_workers", "dataloader_num_workers"),
    "objective.length": (
        "max_seq_length", "max_seq_len", "seq_len", "seq_length", "block_size", "context_length",
    ),
    "objective.kind": ("task", "objective", "problem_type"),
    "objective.mask_rate": ("mlm_probability", "mlm_prob", "masking_rate"),
    "objective.pool": ("pooling", "pooling_mode"),
    "data.valid": ("validation", "val", "eval", "dev", "test", "valid_file", "validation_file"),
    "data.train": ("train_file", "path", "file", "dataset"),
    "data.valid_fraction": ("val_split", "validation_split", "test_size", "split"),
    "data.text": ("text_column", "column"),
    "data.label": ("label_column", "target", "labels"),
    "data.separator": ("sep", "delimiter"),
    "tokenizer.kind": ("tokenizer_type", "algorithm"),
    "adapter.rank": ("r", "lora_r", "lora_rank"),
    "adapter.alpha": ("lora_alpha",),
    "adapter.dropout": ("lora_dropout",),
    "adapter.targets": ("target_modules", "lora_target"),
    "adapter.dora": ("use_dora",),
    "init_from": ("model_name_or_path", "pretrained", "checkpoint", "start", "base_model"),
    "model.depth": ("n_layer", "n_layers", "num_layers", "num_hidden_layers", "layers"),
    "model.heads": ("n_head", "n_heads", "num_heads", "num_attention_heads", "nhead"),
    "model.width": ("n_embd", "d_model", "hidden_size", "embed_dim", "dim", "hidden_dim"),
    "model.mlp_width": ("n_inner", "d_ff", "intermediate_size", "ffn_dim", "dim_feedforward"),
    "model.key_heads": ("num_key_value_heads", "n_kv_heads"),
    "model.max_length": ("max_position_embeddings", "n_positions"),
    "model.activation": ("hidden_act", "act"),
}  # fmt: skip
UNITS = {"train.micro_batch_tokens": "in tokens, not texts"}  # where another name means another


def hint(name: str, before: str = "") -> str:
    """What to write instead of an unknown field, such as train.lr; `before` it stand dashes."""
    field = meant(name)
    if field is None:
        return "`glassformer recipe fields` lists all"
    unit = f" ({UNITS[field]})" if field in UNITS else ""
    return f"did you mean {before + field!r}{unit}?"


def meant(name: str) -> str | None:
    """The field of another library's name, of the same name in another group, or a near one."""
    group, _, last = name.rpartition(".")
    for field, others in ELSEWHERE.items():
        if last in others:
            return field
    names = field_names()
    same = [field for field in names if field.rpartition(".")[2] == last]
    inside = [field for field in names if field.startswith(f"{group}.")] if group else []
    near = difflib.get_close_matches(name, inside, 1, 0.7)
    near += difflib.get_close_matches(name, names, 1, 0.7)
    by_last = {field.rpartition(".")[2]: field for field in reversed(names)}
    near += [by_last[each] for each in difflib.get_close_matches(last, by_last, 1, 0.75)]
    return next(iter((*same, *near)), None)


@cache
def field_names() -> tuple[str, ...]:
    """Every field: GROUP.FIELD, or FIELD of no group."""
    grouped = (name for group, schema in GROUPS.items() for name in _names(schema, group))
    return ("name", "init_from", "random_init", "root", *grouped, "model.preset")


def _names(schema: type[BaseModel], group: str) -> Iterator[str]:
    for name, field in schema.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _names(inner, f"{group}.{name}")
        yield f"{group}.{name}"
