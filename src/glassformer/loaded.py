"""What `load` returns: a model with its tokenizer, and one call for each wish."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer import inference
from glassformer.checkpoint import (
    Origin,
    find,
    is_gguf,
    load_task,
    model_card,
    save_task,
    storage_dtype,
    widened,
)  # fmt: skip
from glassformer.config import DOCUMENTS
from glassformer.errors import CheckpointError, InputError
from glassformer.generate.engine import Engine
from glassformer.generate.generation import Generation
from glassformer.generate.int8 import check_not_int8, to_int8
from glassformer.generate.job import GenerationJob, generate, prepare, stream
from glassformer.generate.translate import Translation, notes, translate
from glassformer.glass import Edit, Keep, Recorder, Trace
from glassformer.inference import EmbeddingConfig, embedding_config
from glassformer.model import Batch, Cache, Visitor
from glassformer.precision import HALF, compute_dtype, dtype_name
from glassformer.tasks import Ids, Output, Task
from glassformer.text import Text, Tokenizer

FINGERPRINT = "tokenizer_fingerprint"  # in config.json: which tokenizer the model was trained with
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.txt", "vocab.json", "merges.txt", "source.spm", "target.spm",
)  # fmt: skip


class Model(nn.Module):
    """A plain module: `parameters`, `state_dict`, `to`, your own training loop work as ever."""

    def __init__(
        self,
        task: Task,
        tokenizer: Tokenizer | None = None,
        *,
        origin: Origin | None = None,
        recipe: EmbeddingConfig | None = None,
    ) -> None:
        super().__init__()
        if tokenizer is not None:
            _check_belongs(tokenizer, task, origin)
        self.task = task
        self.tokenizer = tokenizer
        self.origin = origin
        self.recipe = recipe or EmbeddingConfig()

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

    def embed(self, texts: Sequence[Text], *, pool_by: str | None = None) -> Tensor:
        """One vector a text, (B, C), pooled as the model's folder says (else: the mean)."""
        return inference.embed(*self.able("embed"), texts, recipe=self.recipe, pool_by=pool_by)

    def similarity(self, a: Sequence[Text] | Tensor, b: Sequence[Text] | Tensor) -> Tensor:
        """The cosine of each text of a with each of b, (A, B); vectors of `embed` do as well."""
        return inference.cosines(*(x if isinstance(x, Tensor) else self.embed(x) for x in (a, b)))

    def word(
        self, sentence: str, word: str, *, occurrence: int = 0, layer: int | None = None
    ) -> Tensor:
        """The vector of one word in its sentence, (C,): the mean of its pieces' vectors, at the
        end or after block `layer`."""
        task, tokenizer = self.able("word")
        return inference.word(task, tokenizer, sentence, word, occurrence=occurrence, layer=layer)

    def fill(self, text: str, *, top_k: int = 5) -> list[inference.Blank]:
        """What could stand in each [MASK] of the text, best first, with probabilities."""
        return inference.fill(*self.able("fill"), [text], top_k=top_k)[0]

    def classify(
        self, texts: Text | Sequence[Text], *, top_k: int | None = None,
        problem: str | None = None, explain: int = 0,
    ) -> list[inference.Classified]:  # fmt: skip
        """A label for each text or pair of texts, with the probabilities of all, or of the best.

        What is longer than the model is read in windows. `problem` is as config.json says, if not
        given. `explain` = 5 also tells the five words and sentences that weighed most, where
        attention over words chooses them: see `inference.classify`.
        """
        wanted = [texts] if isinstance(texts, str | tuple) else texts
        stated = None if self.origin is None else self.origin.config.get("problem_type")
        problem = problem or stated
        return inference.classify(
            *self.able("classify"), wanted, top_k=top_k, problem=problem, explain=explain
        )  # fmt: skip

    def follows(self, a: str, b: str) -> float:
        """The probability that b comes right after a."""
        return inference.follows(*self.able("follows"), [(a, b)])[0]

    def tag(self, text: str | Sequence[str]) -> inference.Tagged:
        """A label for each word of a text, or of a list of words; names come as `spans`."""
        return inference.tag(*self.able("tag"), [text])[0]

    def answer(
        self, question: str, context: str, *, top_k: int = 1, no_answer: bool = False,
        threshold: float = 0.0, max_tokens: int = 30, overlap: int | None = None,
    ) -> list[inference.Answer]:  # fmt: skip
        """Where the context answers the question, best first; see `inference.answer`."""
        return inference.answer(
            *self.able("answer"), [(question, context)], top_k=top_k, no_answer=no_answer,
            threshold=threshold, max_tokens=max_tokens, overlap=overlap,
        )[0]  # fmt: skip

    def able(self, call: str) -> tuple[Task, Tokenizer]:
        """What the functions of `uses` work with, if this model can do it."""
        inference.check_kind(self.task, call)
        return self.task, self._tokenizer()

    def generate(
        self, prompts: str | Sequence[str] | Sequence[int] | Ids, *,
        batch_size: int | None = None, engine: Engine | None = None, **settings: Any,
    ) -> list[Generation]:  # fmt: skip
        """Go on from each prompt: a text or a list of texts, or token ids. Greedy, unless asked.

        The settings have the names transformers gave them: see `generate.settings.Settings`. Of a
        prompt's `num_return_sequences` texts all stand beside each other. `batch_size` is how many
        are written at once, each beam counted: it changes the speed, not the texts. So does an
        `engine` of one's own, kept for many calls.
        """
        return generate(self._writing(prompts, settings, batch_size, engine))

    def engine(
        self, texts: int, tokens: int, *, source_tokens: int = 0, compiled: bool = False
    ) -> Engine:
        """To write `texts` at once of up to `tokens` each, prompts counted.

        A GPU's steps are recorded once and then played: an engine that is kept has them ready.
        `compiled` fuses their kernels before, which takes a minute. A translator's sources have up
        to `source_tokens` each.
        """
        if self.task.backbone.config.family == "seq2seq" and source_tokens < 1:
            raise InputError(
                f"engine: source_tokens = {source_tokens}: write how many the longest source has"
            )
        return Engine(
            self.task, slots=texts, capacity=tokens, memory_capacity=source_tokens,
            compiled=compiled, kept=True,
        )  # fmt: skip

    def stream(self, prompt: str | Sequence[int], **settings: Any) -> Iterator[str]:
        """As `generate`, of one text: its pieces as they are written."""
        return stream(self._writing([prompt], settings))

    def _writing(
        self, prompts: Any, settings: dict[str, Any], batch_size: int | None = None,
        engine: Engine | None = None,
    ) -> GenerationJob:  # fmt: skip
        return prepare(
            self.task, self.tokenizer, self.origin, prompts, settings, batch_size, engine
        )

    def translate(
        self, texts: str | Sequence[str], *, num_beams: int = 4, length_penalty: float = 1.0,
        n_best: int = 1, align: bool = False, **settings: Any,
    ) -> list[Translation]:  # fmt: skip
        """One translation a text, in their order; its `n_best` - 1 next best are its `others`.

        Nothing is cut: a text that is too long is translated sentence by sentence. `align` adds
        which word came from which. All other settings are those of `generate`.
        """
        wanted = [texts] if isinstance(texts, str) else texts
        found = translate(
            self.task, self._tokenizer(), wanted, origin=self.origin, n_best=n_best, align=align,
            num_beams=num_beams, length_penalty=length_penalty, **settings,
        )  # fmt: skip
        for line in notes(found):
            warnings.warn(line, stacklevel=2)
        return found

    def int8(self) -> Model:
        """Round all weights to one byte, in place: less exact, and less to read at every step."""
        to_int8(self.task)
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder that `load`, and Hugging Face's transformers, open.

        One that was opened is written back as it was, bit for bit.
        """
        check_not_int8(self.task)
        notes = {} if self.origin is not None else self._fingerprint()
        save_task(self.task, folder, self.origin, self._files(), notes)

    def export(self, folder: str | os.PathLike[str], *, name: str | None = None) -> None:
        """As `save`, with a model card (unless it has one) and the tokenizer's fingerprint."""
        check_not_int8(self.task)
        home = Path(folder).resolve().name
        precision = dtype_name(storage_dtype(self.task, self.origin))
        card = model_card(self.task, name or home, precision, home)
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

    def _tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise InputError(
                "this model came without a tokenizer: put a tokenizer.json into its folder, "
                "or give token ids"
            )
        return self.tokenizer


