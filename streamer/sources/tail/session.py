"""One `streamer tail` from start to end, its check for lag, and the difficulty of tasks in another run."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import orjson

from streamer.client.capture import InvalidEvent, NotAccepted
from streamer.client.feeds import scored_trials
from streamer.client.publisher import TrialPublisher, only_logged
from streamer.client.queries import ReaderError
from streamer.client.readers import StateReader
from streamer.operate.health import PartitionLag, live_workers, read_lags
from streamer.schemas.base import BASELINE_LABELS, encode_id
from streamer.settings import Settings
from streamer.sources.base import ConvertOptions
from streamer.sources.files import MAX_FILE_BYTES, is_plain, objects, part, text, time_of
from streamer.sources.harbor import CONFIG, ID, LOCK, RESULT, SERVED
from streamer.sources.tail import EventFields, LedgerFile, ledger_path
from streamer.sources.tail.follow import Follower, FollowStatus
from streamer.storage.kafka import KafkaError, TopicMissing
from streamer.text import counted

# -----------------------------------------------------------------------------
# Whether a worker processes the published events.


IDLE_SECONDS = 10.0
"""How long events may wait without a worker before the user gets a message."""

LOOK_SECONDS = 2.0


@dataclass(slots=True)
class LagState:
    """Reports when no worker takes the waiting events, and when one takes them again.

    >>> watch = LagState()
    >>> waiting = [PartitionLag(0, beginning=0, end=3, committed=None)]
    >>> [watch.look(waiting, workers, at) for workers, at in ((0, 0.0), (0, 9.0), (0, 10.0), (0, 20.0))]
    [None, None, 'no worker is running: 3 events wait in the log. Start one: streamer worker', None]
    >>> watch.look([PartitionLag(0, beginning=0, end=3, committed=3)], 1, 21.0)
    'a worker reads events again'
    >>> LagState(0, 0.0).look(waiting, None, 10.0)
    'no worker has taken any of the 3 events that wait in the log for 10 s: see streamer status'
    """

    done: int = -1
    since: float = 0.0
    told: bool = False

    def look(self, lags: list[PartitionLag], workers: int | None, now: float) -> str | None:
        """The message to show now, if any; `now` is in monotonic seconds. None: the workers are unknown."""
        waiting = sum(partition.lag for partition in lags)
        done = sum(partition.committed or 0 for partition in lags)
        if done != self.done or not waiting:
            resumed = self.told
            self.done, self.since, self.told = done, now, False
            return "a worker reads events again" if resumed else None
        if self.told or now - self.since < IDLE_SECONDS:
            return None
        self.told = True
        if workers == 0:
            events = counted(waiting, "event waits", "events wait")
            return f"no worker is running: {events} in the log. Start one: streamer worker"
        running = f", though {counted(workers, 'worker runs', 'workers run')}" if workers else ""
        return (
            f"no worker has taken any of the {waiting:,} events that wait in the log for "
            f"{IDLE_SECONDS:.0f} s{running}: see streamer status"
        )


class LagWatch:
    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="consumption", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread without waiting for a check that hangs on a server."""
        self._stop.set()

    def _watch(self) -> None:
        consumption = LagState()
        while not self._stop.wait(LOOK_SECONDS):
            try:
                lags = asyncio.run(read_lags(self._settings))
            except (KafkaError, TopicMissing, OSError, TimeoutError):
                continue
            line = consumption.look(lags, self._workers(), time.monotonic())
            if line and not self._stop.is_set():
                self._say(line)

    def _workers(self) -> int | None:
        try:
            with StateReader(self._settings) as reader:
                return len(live_workers(reader))
        except ReaderError:
            return None


# -----------------------------------------------------------------------------
# The jobs of a Harbor server, copied from its HTTP interface into the layout of its data directory.
#
# `harbor run --server` takes no plug-ins. So if the server's data directory is on another machine, its
# answers are saved as files, which are followed like any others. Results, plans and trajectories are copied.


POLL_SECONDS = 2.0
REQUEST_SECONDS = 30.0
KEY = "HARBOR_API_KEY"
"""The environment variable with the server's key, as for Harbor's own client."""

_TRAJECTORY = re.compile(r"(steps/[^/]+/)?agent/trajectory[^/]*\.json")
_NOT_BEGUN = ("queued", "paused")
_OVER = ("finished", "cancelled")


class ServerError(Exception):
    """A Harbor server that does not answer, or answers in an unexpected way."""


class _NoRedirect(HTTPRedirectHandler):
    """No redirects: they would send the key to another server."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse the redirect."""


