"""Keys of Redis, the entries under them, and the script calls that write and read a run.

>>> keys = Keys()
>>> keys.agent_model("run/1", "pkg:Agent", "openai/gpt-5")
'streamer:{run%2F1}:agent_model:pkg%3AAgent:openai%2Fgpt-5'
>>> Keys("team-a").runs
'team-a:streamer:runs'
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from importlib.resources import files
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import orjson

from streamer.schemas.base import COMPARISON, GroupId, encode_id
from streamer.schemas.events import BOARD_METRICS, board_values, planned_means
from streamer.schemas.wire import Version, is_older

if TYPE_CHECKING:
    from streamer.folding.slots import InFlightChange, RunUpdate, SummaryChange, TasksChange


class _RunKey:
    def __init__(self, suffix: str) -> None:
        self._suffix = suffix

    def __get__(self, keys: Keys, _: type) -> Callable[[str], str]:
        return partial(keys.of_run, suffix=self._suffix)


class _SharedKey:
    def __init__(self, suffix: str) -> None:
        self._suffix = suffix

    def __get__(self, keys: Keys, _: type) -> str:
        return f"{keys._root}:{self._suffix}"


@dataclass(frozen=True, slots=True)
class Keys:
    """All keys of one namespace ("" is the default): `NAMESPACE:streamer:...`.

    Namespaces have no colon, so they never share a key. The hash tag `{RUN}` puts all keys of a run in one
    cluster slot. Ids are percent-encoded (`streamer.schemas.base.encode_id`).
    """

    namespace: str = ""

    @property
    def _root(self) -> str:
        return f"{self.namespace}:streamer" if self.namespace else "streamer"

    # Keys of one run

    def of_run(self, run_id: str, suffix: str) -> str:
        """Key of a run with this suffix, such as `run`, `tier:T0` or `versions`."""
        return f"{self._root}:{{{encode_id(run_id)}}}:{suffix}"

    run = _RunKey("run")

    def agent_model(self, run_id: str, agent: str, model: str) -> str:
        return self.of_run(run_id, GroupId(None, agent, model).redis_suffix)

    def tier(self, run_id: str, tier: str) -> str:
        return self.of_run(run_id, GroupId(tier).redis_suffix)

    def tier_agent_model(self, run_id: str, tier: str, agent: str, model: str) -> str:
        return self.of_run(run_id, GroupId(tier, agent, model).redis_suffix)

    def board(self, run_id: str, metric: str) -> str:
        """Sorted set: `AGENT:MODEL` by the metric, in the run."""
        return self.of_run(run_id, f"board:{metric}")

    named_boards = _RunKey("named_boards")
    """Set: `metrics/NAME` of every named metric that has had a board in the run."""

    agent_models = _RunKey("agent_models")

    tiers = _RunKey("tiers")

    def tier_agent_models(self, run_id: str, tier: str) -> str:
        return self.of_run(run_id, f"{GroupId(tier).redis_suffix}:agent_models")

    in_flight = _RunKey("in_flight")
    """Hash: JSON of each trial in flight by its slot, spelled as in the topic `scored-trials`."""

    comparisons = _RunKey(COMPARISON.redis_suffix)
    """String: the comparison of every two agents of the run, and their ranks."""

    tasks = _RunKey("tasks")
    """Hash: JSON of {agent:model: [known, passed, unknown]} by `TASK` or `TIER|SUBTEST|TASK`."""

    history = _RunKey("history")
    """Stream: one entry per update, capped."""

    versions = _RunKey("versions")
    """Hash: `epoch:state_version` by key suffix, which guards against older writers."""

    writer = _RunKey("writer")
    """String: mark of the last write, by which a worker detects writes by others."""

    notices = _RunKey("notices")

    # Keys across runs

    runs = _SharedKey("runs")
    """Sorted set: `RUN` by last event time, Unix seconds."""

    def benchmark_board(self, benchmark: str, metric: str) -> str:
        """Sorted set: `RUN|AGENT:MODEL` by the metric, over all runs of a benchmark."""
        return f"{self._root}:board:{encode_id(benchmark)}:{metric}"

    def benchmark_named_boards(self, benchmark: str) -> str:
        """Set: `metrics/NAME` of every named metric that has had a board on the benchmark."""
        return f"{self._root}:named_boards:{encode_id(benchmark)}"

    updates = _SharedKey("updates")
    """Pub/sub channel: one message per update."""

    all_notices = _SharedKey("notices")
    """Hash: the notices of `streamer notify` that do not belong to a single run."""

    workers = _SharedKey("workers")
    """Hash: last heartbeat by worker id; its `at` is the time of Redis."""

    log = _SharedKey("log")
    """String: name of the log that this state was folded from, as in the topic `streamer-meta`."""

    stack_problem = _SharedKey("stack_problem")
    """String: the reason why `streamer up` accepts no events at present."""


# -----------------------------------------------------------------------------
# One key of one run, on its way to Redis.


RUN_SUFFIX = "run"
IN_FLIGHT = "in_flight"
TASKS = "tasks"
HASHES = (IN_FLIGHT, TASKS)
"""Suffixes of hashes; the Lua scripts list them, too."""
COMPARISONS = COMPARISON.redis_suffix
DELETED = "deleted"
"""Field of a run's versions for the deletion of the run; write_run.lua uses it, too."""

