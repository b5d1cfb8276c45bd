"""Summaries as tables of text for people: the terminal prints them, Markdown and HTML write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from streamer.client.lifecycle import State, state_and_status
from streamer.text import UNSEEN, dollars, percent, ratio, shown

Summary = Mapping[str, Any]

_OUTCOME = ("trials", "accuracy", "pass@k", "composite", "grade", "mean cost", "cost of pass", "basis")


class Table(NamedTuple):
    """One table.

    Attributes:
        title: stands above it.
        columns: their heads.
        rows: values; None is unknown. What agents wrote stands in them as it is: escape it.
        names: so many first columns hold names, the others numbers and words.
    """

    title: str
    columns: Sequence[str]
    rows: list[list[object]]
    names: int = 1


def agents_table(agents: Iterable[Summary]) -> Table:
    """The agents of a run, best median composite first, baselines last."""
    rows = sorted(agents, key=best_first)
    return Table("Agents", ("agent:model", *_OUTCOME), [[_agent(row), *_outcome(row)] for row in rows])


def formulacode_table(agents: Iterable[Summary]) -> Table:
    """FormulaCode's means, one agent a row; no rows where no agent has them."""
    columns = (
        *("agent:model", "mean speedup", "success rate", "advantage", "level 1", "level 2", "level 3"),
        *("level 4", "per USD", "valid benchmarks", "fell back", "claimed", "with a speedup"),
    )
    measured = [agent for agent in sorted(agents, key=best_first) if agent["formulacode"]]
    rows = [[_agent(agent), *_measured(agent["formulacode"])] for agent in measured]
    return Table("FormulaCode", columns, rows)


def tiers_tables(tiers: Iterable[Summary]) -> list[Table]:
    """The tiers of a run, pooled; and per agent:model where there are several."""
    held = list(tiers)
    pooled = [tier for tier in held if tier["agent_model"] is None]
    single = [tier for tier in held if tier["agent_model"] is not None]
    columns = (*_OUTCOME, "uplift", "delta")
    rows = [[tier["tier"], *_outcome(tier), *_gain(tier)] for tier in pooled]
    tables = [Table("Tiers", ("tier", *columns), rows)]
    if len({tier["agent_model"] for tier in single}) > 1:
        rows = [[tier["tier"], tier["agent_model"], *_outcome(tier), *_gain(tier)] for tier in single]
        tables.append(Table("Agents within tiers", ("tier", "agent:model", *columns), rows, names=2))
    return tables


def subtests_table(subtests: Iterable[Summary]) -> Table:
    """Tiers broken down by subtest."""
    columns = ("tier", "subtest", "agent:model", *_OUTCOME, "uplift", "delta")
    rows = [[s["tier"], s["subtest"], s["agent_model"] or "all", *_outcome(s), *_gain(s)] for s in subtests]
    return Table("Subtests", columns, rows, names=3)


def trials_table(trials: Sequence[Summary]) -> Table:
    """Scored trials, one line each."""
    shards = ("shard",) if any(trial["shard"] for trial in trials) else ()
    places = (*shards, "tier", "subtest", "task_id", "attempt", "agent_model")
    numbers = ("resolved", "composite_score", "grade", "cost_usd", "duration_seconds", "failure_mode")
    rows = [[trial[name] for name in (*places, *numbers)] for trial in trials]
    return Table("Trials", (*places, *numbers), rows, names=len(places))


def failures_table(run: Summary) -> Table:
    """How the trials ended, by failure mode, the most frequent first."""
    trials = run["trials"]
    modes = sorted(run["failure_modes"].items(), key=lambda item: (-item[1], item[0]))
    rows: list[list[object]] = [[mode, count, percent(count / trials)] for mode, count in modes if trials]
    return Table("How the trials ended", ("failure mode", "trials", "share"), rows)


def about(run: Summary, state: State) -> list[str]:
    """Harness, benchmark, version and state of a run; what is not known is left out."""
    known = (run["harness"], run["benchmark"], run["benchmark_version"])
    return [*(str(value) for value in known if value), state_and_status(state, run["status"])]


def head_lines(run: Summary) -> list[str]:
    """The run in a few sentences: what came out, how far it is, what lies across its tiers."""
    lines = [
        f"{run['resolved']} of {run['trials']} trials resolved ({percent(run['accuracy'])}), "
        f"{run['no_verdict']} without a verdict, {run['tasks']} tasks, "
        f"pass@k {pass_at_k(run['pass_at_k'])}, cost {dollars(run['total_cost'])}",
        f"{progress(run)}; {run['superseded']} superseded, {run['conflicts']} conflicts; "
        f"grades by profile {run['grading_profile']}",
    ]
    if cross := run["cross_tier"]:
        lines.append(
            f"across tiers: frontier cost of pass {dollars(cross['frontier_cost_of_pass'])}"
            f" ({shown(cross['frontier_tier'])}), cost delta {dollars(cross['cost_delta'])}, variance of "
            f"pass rate {shown(cross['pass_rate_variance'])}, impl rate {shown(cross['impl_rate_variance'])}"
        )
    return lines


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


def best_first(summary: Summary) -> tuple[bool, float, str]:
    """Sort key of agents: baselines last, the best median composite first, then by label."""
    median = summary["statistics"]["composite_score"]["median"]
    return (summary["baseline"], -1.0 if median is None else -median, summary["agent_model"])


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


def _measured(numbers: Summary) -> list[object]:
    levels = (ratio(numbers[f"agent_advantage_level{level}"]) for level in range(1, 5))
    return [
        *(ratio(numbers["mean_speedup"]), percent(numbers["mean_success_rate"])),
        *(ratio(numbers["agent_advantage"]), *levels, ratio(numbers["cost_weighted_advantage"])),
        f"{shown(numbers['num_valid_benchmarks'])} of {shown(numbers['num_benchmarks'])}",
        *(numbers["fallbacks"], numbers["claimed"], numbers["coverage"]["task_speedup"]),
    ]


def _trials(summary: Summary) -> str:
    planned = summary["runs_planned"]
    return shown(summary["trials"]) if planned is None else f"{shown(summary['trials'])} of {shown(planned)}"


def _gain(summary: Summary) -> list[object]:
    return [percent(summary["tier_uplift"]), summary["tier_delta"]]
