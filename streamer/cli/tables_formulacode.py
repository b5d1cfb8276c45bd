"""FormulaCode's numbers for people, in 80 columns: as fc-eval's `runs summarize`, and what that lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streamer.cli.board_lines import print_board
from streamer.cli.printing import UNSEEN, dollars, percent, print_line, print_table, shown, visible
from streamer.text import counted, ratio
from streamer.views.tables import failures_table

Summary = Mapping[str, Any]

AGENTS_ABREAST = 3
"""So many agents stand beside one another: more do not fit in 80 columns."""
AGENT_WIDTH = 15
"""Columns of an agent's name; longer ones take several lines."""
FALLBACKS_SHOWN = 20
"""So many fallbacks of a run are listed; the count names them all."""

ALLOWED = ", no more than the oracle's"
"""Why failed tests are no failure (D8)."""

_LEVELS = {
    "agent_advantage": "agent advantage",
    "agent_advantage_level1": "  level 1, modules",
    "agent_advantage_level2": "  level 2, classes",
    "agent_advantage_level3": "  level 3, functions",
    "agent_advantage_level4": "  level 4, all",
}
_NOT_THERE = {"missing": "are missing", "unparsable": "cannot be read"}


def print_formulacode(
    run: Summary | None, agents: Sequence[Summary], fallbacks: Sequence[Summary] | None
) -> None:
    """FormulaCode's part of a run; nothing where no agent has its numbers.

    Args:
        run: the run's summary.
        agents: agent:model summaries in the order in which they are shown.
        fallbacks: scored trials that fell back to baseline; None where the trials are not at hand.
    """
    measured = [agent for agent in agents if agent["formulacode"]]
    if not measured:
        return
    title = "FormulaCode: means over trials"
    for start in range(0, len(measured), AGENTS_ABREAST):
        abreast = measured[start : start + AGENTS_ABREAST]
        columns = [list(_lines(agent)) for agent in abreast]
        heads = ("", *(_name(agent) for agent in abreast))
        rows = ([label, *(column[row][1] for column in columns)] for row, (label, _) in enumerate(columns[0]))
        print_table(title, heads, rows)
        title = "FormulaCode, continued"
    if run:
        _print_run_lines(run)
    if any(agent["formulacode"]["fallbacks"] for agent in measured):
        _print_fallbacks(fallbacks)


def _lines(agent: Summary) -> Iterator[tuple[str, object]]:
    """(what, value) for one agent, the same in every column."""
    numbers, trials = agent["formulacode"], agent["trials"]
    gmeans, coverage = numbers["agent_advantages_gmean"] or {}, numbers["coverage"]

    def of_trials(count: int) -> str:
        return f"{shown(count)} of {shown(trials)}"

    yield "mean speedup", ratio(numbers["mean_speedup"])
    yield "mean success rate", percent(numbers["mean_success_rate"])
    yield from ((label, ratio(numbers[name])) for name, label in _LEVELS.items())
    yield (
        "valid benchmarks",
        f"{shown(numbers['num_valid_benchmarks'])} of {shown(numbers['num_benchmarks'])}",
    )
    yield "mean cost per task", dollars(numbers["mean_cost_per_task"])
    yield "cost-weighted advantage", ratio(numbers["cost_weighted_advantage"])
    yield "mean trajectory length", numbers["mean_trajectory_length"]
    yield from ((label.replace("agent", "gmean"), ratio(gmeans.get(name))) for name, label in _LEVELS.items())
    yield "trials with a speedup", of_trials(coverage["task_speedup"])
    yield "  with an advantage", of_trials(coverage["agent_advantage"])
    yield "  ... only claimed", of_trials(numbers["claimed"])
    yield "  with a cost", of_trials(agent["coverage"]["cost_usd"])
    yield "  with a length", of_trials(agent["coverage"]["trajectory_length"])
    yield "fell back to baseline", of_trials(numbers["fallbacks"])
    yield "planned, never came", numbers["missing"]


def _print_run_lines(run: Summary) -> None:
    """The numbers of `runs summarize` for the run besides accuracy and pass@k, which the header has."""
    speedup = run["mean_speedup_percentage"]
    tokens, trials = run["tokens"], run["trials"]
    if speedup is not None:
        print_line(f"Mean speedup of the deciding agents: {shown(speedup)} %")
    print_line(f"Tokens: {_tokens(tokens, 'input', trials)}, {_tokens(tokens, 'output', trials)}")
    print_line()
    print_board(failures_table(run))


def _tokens(tokens: Summary, kind: str, trials: int) -> str:
    total = tokens[kind]
    if total is None:
        return f"{kind} {UNSEEN}"
    return f"{kind} {shown(total)}" + (f" ({shown(round(total / trials))} per trial)" if trials else "")


def _print_fallbacks(fallbacks: Sequence[Summary] | None) -> None:
    if fallbacks is None:
        print_line("Who fell back and why: streamer query trials RUN --task TASK")
        print_line()
        return
    print_line(f"Fell back to baseline ({shown(len(fallbacks))}):")
    for trial in fallbacks[:FALLBACKS_SHOWN]:
        print_line(f"  {_place(trial)}")
        print_line(f"    {trial['agent_model']}: {why_failed(trial['formulacode'])}")
    if len(fallbacks) > FALLBACKS_SHOWN:
        print_line(f"  and {shown(len(fallbacks) - FALLBACKS_SHOWN)} more")
    print_line()


