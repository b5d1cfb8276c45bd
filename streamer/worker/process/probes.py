"""`/healthz`, `/readyz` and `/metrics` of a worker, answered by a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from streamer.worker.process.metrics import Metrics, WorkerMoment

STUCK_SECONDS = 30.0
"""A worker looks at itself twice a second. One that has not for so long hangs."""

ProbeAnswer = tuple[str, str]


class AddressUnusable(Exception):
    """The worker cannot listen where the settings say."""

    def __init__(self, address: str, error: Exception) -> None:
        super().__init__(
            f"cannot answer probes at {address}: {error}. End the program that has this address, or set "
            "STREAMER_METRICS_ADDRESS to another HOST:PORT of this machine"
        )


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Probes come every few seconds."""


@contextmanager
def serve_probes(metrics: Metrics, address: str | None) -> Iterator[None]:
    """Answer while the block runs; nothing if there is no address.

    Args:
        metrics: of the worker.
        address: HOST:PORT.

    Raises:
        AddressUnusable: the address is taken, or none of this machine.
    """
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
    """The WSGI application; 200 where all is well, 503 where not, with a sentence."""
    answer_metrics = make_wsgi_app(metrics.registry)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            found: Iterable[bytes] = answer_metrics(environ, start_response)
            return found
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
    """Whether the worker runs at all; one that does not is to be started again."""
    status = metrics.status
    if status is not None and now - status.at > STUCK_SECONDS:
        return "503 Service Unavailable", f"stuck: has not looked at itself for {now - status.at:.0f} s"
    return "200 OK", "alive"


def ready(metrics: Metrics, now: float) -> ProbeAnswer:
    """Whether what it publishes is current: it owns partitions and has caught up with all of them."""
    status = metrics.status
    if status is None or not status.ready or now - status.at > STUCK_SECONDS:
        return "503 Service Unavailable", f"not ready: {_why_not_ready(status)}"
    if runs := status.heartbeat["quarantined_runs"]:
        return "200 OK", f"ready, but {runs} runs are in quarantine: `streamer status` names them"
    return "200 OK", "ready"


def _why_not_ready(status: WorkerMoment | None) -> str:
    heartbeat = status.heartbeat if status else {"partitions": [], "catching_up": [], "waits": None}
    owned, behind = heartbeat["partitions"], heartbeat["catching_up"]
    return heartbeat["waits"] or f"owns partitions {owned}, catches up with {behind}"
