"""Embeddings of texts, and of one word in its sentence."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import CheckpointError, InputError, counted, shown
from glassformer.glass import Recorder
from glassformer.inference.checks import check_top_k
from glassformer.model import Encoder
from glassformer.progress import progress_bar
from glassformer.strictjson import parse
from glassformer.tasks import Task
from glassformer.text import Encoding, Text, Tokenizer

SENTENCE = "sentence_bert_config.json"
POOLING = {
    "cls": "first",
    "cls_token": "first",
    "lasttoken": "last",
    "mean": "mean",
    "mean_tokens": "mean",
}


@dataclass(frozen=True)
class EmbeddingConfig:
    """How a text becomes one vector, as the files of a sentence-transformers folder say."""

    pool: str = "mean"
    normalise: bool = False
    max_length: int | None = None


def embed(
    task: Task,
    tokenizer: Tokenizer,
    texts: Sequence[Text],
    *,
    recipe: EmbeddingConfig,
    pool_by: str | None = None,
    batch_size: int | None = None,
    normalize: bool | None = None,
    progress: bool = False,
) -> Tensor:
    """One vector per text, (B, C). Texts that are too long are truncated, with a warning.

    Args:
        recipe: the model's own pooling, normalisation and maximum length
        pool_by: first, last or mean, instead of the model's pooling
        batch_size: texts of a forward pass; as many as suit the device, if not given
        normalize: divide each vector by its length, instead of what the model's folder says
        progress: show a progress bar
    """
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise InputError(f"batch_size = {shown(batch_size)}: write a whole number from 1 on")
    pool = pool_by or recipe.pool
    if pool not in ("first", "last", "mean"):
        raise InputError(f"pool_by = {pool!r}: write first, last or mean")
    config = task.backbone.config
    most = min(recipe.max_length or config.max_length, config.max_length)
    ids, segments = _truncated(tokenizer.encode_all(texts), most)
    kinds = segments if config.segments else None
    with torch.no_grad(), progress_bar("embed", len(ids), shown=progress) as advance:
        vectors = task.vectors(
            ids, segments=kinds, pool_by=pool, batch_size=batch_size,
            advance=lambda count: advance(count, ""),
        )  # fmt: skip
    unit = recipe.normalise if normalize is None else normalize
    return F.normalize(vectors, dim=-1) if unit else vectors


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of each of a with each of b: (A, C), (B, C) → (A, B), from −1 to 1."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        shapes = f"{list(a.shape)} and {list(b.shape)}"
        raise InputError(f"vectors of shapes {shapes} have no cosine: give (A, C) and (B, C)")
    a, b = a.float(), b.float()  # half precision would exceed 1
    return F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T


def nearest(query: Tensor, vectors: Tensor, top_k: int = 5) -> list[tuple[int, float]]:
    """The indices of the vectors most similar to the query (C,), with their cosines, best first."""
    check_top_k(top_k, "nearest")
    best, places = cosines(query[None], vectors)[0].topk(min(top_k, len(vectors)))
    return list(zip(places.tolist(), best.tolist(), strict=True))


def word(
    task: Task,
    tokenizer: Tokenizer,
    sentence: str,
    word: str,
    *,
    occurrence: int = 0,
    layer: int | None = None,
) -> Tensor:
    """The vector of one word in its sentence, (C,): the mean of its tokens' vectors.

    Args:
        occurrence: which one, if the word is in the sentence several times, from 0
        layer: the block whose output is taken, from 0; the model's output, if not given
    """
    if not isinstance(sentence, str) or not isinstance(word, str) or not word:
        raise InputError(f"word: {sentence!r}, {word!r}: give a sentence and a word in it")
    encoding = tokenizer.encode(sentence)
    spans = [m.span() for m in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", sentence)]
    if not 0 <= occurrence < len(spans):
        if not spans:
            raise InputError(f"{word!r} does not occur in {sentence!r}")
        raise InputError(
            f"{word!r} occurs {counted(len(spans), 'times')} in {sentence!r}: write occurrence = 0"
            + (f" to {len(spans) - 1}" if len(spans) > 1 else "")
            + f", not {occurrence}"
        )
    start, end = spans[occurrence]
    pieces = [
        i
        for i, (a, b) in enumerate(encoding.spans)
        if not encoding.special[i] and a < end and b > start
    ]
    if not pieces:
        raise InputError(f"word: {word!r} has no token of its own in {sentence!r}")
    with torch.no_grad():
        hidden = (
            task.hidden([encoding.ids])[0] if layer is None else _after(task, encoding.ids, layer)
        )
        return hidden[pieces].mean(0)


def _after(task: Task, ids: list[int], layer: int) -> Tensor:
    backbone = task.backbone
    stack = "encoder" if isinstance(backbone, Encoder) else "decoder"
    depth = len(getattr(backbone, stack).blocks)
    if not 0 <= layer < depth:
        write = f"write a number from 0 to {depth - 1}" if depth else "it has none: leave it out"
        raise InputError(f"word: layer = {layer!r}: {write}")
    name = f"{stack}.blocks.{layer}.out"
    recorder = Recorder(task, name)
    for batch in task.batches([ids]):
        backbone(batch, visitor=recorder)
    return recorder.tensors[name]


def _truncated(encodings: Sequence[Encoding], most: int) -> tuple[list[list[int]], list[list[int]]]:
    """Keep the first tokens and the closing one of texts that are too long, with a warning."""
    long = [encoding for encoding in encodings if len(encoding.ids) > most]
    if long:
        lost = sum(len(encoding.ids) - most for encoding in long)
        warnings.warn(
            f"{len(long)} of {len(encodings)} texts are longer than {most} tokens: "
            f"{lost} tokens were truncated",
            stacklevel=4,
        )

    def cut(numbers: list[int], closed: bool) -> list[int]:
        if len(numbers) <= most:
            return numbers
        return numbers[: most - 1] + numbers[-1:] if closed else numbers[:most]

    closed = [bool(encoding.special) and encoding.special[-1] for encoding in encodings]
    return (
        [cut(encoding.ids, c) for encoding, c in zip(encodings, closed, strict=True)],
        [cut(encoding.segments, c) for encoding, c in zip(encodings, closed, strict=True)],
    )


def embedding_config(files: Mapping[str, bytes], source: str) -> EmbeddingConfig:
    """Read the files of sentence-transformers, of all its versions; the defaults without them."""

    def settings(name: str, kind: type = dict) -> Any:
        return parse(files[name], f"{source}: {name}", kind) if name in files else kind()

    modules = [
        str(module.get("type")) if isinstance(module, dict) else ""
        for module in settings("modules.json", list)
    ]
    for name in modules:
        if name.rpartition(".")[2] not in ("Transformer", "Pooling", "Normalize"):
            raise CheckpointError(f"{source}: modules.json: {name!r} is not supported")
    pooling = settings("1_Pooling/config.json")
    modes = [name.removeprefix("pooling_mode_") for name, on in pooling.items() if on is True]
    modes = [str(pooling["pooling_mode"])] if "pooling_mode" in pooling else modes
    modes = [mode for mode in modes if mode not in ("include_prompt",)]
    if len(modes) > 1 or any(mode not in POOLING for mode in modes):
        raise CheckpointError(
            f"{source}: 1_Pooling/config.json: {modes} is not known: choose one of {list(POOLING)}"
        )
    where, name = SENTENCE, "max_seq_length"
    most = settings(where).get(name)
    if modules and most is None:
        where, name = "tokenizer_config.json", "model_max_length"
        most = settings(where).get(name)
    if most is not None and (type(most) is not int or most < 1):
        raise CheckpointError(f"{source}: {where}: {name} = {shown(most)}: write a number")
    return EmbeddingConfig(
        pool=POOLING[modes[0]] if modes else "mean",
        normalise=any(name.endswith("Normalize") for name in modules),
        max_length=most,
    )
