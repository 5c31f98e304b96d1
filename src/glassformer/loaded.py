"""`load` opens a model folder; its `Model` has the tokenizer, and one call for each task."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
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

FINGERPRINT = "tokenizer_fingerprint"  # in config.json: that of the tokenizer it was trained with
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.txt", "vocab.json", "merges.txt", "source.spm", "target.spm",
)  # fmt: skip


class Model(nn.Module):
    """A model with its tokenizer. It is a plain module: `parameters`, `state_dict` and `to` work.

    Args:
        task: the backbone and its head
        tokenizer: None if the folder has none: then calls take token ids
        origin: the folder it came from, to be saved as it was
        recipe: pooling of `embed`
    """

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
        """The task's output for a batch of token ids; `visitor` sees every named tensor."""
        output: Output = self.task(batch, cache=cache, visitor=visitor)
        return output

    def hidden(
        self, ids: Ids, *, segments: Ids | None = None, targets: Ids | None = None
    ) -> list[Tensor]:
        """The last layer's vectors, one tensor (T, C) per text.

        Args:
            ids: of each text
            segments: of each text, for models with two segments
            targets: the target ids of each text, for translation models
        """
        return self.task.hidden(ids, segments=segments, targets=targets)

    def logits(
        self, ids: Ids, *, segments: Ids | None = None, targets: Ids | None = None
    ) -> list[Tensor]:
        """The logits of the head, one tensor per text; the parameters are those of `hidden`."""
        return self.task.logits(ids, segments=segments, targets=targets)

    def embed(self, texts: Sequence[Text], *, pool_by: str | None = None) -> Tensor:
        """One vector per text, (B, C).

        Args:
            texts: strings or pairs of strings; too long ones are truncated, with a warning
            pool_by: first, last or mean; the pooling of the model's folder (else mean), if not
                given
        """
        return inference.embed(*self.able("embed"), texts, recipe=self.recipe, pool_by=pool_by)

    def similarity(self, a: Sequence[Text] | Tensor, b: Sequence[Text] | Tensor) -> Tensor:
        """The cosine of each of a with each of b, (A, B); both are texts, or vectors of `embed`."""
        return inference.cosines(*(x if isinstance(x, Tensor) else self.embed(x) for x in (a, b)))

    def word(
        self, sentence: str, word: str, *, occurrence: int = 0, layer: int | None = None
    ) -> Tensor:
        """The vector of one word in its sentence, (C,): the mean of its tokens' vectors.

        Args:
            occurrence: which one, if the word is in the sentence several times, from 0
            layer: the block whose output is taken, from 0; the model's output, if not given
        """
        task, tokenizer = self.able("word")
        return inference.word(task, tokenizer, sentence, word, occurrence=occurrence, layer=layer)

    def fill(self, text: str, *, top_k: int = 5) -> list[inference.Blank]:
        """The likeliest words for each [MASK] of the text, best first, with probabilities.

        Args:
            top_k: how many words for each
        """
        return inference.fill(*self.able("fill"), [text], top_k=top_k)[0]

    def classify(
        self, texts: Text | Sequence[Text], *, top_k: int | None = None,
        problem: str | None = None, explain: int = 0,
    ) -> list[inference.Classified]:  # fmt: skip
        """The labels of each text or pair of texts, best first, with probabilities.

        Args:
            texts: one or many; texts longer than the model are read in windows
            top_k: how many labels; all, if not given
            problem: the problem_type, instead of that of config.json: see `inference.classify`
            explain: also this many words and sentences with the largest attention weights, for a
                model with attention over words
        """
        rows = [texts] if isinstance(texts, str | tuple) else texts
        stated = None if self.origin is None else self.origin.config.get("problem_type")
        problem = problem or stated
        return inference.classify(
            *self.able("classify"), rows, top_k=top_k, problem=problem, explain=explain
        )  # fmt: skip

    def follows(self, a: str, b: str) -> float:
        """The probability that the text b directly follows the text a."""
        return inference.follows(*self.able("follows"), [(a, b)])[0]

    def tag(self, text: str | Sequence[str]) -> inference.Tagged:
        """A label for each word; names are `spans`.

        Args:
            text: a string, or a list of words
        """
        return inference.tag(*self.able("tag"), [text])[0]

    def answer(
        self, question: str, context: str, *, top_k: int = 1, no_answer: bool = False,
        threshold: float = 0.0, max_tokens: int = 30, overlap: int | None = None,
    ) -> list[inference.Answer]:  # fmt: skip
        """Where the context answers the question, best first.

        Args:
            top_k: the most answers
            no_answer: allow that there is none, as in SQuAD 2
            threshold: by how much its logits must exceed those of the best answer
            max_tokens: the longest answer
            overlap: tokens that neighbouring windows of a long context share
        """
        return inference.answer(
            *self.able("answer"), [(question, context)], top_k=top_k, no_answer=no_answer,
            threshold=threshold, max_tokens=max_tokens, overlap=overlap,
        )[0]  # fmt: skip

    def able(self, call: str) -> tuple[Task, Tokenizer]:
        """The task and tokenizer for `inference`; InputError if the model lacks the head."""
        inference.check_kind(self.task, call)
        return self.task, self._tokenizer()

    def generate(
        self, prompts: str | Sequence[str] | Sequence[int] | Ids, *,
        batch_size: int | None = None, engine: Engine | None = None, **settings: Any,
    ) -> list[Generation]:  # fmt: skip
        """Continue each prompt; greedily, unless the settings say otherwise.

        Args:
            prompts: a text or a list of texts, or token ids; the sources of a translation model
            batch_size: texts (or beams) that are generated at once: changes the speed, not the
                texts
            engine: from `engine`, to be used for many calls
            settings: those of transformers, such as max_new_tokens, temperature, top_p, num_beams:
                the fields of `generate.settings.Settings`

        The `num_return_sequences` texts of a prompt are next to each other.
        """
        return generate(self._job(prompts, settings, batch_size, engine))

    def engine(
        self, texts: int, tokens: int, *, source_tokens: int = 0, compiled: bool = False
    ) -> Engine:
        """An engine for many calls of `generate`: a GPU captures the CUDA graphs of its steps once.

        Args:
            texts: how many are generated at once
            tokens: the most tokens of a text, the prompt included
            source_tokens: the most tokens of a source, for translation models
            compiled: fuse the kernels with torch.compile, which takes a minute; on a GPU only
        """
        if self.task.backbone.config.family == "seq2seq" and source_tokens < 1:
            raise InputError(
                f"engine: source_tokens = {source_tokens}: write the length of the longest source"
            )
        return Engine(
            self.task, slots=texts, capacity=tokens, memory_capacity=source_tokens,
            compiled=compiled, kept=True,
        )  # fmt: skip

    def stream(self, prompt: str | Sequence[int], **settings: Any) -> Iterator[str]:
        """Like `generate` for one prompt: yields the pieces of its text as they are generated."""
        return stream(self._job([prompt], settings))

    def _job(
        self, prompts: Any, settings: dict[str, Any], batch_size: int | None = None,
        engine: Engine | None = None,
    ) -> GenerationJob:  # fmt: skip
        return prepare(
            self.task, self.tokenizer, self.origin, prompts, settings, batch_size, engine
        )

    def translate(
        self, texts: str | Sequence[str], *, n_best: int = 1, align: bool = False, **settings: Any
    ) -> list[Translation]:
        """One translation per text, in their order.

        Args:
            texts: one or many; one that is too long is translated sentence by sentence
            n_best: how many translations of each: the next best ones are its `others`
            align: also align the words: `Translation.alignment`
            settings: those of `generate`; num_beams is 4, if not given
        """
        rows = [texts] if isinstance(texts, str) else texts
        translations = translate(
            self.task, self._tokenizer(), rows, origin=self.origin, n_best=n_best, align=align,
            **settings,
        )  # fmt: skip
        for line in notes(translations):
            warnings.warn(line, stacklevel=2)
        return translations

    def int8(self) -> Model:
        """Round all weights to int8, in place: smaller and faster to read, less exact.

        Returns the model itself. It can no longer be trained or saved.
        """
        to_int8(self.task)
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder that `load` and Hugging Face's transformers open.

        A model that was loaded is written back as it was, bit for bit.
        """
        check_not_int8(self.task)
        notes = {} if self.origin is not None else self._fingerprint()
        save_task(self.task, folder, self.origin, self._files(), notes)

    def export(self, folder: str | os.PathLike[str], *, name: str | None = None) -> None:
        """Like `save`, with a model card (unless it has one) and the tokenizer's fingerprint.

        Args:
            name: the model's name in the card; the folder's, if not given
        """
        check_not_int8(self.task)
        folder_name = Path(folder).resolve().name
        precision = dtype_name(storage_dtype(self.task, self.origin))
        card = model_card(self.task, name or folder_name, precision, folder_name)
        files = {"README.md": card.encode(), **self._files()}
        save_task(self.task, folder, self.origin, files, self._fingerprint())

    def _fingerprint(self) -> dict[str, str]:
        return {} if self.tokenizer is None else {FINGERPRINT: self.tokenizer.fingerprint}

    def _files(self) -> dict[str, bytes]:
        """The files of its folder, with the tokenizer replaced if it is another one."""
        files = {} if self.origin is None else dict(self.origin.files)
        if self.tokenizer is None:
            return files
        original = Tokenizer.from_files(files)
        if original is None or original.fingerprint != self.tokenizer.fingerprint:
            files = {name: data for name, data in files.items() if name not in TOKENIZER_FILES}
            files["tokenizer.json"] = self.tokenizer.backend.to_str(pretty=True).encode()
        return files

    def _tokenizer(self) -> Tokenizer:
        return inference.check_tokenizer(self.tokenizer)


def load(
    folder: str | os.PathLike[str],
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Model:
    """Open a model in the Hugging Face layout: BERT, GPT-2, Marian, T5, Llama and the like.

    Args:
        folder: a folder; the name of a model that comes with the package (a folder of this name
            takes precedence); a name of the Hugging Face hub, which is downloaded; a GGUF file of a
            Llama, opened as float32; static vectors of GloVe or word2vec
        device: where the model computes; the CPU, if not given
        dtype: what it computes in. If not given, half precision stays where the device is fast at
            it, and becomes float32 elsewhere; `save` still writes the precision of the file

    Nothing in the folder is executed. CheckpointError if it cannot be read safely.
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
    """Run the model on one text, and keep every named tensor.

    Args:
        what: a text, a pair of texts, or token ids; for a translation model the pair (source,
            target), as texts or ids; for a model of documents, a document
        keep: which tensors: a pattern ("*.weights"), several, or a function of the name
        edit: changes to tensors: from a pattern to a tensor, or to a function of the tensor
    """
    batch, tokens, source = inference.record_batch(model.task, model.tokenizer, what)
    sentences = [] if batch.documents is None else list(batch.sequences.lengths)
    recorder = Recorder(model, keep, edit, several=len(sentences) > 1)
    with torch.no_grad():
        model(batch, visitor=recorder)
    recorder.check()
    config = model.task.backbone.config.model_dump()
    return Trace(recorder.tensors, tokens, source, config, sentences)


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
