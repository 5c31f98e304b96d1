"""A task with its tokenizer and the folder it came from: what every call of a model needs."""

from __future__ import annotations

import os
from abc import ABC
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from glassformer import inference
from glassformer.adapters import Adapter
from glassformer.checkpoint import (
    Origin,
    config_text,
    model_card,
    save_task,
    storage_dtype,
)
from glassformer.config import ModelConfig
from glassformer.errors import CheckpointError, InputError, shown
from glassformer.inference import EmbeddingConfig
from glassformer.model import Batch, Cache, Visitor
from glassformer.precision import dtype_name
from glassformer.tasks import Output, Task
from glassformer.tasks.quantize import count_parameters, quantization, quantize, read_method
from glassformer.text import Tokenizer
from glassformer.text.sentencepiece import MODEL_FILES

FINGERPRINT = "tokenizer_fingerprint"  # in config.json: that of the tokenizer it was trained with
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.txt", "vocab.json", "merges.txt", *MODEL_FILES,
)  # fmt: skip


class ModelBase(nn.Module, ABC):
    """Abstract; `Model` is the one that adds the calls."""

    def __init__(
        self,
        task: Task,
        tokenizer: Tokenizer | None = None,
        *,
        origin: Origin | None = None,
        recipe: EmbeddingConfig | None = None,
        layers: nn.ModuleDict | None = None,
    ) -> None:
        super().__init__()
        if tokenizer is not None:
            _check_belongs(tokenizer, task, origin)
        self.task = task
        self.tokenizer = tokenizer
        self.origin = origin
        self.recipe = recipe or EmbeddingConfig()
        self.sentence_layers = nn.ModuleDict() if layers is None else layers
        # Not registered as modules: they share those of `task`, which have one name each.
        self.base: tuple[Task, ...] = ()  # the task without the adapter that `task` computes with
        self.adapters: dict[str, Adapter] = {}
        self.active: str | None = None  # the name of the adapter that `task` computes with

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Output:
        """The task's output for a batch of token ids; `visitor` sees every named tensor.

        Examples:
            >>> encoder(gf.Batch.of([[2, 17, 9, 3]])).logits.shape
            torch.Size([4, 11008])
        """
        if not isinstance(batch, Batch):
            names = [*self.task.spec.traits.calls]
            names += ["embed"] if self.config.family != "seq2seq" else []
            raise InputError(
                f"model({shown(batch)}): it takes gf.Batch.of(ids): give token ids to "
                f"model.logits, or texts to {', '.join(f'model.{name}' for name in names)}"
            )
        output: Output = self.task(batch, cache=cache, visitor=visitor)
        return output

    @property
    def config(self) -> ModelConfig:
        """What the model is made of.

        Examples:
            >>> encoder.config.width
            256
        """
        return self.task.backbone.config

    @property
    def device(self) -> torch.device:
        """Where it computes.

        Examples:
            >>> encoder.device
            device(type='cpu')
        """
        return self.task.device

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """What `to` and the like do to each tensor."""
        for module in (*self.base, *self.adapters.values()):
            module._apply(fn, recurse)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def __repr__(self) -> str:
        config, dtype = self.config, dtype_name(self.task.backbone.token_embedding.dtype)
        dtype = quantization(self.task) or dtype
        count = count_parameters(self.task)
        count += sum(parameter.numel() for parameter in self.sentence_layers.parameters())
        return (
            f"Model({config.family}, {self.task.spec.kind}, {config.depth} layers of width "
            f"{config.width}, {count:,} parameters, {dtype} on {self.device})"
        )

    def able(self, call: str) -> tuple[Task, Tokenizer]:
        """The task and tokenizer for `inference`; InputError if the model lacks the head.

        Examples:
            >>> task, tokenizer = encoder.able("fill")
        """
        return self._able(self.task, call)

    def _able(self, task: Task, call: str) -> tuple[Task, Tokenizer]:
        inference.check_kind(task, call)
        return task, self._tokenizer()

    def quantize(self, method: str) -> Self:
        """Round the weights to "int8" or "int4", in place: smaller and faster to read, less exact.

        int8 rounds the inputs of the linear layers, too, on processors that multiply integers. int4
        is for generating one text at a time; its output layer is int8. Returns the model itself. It
        can be saved, and no longer be trained.

        Examples:
            >>> small = gf.load("gf-decoder").quantize("int8")
        """
        self._check_merged("quantize")
        if self.adapters:
            raise InputError(
                f"quantize: adapters are attached ({', '.join(map(repr, self.adapters))}), which "
                "need the exact weights: call with_adapter(name).merge_adapter() first, or load "
                "the model without them"
            )
        chosen = read_method(method)
        if (known := quantization(self.task)) is not None:
            raise InputError(f"quantize: the weights are {known} already: load the model again")
        quantize(self.task, chosen)
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder that `load` and Hugging Face's transformers open.

        A model that was loaded is written back as it was, bit for bit. Only `load` opens the folder
        of a quantized model.

        Examples:
            >>> encoder.save("copy")
        """
        self._check_merged("save")
        notes = {} if self.origin is not None else self._fingerprint()
        save_task(self.task, folder, self.origin, self._files(), notes)

    def export(self, folder: str | os.PathLike[str], *, name: str | None = None) -> None:
        """Like `save`, with a model card (unless it has one) and the tokenizer's fingerprint.

        Args:
            name: the model's name in the card; the folder's, if not given

        Examples:
            >>> encoder.export("published", name="my encoder")
        """
        self._check_merged("export")
        folder_name = Path(folder).resolve().name
        precision = quantization(self.task) or dtype_name(storage_dtype(self.task, self.origin))
        card = model_card(self.task, name or folder_name, precision, folder_name)
        files = {"README.md": card.encode(), **self._files()}
        save_task(self.task, folder, self.origin, files, self._fingerprint())

    def export_onnx(self, folder: str | os.PathLike[str], *, int8: bool = False) -> float:
        """Write a folder with the model in ONNX, for onnxruntime, and with its tokenizer.

        The model is model.onnx; a translation model is encoder_model.onnx and decoder_model.onnx.
        The inputs are padded texts (input_ids, attention_mask) of any number and length; there is
        no cache of keys and values. The files are kept only if onnxruntime computes with them what
        this model computes; int8, which rounds, is only checked for gross errors.

        Args:
            int8: round the weights to int8, with onnxruntime's own tool

        Returns the largest difference between the outputs, in parts of the largest output.

        Examples:
            >>> preset = gf.PRESETS["bert-tiny"]
            >>> model = gf.Model(gf.build_task(preset.model, gf.TaskConfig(kind="masked_lm")))
            >>> model.export_onnx("onnx") < 1e-4
            True
        """
        if (method := quantization(self.task)) is not None:
            raise InputError(
                f"export_onnx: the weights are {method}: load the model again, and write int8=True"
            )
        self._check_merged("export_onnx")
        text = config_text(self.task, self.origin, self._fingerprint())
        files = {**self._files(), "config.json": text.encode()}
        from glassformer.checkpoint.onnx_export import export_onnx  # loads sympy

        return export_onnx(self.task, folder, files, int8=int8)

    def _check_merged(self, call: str) -> None:
        """InputError if the model computes with an adapter beside its weights."""
        if self.active is not None:
            raise InputError(
                f"{call}: the adapter {self.active!r} is not part of the weights: call "
                "merge_adapter() first, or save_adapter(folder) for the adapter alone"
            )

    def _fingerprint(self) -> dict[str, str]:
        return {} if self.tokenizer is None else {FINGERPRINT: self.tokenizer.fingerprint}

    def _files(self) -> dict[str, bytes]:
        """The files of its folder, with the tokenizer replaced if it is another one."""
        files = {} if self.origin is None else dict(self.origin.files)
        files |= inference.layer_files(self.sentence_layers, files)
        if self.tokenizer is None:
            return files
        original = Tokenizer.from_files(files)
        if original is None or original.fingerprint != self.tokenizer.fingerprint:
            files = {name: data for name, data in files.items() if name not in TOKENIZER_FILES}
            files["tokenizer.json"] = self.tokenizer.backend.to_str(pretty=True).encode()
        return files

    def _tokenizer(self) -> Tokenizer:
        return inference.check_tokenizer(self.tokenizer)


def _check_belongs(tokenizer: Tokenizer, task: Task, origin: Origin | None) -> None:
    """CheckpointError if the tokenizer has ids that the model lacks, or is another tokenizer."""
    size = task.backbone.config.vocab_size
    if tokenizer.highest >= size:
        raise CheckpointError(
            f"the tokenizer has ids up to {tokenizer.highest} and the model has "
            f"vocab_size = {size}: they do not belong together"
        )
    stated = None if origin is None else origin.config.get(FINGERPRINT)
    if stated is not None and stated != tokenizer.fingerprint:
        raise CheckpointError(
            f"the tokenizer's fingerprint is {tokenizer.fingerprint} and config.json says "
            f"{FINGERPRINT} = {stated!r:.90}: put back the tokenizer that it was trained with"
        )
