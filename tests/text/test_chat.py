"""Chats are rendered as in transformers; an unknown template runs in a sandbox, on request."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

import glassformer as gf
from glassformer.errors import ConfigError, InputError
from glassformer.generate.chat import prepare_chat
from glassformer.text import chat, chat_sandbox, jinja_child
from glassformer.text.chat import FORMATS, KNOWN, chat_format, fingerprint, template_of
from glassformer.text.chat_sandbox import render_template
from smollm import chat_template

# What the templates of these models write, in our words.
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{{ '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {
    "ChatML": CHATML,
    "Qwen2": "{% if messages[0].role != 'system' %}<|im_start|>system\n"
    "You are a helpful assistant.<|im_end|>{{ '\\n' }}{% endif %}" + CHATML,
    "Llama 3": "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}"
    "<|end_header_id|>{{ '\\n\\n' }}{{ m.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>{{ '\\n\\n' }}"
    "{% endif %}",
    "Mistral": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}"
    "[INST] {{ m.content }} [/INST]{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
    "Gemma": "{{ bos_token }}{% for m in messages %}"
    "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ m.content | trim }}<end_of_turn>{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
}
SYSTEM = {"role": "system", "content": " Be brief, {role}. "}


def messages(*contents: str) -> list[dict[str, str]]:
    """Of the user and the assistant, in turns."""
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]


CHATS = [
    messages("Hello!"),
    messages(" two\nlines ", "  An {bos} answer. ", "{{ 7 * 7 }} {% if %}"),
    messages("один", "два", "три", "четыре", "пять"),
    messages(""),
]


def theirs(template: str, chat: list[dict[str, str]]) -> str:
    backend = Backend(WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2}, unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", chat_template=template
    )
    rendered: Any = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    return str(rendered)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_format_gives_the_text_of_transformers(name: str) -> None:
    template, known = TEMPLATES[name], FORMATS[name]
    chats = CHATS if known.system is None else [*CHATS, *([SYSTEM, *each] for each in CHATS)]
    for each in chats:
        assert known.render(each, "<s>", "</s>") == theirs(template, each)
    assert known.render(CHATS[0], "<s>", "</s>") != theirs(template, CHATS[1])


def test_the_template_of_a_real_model_is_known() -> None:
    template = chat_template()
    known = chat_format({"chat_template.jinja": template.encode()})
    assert known is FORMATS["SmolLM2"]
    for each in [*CHATS, *([SYSTEM, *each] for each in CHATS)]:
        assert known.render(each, "<s>", "</s>") == theirs(template, each)


@pytest.mark.parametrize("name", ["Mistral", "Gemma"])
def test_what_a_template_refuses_is_one_line(name: str) -> None:
    known = FORMATS[name]
    with pytest.raises(InputError, match=f"{name}, there are no system messages: put this text"):
        known.render([SYSTEM, *CHATS[0]])
    with pytest.raises(InputError, match="Gemma 3, the system message must be the first message"):
        FORMATS["Gemma 3"].render([*CHATS[0], SYSTEM, *CHATS[0]])
    with pytest.raises(InputError, match=r"user, user: a chat of .* take turns"):
        known.render([*CHATS[0], *CHATS[0]])


def test_formats_beyond_the_five() -> None:
    chat_ = [SYSTEM, *messages("a", "<think>\nhm\n</think>\n\nb", "c")]
    assert (
        FORMATS["Qwen3"]
        .render(chat_)
        .endswith(
            "<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
        )
    )
    assert FORMATS["Gemma 3"].render([SYSTEM, *messages("a ")], "<bos>") == (
        "<bos><start_of_turn>user\n Be brief, {role}. \n\na<end_of_turn>\n<start_of_turn>model\n"
    )
    dated = FORMATS["Llama 3.2"].render(messages("a"), "<s>")
    assert dated.startswith("<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge")
    assert FORMATS["Mistral 0.1"].render(messages("a", "b", "c"), "<s>", "</s>") == (
        "<s>[INST] a [/INST]b</s> [INST] c [/INST]"
    )
    for name in ("Qwen2.5", "SmolLM2"):
        assert FORMATS[name].render(messages("a")).startswith("<|im_start|>system\nYou are ")
    assert set(KNOWN.values()) == set(FORMATS.values())


def test_a_template_is_known_however_its_line_ends_are_written() -> None:
    template = chat_template()
    assert fingerprint(template) == fingerprint(template.replace("\n", "\\n") + "\n")
    assert fingerprint(template) != fingerprint(template.replace("im_end", "im_and"))


def test_where_a_template_is() -> None:
    several = b'{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", '
    several += b'"template": "d"}]}'
    assert template_of({"tokenizer_config.json": several}) == "d"
    assert template_of({"tokenizer_config.json": b'{"chat_template": "c"}'}) == "c"
    assert template_of({"tokenizer_config.json": b"{}"}) is None
    assert template_of({}) is None


def test_another_template_is_refused_and_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_sandbox.subprocess, "run", None)
    unknown = TEMPLATES["ChatML"].replace("im_end", "im_and")
    with pytest.raises(InputError, match=r"unknown chat.*im_start.*ChatML, Qwen2.*sandbox"):
        chat_format({"chat_template.jinja": unknown.encode()})
    with pytest.raises(InputError, match="no chat template"):
        chat_format({})


@pytest.mark.parametrize(
    ("wrong", "what"),
    [([], "write a list"), (None, "write a list"), ([1], "role and content"),
     ([{"role": "user"}], "role and content"), ([{"role": "tool", "content": ""}], "system, user"),
     ([{"role": "user", "content": 1}], "write a string"),
     (messages("a", "b"), "must be the user's")],
)  # fmt: skip
def test_wrong_messages_are_one_line(wrong: Any, what: str) -> None:
    for render in (FORMATS["ChatML"].render, lambda each: render_template("x", each)):
        with pytest.raises(InputError, match=what) as caught:
            render(wrong)
        assert "\n" not in str(caught.value)


def test_a_template_of_the_users_runs_as_in_transformers() -> None:
    for template in TEMPLATES.values():
        for each in CHATS[:2]:
            assert render_template(template, each, "<s>", "</s>") == theirs(template, each)


@pytest.mark.parametrize(
    ("template", "what"),
    [("{% if %}", "TemplateSyntaxError"), ("{{ raise_exception('no\nway') }}", "no way"),
     ("{{ ''.__class__.__mro__ }}", "SecurityError"), ("{{ messages.append(1) }}", "SecurityError"),
     ("{{ cycler.__init__.__globals__ }}", "SecurityError"), ("{% include 'x' %}", "no loader"),
     ("{% for i in range(99999) %}{{ 'x' * 99 }}{% endfor %}", "more than 1,048,576 characters"),
     ("{{ range(999999999) | list }}", "OverflowError"), ("", "at most")],
)  # fmt: skip
def test_the_sandbox_refuses_in_one_line(template: str, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        render_template(template, CHATS[0])
    assert "\n" not in str(caught.value)


@pytest.mark.slow  # after five seconds of processor time
def test_a_template_that_does_not_end_is_stopped() -> None:
    loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(InputError, match=r"stopped|did not end"):
        render_template(loop, CHATS[0])


def test_a_template_that_eats_memory_is_stopped() -> None:
    with pytest.raises(InputError, match=r"memory|stopped|did not end"):
        render_template("{% set x = 'x' * 9999999999 %}{{ x | length }}", CHATS[0])


def test_the_child_imports_jinja_and_the_standard_library_only() -> None:
    source = Path(jinja_child.__file__).read_text()
    assert "glassformer." not in source.replace("from glassformer", "")


def test_without_jinja2_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'glassformer\[chat\]'"):
        render_template("x", CHATS[0])


def test_the_answer_ends_at_the_end_of_its_turn(tmp_path: Path) -> None:
    model = gf.load("gf-decoder")
    model.save(tmp_path / "model")
    (tmp_path / "model" / "chat_template.jinja").write_text(chat_template())
    talker = gf.load(tmp_path / "model")
    prompt = FORMATS["SmolLM2"].render(messages("Hello!"))
    (expected,) = model.generate(prompt, max_new_tokens=7)
    answer = talker.chat("Hello!", max_new_tokens=7)
    job = prepare_chat(talker.task, talker.tokenizer, talker.origin, "Hello!", {})
    assert job.prompts == model.tokenizer.ids([prompt])
    assert "".join(talker.stream_chat(messages("Hello!"), max_new_tokens=7)) == answer.text
    assert len(answer.ids) <= 7 and expected.ids
    assert talker.chat("Hello!", template="{{ messages[0].content }}", max_new_tokens=3).ids
    talker.save(tmp_path / "again")
    assert (tmp_path / "again" / "chat_template.jinja").read_text() == chat_template()
    with pytest.raises(InputError, match="no chat template"):
        model.chat("Hello!")
    with pytest.raises(InputError, match="cannot generate"):
        gf.load("gf-encoder").chat("Hello!")


def test_the_format_adds_its_end_token(monkeypatch: pytest.MonkeyPatch) -> None:
    model = gf.load("gf-decoder")
    word = model.tokenizer.token(model.generate("The cat", max_new_tokens=1)[0].ids[0])
    ending = chat.ChatFormat("Plain", prompt="The cat", end=word)
    monkeypatch.setattr("glassformer.generate.chat.chat_format", lambda files: ending)
    monkeypatch.setattr(chat.ChatFormat, "render", lambda self, messages, bos, eos: self.prompt)
    answer = model.chat("x", max_new_tokens=9)
    assert len(answer.ids) == 1 and answer.stopped == "end"
