"""What is counted, for Prometheus. No label names a stream: there may be a million of them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from larc.service.store.results import Outcome

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The counters of one process.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.outcome(Outcome(1, "label", "a", "applied"))
    >>> b'larc_events_total{kind="label",result="applied"} 1.0' in metrics.text()
    True
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "larc_requests",
            "Requests by route and status.",
            ["route", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            "larc_request_seconds",
            "How long requests took, by route.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.events = Counter(
            "larc_events",
            "Events that took effect or were refused.",
            ["kind", "result"],
            registry=registry,
        )
        self.taken = Counter(
            "larc_taken",
            "Events that were taken in, by what they were.",
            ["kind", "as"],
            registry=registry,
        )
        self.batch = Histogram(
            "larc_batch_size",
            "Streams in one round of the model.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            registry=registry,
        )
        self.compute = Histogram(
            "larc_round_seconds", "How long rounds took.", buckets=_SECONDS, registry=registry
        )
        self.waiting = Gauge(
            "larc_streams_waiting", "Streams with something to do.", registry=registry
        )
        self.live = Gauge("larc_streams_live", "Streams in memory.", registry=registry)
        self.fenced = Counter(
            "larc_epoch_conflicts",
            "Commits refused since somebody else had taken over.",
            registry=registry,
        )
        self.stuck = Counter(
            "larc_streams_stuck",
            "Rounds in which a stream's state could not be read.",
            registry=registry,
        )

        self.webhooks = Counter(
            "larc_webhooks",
            "Deliveries of GitHub, by event and whether they were new.",
            ["event", "as"],
            registry=registry,
        )

    def outcome(self, outcome: Outcome) -> None:
        """Count an event that took effect, or was refused."""
        self.events.labels(outcome.kind, outcome.status).inc()

    def round(self, size: int, seconds: float) -> None:
        """Count a round."""
        self.batch.observe(size)
        self.compute.observe(seconds)

    def text(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self.registry)
