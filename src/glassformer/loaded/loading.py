"""`load` opens a model folder; `record` keeps what happens inside the model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from glassformer import inference
from glassformer.checkpoint import find, is_gguf, load_task, widened
from glassformer.errors import CheckpointError, ConfigError, shown
from glassformer.glass import Edit, Keep, Recorder, Trace
from glassformer.inference import embedding_config, sentence_layers
from glassformer.loaded.model import Model
from glassformer.precision import HALF, compute_dtype, read_device, read_dtype
from glassformer.text import Text, Tokenizer


def load(
    folder: str | os.PathLike[str],
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | str | None = None,
    adapter: str | os.PathLike[str] | None = None,
) -> Model:
    """Open a model in the Hugging Face layout: BERT, GPT-2, Marian, T5, Llama and the like.

    Args:
        folder: a folder; the name of a model that comes with the package (a folder of this name
            takes precedence); a name of the Hugging Face hub, which is downloaded; a GGUF file of a
            decoder, opened as float32; static vectors of GloVe or word2vec
        device: where the model computes; the CPU, if not given
        dtype: what it computes in, such as "float32". If not given, half precision stays where the
            device is fast at it, and becomes float32 elsewhere; `save` still writes the precision
            of the file
        adapter: the folder of an adapter in PEFT's layout, which the model computes with;
            `merge_adapter` makes it a part of the weights

    Nothing in the folder is executed. CheckpointError if it cannot be read safely.

    Examples:
        >>> model = gf.load("gf-encoder")
        >>> model = gf.load("gf-encoder", device="cpu", dtype="float32")
    """
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise ConfigError(f"load({shown(folder)}): give a folder, a file or a name, as text")
    place = None if device is None else read_device(device)
    chosen = None if dtype is None else read_dtype(dtype)
    folder = Path(folder) if is_gguf(folder) else find(folder)
    task, origin = load_task(folder)
    size = task.backbone.config.vocab_size
    tokenizer = Tokenizer.from_files(origin.files, str(folder), size)
    recipe = embedding_config(origin.files, str(folder))
    layers = sentence_layers(recipe, origin.files, task.width, str(folder))
    try:
        model = Model(task, tokenizer, origin=origin, recipe=recipe, layers=layers)
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from None
    model = model.to(device=place, dtype=chosen).eval()
    model = model if chosen is not None else _in_compute_dtype(model)
    return model if adapter is None else model.with_adapter(model.add_adapter(adapter))


def _in_compute_dtype(model: Model) -> Model:
    half = next((p.dtype for p in model.parameters() if p.dtype in HALF), None)
    if half is not None and model.origin is not None:
        dtype = compute_dtype(half, model.device).dtype
        if dtype != half:
            model.origin = widened(model.task, model.origin, dtype)
    return model


def record(
    model: Model, what: Text | Sequence[int] | tuple[Sequence[int], Sequence[int]], *,
    keep: Keep = "*", edit: Edit | None = None,
) -> Trace:  # fmt: skip
    """Run the model on one text, and keep every named tensor.

    Args:
        what: a text, a pair of texts, or token ids; for a translation model the pair (source,
            target), as texts or ids; for a model of documents, a document
        keep: which tensors: a pattern ("*.weights"), several, or a function of the name
        edit: changes to tensors: from a pattern to a tensor, or to a function of the tensor

    Examples:
        >>> trace = gf.record(encoder, "The cat sat on the mat.")
        >>> trace["encoder.blocks.0.attention.weights"].shape  # heads, tokens, tokens
        torch.Size([4, 9, 9])
    """
    if not isinstance(model, Model):
        raise ConfigError(f"record({shown(model)}, …): give a model, as gf.load returns it")
    batch, tokens, source = inference.record_batch(model.task, model.tokenizer, what)
    sentences = [] if batch.documents is None else list(batch.sequences.lengths)
    recorder = Recorder(model, keep, edit, several=len(sentences) > 1)
    with torch.no_grad():
        model(batch, visitor=recorder)
    recorder.check()
    return Trace(recorder.tensors, tokens, source, model.config.model_dump(), sentences)
