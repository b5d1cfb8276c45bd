"""The questions to Redis, without a connection: generators that ask for replies and return the answer.

A question yields lists of commands and is sent the list of their replies, so that one text serves the plain
and the asyncio reader.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from streamer.client.lifecycle import state_of
from streamer.client.ranking import ranked
from streamer.client.results import (
    BoardRun,
    ComparedRun,
    HistoryEntry,
    LeaderboardRow,
    RunSnapshot,
    UnknownBenchmark,
    UnknownMetric,
    UnknownRun,
    WorkerStatus,
)
from streamer.client.snapshots import OF_COMPARISON, board_run, compared_run, kinds_of, parsed, snapshot_of
from streamer.redis.entry import IN_FLIGHT, as_text
from streamer.redis.keys import Keys
from streamer.redis.script import read_run
from streamer.schemas.identity import decode_id
from streamer.schemas.in_flight import TrialInFlight
from streamer.schemas.metrics import can_have_board
from streamer.schemas.summaries import AgentModelSummary, RunSummary, TierSummary
from streamer.schemas.summary_fields import Published

KEYS_PER_ROUND_TRIP = 500
RUNS_PER_ROUND_TRIP = 20
MOST_BOARD_RUNS = 400
"""So many runs, the latest ones, stand on leaderboards that pool runs."""

EVERYTHING = ("agent_model", "tier", "within", IN_FLIGHT)
"""The kinds of what a run has besides its own summary."""

T = TypeVar("T")
Summary = TypeVar("Summary", bound=Published)
RedisCommand: TypeAlias = tuple[str | int, ...]
Exchange: TypeAlias = Generator[list[RedisCommand], list[Any], T]
Snapshot: TypeAlias = Exchange[RunSnapshot]
Candidate: TypeAlias = tuple[str, str]
"""Run id and `AGENT:MODEL` (percent-encoded) of a candidate for a board."""


class Queries:
    """The questions of `StateReader` and `AsyncStateReader`, whose docstrings say what each means."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def runs(self) -> Exchange[list[RunSummary]]:
        """All runs, the one with the latest event first."""
        run_ids = yield from self.run_ids()
        found = yield from self._summaries(RunSummary, map(self._keys.run, run_ids))
        return [run for run in found if run]

    def run(self, run_id: str) -> Exchange[RunSummary]:
        """One run; UnknownRun if Redis has none of this id."""
        [run] = yield from self._summaries(RunSummary, [self._keys.run(run_id)])
        return (yield from self._known(run_id, run))

    def snapshot(self, run_id: str, kinds: Iterable[str] = EVERYTHING) -> Snapshot:
        """A run with its groups of these kinds, or its trials in flight, all from one moment."""
        [reply] = yield [read_run(self._keys, run_id, ("run", *kinds))]
        return (yield from self._known(run_id, snapshot_of(self._keys, run_id, stored_in(reply))))

    def agents(self, run_id: str) -> Exchange[list[AgentModelSummary]]:
        """Every agent:model of a run, baselines too, by label."""
        return (yield from self.snapshot(run_id, ["agent_model"])).agents

    def tiers(self, run_id: str, within: bool) -> Exchange[list[TierSummary]]:
        """The tiers of a run, by name; `within`: each followed by the agent:models within it."""
        return (yield from self.snapshot(run_id, ["tier", "within"] if within else ["tier"])).tiers

    def in_flight(self, run_id: str) -> Exchange[list[TrialInFlight]]:
        """The trials of a run in flight, the longest first; trials of unknown start come last."""
        return (yield from self.snapshot(run_id, [IN_FLIGHT])).in_flight

    def comparison(self, run_id: str) -> Exchange[ComparedRun]:
        """The agents of a run compared, and its tasks, from one moment."""
        [reply] = yield [read_run(self._keys, run_id, OF_COMPARISON)]
        return (yield from self._known(run_id, compared_run(self._keys, run_id, stored_in(reply))))

    def leaderboard(
        self,
        metric: str,
        run: str | None,
        benchmark: str | None,
        labels: Mapping[str, str],
        limit: int | None,
        now: datetime,
    ) -> Exchange[list[LeaderboardRow]]:
        """Agent:models by a metric, best first."""
        if not can_have_board(metric):
            raise UnknownMetric(metric)
        if run is not None and benchmark is None and not labels:
            found_run = yield from self.snapshot(run, ["agent_model"])
            states = {run: state_of(found_run.run, now)}
            return ranked(metric, found_run.agents, states)[:limit]
        places = yield from self._places(metric, run, benchmark, labels)
        if benchmark is not None and not places:
            yield from self._require_benchmark(benchmark)
        keys = [self._keys.of_run(run_id, f"agent_model:{label}") for run_id, label in places]
        found = yield from self._summaries(AgentModelSummary, keys)
        runs = sorted({run_id for run_id, _ in places})
        summaries = yield from self._summaries(RunSummary, map(self._keys.run, runs))
        states = {run.run_id: state_of(run, now) for run in summaries if run}
        standing = [summary for summary in found if summary and summary.run_id in states]
        return ranked(metric, standing, states)[:limit]

    def board_runs(
        self, run: str | None, benchmark: str | None, labels: Mapping[str, str]
    ) -> Exchange[list[BoardRun]]:
        """The runs of leaderboards, the latest first, each from one moment."""
        runs = yield from self._chosen(run, benchmark, labels)
        if benchmark is not None and not runs:
            yield from self._require_benchmark(benchmark)
        latest = runs[:MOST_BOARD_RUNS]
        commands = [read_run(self._keys, one.run_id, kinds_of(one)) for one in latest]
        replies = yield from in_round_trips(commands, RUNS_PER_ROUND_TRIP)
        read = (
            board_run(self._keys, one.run_id, stored_in(reply))
            for one, reply in zip(latest, replies, strict=True)
        )
        return [found for found in read if found is not None]

    def history(self, run_id: str, limit: int | None) -> Exchange[list[HistoryEntry]]:
        """Emissions of a run, oldest first; `limit`: the latest so many."""
        yield from self.run(run_id)
        count: RedisCommand = () if limit is None else ("COUNT", limit)
        [entries] = yield [("XREVRANGE", self._keys.history(run_id), "+", "-", *count)]
        return [history_entry(as_text(at), fields) for at, fields in reversed(entries or []) if fields]

    def workers(self) -> Exchange[list[WorkerStatus]]:
        """The last heartbeat of every worker, by worker id."""
        [heartbeats] = yield [("HGETALL", self._keys.workers)]
        found = []
        for worker_id, value in heartbeats.items():
            status = json.loads(value)
            at = datetime.fromisoformat(status.pop("at"))
            found.append(WorkerStatus(as_text(worker_id), at, status))
        return sorted(found, key=lambda worker: worker.worker_id)

    def run_ids(self) -> Exchange[list[str]]:
        """Latest event first."""
        members = yield from self._board(self._keys.runs)
        return [decode_id(run) for run in reversed(members)]

    def _known(self, run_id: str, found: T | None) -> Exchange[T]:
        """The answer about a run; UnknownRun where nothing was found."""
        if found is None:
            known = yield from self.run_ids()
            raise UnknownRun(run_id, known)
        return found

    def _places(
        self, metric: str, run: str | None, benchmark: str | None, labels: Mapping[str, str]
    ) -> Exchange[list[Candidate]]:
        """The agents that may stand on the board that was asked for."""
        if run is None and benchmark is not None and not labels:
            members = yield from self._board(self._keys.benchmark_board(benchmark, metric))
            return [(decode_id(run_id), label) for run_id, _, label in (m.partition("|") for m in members)]
        places = []
        for found in (yield from self._chosen(run, benchmark, labels)):
            board = yield from self._board(self._keys.board(found.run_id, metric))
            places += [(found.run_id, label) for label in board]
        return places

    def _chosen(
        self, run: str | None, benchmark: str | None, labels: Mapping[str, str]
    ) -> Exchange[list[RunSummary]]:
        """The runs that a board is narrowed to, the latest first."""
        runs = [(yield from self.run(run))] if run is not None else (yield from self.runs())
        return [found for found in runs if is_chosen(found, benchmark, labels)]

    def _require_benchmark(self, benchmark: str) -> Exchange[None]:
        require_benchmark(benchmark, (yield from self.runs()))

    def _board(self, key: str) -> Exchange[list[str]]:
        [members] = yield [("ZRANGE", key, 0, -1)]
        return [as_text(member) for member in members]

    def _summaries(self, kind: type[Summary], keys: Iterable[str]) -> Exchange[list[Summary | None]]:
        """The summaries under these keys, None where there is none."""
        every = list(keys)
        values = yield from in_round_trips([("GET", key) for key in every])
        return [parsed(kind, key, value) if value else None for key, value in zip(every, values, strict=True)]


