"""Functions that launch kernels, as operators that torch's compiler takes as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def operator(
    path: str,
    fake: Callable[..., Any] | None,
    *,
    device: str = "cuda",
    tags: Sequence[torch.Tag] = (),
) -> Callable[[Callable[..., Any]], Any]:
    """Decorates a function that changes none of its arguments.

    `torch.library.custom_op` does nearly the same, but at the first call of an operator it imports
    the compiler, which takes some seconds, even if nothing is compiled. Only an operator with
    `torch.library.register_autograd` has a gradient.

    Args:
        path: its namespace and name, as in "glassformer::argmax"
        fake: returns empty tensors of the shapes that the function returns; without it the operator
            is for any device, and is compiled as the operations that the function calls
    """
    namespace, name = path.split("::")
    operators = getattr(torch.ops, namespace)

    def register(function: Callable[..., Any]) -> Any:
        if hasattr(operators, name):  # its module is imported once more
            return getattr(operators, name)
        schema = torch.library.infer_schema(function, mutates_args=())
        torch.library.define(path, schema, tags=tags)
        torch.library.impl(path, device if fake else "CompositeImplicitAutograd", function)
        if fake is not None:
            torch.library.register_fake(path, fake)
        return getattr(operators, name)

    return register
