"""The lines above the tables: a run's name, progress, numbers and cost. Pure."""

from __future__ import annotations

from streamer.client.lifecycle import State, plan_words, state_and_status
from streamer.schemas.summaries import RunSummary
from streamer.text import counted, dollars, percent, visible
from streamer.views.budget import budget_of, budget_words
from streamer.views.estimate import end_words, usd_words
from streamer.views.eta import Eta
from streamer.views.formatting import bar, finite, largest_k, of_planned, share_of_pass
from streamer.views.wording import accuracy, accuracy_name
from streamer.watch.boards import name_of

BAR_LEAST, BAR_MOST = 10, 60


def title_of(run: RunSummary, state: State) -> str:
    """The run, its state, and its harness's word for the end."""
    about = (run.harness, run.benchmark, run.benchmark_version)
    standing = state_and_status(state, run.status)
    name = name_of(run) + (f" ({visible(run.run_id)})" if run.display_name else "")
    return " · ".join([name, *(visible(part) for part in about if part), visible(standing)])


def progress_line(run: RunSummary, pace: Eta, width: int) -> str:
    """A bar and the counts; without a plan the counts alone, and why."""
    done, planned = run.progress.done, run.progress.planned
    count = f"{of_planned(done, planned)} trial{'s' * ((planned or done) != 1)}"
    count += f", {run.in_flight:,} running" if run.in_flight and run.status is None else ""
    if pace.share is None:
        return ", ".join(filter(None, [count if run.in_flight else f"{count} in", plan_words(run)]))
    text = f"{percent(pace.share)}  {count}"
    return f"{bar(pace.share, max(BAR_LEAST, min(BAR_MOST, width - len(text) - 2)))}  {text}"


def end_line(run: RunSummary, pace: Eta) -> str:
    """When the run will end, as a forecast; "" where that is not known, or nothing is awaited."""
    if run.last_event_at is None or pace.seconds_left is None or not pace.seconds_left.high:
        return ""
    return end_words(run.last_event_at, pace.seconds_left)


def outcome_line(run: RunSummary, width: int) -> str:
    """Accuracy and pass@k, of the latter the first and the last; and as much more as fits."""
    parts = [f"{accuracy_name(run)} {accuracy(run)}"]
    if run.pass_at_k is None:
        parts.append("pass@k by agent only")
    elif "1" in run.pass_at_k:
        parts.append(f"pass@1 {share_of_pass(run.pass_at_k, '1')}")
    if most := largest_k(run.pass_at_k):
        parts.append(f"pass@{most} {share_of_pass(run.pass_at_k, most)}")
    parts.append(f"{run.resolved:,} of {run.trials:,} resolved")
    if run.no_verdict:
        parts.append(f"{run.no_verdict:,} no verdict")
    parts.append(counted(run.tasks, "task"))
    while len(parts) > 1 and len(" · ".join(parts)) > width:
        parts.pop()
    return " · ".join(parts)


def budget_line(run: RunSummary, pace: Eta, budget_usd: float | None) -> str:
    """What becomes of the budget; "" without one."""
    if budget_usd is None:
        return ""
    return budget_words(budget_of(budget_usd, finite(run.total_cost), pace), run.last_event_at)


def cost_line(run: RunSummary, pace: Eta) -> str:
    """Cost so far, burn rate and projected total."""
    if run.total_cost is None:
        return "cost unknown"
    parts = [f"cost {dollars(run.total_cost)}"]
    if pace.usd_per_hour is not None:
        parts.append(f"{dollars(pace.usd_per_hour)} per hour")
    if pace.projected_usd is not None and pace.projected_usd.high > pace.projected_usd.low:
        parts.append(usd_words(pace.projected_usd))
    return " · ".join(parts)