def is_chosen(run: RunSummary, benchmark: str | None, labels: Mapping[str, str]) -> bool:
    """Whether a board that is narrowed to a benchmark (None: to none) and to labels has this run."""
    return benchmark in (None, run.benchmark) and labels.items() <= run.labels.items()


def require_benchmark(benchmark: str, runs: Iterable[RunSummary]) -> None:
    """Raises UnknownBenchmark if no run names this benchmark."""
    known = {run.benchmark for run in runs if run.benchmark}
    if benchmark not in known:
        raise UnknownBenchmark(benchmark, known)


def stored_in(reply: Sequence[Any]) -> dict[str, Any]:
    """Key suffix to value, from the reply of read_run.lua; None: the key is not there."""
    return {as_text(suffix): value for suffix, value in zip(reply[1::2], reply[2::2], strict=True)}


def in_round_trips(
    commands: Sequence[RedisCommand], at_once: int = KEYS_PER_ROUND_TRIP
) -> Exchange[list[Any]]:
    """Replies to any number of commands, so many at a time."""
    replies: list[Any] = []
    for start in range(0, len(commands), at_once):
        replies += yield list(commands[start : start + at_once])
    return replies


def history_entry(entry_id: str, fields: Mapping[bytes | str, bytes | str]) -> HistoryEntry:
    """One entry of `streamer:{RUN}:history`."""
    texts = {as_text(name): as_text(value) for name, value in fields.items()}
    at = texts.pop("last_event_at", None)
    return HistoryEntry(
        id=entry_id,
        kind=texts.pop("kind"),
        group=texts.pop("group"),
        epoch=int(texts.pop("epoch")),
        state_version=int(texts.pop("state_version")),
        last_event_at=datetime.fromisoformat(at) if at else None,
        deleted=texts.pop("deleted", "false") == "true",
        headline=texts,
    )
