"""Trials that are counted many at once give what trials counted one by one give."""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline, fold_records
from streamer.folding.prices import PriceTable
from streamer.folding.run import join_page
from streamer.folding.slots import PageWrite
from streamer.folding.state import MissingTrials, RunState, missing_sub_trials
from streamer.folding.uncertainty import Evidence
from streamer.schemas.wire import Record, records_of_lines
from streamer.statistics.ability import Clusters, mean_interval
from tests.folding.build import AGENT, RUN, shown
from tests.golden.data import streams
from tests.support.cli import streamer
from tests.support.events import (
    Event,
    a_deletion,
    a_late_score,
    a_plan,
    a_retraction,
    a_start,
    a_trial,
    an_end,
    digests,
    folded,
    records,
    reread,
    summaries,
)
from tests.support.examples import any_of, examples
from tests.worker.deployment import trial_events

SLOT = {"run_id", "task_id", "attempt", "agent", "model", "tier"}
"""Fields that name the slot of a result."""


@examples(8)
@given(seed=st.integers(0, 99))
def test_trials_scored_together_are_taken_back_as_they_were_counted(seed: int) -> None:
    """Re-runs, retractions, another profile and a new baseline after many trials have come."""
    values = trial_events(400, runs=2, seed=seed)
    plan = a_plan(run_id="run 1", grading_profile="specified@0.7:0.3", baselines=["agent-1"])
    values.insert(300, json.dumps(plan).encode())
    together = fold_records(Record(value, offset) for offset, value in enumerate(values))
    alone = Pipeline()
    for offset, value in enumerate(values):
        alone.fold([Record(value, offset)])
        for run_id in alone.runs():
            alone.run(run_id).take_changes()
    expected = [change for run_id in sorted(alone.runs()) for change in alone.run(run_id).summaries()]
    assert [(c.key, c.digest) for c in together.summaries()] == [(c.key, c.digest) for c in expected]


def test_sub_trials_and_trials_of_their_own_are_taken_back_as_they_were_counted() -> None:
    """Many at once in, the same many at once out: nothing is left of any group or total."""
    sub_trials = [
        a_trial(task_id=f"t{n}", agent=agent, agent_index=index, resolved=n % 3 == 0, cost_usd=n / 7)
        for n in range(40)
        for index, agent in enumerate(("oracle", "alpha"), 1)
    ]
    own = [a_trial(task_id=f"t{n % 9}", attempt=n, agent="nop", score=n / 40) for n in range(1, 41)]
    pipeline, _ = folded(sub_trials + own, takes_changes=False)
    run = pipeline.run("run-1").state
    run.count()
    assert (run.totals.trials, run.totals.slots, run.totals.attempts.tasks) == (80, 120, 40)
    *missing, last = (a_retraction(**{k: v for k, v in e.items() if k in SLOT}) for e in [*sub_trials, *own])
    pipeline.fold(records(missing))
    run.count()
    assert (run.totals.trials, run.totals.slots, run.totals.attempts.tasks) == (1, 1, 1)
    pipeline.fold(records([last]))
    run.count()
    assert (run.groups, run.totals.trials, run.totals.attempts.tasks) == ({}, 0, 0)
    assert {total.count for total in run.totals.sums.values()} == {0}


# -----------------------------------------------------------------------------
# FormulaCode's block of an agent:model: the error of its mean speedup, by hand and on all real data.


def faster(speedup: float, **fields: Any) -> Event:
    """A trial with one benchmark."""
    return a_trial(benchmarks={"m.f": {"agent/nop": speedup, "oracle/nop": 2.0}}) | fields


def test_the_error_of_the_mean_speedup_by_hand() -> None:
    """inference 6.

    Task a has 3 and 5, task b has 1: the mean is 3. The sums differ from n_i times the mean by 2 and -2.
    So the error is sqrt(2/1 * (4 + 4)) / 3 = 4/3, and t with one degree of freedom is 12.706204736432095.
    """
    events = [faster(3.0), faster(5.0, attempt=2), faster(1.0, task_id="b")]
    ends = (f"formulacode.mean_speedup{end}" for end in ("", "_standard_error", "_low", "_high"))
    mean, error, low, high = shown(AGENT, " ".join(ends), events)
    assert (mean, error) == (3.0, 4 / 3)
    assert (low, high) == (pytest.approx(3 - 12.706204736432095 * 4 / 3), pytest.approx(19.941606315))


