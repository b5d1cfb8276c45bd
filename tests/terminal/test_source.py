"""`streamer query` against what a fold of the same events says."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import orjson
import pytest
from click.testing import CliRunner, Result

from streamer.client.folded import answers_of
from streamer.client.queries import RunSnapshot, UnknownRun
from streamer.folding.breakdowns import by_label, by_subtest
from streamer.folding.fold import Folding, fold_records
from streamer.operate.local.processes import free_port
from streamer.schemas.base import canonical_json, digest_of
from streamer.schemas.wire import records_of_lines
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.terminal import StatusLine, cli
from streamer.terminal import options as common
from streamer.terminal.query import budget_forecast, budget_outlook
from streamer.views.cells import REASONS
from tests.support.board_runs import a_night
from tests.support.cli import found_by
from tests.support.events import Event, a_late_score, a_plan, a_trial, folded
from tests.support.online import Online
from tests.terminal.calling import call, lines, sent, settled, stderr_of
from tests.terminal.calling import published as publish
from tests.web.feeding import fed

Query = Callable[..., Result]
DONE, OPEN = "done/1", "open|2"


def trials(run: str, agent: str, passed: int, **fields: Any) -> list[Event]:
    base = {"run_id": run, "agent": agent, "model": "m", "cost_usd": 0.5, **fields}
    return [
        a_trial(**base, task_id=f"t{n}", tier=f"T{n % 2}", subtest=f"0{n // 2}", resolved=n < passed)
        for n in range(4)
    ]


EVENTS = [
    a_plan(run_id=DONE, tasks=1, attempts=1, subtests={"T0": 2, "T1": 2}, benchmark="bench"),
    a_plan(run_id=OPEN, tasks=9, attempts=9, labels={"team": "red"}),
    *trials(DONE, "good", 3),
    *trials(DONE, "bad", 1),
    *trials(DONE, "nop", 4),
    *trials(OPEN, "best [red]\u202e", 4, finished_at="2026-01-01T00:00:00Z"),
]
EVENTS[2] |= {"labels": {"size": "small"}}


@pytest.fixture
def folding(settings: Settings) -> Folding:
    fed(settings, EVENTS, log=True)
    return fold_records(records_of_lines(map(orjson.dumps, EVENTS)))


@pytest.fixture
def query(settings: Settings, folding: Folding) -> Query:
    def ask(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["query", *arguments], env=found_by(settings))

    return ask


def objects(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return lines(result.stdout_bytes)


def published(folding: Folding, kind: str, run: str) -> list[dict[str, Any]]:
    changes = folding.pipeline.run(run).summaries()
    return [c.summary for c in changes if c.kind == kind and c.summary]


def test_json_is_what_was_published(query: Query, folding: Folding) -> None:
    for command, kind in (("run", "run"), ("agents", "agent_model"), ("tiers", "tier")):
        expected = published(folding, kind, DONE)
        if kind == "run":
            expected = [run | {"state": "complete"} for run in expected]
        assert objects(query(command, DONE, "--json")) == expected, command


def test_a_budget_is_judged_by_the_known_cost_and_its_forecast(query: Query) -> None:
    assert query("run", DONE, "--budget", "2").output.endswith("\nover the budget of $2.00\n")
    [told] = objects(query("run", DONE, "--budget", "100", "--json"))
    assert told["budget"] == {"usd": 100.0, "standing": "within", "seconds_until": None}
    said = query("run", OPEN, "--budget", "9").output.splitlines()[-1]  # 324 trials of half a dollar
    assert said.startswith("forecast: about $162.00 in all, $")
    assert said.endswith("; forecast: the budget of $9.00 is passed")
    assert query("run", OPEN, "--budget", "9", "--by", "label:team").exit_code == 2


def test_agents_and_runs_say_what_may_be_concluded(query: Query) -> None:
    [agent] = objects(query("agents", OPEN, "--json"))
    assert (agent["in_flight"], agent["uncertainty"]["final_missing"]) == (0, "plan_undeclared_tiers")
    assert agent["uncertainty"]["ability"]["tasks"] == 4
    for arguments in (["agents", OPEN], ["run", OPEN]):
        text = query(*arguments).output
        assert "100.0 % so far" in text
        assert f"No interval of the final pass rate: {REASONS['plan_undeclared_tiers']}." in text


def test_runs_are_all_runs_the_latest_first(query: Query, folding: Folding) -> None:
    result = objects(query("runs", "--json"))
    [stalled], [complete] = published(folding, "run", OPEN), published(folding, "run", DONE)
    for run in result:
        agents = [one for one in published(folding, "agent_model", run["run_id"]) if not one["baseline"]]
        rates = {one["agent_model"]: one["statistics"]["pass_rate"]["mean"] for one in agents}
        best = min(rates, key=lambda label: (-rates[label], label))
        assert run.pop("leader") == {"agent_model": best, "value": rates[best]}
    assert result == [stalled | {"state": "stalled"}, complete | {"state": "complete"}]
    assert [digest_of(run) for run in result] == [stalled["digest"], complete["digest"]]
    text = query("runs").stdout
    lines = [line.split() for line in text.splitlines() if line.startswith((OPEN, DONE))]
    assert [(line[0], line[2]) for line in lines] == [(OPEN, "stalled"), (DONE, "complete")]


def test_tiers_by_subtest_and_a_run_by_label_are_folded_from_the_log(query: Query, folding: Folding) -> None:
    result = objects(query("tiers", DONE, "--by", "subtest", "--json"))
    expected = [orjson.loads(canonical_json(body)) for body in by_subtest(folding.pipeline.run(DONE).state)]
    assert result == [*published(folding, "tier", DONE), *expected]
    assert "Subtests" in query("tiers", DONE, "--by", "subtest").stdout
    result = objects(query("run", DONE, "--by", "label:size", "--json"))
    labelled = by_label(folding.pipeline.run(DONE).state, "size")
    assert result == [orjson.loads(canonical_json(body)) for body in labelled]
    assert {body["value"] for body in result} == {"small", None}
    text = query("run", DONE, "--by", "label:size").stdout
    assert "By size" in text
    assert "grade" in text  # the run has tiers
    unknown = query("run", DONE, "--by", "label:colour")
    assert (unknown.exit_code, "Labels: 'size'." in unknown.output) == (2, True)


def test_the_leaderboard_leaves_baselines_out_and_puts_incomplete_ones_last(query: Query) -> None:
    rows = objects(query("leaderboard", "--by-run", "--json"))
    assert [(row["rank"], row["agent_model"], row["value"], row["provisional"]) for row in rows] == [
        (1, "good:m", 0.75, False),
        (2, "bad:m", 0.25, False),
        (3, "best [red]\u202e:m", 1.0, True),
    ]
    text = query("leaderboard", "--by-run").stdout
    assert (r"best [red]\u202e:m" in text, "incomplete" in text) == (True, False)
    assert [row["state"] for row in rows] == ["complete", "complete", "stalled"]
    assert (text.count("complete"), text.count("stalled")) == (2, 1)


NARROWED_BOARDS = [
    ("--benchmark bench", ["good:m", "bad:m"]),
    (f"--run {DONE} --limit 1", ["good:m"]),
    (f"--run {DONE} --metric cost_of_pass", ["good:m", "bad:m"]),  # less is better
    ("--label team=red", ["best [red]\u202e:m"]),
    ("--label team=blue", []),
]
NARROWED_TRIALS = [
    ("", 12),
    ("--task t1", 3),
    ("--tier T0", 6),
    ("--agent good", 4),
    ("--agent bad:m --task t0 --tier T0", 1),
    ("--agent nobody", 0),
]


def test_the_leaderboard_and_the_trials_can_be_narrowed(query: Query) -> None:
    for options, agents in NARROWED_BOARDS:
        rows = objects(query("leaderboard", "--by-run", *options.split(), "--json"))
        assert [row["agent_model"] for row in rows] == agents, options
    assert "lowest first" in query("leaderboard", "--by-run", "--metric", "cost_of_pass").stdout
    for options, count in NARROWED_TRIALS:
        result = objects(query("trials", DONE, *options.split(), "--json"))
        assert len(result) == count, options
        assert {trial["type"] for trial in result} <= {"scored_trial"}
        text = query("trials", DONE, *options.split()).stdout
        assert len(text.splitlines()) == (count + 4 if count else 1), options


def test_a_run_shows_its_agents_and_tiers_and_an_unknown_one_is_one_line(query: Query) -> None:
    text = query("run", DONE).stdout
    assert text.splitlines()[0] == f"Run {DONE} · bench · complete"
    assert ("Agents" in text, "Tiers" in text) == (True, True)
    for command in ("run", "agents", "tiers", "trials"):
        result = query(command, "done1")
        [line] = result.stderr.splitlines()
        assert (result.exit_code, result.stdout) == (1, "")
        assert "'done1'. Did you mean done/1?" in line


def test_the_latest_trial_counts_unless_late_writers_sent_it(query: Query, settings: Settings) -> None:
    def scored(trial: dict[str, Any], value: dict[str, Any] | None) -> tuple[bytes, bytes | None]:
        place = ("shard", "task_id", "attempt", "agent", "model", "tier", "subtest")
        key = "|".join(["done%2F1", *(str(trial[name]) for name in place)]).encode()
        return key, None if value is None else orjson.dumps(value)

    first, other, *_ = objects(query("trials", DONE, "--agent", "good", "--json"))
    newer = first | {"state_version": first["state_version"] + 5, "cost_usd": 9.0}
    late = first | {"state_version": first["state_version"] - 1, "cost_usd": 1.0}
    topic = Names(settings.namespace).scored_trials
    sent(settings, topic, DONE, scored(first, newer), scored(first, late), scored(other, None))
    result = objects(query("trials", DONE, "--agent", "good", "--json"))
    assert [trial["task_id"] for trial in result] == ["t0", "t2", "t3"]
    assert result[0] == newer


def test_a_line_beyond_the_limit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "MAX_LINE_BYTES", 10)
    (tmp_path / "file").write_bytes(b"123456789\n1234567890\n")
    with common.open_records(tmp_path / "file") as result:
        assert next(result).value == b"123456789"
        with pytest.raises(click.ClickException, match="line 2 has more than 10 bytes"):
            next(result)


def test_a_run_that_redis_does_not_have_is_unknown(settings: Settings) -> None:
    away = Settings(redis=f"redis://127.0.0.1:{free_port()}/0")
    assert common.stored_run(away, "run-1") is None
    with pytest.raises(UnknownRun, match="There is no run 'run-1'"):
        common.stored_run(settings, "run-1")


CLEAR = "\r\x1b[2K"


@pytest.mark.parametrize("terminal", [True, False])
def test_lines_that_stay_are_printed_above_the_one_that_changes(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cut to the 20 columns of the terminal, and the end removes it."""
    monkeypatch.setattr(sys, "stderr", stderr := io.StringIO())
    monkeypatch.setattr(stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "20")
    line = StatusLine()
    line.show("one")
    line.show("one")
    line.show("two \x1b[31m" + "x" * 40)
    line.say("found something")
    line.end()
    line.end()
    two = "two \\x1b[31m" + "x" * 7
    drawn = f"{CLEAR}one{CLEAR}{two}{CLEAR}found something\n{CLEAR}{two}{CLEAR}"
    assert stderr.getvalue() == (drawn if terminal else "found something\n")


