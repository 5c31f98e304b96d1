"""`glassformer chat`: lines in, answers out; the chat is remembered until /reset."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from commands import glassformer, refused
from glassformer.generate.chat import prepare_chat
from smollm import chat_template


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat") / "model"
    gf.load("gf-decoder").save(folder)
    (folder / "chat_template.jinja").write_text(chat_template())
    return folder


def talk(monkeypatch: pytest.MonkeyPatch, lines: str, *words: Any, terminal: bool = False) -> Any:
    monkeypatch.setattr(sys, "stdin", Terminal(lines) if terminal else io.StringIO(lines))
    return glassformer("chat", *words, "--max-new-tokens", 5)


def rows(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines()]


def test_the_chat_is_remembered_until_reset(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "Hello!\n\nAnd you?\n/reset\nHello!\n/exit\nnever\n"
    first, second, third = rows(talk(monkeypatch, lines, folder, "--json"))
    assert first["text"] == third["text"] and first["prompt_tokens"] == third["prompt_tokens"]
    chat = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": first["text"]}]
    model = gf.load(folder)
    chat.append({"role": "user", "content": "And you?"})
    job = prepare_chat(model.task, model.tokenizer, model.origin, chat, {})
    assert second["prompt_tokens"] == len(job.prompts[0]) > first["prompt_tokens"]
    assert first["text"] == model.chat("Hello!", max_new_tokens=5).text


def test_a_terminal_shows_answer_and_tokens(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "many words " * 600
    said = talk(monkeypatch, f"Hello!\n{long}\nBye\n", folder, "--system", "Be.", terminal=True)
    model, system = gf.load(folder), {"role": "system", "content": "Be."}
    answer = model.chat([system, {"role": "user", "content": "Hello!"}], max_new_tokens=5).text
    assert said.startswith(answer)
    assert "tokens" in said.errors and "/reset" in said.errors
    assert "shorten it (/reset clears the history)" in said.errors  # and the chat goes on
    assert said.errors.count(" of ") >= 2


def test_a_template_of_the_users(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "mine.jinja").write_text("{{ messages[0].content }}")
    said = talk(monkeypatch, "The cat\n", "gf-decoder", "--template", tmp_path / "mine.jinja")
    (expected,) = gf.load("gf-decoder").generate("The cat", max_new_tokens=5)
    assert said.rstrip("\n") == expected.text.rstrip("\n")


def test_what_cannot_be_answered_is_one_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello!\n"))
    assert "no chat template" in refused("chat", "gf-decoder")
    assert "no such file" in refused("chat", folder, "--template", tmp_path / "none")
    unknown = tmp_path / "model"
    gf.load("gf-decoder").save(unknown)
    (unknown / "chat_template.jinja").write_text("{{ 1 }}")
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello!\n"))
    assert "'{{ 1 }}': known are those of ChatML" in refused("chat", unknown)