RUN_HEADLINE = {
    "trials": ("trials",),
    "accuracy": ("accuracy",),
    "total_cost": ("total_cost",),
    "provisional": ("provisional",),
    "done": ("progress", "done"),
    "planned": ("progress", "planned"),
}
GROUP_HEADLINE = {
    "trials": ("trials",),
    "accuracy": ("accuracy",),
    "pass_rate": ("statistics", "pass_rate", "mean"),
    "composite_score": ("statistics", "composite_score", "median"),
    "grade": ("grade",),
    "total_cost": ("total_cost",),
    "cost_of_pass": ("cost_of_pass",),
    "mean_speedup": ("formulacode", "mean_speedup"),
    "agent_advantage": ("formulacode", "agent_advantage"),
    "provisional": ("provisional",),
}


@dataclass(frozen=True, slots=True)
class KeyState:
    """The value that a key should hold, from a version on; None is a tombstone.

    `suffix` is within the run: `run`, `agent_model:A:M`, `tier:T`, `tier:T:A:M`, `comparisons`, `in_flight`,
    `tasks`. The `value` of a hash is the JSON list of its fields and values.
    """

    run_id: str
    suffix: str
    version: Version
    value: bytes | None
    summary: Mapping[str, Any] | None
    notify: bool

    @property
    def kind(self) -> str:
        return self.suffix.partition(":")[0]

    @property
    def group(self) -> str:
        """The suffix after its kind: `A:M`, `T`, `T:A:M`, "" for the run."""
        return self.suffix.partition(":")[2]

    def script_arguments(self, keys: Keys) -> tuple[str, bytes, bytes]:
        plan: dict[str, Any] = {
            "version": version_text(self.version),
            "deleted": self.value is None,
            "board": self.board(),
        }
        if self.notify:
            plan["history"] = self.history_fields()
            plan["update"] = self._update(keys)
        return self.suffix, orjson.dumps(plan), self.value or b""

    def board(self) -> dict[str, str | bool]:
        """Score by METRIC as Redis reads it, False if not on the board; empty except for agent:models."""
        if self.kind != "agent_model" or self.summary is None:
            return {}
        values = board_values(self.summary).items()
        return {metric: False if value is None else repr(value) for metric, value in values}

    def history_fields(self) -> list[str]:
        """Fields and values of the history entry; unknown numbers are left out."""
        fields: dict[str, Any] = {"kind": self.kind, "group": self.group}
        fields |= {"epoch": self.version[0], "state_version": self.version[1]}
        if self.summary is None:
            fields["deleted"] = True
        else:
            fields["last_event_at"] = self.summary["last_event_at"]
            headline = RUN_HEADLINE if self.kind == RUN_SUFFIX else GROUP_HEADLINE
            fields |= {name: _at(self.summary, path) for name, path in headline.items()}
            if self.kind != RUN_SUFFIX:
                fields |= planned_means(self.summary)
        texts = {name: _text(value) for name, value in fields.items() if value is not None}
        return [part for pair in texts.items() for part in pair]

    def _update(self, keys: Keys) -> str:
        message = {
            "run": self.run_id,
            "kind": self.kind,
            "group": self.group,
            "key": keys.of_run(self.run_id, self.suffix),
            "deleted": self.value is None,
            "epoch": self.version[0],
            "state_version": self.version[1],
        }
        return orjson.dumps(message).decode()


