"""FormulaCode's block of an agent:model: the error of its mean speedup, by hand and on all real data."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction
from typing import Any

import orjson
import pytest

from streamer.folding.fold import Pipeline, fold_records
from streamer.folding.state import RunState
from streamer.folding.summaries import MissingTrials, missing_sub_trials
from streamer.folding.uncertainty import Evidence
from streamer.schemas.wire import records_of_lines
from streamer.statistics.ability import Clusters, mean_interval
from tests.golden.data import streams
from tests.support.events import Event, a_plan, a_retraction, a_trial, folded, summarised

AGENT = "agent_model run-1|terminus:gpt-5"
FINISHED = {"type": "run_finished", "run_id": "run-1"}


def faster(speedup: float, **fields: Any) -> Event:
    """A trial with one benchmark."""
    return a_trial(benchmarks={"m.f": {"agent/nop": speedup, "oracle/nop": 2.0}}) | fields


def error_of(*events: Event, key: str = AGENT) -> tuple[float | None, ...]:
    """Mean, standard error, and both ends of the interval."""
    held = summarised(events)[key]["formulacode"]
    return tuple(held[f"mean_speedup{end}"] for end in ("", "_standard_error", "_low", "_high"))


def test_the_error_of_the_mean_speedup_by_hand() -> None:
    """inference 6.

    Task a has 3 and 5, task b has 1: the mean is 3. The sums differ from n_i times the mean by 2 and -2.
    So the error is sqrt(2/1 * (4 + 4)) / 3 = 4/3, and t with one degree of freedom is 12.706204736432095.
    """
    mean, error, low, high = error_of(faster(3.0), faster(5.0, attempt=2), faster(1.0, task_id="b"))
    assert (mean, error) == (3.0, 4 / 3)
    assert (low, high) == (pytest.approx(3 - 12.706204736432095 * 4 / 3), pytest.approx(19.941606315))


def test_a_failure_without_sections_counts_with_its_1_and_what_was_not_measured_does_not() -> None:
    """R21; 4, 1 and 1 have the mean 2, and each task differs from it by 2, -1 and -1."""
    crash = a_trial(task_id="crash", resolved=None, failure_mode="agent_timeout")
    broken = faster(9.0, task_id="broken", resolved=False)
    unmeasured = a_trial(task_id="unmeasured", tests={"status": "ok"})
    assert error_of(faster(4.0), crash, broken, unmeasured)[:2] == (2.0, 1.0)


def test_a_planned_agent_without_a_sub_trial_counts_with_1_once_the_run_has_finished() -> None:
    """R21; as above, and the agent that never came has 1.0 in each of the three tasks."""
    plan = a_plan(agent_models=["terminus:gpt-5", "other:m", "never:m"], tasks=3, attempts=1)
    others = [a_trial(agent="other", model="m", agent_index=2, task_id=task) for task in "abc"]
    events = [plan, *others, faster(4.0, task_id="a", agent_index=1)]
    assert error_of(*events)[1:] == (None, None, None), "one task"
    assert error_of(*events, FINISHED)[:2] == (2.0, 1.0)
    assert error_of(*events, FINISHED, key="agent_model run-1|never:m") == (1.0, 0.0, 1.0, 1.0)


def test_baselines_have_no_error_and_neither_has_one_task() -> None:
    tasks = [faster(2.0, task_id=task, agent="oracle", model="oracle") for task in "abc"]
    assert error_of(*tasks, key="agent_model run-1|oracle:oracle") == (2.0, None, None, None)
    assert error_of(faster(2.0), faster(3.0, attempt=2)) == (2.5, None, None, None)


def test_a_result_that_changes_takes_its_speedup_with_it() -> None:
    rest = [faster(float(n), task_id=f"t{n}") for n in range(1, 5)]
    corrected = [*rest, faster(9.0, task_id="t9"), a_retraction(task_id="t9", revision=1)]
    assert error_of(*corrected) == error_of(*rest)
    without = a_trial(task_id="t9", resolved=False, revision=1)
    assert error_of(*corrected[:-1], without) == error_of(*rest, without) == error_of(*rest, faster(1.0))


def plainly(run: RunState, agent: tuple[str, str], missing: MissingTrials) -> dict[str, list[float]]:
    """Task to the speedups that count, read from the scored slots one by one; the agent is no baseline."""
    found = defaultdict(list)
    for key, slot in run.slots.items():
        scored = run.scores.of(slot) if (key.agent, key.model) == agent else None
        if scored is not None and scored.formulacode is not None:
            if scored.formulacode.task_speedup is not None:
                found[key.task_id].append(scored.formulacode.task_speedup)
        elif scored is not None and not scored.success:
            found[key.task_id].append(1.0)
    for task in missing.tasks.elements():
        found[task].append(1.0)
    return found


def compared(pipeline: Pipeline, run_id: str) -> int:
    """Compare every agent:model of a run; how many have an error."""
    run, errors = pipeline.run(run_id), 0
    summaries = {change.group: change.summary for change in run.summaries() if change.kind == "agent_model"}
    missing = missing_sub_trials(run.state)
    for group_id, summary in summaries.items():
        if summary is None or summary["baseline"] or summary["formulacode"] is None:
            continue
        agent = (summary["agent"], summary["model"])
        speedups = plainly(run.state, agent, missing.get(agent, MissingTrials()))
        values = Clusters.of_sums([(len(held), sum(map(Fraction, held))) for held in speedups.values()])
        held = summary["formulacode"]
        assert held["mean_speedup"] == values.mean(), (run_id, agent)
        assert held["coverage"]["task_speedup"] == values.trials
        assert held["mean_speedup_standard_error"] == values.standard_error()
        assert (held["mean_speedup_low"], held["mean_speedup_high"]) == (
            mean_interval(values) or (None, None)
        )
        if group_id in run.state.groups and agent not in missing:
            lineup = run.state.scores.roster.lineup(group_id)
            evidence = Evidence(run.state.groups[group_id], lineup, finished=False)
            assert sorted(evidence.lineup.speedups()) == sorted((t, v) for t in speedups for v in speedups[t])
        errors += held["mean_speedup_standard_error"] is not None
    return errors


def test_the_speedups_behind_the_error_are_those_of_the_mean_in_all_real_data() -> None:
    errors = 0
    for name, events in streams():
        if name.startswith("formulacode"):
            folding = fold_records(records_of_lines(map(orjson.dumps, events)))
            errors += sum(compared(folding.pipeline, run_id) for run_id in folding.runs())
    assert errors > 10


@pytest.mark.parametrize("seed", range(8))
def test_the_speedups_behind_the_error_are_those_of_the_mean_whatever_comes_and_goes(seed: int) -> None:
    rng, planned = random.Random(seed), [f"a{number}:m" for number in range(5)]
    events: list[Event] = [a_plan(agent_models=planned, tasks=6, attempts=2)]
    for _ in range(80):
        agent = rng.randrange(4)
        where = {"agent": f"a{agent}", "model": "m", "task_id": f"t{rng.randrange(5)}"}
        where |= {"attempt": rng.choice((1, 2)), "revision": rng.randrange(3)}
        if rng.random() < 0.1:
            events.append(a_retraction(**where))
            continue
        where |= {"agent_index": rng.choice((agent + 1, None)), "resolved": rng.random() < 0.7}
        events.append(rng.choice((a_trial(**where), faster(rng.uniform(0.5, 4.0), **where))))
    for ended in ([], [FINISHED]):
        assert compared(folded([*events, *ended])[0], "run-1") > 2
