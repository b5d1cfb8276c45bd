"""Trials that are counted many at once give what trials counted one by one give."""

from __future__ import annotations

import json
import random
from collections import defaultdict
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
from tests.folding.build import AGENT, RUN
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
    summarised,
)
from tests.support.examples import examples
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
    missing = [a_retraction(**{k: v for k, v in e.items() if k in SLOT}) for e in own[:39] + sub_trials]
    pipeline.fold(records(missing))
    run.count()
    assert (run.totals.trials, run.totals.slots, run.totals.attempts.tasks) == (1, 1, 1)
    last = a_retraction(**{k: v for k, v in own[39].items() if k in SLOT})
    pipeline.fold(records([last]))
    run.count()
    assert (run.groups, run.totals.trials, run.totals.attempts.tasks) == ({}, 0, 0)
    assert {total.count for total in run.totals.sums.values()} == {0}


# -----------------------------------------------------------------------------
# FormulaCode's block of an agent:model: the error of its mean speedup, by hand and on all real data.


def faster(speedup: float, **fields: Any) -> Event:
    """A trial with one benchmark."""
    return a_trial(benchmarks={"m.f": {"agent/nop": speedup, "oracle/nop": 2.0}}) | fields


def error_of(*events: Event, key: str = AGENT) -> tuple[float | None, ...]:
    """Mean, standard error, and both ends of the interval."""
    stored = summarised(events)[key]["formulacode"]
    return tuple(stored[f"mean_speedup{end}"] for end in ("", "_standard_error", "_low", "_high"))


def test_the_error_of_the_mean_speedup_by_hand() -> None:
    """inference 6.

    Task a has 3 and 5, task b has 1: the mean is 3. The sums differ from n_i times the mean by 2 and -2.
    So the error is sqrt(2/1 * (4 + 4)) / 3 = 4/3, and t with one degree of freedom is 12.706204736432095.
    """
    mean, error, low, high = error_of(faster(3.0), faster(5.0, attempt=2), faster(1.0, task_id="b"))
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
    summaries = {change.group: change.summary for change in run.summaries() if change.kind == "agent_model"}
    missing = missing_sub_trials(run.state)
    for group_id, summary in summaries.items():
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


OUTSIDE = [
    "1970-01-01T00:00:00Z",
    "1999-12-31T23:59:59.999999Z",
    "2200-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
]
WITHIN = ["2000-01-01T00:00:00Z", "2199-12-31T23:59:59.999999Z", "2000-01-01T01:00:00+01:00"]


NAIVE = {"started_at": "2026-01-31T09:30:00", "finished_at": "2026-01-31T09:31:30.5"}


def test_times_without_a_zone_are_missing_and_their_difference_is_the_duration() -> None:
    result, stored = folded([a_trial(**NAIVE)])[1], summarised([a_trial(**NAIVE)])
    assert (result.counted, result.missing_times) == (1, 2)
    assert stored[RUN]["last_event_at"] == "2023-11-14T22:13:20Z"  # of the record
    assert stored[AGENT]["statistics"]["duration_seconds"]["mean"] == 90.5


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
    [*_, run] = pipeline.run("run-1").summaries()
    assert run.summary is not None
    assert run.summary["last_event_at"] is None
    assert pipeline.run("run-1").take_pages()


