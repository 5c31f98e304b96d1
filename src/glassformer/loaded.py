"""What `load` returns: a model with its tokenizer, and one call for each wish."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.checkpoint import Origin, find, is_gguf, load_task, model_card, save_task
from glassformer.errors import CheckpointError, InputError, shown
from glassformer.glass import Edit, Keep, Recorder, Trace
from glassformer.model import Batch, Cache, Visitor
from glassformer.strictjson import parse
from glassformer.tasks import Ids, Output, Task
from glassformer.text import Encoding, Text, Tokenizer

SENTENCE = "sentence_bert_config.json"
FINGERPRINT = "tokenizer_fingerprint"  # in config.json: which tokenizer the model was trained with
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.txt", "vocab.json", "merges.txt", "source.spm", "target.spm",
)  # fmt: skip
POOLING = {
    "cls": "first",
    "cls_token": "first",
    "lasttoken": "last",
    "mean": "mean",
    "mean_tokens": "mean",
}


@dataclass(frozen=True)
class EmbedRecipe:
    """How a text becomes one vector; a sentence-transformers folder says it in its own files."""

    pool: str = "mean"
    normalise: bool = False
    max_length: int | None = None


class Model(nn.Module):
    """A plain module: `parameters`, `state_dict`, `to`, your own training loop work as ever."""

    def __init__(
        self,
        task: Task,
        tokenizer: Tokenizer | None = None,
        *,
        origin: Origin | None = None,
        recipe: EmbedRecipe | None = None,
    ) -> None:
        super().__init__()
        if tokenizer is not None:
            _check_belongs(tokenizer, task, origin)
        self.task = task
        self.tokenizer = tokenizer
        self.origin = origin
        self.recipe = recipe or EmbedRecipe()

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Output:
        output: Output = self.task(batch, cache=cache, visitor=visitor)
        return output

    def hidden(
        self, ids: Ids, *, segments: Ids | None = None, targets: Ids | None = None
    ) -> list[Tensor]:
        """The last layer's vectors, one (T, C) a text."""
        return self.task.hidden(ids, segments=segments, targets=targets)

    def logits(
        self, ids: Ids, *, segments: Ids | None = None, targets: Ids | None = None
    ) -> list[Tensor]:
        """What the head says, one tensor a text."""
        return self.task.logits(ids, segments=segments, targets=targets)

    @torch.no_grad()
    def embed(self, texts: Sequence[Text], *, pool_by: str | None = None) -> Tensor:
        """One vector a text, (B, C), pooled as the model's folder says (else: the mean)."""
        if isinstance(texts, str):
            raise InputError("embed: give a list of texts, [text], not one string")
        self._needs_one_stack("embed")
        recipe = self.recipe
        how = pool_by or recipe.pool
        if how not in ("first", "last", "mean"):
            raise InputError(f"pool_by = {how!r}: write first, last or mean")
        read = self._tokenizer().encode_all(texts)
        ids, segments = self._cut(read, recipe.max_length)
        kinds = segments if self.task.backbone.config.segments else None
        vectors = self.task.vectors(ids, segments=kinds, pool_by=how)
        return F.normalize(vectors, dim=-1) if recipe.normalise else vectors

    @torch.no_grad()
    def word(self, sentence: str, word: str, *, occurrence: int = 0) -> Tensor:
        """The vector of one word in its sentence, (C,): the mean of its pieces' vectors."""
        self._needs_one_stack("word")
        if not isinstance(sentence, str) or not isinstance(word, str) or not word:
            raise InputError(f"word: {sentence!r}, {word!r}: give a sentence and a word of it")
        read = self._tokenizer().encode(sentence)
        found = [m.span() for m in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", sentence)]
        if not 0 <= occurrence < len(found):
            raise InputError(
                f"word: {word!r} stands {len(found)} times in {sentence!r}: "
                f"there is no occurrence = {occurrence}"
            )
        start, end = found[occurrence]
        pieces = [
            i
            for i, (a, b) in enumerate(read.spans)
            if not read.special[i] and a < end and b > start
        ]
        if not pieces:
            raise InputError(f"word: {word!r} has no token of its own in {sentence!r}")
        hidden = self.task.hidden([read.ids])[0]
        return hidden[pieces].mean(0)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder that `load`, and Hugging Face's transformers, open.

        One that was opened is written back as it was, bit for bit.
        """
        notes = {} if self.origin is not None else self._fingerprint()
        save_task(self.task, folder, self.origin, self._files(), notes)

    def export(self, folder: str | os.PathLike[str], *, name: str | None = None) -> None:
        """As `save`, with a model card (unless it has one) and the tokenizer's fingerprint."""
        home = Path(folder).resolve().name
        card = model_card(self.task, name or home, home)
        files = {"README.md": card.encode(), **self._files()}
        save_task(self.task, folder, self.origin, files, self._fingerprint())

    def _fingerprint(self) -> dict[str, str]:
        return {} if self.tokenizer is None else {FINGERPRINT: self.tokenizer.fingerprint}

    def _files(self) -> dict[str, bytes]:
        """The files it came with; a tokenizer that is not theirs takes the place of theirs."""
        files = {} if self.origin is None else dict(self.origin.files)
        if self.tokenizer is None:
            return files
        theirs = Tokenizer.from_files(files)
        if theirs is None or theirs.fingerprint != self.tokenizer.fingerprint:
            files = {name: data for name, data in files.items() if name not in TOKENIZER_FILES}
            files["tokenizer.json"] = self.tokenizer.backend.to_str(pretty=True).encode()
        return files

    def _needs_one_stack(self, call: str) -> None:
        if self.task.backbone.config.family == "seq2seq":
            raise InputError(
                f"{call}: a translation model reads and writes; this call is for others"
            )

    def _tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise InputError(
                "this model came without a tokenizer: put a tokenizer.json into its folder, "
                "or give token ids"
            )
        return self.tokenizer

    def _cut(
        self, read: Sequence[Encoding], most: int | None
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Keep the first tokens and the closing one of texts that are too long, and say so."""
        most = min(
            most or self.task.backbone.config.max_length, self.task.backbone.config.max_length
        )
        long = [each for each in read if len(each.ids) > most]
        if long:
            lost = sum(len(each.ids) - most for each in long)
            warnings.warn(
                f"{len(long)} of {len(read)} texts are longer than {most} tokens: "
                f"{lost} tokens were cut",
                stacklevel=4,
            )

        def cut(numbers: list[int], closed: bool) -> list[int]:
            if len(numbers) <= most:
                return numbers
            return numbers[: most - 1] + numbers[-1:] if closed else numbers[:most]

        closed = [bool(each.special) and each.special[-1] for each in read]
        return (
            [cut(each.ids, c) for each, c in zip(read, closed, strict=True)],
            [cut(each.segments, c) for each, c in zip(read, closed, strict=True)],
        )


def load(
    folder: str | os.PathLike[str],
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Model:
    """Open a model folder in the Hugging Face layout: BERT, GPT-2, Marian, T5, Llama and their kin.

    A name of the Hugging Face hub is fetched first. `dtype` None keeps the precision of the file.
    A GGUF file of a Llama is opened too, as float32. Nothing in the folder is executed.
    """
    folder = Path(folder) if is_gguf(folder) else find(folder)
    task, origin = load_task(folder)
    size = task.backbone.config.vocab_size
    tokenizer = Tokenizer.from_files(origin.files, str(folder), size)
    recipe = _recipe(origin.files, str(folder))
    try:
        model = Model(task, tokenizer, origin=origin, recipe=recipe)
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from None
    return model.to(device=device, dtype=dtype).eval()


def record(
    model: Model, what: Text | Sequence[int] | tuple[Sequence[int], Sequence[int]], *,
    keep: Keep = "*", edit: Edit | None = None,
) -> Trace:  # fmt: skip
    """Run the model on one text and see every named tensor inside.

    `what` is a text, a pair of texts, or token ids. For a translation model it is the pair
    (source, target), as texts or as ids.
    """
    recorder = Recorder(model, keep, edit)
    batch, tokens, source = _to_record(model, what)
    with torch.no_grad():
        model(batch, visitor=recorder)
    recorder.check()
    config = model.task.backbone.config.model_dump()
    return Trace(recorder.tensors, tokens, source, config)


def _to_record(model: Model, what: Any) -> tuple[Batch, list[str], list[str]]:
    translating = model.task.backbone.config.family == "seq2seq"
    pair = isinstance(what, tuple) and len(what) == 2
    if translating:
        if not pair:
            raise InputError("record: a translation model needs (source, target)")
        (source, _), (target, _) = (_ids(model, each) for each in what)
        batch = next(model.task.batches([source], targets=[target]))
        return batch, _names(model, target), _names(model, source)
    ids, segments = _ids(model, what)
    kinds = [segments] if segments and model.task.backbone.config.segments else None
    batch = next(model.task.batches([ids], segments=kinds))
    return batch, _names(model, ids), []


def _ids(model: Model, what: Any) -> tuple[list[int], list[int]]:
    if isinstance(what, str) or (isinstance(what, tuple) and what and isinstance(what[0], str)):
        read = model._tokenizer().encode(what)
        return read.ids, read.segments
    if not isinstance(what, Sequence) or not all(type(number) is int for number in what):
        raise InputError(f"record: {what!r}: give a text, a pair of texts, or a list of token ids")
    return list(what), []


def _names(model: Model, ids: Sequence[int]) -> list[str]:
    name: Callable[[int], str] = str if model.tokenizer is None else model.tokenizer.token
    return [name(i) for i in ids]


def _check_belongs(tokenizer: Tokenizer, task: Task, origin: Origin | None) -> None:
    """Ids beyond the table would crash; other words under the same ids would give nonsense."""
    size = task.backbone.config.vocab_size
    if tokenizer.highest >= size:
        raise CheckpointError(
            f"the tokenizer knows ids up to {tokenizer.highest} and the model has "
            f"vocab_size = {size}: they do not belong together"
        )
    stated = None if origin is None else origin.config.get(FINGERPRINT)
    if stated is not None and stated != tokenizer.fingerprint:
        raise CheckpointError(
            f"the tokenizer's fingerprint is {tokenizer.fingerprint} and config.json says "
            f"{FINGERPRINT} = {stated!r:.90}: put back the tokenizer it was trained with"
        )


def _recipe(files: dict[str, bytes], source: str) -> EmbedRecipe:
    """Read sentence-transformers' own files, of today and of the first years, where there are."""

    def settings(name: str, kind: type = dict) -> Any:
        return parse(files[name], f"{source}: {name}", kind) if name in files else kind()

    modules = [
        str(each.get("type")) if isinstance(each, dict) else ""
        for each in settings("modules.json", list)
    ]
    for name in modules:
        if name.rpartition(".")[2] not in ("Transformer", "Pooling", "Normalize"):
            raise CheckpointError(f"{source}: modules.json: {name!r} is not known here")
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
    return EmbedRecipe(
        pool=POOLING[modes[0]] if modes else "mean",
        normalise=any(name.endswith("Normalize") for name in modules),
        max_length=most,
    )
