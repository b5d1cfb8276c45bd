"""Summaries as tables of text for people: the terminal prints them, Markdown and HTML write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from streamer.client.lifecycle import State, state_and_status
from streamer.text import dollars, percent, ratio, shown
from streamer.views.wording import (
    MIXED,
    accuracy,
    accuracy_name,
    basis,
    best_first,
    grade,
    pass_at_k,
)

Summary = Mapping[str, Any]


class Table(NamedTuple):
    """One table.

    Attributes:
        title: stands above it.
        columns: their heads.
        rows: values; None is unknown. What agents wrote stands in them as it is: escape it.
        names: so many first columns hold names, the others numbers and words.
        note: stands below it; "": nothing does.
    """

    title: str
    columns: Sequence[str]
    rows: list[list[object]]
    names: int = 1
    note: str = ""


def agents_table(agents: Iterable[Summary]) -> Table:
    """The agents of a run, the highest pass rate first, baselines last."""
    rows = sorted(agents, key=best_first)
    outcome = _OutcomeColumns(rows)
    cells = [[_agent(row), *outcome.cells(row)] for row in rows]
    return Table("Agents", ("agent:model", *outcome.columns), cells, note=outcome.note)


def formulacode_table(agents: Iterable[Summary]) -> Table:
    """FormulaCode's means, one agent a row; no rows where no agent has them."""
    columns = (
        *("agent:model", "mean speedup", "success rate", "advantage", "level 1", "level 2", "level 3"),
        *("level 4", "per USD", "valid benchmarks", "fell back", "missing", "claimed", "with a speedup"),
    )
    measured = [agent for agent in sorted(agents, key=best_first) if agent["formulacode"]]
    rows = [[_agent(agent), *_measured(agent["formulacode"])] for agent in measured]
    return Table("FormulaCode", columns, rows)


def tiers_tables(tiers: Iterable[Summary]) -> list[Table]:
    """The tiers of a run, pooled; and per agent:model where there are several."""
    held = list(tiers)
    pooled = [tier for tier in held if tier["agent_model"] is None]
    single = [tier for tier in held if tier["agent_model"] is not None]
    tables = [_gains_table("Tiers", ("tier",), pooled)]
    if len({tier["agent_model"] for tier in single}) > 1:
        tables.append(_gains_table("Agents within tiers", ("tier", "agent_model"), single))
    return tables


def subtests_table(subtests: Iterable[Summary]) -> Table:
    """Tiers broken down by subtest."""
    rows = [{**subtest, "agent_model": subtest["agent_model"] or "all"} for subtest in subtests]
    return _gains_table("Subtests", ("tier", "subtest", "agent_model"), rows)


def _gains_table(title: str, names: Sequence[str], groups: Sequence[Summary]) -> Table:
    """Groups with what they gain over the baseline tier."""
    outcome = _OutcomeColumns(groups)
    heads = [name.replace("_", ":") for name in names]
    rows = [[*(group[name] for name in names), *outcome.cells(group), *_gain(group)] for group in groups]
    columns = (*heads, *outcome.columns, "uplift", "delta")
    return Table(title, columns, rows, len(names), outcome.note)


def trials_table(trials: Sequence[Summary]) -> Table:
    """Scored trials, one line each."""
    shards = ("shard",) if any(trial["shard"] for trial in trials) else ()
    places = (*shards, "tier", "subtest", "task_id", "attempt", "agent_model")
    judged = any(trial["composite_score"] is not None for trial in trials)
    scores = ("composite_score", "grade") if judged else ()
    numbers = (*scores, "cost_usd", "duration_seconds", "failure_mode")
    rows = [[*(t[name] for name in places), _verdict(t), *(t[name] for name in numbers)] for t in trials]
    return Table("Trials", (*places, "resolved", *numbers), rows, names=len(places))


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
        f"{run['resolved']} of {run['trials']} trials resolved: {accuracy_name(run)} {accuracy(run)}, "
        f"{run['no_verdict']} without a verdict, {run['tasks']} tasks, "
        f"{_pass_at_k_of_run(run)}, cost {dollars(run['total_cost'])}",
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


def progress(run: Summary) -> str:
    """How far a run is: `12 of 80 trials in, provisional`."""
    done, planned = run["progress"]["done"], run["progress"]["planned"]
    text = f"{done} trials in, none planned" if planned is None else f"{done} of {planned} planned trials in"
    return f"{text}, provisional" if run["provisional"] else text


def _pass_at_k_of_run(run: Summary) -> str:
    if run["pass_at_k"] is None:
        return "pass@k by agent only"
    return f"pass@k {pass_at_k(run)}"


def _verdict(trial: Summary) -> object:
    """The verdict; a derived one says so (R27)."""
    if trial["verdict_source"] != "derived":
        return trial["resolved"]
    return f"{shown(trial['resolved'])} (derived)"


def _agent(summary: Summary) -> str:
    return f"{summary['agent_model']} (baseline)" if summary["baseline"] else str(summary["agent_model"])


class _OutcomeColumns:
    """The columns that boards of agents, tiers and subtests share; those that no row needs are left out."""

    def __init__(self, groups: Sequence[Summary]) -> None:
        self._judged = any(group["statistics"]["composite_score"]["count"] for group in groups)
        self._excluded = any(group["infrastructure_failures"] for group in groups)
        self.note = MIXED if any(group["pass_at_k"] is None for group in groups) else ""

    @property
    def columns(self) -> list[str]:
        """Their heads."""
        infrastructure = ["infra. failures", "accuracy without"] if self._excluded else []
        composite = ["composite"] if self._judged else []
        return [
            *("trials", "pass rate", "accuracy", *infrastructure, "pass@k", *composite),
            *("grade", "rests on", "mean cost", "cost of pass"),
        ]

    def cells(self, group: Summary) -> list[object]:
        """Their values."""
        without = percent(group["accuracy_excluding_infrastructure"])
        infrastructure = [group["infrastructure_failures"], without] if self._excluded else []
        composite = [group["statistics"]["composite_score"]["median"]] if self._judged else []
        return [
            *(_trials(group), percent(group["statistics"]["pass_rate"]["mean"]), percent(group["accuracy"])),
            *(*infrastructure, pass_at_k(group), *composite, grade(group), basis(group)),
            *(dollars(group["mean_cost"]), dollars(group["cost_of_pass"])),
        ]


def _measured(numbers: Summary) -> list[object]:
    levels = (ratio(numbers[f"agent_advantage_level{level}"]) for level in range(1, 5))
    return [
        *(ratio(numbers["mean_speedup"]), percent(numbers["mean_success_rate"])),
        *(ratio(numbers["agent_advantage"]), *levels, ratio(numbers["cost_weighted_advantage"])),
        f"{shown(numbers['num_valid_benchmarks'])} of {shown(numbers['num_benchmarks'])}",
        *(numbers["fallbacks"], numbers["missing"], numbers["claimed"], numbers["coverage"]["task_speedup"]),
    ]


def _trials(summary: Summary) -> str:
    planned = summary["runs_planned"]
    return shown(summary["trials"]) if planned is None else f"{shown(summary['trials'])} of {shown(planned)}"


def _gain(summary: Summary) -> list[object]:
    return [percent(summary["tier_uplift"]), summary["tier_delta"]]
