"""A worker's measurements of itself, for Prometheus.

After a crash, counters count records that are folded again. Gauges show the last status of the housekeeping.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

FOLD_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
PUBLISH_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
EFFECTS = {
    "counted": "counted",
    "duplicates": "duplicates",
    "superseded": "superseded",
    "ignored": "ignored",
    "quarantined_events": "held",
}


@dataclass(frozen=True, slots=True)
class WorkerMoment:
    at: float
    heartbeat: Mapping[str, Any]
    ready: bool
    redis_away: bool
    unrecovered: int = 0


class Metrics(Collector):
    """The metrics of one worker; written in the event loop, read in the thread that answers."""

    def __init__(self, partitions: int) -> None:
        self.registry = CollectorRegistry()
        self.status: WorkerMoment | None = None
        self._partitions = partitions
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.events = counter("streamer_events", "Records folded, by what they did.", ["effect"])
        self.rejections = counter("streamer_rejections", "Records rejected.")
        self.missing_times = counter(
            "streamer_missing_times", "Times without a zone, or outside 2000 to 2199: they count as missing."
        )
        self.forwarded = counter("streamer_forwarded", "Records that lay in a wrong partition.")
        self.fold = histogram("streamer_fold_seconds", "Folding one batch.", buckets=FOLD_SECONDS)
        what = "Publishing what changed, to Kafka and Redis."
        self.publish = histogram("streamer_publish_seconds", what, buckets=PUBLISH_SECONDS)
        for effect in EFFECTS.values():
            self.events.labels(effect)
        ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("streamer_partitions", "Partitions of the topic.", self._partitions)
        status = self.status
        if status is None:
            return
        heartbeat = status.heartbeat
        lag = GaugeMetricFamily("streamer_partition_lag_events", "Events not folded.", labels=["partition"])
        for number, events in heartbeat["lag"].items():
            lag.add_metric([number], events)
        yield lag
        catching_up = GaugeMetricFamily(
            "streamer_partition_catching_up", "1: recovering; nothing is published.", labels=["partition"]
        )
        for number in heartbeat["partitions"]:
            catching_up.add_metric([str(number)], number in heartbeat["catching_up"])
        yield catching_up
        quarantined, finite = heartbeat["quarantined_runs"], heartbeat["retention"] is not None
        moved, waits = len(heartbeat["offsets_moved"]), heartbeat["waits"] is not None
        outdated, refused = len(heartbeat["outdated"]), heartbeat["refused"]
        yield CounterMetricFamily(
            "streamer_redis_refused_values", "Values that Redis refused for newer ones.", refused
        )
        for name, text, value in (
            ("recovery_remaining_records", "Changelog records left to read.", status.unrecovered),
            ("redis_unsent_keys", "Keys that Redis lacks.", heartbeat["unsent"]),
            ("redis_outdated_runs", "Runs of which Redis refuses values for newer ones.", outdated),
            ("redis_away", "1: Redis takes no writes.", status.redis_away),
            ("log_lost_events", "Offsets deleted before they were folded.", heartbeat["events_lost"]),
            ("offsets_moved", "Partitions whose committed offset somebody else moved forward.", moved),
            ("log_retention_finite", "1: the event topic loses events.", finite),
            ("open_runs", "Runs in memory.", heartbeat["open_runs"]),
            ("closed_runs", "Runs that left memory.", heartbeat["closed_runs"]),
            ("quarantined_runs", "Runs set apart; their newer events are not counted.", quarantined),
            ("waits_for_configuration", "1: its prices, profiles or formulas are not the group's.", waits),
            ("ready", "1: as /readyz says.", status.ready),
            ("look_age_seconds", "Since the worker last looked at itself.", time.monotonic() - status.at),
        ):
            yield GaugeMetricFamily(f"streamer_{name}", text, value)


# -----------------------------------------------------------------------------
# `/healthz`, `/readyz` and `/metrics` of a worker, answered by a separate thread.


STUCK_SECONDS = 30.0
"""A worker updates its status twice a second. After this long without an update, it hangs."""

ProbeAnswer = tuple[str, str]


class AddressUnusable(Exception):
    def __init__(self, address: str, error: Exception) -> None:
        super().__init__(
            f"cannot answer probes at {address}: {error}. Stop the program using this address, or set "
            "STREAMER_METRICS_ADDRESS to another HOST:PORT on this machine"
        )


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Log nothing, because probes come every few seconds."""


@contextmanager
def serve_probes(metrics: Metrics, address: str | None) -> Iterator[None]:
    """Answer at HOST:PORT during the block; raises AddressUnusable. Does nothing without an address."""
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    try:
        server = make_server(host.strip("[]"), int(port), application(metrics), ThreadingWSGIServer, _Quiet)
    except (OSError, OverflowError) as error:
        raise AddressUnusable(address, error) from error
    thread = threading.Thread(target=server.serve_forever, name="probes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def application(metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> Any:
    """The WSGI application: 200 if all is well, else 503 with a sentence."""
    answer_metrics = make_wsgi_app(metrics.registry)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            result: Iterable[bytes] = answer_metrics(environ, start_response)
            return result
        told = {"/healthz": healthy, "/readyz": ready}.get(path)
        if told is None:
            status, text = "404 Not Found", "Ask for /healthz, /readyz or /metrics"
        else:
            status, text = told(metrics, clock())
        body = f"{text}\n".encode()
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [body]

    return answer


def healthy(metrics: Metrics, now: float) -> ProbeAnswer:
    """Whether the worker runs at all; if not, it must be restarted."""
    status = metrics.status
    if status is not None and now - status.at > STUCK_SECONDS:
        return "503 Service Unavailable", f"stuck: no self-check for {now - status.at:.0f} s"
    return "200 OK", "alive"


def ready(metrics: Metrics, now: float) -> ProbeAnswer:
    """Whether published values are current: the worker owns partitions and has caught up with all."""
    status = metrics.status
    if status is None or not status.ready or now - status.at > STUCK_SECONDS:
        return "503 Service Unavailable", f"not ready: {_why_not_ready(status)}"
    if runs := status.heartbeat["quarantined_runs"]:
        return "200 OK", f"ready, but {runs} runs are in quarantine: `streamer status` names them"
    return "200 OK", "ready"


def _why_not_ready(status: WorkerMoment | None) -> str:
    heartbeat = status.heartbeat if status else {"partitions": [], "catching_up": [], "waits": None}
    owned, behind = heartbeat["partitions"], heartbeat["catching_up"]
    return heartbeat["waits"] or f"owns partitions {owned}, catching up on {behind}"