# Questions to a deployment: the budget, the tasks of a benchmark, the parts of an error, what is left.
START = datetime(2026, 1, 31, 9, 0, tzinfo=UTC)


def test_the_budget_stands_beside_the_forecast_with_its_clock_time() -> None:
    """Ten of twenty trials in, half a dollar and six minutes each, one after the other."""
    plan = {"tasks": 20, "attempts": 1, "agent_models": ["terminus:gpt-5"], "started_at": START.isoformat()}
    ends = [(START + timedelta(minutes=6 * number)).isoformat() for number in range(1, 11)]
    trials = [a_trial(task_id=end, finished_at=end, duration_seconds=360.0, cost_usd=0.5) for end in ends]
    found = answers_of(folded([a_plan(**plan), *trials])[0].run("run-1"))
    half_done = RunSnapshot(found.run, found.agents, tiers=[], in_flight=[])
    said, alone = (budget_forecast(budget_outlook(half_done, START, usd)) for usd in (7.5, None))
    total, budget = said.split("; ")
    assert total.startswith("forecast: about $10.00 in all, $")
    assert budget == "forecast: the budget of $7.50 is passed about 10:30 UTC"
    assert alone == total


def test_tasks_of_a_benchmark_are_those_of_its_runs_and_order_the_next_one(stack: Online) -> None:
    """The runs of the benchmark alone, whether it or they are named (inference 8b)."""
    nights = {"history/1": "++-", "history/2": "+--", "another/1": "---"}
    for day, (run, outcomes) in enumerate(nights.items(), 1):
        benchmark, passes = run.partition("/")[0], {f"agent{day}": outcomes}
        settled(stack, run, [*a_night(run, day, passes, benchmark=benchmark, attempts=1)])
    named = ("--history", "history/1", "--history", "history/2")
    of_benchmark = call(stack, "query", "tasks", "history", "--json")
    assert of_benchmark.stdout == call(stack, "query", "tasks", *named, "--json").stdout
    tasks = lines(of_benchmark.stdout)
    assert [task["dead"] for task in tasks] == ["passed", None, "failed"]
    assert [task["first_changed"] for task in tasks] == [None, "history/2", None]
    order = ("shuffle", "-", "--seed", "s", "--for-comparison", *named, "--json")
    [plan] = lines(call(stack, *order, stdin="\n".join(t["task"] for t in tasks).encode()).stdout)
    assert plan["order"][0] == tasks[1]["task"]
    assert plan["order_history"] == ["history/1", "history/2"]
    unknown = call(stack, "query", "tasks", "--history", "history/none")
    assert "There is no run 'history/none'" in stderr_of(unknown, 1)


