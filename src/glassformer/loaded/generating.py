"""The calls of a model that generate text."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Unpack

from glassformer.errors import InputError, shown
from glassformer.generate.chat import prepare_chat
from glassformer.generate.engine import Engine
from glassformer.generate.generation import Generation
from glassformer.generate.job import GenerationJob, by_adapter, generate, prepare, stream
from glassformer.generate.settings import GenerationOptions
from glassformer.loaded.adapting import AdaptedModel, AdapterChoice, adapter_names
from glassformer.tasks import Ids, Task
from glassformer.text import is_one
from glassformer.text.chat import Message


class GeneratingModel(AdaptedModel, ABC):
    """Abstract; `Model` has the other calls."""

    def generate(
        self, prompts: str | Iterable[str] | Iterable[int] | Ids, *,
        batch_size: int | None = None, engine: Engine | None = None,
        adapter: AdapterChoice = None, draft: GeneratingModel | str | None = None,
        **settings: Unpack[GenerationOptions],
    ) -> list[Generation]:  # fmt: skip
        """Continue each prompt; greedily, unless the settings say otherwise.

        Args:
            prompts: one text or many, or token ids; the sources of a translation model
            batch_size: texts (or beams) that are generated at once: changes the speed, not the
                texts
            engine: from `engine`, to be used for many calls
            adapter: the name of an adapter, or one for each prompt; prompts with the same adapter
                are generated at once, and None is the model without one
            draft: guesses the next tokens, which the model then reads at once: a smaller model with
                the same tokenizer, or "prompt" to look up the text itself. Texts are generated one
                by one, faster if the guesses are good, and are the same as without
            settings: those of transformers, such as max_new_tokens, temperature, top_p, num_beams:
                the fields of `generate.settings.Settings`

        The `num_return_sequences` texts of a prompt are next to each other.

        Examples:
            >>> (story,) = decoder.generate("Once upon a time", max_new_tokens=5)
            >>> len(story.ids), story.text
            (5, ...)
        """
        job = self._job(prompts, settings, batch_size, engine, draft)
        if draft is not None and adapter is not None:
            raise InputError("draft: there is an adapter, too: merge it first, or leave it out")
        if adapter is None:
            return generate(job)
        one = is_one(adapter)
        names = [str(adapter)] * len(job.prompts) if one else adapter_names(adapter)
        return by_adapter(job, names, self._with)

    def engine(
        self, texts: int, tokens: int, *, source_tokens: int = 0, num_beams: int = 1,
        compiled: bool = False,
    ) -> Engine:  # fmt: skip
        """An engine for many calls of `generate`: a GPU captures the CUDA graphs of its steps once.

        Args:
            texts: how many are generated at once
            tokens: the most tokens of a text, the prompt included
            source_tokens: the most tokens of a source, for translation models
            num_beams: of each text
            compiled: fuse the kernels with torch.compile, which takes a minute; a CPU needs a
                C++ compiler for it

        Examples:
            >>> engine = decoder.engine(2, 16)
            >>> stories = decoder.generate(["A dog", "A cat"], max_new_tokens=5, engine=engine)
        """
        if self.config.family == "seq2seq" and source_tokens < 1:
            raise InputError(
                f"engine: source_tokens = {source_tokens}: write the length of the longest source"
            )
        return Engine(
            self.task, slots=texts * num_beams, capacity=tokens, beams=num_beams,
            memory_capacity=source_tokens, compiled=compiled, kept=True,
        )  # fmt: skip

    def stream(
        self, prompt: str | Sequence[int], *, draft: GeneratingModel | str | None = None,
        **settings: Unpack[GenerationOptions],
    ) -> Iterator[str]:  # fmt: skip
        """Like `generate` for one prompt: yields the pieces of its text as they are generated.

        Examples:
            >>> text = "".join(decoder.stream("Once upon a time", max_new_tokens=5))
        """
        return stream(self._job([prompt], settings, draft=draft))

    def _job(
        self, prompts: Any, settings: GenerationOptions, batch_size: int | None = None,
        engine: Engine | None = None, draft: GeneratingModel | str | None = None,
    ) -> GenerationJob:  # fmt: skip
        return prepare(
            self.task, self.tokenizer, self.origin, prompts, settings, batch_size, engine,
            self.draft_task(draft),
        )  # fmt: skip

    def draft_task(self, draft: GeneratingModel | str | None) -> Task | str | None:
        """The task of a draft; InputError if it has another tokenizer.

        Examples:
            >>> decoder.draft_task("prompt")
            'prompt'
        """
        if draft is None or isinstance(draft, str):
            return draft
        if not isinstance(draft, GeneratingModel):
            raise InputError(f"draft = {shown(draft)}: write 'prompt', or give a model")
        mine, its = self.tokenizer, draft.tokenizer
        if mine is not None and its is not None and mine.fingerprint != its.fingerprint:
            raise InputError(
                "draft: its tokenizer is another one: give a smaller model with the same tokenizer"
            )
        return draft.task

    def chat(
        self, messages: str | Sequence[Message], *, template: str | None = None,
        **settings: Unpack[GenerationOptions],
    ) -> Generation:  # fmt: skip
        """Answer a chat in the format that the model was trained with.

        The chat template in the model's folder is recognised, never run: those of ChatML, Llama 3,
        Mistral, Gemma, Qwen and SmolLM2 are known.

        Args:
            messages: dicts with role (system, user or assistant) and content, the last one of the
                user; or one text of the user
            template: a Jinja template to use instead, which runs in a sandbox
            settings: those of `generate`; max_new_tokens is 512, if not given

        Examples:
            >>> template = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}"
            >>> answer = decoder.chat("Hello!", template=template, max_new_tokens=5)
            >>> len(answer.ids), answer.text
            (5, ...)
        """
        return generate(self._chat_job(messages, template, settings))[0]

    def stream_chat(
        self, messages: str | Sequence[Message], *, template: str | None = None,
        **settings: Unpack[GenerationOptions],
    ) -> Iterator[str]:  # fmt: skip
        """Like `chat`: yields the pieces of the answer as they are generated.

        Examples:
            >>> template = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}"
            >>> pieces = decoder.stream_chat("Hello!", template=template, max_new_tokens=5)
            >>> answer = "".join(pieces)
        """
        return stream(self._chat_job(messages, template, settings))

    def _chat_job(
        self, messages: str | Sequence[Message], template: str | None, settings: GenerationOptions
    ) -> GenerationJob:
        return prepare_chat(self.task, self._tokenizer(), self.origin, messages, settings, template)
