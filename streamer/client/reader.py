"""Read current state from Redis.

Ids and labels come back as agents and harnesses wrote them: escape them where they are printed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import ValidationError
from redis.exceptions import RedisClusterException, RedisError

from schemas.identity import decode_id
from schemas.metrics import BOARD_METRICS, BoardMetric, board_values
from schemas.summaries import AgentModelSummary, Published, RunSummary, TierSummary
from streamer.client.reading import (
    HistoryEntry,
    LeaderboardRow,
    RedisUnavailable,
    UnknownBenchmark,
    UnknownMetric,
    UnknownRun,
    UnreadableSummary,
    WorkerStatus,
)
from streamer.settings import Settings
from streamer.sinks.connect import address, sync_client
from streamer.sinks.names import Names

TIMEOUT_SECONDS = 5.0
KEYS_PER_ROUND_TRIP = 500

Summary = TypeVar("Summary", bound=Published)
Place = tuple[str, str]
"""Run id and `AGENT:MODEL` (percent-encoded) of a candidate for a board."""


class StateReader:
    """Answers questions about runs from Redis; use it as a context manager, or call `close()`.

    Every method raises RedisUnavailable where Redis does not answer.
    """

    def __init__(self, settings: Settings, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._address = address(settings.redis)
        self._names = Names(settings.namespace)
        with self._reachable():
            self._client = sync_client(settings.redis, settings.redis_options(), timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def runs(self) -> list[RunSummary]:
        """All runs, the one with the latest event first."""
        return [run for run in self._summaries(RunSummary, map(self._names.run, self._run_ids())) if run]

    def run(self, run_id: str) -> RunSummary:
        """One run; UnknownRun if Redis has none of this id."""
        [run] = self._summaries(RunSummary, [self._names.run(run_id)])
        if run is None:
            raise UnknownRun(run_id, self._run_ids())
        return run

    def agents(self, run_id: str) -> list[AgentModelSummary]:
        """Every agent:model of a run, baselines too, by label."""
        self.run(run_id)
        labels = self._members(self._names.agent_models(run_id))
        keys = [self._names.of_run(run_id, f"agent_model:{label}") for label in labels]
        found = [agent for agent in self._summaries(AgentModelSummary, keys) if agent]
        return sorted(found, key=lambda agent: agent.agent_model)

    def tiers(self, run_id: str, *, within: bool = False) -> list[TierSummary]:
        """The tiers of a run, by name; `within`: each followed by the agent:models within it."""
        self.run(run_id)
        suffixes = []
        for tier in self._members(self._names.tiers(run_id)):
            suffixes.append(f"tier:{tier}")
            if within:
                labels = self._members(self._names.tier_agent_models(run_id, decode_id(tier)))
                suffixes += [f"tier:{tier}:{label}" for label in labels]
        keys = [self._names.of_run(run_id, suffix) for suffix in suffixes]
        found = [tier for tier in self._summaries(TierSummary, keys) if tier]
        return sorted(found, key=lambda tier: (tier.tier, tier.agent_model or ""))

    def leaderboard(
        self,
        metric: str,
        *,
        run: str | None = None,
        benchmark: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> list[LeaderboardRow]:
        """Agent:models by a metric, best first; baselines are left out, provisional ones come last.

        Args:
            metric: a METRIC of docs/redis.md; UnknownMetric lists them.
            run: only this run; UnknownRun if there is none.
            benchmark: only runs of this benchmark; UnknownBenchmark if no run names it.
            labels: only runs that have all of these labels.
            limit: at most so many rows; None: all.
        """
        if metric not in BOARD_METRICS:
            raise UnknownMetric(metric)
        places = self._places(metric, run, benchmark, labels or {})
        if benchmark is not None and not places:
            self._require_benchmark(benchmark)
        keys = [self._names.of_run(run_id, f"agent_model:{label}") for run_id, label in places]
        found = [summary for summary in self._summaries(AgentModelSummary, keys) if summary]
        return ranked(BOARD_METRICS[metric], found)[:limit]

    def history(self, run_id: str, *, limit: int | None = None) -> list[HistoryEntry]:
        """Emissions of a run, oldest first; `limit`: the latest so many."""
        self.run(run_id)
        with self._reachable():
            entries = self._client.xrevrange(self._names.history(run_id), count=limit) or []
        return [history_entry(_text(at), fields) for at, fields in reversed(entries) if fields]

    def workers(self) -> list[WorkerStatus]:
        """The last heartbeat of every worker, by worker id; see `WorkerStatus.stale`."""
        with self._reachable():
            heartbeats = self._client.hgetall(self._names.workers)
        found = []
        for worker_id, value in heartbeats.items():
            status = json.loads(value)
            at = datetime.fromisoformat(status.pop("at"))
            found.append(WorkerStatus(_text(worker_id), at, status))
        return sorted(found, key=lambda worker: worker.worker_id)

    def _places(
        self, metric: str, run: str | None, benchmark: str | None, labels: Mapping[str, str]
    ) -> list[Place]:
        """Who may stand on the board that was asked for."""
        if run is not None:
            runs = [self.run(run)]
        elif benchmark is not None and not labels:
            members = self._board(self._names.benchmark_board(benchmark, metric))
            return [(decode_id(run_id), label) for run_id, _, label in (m.partition("|") for m in members)]
        else:
            runs = self.runs()
        chosen = [
            found.run_id
            for found in runs
            if benchmark in (None, found.benchmark) and labels.items() <= found.labels.items()
        ]
        return [
            (run_id, label) for run_id in chosen for label in self._board(self._names.board(run_id, metric))
        ]

    def _require_benchmark(self, benchmark: str) -> None:
        known = {run.benchmark for run in self.runs() if run.benchmark}
        if benchmark not in known:
            raise UnknownBenchmark(benchmark, known)

    def _run_ids(self) -> list[str]:
        """Latest event first."""
        return [decode_id(run) for run in reversed(self._board(self._names.runs))]

    def _board(self, key: str) -> list[str]:
        with self._reachable():
            return [_text(member) for member in self._client.zrange(key, 0, -1)]

    def _members(self, key: str) -> list[str]:
        with self._reachable():
            return sorted(_text(member) for member in self._client.smembers(key))

    def _summaries(self, kind: type[Summary], keys: Iterable[str]) -> list[Summary | None]:
        """The summaries under these keys, None where there is none."""
        every = list(keys)
        values: list[bytes | None] = []
        for start in range(0, len(every), KEYS_PER_ROUND_TRIP):
            pipe = self._client.pipeline(transaction=False)
            for key in every[start : start + KEYS_PER_ROUND_TRIP]:
                pipe.get(key)
            with self._reachable():
                values += pipe.execute()
        return [
            _parsed(kind, key, value) if value else None for key, value in zip(every, values, strict=True)
        ]

    def _reachable(self) -> AbstractContextManager[None]:
        return _reachable(self._address)


@contextmanager
def _reachable(where: str) -> Any:
    """Turns what redis-py raises into RedisUnavailable."""
    try:
        yield
    except (RedisError, RedisClusterException, OSError) as error:
        raise RedisUnavailable(where, error) from error


def ranked(metric: BoardMetric, summaries: Sequence[AgentModelSummary]) -> list[LeaderboardRow]:
    """Rows of a board, best first in the direction of the metric, complete ones before provisional ones."""
    sign = -1.0 if metric.higher_is_better else 1.0
    values = [(board_values(summary.model_dump(mode="json"))[metric.name], summary) for summary in summaries]
    known = [(value, summary) for value, summary in values if value is not None]
    known.sort(key=lambda pair: (pair[1].provisional, sign * pair[0], pair[1].run_id, pair[1].agent_model))
    rows: list[LeaderboardRow] = []
    for position, (value, summary) in enumerate(known, start=1):
        last = rows[-1] if rows else None
        tied = last is not None and (last.value, last.provisional) == (value, summary.provisional)
        rows.append(
            LeaderboardRow(
                rank=last.rank if last and tied else position,
                run=summary.run_id,
                agent_model=summary.agent_model,
                value=value,
                provisional=summary.provisional,
                grade=summary.grade,
                trials=summary.trials,
            )
        )
    return rows


def history_entry(entry_id: str, fields: Mapping[bytes | str, bytes | str]) -> HistoryEntry:
    """One entry of `streamer:{RUN}:history`."""
    texts = {_text(name): _text(value) for name, value in fields.items()}
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


def _parsed(kind: type[Summary], key: str, value: bytes) -> Summary:
    try:
        return kind.model_validate_json(value)
    except ValidationError as error:
        raise UnreadableSummary(key, error) from error


def _text(value: Any) -> str:
    """Redis answers in bytes."""
    return bytes(value).decode()
