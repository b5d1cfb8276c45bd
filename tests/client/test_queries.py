"""Runs as leaderboards read them: agents of all, tasks of those that are over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any

import pytest
import redis

from streamer.client import AsyncStateReader, StateReader, queries
from streamer.client.folded import PastRuns, answers_of
from streamer.client.queries import UnknownRun, answers_in
from streamer.client.readers import ChangeFeed, StateUpdate
from streamer.operate.local.processes import free_port
from streamer.schemas.base import canonical_json
from streamer.schemas.summaries import AgentModelSummary
from streamer.settings import Settings
from streamer.storage.entries import COMPARISONS, IN_FLIGHT, TASKS, Keys
from streamer.storage.redis import RedisSink
from tests.client.following import KEYS, write
from tests.folding.compared import PLAN, trial
from tests.support.board_runs import a_night, board_runs
from tests.support.builders import a_run_change, an_agent_model_change, present, statistics_of
from tests.support.events import a_start, folded
from tests.support.revealed import revealed
from tests.support.servers import RedisServer

MADE = {"task_digest": "sha256:1", "timeout": "600", "other": "no comparison reads it"}


EVENTS = [
    *a_night("n1", 1, {"a": "+-", "nop": "++"}, labels={"team": "x"}, provenance={"seed": "7"}),
    *a_night("n2", 2, {"a": "++"}, ended=False),
    *a_night("n3", 3, {"a": "--"}, benchmark="other"),
]
for event in EVENTS:
    if event["run_id"] == "n1" and event["type"] == "trial_result":
        event["provenance"] = MADE


@pytest.mark.slow
def test_every_question_has_one_type_for_both_readers(tmp_path: Path) -> None:
    """Arguments and answers are the question's; the asyncio reader awaits the answer."""
    questions = [name for name in vars(StateReader) if name in vars(queries.Queries) and name[0] != "_"]
    assert [name for name in vars(AsyncStateReader) if name in questions] == questions
    head = "from streamer.client import AsyncStateReader, StateReader"
    faces = [f"{reader}().{name}" for reader in ("StateReader", "AsyncStateReader") for name in questions]
    types = revealed(tmp_path, head, faces)
    for plain, awaited in zip(types[: len(questions)], types[len(questions) :], strict=True):
        arguments, _, answer = plain.rpartition(" -> ")
        assert "Any" not in plain
        assert awaited == f"{arguments} -> typing.Coroutine[Any, Any, {answer}]"


async def test_the_runs_come_as_a_fold_has_them_with_tasks_once_they_are_over(
    sink: RedisSink, plain: StateReader, reader: AsyncStateReader
) -> None:
    pipeline, _ = folded(EVENTS)
    await sink.write([pipeline.run(run_id).take_changes() for run_id in pipeline.runs()])
    result = plain.board_runs()
    assert result == board_runs(EVENTS)
    [made] = [one for one in result if one.run.run_id == "n1"]
    assert made.provenance == {
        f"t0{at}": {"a:m": {"task_digest": "sha256:1", "timeout": "600"}} for at in (0, 1)
    }
    assert made.run.provenance == {"seed": "7"}
    for run_id in pipeline.runs():  # Redis, now, and the log folded again say the same (R36)
        assert plain.comparison(run_id) == answers_of(pipeline.run(run_id)).compared
    assert {one.run.run_id: bool(one.tasks) for one in result} == {"n1": True, "n2": False, "n3": True}
    for narrowed, runs in (
        ({"run": "n2"}, ["n2"]),
        ({"benchmark": "tb"}, ["n2", "n1"]),
        ({"labels": {"team": "x"}}, ["n1"]),
        ({"benchmark": "other", "labels": {"team": "x"}}, []),
    ):
        some = plain.board_runs(**narrowed)  # type: ignore[arg-type]
        assert [one.run.run_id for one in some] == runs
        assert await reader.board_runs(**narrowed) == some  # type: ignore[arg-type]
    with pytest.raises(queries.UnknownBenchmark, match="other, tb"):
        plain.board_runs(benchmark="t")
    with pytest.raises(UnknownRun):
        plain.board_runs(run="n")
    with pytest.raises(UnknownRun):
        await reader.board_runs(run="n")