def entries_of(update: RunUpdate, *, notify: bool) -> list[KeyState]:
    """The Redis entries of an update, hashes first. Hashes and the comparison are never announced."""
    hashes = []
    if update.in_flight is not None:
        fields = {slot: trial.decode() for slot, trial in update.in_flight.trials.items()}
        hashes.append(_hash(IN_FLIGHT, update.in_flight, fields))
    if update.tasks is not None:
        hashes.append(_hash(TASKS, update.tasks, update.tasks.fields))
    told = ((change, notify and change.group != COMPARISON) for change in update.summaries)
    return [*hashes, *(entry_of(change, notify=is_told) for change, is_told in told)]


def _hash(suffix: str, change: InFlightChange | TasksChange, fields: Mapping[str, str]) -> KeyState:
    return KeyState(
        run_id=change.run_id,
        suffix=suffix,
        version=(change.epoch, change.state_version),
        value=orjson.dumps([part for field in fields.items() for part in field]) if fields else None,
        summary=None,
        notify=False,
    )


def entry_of(change: SummaryChange, *, notify: bool) -> KeyState:
    return KeyState(
        run_id=change.run_id,
        suffix=change.group.redis_suffix,
        version=(change.epoch, change.state_version),
        value=change.value,
        summary=change.summary,
        notify=notify,
    )


def last_event_seconds(summary: Mapping[str, Any]) -> float:
    at = summary["last_event_at"]
    return datetime.fromisoformat(at).timestamp() if at else 0.0


def version_text(version: Version) -> str:
    return f"{version[0]}:{version[1]}"


def as_text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


def parse_version(text: bytes) -> Version:
    epoch, _, state_version = text.partition(b":")
    return int(epoch), int(state_version)


