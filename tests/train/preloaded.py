"""All that a run may import, for the process that lives are forked from."""

from __future__ import annotations

import pkgutil
from importlib import import_module

for name in ("data", "evaluation", "objectives", "recipe", "tasks", "text", "train"):
    package = import_module(f"glassformer.{name}")
    for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        import_module(each.name)
