"""What a model can learn: one file for each objective.

A module here that defines `OBJECTIVE` is an objective, and its name is what `objective.kind` in a
recipe says. Importing this package costs no torch.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from glassformer.errors import ConfigError
from glassformer.fields import RecipeFields
from glassformer.objectives.base import Objective

OBJECTIVES: dict[str, Objective] = {
    name: module.OBJECTIVE
    for _, name, _ in iter_modules(__path__)
    if hasattr(module := import_module(f"{__name__}.{name}"), "OBJECTIVE")
}


def objective_of(recipe: RecipeFields) -> Objective:
    """The objective that a recipe names."""
    kind = recipe.objective.kind
    if kind not in OBJECTIVES:
        raise ConfigError(f"objective.kind = {kind!r}: write one of {', '.join(OBJECTIVES)}")
    return OBJECTIVES[kind]


__all__ = ["OBJECTIVES", "Objective", "objective_of"]