@pytest.mark.parametrize("text", OUTSIDE)
@pytest.mark.parametrize("field", ["started_at", "finished_at"])
def test_an_implausible_time_of_a_trial_is_missing_and_its_duration_is_not_covered(
    field: str, text: str
) -> None:
    times = {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:01:00Z"}
    events = [a_trial(**times | {field: text}), a_trial(task_id="right", **times)]
    result = folded(events)[1]
    assert (result.counted, result.missing_times) == (2, 1)
    stored = summarised(events)[AGENT]
    assert (stored["trials"], stored["coverage"]["duration_seconds"]) == (2, 1)
    assert stored["last_event_at"] == "2026-01-01T00:01:00Z"


@pytest.mark.parametrize("text", WITHIN)
def test_a_plausible_time_counts(text: str) -> None:
    assert folded([a_trial(finished_at=text)])[1].missing_times == 0
    assert summarised([a_trial(finished_at=text)])[RUN]["last_event_at"] is not None


def test_an_implausible_time_of_a_plan_is_missing() -> None:
    plan = a_plan(started_at="0001-01-01T00:00:00Z", tasks=3)
    end = {"type": "run_finished", "run_id": "run-1", "finished_at": "3026-01-01T00:00:00Z"}
    _, result = folded([plan, end])
    assert (result.counted, result.missing_times) == (2, 2)
    run = summarised([plan, end])[RUN]
    assert (run["started_at"], run["finished_at"], run["status"]) == (None, None, "finished")


def test_a_time_that_is_null_is_not_counted_as_missing() -> None:
    _, result = folded([a_trial(finished_at=None, note="an unknown field, so that pydantic reads it")])
    assert (result.counted, result.missing_times) == (1, 0)


def test_a_missing_time_beside_a_number_that_no_json_has_is_counted() -> None:
    """The schema lets NaN through in a field that it does not know. It ended every worker once."""
    odd = a_trial(finished_at="1970-01-01T00:00:00Z", note=float("nan"))
    assert b"NaN" in json.dumps(odd).encode()
    _, result = folded([odd])
    assert (result.counted, result.missing_times, result.rejections) == (1, 1, [])


def test_an_implausible_time_does_not_decide_which_result_wins() -> None:
    late = a_trial(resolved=False, finished_at="9000-01-01T00:00:00Z")
    usual = a_trial(resolved=True, finished_at="2026-01-01T00:00:00Z")
    for order in ([late, usual], [usual, late]):
        assert summarised(order)[AGENT]["resolved"] == 1


def pages_of(events: list[Any]) -> dict[str, bytes]:
    pipeline, _ = folded(events, writer="w")
    return {write.key: write.value for write in pipeline.run("run-1").take_pages() if write.value is not None}


def test_a_state_page_of_an_earlier_version_with_a_time_beyond_the_calendar_is_read() -> None:
    [(key, page)] = pages_of([a_trial(finished_at="2026-01-01T00:00:00Z")]).items()
    head, _, body = page.partition(b"\n")
    wild = json.dumps(json.loads(head) | {"at": 1_767_225_600_000_000_000}).encode() + b"\n" + body
    run = RunState("run-1", PriceTable.default())
    join_page(run, key, wild)
    assert len(run.slots) == 1
    assert run.last_event_at < 0


def test_what_was_folded_and_what_is_read_from_its_page_agree() -> None:
    times = {"finished_at": "1970-01-01T00:00:00Z"}, {"revision": 1, "started_at": "9999-01-01T00:00:00Z"}
    pipeline, _ = folded([a_trial(**fields) for fields in times], writer="w")
    assert digests(reread(pipeline.run("run-1").take_pages())) == digests(pipeline)


# -----------------------------------------------------------------------------
# The same set of events gives the same digests, whatever the order, the duplicates, the pages (R17, R18).


maybe = st.none
costs = st.sampled_from([0.0, 0.1, 0.25, 1e300, 1e-320, 3.3, 7.0])
stamps = st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-02T00:00:00Z"])

identities = st.fixed_dictionaries(
    {
        "task_id": st.sampled_from(["t1", "t2"]),
        "attempt": st.integers(1, 2),
        "agent": st.sampled_from(["alpha", "nop", "oracle", "beta"]),
        "tier": st.sampled_from([None, "T0", "T1"]),
        "subtest": st.sampled_from([None, None, "a", "b"]),
    }
)
contents = st.fixed_dictionaries(
    {
        "revision": st.integers(0, 2),
        "resolved": st.sampled_from([True, False, None]),
        "score": maybe() | st.sampled_from([0.2, 0.9, 1.3]),
        "cost_usd": maybe() | costs,
        "duration_seconds": maybe() | st.floats(0, 1e5),
        "input_tokens": maybe() | st.integers(0, 10**6),
        "started_at": stamps,
        "finished_at": stamps,
        "agent_index": st.sampled_from([None, None, 1, 2, 3]),
        "tests": st.sampled_from([None, {"status": "failed", "failed": 1}, {"status": "ok", "passed": 3}]),
        "failure_mode": st.sampled_from([None, "unset", "agent_timeout", "infrastructure_error"]),
        "metrics": st.sampled_from([None, None, {"reward": 0.1}, {"reward": 1e300, "style/a": -3}, {}]),
    }
)
trials = st.builds(lambda who, what: a_trial(**who, **what), identities, contents)
starts = st.builds(
    lambda who, what: a_start(**who, **what),
    identities,
    st.fixed_dictionaries(
        {
            "revision": st.integers(0, 2),
            "position": st.sampled_from([None, 0, 1, 2, 5]),
            "started_at": st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"]),
        }
    ),
)
late_scores = st.builds(
    lambda who, what: a_late_score(**who, **what),
    identities,
    st.fixed_dictionaries(
        {
            "revision": st.integers(0, 2),
            "of_revision": st.sampled_from([None, None, 0, 1]),
            "score": st.sampled_from([None, 0.2, 0.9, 85.0]),
            "metrics": st.sampled_from([None, {"reward": 0.7}, {"style/a": 1, "reward": 0.3}]),
            "resolved": st.sampled_from([None, None, True, False]),
        }
    ),
)
retractions = st.builds(
    lambda who, revision: a_retraction(**who, revision=revision), identities, st.integers(0, 2)
)
plans = st.builds(
    a_plan,
    revision=st.integers(0, 3),
    tasks=st.sampled_from([None, 2, ["t1", "t2", "t3"]]),
    attempts=st.sampled_from([None, 1, 2]),
    agent_models=st.sampled_from([None, ["alpha:gpt-5", "oracle:gpt-5"]]),
    tiers=st.sampled_from([None, ["T0", "T1"]]),
    order=st.sampled_from([None, ["t1", "t2"], ["t2", "t1", "t1"], [["t1", 2], "t2"]]),
    order_kind=st.sampled_from([None, "shuffled", "shuffled", "unknown", "chosen"]),
    planned_at=stamps,
    part=st.sampled_from([None, None, None, "1", "2"]),
    parts=st.sampled_from([None, None, 2]),
    concurrency=st.sampled_from([None, 2]),
    task_difficulty=st.sampled_from([None, {"t1": 0.5, "t2": 0.25}]),
    plan_complete=st.sampled_from([None, None, True, False]),
    judged=st.sampled_from([None, True, False]),
    verdicts=st.sampled_from([None, None, True, False]),
    provenance=st.sampled_from([None, {"dataset": "1.0"}, {"dataset": "2.0", "seed": "7"}]),
    metrics=st.sampled_from([None, {"reward": {"direction": "lower"}}, {"other": {"unit": "USD"}}]),
    primary_metric=st.sampled_from([None, "mean_cost", "metrics/style/a"]),
    grading_profile=st.sampled_from([None, "specified", "scylla-2026", "specified@0.7:0.3"]),
    baselines=st.sampled_from([None, ["beta"]]),
    baseline_tier=st.sampled_from([None, "T1"]),
    labels=st.sampled_from([None, {"a": "1"}, {"a": "2", "b": "3"}]),
)
finishes = st.builds(
    lambda number, **fields: an_end(**fields, **{"try": number}),
    st.sampled_from([None, 1, 2]),
    revision=st.integers(0, 2),
    status=st.sampled_from([None, "done", "success", "error", "cancelled"]),
    scores_pending=st.sampled_from([None, None, True, False]),
    part=st.sampled_from([None, None, "1", "2"]),
)
deletions = st.builds(a_deletion, revision=st.integers(-1, 1))
mixed = st.lists(
    st.one_of(
        *(trials, trials, trials, starts, starts, late_scores, late_scores),
        *(retractions, plans, finishes, deletions),
    ),
    max_size=14,
)
undeclared = st.builds(
    lambda plan, begun, results, more: [plan, *begun, *results, *more],
    st.builds(a_plan, tasks=st.sampled_from([2, ["t1", "t2"]]), attempts=st.integers(1, 2)),
    st.lists(starts.map(lambda start: start | {"agent": "gamma"}), min_size=1, max_size=3),
    st.lists(trials, min_size=1, max_size=6),
    st.lists(st.one_of(starts, late_scores, retractions, finishes), max_size=3),
).flatmap(st.permutations)
"""A plan without tiers and subtests, which results show one by one, and an agent that only starts trials."""

events = st.one_of(mixed, undeclared)


def said(pipeline: Pipeline) -> tuple[dict[str, str], dict[str, dict[str, str]], dict[str, int]]:
    """The digests of all summaries and comparisons, the tasks of each run, and its impoverished results."""
    impoverished = {run_id: pipeline.run(run_id).state.impoverished for run_id in pipeline.runs()}
    tasks = {run_id: pipeline.run(run_id).comparisons.tasks() for run_id in pipeline.runs()}
    counted = {run_id: count for run_id, count in impoverished.items() if count}
    return digests(pipeline), {run_id: stored for run_id, stored in tasks.items() if stored}, counted


@examples(250)
@given(events, st.randoms(use_true_random=False))
def test_any_order_and_any_duplicates_give_the_same_digests(
    arrived: list[dict[str, Any]], rng: random.Random
) -> None:
    shuffled = arrived + rng.sample(arrived, len(arrived) // 2)
    rng.shuffle(shuffled)
    assert said(folded(shuffled)[0]) == said(folded(arrived)[0])


@examples(100)
@given(events, st.randoms(use_true_random=False))
def test_pages_of_several_writers_join_to_the_same_state(
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


@examples(100)
@given(events)
def test_what_was_cut_along_the_way_ends_as_what_stands(arrived: list[dict[str, Any]]) -> None:
    pipeline = Pipeline()
    published: dict[tuple[str, str], bytes | None] = {}
    tasks: dict[str, dict[str, str]] = {}
    for record in records(arrived):
        for run_id in pipeline.fold([record]).touched:
            cut = pipeline.run(run_id).take_changes()
            gone = {(change.kind, change.key) for change in cut.summaries if change.value is None}
            assert all(published[key] is not None for key in gone)
            published |= {(change.kind, change.key): change.value for change in cut.summaries}
            published |= {("scored", trial.key): trial.value for trial in cut.scored}
            if cut.tasks is not None:
                tasks[run_id] = cut.tasks.fields
    at_once = folded(arrived)[0]
    runs = [at_once.run(run_id) for run_id in at_once.runs()]
    current = {(change.kind, change.key): change.value for run in runs for change in run.summaries()}
    current |= {("scored", trial.key): trial.value for run in runs for trial in run.take_changes().scored}
    assert digests_of(published) == digests_of(current)
    assert {run_id: stored for run_id, stored in tasks.items() if stored} == said(at_once)[1]


def digests_of(values: dict[tuple[str, str], bytes | None]) -> dict[tuple[str, str], str]:
    return {key: json.loads(value)["digest"] for key, value in values.items() if value is not None}


@examples(60)
@given(events)
def test_nothing_changed_means_nothing_is_cut(arrived: list[dict[str, Any]]) -> None:
    pipeline, result = folded(arrived)
    for run_id in result.touched:
        pipeline.run(run_id).take_changes()
    again = pipeline.fold(records(arrived))
    for run_id in again.touched:
        assert pipeline.run(run_id).take_changes().summaries == []


# -----------------------------------------------------------------------------
# What was cut and published stays what the state says, whatever comes after it.


class Published:
    """The newest summary by key, as readers have it, of a run that is cut after every step."""

    def __init__(self) -> None:
        self.pipeline = Pipeline()
        self.newest: dict[tuple[str, str], Any] = {}

    def step(self, *events: Event) -> None:
        """Fold, cut, and compare with the whole."""
        self.pipeline.fold(records(events))
        for change in self.pipeline.run("run-1").take_changes().summaries:
            self.newest[change.kind, change.key] = change.summary
        changes = self.pipeline.run("run-1").summaries()
        current = {(change.kind, change.key): change.summary for change in changes}
        told = {key: summary["digest"] for key, summary in self.newest.items() if summary is not None}
        assert told == {key: summary["digest"] for key, summary in current.items() if summary is not None}


TIERS, SUBTESTS, AGENTS = (
    st.sampled_from(["T0", "T1", None]),
    st.sampled_from(["s1", "s2"]),
    st.sampled_from("ab"),
)
TRIALS = st.builds(
    lambda tier, subtest, agent, resolved, score: a_trial(
        tier=tier, subtest=tier and subtest, agent=agent, resolved=resolved, score=score
    ),
    TIERS,
    SUBTESTS,
    AGENTS,
    st.booleans(),
    st.sampled_from([None, 0.25, 0.5]),
)
RETRACTIONS = st.builds(
    lambda tier, subtest, agent: a_retraction(tier=tier, subtest=tier and subtest, agent=agent),
    TIERS,
    SUBTESTS,
    AGENTS,
)
PLANS = st.builds(
    lambda tasks, revision, tiers: a_plan(tasks=tasks, attempts=1, revision=revision, tiers=tiers),
    st.integers(1, 2),
    st.integers(1, 9),
    st.sampled_from([None, ["T0"], ["T0", "T1"]]),
)


COME_AND_GONE = [
    [a_plan(tasks=2, attempts=1, revision=1), *(a_trial(tier="T0", subtest="s1", agent=a) for a in "ab")],
    [a_plan(tasks=1, attempts=1, revision=2)],
    [a_trial(tier="T0", subtest="s2", agent="a")],
]
SUBTESTS_SWAP = [
    [a_plan(tasks=2, attempts=1), *(a_trial(tier="T0", subtest=subtest) for subtest in ("s1", "s2"))],
    [a_trial(tier="T0", subtest="s1", agent="b"), a_trial(tier="T1", subtest="s1")],
    [a_retraction(tier="T0", subtest="s2"), a_trial(tier="T1", subtest="s2")],
]
ANOTHER_TIER = [
    [
        a_plan(tasks=10, attempts=1),
        *(a_trial(task_id=f"t{n}", agent="ab"[n % 2], tier="T0") for n in range(3)),
    ],
    [a_trial(task_id="t3", agent="b", tier="T1")],
]
STEPS = st.lists(st.lists(TRIALS | TRIALS | RETRACTIONS | PLANS, min_size=1, max_size=3), max_size=6)


@examples(300)
@example(COME_AND_GONE)
@example(SUBTESTS_SWAP)
@given(STEPS)
def test_no_published_summary_is_ever_stale(steps: list[list[Event]]) -> None:
    published = Published()
    published.step(a_trial())
    for events in steps:
        published.step(*events)


@examples(100)
@example(ANOTHER_TIER)
@given(STEPS)
def test_what_is_published_does_not_depend_on_who_looks_at_the_whole(steps: list[list[Event]]) -> None:
    looked_at, alone = Pipeline(), Pipeline()
    for events in [[a_trial()], *steps]:
        for pipeline in (looked_at, alone):
            pipeline.fold(records(events))
        looked_at.run("run-1").summaries()
        changes = [pipeline.run("run-1").take_changes().summaries for pipeline in (looked_at, alone)]
        assert [change.digest for change in changes[0]] == [change.digest for change in changes[1]]
