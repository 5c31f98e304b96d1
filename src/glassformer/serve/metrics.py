"""Counters for Prometheus, under the names that users of TEI (te_*) and vLLM (vllm:*) know."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from glassformer.serve.host import Host

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
GAUGES = {
    "vllm:num_requests_running": "Texts in the running batch.",
    "vllm:num_requests_waiting": "Texts in the queue.",
    "te_queue_size": "Texts in the queue.",
    "te_queue_tokens": "Tokens in the queue.",
}


class ModelGauges(Collector):
    """What the schedulers hold now, read when Prometheus asks."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def collect(self) -> Iterator[Metric]:
        for name, text in GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=["model_name"])
            for hosted in self.host.models.values():
                queue, running = hosted.scheduler.queue, len(hosted.scheduler.running)
                waiting = queue.tokens if name == "te_queue_tokens" else len(queue)
                gauge.add_metric([hosted.name], running if "running" in name else waiting)
            yield gauge


class Metrics:
    """Each app has its own, so that two apps in one process count apart."""

    def __init__(self, host: Host) -> None:
        registry = self.registry = CollectorRegistry()
        registry.register(ModelGauges(host))
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
        return generate_latest(self.registry)
