"""Questions of readers, independent of the connection: each is a generator that asks for replies.

A question has one answer, whether it is read from Redis now or folded from the log at an earlier position:

    now       `StateReader`, `AsyncStateReader` in `readers` send what a question asks for to Redis
    as of     `fold_run`, `fold_runs` in `folded` fold the log again, and give the same answers
    changes   `ChangeFeed` in `readers` says which keys have another version; `feeds` follows the topics

A question yields lists of commands and receives the list of their replies. So the plain and the asyncio
reader share one implementation.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Self, TypeAlias, TypeVar

from pydantic import ValidationError

from streamer.schemas.base import Message, agent_model_label, decode_id, json_number
from streamer.schemas.events import BOARD_METRICS, NAMED, board_metric, can_have_board
from streamer.schemas.summaries import (
    AgentModelSummary,
    Leader,
    Published,
    RunComparison,
    RunSummary,
    State,
    TaskOutcomes,
    TaskProvenance,
    TasksOfRun,
    TierSummary,
    TrialInFlight,
    is_over,
    plan_words,
    state_of,
)
from streamer.storage.entries import COMPARISONS, IN_FLIGHT, TASKS, Keys, as_text, read_run, read_workers
from streamer.storage.redis import DENIED, OF_A_CLUSTER, REFUSED, other_protocol
from streamer.text import counted

# -----------------------------------------------------------------------------
# The answers of a reader besides summaries, and its errors.


STALE_AFTER = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """Everything about a run, from one moment.

    Attributes:
        agents: every agent:model, including baselines, by label.
        tiers: each tier, by name, followed by the agent:models within it.
        in_flight: trials that have started and have no result, the longest in flight first; 1,000 at most.
    """

    run: RunSummary
    agents: list[AgentModelSummary]
    tiers: list[TierSummary]
    in_flight: list[TrialInFlight]


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """The comparison of a run's agents, from one moment.

    Attributes:
        comparison: every two agents, and their ranks; None with fewer than two agents.
        tasks: task, as :func:`~streamer.schemas.base.task_key` writes it, to the trials of each
            agent:model: known, passed, unknown.
        provenance: origin of each agent:model's trials by task, as stated (R36).
    """

    run: RunSummary
    comparison: RunComparison | None
    tasks: dict[str, TaskOutcomes]
    provenance: dict[str, TaskProvenance] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BoardRun:
    """A run in the form for leaderboards, from one moment.

    Attributes:
        agents: every agent:model, including baselines, by label.
        tasks, provenance: as in `ComparedRun`; {} until the run is over.
    """

    run: RunSummary
    agents: list[AgentModelSummary]
    tasks: dict[str, TaskOutcomes]
    provenance: dict[str, TaskProvenance] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageOfRuns:
    """A part of the list of runs, latest event first; runs of equal time are ordered by id.

    Attributes:
        runs: the page; empty beyond the end of the list.
        total: number of runs that match the search.
    """

    runs: list[RunSummary]
    total: int


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """One place on a board.

    Attributes:
        rank: from 1; equal values share a rank, and the next rank skips as many.
        agent_model: label `agent:model`.
        value: in the unit of the metric; may be inf.
        provisional: planned trials are missing; such rows come after all others.
        state: of the run, as docs/viewer.md explains.
        grade: S, A to F, or None.
        grade_basis: the number behind the grade: composite_median, mean_pass_rate, or None.
        grade_provisional: trials of a judged agent wait for their judge.
        trials: number of trials behind the value.
    """

    rank: int
    run: str
    agent_model: str
    value: float
    provisional: bool
    state: State
    grade: str | None
    grade_basis: str | None
    grade_provisional: bool
    trials: int


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One published update of a run.

    Attributes:
        kind: run, agent_model or tier.
        group: rest of the key's suffix, percent-encoded: `A:M`, `T`, `T:A:M`, "" for the run.
        epoch, state_version: the version of the update.
        last_event_at: event time, None if not known.
        deleted: the group emptied.
        headline: its headline numbers as text, by name; unknown ones are absent.
    """

    id: str
    kind: str
    group: str
    epoch: int
    state_version: int
    last_event_at: datetime | None
    deleted: bool
    headline: dict[str, str]


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """The last heartbeat of a worker.

    Attributes:
        at: when it was written, by the clock of Redis; by the worker's own one if its release is older.
        read_at: when it was read, by the clock of Redis, so that no other clock affects its age. None: not
            known.
    """

    worker_id: str
    at: datetime
    status: dict[str, Any]
    read_at: datetime | None = None

    @property
    def age(self) -> timedelta:
        """The age of the heartbeat when it was read; never negative."""
        return max((self.read_at or datetime.now(UTC)) - self.at, timedelta())

    def stale(self, now: datetime | None = None, after: timedelta = STALE_AFTER) -> bool:
        """Whether the worker has been silent for too long.

        Args:
            now: the time; None: when the heartbeat was read, by the clock of Redis, which is the right one.
        """
        return (self.age if now is None else now - self.at) > after


