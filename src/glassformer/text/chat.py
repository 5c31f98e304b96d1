"""Chats as text: the formats of well-known models as data, and how a folder's template is known.

A `chat_template` is a program in Jinja. Those of model folders are never run: one that is known by
its sha256 is rendered from a `ChatFormat` instead, which gives the same text. For another one, see
`chat_sandbox.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias

from glassformer.errors import InputError, shown
from glassformer.strictjson import parse

Message: TypeAlias = Mapping[str, str]
ROLES = ("system", "user", "assistant")
TEMPLATE, SETTINGS = "chat_template.jinja", "tokenizer_config.json"
SPECIAL = (SETTINGS, "special_tokens_map.json")


@dataclass(frozen=True)
class ChatFormat:
    """How the messages of a chat become one text.

    In the texts, {role} stands for the role, {bos} and {eos} for the tokenizer's special tokens.
    """

    name: str
    before: str = ""  # each message
    after: str = ""
    answer_after: str | None = None  # after an answer, which then has nothing before it
    prompt: str = ""  # where the model's answer begins
    end: str = ""  # the token that ends an answer
    start: str = ""  # of the whole text
    roles: tuple[str, str, str] = ROLES  # what it calls them
    trims: bool = False  # spaces around a message
    # A system message is a turn of its own, stands before the first message, or is refused.
    system: Literal["turn", "first", None] = "turn"
    default_system: str | None = None  # if there is no system message
    preamble: str = ""  # before the system message, which always exists then; {date} is today's
    thought_end: str = ""  # of earlier answers, only what follows this is kept
    alternates: bool = False  # user and assistant must take turns

    def render(self, messages: Sequence[Message], bos: str = "", eos: str = "") -> str:
        """The text up to where the model's answer begins."""
        check_messages(messages)
        turns = [(m["role"], self._content(m)) for m in messages]
        if self.preamble:
            date = f"{datetime.now():%d %b %Y}"
            own = turns.pop(0)[1] if turns[0][0] == "system" else ""
            turns.insert(0, ("system", self.preamble.replace("{date}", date) + own))
        elif self.default_system is not None and turns[0][0] != "system":
            turns.insert(0, ("system", self.default_system))
        elif self.system == "first" and turns[0][0] == "system" and len(turns) > 1:
            role, content = turns[1]
            turns[:2] = [(role, f"{messages[0]['content']}\n\n{content}")]
        self._check_turns([role for role, _ in turns])

        def fixed(text: str, role: str = "") -> str:
            return text.replace("{role}", role).replace("{bos}", bos).replace("{eos}", eos)

        pieces = [fixed(self.start)]
        for role, content in turns:
            before, after = self.before, self.after
            if role == "assistant" and self.answer_after is not None:
                before, after = "", self.answer_after
            named = self.roles[ROLES.index(role)]
            pieces += [fixed(before, named), content, fixed(after)]
        return "".join([*pieces, self.prompt])

    def _content(self, message: Message) -> str:
        content = message["content"]
        if self.thought_end and message["role"] == "assistant" and self.thought_end in content:
            content = content.rpartition(self.thought_end)[2].lstrip("\n")
        return content.strip() if self.trims else content

    def _check_turns(self, roles: list[str]) -> None:
        if self.system != "turn" and "system" in roles:
            wrong = (
                "the system message must be the first message, followed by one of the user"
                if self.system
                else "there are no system messages: put this text into the first user message"
            )
            raise InputError(f"messages: in a chat of {self.name}, {wrong}")
        if self.alternates and roles != [ROLES[1 + i % 2] for i in range(len(roles))]:
            raise InputError(
                f"messages: the roles are {', '.join(roles)}: a chat of {self.name} begins with "
                "user, and user and assistant take turns"
            )