class ServerCopy:
    """A copy of a Harbor server's jobs. Raises ServerError if the key would travel unencrypted."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address.rstrip("/")
        self._files = folder / "files"
        self._key = os.environ.get(KEY)
        self._seen: dict[str, Any] = {}
        where = urlsplit(address)
        is_here = where.hostname in ("localhost", "127.0.0.1", "::1")
        # A proxy would get the key unencrypted.
        self._open = build_opener(_NoRedirect, *([ProxyHandler({})] if is_here else [])).open
        if self._key and where.scheme != "https" and not is_here:
            raise ServerError(f"{address}: {KEY} is not sent without encryption. Use https, or unset {KEY}")

    def update(self) -> None:
        """Copy what changed since the last call. Raises ServerError, or OSError for the copy."""
        for job in self._pages("/jobs?sort=created_at"):
            if ID.fullmatch(str(job.get("id"))) and self._is_new(job):
                self._copy_job(job)
                for rollout in self._pages(f"/rollouts?job_ids={job['id']}"):
                    is_begun = rollout.get("state") not in _NOT_BEGUN
                    if ID.fullmatch(str(rollout.get("id"))) and is_begun and self._is_new(rollout):
                        self._copy_trial(self._object(f"/rollouts/{rollout['id']}", "rollout"))
                        self._seen[rollout["id"]] = rollout
                if job.get("state") in _OVER:
                    self._seen[job["id"]] = job

    def _is_new(self, item: Mapping[str, Any]) -> bool:
        return bool(self._seen.get(str(item["id"])) != item)

    def _copy_job(self, job: Mapping[str, Any]) -> None:
        home = self._files / "jobs" / job["id"]
        if not (home / LOCK).exists():
            uri = self._object(f"/jobs/{job['id']}", "job").get("lock_uri")
            if isinstance(uri, str):  # there may be none yet
                _write(home / LOCK, self._download(uri))
        said = {name: job.get(name) for name in ("id", "name", "state", "finished_at")}
        _write(home / SERVED, orjson.dumps({"job": said}))

    def _copy_trial(self, rollout: Mapping[str, Any]) -> None:
        name, result = str(rollout.get("name")), part(rollout, "result")
        if not is_plain(name):
            return
        home = self._files / "rollouts" / str(rollout["id"]) / name
        config = part(result, "config") or {"trial_name": name, "job_id": rollout.get("job_id")}
        _write(home / LOCK, orjson.dumps(part(rollout, "lock")))
        _write(home / CONFIG, orjson.dumps(config))
        if begun := time_of(rollout.get("started_at")):
            os.utime(home / CONFIG, (begun.timestamp(), begun.timestamp()))
        if rollout.get("state") not in _OVER or not result:
            return
        for place, uri in part(rollout, "artifacts").items():
            if _TRAJECTORY.fullmatch(place) and ".." not in place:
                _write(home / place, self._download(str(uri)))
        _write(home / RESULT, json.dumps(result).encode())

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            mark = "&" if "?" in path else "?"
            page = self._json(f"{path}{mark}page_size=100&page_token={quote(token, safe='')}")
            yield from objects(page, "items")
            token = text(page.get("next_page_token")) or ""
            if not token:
                return

    def _object(self, path: str, name: str) -> dict[str, Any]:
        return part(self._json(path), name)

    def _download(self, uri: str) -> bytes:
        return self._get(f"/download?uri={quote(uri, safe='')}")

    def _json(self, path: str) -> dict[str, Any]:
        try:
            answer = json.loads(self._get(path))
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ServerError(f"{self._address}{path}: not a JSON object. Is this a Harbor server?")
        return answer

    def _get(self, path: str) -> bytes:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            request = Request(self._address + path, headers=headers)  # noqa: S310  (http or https: _Place)
            with self._open(request, timeout=REQUEST_SECONDS) as answer:
                content: bytes = answer.read(MAX_FILE_BYTES + 1)
        except HTTPError as error:
            hint = f". Set {KEY} to its key" if error.code in (401, 403) else ""
            raise ServerError(f"{self._address}{path}: HTTP status {error.code}{hint}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise ServerError(f"{self._address}: no Harbor server answers ({error})") from error
        if len(content) > MAX_FILE_BYTES:
            raise ServerError(f"{self._address}{path}: the answer is larger than {MAX_FILE_BYTES:,} bytes")
        return content


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = file.with_name(f".{file.name}.new")
    partial.write_bytes(content)
    partial.replace(file)


@contextmanager
def directory_of(
    place: Path | str, settings: Settings, stop: threading.Event, say: Callable[[str], None]
) -> Iterator[Path]:
    """The directory to follow: `place` itself, or a copy of the server at that address, which must answer
    once.
    """
    if isinstance(place, Path):
        yield place
        return
    folder = settings.data_root / "harbor" / encode_id(place)
    copy = ServerCopy(place, folder)
    copy.update()
    over = threading.Event()

    def keep() -> None:
        before = ""
        while not (over.wait(POLL_SECONDS) or stop.is_set()):
            try:
                copy.update()
                problem = ""
            except (ServerError, OSError) as error:
                problem = str(error)
            if problem != before:
                say(problem or f"{place} answers again")
            before = problem

    thread = threading.Thread(target=keep, name="harbor-server", daemon=True)
    thread.start()
    try:
        yield folder
    finally:
        over.set()


# -----------------------------------------------------------------------------
# One `streamer tail`: directory, journal and publisher together.


WAIT_SECONDS = 0.1
CLOSE_SECONDS = 8.0
"""How long the end waits for the broker; SIGKILL usually follows ten seconds after SIGTERM."""

ONCE_SECONDS = 30.0
"""How long the end of `--once` waits for the broker."""


@dataclass(frozen=True, slots=True)
class TailResult:
    """The outcome of a `tail`. `pending` counts unacknowledged events, which the next publisher sends."""

    status: FollowStatus
    pending: int


def tail(
    settings: Settings,
    place: Path | str,
    options: ConvertOptions,
    stop: threading.Event,
    say: Callable[[str], None],
    tick: Callable[[FollowStatus], None],
    *,
    once: bool = False,
    keep_deleted: bool = False,
) -> TailResult:
    """Publish a directory's events, and follow it until `stop` is set; with `once`, until everything is read.

    The directory need not exist yet. `say` is called from any thread, `tick` several times a second.

    Raises:
        AlreadyFollowed: another process follows the directory.
        ServerError: no Harbor server answers at the address.
        EventsLost: neither the broker nor the disk accepts events.
    """
    with (
        directory_of(place, settings, stop, say) as root,
        _told(say),
        LedgerFile(ledger_path(settings, root, options.run_id), root, options.run_id) as journal,
        TrialPublisher(settings, close_seconds=CLOSE_SECONDS, on_invalid=only_logged) as publisher,
    ):
        ledger = journal.load()
        if journal.problem:
            say(journal.problem)

        def publish(events: list[EventFields]) -> None:
            for event in events:
                try:
                    _hand_over(publisher, event, stop)
                except InvalidEvent as error:
                    say(f"not published: {error}")

        follower = Follower(root, options, ledger, publish, journal.append, say, keep_deleted=keep_deleted)
        watch = LagWatch(settings, say)
        watch.start()
        try:
            work = follower.run_once if once else follower.follow
            work(stop, lambda: tick(follower.status))
            end = time.monotonic() + ONCE_SECONDS
            while once and not stop.is_set() and time.monotonic() < end:
                if publisher.flush(WAIT_SECONDS):
                    break
        finally:
            watch.stop()
        return TailResult(follower.status, publisher.close().pending)


def _hand_over(publisher: TrialPublisher, event: EventFields, stop: threading.Event) -> None:
    while True:
        try:
            publisher.publish(event)
        except NotAccepted:
            if stop.is_set():
                raise
            time.sleep(WAIT_SECONDS)
        else:
            return


class _Saying(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage())


@contextmanager
def _told(say: Callable[[str], None]) -> Iterator[None]:
    log, handler = logging.getLogger("streamer.client"), _Saying(say)
    propagate, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate


# -----------------------------------------------------------------------------
# The difficulty of tasks, by the results of another run (inference 5).


def difficulties(settings: Settings, run_id: str) -> dict[str, float]:
    return shares_of_failures(map(orjson.loads, scored_trials(settings, run_id)))


def shares_of_failures(trials: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Share of failed trials by task, 0 to 1, over all agents except baselines, of those with a verdict.

    >>> trials = [("a", True), ("a", False), ("b", False), ("b", None), ("c", None)]
    >>> shares_of_failures({"task_id": task, "agent": "x", "success": passed} for task, passed in trials)
    {'a': 0.5, 'b': 1.0}
    """
    tried, failed = Counter[str](), Counter[str]()
    for trial in trials:
        if trial["agent"] not in BASELINE_LABELS and trial["success"] is not None:
            tried[trial["task_id"]] += 1
            failed[trial["task_id"]] += not trial["success"]
    return {task: failed[task] / count for task, count in sorted(tried.items())}