class ReaderError(Exception):
    """Current state could not be read."""


class RedisUnavailable(ReaderError):
    """Redis does not answer, or refuses. `url` shows whether only one side uses TLS, and is never printed."""

    def __init__(self, address: str, error: Exception, url: str | None = None) -> None:
        reason = " ".join(str(error).split()) or type(error).__name__
        refuses = isinstance(error, REFUSED)
        if url and not refuses and (wrong := other_protocol(url)):
            said = f"{wrong}, in --redis or STREAMER_REDIS"
        elif isinstance(error, DENIED):
            said = (
                f"refuses ({reason}). Check the user in STREAMER_REDIS, its password "
                "(STREAMER_REDIS_PASSWORD or ..._PASSWORD_FILE) and its rights"
            )
        elif isinstance(error, OF_A_CLUSTER):
            said = "is part of a cluster. Add ?cluster=true to its URL, in --redis or STREAMER_REDIS"
        elif refuses:
            said = (
                f"refuses ({reason}). Try again later, or check its URL (--redis or STREAMER_REDIS) and the "
                "password (STREAMER_REDIS_PASSWORD)"
            )
        elif "CERTIFICATE_VERIFY_FAILED" in reason:
            said = (
                f"has a certificate that is not trusted ({reason}). Set STREAMER_REDIS_CAFILE to the CA "
                "that signed it, and use the certificate's host name"
            )
        else:
            said = (
                f"does not answer ({reason}). Start it (`streamer up` starts one on this "
                "machine), or say where it is with --redis or STREAMER_REDIS"
            )
        super().__init__(f"Redis at {address} {said}")


class UnknownRun(ReaderError):
    """No such run in Redis."""

    def __init__(self, run_id: str, known: Iterable[str]) -> None:
        runs = list(known)
        close = get_close_matches(run_id, runs, n=5, cutoff=0.4)
        if close:
            hint = f"Did you mean {', '.join(close)}?"
        elif runs:
            hint = f"The latest of {counted(len(runs), 'run')}: {', '.join(runs[:5])}."
        else:
            hint = "There are no runs yet: publish some events first, with a worker running."
        super().__init__(f"There is no run {run_id!r}. {hint}")


class UnknownMetric(ReaderError):
    """No board has this metric."""

    def __init__(self, metric: str) -> None:
        metrics = ", ".join(BOARD_METRICS)
        super().__init__(f"No board for {metric!r}. Metrics: {metrics}, and metrics/NAME.")


class UnknownBenchmark(ReaderError):
    """No run names this benchmark."""

    def __init__(self, benchmark: str, benchmarks: Iterable[str]) -> None:
        named = ", ".join(sorted(benchmarks)) or "none yet; a run names one in its run_started event"
        super().__init__(f"No run names the benchmark {benchmark!r}. Benchmarks: {named}.")


class UnreadableSummary(ReaderError):
    """The value under a key is not a summary that this version understands."""

    def __init__(self, key: str, error: Exception) -> None:
        first = str(error).splitlines()[:3]
        super().__init__(
            f"The value of {key} is not a summary that this version can read ({' '.join(first)}). If a "
            "newer worker wrote it, upgrade streamer here; otherwise restart a worker, which repairs it"
        )


