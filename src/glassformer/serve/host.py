"""The models of a server: loaded and unloaded by name, each with its scheduler."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock

from glassformer import inference
from glassformer.asgi.memory import release_memory
from glassformer.asgi.requests import Refused
from glassformer.errors import CheckpointError, GlassformerError
from glassformer.loaded import Model, load
from glassformer.serve.scheduler import Scheduler
from glassformer.text.chat import chat_format
from glassformer.text.languages import Languages

CLOSE_SECONDS = 30.0  # that the end of the server waits for the models
PART = re.compile(r"\w[\w.+-]{0,127}")  # of a model's name: no part begins with a point
# Translation models of two languages have no tokens for them; by custom their name has the codes.
PAIR = re.compile(r"(?:.*[-_/])?([a-z]{2,3})-([a-z]{2,3})")


@dataclass(eq=False)
class HostedModel:
    """A loaded model and its scheduler."""

    name: str
    model: Model
    scheduler: Scheduler
    created: int = field(default_factory=lambda: int(time.time()))

    def able(self, call: str) -> bool:
        """Whether the model has the head for a call."""
        if self.model.tokenizer is None:
            return False
        if call in ("generate", "translate"):
            return call in self.model.task.spec.traits.calls and (
                (self.model.config.family == "seq2seq") == (call == "translate")
            )
        try:
            inference.check_kind(self.model.task, call)
        except GlassformerError:
            return False
        return True

    @cached_property
    def can_chat(self) -> bool:
        """Whether its files have a chat template that is known."""
        try:
            chat_format({} if self.model.origin is None else self.model.origin.files)
        except GlassformerError:
            return False
        return True

    @property
    def is_embedder(self) -> bool:
        """Whether it is an encoder without a head for labels."""
        return self.model.config.family == "encoder" and not self.model.task.spec.labels

    @property
    def languages(self) -> dict[str, list[str]]:
        """From each source language to its target languages."""
        if not self.able("translate") or self.model.tokenizer is None:
            return {}
        files = {} if self.model.origin is None else self.model.origin.files
        known = Languages.of(self.model.tokenizer, files)
        if known.tokens and not known.in_source:
            codes = list(known.tokens)
            return {code: [other for other in codes if other != code] for code in codes}
        pair = PAIR.fullmatch(self.name)
        if pair is None:
            return {}
        return {pair[1]: list(known.tokens) or [pair[2]]}

    def language_options(self, source: str, target: str) -> tuple[str | None, str | None]:
        """The options `source` and `target` of `translate` for these languages."""
        files = {} if self.model.origin is None else self.model.origin.files
        assert self.model.tokenizer is not None  # noqa: S101 - it has languages
        known = Languages.of(self.model.tokenizer, files)
        if not known.tokens:
            return None, None
        return None if known.in_source else source, target


@dataclass(frozen=True)
class HostOptions:
    """How models are loaded and scheduled."""

    device: str = "cpu"
    slots: int | None = None
    queue_tokens: int | None = None
    context: int | None = None


class Host:
    """The models of one server.

    Args:
        known: from the names that may be loaded to folders
        root: a folder; each model folder below it may be loaded, too, by its relative path
    """

    def __init__(
        self, known: Mapping[str, str], root: Path | None = None,
        options: HostOptions | None = None,
    ) -> None:  # fmt: skip
        self.known, self.root = dict(known), root
        self.options = options or HostOptions()
        self.models: dict[str, HostedModel] = {}
        self.lock = Lock()
        self.draining = False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One model is loaded or unloaded at a time; a second one is refused at once."""
        if not self.lock.acquire(blocking=False):
            line = "another model is being loaded or unloaded: try again in 5 s"
            raise Refused(429, line, {"retry-after": "5"})
        try:
            yield
        finally:
            self.lock.release()

    def folder(self, name: str) -> str:
        """Where the model of this name is; refused with 404 if it must not be loaded."""
        if name in self.known:
            return self.known[name]
        missing = Refused(404, "there is no such model: /v1/models lists those that are loaded")
        parts = name.split("/")
        if self.root is None or not all(PART.fullmatch(part) for part in parts):
            raise missing
        root = self.root.resolve()
        folder = root.joinpath(*parts).resolve()
        if not folder.is_relative_to(root) or not (folder / "config.json").is_file():
            raise missing
        return str(folder)

    def load(self, name: str) -> HostedModel:
        """Load a model and start its scheduler; one that is loaded stays as it is."""
        folder = self.folder(name)
        with self._alone():
            if name in self.models:
                return self.models[name]
            model = load(folder, device=self.options.device)
            if model.tokenizer is None:
                raise CheckpointError(f"{name}: it has no tokenizer: put tokenizer.json into it")
            # The weights are a map of their file until now: a replaced file must not change them.
            for tensor in (*model.parameters(), *model.buffers()):
                tensor.data = tensor.data.clone()
            scheduler = Scheduler(
                model, name, slots=self.options.slots, queue_tokens=self.options.queue_tokens,
                context=self.options.context,
            )  # fmt: skip
            hosted = HostedModel(name, model, scheduler)
            scheduler.start()
            self.models = {**self.models, name: hosted}
            return hosted

    def unload(self, name: str) -> None:
        """Finish what was accepted for a model, then forget it; refused if it is not loaded."""
        with self._alone():
            hosted = self.models.get(name)
            if hosted is None:
                raise Refused(404, "this model is not loaded: /v1/models lists those that are")
            self.models = {key: each for key, each in self.models.items() if key != name}
            hosted.scheduler.close()
            hosted.scheduler.join()
        del hosted
        release_memory()

    def drain(self) -> None:
        """Refuse new requests from now on."""
        self.draining = True

    def close(self) -> None:
        """Finish what was accepted for all models; give up after a while."""
        self.drain()
        end = time.monotonic() + CLOSE_SECONDS
        for hosted in self.models.values():
            hosted.scheduler.close()
        for hosted in self.models.values():
            hosted.scheduler.join(max(0.0, end - time.monotonic()))

    def choose(self, name: str | None, call: str) -> HostedModel:
        """The model of this name, or the first that has the call; refused if it has not."""
        if name is None:
            every = [each for each in self.models.values() if each.able(call)]
            if call == "embed":  # any stack can, and an encoder without labels is made for it
                every.sort(key=lambda each: not each.is_embedder)
            able = next(iter(every), None)
            if able is None:
                raise Refused(404, f"no model of this server can {call}: load one that can")
            return able
        hosted = self.models.get(name)
        if hosted is None:
            raise Refused(404, f"the model {name!r:.100} does not exist: /v1/models lists them")
        if not hosted.able(call):
            raise Refused(400, f"the model {name!r:.100} cannot {call}: choose another one")
        return hosted
