"""A model to go on from: looked at before the data is prepared, loaded after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glassformer.checkpoint import fitting, layout_of, load_task, read_configs
from glassformer.config import ModelConfig, TaskConfig, TokenIds
from glassformer.errors import CheckpointError, ConfigError, shown
from glassformer.pretrained import named, nearly
from glassformer.recipe.schema import (
    FAMILY,
    LABELLED,
    Recipe,
    model_config,
    task_config,
    with_dropout,
)
from glassformer.recipe.validation import check_pool
from glassformer.tasks import Task, build_task
from glassformer.train.labelled import pooling_of


def check_start(recipe: Recipe, source: str) -> None:
    """Can this model learn what the recipe wants, and be saved then? Its config tells."""
    if recipe.init_from is None:
        # Which tokens these are, the tokenizer will say: who writes has to have them.
        ids = {"seq2seq": TokenIds(pad=0, start=0, end=0), "decoder": TokenIds(start=0, end=0)}
        known = ids.get(FAMILY[recipe.objective.kind][0], TokenIds())
        fresh = model_config(recipe, recipe.tokenizer.vocab_size, known, source)
        try:
            layout_of(fresh, spec_of(recipe, fresh, ("a", "b")))
        except CheckpointError as error:
            raise ConfigError(f"{source}: model: {error}") from None
        return
    folder, learn = named(recipe.init_from), recipe.objective
    if not folder.exists():
        hint = nearly(recipe.init_from) or "write the folder of a model"
        raise ConfigError(f"{folder}: no such folder: {hint}")
    stated, _ = read_configs(folder)
    config = with_dropout(recipe, stated, source)
    family = FAMILY[learn.kind][0]
    reads = learn.kind in LABELLED and config.family == "decoder"  # it labels what it has read
    if config.family != family and not reads:
        raise ConfigError(
            f"{folder}: this model is of the family {config.family!r}, and objective.kind = "
            f"{learn.kind!r} needs {family!r}"
        )
    if config.max_length < learn.length:
        raise ConfigError(
            f"{source}: objective.length = {learn.length}: the model reads at most "
            f"{config.max_length} tokens"
        )
    if recipe.model and _layout(recipe, config) != _layout(recipe, stated):
        raise ConfigError(
            f"model.dropout = {shown(recipe.model['dropout'])}: no known layout of this model "
            "holds it: give embedding and residual the same rate"
        )
    spec_of(recipe, config, ("a", "b"))
    try:
        check_pool(recipe, pooling_of(recipe))  # it may be the model's own
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None


def _layout(recipe: Recipe, config: ModelConfig) -> str | None:
    """The kind of folder that it would be saved as."""
    try:
        return layout_of(config, spec_of(recipe, config, ("a", "b")))[0].model_type
    except (CheckpointError, ConfigError):
        return None


def spec_of(recipe: Recipe, config: ModelConfig, labels: Sequence[str]) -> TaskConfig:
    """The head that the recipe wants on this backbone: of labelled data, the one that stands on it
    in its usual layout, so that others can use it, too."""
    learn = recipe.objective
    if learn.kind not in LABELLED:
        return task_config(recipe, config)
    kind = FAMILY[learn.kind][1]
    found = fitting(config, kind, labels)  # type: ignore[arg-type]
    if not found:
        raise ConfigError(
            f"objective.kind = {learn.kind!r}: no known layout of this model has it: start from "
            "another one"
        )
    pool = learn.pool if learn.kind == "classification" else None
    fits = [spec for spec in found if pool in (None, spec.pool)]
    if not fits:
        usual = " or ".join(repr(spec.pool) for spec in found)
        raise ConfigError(
            f"objective.pool = {pool!r}: in the layout of this model it is {usual}: leave it out"
        )
    return fits[0]


def started(
    recipe: Recipe,
    source: str,
    labels: Sequence[str] = (),
    tell: Callable[[str], None] = lambda line: None,
) -> Task:
    """A folder's model with the recipe's dropout; where its head is for something else, with a
    fresh one; or its network alone."""
    folder = named(str(recipe.init_from))
    if recipe.random_init:
        config = with_dropout(recipe, read_configs(folder)[0], source)
        return build_task(config, spec_of(recipe, config, labels)).train()
    task, _ = load_task(folder)
    config = with_dropout(recipe, task.backbone.config, source)
    wanted = spec_of(recipe, config, labels)
    same = (task.spec.kind, task.spec.labels) == (wanted.kind, wanted.labels)
    if recipe.objective.kind == "classification" and recipe.objective.pool is not None:
        same = same and recipe.objective.pool == task.spec.pool
    if same and config == task.backbone.config:
        return task.float().train()
    fresh = build_task(config, task.spec if same else wanted)
    if same:
        fresh.load_state_dict(task.state_dict())
    else:
        fresh.backbone.load_state_dict(task.backbone.state_dict())
        tell(f"{recipe.init_from}: fresh head for {wanted.kind} (it came with {task.spec.kind})")
    return fresh.train()