def load(
    folder: str | os.PathLike[str],
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Model:
    """Open a model folder in the Hugging Face layout: BERT, GPT-2, Marian, T5, Llama and their kin.

    The name of a model that comes with the package opens that one, unless a folder of this name is
    here; one of the Hugging Face hub is fetched. A GGUF file of a Llama is opened too, as float32;
    and static vectors of GloVe and word2vec, as a model that is their table. Nothing in the folder
    is executed.

    `dtype` is what the model computes in. Without it, half precision is kept where the device is
    fast at it, and computed in float32 elsewhere; `save` still writes what the file had.
    """
    folder = Path(folder) if is_gguf(folder) else find(folder)
    task, origin = load_task(folder)
    size = task.backbone.config.vocab_size
    tokenizer = Tokenizer.from_files(origin.files, str(folder), size)
    recipe = embedding_config(origin.files, str(folder))
    try:
        model = Model(task, tokenizer, origin=origin, recipe=recipe)
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from None
    model = model.to(device=device, dtype=dtype).eval()
    return model if dtype is not None else _in_compute_dtype(model)


def _in_compute_dtype(model: Model) -> Model:
    half = next((p.dtype for p in model.parameters() if p.dtype in HALF), None)
    if half is not None and model.origin is not None:
        dtype = compute_dtype(half, model.task.device).dtype
        if dtype != half:
            model.origin = widened(model.task, model.origin, dtype)
    return model


def record(
    model: Model, what: Text | Sequence[int] | tuple[Sequence[int], Sequence[int]], *,
    keep: Keep = "*", edit: Edit | None = None,
) -> Trace:  # fmt: skip
    """Run the model on one text and see every named tensor inside.

    `what` is a text, a pair of texts, or token ids. For a translation model it is the pair
    (source, target), as texts or as ids. A text may be a document of many sentences, where the
    model weighs them.
    """
    batch, tokens, source = _to_record(model, what)
    sentences = [] if batch.documents is None else list(batch.sequences.lengths)
    recorder = Recorder(model, keep, edit, several=len(sentences) > 1)
    with torch.no_grad():
        model(batch, visitor=recorder)
    recorder.check()
    config = model.task.backbone.config.model_dump()
    return Trace(recorder.tensors, tokens, source, config, sentences)


def _to_record(model: Model, what: Any) -> tuple[Batch, list[str], list[str]]:
    translating = model.task.backbone.config.family == "seq2seq"
    pair = isinstance(what, tuple) and len(what) == 2
    if translating:
        if not pair:
            raise InputError("record: a translation model needs (source, target)")
        source, target = _ids(model, what[0])[0], _to_write(model, what[1])
        batch = next(model.task.batches([source], targets=[target]))
        return batch, _names(model, target), _names(model, source)
    if isinstance(what, str) and model.task.spec.pool in DOCUMENTS:
        task, tokenizer = model.able("classify")
        texts, kind, counts = inference.laid_out(
            task, inference.read_documents(task, tokenizer, [what])
        )
        batch = next(task.batches(texts, segments=kind, documents=counts))
        return batch, _names(model, [i for each in texts for i in each]), []
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


def _to_write(model: Model, what: Any) -> list[int]:
    """What a decoder reads: of a text, its start token and then the pieces; ids as they are."""
    if not isinstance(what, str):
        return _ids(model, what)[0]
    read = model._tokenizer().encode(what)
    pieces = (i for i, special in zip(read.ids, read.special, strict=True) if not special)
    return [model.task.backbone.config.ids.start or 0, *pieces]


def _names(model: Model, ids: Sequence[int]) -> list[str]:
    name: Callable[[int], str] = str if model.tokenizer is None else model.tokenizer.readable
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