def test_the_parts_of_an_error_stand_below_the_agents_and_in_their_json(stack: Online) -> None:
    run = "errors/1"
    results = [
        a_trial(run_id=run, task_id=f"t{n}", attempt=k, resolved=n * k % 3 > 0, cost_usd=0.5)
        for n in range(6)
        for k in (1, 2, 3)
    ]
    settled(stack, run, [a_plan(run_id=run, tasks=6, attempts=3), *results])
    [agent] = lines(call(stack, "query", "agents", run, "--errors", "--json").stdout)
    budget = agent["error_budget"]
    assert (budget["more_attempts"]["usd"], budget["more_tasks"]["usd"]) == (3.0, 30.0)
    for what in ("agents", "run"):
        assert f"{budget['words']}." in call(stack, "query", what, run, "--errors").stdout.decode()
        assert b"standard error" not in call(stack, "query", what, run).stdout
    [plain] = lines(call(stack, "query", "agents", run, "--json").stdout)
    added = {"error_budget": budget, "judge_errors": None}
    assert plain == {name: value for name, value in agent.items() if name not in added}
    assert agent == plain | added


def test_the_judge_s_part_of_an_error_is_read_from_the_log_where_it_is_asked_for(stack: Online) -> None:
    run = "errors/judge"
    results = [
        a_trial(run_id=run, task_id=f"t{n}", attempt=k, resolved=n > 0, score=n / 4 + k / 16)
        for n in range(3)
        for k in (1, 2)
    ]
    settled(stack, run, [a_plan(run_id=run, tasks=3, attempts=2), *results])
    once = call(stack, "query", "agents", run, "--judge").stdout.decode()
    assert "the judge's share is unknown: no trial was judged more than once." in once
    settled(stack, run, [a_late_score(run_id=run, task_id="t1", revision=1, score=0.375)])

    def agents(*options: object) -> list[dict[str, Any]]:
        return lines(call(stack, "query", "agents", run, *options, "--json").stdout)

    [agent], [plain] = agents("--judge"), agents("--errors")
    assert plain["judge_errors"] is None
    assert agent == plain | {"judge_errors": agent["judge_errors"]}
    [(metric, error)] = agent["judge_errors"].items()
    assert (metric, error["judged_again"], error["judged"]) == ("impl_rate", 1, 6)
    assert 0 < error["judge"] <= error["repeats"] < 1
    assert error["standard_error"] == agent["statistics"]["impl_rate"]["standard_error"]
    assert agents("--errors", "--as-of", agent["state_version"]) == [agent]
    for what in ("agents", "run"):
        said = call(stack, "query", what, run, "--judge").stdout.decode()
        assert f"including {100 * error['judge']:.0f} % from the judge, by 1 of 6 judged trials" in said
        from_redis = call(stack, "query", what, run, "--errors").stdout
        assert f"only in the log; streamer query run {run} --judge reads it there.\n" in from_redis.decode()
        assert b"--judge" not in call(stack, "query", what, run).stdout
    assert f"streamer query run {run} --judge reads it there." in call(stack, "report", run).stdout.decode()


def test_what_is_left_of_a_run_in_the_log_is_listed(stack: Online) -> None:
    plan = a_plan(run_id="left", tasks=["t1", "t2"], attempts=1, agent_models=["terminus:gpt-5"])
    publish(stack, [plan, a_trial(run_id="left", task_id="t1")])
    done = call(stack, "query", "unfinished", "left", "--for", "json")
    assert [(one["task_id"], one["why"]) for one in lines(done.stdout)] == [("t2", "missing")]
    assert "absent" in stderr_of(call(stack, "query", "unfinished", "absent", "--for", "json"), 1)
