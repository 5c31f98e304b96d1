"""Lessons: every sentence is true of the shipped models, every check and address exists."""

import json
import re
from urllib.parse import parse_qs

import pytest
import torch

import glassformer as gf
from glassformer.cli.studio import serve
from glassformer.glass import between, head_scores, lens, weights
from glassformer.pretrained import shipped_runs
from glassformer.studio.checkpoints import at_step
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.lessons import glossary, lessons
from glassformer.studio.page_schemas import ShuffleRequest
from glassformer.studio.runs import RecordedRuns, record_run
from glassformer.studio.samples import samples
from glassformer.studio.schemas import RunRequest
from glassformer.studio.standalone import WEB
from glassformer.studio.tokenization import places_of
from glassformer.studio.views.find import find_head
from glassformer.studio.views.positions import lecture_positions
from glassformer.studio.views.shuffle import ShuffledRuns
from glassformer.train.curves import read

STEPS = [
    (lesson.id, n, step) for lesson in lessons().lessons for n, step in enumerate(lesson.steps)
]
NAMES = ("gf-decoder", "gf-en-ru", "gf-encoder", "gf-shakespeare")


@pytest.fixture(scope="module")
def models():
    return dict(zip(NAMES, serve(NAMES, "cpu"), strict=True))


class Screen:
    """What a step opens: its address, its run, and the head that it seeks."""

    def __init__(self, models, step):
        self.page, _, query = step.at.removeprefix("#/").partition("?")
        self.state = {name: values[0] for name, values in parse_qs(query).items()}
        self.served = models[self.state["m"]]
        self.model = self.served.model
        if "cp" in self.state:
            folder = shipped_runs()[self.served.name]
            self.model = gf.load(at_step(folder, int(self.state["cp"])))
        self.run = self.ran()
        self.found = None
        if "find" in self.state:
            self.found = find_head(self.run, self.state["find"], JobMonitor())

    def ran(self, **more):
        request = RunRequest(model="0", text=self.state["x"], **more)
        return record_run(self.model, request, "r1", JobMonitor())

    def chance(self, word, run=None):
        """Of a word where the model answers; 0 if it is not among the likeliest."""
        place = (run or self.run).row.predictions.at
        return next((each.p for each in place[-1].top if each.text == word), 0.0)

    @property
    def best(self):
        return self.run.row.predictions.at[-1].top[0]

    def off(self):
        found = self.found
        return self.ran(off=((found.stack, found.layer, found.head),))

    def tokens(self, side):
        return [token.text for token in self.run.tokens[side]]


@pytest.fixture
def screen(models):
    return lambda lesson, n: Screen(models, next(s for i, k, s in STEPS if (i, k) == (lesson, n)))


def test_there_are_six_and_each_step_is_complete():
    checks = (WEB / "checks.js").read_text("utf-8")
    table = checks[checks.index("export const CHECKS") :]
    known = set(re.findall(r"^  (\w+)[(:,]", table, re.MULTILINE))
    assert len(lessons().lessons) == 6 and len(STEPS) >= 18
    for lesson, n, step in STEPS:
        where = f"{lesson}, step {n + 1}"
        assert step.check[0] in known, where
        assert (lesson, n) in CLAIMS, f"no test says that {where} is true"
        assert len(re.findall(r"[.?](?=\s|$)", step.text)) == 2, f"{where}: two sentences"
        assert "%" not in step.at and "+" not in step.at, f"{where}: written as it is read"
    assert len(CLAIMS) == len(STEPS)


@torch.no_grad()
@pytest.mark.parametrize(("lesson", "n"), [(lesson, n) for lesson, n, _ in STEPS])
def test_a_step_says_the_truth(screen, lesson, n):
    CLAIMS[lesson, n](screen(lesson, n))


def rails(screen):
    assert len(lens(screen.model, screen.run.trace, top_k=1)) == 6 + 1
    assert screen.best.text == "are" and screen.tokens("encoder").count("keys") == 1