def plainly(run: RunState, agent: tuple[str, str], missing: MissingTrials) -> dict[str, list[float]]:
    """Task to the speedups that count, read from the scored slots one by one; the agent is no baseline."""
    result = defaultdict(list)
    for key, slot in run.slots.items():
        scored = run.scores.of(slot) if (key.agent, key.model) == agent else None
        if scored is not None and scored.formulacode is not None:
            if scored.formulacode.task_speedup is not None:
                result[key.task_id].append(scored.formulacode.task_speedup)
        elif scored is not None and not scored.success:
            result[key.task_id].append(1.0)
    for task in missing.tasks.elements():
        result[task].append(1.0)
    return result


def compared(pipeline: Pipeline, run_id: str) -> int:
    """Compare every agent:model of a run; how many have an error."""
    run, errors = pipeline.run(run_id), 0
    stored_of = {change.group: change.summary for change in run.summaries() if change.kind == "agent_model"}
    missing = missing_sub_trials(run.state)
    for group_id, summary in stored_of.items():
        if summary is None or summary["baseline"] or summary["formulacode"] is None:
            continue
        agent = (summary["agent"], summary["model"])
        speedups = plainly(run.state, agent, missing.get(agent, MissingTrials()))
        values = Clusters.of_sums([(len(stored), sum(map(Fraction, stored))) for stored in speedups.values()])
        stored = summary["formulacode"]
        assert stored["mean_speedup"] == values.mean(), (run_id, agent)
        assert stored["coverage"]["task_speedup"] == values.trials
        assert stored["mean_speedup_standard_error"] == values.standard_error()
        assert (stored["mean_speedup_low"], stored["mean_speedup_high"]) == (
            mean_interval(values) or (None, None)
        )
        if group_id in run.state.groups and agent not in missing:
            lineup = run.state.scores.roster.lineup(group_id)
            evidence = Evidence(run.state.groups[group_id], lineup, finished=False)
            assert sorted(evidence.lineup.speedups()) == sorted((t, v) for t in speedups for v in speedups[t])
        errors += stored["mean_speedup_standard_error"] is not None
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
    for ended in ([], [an_end()]):
        assert compared(folded([*events, *ended])[0], "run-1") > 2


# -----------------------------------------------------------------------------
# Times outside 2000 to 2199 come from a wrong clock or unit: they are missing, and counted so.


