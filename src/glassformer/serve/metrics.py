"""Counters for Prometheus, under the names that users of TEI (te_*) and vLLM (vllm:*) know."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from glassformer.serve.host import Host
from glassformer.serve.scheduler import Scheduler

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
UPDATE_SECONDS = 1.0  # between two updates of the gauges of a worker
GAUGES: dict[str, tuple[str, Callable[[Scheduler], int]]] = {
    "vllm:num_requests_running": ("Texts in the running batch.", lambda each: each.busy),
    "vllm:num_requests_waiting": ("Texts in the queue.", lambda each: len(each.queue)),
    "te_queue_size": ("Texts in the queue.", lambda each: len(each.queue)),
    "te_queue_tokens": ("Tokens in the queue.", lambda each: each.queue.tokens),
}


class Metrics:
    """Each app has its own, so that two apps in one process count apart.

    The workers of one server count in files of the folder PROMETHEUS_MULTIPROC_DIR, and each of
    them returns the sums.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.shared = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        registry = self.registry = CollectorRegistry()
        self.gauges = {
            name: Gauge(name, text, ("model_name",), registry=registry, multiprocess_mode="livesum")
            for name, (text, _) in GAUGES.items()
        }
        self.names: set[str] = set()  # of models, those that were unloaded included
        labels = ("method", "path", "status")
        self.requests = Counter("te_request_count", "Requests.", labels, registry=registry)
        self.seconds = Histogram(
            "te_request_duration", "Seconds of a request.", ("path",), buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        self.prompt_tokens = Counter(
            "vllm:prompt_tokens", "Tokens of the prompts.", ("model_name",), registry=registry
        )
        self.generated_tokens = Counter(
            "vllm:generation_tokens", "Generated tokens.", ("model_name",), registry=registry
        )
        self.first_token = Histogram(
            "vllm:time_to_first_token_seconds", "Of streamed texts.", ("model_name",),
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self.finished = Counter(
            "vllm:request_success", "Generated texts.", ("model_name", "finished_reason"),
            registry=registry,
        )  # fmt: skip

    def text(self) -> bytes:
        self._update()
        registry = self.registry
        if self.shared:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        return generate_latest(registry)

    async def keep_current(self) -> None:
        """The gauges of this worker, for the others: only it can read its queues."""
        while self.shared:
            self._update()
            await asyncio.sleep(UPDATE_SECONDS)

    def _update(self) -> None:
        models = dict(self.host.models)
        self.names |= models.keys()
        for gauge, (_, read) in zip(self.gauges.values(), GAUGES.values(), strict=True):
            for name in self.names:
                value = read(models[name].scheduler) if name in models else 0
                gauge.labels(name).set(value)
