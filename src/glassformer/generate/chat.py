"""A chat: its messages become a prompt that ends where the model's answer begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glassformer.checkpoint import Origin
from glassformer.generate.job import GenerationJob, prepare
from glassformer.generate.settings import settings_for
from glassformer.tasks import CausalLM, Task
from glassformer.tasks.calls import wrong_kind
from glassformer.text import Tokenizer
from glassformer.text.chat import Message, chat_format, check_messages, special_token
from glassformer.text.chat_sandbox import render_template

MAX_NEW_TOKENS = 512  # of an answer, if the caller does not choose


def prepare_chat(
    task: Task,
    tokenizer: Tokenizer,
    origin: Origin | None,
    messages: str | Sequence[Message],
    options: Mapping[str, Any],
    template: str | None = None,
) -> GenerationJob:
    """The job that answers a chat.

    Args:
        messages: each with `role` (system, user or assistant) and `content`; or one text of a user
        options: fields of `Settings`
        template: a Jinja template to run in a sandbox, instead of the known format of the model's
    """
    if not isinstance(task, CausalLM) or task.backbone.config.family == "seq2seq":
        raise wrong_kind(task, "generate")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    check_messages(messages)
    files, stated = ({}, {}) if origin is None else (origin.files, origin.config)
    special = special_token(files, "bos_token"), special_token(files, "eos_token")
    ends: list[int] = []
    if template is None:
        known = chat_format(files)
        text, end = known.render(messages, *special), tokenizer.id(known.end)
        ends = [] if end is None else [end]
    else:
        text = render_template(template, messages, *special)
    config = task.backbone.config
    usual = settings_for({}, files, stated, config.ids, config.vocab_size).eos_token_id
    settings = {
        "max_new_tokens": MAX_NEW_TOKENS,
        "eos_token_id": tuple(dict.fromkeys((*usual, *ends))),
        **options,
    }
    return prepare(task, tokenizer, origin, tokenizer.ids([text]), settings)