OUTSIDE = ["1970-01-01T00:00:00Z", "1999-12-31T23:59:59.999999Z"]
OUTSIDE += ["2200-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]
WITHIN = ["2000-01-01T00:00:00Z", "2199-12-31T23:59:59.999999Z", "2000-01-01T01:00:00+01:00"]
NAIVE = {"started_at": "2026-01-31T09:30:00", "finished_at": "2026-01-31T09:31:30.5"}
LATE = a_plan(started_at="0001-01-01T00:00:00Z", tasks=3), an_end(finished_at="3026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("events", "missing", "key", "names", "values"),
    [
        ([a_trial(**NAIVE)], 2, AGENT, "statistics.duration_seconds.mean", (90.5,)),
        ([a_trial(**NAIVE)], 2, RUN, "last_event_at", ("2023-11-14T22:13:20Z",)),  # of the record
        (LATE, 2, RUN, "started_at finished_at status", (None, None, "finished")),
        # A field that the schema does not know lets NaN through. It ended every worker once.
        ([a_trial(finished_at=OUTSIDE[0], note=math.nan)], 1, AGENT, "trials", (1,)),
        ([a_trial(finished_at=None, note="pydantic reads it, for this field")], 0, AGENT, "trials", (1,)),
    ],
    ids=["no zone", "no zone in the run", "of a plan and an end", "beside a NaN", "null"],
)
def test_times_without_a_zone_or_outside_2000_to_2199_are_missing_and_counted(
    events: Sequence[Event], missing: int, key: str, names: str, values: tuple[Any, ...]
) -> None:
    result = folded(events)[1]
    assert (result.counted, result.missing_times, result.rejections) == (len(events), missing, [])
    assert shown(key, names, events) == values


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_times_without_a_zone_fold_to_the_same_bytes_wherever(zone: str) -> None:
    line = json.dumps(a_trial(**NAIVE)).encode()
    outputs = [streamer("fold", "--json", "-", stdin=line, environment={"TZ": tz}) for tz in ("UTC", zone)]
    assert outputs[0].stdout == outputs[1].stdout != b""


@pytest.mark.parametrize("timestamp", [253_402_300_800_000, 1_767_225_600_000_000, 2**63 - 1])
def test_a_record_timestamp_beyond_the_calendar_is_no_time_and_ends_nothing(timestamp: int) -> None:
    pipeline = Pipeline(writer="w")
    result = pipeline.fold([Record(json.dumps(a_trial()).encode(), 0, timestamp=timestamp)])
    assert (result.counted, result.missing_times) == (1, 1)
    assert summaries(pipeline)[RUN]["last_event_at"] is None
    assert pipeline.run("run-1").take_pages()


@pytest.mark.parametrize("text", OUTSIDE)
@pytest.mark.parametrize("field", ["started_at", "finished_at"])
def test_an_implausible_time_of_a_trial_is_missing_and_its_duration_too(field: str, text: str) -> None:
    times = {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:01:00Z"}
    events = [a_trial(**times | {field: text}), a_trial(task_id="right", **times)]
    result = folded(events)[1]
    assert (result.counted, result.missing_times) == (2, 1)
    said = shown(AGENT, "trials coverage.duration_seconds last_event_at", events)
    assert said == (2, 1, "2026-01-01T00:01:00Z")


@pytest.mark.parametrize("text", WITHIN)
def test_a_plausible_time_counts(text: str) -> None:
    pipeline, result = folded([a_trial(finished_at=text)])
    assert result.missing_times == 0
    assert summaries(pipeline)[RUN]["last_event_at"] is not None


def test_an_implausible_time_does_not_decide_which_result_wins() -> None:
    late = a_trial(resolved=False, finished_at="9000-01-01T00:00:00Z")
    usual = a_trial(resolved=True, finished_at="2026-01-01T00:00:00Z")
    assert shown(AGENT, "resolved", [late, usual]) == (1,)


def test_a_state_page_of_an_earlier_version_with_a_time_beyond_the_calendar_is_read() -> None:
    pipeline, _ = folded([a_trial(finished_at="2026-01-01T00:00:00Z")], writer="w")
    [page] = pipeline.run("run-1").take_pages()
    head, _, body = (page.value or b"").partition(b"\n")
    wild = json.dumps(json.loads(head) | {"at": 1_767_225_600_000_000_000}).encode() + b"\n" + body
    run = RunState("run-1", PriceTable.default())
    join_page(run, page.key, wild)
    assert len(run.slots) == 1
    assert run.last_event_at < 0


def test_what_was_folded_and_what_is_read_from_its_page_agree() -> None:
    times = {"finished_at": "1970-01-01T00:00:00Z"}, {"revision": 1, "started_at": "9999-01-01T00:00:00Z"}
    pipeline, _ = folded([a_trial(**fields) for fields in times], writer="w")
    assert digests(reread(pipeline.run("run-1").take_pages())) == digests(pipeline)


# -----------------------------------------------------------------------------
# The same set of events gives the same digests, whatever the order, the duplicates, the pages (R17, R18).


costs = [None, 0.0, 0.1, 0.25, 1e300, 1e-320, 3.3, 7.0]
stamps = [None, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-02T00:00:00Z"]
verdicts = [True, False, None]

identities = any_of(
    {"task_id": ["t1", "t2"], "attempt": [1, 2], "agent": ["alpha", "nop", "oracle", "beta"]}
    | {"tier": [None, "T0", "T1"], "subtest": [None, None, "a", "b"]}
)
contents = any_of(
    {"revision": [0, 1, 2], "resolved": verdicts, "score": [None, 0.2, 0.9, 1.3], "cost_usd": costs}
    | {"duration_seconds": st.none() | st.floats(0, 1e5), "input_tokens": st.none() | st.integers(0, 10**6)}
    | {"started_at": stamps, "finished_at": stamps, "agent_index": [None, None, 1, 2, 3]}
    | {"tests": [None, {"status": "failed", "failed": 1}, {"status": "ok", "passed": 3}]}
    | {"failure_mode": [None, "unset", "agent_timeout", "infrastructure_error"]}
    | {"metrics": [None, None, {"reward": 0.1}, {"reward": 1e300, "style/a": -3}, {}]}
)


def of_slots(event: Callable[..., Event], content: st.SearchStrategy[Event]) -> st.SearchStrategy[Event]:
    return st.builds(lambda who, what: event(**who, **what), identities, content)


trials = of_slots(a_trial, contents)
starts = of_slots(
    a_start,
    any_of(
        {"revision": [0, 1, 2], "position": [None, 0, 1, 2, 5]}
        | {"started_at": [None, "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"]}
    ),
)
late_scores = of_slots(
    a_late_score,
    any_of(
        {"revision": [0, 1, 2], "of_revision": [None, None, 0, 1], "score": [None, 0.2, 0.9, 85.0]}
        | {"metrics": [None, {"reward": 0.7}, {"style/a": 1, "reward": 0.3}]}
        | {"resolved": [None, None, True, False]}
    ),
)
retractions = of_slots(a_retraction, any_of({"revision": [0, 1, 2]}))
plans = any_of(
    {"revision": [0, 1, 2, 3], "tasks": [None, 2, ["t1", "t2", "t3"]], "attempts": [None, 1, 2]}
    | {"agent_models": [None, ["alpha:gpt-5", "oracle:gpt-5"]], "tiers": [None, ["T0"], ["T0", "T1"]]}
    | {"order": [None, ["t1", "t2"], ["t2", "t1", "t1"], [["t1", 2], "t2"]], "planned_at": stamps}
    | {"order_kind": [None, "shuffled", "shuffled", "unknown", "chosen"], "concurrency": [None, 2]}
    | {"part": [None, None, None, "1", "2"], "parts": [None, None, 2]}
    | {"task_difficulty": [None, {"t1": 0.5, "t2": 0.25}], "plan_complete": [None, None, True, False]}
    | {"judged": [None, True, False], "verdicts": [None, None, True, False]}
    | {"provenance": [None, {"dataset": "1.0"}, {"dataset": "2.0", "seed": "7"}]}
    | {"metrics": [None, {"reward": {"direction": "lower"}}, {"other": {"unit": "USD"}}]}
    | {"primary_metric": [None, "mean_cost", "metrics/style/a"], "baseline_tier": [None, "T1"]}
    | {"grading_profile": [None, "specified", "scylla-2026", "specified@0.7:0.3"]}
    | {"baselines": [None, ["beta"]], "labels": [None, {"a": "1"}, {"a": "2", "b": "3"}]}
).map(lambda fields: a_plan(**fields))
finishes = any_of(
    {"try": [None, 1, 2], "revision": [0, 1, 2], "scores_pending": [None, None, True, False]}
    | {"status": [None, "done", "success", "error", "cancelled"], "part": [None, None, "1", "2"]}
).map(lambda fields: an_end(**fields))
deletions = st.builds(a_deletion, revision=st.integers(-1, 1))
anything = st.one_of(
    *(trials, trials, trials, starts, starts, late_scores, late_scores),
    *(retractions, plans, finishes, deletions),
)
undeclared = st.builds(
    lambda plan, begun, results, more: [plan, *begun, *results, *more],
    st.builds(a_plan, tasks=st.sampled_from([2, ["t1", "t2"]]), attempts=st.integers(1, 2)),
    st.lists(starts.map(lambda start: start | {"agent": "gamma"}), min_size=1, max_size=3),
    st.lists(trials, min_size=1, max_size=6),
    st.lists(st.one_of(starts, late_scores, retractions, finishes), max_size=3),
).flatmap(st.permutations)
"""A plan without tiers and subtests, which results show one by one, and an agent that only starts trials."""

events = st.one_of(st.lists(anything, max_size=14), undeclared)


def said(pipeline: Pipeline) -> tuple[dict[str, str], dict[str, dict[str, str]], dict[str, int]]:
    """The digests of all summaries and comparisons, the tasks of each run, and its impoverished results."""
    impoverished = {run_id: pipeline.run(run_id).state.impoverished for run_id in pipeline.runs()}
    tasks = {run_id: pipeline.run(run_id).comparisons.tasks() for run_id in pipeline.runs()}
    counted = {run_id: count for run_id, count in impoverished.items() if count}
    return digests(pipeline), {run_id: stored for run_id, stored in tasks.items() if stored}, counted


@examples(250)
@given(events, st.randoms(use_true_random=False))
def test_any_order_and_duplicates_give_the_same_digests(
    arrived: list[dict[str, Any]], rng: random.Random
) -> None:
    shuffled = arrived + rng.sample(arrived, len(arrived) // 2)
    rng.shuffle(shuffled)
    assert said(folded(shuffled)[0]) == said(folded(arrived)[0])


@examples(100)
@given(events, st.randoms(use_true_random=False))
def test_pages_of_several_writers_join_to_one_state(
    arrived: list[dict[str, Any]], rng: random.Random
) -> None:
    pages: dict[str, PageWrite] = {}
    cuts = sorted(rng.randrange(len(arrived) + 1) for _ in range(2))
    for number, part in enumerate((arrived[: cuts[1]], arrived[cuts[0] :])):
        writer = Pipeline(writer=f"w{number}")
        for record in records(part):
            for run_id in writer.fold([record]).touched:
                pages |= {page.key: page for page in writer.run(run_id).take_pages()}
    repeated = [*pages.values()] * 2
    rng.shuffle(repeated)
    assert said(reread(repeated)) == said(folded(arrived)[0])


@examples(60)
@given(events)
def test_nothing_changed_means_nothing_is_cut(arrived: list[dict[str, Any]]) -> None:
    pipeline, result = folded(arrived)
    for run_id in result.touched:
        pipeline.run(run_id).take_changes()
    again = pipeline.fold(records(arrived))
    for run_id in again.touched:
        assert pipeline.run(run_id).take_changes().summaries == []


few = st.sampled_from(["T0", "T1", None]), st.sampled_from(["s1", "s2"]), st.sampled_from("ab")
close_to_each_other = st.one_of(
    *[
        st.builds(
            lambda tier, subtest, agent, resolved, score: a_trial(
                tier=tier, subtest=tier and subtest, agent=agent, resolved=resolved, score=score
            ),
            *few,
            st.booleans(),
            st.sampled_from([None, 0.25, 0.5]),
        )
    ]
    * 2,
    st.builds(
        lambda tier, subtest, agent: a_retraction(tier=tier, subtest=tier and subtest, agent=agent), *few
    ),
    any_of(
        {"tasks": [1, 2], "attempts": [1], "revision": st.integers(1, 9)}
        | {"tiers": [None, ["T0"], ["T0", "T1"]]}
    ).map(lambda fields: a_plan(**fields)),
)
"""Events of two agents at one task, of which one often changes what another one's summary says."""

T0, S1, S2 = {"tier": "T0"}, {"tier": "T0", "subtest": "s1"}, {"tier": "T0", "subtest": "s2"}
COME_AND_GONE = [
    [a_trial()],
    [a_plan(tasks=2, attempts=1, revision=1), *(a_trial(**S1, agent=agent) for agent in "ab")],
    [a_plan(tasks=1, attempts=1, revision=2)],
    [a_trial(**S2, agent="a")],
]
SUBTESTS_SWAP = [
    [a_trial(), a_plan(tasks=2, attempts=1), a_trial(**S1), a_trial(**S2)],
    [a_trial(**S1, agent="b"), a_trial(tier="T1", subtest="s1")],
    [a_retraction(**S2), a_trial(tier="T1", subtest="s2")],
]
ANOTHER_TIER = [
    [a_trial(), a_plan(tasks=10, attempts=1)],
    [a_trial(task_id=f"t{n}", agent="ab"[n % 2], tier="T0") for n in range(3)],
    [a_trial(task_id="t3", agent="b", tier="T1")],
]
BASELINE_TIER = [
    [a_trial(**T0, resolved=False), a_trial(**T0, task_id="t2"), a_trial(tier="T1")],
    [a_trial(**T0, task_id="t3")],
]
portions = st.one_of(
    events.map(lambda arrived: [[event] for event in arrived]),
    st.lists(st.lists(close_to_each_other, min_size=1, max_size=3), max_size=6),
)


@examples(400)
@example(COME_AND_GONE)
@example(SUBTESTS_SWAP)
@example(ANOTHER_TIER)
@example(BASELINE_TIER)
@given(portions)
def test_what_was_cut_along_the_way_is_what_stands_whoever_looks(arrived: list[list[Event]]) -> None:
    looked_at, alone = Pipeline(), Pipeline()
    published: dict[tuple[str, str], bytes | None] = {}
    tasks: dict[str, dict[str, str]] = {}
    for portion in arrived:
        looked_at.fold(records(portion))
        for run_id in alone.fold(records(portion)).touched:
            current = looked_at.run(run_id).summaries()
            cuts = [pipeline.run(run_id).take_changes() for pipeline in (looked_at, alone)]
            assert cuts[0].summaries == cuts[1].summaries
            gone = {(change.kind, change.key) for change in cuts[1].summaries if change.value is None}
            assert all(published[key] is not None for key in gone)
            published |= {(change.kind, change.key): change.value for change in cuts[1].summaries}
            stand = {key: value for key, value in published.items() if key[0] != "scored"}
            assert digests_of(stand) == {(change.kind, change.key): change.digest for change in current}
            published |= {("scored", trial.key): trial.value for trial in cuts[1].scored}
            if cuts[1].tasks is not None:
                tasks[run_id] = cuts[1].tasks.fields
    at_once = folded([event for portion in arrived for event in portion])[0]
    runs = [at_once.run(run_id) for run_id in at_once.runs()]
    scored = {("scored", trial.key): trial.value for run in runs for trial in run.take_changes().scored}
    stand = {key: value for key, value in published.items() if key[0] == "scored"}
    assert digests_of(stand) == digests_of(scored)
    assert {run_id: stored for run_id, stored in tasks.items() if stored} == said(at_once)[1]


def digests_of(values: dict[tuple[str, str], bytes | None]) -> dict[tuple[str, str], str]:
    return {key: json.loads(value)["digest"] for key, value in values.items() if value is not None}
