"""The model of a run: checked before the data is prepared, built after."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from glassformer.checkpoint import layout_of, load_task, read_configs
from glassformer.checkpoint.budget import check_memory
from glassformer.config import ModelConfig, TokenIds
from glassformer.data.special_tokens import END, PAD, find_id
from glassformer.errors import CheckpointError, ConfigError, shown
from glassformer.objectives import objective_of
from glassformer.pretrained import named, nearly
from glassformer.recipe.schema import Recipe, model_config, with_dropout
from glassformer.tasks import Task, build_task
from glassformer.tasks.calls import FAMILIES
from glassformer.tasks.heads import Labels
from glassformer.tasks.quantize import quantization
from glassformer.text import Tokenizer

# Until the tokenizer is known: a model that generates must have these tokens.
PLACEHOLDER_IDS = {
    "encoder": TokenIds(pad=0),
    "decoder": TokenIds(start=0, end=0),
    "seq2seq": TokenIds(pad=0, start=0, end=0),
}
PLACEHOLDER_LABELS = ("a", "b")  # for classes that are not known yet


def check_model(recipe: Recipe, source: str) -> None:
    """ConfigError if the recipe's model cannot be trained on its objective, or not saved."""
    objective = objective_of(recipe)
    if recipe.init_from is None:
        ids = PLACEHOLDER_IDS[objective.family]
        config = model_config(recipe, recipe.tokenizer.vocab_size, ids, source)
        spec = objective.task_config(recipe, config, PLACEHOLDER_LABELS)
        try:
            layout_of(config, spec)
        except CheckpointError as error:
            raise ConfigError(f"{source}: model: {error}") from None
        check_memory(config, spec, _bytes_per_weight(recipe.train.device), source)
        return
    folder = named(recipe.init_from)
    if not folder.exists():
        hint = nearly(folder) or "write the folder of a model"
        raise ConfigError(f"{folder}: no such folder: {hint}")
    stored = read_configs(folder)[0]
    config = with_dropout(recipe, stored, source)
    if not objective.accepts(config):
        raise ConfigError(
            f"{recipe.init_from}: this model is {FAMILIES[config.family]}, and objective.kind = "
            f"{objective.name!r} needs {FAMILIES[objective.family]}"
        )
    if config.max_length < recipe.objective.length:
        raise ConfigError(
            f"{source}: objective.length = {recipe.objective.length}: the model reads at most "
            f"{config.max_length} tokens"
        )
    if recipe.model and _layout(recipe, config) != _layout(recipe, stored):
        raise ConfigError(
            f"model.dropout = {shown(recipe.model['dropout'])}: no known layout of this model "
            "holds it: give embedding and residual the same rate"
        )
    objective.task_config(recipe, config, PLACEHOLDER_LABELS)
    try:
        objective.check_initial(recipe)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None


def _check_ids(config: ModelConfig, tokenizer: Tokenizer, source: str) -> None:
    """ConfigError if the recipe's own vocab_size or ids do not fit the tokenizer."""
    if config.vocab_size <= tokenizer.highest:
        raise ConfigError(
            f"{source}: model.vocab_size = {config.vocab_size}: the tokenizer has "
            f"{tokenizer.highest + 1} tokens: write at least as many, or leave it out"
        )
    for name, token in config.ids.model_dump().items():
        if token is not None and not 0 <= token < config.vocab_size:
            raise ConfigError(
                f"{source}: model.ids.{name} = {token}: write a token id below "
                f"{config.vocab_size}, or leave it out"
            )


def _bytes_per_weight(device: str) -> int:
    """In this machine's memory: on a CPU also the gradient and two moving averages."""
    return 4 if device != "cpu" and torch.cuda.is_available() else 16


def _layout(recipe: Recipe, config: ModelConfig) -> str | None:
    """The model type of the folder that it would be saved as."""
    try:
        spec = objective_of(recipe).task_config(recipe, config, PLACEHOLDER_LABELS)
        return layout_of(config, spec)[0].model_type
    except (CheckpointError, ConfigError):
        return None


def build_model(
    recipe: Recipe,
    tokenizer: Tokenizer,
    source: str,
    labels: tuple[str, ...],
    files: Mapping[str, bytes],
    log: Callable[[str], None] = lambda line: None,
) -> Task:
    """The task to train: with random weights, or from the initial model; `files` are beside it."""
    objective = objective_of(recipe)
    torch.manual_seed(recipe.train.seed)
    if recipe.init_from is not None:
        task = _load(recipe, source, labels, log)
    else:
        pad, end = find_id(tokenizer, PAD), find_id(tokenizer, END)
        start = pad if objective.family == "seq2seq" else end
        ids = TokenIds(pad=pad, start=start, end=end)
        config = model_config(recipe, tokenizer.highest + 1, ids, source)
        _check_ids(config, tokenizer, source)
        task = build_task(config, objective.task_config(recipe, config, labels)).train()
    return objective.wrap(recipe, task, files)


def _load(recipe: Recipe, source: str, labels: tuple[str, ...], log: Callable[[str], None]) -> Task:
    """The initial model with the recipe's dropout. A head for another task is replaced by a new
    one; with random_init only the network is taken."""
    objective, folder = objective_of(recipe), named(str(recipe.init_from))
    if recipe.random_init:
        config = with_dropout(recipe, read_configs(folder)[0], source)
        return build_task(config, objective.task_config(recipe, config, labels)).train()
    task, _ = load_task(folder)
    if (method := quantization(task)) is not None:
        raise ConfigError(
            f"{source}: init_from = {str(recipe.init_from)!r}: its weights are {method}, which "
            "cannot be trained: write the model that it was made from"
        )
    config = with_dropout(recipe, task.backbone.config, source)
    spec = objective.task_config(recipe, config, labels)
    keeps_head = objective.keeps_head(recipe, task.spec, spec)
    if keeps_head and config == task.backbone.config:
        return task.float().train()
    new = build_task(config, task.spec if keeps_head else spec)
    if keeps_head:
        new.load_state_dict(task.state_dict())
    else:
        new.backbone.load_state_dict(task.backbone.state_dict())
        kept = "".join(f", {name} kept" for name in keep_shared(new, task))
        log(
            f"{recipe.init_from}: new head for {spec.kind} (the model came with {task.spec.kind}"
            f"{kept})"
        )
    return new.train()


def keep_shared(new: Task, old: Task) -> list[str]:
    """Copy the parts that both heads have and that do not depend on labels; return their names.

    The pooler of next sentence prediction serves a classifier, as in BERT.
    """
    kept = []
    for name, part in new.named_children():
        same = getattr(old, name, None)
        if part is new.backbone or isinstance(part, Labels) or type(same) is not type(part):
            continue
        if _sizes(same) == _sizes(part):
            part.load_state_dict(same.state_dict())
            kept.append(name)
    return kept


def _sizes(part: nn.Module) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in part.state_dict().items()}