async def test_each_listed_run_names_who_leads_it_and_all_are_read_at_once(
    sink: RedisSink, plain: StateReader, reader: AsyncStateReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = {"metrics": {"wait": {"direction": "lower", "unit": None, "label": None}}}
    waits = {name: {"metrics": {"wait": a_metric(mean)}} for name, mean in (("b", 9.0), ("a", 0.5))}
    costs: dict[str, Any] = {"b": {"mean_cost": 9.0}, "a": {"mean_cost": "Infinity"}}
    rated: dict[float | None, Any] = {rate: {"means": {"pass_rate": rate}} for rate in (0.5, 1.0, None)}
    await write(
        sink,
        *(a_run_change(run) for run in ("higher", "unknown")),
        *(an_agent_model_change("higher", agent, "m:1", **rated[0.5]) for agent in ("b", "a/1")),
        *(an_agent_model_change(run, "nop", "", **rated[1.0]) for run in ("higher", "unknown")),
        an_agent_model_change("unknown", **rated[None]),
        a_run_change("lower", primary_metric="mean_cost"),
        *(an_agent_model_change("lower", agent, **fields) for agent, fields in costs.items()),
        a_run_change("named", primary_metric="metrics/wait", **down),
        *(an_agent_model_change("named", agent, **fields) for agent, fields in waits.items()),
    )
    runs, asked = plain.runs(), list[int]()
    replies = StateReader._replies
    monkeypatch.setattr(StateReader, "_replies", lambda *of: asked.append(len(of[1])) or replies(*of))
    leaders = plain.leaders(runs)
    assert {run: (one.agent_model, one.value) for run, one in leaders.items()} == {
        "higher": ("a/1:m:1", 0.5),
        "lower": ("b:opus", 9.0),
        "named": ("a:opus", 0.5),
    }
    assert asked == [4, 3]
    assert await reader.leaders(runs) == leaders
    assert plain.leaders([]) == {}


async def test_a_connection_lost_before_the_leaders_are_read_loses_no_change(
    sink: RedisSink, plain: StateReader
) -> None:
    """The changes are read in one round trip, and the leaders in two more; each may be the last."""
    await write(sink, a_run_change("r"), an_agent_model_change("r", means={"pass_rate": 0.5}))

    def look(feed: ChangeFeed, round_trips: int) -> list[StateUpdate]:
        asked, reply = feed.of_runs(["r"], thorough=True), None
        try:
            for _ in range(round_trips):
                reply = plain._replies(asked.send(reply))
            asked.close()
        except StopIteration as done:
            return list(done.value)
        return []

    whole = look(ChangeFeed(KEYS, None), 9)
    assert [one.leader is not None for one in whole] == [one.kind == "run" for one in whole]
    assert len(whole) == 2
    for round_trips in (1, 2, 3):
        feed = ChangeFeed(KEYS, None)
        assert look(feed, round_trips) == []
        assert look(feed, 9) == whole
        assert look(feed, 9) == [], "all was handed on"


def a_metric(mean: float) -> dict[str, Any]:
    return statistics_of(mean) | {"planned": True, "direction": "lower", "unit": None, "label": None}


NOW = datetime(2026, 1, 3, 3, 5, tzinfo=UTC)
PLANNED = {"reward": {"direction": "higher"}}
EVENTS_OF_PAST_RUNS = [
    *a_night("n1", 1, {"a": "+-", "b": "--", "nop": "++"}, labels={"team": "x"}, metrics=PLANNED),
    *a_night("n2", 2, {"a": "++"}, ended=False),
    *a_night("n3", 3, {"a": "--"}, ended=False, benchmark="other", labels={"team": "x"}),
]
NARROWED: list[dict[str, Any]] = [
    *({}, {"run": "n2"}, {"benchmark": "tb"}, {"labels": {"team": "x"}}),
    *({"run": "n1", "benchmark": "tb"}, {"benchmark": "other", "labels": {"team": "y"}}),
]


async def test_the_answers_are_those_of_a_reader(sink: RedisSink, plain: StateReader) -> None:
    pipeline, _ = folded(EVENTS_OF_PAST_RUNS)
    await sink.write([pipeline.run(run_id).take_changes() for run_id in pipeline.runs()])
    past = PastRuns(board_runs(EVENTS_OF_PAST_RUNS), NOW)
    assert past.runs() == plain.runs()
    assert past.page_of_runs(offset=1, limit=1) == plain.page_of_runs(offset=1, limit=1)
    for search in ("r", "TEAM=x", "team=nobody"):
        assert past.page_of_runs(search=search) == plain.page_of_runs(search=search)
    assert {run.labels["team"] for run in past.page_of_runs(search="TEAM=x").runs} == {"x"}
    assert past.page_of_runs(search="team=nobody").total == 0
    for labels, search, found in (
        ({"team": "x"}, "", ["n3", "n1"]),
        ({"team": "x"}, "N1", ["n1"]),
        ({"team": ""}, "", []),
    ):
        page = plain.page_of_runs(search=search, labels=labels)
        assert past.page_of_runs(search=search, labels=labels) == page
        assert ([run.run_id for run in page.runs], page.total) == (found, len(found))
    leaders = plain.leaders(plain.runs())
    assert past.leaders(past.runs()) == leaders
    assert {run: one.value for run, one in leaders.items()} == {"n1": 0.5, "n2": 1.0, "n3": 0.0}
    assert past.run("n1") == plain.run("n1")
    for narrowed in NARROWED:
        assert past.board_runs(**narrowed) == plain.board_runs(**narrowed), narrowed
        for metric in ("pass_rate", "metrics/reward"):
            rows = past.leaderboard(metric, **narrowed)
            assert rows == plain.leaderboard(metric, now=NOW, **narrowed), narrowed
    assert past.leaderboard("pass_rate", limit=1) == plain.leaderboard("pass_rate", limit=1, now=NOW)


def test_past_runs_have_the_states_of_the_moment_and_what_was_not_there_yet_is_an_error() -> None:
    stored = board_runs(EVENTS_OF_PAST_RUNS)
    for after, state in ((timedelta(), "running"), (timedelta(hours=1), "unfinished")):
        [row] = PastRuns(stored, NOW + after).leaderboard("pass_rate", run="n3")
        assert row.state == state
    past = PastRuns(stored, NOW)
    with pytest.raises(UnknownRun):
        past.leaderboard("pass_rate", run="n4")
    with pytest.raises(queries.UnknownBenchmark, match="other, tb"):
        past.board_runs(benchmark="swe")
    with pytest.raises(queries.UnknownMetric):
        past.leaderboard("luck")
    assert (
        len(PastRuns(stored[:1] * (queries.MOST_BOARD_RUNS + 1), NOW).board_runs()) == queries.MOST_BOARD_RUNS
    )


def ranks(metric: str, **agents: dict[str, Any]) -> list[tuple[int, str, float]]:
    changes = [an_agent_model_change("r1", agent, "m", **fields) for agent, fields in agents.items()]
    summaries = [AgentModelSummary.model_validate(change.summary) for change in changes]
    return [
        (row.rank, row.agent_model.removesuffix(":m"), row.value)
        for row in queries.ranked(metric, summaries, {"r1": "complete"})
    ]


def test_equal_values_share_a_rank_and_provisional_rows_and_infinite_costs_come_last() -> None:
    half, provisional = {"accuracy": 0.5}, {"accuracy": 0.5, "provisional": True}
    result = ranks("accuracy", d=provisional, a=half, b=half, c={"accuracy": 0.25}, e={"accuracy": 0.0})
    assert result == [(1, "a", 0.5), (1, "b", 0.5), (3, "c", 0.25), (4, "e", 0.0), (5, "d", 0.5)]
    result = ranks("cost_of_pass", a={"cost_of_pass": "Infinity"}, b={"cost_of_pass": 2.0})
    assert result == [(1, "b", 2.0), (2, "a", inf)]
    assert ranks("accuracy", nop={"accuracy": 1.0}, a={"accuracy": None}) == []
    assert ranks("metrics/unheard-of", a={}) == []


async def test_unknown_names_are_answered_with_the_known_ones(sink: RedisSink, plain: StateReader) -> None:
    with pytest.raises(UnknownRun, match="no runs yet"):
        plain.run("r")
    await write(
        sink, *[a_run_change(run, benchmark="terminal") for run in ("nightly-1", "nightly-2", "zebra")]
    )
    for ask in (plain.run, plain.agents, plain.tiers, plain.history):
        with pytest.raises(UnknownRun, match=r"'nightly_1'\. Did you mean nightly-1, nightly-2\?"):
            ask("nightly_1")
    with pytest.raises(UnknownRun, match="of 3 runs"):
        plain.leaderboard("accuracy", run="Q")
    with pytest.raises(queries.UnknownMetric, match=r"'speed'.*accuracy, pass_rate"):
        plain.leaderboard("speed")
    with pytest.raises(queries.UnknownBenchmark, match=r"'term'\. Benchmarks: terminal\."):
        plain.leaderboard("accuracy", benchmark="term")


def test_a_redis_that_is_not_there_is_named_with_what_to_do_and_no_password() -> None:
    url = f"redis://user:secret@127.0.0.1:{free_port()}/0"
    for ending in ("", "?cluster=true"):
        with (
            pytest.raises(
                queries.RedisUnavailable, match=r"127\.0\.0\.1:.*--redis or STREAMER_REDIS"
            ) as caught,
            StateReader(Settings(redis=url + ending)) as plain,
        ):
            plain.runs()
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (redis.exceptions.NoPermissionError("no permissions"), "Check the user in STREAMER_REDIS"),
        (redis.exceptions.MovedError("15495 127.0.0.1:6381"), "is part of a cluster. Add ?cluster=true"),
        (redis.exceptions.BusyLoadingError("loading"), "refuses (loading). Try again later"),
        (redis.ResponseError("DB index is out of range"), "or check its URL"),
    ],
)
def test_a_redis_that_refuses_is_quoted_with_advice_for_that_refusal(error: Exception, said: str) -> None:
    assert said in str(queries.RedisUnavailable("h:1", error))


