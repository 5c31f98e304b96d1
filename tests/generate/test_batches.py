"""What a text becomes depends on its prompt, settings and seed: on nothing beside it."""

import copy
import itertools
import random
from dataclasses import replace

import pytest

from generate.reference import MODELS, beam_case, greedy_case, pair, prompts, sample_case
from generate.uncached import Uncached
from glassformer.errors import ConfigError, InputError
from glassformer.generate import job as writing
from glassformer.generate import sampling
from glassformer.generate.engine import Engine
from glassformer.generate.job import prepare
from glassformer.generate.sampling import Request, RunningBatch, generate_tokens
from glassformer.generate.settings import Settings
from sampling import mostly_slow

MAKE = {"greedy": greedy_case, "beam": beam_case, "sample": sample_case}


@pytest.fixture(scope="module", params=mostly_slow(dict.fromkeys(["marian", *MODELS])))
def models(request, tmp_path_factory):
    return pair(request.param, tmp_path_factory.mktemp(request.param))


def several(models, kind, count=3):
    draw = random.Random(f"batch {kind}")
    found = [MAKE[kind](draw, models.common) | {"logprobs": True} for _ in range(count)]
    return [each | {"max_new_tokens": each["max_new_tokens"] + 3} for each in found]


def same(found, expected):
    """The same texts; the same numbers, but for rounding."""
    assert [each.ids for each in found] == [each.ids for each in expected]
    assert [each.stopped for each in found] == [each.stopped for each in expected]
    for each, other in zip(found, expected, strict=True):
        assert each.logprobs == pytest.approx(other.logprobs, abs=1e-4)
        assert each.score == pytest.approx(other.score, abs=1e-4)


def alone(model, texts, settings):
    return [each for text in texts for each in model.generate([text], **settings)]


@pytest.mark.parametrize("kind", mostly_slow(MAKE))
def test_a_batch_is_as_good_as_alone(models, kind):
    texts = prompts(7, seed=3)
    for settings in several(models, kind):
        expected = alone(models.ours, texts, settings)
        for size in (1, 3, 16):
            same(models.ours.generate(texts, batch_size=size, **settings), expected)


@pytest.mark.parametrize("kind", mostly_slow(["greedy", "sample"]))
def test_one_step_ahead_writes_the_same(models, kind, monkeypatch):
    texts = prompts(7, seed=5)
    for settings in several(models, kind):
        expected = models.ours.generate(texts, batch_size=3, **settings)
        with monkeypatch.context() as change:
            change.setattr(sampling, "AHEAD", ("cpu",))
            same(models.ours.generate(texts, batch_size=3, **settings), expected)


def test_an_engine_that_is_kept_writes_the_same_each_time(models):
    texts = prompts(7, seed=6)
    engine = models.ours.engine(3, 40, source_tokens=40)
    for settings in several(models, "greedy"):
        expected = models.ours.generate(texts, **settings)
        for _ in range(2):
            same(models.ours.generate(texts, engine=engine, **settings), expected)
        assert engine.slots == 3
    for _ in range(3):  # interrupted: it can be used again
        task, origin = models.ours.task, models.ours.origin
        made = prepare(task, None, origin, texts, {"max_new_tokens": 9}, engine=engine)
        next(sampling.generate_tokens(made.engine(), made.requests(), made.settings))
    same(models.ours.generate(texts, engine=engine, **settings), expected)
    with pytest.raises(InputError, match="it has room for 2 tokens"):
        models.ours.generate(texts, engine=models.ours.engine(3, 2, source_tokens=2))
    if models.ours.task.backbone.config.family == "seq2seq":
        with pytest.raises(InputError, match="engine: source_tokens = 0: write the length"):
            models.ours.engine(3, 40)
    with pytest.raises(InputError, match=r"num_beams = 1, .*engine\(…, num_beams=2\)"):
        models.ours.generate(texts, engine=engine, num_beams=2)
    other = copy.deepcopy(models.ours)
    with pytest.raises(InputError, match="belongs to another model"):
        other.generate(texts, engine=engine)
    engine = other.engine(3, 40, source_tokens=40)
    other.double()
    with pytest.raises(InputError, match="have changed or moved in memory"):
        other.generate(texts, engine=engine)


def test_beams_of_an_engine_that_is_kept_are_the_same(models):
    texts = prompts(7, seed=8)
    for settings in several(models, "beam", 2):
        engine = models.ours.engine(3, 40, source_tokens=40, num_beams=settings["num_beams"])
        addresses = [each.data_ptr() for each in engine.cache.tensors]
        for part in (texts, texts[:1], texts):  # batches of 3, 3 and 1
            expected = models.ours.generate(part, **settings)
            same(models.ours.generate(part, engine=engine, **settings), expected)
        assert [each.data_ptr() for each in engine.cache.tensors] == addresses


def test_an_engine_with_beams_is_used_again_after_an_interruption(models, monkeypatch):
    texts, settings = prompts(3, seed=9), {"num_beams": 2, "max_new_tokens": 12}
    engine = models.ours.engine(3, 24, source_tokens=40, num_beams=2)
    calls = itertools.count()

    def interrupted(tokens):
        if next(calls) == 6:
            raise KeyboardInterrupt
        return Engine.step(engine, tokens)

    with monkeypatch.context() as change, pytest.raises(KeyboardInterrupt):
        change.setattr(engine, "step", interrupted)
        models.ours.generate(texts, engine=engine, min_new_tokens=12, **settings)
    for part in (texts[:1], texts):
        expected = models.ours.generate(part, **settings)
        assert [each.ids for each in models.ours.generate(part, engine=engine, **settings)] == [
            each.ids for each in expected
        ]