def looks_at_keys(screen):
    rows = weights(screen.run.trace, "encoder")
    mask, keys = screen.run.row.predictions.at[0].token, screen.tokens("encoder").index("keys")
    assert screen.found.value == pytest.approx(float(rows[:, :, mask, keys].max()))
    assert rows.sum(-1).sub(1).abs().max() < 1e-3
    assert "cabinet" in screen.tokens("encoder")


def are_falls(screen):
    assert screen.chance("are", screen.off()) < screen.chance("are") - 0.1


def the_noun_decides(screen):
    tokens = screen.tokens("encoder")
    place = int(screen.state["q"])
    mask = screen.run.row.predictions.at[0].token
    assert tokens[place] == "keys" and mask - tokens.index("cabinet") < mask - place
    changed = screen.ran(swaps=(("encoder", place, "key"),))
    assert screen.best.text == "are" and changed.row.predictions.at[0].top[0].text == "is"


def near_positions(screen):
    rows = torch.tensor(lecture_positions().values)
    one, two, far = (torch.cosine_similarity(rows[20], rows[i], dim=0) for i in (21, 98, 50))
    assert one > two + 0.2 and one > far


def learnt_positions(screen):
    assert screen.model.task.backbone.config.position == "learned"


def bag_of_words(screen):
    runs, shuffled = RecordedRuns(), ShuffledRuns()
    run = runs.add(screen.model, RunRequest(model="0", text=screen.state["x"]), JobMonitor())
    for positions in (True, False):
        asked = ShuffleRequest(run=run.id, seed=1, positions=positions)
        row = shuffled.add(run, asked, JobMonitor()).row
        then, now = row.predictions.at[0].top, row.predictions_after.at[0].top
        after = next((each.p for each in now if each.id == then[0].id), 0.0)
        assert then[0].p - after > 0.05 if positions else abs(then[0].p - after) < 5e-4


def two_banks(screen):
    other = record_run(
        screen.model, RunRequest(model="0", text=screen.state["o"]), "r2", JobMonitor()
    )
    place, mate = int(screen.state["q"]), int(screen.state["om"])
    theirs = [token.text for token in other.tokens["encoder"]]
    assert screen.tokens("encoder")[place] == theirs[mate] == "bank" and theirs[4] == "money"
    cosines = between((screen.run.trace, place), (other.trace, mate), "encoder").tolist()
    assert cosines[1] > 0.9 and cosines[-1] == min(cosines) < 0.8


def bank_looks_at_river(screen):
    places = [places_of(word, screen.run.tokens["encoder"])[0][0] for word in ("bank", "river")]
    rows = weights(screen.run.trace, "encoder")[:, :, places[0], places[1]]
    assert screen.found.value == pytest.approx(float(rows.max())) and "sat" in screen.tokens(
        "encoder"
    )


def money_is_in_the_bank(screen):
    place = int(screen.state["q"])
    assert screen.best.text == "bank" and screen.tokens("encoder")[place] == "money"
    changed = screen.ran(swaps=(("encoder", place, "fish"),))
    assert screen.chance("bank", changed) < screen.chance("bank") - 0.1


def reads_from_the_left(screen):
    rows = weights(screen.run.trace, "decoder")
    assert rows.triu(1).abs().max() == 0 and (rows[:, :, 0, 0] == 1).all()


def the_is_next(screen):
    assert screen.best.text == "the"


def another_token_leads_elsewhere(screen):
    texts = []
    for guess in screen.run.row.predictions.at[-1].top[:2]:
        start = f"{screen.state['x']} {guess.text}"
        texts.append(screen.model.generate(start, max_new_tokens=5)[0].text)
    assert texts[0].split()[-1] != texts[1].split()[-1] or texts[0] != texts[1]


def has_an_induction_head(screen):
    scores = head_scores(screen.run.trace, "decoder")["induction"]
    assert screen.found.value == pytest.approx(float(scores.max())) and scores.max() > 0.4


def the_answer_needs_it(screen):
    best = screen.best
    now = next((e.p for e in screen.off().row.predictions.at[-1].top if e.id == best.id), 0.0)
    assert best.p - now == pytest.approx(screen.found.value, abs=0.05) and now < best.p - 0.1


