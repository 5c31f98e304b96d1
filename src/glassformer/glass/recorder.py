"""The recorder: keeps named tensors of a forward pass, and edits them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, InputError, shown
from glassformer.glass.recorded import nearest
from glassformer.model import Block
from glassformer.precision import widen
from glassformer.text import plain

Keep: TypeAlias = str | Iterable[str] | Callable[[str], bool]
Replacement: TypeAlias = Literal["zero", "mean"] | Tensor
Edit: TypeAlias = Mapping[str, Tensor | Callable[[Tensor], Tensor]]


class Recorder:
    """A Visitor of one text or, with `several`, of a document: sentences are then the first axis.

    Args:
        keep: which tensors to keep: a pattern ("*.weights"), several, or a function of the name
        edit: from a pattern to a tensor that replaces the tensors of these names, or to a function
            that takes the tensor and returns a new one
    """

    def __init__(
        self, model: nn.Module, keep: Keep = "*", edit: Edit | None = None, *, several: bool = False
    ) -> None:
        if model.training:
            raise InputError("record: the model is in training mode: call model.eval() first")
        self.names: dict[nn.Module, list[str]] = {}
        for name, module in model.named_modules(remove_duplicate=False):
            self.names.setdefault(module, []).append(_short(name))
        self.blocks_done = 0  # a block that is used for several layers has several names
        self.patterns = (keep,) if isinstance(keep, str) else () if callable(keep) else tuple(keep)
        self.keep = keep if callable(keep) else self._matches
        if edit is not None and not isinstance(edit, Mapping):
            raise ConfigError(
                f"edit = {shown(edit)}: give a dict from a tensor's name to its change, as in "
                '{"encoder.blocks.0.attention.mixed": gf.ablate(0)}'
            )
        self.edit = dict(edit or {})
        for name, change in self.edit.items():
            if not (isinstance(change, Tensor) or callable(change)):
                raise ConfigError(f"edit of {name!r} is {change!r}: give a tensor or a function")
        self.several = several
        self.used: set[str] = set()
        self.tensors: dict[str, Tensor] = {}
        self.seen: dict[str, None] = {}

    def wants(self, module: nn.Module, name: str) -> bool:
        path = self._path(module, name)
        return self.keep(path) or any(fnmatchcase(path, pattern) for pattern in self.edit)

    def visit(self, module: nn.Module, name: str, value: Tensor) -> Tensor:
        path = self._path(module, name)
        self.seen[path] = None
        for pattern, change in self.edit.items():
            if fnmatchcase(path, pattern):
                self.used.add(pattern)
                value = _changed(path, value, change, self.several)
        if self.keep(path):
            self.tensors[path] = widen(value if self.several else _of_one_text(value))
        self.blocks_done += isinstance(module, Block) and name == "out"
        return value

    def check(self) -> None:
        """A pattern that matched nothing is a mistake in a name: ConfigError."""
        if self.patterns and not self.tensors:
            names = ", ".join(self.patterns)
            raise ConfigError(f"keep: nothing is called {names!r}{nearest(names, self.seen)}")
        for pattern in self.edit:
            if pattern not in self.used:
                raise ConfigError(
                    f"edit: nothing is called {pattern!r}{nearest(pattern, self.seen)}"
                )

    def _matches(self, path: str) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in self.patterns)

    def _path(self, module: nn.Module, name: str) -> str:
        places = self.names[module]
        place = places[self.blocks_done % len(places)]
        return f"{place}.{name}" if place else name


def modules(model: nn.Module) -> dict[str, nn.Module]:
    """The modules by their names in a trace: "encoder.blocks.0.attention", whatever wraps them."""
    named = model.named_modules(remove_duplicate=False)
    return {_short(name): module for name, module in named}


def _short(name: str) -> str:
    return name.removeprefix("task.").removeprefix("backbone.").removeprefix("task")


def _of_one_text(value: Tensor) -> Tensor:
    """Tensors inside attention have an axis for texts, (1, H, T, S): without it."""
    if value.dim() != 4:
        return value
    if value.shape[0] != 1:
        raise InputError(f"{value.shape[0]} texts at once: record them one by one")
    return value[0]


def _changed(
    path: str, value: Tensor, change: Tensor | Callable[[Tensor], Tensor], several: bool
) -> Tensor:
    old = value if several else _of_one_text(value)
    new = change if isinstance(change, Tensor) else change(old.clone())
    if not isinstance(new, Tensor) or new.shape != old.shape:
        result = list(new.shape) if isinstance(new, Tensor) else type(new).__name__
        raise ConfigError(
            f"edit of {path!r} gave {result}: give a tensor of shape {list(old.shape)}"
        )
    return new.to(device=value.device, dtype=value.dtype).reshape(value.shape)


def ablate(
    *heads: int | Iterable[int], by: Replacement = "zero"
) -> Callable[[Tensor], Tensor]:  # fmt: skip
    """For `edit`: removes the output of these heads. Use it on "….mixed", (T, H, D).

    Args:
        heads: their numbers, one by one or in a list
        by: what replaces it: "zero", "mean" (the head's mean over the tokens of this text), or a
            tensor (H, D), such as the mean over many texts

    Examples:
        >>> edit = {"encoder.blocks.0.attention.mixed": gf.ablate(0, 1, by="mean")}
        >>> trace = gf.record(encoder, "The cat sat.", edit=edit)
    """
    if not (isinstance(by, Tensor) or by in ("zero", "mean")):
        raise ConfigError(f"ablate: by = {by!r}: write 'zero', 'mean' or a tensor")
    numbers = _head_numbers(heads)

    def change(mixed: Tensor) -> Tensor:
        if not numbers:
            return mixed
        count = mixed.shape[1]
        if any(not 0 <= head < count for head in numbers):
            named = ", ".join(map(str, numbers))
            raise ConfigError(f"ablate({named}): write heads from 0 to {count - 1}")
        mean = mixed.mean(0)
        instead = by if isinstance(by, Tensor) else mean if by == "mean" else torch.zeros_like(mean)
        if instead.shape != mixed.shape[1:]:
            raise ConfigError(
                f"ablate: by has shape {list(instead.shape)}: give {list(mixed.shape[1:])}"
            )
        chosen = torch.tensor(numbers, device=mixed.device)
        rows = instead.to(mixed)[chosen].expand(mixed.shape[0], -1, -1)
        return mixed.index_copy(1, chosen, rows)

    return change


def _head_numbers(heads: Iterable[int | Iterable[int]]) -> list[int]:
    numbers: list[int] = []
    for each in heads:
        try:
            bare = plain(each)
            numbers += map(operator.index, [bare] if isinstance(bare, int) else bare)
        except TypeError:
            raise ConfigError(
                f"ablate({shown(each)}): write the numbers of heads, as in ablate(0, 1)"
            ) from None
    return numbers