CHATML = ChatFormat(
    "ChatML",
    before="<|im_start|>{role}\n",
    after="<|im_end|>\n",
    prompt="<|im_start|>assistant\n",
    end="<|im_end|>",
)
QWEN2 = replace(CHATML, name="Qwen2", default_system="You are a helpful assistant.")
QWEN25 = replace(
    CHATML,
    name="Qwen2.5",
    default_system="You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
)
QWEN3 = replace(CHATML, name="Qwen3", thought_end="</think>")
SMOLLM2 = replace(
    CHATML,
    name="SmolLM2",
    default_system="You are a helpful AI assistant named SmolLM, trained by Hugging Face",
)
LLAMA3 = ChatFormat(
    "Llama 3",
    start="{bos}",
    before="<|start_header_id|>{role}<|end_header_id|>\n\n",
    after="<|eot_id|>",
    prompt="<|start_header_id|>assistant<|end_header_id|>\n\n",
    end="<|eot_id|>",
    trims=True,
)
LLAMA32 = replace(
    LLAMA3,
    name="Llama 3.2",
    preamble="Cutting Knowledge Date: December 2023\nToday Date: {date}\n\n",
)
MISTRAL = ChatFormat(
    "Mistral",
    start="{bos}",
    before="[INST] ",
    after=" [/INST]",
    answer_after="{eos}",
    system=None,
    alternates=True,
)
MISTRAL1 = replace(MISTRAL, name="Mistral 0.1", answer_after="{eos} ")
GEMMA = ChatFormat(
    "Gemma",
    start="{bos}",
    before="<start_of_turn>{role}\n",
    after="<end_of_turn>\n",
    prompt="<start_of_turn>model\n",
    end="<end_of_turn>",
    roles=("system", "user", "model"),
    trims=True,
    system=None,
    alternates=True,
)
GEMMA3 = replace(GEMMA, name="Gemma 3", system="first")
FORMATS = {
    each.name: each
    for each in (
        CHATML, QWEN2, QWEN25, QWEN3, SMOLLM2, LLAMA3, LLAMA32, MISTRAL, MISTRAL1, GEMMA, GEMMA3
    )
}  # fmt: skip
# The sha256 of the templates that the models' folders have; see `fingerprint`. Each was rendered
# with Jinja and compared with its format.
KNOWN = {
    "fcf7a096fe99a48fd9ad2b250bf9237e96e8f48bffec1c7ea4d3f225176cd40e": CHATML,
    "f0206845c9ebc3abb4735d44f286eb81ce99238ad2accc710c6fc60e6cb8ccc8": QWEN2,
    "3e1a3f2bc40ea2b1166f69e4975a421853cec9334f8ab84e4965d7164ce80da5": QWEN25,
    "cefd4ea810a1433a1b7155b8768429b9d13e2a1c0d08f635f63fee4547c8bb8f": QWEN3,
    "de9cde7d1b0ca0cc87459a6673e0d12fb89c070bdb24e4a30b6e4d187b226221": SMOLLM2,
    "4f46ecd43418f216df8c26936c60e5d04bcc81db47db5d86fbe889f64212dd4c": LLAMA3,
    "04fe98f7d82c4423800175c9380ee65bd212efe59a684e1b5c2b8e2105c09288": LLAMA32,
    "26a59556925c987317ce5291811ba3b7f32ec4c647c400c6cc7e3a9993007ba7": MISTRAL,
    "7e995b379ec01747807246483647cd99030abf331653f1119e16d7ac041a3495": MISTRAL1,
    "1e51d5c0fec2f83da1953fb850b7b532b7da02d0dc35f9201e671e0b9a35a123": GEMMA,
    "92b207aa00028ea69fea9d5e11a202f0838b3335f7b9ecddec6f08e010250173": GEMMA3,
}


def fingerprint(template: str) -> str:
    """The sha256 of a template. Within its strings, a line end may be written in two ways."""
    return hashlib.sha256(
        template.strip().replace("\r\n", "\n").replace("\n", "\\n").encode()
    ).hexdigest()


def chat_format(files: Mapping[str, bytes], source: str = "this model") -> ChatFormat:
    """The format of the chat template in a model's files; InputError if it is not known."""
    template = template_of(files)
    if template is None:
        raise InputError(
            f"{source} has no chat template: give it a text to continue with generate, or write "
            "template, a Jinja template"
        )
    known = KNOWN.get(fingerprint(template))
    if known is None:
        names = ", ".join(FORMATS)
        raise InputError(
            f"{source} has an unknown chat template, {shown(template)}: known are those "
            f"of {names}; to run it in a sandbox, write it to a file and give that as template"
        )
    return known


def template_of(files: Mapping[str, bytes]) -> str | None:
    """The chat template of a model's files, as text; it is not run."""
    if TEMPLATE in files:
        return files[TEMPLATE].decode("utf-8", "replace")
    if SETTINGS not in files:
        return None
    template: Any = parse(files[SETTINGS], SETTINGS).get("chat_template")
    if isinstance(template, list):  # several, by name
        named = [each for each in template if isinstance(each, dict)]
        template = next((e.get("template") for e in named if e.get("name") == "default"), None)
    return template if isinstance(template, str) else None


def special_token(files: Mapping[str, bytes], name: Literal["bos_token", "eos_token"]) -> str:
    """How the folder's files spell a special token; an empty text if they do not."""
    for file in SPECIAL:
        token = parse(files[file], file).get(name) if file in files else None
        token = token.get("content") if isinstance(token, dict) else token
        if isinstance(token, str):
            return token
    return ""


def check_messages(messages: Any) -> None:
    """InputError if it is no chat that the model can answer."""
    if not isinstance(messages, list | tuple) or not messages:
        raise InputError(
            f"messages = {shown(messages)}: write a list such as "
            '[{"role": "user", "content": "Hello!"}]'
        )
    for i, message in enumerate(messages):
        keys = set(message) if isinstance(message, Mapping) else set()
        if keys != {"role", "content"}:
            raise InputError(f"messages[{i}] is {shown(message)}: write role and content")
        if message["role"] not in ROLES:
            raise InputError(
                f"messages[{i}]: role = {shown(message['role'])}: write {', '.join(ROLES)}"
            )
        if not isinstance(message["content"], str):
            raise InputError(
                f"messages[{i}]: content = {shown(message['content'])}: write a string"
            )
    if messages[-1]["role"] != "user":
        raise InputError(
            f"messages[{len(messages) - 1}] is of the {messages[-1]['role']}: the last message "
            "must be the user's, which the model answers"
        )
