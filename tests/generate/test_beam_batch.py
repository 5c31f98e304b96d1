"""Texts that join and leave running beam searches are those of a search of their own."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from generate.storytellers import speaker
from glassformer.generate.beam import BeamBatch, beam
from glassformer.generate.engine import Engine
from glassformer.generate.generation import Generation
from glassformer.generate.job import GenerationJob, prepare
from glassformer.generate.sampling import Request

TEXTS = ["The cat sat on the mat.", "one", "Der Hund", "naïve café", "two three", "Кошка сидит"]
RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "looks back": {"no_repeat_ngram_size": 2, "min_new_tokens": 3, "logprobs": True},
    "stops": {"stop": ["e"], "length_penalty": 0.5, "early_stopping": True},
}


@cache
def model(family: str) -> gf.Model:
    return speaker(family=family)


@cache
def alone(family: str, rules: str) -> tuple[GenerationJob, list[list[Generation]]]:
    """The job of all texts, and what searches of one text each give."""
    options = {"num_beams": 3, "num_return_sequences": 2, "max_new_tokens": 9, **RULES[rules]}
    speaks = model(family)
    job = prepare(speaks.task, speaks.tokenizer, None, TEXTS, options)
    best = []
    for i in range(len(TEXTS)):
        one = slice(i, i + 1)
        sources = None if job.sources is None else job.sources[one]
        best += beam(job.engine(one), job.prompts[one], job.settings, sources, job.tokenizer)
    return job, best


def batch_of(job: GenerationJob, texts: int) -> BeamBatch:
    engine = Engine(job.task, slots=3 * texts, capacity=64, memory_capacity=64, beams=3)
    return BeamBatch(engine, job.settings, job.tokenizer)


def requests_of(job: GenerationJob) -> list[Request]:
    return [each for each in job.requests() if each.sample == 0]


QUICK = [("seq2seq", "looks back"), ("decoder", "stops")]
CASES = [
    pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow)
    for case in product(("decoder", "seq2seq"), RULES)
]


@pytest.mark.parametrize(("family", "rules"), CASES)
@settings(max_examples=4, deadline=None)
@given(slots=st.integers(1, 4), waits=st.lists(st.integers(0, 4), min_size=6, max_size=6))
def test_texts_join_at_any_step(family: str, rules: str, slots: int, waits: list[int]) -> None:
    job, best = alone(family, rules)
    batch, done = batch_of(job, slots), {}
    waiting = list(zip(requests_of(job), waits, strict=True))
    wait = 0
    while waiting or batch.active:
        if waiting and wait >= waiting[0][1]:
            if not batch.free and batch.active < 4:
                batch.resize(batch.active + 1)
            if batch.free:
                batch.join([waiting.pop(0)[0]])
                wait = 0
        wait += 1
        if batch.active:
            done |= {request.number // 2: texts for request, texts in batch.advance()}
    assert [[text.ids for text in done[i]] for i in range(6)] == [
        [text.ids for text in texts] for texts in best
    ]
    for i, texts in enumerate(best):
        scores = [text.score for text in texts]
        assert [text.score for text in done[i]] == pytest.approx(scores, abs=1e-5)
        assert [text.stopped for text in done[i]] == [text.stopped for text in texts]


def test_texts_that_leave_harm_no_others() -> None:
    job, best = alone("seq2seq", "plain")
    requests = requests_of(job)
    batch = batch_of(job, 6)
    batch.join(requests)
    batch.advance()
    batch.leave([requests[0], requests[3]])
    assert (batch.active, batch.free) == (4, 2)
    batch.join([requests[3]])
    done = {}
    while batch.active:
        done |= {request.number // 2: texts for request, texts in batch.advance()}
    assert sorted(done) == [1, 2, 3, 4, 5]
    assert all([t.ids for t in done[i]] == [t.ids for t in best[i]] for i in done)