@pytest.mark.parametrize("kind", MAKE)
def test_cached_equals_uncached(models, kind, monkeypatch):
    texts = prompts(5, seed=4)
    for settings in several(models, kind):
        cached = models.ours.generate(texts, **settings)
        with monkeypatch.context() as change:
            change.setattr(writing, "Engine", Uncached)
            same(models.ours.generate(texts, **settings), cached)


@pytest.mark.parametrize("kind", mostly_slow(["sample", "greedy"]))
@pytest.mark.parametrize("engine", mostly_slow([Engine, Uncached]))
def test_joined_later_is_as_good_as_alone(models, kind, engine):
    """Three slots, seven texts that come one by one while others are being written."""
    texts = prompts(7, seed=5)
    for settings in several(models, kind):
        settings |= {"max_new_tokens": 9}
        expected = alone(models.ours, texts, settings)
        job = prepare(models.ours.task, None, models.ours.origin, texts, settings)
        seats = engine(
            models.ours.task, slots=3, capacity=24, memory_capacity=13 if job.sources else 0
        )
        found = {number: [] for number in range(len(texts))}
        together = 0
        for choice in generate_tokens(seats, slowly(job.requests()), job.settings):
            found[choice.request.number].append(choice.token)
            together = max(together, sum(0 < len(each) < 9 for each in found.values()))
        assert [tuple(each) for each in found.values()] == [each.ids for each in expected]
        assert together > 1


def slowly(requests):
    """Nobody waits for a while after each of them."""
    for request in requests:
        yield request
        yield from [None] * (request.number % 3)


def test_texts_of_different_settings_share_a_batch(models):
    """They join one by one, one leaves early, and the batch changes its size meanwhile."""
    texts = prompts(6, seed=8)
    cases = [*several(models, "greedy", 3), *several(models, "sample", 3)]
    cases = [each | {"seed": 5 + i, "num_return_sequences": 1} for i, each in enumerate(cases)]
    expected = [models.ours.generate([t], **s)[0] for t, s in zip(texts, cases, strict=True)]
    task, origin = models.ours.task, models.ours.origin
    jobs = [prepare(task, None, origin, [t], s) for t, s in zip(texts, cases, strict=True)]
    requests = [
        replace(next(job.requests()), number=i, settings=job.settings) for i, job in enumerate(jobs)
    ]
    engine = Engine(task, slots=1, capacity=40, memory_capacity=40 if jobs[0].sources else 0)
    batch = RunningBatch(engine, Settings(), checks_finite=True)
    waiting, choices = list(requests), {number: [] for number in range(6)}
    while waiting or batch.active:
        if waiting and not batch.free:
            batch.resize(batch.active + 2)
        if waiting:
            batch.join([waiting.pop(0)])
        for choice in batch.advance():
            assert choice.finite
            choices[choice.request.number].append(choice)
        batch.leave([requests[1]])
    assert len(choices.pop(1)) == 1
    for number, own in choices.items():
        assert tuple(choice.token for choice in own) == expected[number].ids
        logprobs = [choice.logprob for choice in own]
        assert logprobs == pytest.approx(expected[number].logprobs, abs=1e-4)


def test_the_likeliest_tokens_are_given_with_the_chosen_one(models):
    text = prompts(1, seed=9)[0]
    settings = {"max_new_tokens": 4, "logprobs": True, "top_logprobs": 3, "eos_token_id": []}
    (greedy,) = models.ours.generate([text], **settings)
    free = slice(1, 3)  # the first and the last token may be forced
    assert [row[0][0] for row in greedy.top_logprobs[free]] == list(greedy.ids[free])
    likeliest = [row[0][1] for row in greedy.top_logprobs[free]]
    assert likeliest == pytest.approx(greedy.logprobs[free], abs=1e-5)
    assert all(len(row) == 3 and row[0][1] >= row[2][1] for row in greedy.top_logprobs)
    with pytest.raises(ConfigError, match="top_logprobs = 3: write logprobs = True"):
        models.ours.generate([text], top_logprobs=3)


def test_a_closed_queue_lets_the_batch_shrink(models):
    """Nobody steps along when half of the texts are done and nobody waits."""
    job = prepare(models.ours.task, None, models.ours.origin, prompts(8, seed=6), {})
    engine = job.engine()
    limits = [2, 3, 9, 1, 2, 2, 8, 2]
    requests = [
        Request(each.number, each.prompt, limit, each.source)
        for each, limit in zip(job.requests(), limits, strict=True)
    ]
    sizes = [engine.slots for _ in generate_tokens(engine, requests, job.settings)]
    assert sizes[0] == 8 and sizes[-1] <= 2
    assert len(sizes) <= sum(limits)


def test_samples_of_one_prompt_are_different_and_the_same_each_time(models):
    settings = {"do_sample": True, "num_return_sequences": 6, "eos_token_id": [], "seed": 0}
    text = prompts(1, seed=7)[0]
    found = [each.ids for each in models.ours.generate([text], **settings)]
    assert len(set(found)) > 3
    assert [each.ids for each in models.ours.generate([text], batch_size=2, **settings)] == found
    fewer = models.ours.generate([text], **settings | {"num_return_sequences": 2})
    assert [each.ids for each in fewer] == found[:2]
    other = models.ours.generate([text], **settings | {"seed": 1})
    assert [each.ids for each in other] != found


def test_the_context_ends_a_text(models):
    """The last token is written but never read: it needs no place in the context."""
    config = models.ours.task.backbone.config
    for length in (46, 48):
        text = [5 + i % 30 for i in range(length)]
        found = models.ours.generate([text], max_new_tokens=900, eos_token_id=[])[0]
        start = 1 if config.family == "seq2seq" else length
        most = config.max_length + 1 - start
        assert (len(found.ids), found.stopped) == (most, "length")
