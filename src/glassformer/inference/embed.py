"""Embeddings of texts, and of one word in its sentence."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import InputError, counted, shown
from glassformer.glass import Recorder
from glassformer.inference.checks import check_top_k
from glassformer.inference.sentence_files import EmbeddingConfig
from glassformer.inference.sentence_layers import Dense
from glassformer.model import Encoder
from glassformer.progress import progress_bar
from glassformer.tasks import POOLING, Task
from glassformer.text import Encoding, Text, Tokenizer


def embed(
    task: Task,
    tokenizer: Tokenizer,
    texts: Sequence[Text],
    *,
    recipe: EmbeddingConfig,
    layers: nn.ModuleDict | None = None,
    prompt_name: str | None = None,
    prompt: str | None = None,
    pool_by: str | Sequence[str] | None = None,
    batch_size: int | None = None,
    normalize: bool | None = None,
    progress: bool = False,
) -> Tensor:
    """One vector per text, (B, C). Texts that are too long are truncated, with a warning.

    Args:
        recipe: the model's own pooling, normalisation, prompts and maximum length
        layers: the model's own layers after the pooling
        prompt_name: which of the model's prompts to put before each text, instead of its default
        prompt: a text to put before each text, instead of one of the model's prompts
        pool_by: one or more of first, last, mean, max, mean_sqrt_len and weightedmean, instead of
            the model's pooling
        batch_size: texts of a forward pass; as many as suit the device, if not given
        normalize: divide each vector by its length, instead of what the model's folder says
        progress: show a progress bar
    """
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise InputError(f"batch_size = {shown(batch_size)}: write a whole number from 1 on")
    poolings = recipe.pool if pool_by is None else _poolings(pool_by)
    before = prompt_of(recipe, prompt_name, prompt)
    config = task.backbone.config
    most = min(recipe.max_length or config.max_length, config.max_length)
    read = tokenizer.encode_all([with_prompt(text, before, recipe.lower_case) for text in texts])
    ids, segments = truncated(read, most)
    kinds = segments if config.segments else None
    skip = 0 if recipe.pools_prompt else _prompt_tokens(tokenizer, before, recipe.lower_case)
    with torch.no_grad(), progress_bar("embed", len(ids), shown=progress) as advance:
        vectors = task.vectors(
            ids, segments=kinds, pool_by=poolings, skip=skip, batch_size=batch_size,
            advance=lambda count: advance(count, ""),
        )  # fmt: skip
        for path, layer in (layers or {}).items():
            _check_size(vectors, layer, path, pool_by)
            vectors = layer(vectors)
    unit = recipe.normalise if normalize is None else normalize
    return F.normalize(vectors, dim=-1) if unit else vectors


def prompt_of(recipe: EmbeddingConfig, name: str | None, prompt: str | None) -> str:
    """The text to put before each text; empty if there is none."""
    if prompt is not None:
        if name is not None or not isinstance(prompt, str):
            raise InputError(f"prompt = {shown(prompt)}: write a text, or prompt_name, not both")
        return prompt
    name = recipe.default_prompt_name if name is None else name
    if name is None:
        return ""
    if not isinstance(name, str) or name not in recipe.prompts:
        known = ", ".join(map(repr, recipe.prompts))
        hint = f"write one of {known}" if known else "this model has none: write prompt, a text"
        raise InputError(f"prompt_name = {shown(name)}: {hint}")
    return recipe.prompts[name]


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


def _poolings(pool_by: str | Sequence[str]) -> tuple[str, ...]:
    modes = tuple(pool_by) if isinstance(pool_by, list | tuple) else (str(pool_by),)
    unknown = [mode for mode in modes if mode not in POOLING]
    if unknown or not modes:
        several = f"{', '.join(POOLING[:-1])} or {POOLING[-1]}"
        raise InputError(f"pool_by = {shown(pool_by)}: write {several}, or a list of them")
    return modes


def with_prompt(text: Text, prompt: str, lower_case: bool) -> Text:
    """A prompt stands before the first text of a pair."""
    if isinstance(text, tuple):
        first, second = prompt + text[0], text[1]
        return (first.lower(), second.lower()) if lower_case else (first, second)
    return (prompt + text).lower() if lower_case else prompt + text


def _prompt_tokens(tokenizer: Tokenizer, prompt: str, lower_case: bool) -> int:
    """How many tokens of a text are its prompt's, with the special one before it."""
    if not prompt:
        return 0
    special = tokenizer.encode(with_prompt(prompt, "", lower_case)).special
    return len(special) - (1 if special and special[-1] else 0)


def _check_size(vectors: Tensor, layer: nn.Module, path: str, pool_by: object) -> None:
    size = layer.weight.shape[1] if isinstance(layer, Dense) else vectors.shape[1]
    if vectors.shape[1] != size:
        raise InputError(
            f"pool_by = {shown(pool_by)} gives vectors of {vectors.shape[1]} numbers, and {path} "
            f"of this model takes {size}: leave it out"
        )


def truncated(encodings: Sequence[Encoding], most: int) -> tuple[list[list[int]], list[list[int]]]:
    """The ids and segments of at most `most` tokens of each text, with a warning if some are cut.

    The special tokens stay, and of a pair the longer text is cut first.
    """
    long = [encoding for encoding in encodings if len(encoding.ids) > most]
    if long:
        lost = sum(len(encoding.ids) - most for encoding in long)
        warnings.warn(
            f"{len(long)} of {len(encodings)} texts are longer than {most} tokens: "
            f"{lost} tokens were truncated",
            stacklevel=4,
        )
    kept = [_kept(encoding, most) for encoding in encodings]
    both = list(zip(encodings, kept, strict=True))
    return (
        [[encoding.ids[place] for place in places] for encoding, places in both],
        [[encoding.segments[place] for place in places] for encoding, places in both],
    )


def _kept(encoding: Encoding, most: int) -> Sequence[int]:
    """The places of the tokens that stay."""
    whole = range(len(encoding.ids))
    if len(whole) <= most:
        return whole
    sizes = [encoding.texts.count(text) for text in (0, 1)]
    room = max(most - (len(whole) - sum(sizes)), 0)
    short = min(*sizes, room // 2)  # what fits of the shorter one
    rooms = [room - short, short] if sizes[0] > sizes[1] else [short, room - short]
    cut = [p for text in (0, 1) for p in _places(encoding, text)[rooms[text] :]]
    return sorted({*whole} - {*cut})[:most]


def _places(encoding: Encoding, text: int) -> list[int]:
    return [place for place, owner in enumerate(encoding.texts) if owner == text]