class NotReached(ReaderError, TimeoutError):
    """A run that did not reach the condition in time; `last` is its last summary, if it existed."""

    def __init__(self, run_id: str, seconds: float | None, last: RunSummary | None) -> None:
        where = "there is no such run yet" if last is None else _where(last)
        super().__init__(f"Run {run_id!r} did not get there within {seconds or 0:g} s: {where}")
        self.last = last


def finished(run: RunSummary) -> bool:
    """True for a run whose state is `finished` or `complete`.

    Results may still arrive: their order is irrelevant, and such a run accepts corrections.
    """
    return is_over(run)


def _where(run: RunSummary) -> str:
    planned = "?" if run.progress.planned is None else f"{run.progress.planned:,}"
    words = (f"{run.progress.done:,} of {planned} slots filled", plan_words(run))
    return ", ".join([*filter(None, words), state_of(run, datetime.now(UTC))])


# -----------------------------------------------------------------------------
# The rows of a board, best first.


def ranked(
    metric: str, summaries: Sequence[AgentModelSummary], states: Mapping[str, State]
) -> list[LeaderboardRow]:
    """Rows of a board, best first in the direction of the metric, provisional ones last.

    Args:
        metric: of the board; a named one ranks every agent that has it, planned or not.
    """
    stored = [summary.model_dump(mode="json") for summary in summaries]
    of = board_metric(metric, stored)
    if of is None:
        return []
    sign = -1.0 if of.higher_is_better else 1.0
    graded = [
        (value, summary, of.trials(fields))
        for fields, summary in zip(stored, summaries, strict=True)
        if not summary.baseline and (value := of.value(fields)) is not None
    ]
    graded.sort(key=lambda one: (one[1].provisional, sign * one[0], one[1].run_id, one[1].agent_model))
    rows: list[LeaderboardRow] = []
    for position, (value, summary, trials) in enumerate(graded, start=1):
        last = rows[-1] if rows else None
        tied = last is not None and (last.value, last.provisional) == (value, summary.provisional)
        rows.append(
            LeaderboardRow(
                rank=last.rank if last and tied else position,
                run=summary.run_id,
                agent_model=summary.agent_model,
                value=value,
                provisional=summary.provisional,
                state=states[summary.run_id],
                grade=summary.grade,
                grade_basis=summary.grade_basis,
                grade_provisional=summary.grade_provisional,
                trials=trials,
            )
        )
    return rows


# -----------------------------------------------------------------------------
# A run for readers: one value that answers all questions about it.


AnyState: TypeAlias = RunSummary | AgentModelSummary | TierSummary
AnySummary: TypeAlias = AnyState | RunComparison

SUMMARIES: dict[str, type[AnyState]] = {
    "run": RunSummary,
    "agent_model": AgentModelSummary,
    "tier": TierSummary,
}

PUBLISHED: dict[str, type[AnySummary]] = {**SUMMARIES, COMPARISONS: RunComparison}

OF_SNAPSHOT = ("agent_model", "tier", "within", IN_FLIGHT)
OF_COMPARISON = (COMPARISONS, TASKS)
"""Parts of a run for comparisons, besides the run's summary, which is always included."""

Stored = TypeVar("Stored", bound=Message)


