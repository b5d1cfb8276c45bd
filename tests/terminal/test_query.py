"""The words that `query run --budget` prints: the forecast of the cost, and the budget beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from streamer.client.folded import answers_of
from streamer.client.queries import RunSnapshot
from streamer.terminal.query import budget_forecast, budget_outlook
from tests.support.board_runs import a_night
from tests.support.events import a_late_score, a_plan, a_trial, folded
from tests.support.online import Online
from tests.terminal.calling import call, lines, published, settled

START = datetime(2026, 1, 31, 9, 0, tzinfo=UTC)


def half_done() -> RunSnapshot:
    """Ten of twenty trials in, half a dollar and six minutes each, one after the other."""
    plan = {"tasks": 20, "attempts": 1, "agent_models": ["terminus:gpt-5"], "started_at": START.isoformat()}
    ends = [(START + timedelta(minutes=6 * number)).isoformat() for number in range(1, 11)]
    trials = [a_trial(task_id=end, finished_at=end, duration_seconds=360.0, cost_usd=0.5) for end in ends]
    found = answers_of(folded([a_plan(**plan), *trials])[0].run("run-1"))
    return RunSnapshot(found.run, found.agents, tiers=[], in_flight=[])


def test_the_budget_stands_beside_the_forecast_with_its_clock_time() -> None:
    said, alone = (budget_forecast(budget_outlook(half_done(), START, usd)) for usd in (7.5, None))
    total, budget = said.split("; ")
    assert total.startswith("forecast: about $10.00 in all, $")
    assert budget == "forecast: the budget of $7.50 is passed about 10:30 UTC"
    assert alone == total


def test_tasks_of_a_benchmark_are_those_of_its_runs_and_order_the_next_one(stack: Online) -> None:
    """The runs of the benchmark alone, whether it or they are named (inference 8b)."""
    nights = {"history/1": "++-", "history/2": "+--", "history/other": "---"}
    for day, (run, outcomes) in enumerate(nights.items(), 1):
        benchmark = "another" if run.endswith("other") else "history"
        published(stack, [*a_night(run, day, {f"agent{day}": outcomes}, benchmark=benchmark, attempts=1)])
    for run in nights:
        settled(stack, run)
    named = [word for run in list(nights)[:2] for word in ("--history", run)]
    of_benchmark = call(stack, "query", "tasks", "history", "--json")
    assert of_benchmark.stdout == call(stack, "query", "tasks", *named, "--json").stdout
    tasks = lines(of_benchmark.stdout)
    assert [task["dead"] for task in tasks] == ["passed", None, "failed"]
    assert [task["first_changed"] for task in tasks] == [None, "history/2", None]
    order = ("shuffle", "-", "--seed", "s", "--for-comparison", *named, "--json")
    [plan] = lines(call(stack, *order, stdin="\n".join(t["task"] for t in tasks).encode()).stdout)
    assert plan["order"][0] == tasks[1]["task"]
    assert plan["order_history"] == list(nights)[:2]
    unknown = call(stack, "query", "tasks", "--history", "history/none")
    assert (unknown.returncode, b"There is no run 'history/none'" in unknown.stderr) == (1, True)


def test_the_parts_of_an_error_stand_below_the_agents_and_in_their_json(stack: Online) -> None:
    run = "errors/1"
    results = [
        a_trial(run_id=run, task_id=f"t{n}", attempt=k, resolved=n * k % 3 > 0, cost_usd=0.5)
        for n in range(6)
        for k in (1, 2, 3)
    ]
    published(stack, [a_plan(run_id=run, tasks=6, attempts=3), *results])
    settled(stack, run)
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
    published(stack, [a_plan(run_id=run, tasks=3, attempts=2), *results])
    settled(stack, run)
    once = call(stack, "query", "agents", run, "--judge").stdout.decode()
    assert "the judge's share is unknown: no trial was judged more than once." in once
    published(stack, [a_late_score(run_id=run, task_id="t1", revision=1, score=0.375)])
    settled(stack, run)

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
    published(stack, [plan, a_trial(run_id="left", task_id="t1")])
    done = call(stack, "query", "unfinished", "left", "--for", "json")
    assert [(one["task_id"], one["why"]) for one in lines(done.stdout)] == [("t2", "missing")]
    unknown = call(stack, "query", "unfinished", "nobody", "--for", "json")
    assert (unknown.returncode, b"nobody" in unknown.stderr) == (1, True)
