"""Functions that launch kernels, as operators that torch's compiler takes as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def operator(
    path: str, fake: Callable[..., Any], *, device: str = "cuda", tags: Sequence[torch.Tag] = ()
) -> Callable[[Callable[..., Any]], Any]:
    """Decorates a function that changes none of its arguments.

    `torch.library.custom_op` does nearly the same, but at the first call of an operator it imports
    the compiler, which takes some seconds, even if nothing is compiled. Only an operator with
    `torch.library.register_autograd` has a gradient.

    Args:
        path: its namespace and name, as in "glassformer::argmax"
        fake: returns empty tensors of the shapes that the function returns
    """
    namespace, name = path.split("::")

    def register(function: Callable[..., Any]) -> Any:
        schema = torch.library.infer_schema(function, mutates_args=())
        torch.library.define(path, schema, tags=tags)
        torch.library.impl(path, device, function)
        torch.library.register_fake(path, fake)
        return getattr(getattr(torch.ops, namespace), name)

    return register