@dataclass(frozen=True, slots=True)
class RunAnswers:
    """Everything published about a run at one moment: the basis of all answers.

    :func:`answers_in` makes it from Redis, `streamer.client.folded.answers_of` from a folded run. Parts that
    were not asked for are empty. `moment` is the time that determines the run's state. Other fields are as in
    :class:`RunSnapshot` and :class:`ComparedRun`.
    """

    run: RunSummary
    moment: datetime
    agents: list[AgentModelSummary] = field(default_factory=list)
    tiers: list[TierSummary] = field(default_factory=list)
    in_flight: list[TrialInFlight] = field(default_factory=list)
    comparison: RunComparison | None = None
    tasks: dict[str, TaskOutcomes] = field(default_factory=dict)
    provenance: dict[str, TaskProvenance] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        summaries: Iterable[AnySummary],
        in_flight: Iterable[TrialInFlight],
        tasks: TasksOfRun,
        moment: datetime,
    ) -> Self | None:
        """The answers from parts in any order; None without the run's own summary."""
        of_kind: dict[type[AnySummary], list[Any]] = {kind: [] for kind in PUBLISHED.values()}
        for summary in summaries:
            of_kind[type(summary)].append(summary)
        if not of_kind[RunSummary]:
            return None
        return cls(
            of_kind[RunSummary][0],
            moment,
            sorted(of_kind[AgentModelSummary], key=lambda agent: agent.agent_model),
            sorted(of_kind[TierSummary], key=lambda tier: (tier.tier, tier.agent_model or "")),
            sorted(in_flight, key=_longest_first),
            next(iter(of_kind[RunComparison]), None),
            dict(sorted(tasks.outcomes.items())),
            dict(sorted(tasks.provenance.items())),
        )

    @property
    def snapshot(self) -> RunSnapshot:
        return RunSnapshot(self.run, self.agents, self.tiers, self.in_flight)

    @property
    def compared(self) -> ComparedRun:
        return ComparedRun(self.run, self.comparison, self.tasks, self.provenance)

    @property
    def board(self) -> BoardRun:
        """The run in the form for leaderboards, with tasks once it is over."""
        tasks = (self.tasks, self.provenance) if is_over(self.run) else ({}, {})
        return BoardRun(self.run, self.agents, *tasks)


def answers_in(keys: Keys, run_id: str, stored: Mapping[str, Any]) -> RunAnswers | None:
    """The answers from Redis values by key suffix; None for an unknown run. Raises UnreadableSummary."""
    summaries = [
        parsed(PUBLISHED[kind], keys.of_run(run_id, suffix), value)
        for suffix, value in stored.items()
        if value is not None and (kind := suffix.partition(":")[0]) in PUBLISHED
    ]
    trials = (stored.get(IN_FLIGHT) or [])[1::2]
    in_flight = [parsed(TrialInFlight, keys.in_flight(run_id), trial) for trial in trials]
    tasks = _tasks(keys.tasks(run_id), stored.get(TASKS) or [])
    return RunAnswers.of(summaries, in_flight, tasks, datetime.now(UTC))


def board_parts(run: RunSummary) -> tuple[str, ...]:
    return ("agent_model", TASKS) if is_over(run) else ("agent_model",)


def parsed(kind: type[Stored], key: str, value: bytes) -> Stored:
    """The summary, comparison or trial in flight under this key; raises UnreadableSummary."""
    try:
        return kind.model_validate_json(value)
    except ValidationError as error:
        raise UnreadableSummary(key, error) from error


def _tasks(key: str, stored: Sequence[bytes | str]) -> TasksOfRun:
    try:
        return TasksOfRun.of(zip(map(as_text, stored[::2]), stored[1::2], strict=True))
    except (ValidationError, UnicodeDecodeError) as error:
        raise UnreadableSummary(key, error) from error


def _longest_first(trial: TrialInFlight) -> tuple[bool, datetime, str]:
    start = trial.started_at
    return (start is None, start or datetime.max.replace(tzinfo=UTC), trial.model_dump_json())


# -----------------------------------------------------------------------------
# The questions to Redis, without a connection: generators that ask for replies and return the answer.


KEYS_PER_ROUND_TRIP = 500
RUNS_PER_ROUND_TRIP = 20
RUNS_PER_PAGE = 100
"""Runs of one page; each summary has more than 1 KB."""

MOST_BOARD_RUNS = 400
"""The most runs on leaderboards that pool runs, the latest ones."""

T = TypeVar("T")
Summary = TypeVar("Summary", bound=Published)
RedisCommand: TypeAlias = tuple[str | int, ...]
Exchange: TypeAlias = Generator[list[RedisCommand], list[Any], T]


