"""Summaries as tables for people; `fold`, `query` and `demo` show the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schemas.metrics import BoardMetric
from streamer.cli.printing import UNSEEN, dollars, percent, print_line, print_table, shown
from streamer.cli.tables_formulacode import print_formulacode
from streamer.stats import json_number

if TYPE_CHECKING:
    from streamer.client.reading import LeaderboardRow

Summary = Mapping[str, Any]

_OUTCOME = ("trials", "accuracy", "pass@k", "composite", "grade", "mean cost", "cost of pass", "basis")


def print_run(
    summaries: Iterable[Summary],
    subtests: Sequence[Summary] = (),
    fallbacks: Sequence[Summary] | None = None,
) -> None:
    """Everything about one run: header, agents, FormulaCode's numbers, tiers, subtests.

    Args:
        summaries: the run's.
        subtests: its tiers broken down.
        fallbacks: scored trials that fell back to baseline; None where the trials are not at hand.
    """
    by_type: dict[str, list[Summary]] = {}
    for summary in summaries:
        by_type.setdefault(summary["type"], []).append(summary)
    run = next(iter(by_type.get("run_summary", ())), None)
    if run:
        print_header(run)
    agents = sorted(by_type.get("agent_model_summary", ()), key=_best_first)
    print_agents(agents)
    print_formulacode(run, agents, fallbacks)
    print_tiers(by_type.get("tier_summary", ()))
    print_subtests(subtests)


def print_header(run: Summary) -> None:
    """The run itself: what it is, how far it is, what came out."""
    about = [run["harness"], run["benchmark"], run["benchmark_version"], run["status"]]
    print_line(" · ".join([f"Run {run['display_name'] or run['run_id']}", *(shown(a) for a in about if a)]))
    print_line(
        f"  {run['resolved']} of {run['trials']} trials resolved ({percent(run['accuracy'])}), "
        f"{run['no_verdict']} without a verdict, {run['tasks']} tasks, "
        f"pass@k {pass_at_k(run['pass_at_k'])}, cost {dollars(run['total_cost'])}"
    )
    print_line(
        f"  {progress(run)}; {run['superseded']} superseded, {run['conflicts']} conflicts; "
        f"grades by profile {run['grading_profile']}"
    )
    cross = run["cross_tier"]
    if cross:
        print_line(
            f"  across tiers: frontier cost of pass {dollars(cross['frontier_cost_of_pass'])}"
            f" ({shown(cross['frontier_tier'])}), cost delta {dollars(cross['cost_delta'])}, variance of "
            f"pass rate {shown(cross['pass_rate_variance'])}, impl rate {shown(cross['impl_rate_variance'])}"
        )
    print_line()


def print_agents(agents: Iterable[Summary]) -> None:
    """The agents of a run, best median composite first, baselines last."""
    rows = sorted(agents, key=_best_first)
    print_table("Agents", ("agent:model", *_OUTCOME), ([_agent(row), *_outcome(row)] for row in rows))


def print_tiers(tiers: Iterable[Summary]) -> None:
    """The tiers of a run, pooled; and per agent:model where there are several."""
    held = list(tiers)
    pooled = [tier for tier in held if tier["agent_model"] is None]
    single = [tier for tier in held if tier["agent_model"] is not None]
    columns = (*_OUTCOME, "uplift", "delta")
    print_table("Tiers", ("tier", *columns), ([t["tier"], *_outcome(t), *_gain(t)] for t in pooled))
    if len({tier["agent_model"] for tier in single}) > 1:
        rows = ([t["tier"], t["agent_model"], *_outcome(t), *_gain(t)] for t in single)
        print_table("Agents within tiers", ("tier", "agent:model", *columns), rows)


def print_subtests(subtests: Iterable[Summary]) -> None:
    """Tiers broken down by subtest."""
    columns = ("tier", "subtest", "agent:model", *_OUTCOME, "uplift", "delta")
    rows = ([s["tier"], s["subtest"], s["agent_model"] or "all", *_outcome(s), *_gain(s)] for s in subtests)
    print_table("Subtests", columns, rows, names=3)


def print_runs(runs: Sequence[Summary]) -> None:
    """Several runs, one line each, in the given order."""
    columns = ("run", "benchmark", "status", "trials", "accuracy", "cost", "agents", "tiers", "last event")
    rows = (
        [
            *(run["run_id"], run["benchmark"], run["status"] or "running", _done(run)),
            *(percent(run["accuracy"]), dollars(run["total_cost"]), run["agent_models"], run["tiers"]),
            run["last_event_at"],
        ]
        for run in runs
    )
    print_table("Runs", columns, rows, names=3)
    if not runs:
        print_line("No runs yet.")


def print_trials(trials: Sequence[Summary]) -> None:
    """Scored trials, one line each."""
    shards = ("shard",) if any(trial["shard"] for trial in trials) else ()
    places = (*shards, "tier", "subtest", "task_id", "attempt", "agent_model")
    numbers = ("resolved", "composite_score", "grade", "cost_usd", "duration_seconds", "failure_mode")
    rows = ([trial[name] for name in (*places, *numbers)] for trial in trials)
    print_table("Trials", (*places, *numbers), rows, names=len(places))
    if not trials:
        print_line("No such trials.")


def print_leaderboard(metric: BoardMetric, rows: Sequence[LeaderboardRow]) -> None:
    """A board, in the given order."""
    unit = "" if metric.unit == "1" else f", {metric.unit}"
    order = "highest" if metric.higher_is_better else "lowest"
    lines = (
        [
            *(row.rank, row.agent_model, row.run, json_number(row.value), row.trials),
            f"{row.grade} (prov.)" if row.provisional and row.grade else row.grade,
            "incomplete" if row.provisional else "complete",
        ]
        for row in rows
    )
    columns = ("", "agent:model", "run", metric.name, "trials", "grade", "run state")
    print_table(f"{metric.name}{unit}: {order} first", columns, lines, names=3)
    if not rows:
        print_line(f"Nobody on the board of {metric.name}.")


def pass_at_k(values: Mapping[str, Summary]) -> str:
    """pass@k on one line; `*` marks what not every task supports yet (R11).

    >>> pass_at_k({"1": {"value": 0.5, "partial": False}, "2": {"value": 0.75, "partial": True}})
    '1: 50.0 %, 2: 75.0 %*'
    """
    known = {k: held for k, held in values.items() if held["value"] is not None}
    ordered = sorted(known.items(), key=lambda item: int(item[0]))
    return ", ".join(f"{k}: {percent(h['value'])}{'*' if h['partial'] else ''}" for k, h in ordered) or UNSEEN


def progress(run: Summary) -> str:
    """How far a run is: `12 of 80 trials in, provisional`."""
    done, planned = run["progress"]["done"], run["progress"]["planned"]
    text = f"{done} trials in, none planned" if planned is None else f"{done} of {planned} planned trials in"
    return f"{text}, provisional" if run["provisional"] else text


def _done(run: Summary) -> str:
    done, planned = run["progress"]["done"], run["progress"]["planned"]
    return shown(done) if planned is None else f"{shown(done)} of {shown(planned)}"


def _agent(summary: Summary) -> str:
    return f"{summary['agent_model']} (baseline)" if summary["baseline"] else str(summary["agent_model"])


def _outcome(summary: Summary) -> list[object]:
    return [
        _trials(summary),
        percent(summary["accuracy"]),
        pass_at_k(summary["pass_at_k"]),
        summary["statistics"]["composite_score"]["median"],
        f"{summary['grade']} (prov.)" if summary["provisional"] and summary["grade"] else summary["grade"],
        dollars(summary["mean_cost"]),
        dollars(summary["cost_of_pass"]),
        summary["composite_basis"],
    ]


def _trials(summary: Summary) -> str:
    planned = summary["runs_planned"]
    return shown(summary["trials"]) if planned is None else f"{shown(summary['trials'])} of {shown(planned)}"


def _gain(summary: Summary) -> list[object]:
    return [percent(summary["tier_uplift"]), summary["tier_delta"]]


def _best_first(summary: Summary) -> tuple[bool, float, str]:
    median = summary["statistics"]["composite_score"]["median"]
    return (summary["baseline"], -1.0 if median is None else -median, summary["agent_model"])