def she_is_ona(screen):
    assert screen.run.target.startswith("Она ") and len(screen.run.target.split()) >= 2


def russian_looks_at_tired(screen):
    tired = screen.tokens("encoder").index("tired")
    rows = weights(screen.run.trace, "cross")[..., tired]
    written = [i for i, token in enumerate(screen.run.tokens["decoder"]) if not token.special]
    assert screen.found.stack == "cross"
    assert screen.found.value == pytest.approx(float(rows[:, :, written].max()))


def he_is_on(screen):
    assert screen.state["in"] == "encoder" and screen.tokens("encoder")[0] == "She"
    changed = screen.ran(swaps=(("encoder", 0, "He"),))
    assert changed.target.split()[0] == "Он"


def knows_no_letters(screen):
    assert sum(each.numel() for each in screen.model.parameters()) == 29_472
    assert screen.best.p < 0.1
    end = record_run(screen.served.model, RunRequest(model="0", text="O, my q"), "r2", JobMonitor())
    assert end.row.predictions.at[-1].top[0].text == "u"


def looks_one_back(screen):
    found = screen.found
    young = gf.load(at_step(shipped_runs()[screen.served.name], 10))
    run = record_run(young, RunRequest(model="0", text=screen.state["x"]), "r2", JobMonitor())
    before = float(head_scores(run.trace, "decoder")["previous"][found.layer, found.head])
    assert found.value > 2 * before


def loss_has_fallen(screen):
    folder = shipped_runs()[screen.served.name]
    first = json.loads((folder / "metrics.jsonl").read_text("utf-8").splitlines()[0])
    assert first["step"] == 1 and f"{first['loss']:.1f}" == "4.1"
    assert f"{read(folder).train[-1][1]:.1f}" == "1.7"


CLAIMS = {
    ("attention", 0): rails, ("attention", 1): looks_at_keys, ("attention", 2): are_falls,
    ("attention", 3): the_noun_decides, ("positions", 0): near_positions,
    ("positions", 1): learnt_positions, ("positions", 2): bag_of_words,
    ("context", 0): two_banks, ("context", 1): bank_looks_at_river,
    ("context", 2): money_is_in_the_bank, ("next-word", 0): reads_from_the_left,
    ("next-word", 1): the_is_next, ("next-word", 2): another_token_leads_elsewhere,
    ("next-word", 3): has_an_induction_head, ("next-word", 4): the_answer_needs_it,
    ("translation", 0): she_is_ona, ("translation", 1): russian_looks_at_tired,
    ("translation", 2): he_is_on, ("training", 0): knows_no_letters,
    ("training", 1): looks_one_back, ("training", 2): loss_has_fallen,
}  # fmt: skip


def test_the_routes(client):
    assert [each["id"] for each in client.get("/api/lessons").json()["lessons"]] == [
        lesson.id for lesson in lessons().lessons
    ]
    assert len(client.get("/api/glossary").json()["terms"]) >= 50


def test_the_glossary():
    """Sorted, one plain sentence each, no form twice."""
    terms = glossary().terms
    assert [term.name.lower() for term in terms] == sorted(term.name.lower() for term in terms)
    forms = [form.lower() for term in terms for form in (term.name, *term.also)]
    assert len(forms) == len(set(forms)) >= 50
    for term in terms:
        assert term.text.endswith(".") and len(term.text) < 140, term.name
        assert not re.search(r"[.!?] [A-Z]", term.text), f"{term.name}: one sentence"


def test_every_measure_has_a_term(models):
    """The field's words on the pages are in the glossary."""
    forms = {form.lower() for term in glossary().terms for form in (term.name, *term.also)}
    groups = {each.group for served in models.values() for each in samples(served)}
    assert {"entropy", "surprisal", "rollout", "softmax", "rope", "logit lens"} <= forms
    assert {"induction", "coreference", "alignment", "masked word"} <= groups & forms