async def test_what_is_no_summary_is_named_by_its_key(
    sink: RedisSink, plain: StateReader, redis_server: RedisServer
) -> None:
    await write(sink, a_run_change())
    with redis.Redis.from_url(redis_server.url) as client:
        client.set(KEYS.run("r1"), b'{"type": "run_summary"}')
    with pytest.raises(queries.UnreadableSummary, match=r"team:streamer:\{r1\}:run"):
        plain.run("r1")


VALUES = {change.group.redis_suffix: change.value for change in (a_run_change(), an_agent_model_change())}


def test_trials_in_flight_come_the_longest_first_and_unknown_starts_last() -> None:
    times = {"unknown": None, "late": "2026-01-02T00:00:00Z", "early": "2026-01-01T00:00:00Z"}
    starts = [a_start(task_id=task, started_at=at) for task, at in times.items()]
    trials = folded(starts)[0].run("run-1").in_flight(10)
    fields = [part for trial in reversed(trials) for part in (b"slot", canonical_json(trial))]
    result = present(answers_in(Keys(), "r1", VALUES | {IN_FLIGHT: fields, "agent_model:gone:m": None}))
    assert [trial.task_id for trial in result.in_flight] == ["early", "late", "unknown"]


def of_agents(*agents: str) -> dict[str, Any]:
    """What Redis holds of a run in which these agents passed one task."""
    run = folded([PLAN, *(trial(agent, "t1", passed=True) for agent in agents)])[0].run("run-1")
    result: dict[str, Any] = {change.group.redis_suffix: change.value for change in run.summaries()}
    parts = [part.encode() for field in run.comparisons.tasks().items() for part in field]
    return result | {TASKS: parts}


