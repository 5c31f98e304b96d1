"""The queue and the scheduler's thread: nothing is counted twice, and nobody waits forever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

import glassformer as gf
from glassformer.asgi.requests import Refused
from glassformer.generate.job import generate, prepare
from glassformer.serve.queueing import FairQueue
from glassformer.serve.scheduler import Scheduler
from glassformer.serve.work import CallWork, GenerationWork

LATER = 60.0


def call(client: str, texts: int = 1, tokens: int = 2, **options: Any) -> CallWork:
    later = time.monotonic() + LATER
    return CallWork(client, later, "embed", ["x"] * texts, [tokens] * texts, options)


class FlickeringWork(CallWork):
    """Ends while the queue is looked at: every second read of `over` is true."""

    reads = 0

    @property
    def over(self) -> bool:
        self.reads += 1
        return self.reads % 2 == 0


def test_a_request_that_ends_at_any_moment_is_counted_once() -> None:
    async def drop() -> None:
        for texts in (1, 2, 3):
            queue = FairQueue(1_000)
            work = FlickeringWork("c", time.monotonic() + LATER, "embed", ["x"] * 3, [2] * 3, {})
            queue.put(work)
            queue.put(call("other", texts))
            queue.drop()
            assert queue.tokens == 2 * len(queue)
            queue.drop()
            assert (queue.tokens, len(queue)) == (2 * texts, texts)

    asyncio.run(drop())


def test_one_client_may_fill_the_queue_while_nobody_else_waits() -> None:
    async def put() -> None:
        queue = FairQueue(1)
        assert not queue.full("first") and queue.put(call("first", 1, 1))
        queue = FairQueue(100)
        assert queue.put(call("first", 40)) and queue.put(call("first", 5))
        assert queue.put(call("second", 2)) and not queue.put(call("first"))
        assert queue.full("first") and not queue.full("second")

    asyncio.run(put())


def test_requests_of_different_options_do_not_divide_the_batches() -> None:
    async def take() -> None:
        queue = FairQueue(1_000)
        for i in range(10):
            queue.put(call(f"client {i}", 2, normalize=i % 2 == 0))
        sizes = []
        while batch := queue.take("call", 100, 1_000):
            assert len({unit.work.group for unit in batch}) == 1
            sizes.append(len(batch))
        assert sizes == [10, 10] and queue.tokens == 0 and not queue.by_client

    asyncio.run(take())


def job(model: gf.Model, text: str = "A", **options: Any):
    options = {"max_new_tokens": 20, "eos_token_id": [], **options}
    return prepare(model.task, model.tokenizer, model.origin, text, options)


def test_a_mistake_in_a_turn_fails_its_requests_and_no_others(models) -> None:
    model = models["gf-decoder"]

    async def fail() -> None:
        scheduler = Scheduler(model, "gf-decoder")
        deliver, failures = scheduler._deliver, [RuntimeError("secret text")]

        def fail_once(choices: Any) -> None:
            if failures:
                raise failures.pop()
            deliver(choices)

        scheduler._deliver = fail_once
        scheduler.start()
        later = time.monotonic() + LATER
        first = GenerationWork("c", later, job(model), limit=scheduler.context)
        scheduler.submit(first)
        with pytest.raises(Refused, match="failed on this request") as refused:
            await first.result
        assert refused.value.status == 424 and scheduler.is_alive()
        second = GenerationWork("c", later, job(model), limit=scheduler.context)
        scheduler.submit(second)
        assert len((await second.result)[0].ids) == 20
        scheduler.close()
        await asyncio.to_thread(scheduler.join)

    asyncio.run(fail())


def test_sentences_join_and_leave_running_searches(models) -> None:
    model = models["gf-en-ru"]

    async def search() -> None:
        scheduler = Scheduler(model, "gf-en-ru")
        later, limit = time.monotonic() + LATER, scheduler.context
        running = scheduler.searches.running

        def work(text: str, beams: int) -> GenerationWork:
            asked = job(model, text, num_beams=beams, max_new_tokens=60)
            return GenerationWork("c", later, asked, limit=limit)

        async def until(condition: Callable[[], bool]) -> None:
            while not condition():
                await asyncio.sleep(0.001)

        gone, stays, other = work("A cat sat.", 3), work("A dog.", 3), work("A dog.", 2)
        scheduler.submit(gone)
        scheduler.start()
        await until(lambda: len(running) == 1)
        scheduler.submit(stays)
        scheduler.submit(other)  # its settings are its own: it waits for its turn
        await until(lambda: len(running) == 2)
        assert scheduler.busy == 2 and not gone.result.done() and len(scheduler.queue) == 1
        gone.cancelled = True
        await until(lambda: len(running) == 1)
        assert not stays.result.done()
        for each in (stays, other):
            ((text,),) = await each.result
            assert text.ids == generate(each.job)[0].ids
        scheduler.close()
        await asyncio.to_thread(scheduler.join)
        assert not scheduler.busy and scheduler.searches.batch is None

    asyncio.run(search())


def test_a_search_that_fails_harms_no_other(models) -> None:
    model = models["gf-en-ru"]

    async def fail() -> None:
        scheduler = Scheduler(model, "gf-en-ru")
        later, limit = time.monotonic() + LATER, scheduler.context
        options = {"num_beams": 4, "num_return_sequences": 2, "max_new_tokens": 4}
        asks = [job(model, text, **options) for text in ("A cat sat.", "A dog.")]
        works = [GenerationWork("c", later, each, limit=limit) for each in asks]
        alone, failures = scheduler.searches.alone, [RuntimeError("secret text")]
        broken = scheduler.searches.advance

        def advance() -> Any:
            if scheduler.searches.running:
                raise ValueError
            return broken()

        def fail_once(unit: Any) -> Any:
            if failures:
                raise failures.pop()
            return alone(unit)

        scheduler.searches.advance, scheduler.searches.alone = advance, fail_once
        for work in works:
            scheduler.submit(work)
        scheduler.start()
        with pytest.raises(Refused, match="failed on this request"):
            await works[0].result
        (texts,) = await works[1].result
        assert [text.ids for text in texts] == [text.ids for text in generate(works[1].job)]
        scheduler.close()
        await asyncio.to_thread(scheduler.join)

    asyncio.run(fail())


def test_an_event_loop_that_has_ended_harms_nobody() -> None:
    async def make() -> CallWork:
        return call("c")

    work = asyncio.run(make())
    work.complete(work.units[0], 1)
    work.fail(ValueError())
    work.outbox.flush()


def test_a_translation_is_charged_for_its_length(models) -> None:
    """Not for the most that the model could write."""
    model = models["gf-en-ru"]

    async def tokens() -> None:
        beams = job(model, "The cat sat.", num_beams=4, max_new_tokens=model.config.max_length)
        work = GenerationWork("c", time.monotonic() + LATER, beams, limit=4_096)
        source = len(beams.sources[0])
        assert work.tokens <= 1 + source + 4 * (2 * source + 10)
        assert work.units[0].size == 4 * source

    asyncio.run(tokens())