def print_payload(trial: Summary) -> None:
    """One scored trial's task payload: numbers, tests, benchmarks; nothing where it has none."""
    payload = trial["formulacode"]
    if not payload:
        return
    print_line(f"{trial['agent_model']} on {_place(trial)}")
    print_line(f"  {_outcome(payload)}")
    print_line(
        f"  task speedup {ratio(payload['task_speedup'])}, cost {dollars(payload['task_cost_usd'])}, "
        f"trajectory length {shown(payload['trajectory_length'])}"
    )
    levels = ", ".join(ratio(payload[f"agent_advantage_level{level}"]) for level in range(1, 5))
    claimed = ", only claimed by the log" if payload["claimed"] else ""
    print_line(f"  advantage {ratio(payload['agent_advantage'])} (levels 1 to 4: {levels}){claimed}")
    tests = payload["pytest_summary"]
    allowed = tests and tests["status"] == "failed" and not payload["pytest_failed"]
    _print_counts("tests", tests, ("passed", "failed", "error", "skipped"), ALLOWED if allowed else "")
    _print_counts("snapshot", payload["snapshot_summary"], ("passed", "failed", "skipped", "pass_to_fail"))
    _print_benchmarks(payload)
    print_line()


def why_failed(payload: Summary) -> str:
    """Why a trial counts as failed, from its payload.

    >>> tests = {"status": "failed", "failed_total": 3}
    >>> why_failed({"pytest_failed": True, "pytest_summary": tests, "snapshot_failed": False})
    '3 tests failed'
    """
    tests, snapshot = payload["pytest_summary"] or {}, payload.get("snapshot_summary") or {}
    reasons = []
    if payload["pytest_failed"]:
        absent = _NOT_THERE.get(tests.get("status", ""))
        failed = tests.get("failed_total") or 0
        words = f"{counted(failed, 'test')} failed" if failed else "tests failed"
        reasons.append(f"test results {absent}" if absent else words)
    if payload["snapshot_failed"]:
        absent = _NOT_THERE.get(snapshot.get("status", ""))
        worse = snapshot.get("pass_to_fail")
        words = f"snapshot failed, {_count(worse)} from pass to fail" if worse else "snapshot failed"
        reasons.append(f"snapshot results {absent}" if absent else words)
    return "; ".join(reasons) or "neither tests nor snapshot failed"


def _outcome(payload: Summary) -> str:
    if payload["success"]:
        return "success"
    if payload["fallback_to_baseline"]:
        return f"fell back to baseline: {why_failed(payload)}"
    return f"no success: {why_failed(payload)}"


def _print_counts(what: str, counts: Summary | None, names: Sequence[str], remark: str = "") -> None:
    if counts is None:
        print_line(f"  {what}: do not apply")
        return
    told = ", ".join(f"{_count(counts[n])} {n.replace('_', ' ')}" for n in names if counts[n] is not None)
    total = "" if counts["total"] is None else f" of {shown(counts['total'])}"
    print_line(f"  {what} {counts['status']}{remark}" + (f": {told}{total}" if told else ""))


def _count(value: float) -> str:
    """A count, which may come as a float."""
    return shown(int(value)) if float(value).is_integer() else shown(value)


def _print_benchmarks(payload: Summary) -> None:
    speedups = payload["per_benchmark_speedups"]
    if speedups is None:
        print_line("  benchmarks: not measured")
        return
    print_line(
        f"  {shown(payload['num_valid_benchmarks'])} of {shown(payload['num_benchmarks'])} benchmarks valid"
    )
    if speedups:
        print_line(f"  {'agent/nop':>11}{'oracle/nop':>12}{'advantage':>11}   benchmark")
    for name, found in speedups.items():
        values = (found["agent/nop"], found["oracle/nop"], found["advantage"])
        agent, oracle, advantage = map(ratio, values)
        mark = "*" if found.get("fallback_to_baseline") else " "
        print_line(f"  {agent:>10}{mark}{oracle:>12}{advantage:>11}   {name}")
    if any(found.get("fallback_to_baseline") for found in speedups.values()):
        print_line("  * reset to 1 by the fallback")
    if payload["benchmarks_left_out"]:
        print_line(f"  and {shown(payload['benchmarks_left_out'])} between the slowest and the fastest")


def _place(trial: Summary) -> str:
    shard = f"{trial['shard']}: " if trial["shard"] else ""
    return f"{shard}{trial['task_id']}, attempt {trial['attempt']}"


def _name(agent: Summary) -> str:
    """An agent's name in lines of at most AGENT_WIDTH, broken after `:` and `/` where that helps."""
    label = visible(agent["agent_model"]) + (" (baseline)" if agent["baseline"] else "")
    lines = [""]
    for piece in re.findall(r"[^:/ -]*[:/ -]?", label):
        if len(lines[-1] + piece) > AGENT_WIDTH:
            lines.append("")
        lines[-1] += piece
    return "\n".join(cut for line in lines for cut in _cut(line.strip()) if cut)


def _cut(line: str) -> list[str]:
    return [line[at : at + AGENT_WIDTH] for at in range(0, len(line), AGENT_WIDTH)]