def answered(values: dict[str, Any]) -> queries.RunAnswers:
    return present(answers_in(Keys(), "run-1", values))


def test_a_run_has_its_tasks_and_one_of_two_agents_a_comparison() -> None:
    two, alone, earlier = map(answered, (of_agents("a", "b"), of_agents("a"), {"run": of_agents("a")["run"]}))
    assert [agent.agent for agent in present(two.comparison).agents] == ["a", "b"]
    assert two.tasks == {"t1": {"a:m": (1, 1, 0), "b:m": (1, 1, 0)}}
    assert (alone.comparison, alone.tasks) == (None, {"t1": {"a:m": (1, 1, 0)}})
    assert (earlier.comparison, earlier.tasks) == (None, {})
    assert answers_in(Keys(), "run-1", {}) is answers_in(Keys(), "r1", VALUES | {"run": None}) is None


def test_tasks_that_an_earlier_worker_wrote_have_no_provenance() -> None:
    """R36: the fourth value of an agent is new. One state may have both."""
    mixed = b'{"a:m":[1,1,0],"b:m":[1,0,0,{"timeout":"600"}],"c:m":[0,0,0,{"judge":"x"}]}'
    fields = [b"t1", b'{"a:m":[1,1,0],"b:m":[1,1,0]}', b"t2", mixed]
    result = answered(of_agents("a", "b") | {TASKS: fields})
    assert result.tasks == {
        "t1": {"a:m": (1, 1, 0), "b:m": (1, 1, 0)},
        "t2": {"a:m": (1, 1, 0), "b:m": (1, 0, 0)},
    }
    assert result.provenance == {"t2": {"b:m": {"timeout": "600"}, "c:m": {"judge": "x"}}}


@pytest.mark.parametrize(
    "broken",
    [
        {TASKS: [b"t", b"{"]},
        {TASKS: [b"t", b'{"a:m":[1,-1,0]}']},
        {TASKS: [b"t", b'{"a:m":[1,1]}']},
        {TASKS: [b"t", b'{"a:m":[1,1,0,{"timeout":600}]}']},
        {TASKS: [b"t", b'{"a:m":[1,1,0,{},1]}']},
        {TASKS: [b"\xff", b"{}"]},
        {COMPARISONS: b"{}"},
        {"tier:T0": b"{}"},
    ],
)
def test_a_part_that_cannot_be_read_is_named(broken: dict[str, Any]) -> None:
    with pytest.raises(queries.UnreadableSummary, match=r"streamer:\{run-1\}"):
        answers_in(Keys(), "run-1", of_agents("a", "b") | broken)