def _at(summary: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = summary
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


# -----------------------------------------------------------------------------
# The runs that Redis lacks in part, and the content of the next write of each.
#
# Changes alone would corrupt a run that Redis has lost, or has from another worker: some keys would be new,
# others old or missing. So each write leaves a mark, and Redis accepts changes only after the mark that they
# follow. If it refuses, the run is sent whole. Either way all keys of the run change in one step.


class RunOwner(Protocol):
    def run_ids(self) -> Iterable[str]:
        """Every owned run; it may be iterated lazily while runs come and go."""

    def current(self, run_id: str) -> RunUpdate:
        """The whole run as published, from one moment; without summaries if it is not owned."""


@dataclass(frozen=True, slots=True)
class Write:
    """One call of the script; Redis must hold the mark `follows` ("": any), and then holds `mark`.

    Only `news`, some of the entries, add history and announcements. A `whole` write removes the run's keys
    that `entries` lacks. `corrects`: the keys across runs may be wrong, too.
    """

    run_id: str
    entries: Sequence[KeyState]
    news: Sequence[KeyState]
    follows: str = ""
    mark: str = ""
    whole: bool = False
    corrects: bool = False

    @property
    def size(self) -> int:
        """Bytes of the script and the values."""
        return len(SCRIPT) + sum(len(entry.value or b"") for entry in self.entries)


class Backlog:
    """The waiting runs, each with its news: the latest entry of each key that changed.

    A run whose mark is known lacks only its news in Redis. A run in doubt, or one never written before, is
    sent whole. At most `limit` news are kept; then the oldest run loses its news and is in doubt. Without an
    owner, the backlog keeps all news and sends nothing whole.
    """

    def __init__(self, owner: RunOwner | None, limit: int) -> None:
        self.owner = owner
        self._limit = limit
        self._name = uuid.uuid4().hex[:12]
        self._numbers = count(1)
        self._marks: dict[str, str] = {}  # "": in doubt
        self._doubted_since: set[str] = set()  # since their last write was made
        self._news: dict[str, dict[str, KeyState]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Number of news."""
        return self._count

    def runs(self) -> list[str]:
        return list(self._news)

    def in_order(self, runs: Iterable[str]) -> list[str]:
        """The waiting ones of these runs: few news first, so that huge runs delay no others, then those in
        doubt without news.
        """
        return sorted(
            filter(self._news.__contains__, runs), key=lambda run_id: len(self._news[run_id]) or inf
        )

    def put(self, entry: KeyState) -> None:
        """Keep an entry unless there is a newer one of its key; an announcement stays one."""
        if self.owner is not None and self._count >= self._limit:
            self._make_room()
        news = self._news.setdefault(entry.run_id, {})
        other = news.get(entry.suffix)
        if other is None:
            self._count += 1
            news[entry.suffix] = entry
        elif not is_older(entry.version, other.version):
            news[entry.suffix] = replace(entry, notify=entry.notify or other.notify)

    def doubt(self, run_id: str) -> None:
        """Send this run whole the next time."""
        self._marks[run_id] = ""
        self._doubted_since.add(run_id)
        self._news.setdefault(run_id, {})

    def next_write(self, run_id: str, since: float | None) -> Write | None:
        """The write after which the run waits no longer; None if there is nothing to write.

        If it fails, the next one is like it, or Redis refuses it for the mark that it follows.

        A foreign run is forgotten. So is one without news whose last event is before `since` (Unix seconds),
        because it has expired.
        """
        if run_id not in self._news:
            return None
        news = list(self._news[run_id].values())
        if self.owner is None and news:
            return Write(run_id, news, news)
        follows = self._marks.get(run_id)
        entries = news if follows or self.owner is None else self._whole(self.owner, run_id, news)
        expired = since is not None and not news and _last_event(entries) < since
        if not entries or expired:
            self._count -= len(self._news.pop(run_id, {}))
            return None
        self._doubted_since.discard(run_id)
        mark = f"{self._name}:{next(self._numbers)}"
        return Write(run_id, entries, news, follows or "", mark, not follows, corrects=follows == "")

    def done(self, write: Write) -> None:
        """Redis has this write; what came meanwhile still waits."""
        waiting = self._news.get(write.run_id, {})
        for entry in write.news:
            if waiting.get(entry.suffix) is entry:
                del waiting[entry.suffix]
                self._count -= 1
        if write.run_id in self._doubted_since:
            return
        if write.mark:
            self._marks[write.run_id] = write.mark
        if not waiting:
            self._news.pop(write.run_id, None)

    def _whole(self, owner: RunOwner, run_id: str, news: Iterable[KeyState]) -> list[KeyState]:
        current = owner.current(run_id)
        if not current.summaries:
            return []
        entries = {entry.suffix: entry for entry in entries_of(current, notify=False)}
        for entry in news:
            other = entries.get(entry.suffix, entry)
            newer = other if is_older(entry.version, other.version) else entry
            entries[entry.suffix] = replace(newer, notify=entry.notify)
        return list(entries.values())

    def _make_room(self) -> None:
        """Drop the news of the oldest run; deleted runs come last, because their owner may forget them."""
        oldest = next(run_id for run_id, news in self._news.items() if news)
        run_id = next((r for r, news in self._news.items() if news and not self._is_deleted(r)), oldest)
        self._count -= len(self._news.pop(run_id))
        self.doubt(run_id)

    def _is_deleted(self, run_id: str) -> bool:
        entry = self._news[run_id].get(RUN_SUFFIX)
        return entry is not None and entry.value is None


def _last_event(entries: Iterable[KeyState]) -> float:
    return max((last_event_seconds(entry.summary) for entry in entries if entry.summary), default=inf) or inf


# -----------------------------------------------------------------------------
# The scripts that write and read one run, or heartbeats, each in one step, and their arguments.


SCRIPT = files("streamer.storage").joinpath("write_run.lua").read_text(encoding="utf-8")
READ_SCRIPT = files("streamer.storage").joinpath("read_run.lua").read_text(encoding="utf-8")
BEAT_SCRIPT = files("streamer.storage").joinpath("beat.lua").read_text(encoding="utf-8")
WORKERS_SCRIPT = files("streamer.storage").joinpath("read_workers.lua").read_text(encoding="utf-8")
NOT_TAKEN = -1
"""Reply if Redis lacks the mark that the changes follow: send the run as a whole."""

HISTORY_LENGTH = 10_000


class WriteRun:
    def __init__(self, keys: Keys, expire_seconds: int | None) -> None:
        self._keys = keys
        options = {
            "expire_seconds": expire_seconds or 0,
            "history_length": HISTORY_LENGTH,
            "channel": keys.updates,
            "metrics": list(BOARD_METRICS),
        }
        self._options = orjson.dumps(options)

    def command(self, write: Write) -> tuple[str | bytes | int, ...]:
        """EVAL of the script; it replies {refused entries, or NOT_TAKEN, and the previous benchmark}."""
        mode = "whole" if write.whole else "changes"
        changes = [part for entry in write.entries for part in entry.script_arguments(self._keys)]
        versions = self._keys.versions(write.run_id)
        return ("EVAL", SCRIPT, 1, versions, self._options, write.follows, write.mark, mode, *changes)


def read_run(
    keys: Keys, run_id: str, kinds: Iterable[str], versions: Mapping[str, str] | None = None
) -> tuple[str | int, ...]:
    """EVAL_RO of the script that reads a run at one moment; read_run.lua documents the reply.

    `kinds` are `run`, `agent_model`, `tier`, `within` (agent:models within tiers), `comparisons`, `in_flight`
    and `tasks`. `versions` has known versions by key suffix; their summaries are left out.
    """
    question = {"kinds": dict.fromkeys(kinds, True), "known": dict(versions or {})}
    return ("EVAL_RO", READ_SCRIPT, 1, keys.versions(run_id), orjson.dumps(question).decode())


def write_heartbeat(keys: Keys, worker_id: str, status: bytes, at: str) -> tuple[str | bytes | int, ...]:
    """EVAL of the script that writes a heartbeat with Redis's time; beat.lua has arguments and reply."""
    return ("EVAL", BEAT_SCRIPT, 1, keys.workers, worker_id, status, at)


def read_workers(keys: Keys) -> tuple[str | int, ...]:
    """EVAL_RO of the script that reads heartbeats and Redis's time; read_workers.lua has the reply."""
    return ("EVAL_RO", WORKERS_SCRIPT, 1, keys.workers)


# -----------------------------------------------------------------------------
# Cancellation that arrives while a client of Redis or Kafka sends a command, or closes.


T = TypeVar("T")


async def cancellable(work: Awaitable[T]) -> T:
    """Await `work`, and raise `CancelledError` if the task was cancelled meanwhile.

    Clients drop a cancellation, and a loop that follows a server would then never end. Commands of redis-py
    go out inside `asyncio.wait_for`. Until Python 3.12 it drops one that arrives in the same turn of the loop
    as the sent command (CPython issue 86296). A client of aiokafka drops one while it closes.
    """
    task = asyncio.current_task()
    assert task is not None, "only a task can await"
    before = task.cancelling()
    try:
        return await work
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError
