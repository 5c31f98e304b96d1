"""A real Chromium, real server processes, and four promises that every test checks at its end."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers, processors

import folders
import speakers
from browser.screens import Server
from glassformer.studio.pooling_toys import VARIANTS, train_variant
from ports import free_port

sync_api = pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, expect  # noqa: E402

PATIENCE = 60_000  # milliseconds: machines are busy
expect.set_options(timeout=PATIENCE)

CHROMIUM = os.environ.get("GLASSFORMER_CHROMIUM") or shutil.which("chromium")
EVIL = "<img src=x onerror=alert(1)>"  # a folder's name, and a label
WATCH = """
  window.violations = [];
  addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective));
"""


@pytest.fixture(scope="package")  # its event loop must not outlive these tests
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium: see QUARANTINES.md")
    flags = ["--no-sandbox", "--disable-dev-shm-usage", "--force-color-profile=srgb"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages; at the end: no fault, no dialog, no broken policy, no request to elsewhere."""
    yield from _opener(browser, "http://127.0.0.1:")


def _opener(browser: Browser, home: str, *, offline: bool = False) -> Iterator[Callable[..., Page]]:
    contexts: list[BrowserContext] = []
    wrong: list[str] = []
    asked: list[str] = []

    def refused(dialog: Dialog) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open_one(
        url: str, *, width: int = 1280, height: int = 720, theme: Literal["light", "dark"] = "light"
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme,
            reduced_motion="reduce", offline=offline,
        )  # fmt: skip
        contexts.append(context)
        context.add_init_script(WATCH)
        context.on("request", lambda request: asked.append(request.url))
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: wrong.append(f"fault: {error}"))
        page.on("dialog", refused)
        page.goto(url)
        return page

    yield open_one
    for context in contexts:
        for page in context.pages:
            wrong += page.evaluate("window.violations ?? []")
        context.close()
    assert not wrong
    assert asked
    kinds = (home, "data:image/svg+xml", "blob:")  # what the page has made itself
    assert all(url.startswith(kinds) for url in asked), asked


@pytest.fixture
def open_file(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens files from disk, without a network; at the end: no fault, no dialog, nothing asked."""
    yield from _opener(browser, "file://", offline=True)


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the folders are that a studio is started with."""
    return tmp_path_factory.mktemp("folders")


@pytest.fixture(scope="package")
def studios(home: Path) -> Iterator[dict[str, Server]]:
    """Two studios: one with the toys, one with folders as transformers writes them."""
    root = home
    speakers.bert("BertForMaskedLM", root / "bert", **speakers.LONG)
    speakers.bytewise("GPT2LMHeadModel", root / "gpt2")
    _words(folders.write("MarianMTModel", root / "marian"))
    folders.write("MarianMTModel", root / "mute")
    labels = {"id2label": {0: EVIL, 1: "<script>alert(2)</script>", 2: "javascript:alert(3)"}}
    speakers.bert("BertForSequenceClassification", root / EVIL, **speakers.LONG, **labels)
    _run(root / "run")
    given = [str(root / name) for name in ("bert", "gpt2", "marian", "mute", EVIL, "run")]
    started = {name: _start(each) for name, each in {"toys": ["--toys"], "folders": given}.items()}
    try:
        yield {name: _wait(process, url) for name, (process, url) in started.items()}
    finally:
        for process, _ in started.values():
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="package")
def shipped() -> Iterator[Server]:
    """A studio as `make run` starts it."""
    process, url = _start([])
    try:
        yield _wait(process, url)
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="package")
def poolers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A studio with a trained pooling model, vectors, and models that answer and compare texts."""
    root = tmp_path_factory.mktemp("poolers")
    model = train_variant(VARIANTS[0])
    model.save(root / "reviews")
    assert model.tokenizer is not None
    words = [model.tokenizer.token(i) for i in range(1, len(model.tokenizer))]
    rows = [" ".join(str((i * k) % 7 - 3) for k in range(8)) for i in range(len(words))]
    lines = [f"{word} {row}\n" for word, row in zip(words, rows, strict=True)]
    (root / "glove.txt").write_text("".join(lines))
    speakers.bert("BertForQuestionAnswering", root / "answers", **speakers.LONG)
    speakers.bert("BertForPreTraining", root / "bert", **speakers.LONG)
    process, url = _start(
        [str(root / name) for name in ("reviews", "glove.txt", "answers", "bert")]
    )
    try:
        yield _wait(process, url)
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def toys(studios: dict[str, Server]) -> Server:
    return studios["toys"]


@pytest.fixture
def strangers(studios: dict[str, Server]) -> Server:
    return studios["folders"]


def _run(folder: Path) -> None:
    """A run that goes on: its metrics, and three checkpoints that differ."""
    for step in (10, 20, 30):
        saved, _ = speakers.bytewise("GPT2LMHeadModel", folder / "once")
        with torch.no_grad():
            for each in saved.parameters():
                each.mul_(1 + step / 30)
        saved.save(folder / "checkpoints" / f"step-{step:08d}")
    (folder / "recipe.toml").write_text("")
    events: list[dict[str, object]] = [{"step": n, "loss": 5 - n / 10} for n in range(1, 36)]
    events += [{"step": 15, "valid": {"loss": 3.9}}, {"step": 30, "valid": {"loss": 2.5}}]
    lines = [json.dumps(each) + "\n" for each in events]
    (folder / "metrics.jsonl").write_text("".join(lines))


def _words(folder: Path) -> None:
    """A tokenizer for a Marian folder: a token a word."""
    words = ("the", "cat", "sat", "on", "mat", "i", "love", "to", "play", "soccer", "ate", "apple")
    named = ["</s>", "<unk>", *words]
    ids = {word: i for i, word in enumerate(named)} | {"<pad>": 52}
    backend = tokenizers.Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 0)])
    backend.add_special_tokens(["</s>", "<pad>"])
    backend.save(str(folder / "tokenizer.json"))


def _start(given: list[str]) -> tuple[subprocess.Popen[bytes], str]:
    port = free_port()
    command = [sys.executable, "-m", "glassformer", "studio", *given]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--no-open"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return process, f"http://127.0.0.1:{port}/"


def _wait(process: subprocess.Popen[bytes], url: str) -> Server:
    until = time.monotonic() + 240  # toys are trained first, and machines are busy
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}api/models", timeout=5) as answer:
                assert json.load(answer)["models"]
                return Server(url)
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"the studio does not answer, exit code {process.poll()}")
