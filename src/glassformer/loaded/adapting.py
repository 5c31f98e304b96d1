"""The calls of a model that load, choose, merge and save adapters."""

from __future__ import annotations

import copy
import os
from abc import ABC
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from glassformer.adapters import Adapter, merged, read_adapter, routed, write_adapter
from glassformer.checkpoint import Origin
from glassformer.checkpoint.load import new_origin
from glassformer.errors import InputError, shown
from glassformer.loaded.base import ModelBase
from glassformer.tasks import Task
from glassformer.tasks.quantize import quantization
from glassformer.text import Tokenizer, is_one, items_of

NAMES = "a name, or one for each text"
AdapterChoice = str | Sequence[str | None] | None


class AdaptedModel(ModelBase, ABC):
    """Abstract; `Model` has the other calls."""

    def add_adapter(self, folder: str | os.PathLike[str], name: str | None = None) -> str:
        """Load an adapter in PEFT's layout beside the model, which stays as it is.

        Args:
            folder: with adapter_config.json and adapter_model.safetensors
            name: what calls choose it by; the folder's name, if not given

        Returns the name: pass it as `adapter` to `embed`, `classify`, `generate` or `logits`, or to
        `with_adapter`. Nothing in the folder is executed.

        Examples:
            >>> model = gf.load("gf-encoder")
            >>> model.add_adapter("polite")
            'polite'
            >>> model.embed("A cat sat.", adapter="polite").shape
            torch.Size([1, 256])
        """
        if name is not None and (not isinstance(name, str) or not name):
            raise InputError(f"add_adapter: name = {shown(name)}: write a text")
        if (method := quantization(self.task)) is not None:
            raise InputError(
                f"add_adapter: {method} weights take no adapter: load the model again, add and "
                f"merge the adapter, and call quantize({method!r}) last"
            )
        name = name or Path(folder).resolve().name
        if name in self.adapters:
            raise InputError(f"add_adapter: there is an adapter {name!r}: choose another name")
        self.adapters[name] = read_adapter(folder, self._base, self.origin)
        return name

    def with_adapter(self, name: str) -> Self:
        """A model that computes with one of the adapters in every call; its weights are shared.

        Examples:
            >>> model = gf.load("gf-encoder")
            >>> polite = model.with_adapter(model.add_adapter("polite"))
            >>> polite.fill("The cat sat on the [MASK].")[0].candidates[0].text
            '...'
        """
        adapter, base = self._adapter(name), self._base
        model = type(self)(
            adapter.apply_to(base), self.tokenizer, origin=self.origin, recipe=self.recipe,
            layers=self.sentence_layers,
        )  # fmt: skip
        model.base, model.adapters, model.active = (base,), self.adapters, name
        return model.train(self.training)

    def merge_adapter(self) -> Self:
        """Add the adapter of `load` or `with_adapter` to the weights, in place.

        Returns the model itself: a plain model, to be saved, exported or quantized. Weights
        that the file has in half precision are rounded to it, as PEFT does.

        Examples:
            >>> model = gf.load("gf-encoder", adapter="polite").merge_adapter()
            >>> model.save("polite-encoder")
        """
        adapter = self._active("merge_adapter")
        task = _own_modules(merged(self.task))
        self.origin = _origin(task, self.origin, new_head=bool(adapter.head))
        if self.origin is not None:
            _round(task, self.origin)
        self.task, self.base, self.adapters, self.active = task, (), {}, None
        return self

    def save_adapter(self, folder: str | os.PathLike[str], *, base: str | None = None) -> None:
        """Write the adapter of `load` or `with_adapter` alone, as a folder that PEFT opens.

        Args:
            base: the name or path of the model, for the adapter's config

        Examples:
            >>> gf.load("gf-encoder", adapter="polite").save_adapter("copy-of-polite")
        """
        adapter = self._active("save_adapter")
        config = adapter.config if base is None else {
            **adapter.config, "base_model_name_or_path": base
        }  # fmt: skip
        write_adapter(folder, self.task, self.origin, config, adapter.saved)

    def able(self, call: str, adapter: AdapterChoice = None) -> tuple[Task, Tokenizer]:
        """The task and tokenizer for `inference`; InputError if the model lacks the head.

        Args:
            adapter: the name of an adapter, or one for each text

        Examples:
            >>> task, tokenizer = encoder.able("fill")
        """
        return self._able(self.chosen(adapter, head=call != "embed"), call)

    def chosen(self, adapter: AdapterChoice, *, head: bool = True) -> Task:
        """The task with one adapter, or with one for each text; without a choice, the model's own.

        Args:
            adapter: the name of an adapter, or one for each text
            head: whether the head is used, too, so that all must have the same one

        Examples:
            >>> encoder.chosen(None) is encoder.task
            True
        """
        if adapter is None:
            return self.task
        if is_one(adapter):
            return self._with(str(adapter))
        names = adapter_names(adapter)
        used = [name for name in dict.fromkeys(names) if name is not None]
        adapters = [self._adapter(name) for name in used]
        numbers = [None if name is None else used.index(name) for name in names]
        return routed(self._base, adapters, numbers, head=head)

    def _with(self, name: str | None) -> Task:
        """The task with one adapter; without a name, the base model."""
        return self._base if name is None else self._adapter(name).apply_to(self._base)

    @property
    def _base(self) -> Task:
        return self.base[0] if self.base else self.task

    def _adapter(self, name: str) -> Adapter:
        if name not in self.adapters:
            known = ", ".join(map(repr, self.adapters))
            hint = f"write one of {known}" if known else "load it with add_adapter(folder)"
            raise InputError(f"adapter = {shown(name)}: there is none of this name: {hint}")
        return self.adapters[name]

    def _active(self, call: str) -> Adapter:
        if self.active is None:
            raise InputError(
                f"{call}: this model computes without an adapter: load it with "
                "load(…, adapter=folder), or choose one by with_adapter(name)"
            )
        return self._adapter(self.active)


def adapter_names(adapter: Any) -> list[str | None]:
    """The names for each text; InputError if these are none."""
    names = items_of(adapter, "adapter", NAMES)
    for name in names:
        if name is not None and not isinstance(name, str):
            raise InputError(f"adapter: {shown(name)}: give {NAMES}")
    return names


def _origin(task: Task, origin: Origin | None, *, new_head: bool) -> Origin | None:
    """Where to write the merged model: as the folder it came from, unless its head is another.

    The folder's card is about the model without the adapter, and stays behind.
    """
    if origin is None:
        return None
    files = {name: data for name, data in origin.files.items() if name != "README.md"}
    if not new_head:
        return replace(origin, files=files)
    fresh = new_origin(task, origin.architecture.model_type)
    stored = {name: kind for name, kind in origin.stored.items() if name.startswith("backbone.")}
    return replace(fresh, files=files, stored=stored)


def _own_modules(task: Task) -> Task:
    """A copy that shares the memory of the weights, but no module and no parameter.

    So moving it, or quantizing it, leaves the model without the adapter as it is.
    """
    own: dict[int, Any] = {
        id(p): nn.Parameter(p.detach(), p.requires_grad) for p in task.parameters()
    }
    return copy.deepcopy(task, own)


@torch.no_grad()
def _round(task: Task, origin: Origin) -> None:
    """To the precision of the file, which `save` writes."""
    for name, parameter in task.named_parameters():
        if name in origin.stored:
            parameter.data = parameter.to(origin.stored[name]).to(parameter.dtype)