class Queries:
    """Questions about runs, which `StateReader` and `AsyncStateReader` ask Redis under the same names."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def runs(self) -> Exchange[list[RunSummary]]:
        """All runs, latest event first; for very many runs see `page_of_runs`."""
        return (yield from self.page_of_runs(limit=None)).runs

    def page_of_runs(
        self,
        *,
        offset: int = 0,
        limit: int | None = RUNS_PER_PAGE,
        search: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> Exchange[PageOfRuns]:
        """A part of the list of runs. Without search and labels, only its runs are read.

        Args:
            offset: number of runs before the page.
            limit: the most runs; None: all.
            search: text in id, name, benchmark or a label (KEY=VALUE) of the runs; case is ignored.
            labels: labels that the runs must all have.
        """
        run_ids = yield from self.run_ids()
        end = None if limit is None else offset + limit
        narrowed = search or labels
        chosen = run_ids if narrowed else run_ids[offset:end]
        summaries = yield from self._summaries(RunSummary, map(self._keys.run, chosen))
        runs = [run for run in summaries if run]
        if narrowed:
            return page_of_runs(runs, offset, end, search, labels)
        return PageOfRuns(runs, len(run_ids))

    def leaders(self, runs: Iterable[RunSummary]) -> Exchange[dict[str, Leader]]:
        """The leading agent:model by run id; runs without known values are left out.

        It takes two commands for each run, 500 in a round trip. If agents are equal, the first by name leads.
        """
        boards = [(run, self._keys.board(run.run_id, run.primary_metric)) for run in runs]
        tops = yield from in_round_trips(
            [("ZRANGE", key, 0, 0, *(("REV",) * higher_leads(run)), "WITHSCORES") for run, key in boards]
        )
        led = [(run, key, *top) for (run, key), top in zip(boards, tops, strict=True) if top]
        firsts = yield from in_round_trips(
            [("ZRANGE", key, score, score, "BYSCORE", "LIMIT", 0, 1) for _, key, _, score in led]
        )
        return {
            run.run_id: _leader(agent_model_label(*map(decode_id, as_text(first or top).split(":"))), score)
            for (run, _, top, score), [first] in zip(led, (one or [None] for one in firsts), strict=True)
        }

    def run(self, run_id: str) -> Exchange[RunSummary]:
        """One run; raises UnknownRun if Redis does not have it."""
        [run] = yield from self._summaries(RunSummary, [self._keys.run(run_id)])
        return (yield from self._existing(run_id, run))

    def answers(self, run_id: str, *parts: str) -> Exchange[RunAnswers]:
        """These parts of a run and its summary, from one moment; raises UnknownRun.

        Parts are as in :data:`OF_SNAPSHOT` and :data:`OF_COMPARISON`.
        """
        [reply] = yield [read_run(self._keys, run_id, ("run", *parts))]
        return (yield from self._existing(run_id, answers_in(self._keys, run_id, stored_in(reply))))

    def snapshot(self, run_id: str) -> Exchange[RunSnapshot]:
        """A run with its agents, tiers and trials in flight, all from one moment, unlike several calls."""
        return (yield from self.answers(run_id, *OF_SNAPSHOT)).snapshot

    def in_flight(self, run_id: str) -> Exchange[list[TrialInFlight]]:
        """The trials of a run that have started and have no result, at most 1,000.

        The longest in flight come first, trials of unknown start last. The list is empty once the run
        has finished, and while it is in quarantine. Raises UnknownRun if Redis does not have the run.
        """
        return (yield from self.answers(run_id, IN_FLIGHT)).in_flight

    def comparison(self, run_id: str) -> Exchange[ComparedRun]:
        """The comparison of a run's agents, with their ranks and its tasks, from one moment.

        Both change at most twice a second. `streamer.views.pair_standings` explains two agents'
        counts. Raises UnknownRun if Redis does not have the run.
        """
        return (yield from self.answers(run_id, *OF_COMPARISON)).compared

    def agents(self, run_id: str) -> Exchange[list[AgentModelSummary]]:
        """Every agent:model of a run, including baselines, by label; raises UnknownRun."""
        return (yield from self.answers(run_id, "agent_model")).agents

    def tiers(self, run_id: str, *, within: bool = False) -> Exchange[list[TierSummary]]:
        """Tiers of a run, by name; with `within`, each precedes its agent:models. Raises UnknownRun."""
        return (yield from self.answers(run_id, "tier", *(["within"] if within else []))).tiers

    def leaderboard(
        self,
        metric: str,
        *,
        run: str | None = None,
        benchmark: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        now: datetime | None = None,
    ) -> Exchange[list[LeaderboardRow]]:
        """Agent:models by a metric, best first; baselines are left out, provisional ones come last.

        Args:
            metric: a METRIC of docs/redis.md; UnknownMetric lists them.
            run: only this run; UnknownRun if there is none.
            benchmark: only runs of this benchmark; UnknownBenchmark if no run names it.
            labels: only runs that have all of these labels.
            limit: the most rows; None: all.
            now: the time that determines the runs' states; None: the wall clock.
        """
        labels, now = labels or {}, now or datetime.now(UTC)
        if not can_have_board(metric):
            raise UnknownMetric(metric)
        if run is not None and benchmark is None and not labels:
            answers = yield from self.answers(run, "agent_model")
            states = {run: state_of(answers.run, now)}
            return ranked(metric, answers.agents, states)[:limit]
        places = yield from self._places(metric, run, benchmark, labels)
        if benchmark is not None and not places:
            yield from self._require_benchmark(benchmark)
        keys = [self._keys.of_run(run_id, f"agent_model:{label}") for run_id, label in places]
        rows = yield from self._summaries(AgentModelSummary, keys)
        runs = sorted({run_id for run_id, _ in places})
        summaries = yield from self._summaries(RunSummary, map(self._keys.run, runs))
        states = {run.run_id: state_of(run, now) for run in summaries if run}
        current = [summary for summary in rows if summary and summary.run_id in states]
        return ranked(metric, current, states)[:limit]

    def board_runs(
        self, *, run: str | None = None, benchmark: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Exchange[list[BoardRun]]:
        """The latest 400 runs with their agents, and with tasks if they have ended, each from one moment.

        `streamer.views.decide.leaderboard.boards_of` turns them into leaderboards.

        Args:
            run: only this run; UnknownRun if there is none.
            benchmark: only runs of this benchmark; UnknownBenchmark if no run names it.
            labels: only runs that have all of these labels.
        """
        runs = yield from self._chosen(run, benchmark, labels or {})
        if benchmark is not None and not runs:
            yield from self._require_benchmark(benchmark)
        latest = runs[:MOST_BOARD_RUNS]
        commands = [read_run(self._keys, one.run_id, ("run", *board_parts(one))) for one in latest]
        replies = yield from in_round_trips(commands, RUNS_PER_ROUND_TRIP)
        read = (
            answers_in(self._keys, one.run_id, stored_in(reply))
            for one, reply in zip(latest, replies, strict=True)
        )
        return [one.board for one in read if one is not None]  # others were deleted in the meantime

    def history(self, run_id: str, *, limit: int | None = None) -> Exchange[list[HistoryEntry]]:
        """Published updates of a run, oldest first; `limit` keeps only the latest. Raises UnknownRun."""
        yield from self.run(run_id)
        count: RedisCommand = () if limit is None else ("COUNT", limit)
        [entries] = yield [("XREVRANGE", self._keys.history(run_id), "+", "-", *count)]
        return [history_entry(as_text(at), fields) for at, fields in reversed(entries or []) if fields]

    def workers(self) -> Exchange[list[WorkerStatus]]:
        """The last heartbeat of every worker, by worker id; see `WorkerStatus.stale`."""
        [(heartbeats, time)] = yield [read_workers(self._keys)]
        read_at = None
        if time:
            seconds, microseconds = map(int, time)
            read_at = datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)
        workers = []
        for worker_id, value in zip(heartbeats[::2], heartbeats[1::2], strict=True):
            status = json.loads(value)
            at = datetime.fromisoformat(status.pop("at"))
            workers.append(WorkerStatus(as_text(worker_id), at, status, read_at))
        return sorted(workers, key=lambda worker: worker.worker_id)

    def run_ids(self) -> Exchange[list[str]]:
        """Ids of all runs, latest event first."""
        members = yield from self._board(self._keys.runs)
        return [decode_id(run) for run in reversed(members)]

    def _existing(self, run_id: str, answer: T | None) -> Exchange[T]:
        if answer is None:
            run_ids = yield from self.run_ids()
            raise UnknownRun(run_id, run_ids)
        return answer

    def _places(
        self, metric: str, run: str | None, benchmark: str | None, labels: Mapping[str, str]
    ) -> Exchange[list[tuple[str, str]]]:
        if run is None and benchmark is not None and not labels:
            members = yield from self._board(self._keys.benchmark_board(benchmark, metric))
            return [(decode_id(run_id), label) for run_id, _, label in (m.partition("|") for m in members)]
        places = []
        for one in (yield from self._chosen(run, benchmark, labels)):
            board = yield from self._board(self._keys.board(one.run_id, metric))
            places += [(one.run_id, label) for label in board]
        return places

    def _chosen(
        self, run: str | None, benchmark: str | None, labels: Mapping[str, str]
    ) -> Exchange[list[RunSummary]]:
        runs = [(yield from self.run(run))] if run is not None else (yield from self.runs())
        return [one for one in runs if is_chosen(one, benchmark, labels)]

    def _require_benchmark(self, benchmark: str) -> Exchange[None]:
        require_benchmark(benchmark, (yield from self.runs()))

    def _board(self, key: str) -> Exchange[list[str]]:
        [members] = yield [("ZRANGE", key, 0, -1)]
        return [as_text(member) for member in members]

    def _summaries(self, kind: type[Summary], keys: Iterable[str]) -> Exchange[list[Summary | None]]:
        every = list(keys)
        values = yield from in_round_trips([("GET", key) for key in every])
        return [parsed(kind, key, value) if value else None for key, value in zip(every, values, strict=True)]


def leader_of(run: RunSummary, board: Mapping[str, float]) -> Leader | None:
    sign = -1 if higher_leads(run) else 1
    first = min(board, key=lambda label: (sign * board[label], label), default=None)
    return None if first is None else _leader(first, board[first])


def higher_leads(run: RunSummary) -> bool:
    of = BOARD_METRICS.get(run.primary_metric)
    reading = run.metrics.get(run.primary_metric.removeprefix(NAMED))
    return of.higher_is_better if of else reading is None or reading.direction == "higher"


def _leader(agent_model: str, value: float | bytes) -> Leader:
    return Leader.model_validate({"agent_model": agent_model, "value": json_number(float(value))})


def page_of_runs(
    runs: Iterable[RunSummary],
    first: int,
    end: int | None,
    search: str,
    labels: Mapping[str, str] | None = None,
) -> PageOfRuns:
    """A page, from `first` to `end`, of the runs that match the search and all labels."""
    text = search.casefold()

    def said(run: RunSummary) -> str:
        labels = (f"{key}={value}" for key, value in run.labels.items())
        return "\n".join([run.run_id, run.display_name or "", run.benchmark or "", *labels])

    fit = [run for run in runs if is_chosen(run, None, labels or {}) and text in said(run).casefold()]
    return PageOfRuns(fit[first:end], len(fit))


def is_chosen(run: RunSummary, benchmark: str | None, labels: Mapping[str, str]) -> bool:
    """Whether a board for this benchmark (None: any) and these labels includes the run."""
    return benchmark in (None, run.benchmark) and labels.items() <= run.labels.items()


def require_benchmark(benchmark: str, runs: Iterable[RunSummary]) -> None:
    benchmarks = {run.benchmark for run in runs if run.benchmark}
    if benchmark not in benchmarks:
        raise UnknownBenchmark(benchmark, benchmarks)


def stored_in(reply: Sequence[Any]) -> dict[str, Any]:
    """Values by key suffix, from the reply of read_run.lua; None for a missing key."""
    return {as_text(suffix): value for suffix, value in zip(reply[1::2], reply[2::2], strict=True)}


def in_round_trips(
    commands: Sequence[RedisCommand], at_once: int = KEYS_PER_ROUND_TRIP
) -> Exchange[list[Any]]:
    replies: list[Any] = []
    for start in range(0, len(commands), at_once):
        replies += yield list(commands[start : start + at_once])
    return replies


def history_entry(entry_id: str, fields: Mapping[bytes | str, bytes | str]) -> HistoryEntry:
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
