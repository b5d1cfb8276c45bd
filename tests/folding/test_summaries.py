"""Fields of summaries: metrics, costs, slots, what a cut publishes, and limits of size."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from fractions import Fraction
from itertools import permutations
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline
from streamer.folding.groups import FormulaCodeSums, GroupState
from streamer.folding.plan import Plan
from streamer.folding.prices import PriceTable
from streamer.folding.run import Grades
from streamer.folding.state import MissingTrials, RunState, missing_sub_trials
from streamer.folding.summaries import (
    AGENT_MODEL,
    MAX_FAILURE_MODES,
    MAX_SUMMARY_BYTES,
    MOST_NAMED,
    OTHER,
    RUN_FIELDS,
    TIER,
    Moment,
    Subject,
    board_value,
    bound,
    cost_delta,
    delta,
    grade_scores,
    tier_uplift,
    uplift,
    variance_of_medians,
)
from streamer.schemas.base import MAX_COUNT, MAX_TASKS, GroupId, canonical_json
from streamer.schemas.events import BOARD_METRICS, EVENT, BoardMetric, named_metric
from streamer.schemas.summaries import SUMMARY, AgentModelSummary, Published, RunSummary, TierSummary
from streamer.schemas.wire import inside
from tests.folding.build import AGENT, RUN, WITHIN, formulacode_numbers, shown
from tests.folding.build import TIER as TIER_KEY
from tests.support.builders import a_run_change, an_agent_model_change
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
    summarised,
)
from tests.support.examples import examples

METRICS = [*BOARD_METRICS.values(), named_metric("reward", {})]
BENCHMARKS = {"m.f": {"agent/nop": 0.5, "oracle/nop": 1}}
TRIALS = [
    a_trial(task_id="a", cost_usd=0.5, score=0.4, duration_seconds=3.0, metrics={"reward": 2.0}),
    a_trial(task_id="b", cost_usd=0.25, resolved=False, benchmarks=BENCHMARKS),
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_it_is_the_number_in_the_summary(metric: BoardMetric) -> None:
    run = folded(TRIALS)[0].run("run-1")
    [summary] = [change.summary for change in run.summaries() if change.kind == "agent_model"]
    [(group_id, group)] = run.state.groups.items()
    assert summary is not None
    value = board_value(metric, Subject(Moment(run.state), group_id, group))
    assert value is not None
    assert value == metric.value(summary)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_it_is_unknown_of_no_trial(metric: BoardMetric) -> None:
    run = folded([a_plan()])[0].run("run-1").state
    assert board_value(metric, Subject(Moment(run), GroupId(None, "a", "m"), GroupState())) is None


def test_a_group_without_a_pass_has_an_infinite_cost_of_pass() -> None:
    run = folded([a_trial(resolved=False, cost_usd=1.0)])[0].run("run-1").state
    run.count()
    [(group_id, group)] = run.groups.items()
    assert board_value(BOARD_METRICS["cost_of_pass"], Subject(Moment(run), group_id, group)) == math.inf


@pytest.mark.parametrize(
    ("message", "table"), [(AgentModelSummary, AGENT_MODEL), (TierSummary, TIER), (RunSummary, RUN_FIELDS)]
)
def test_a_field_without_computation_or_place_fails(message: type[Published], table: dict[str, Any]) -> None:
    assert bound(message, table) is table
    with pytest.raises(TypeError, match=rf"{message.__name__} and its table of fields differ in accuracy"):
        bound(message, {name: field for name, field in table.items() if name != "accuracy"})
    with pytest.raises(TypeError, match="differ in planted"):
        bound(message, table | {"planted": len})


def test_each_field_of_a_summary_is_what_its_class_says() -> None:
    for change in folded([a_plan(tasks=3, attempts=1), *TRIALS])[0].run("run-1").summaries():
        summary = SUMMARY.validate_json(change.value or b"")
        assert (change.summary or {}).keys() == type(summary).model_fields.keys()


# -----------------------------------------------------------------------------
# What the summaries of groups and runs say, claim by claim.


COSTS = [a_trial(cost_usd=2.0), a_trial(task_id="t2", cost_usd=4.0, resolved=False), a_trial(task_id="t3")]


@pytest.mark.parametrize(
    ("events", "cost"),
    [
        (COSTS, 6.0),
        (COSTS[1:], None),
        (COSTS[2:], None),
        ([a_trial(cost_usd=0.0)], 0.0),
        (COSTS[1:2], "Infinity"),
        ([a_trial(resolved=False)], "Infinity"),
    ],
    ids=["known", "unknown beside a failure", "unknown", "free", "no pass", "no pass at an unknown cost"],
)
def test_r14_cost_of_pass_is_known_cost_per_pass_of_known_cost(
    events: list[Event], cost: float | str | None
) -> None:
    assert shown(AGENT, "cost_of_pass", events) == (cost,)


def test_r23_of_two_bases_there_is_no_uplift_and_no_delta() -> None:
    tiers = [
        a_trial(tier="T0"),
        a_trial(tier="T1", resolved=False),
        a_trial(task_id="j", tier="T1", score=0.9),
    ]
    assert shown("tier run-1|T1", "tier_uplift tier_delta", tiers) == (None, None)


REPEATED = [a_trial(attempt=n, tier="T0", resolved=n == 1) for n in (1, 2)]
TWO_AGENTS = [*REPEATED, a_trial(agent="other", tier="T0", resolved=False)]


@pytest.mark.parametrize(
    ("events", "values"),
    [
        (REPEATED, {AGENT: 1.0, RUN: 1.0, TIER_KEY: 1.0}),
        (TWO_AGENTS, {RUN: None, TIER_KEY: None, AGENT: 1.0, WITHIN: 1.0}),
        ([*REPEATED, a_trial(tier="T1")], {RUN: None, AGENT: None, TIER_KEY: 1.0}),
    ],
    ids=["one agent in one tier", "agents", "tiers"],
)
def test_r11_a_mixture_of_agents_or_tiers_has_no_pass_at_k(
    events: list[Event], values: dict[str, float | None]
) -> None:
    stored = summarised(events)
    passes = {key: stored[key]["pass_at_k"] for key in values}
    assert {key: of and of["2"]["value"] for key, of in passes.items()} == values


def test_grade_changes_are_news_once_and_silent_after_a_recovery() -> None:
    pipeline, _ = folded([a_trial(resolved=False)])
    assert pipeline.run("run-1").take_changes(notify=False).notifications == []
    pipeline.fold(records([a_trial(resolved=True, revision=1)]))
    [news] = pipeline.run("run-1").take_changes().notifications
    assert b'"from_grade":"F"' in news.value
    assert b'"to_grade":"A"' in news.value


def test_totals_beyond_exact_integers_are_floats_and_stop_nothing() -> None:
    events = [a_trial(task_id=f"t{n}", input_tokens=2**53) for n in range(1100)]
    summary = summarised(events)[AGENT]
    assert summary["tokens"]["input"] == 1100 * 2.0**53
    SUMMARY.validate_json(canonical_json(summary), extra="forbid")


# -----------------------------------------------------------------------------
# One slot holds one result, and the greatest (revision, finished_at, fingerprint) wins (R17).


def applied(*events: Event) -> tuple[RunState, str]:
    """A run after these events, and in a word what each did."""
    run, effects = RunState("run-1", PriceTable.default()), []
    for offset, event in enumerate(events):
        raw = json.dumps(event).encode()
        effects.append(
            run.apply(inside(EVENT.validate_json(raw)), raw, offset, 1_700_000_000_000).name.lower()
        )
    run.count()
    return run, " ".join(effects)


FIRST, SECOND = (a_late_score(score=score, revision=revision) for score, revision in ((0.5, 1), (0.7, 2)))
LATE = [a_trial(resolved=None), FIRST, FIRST, SECOND, a_retraction(revision=2), SECOND]
SAME = [a_trial(finished_at=end) for end in ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z")]
SAME[1] |= {"attempt": 1, "shard": "", "tier": None, "schema_version": 1}
OLD, NEW, GONE = a_trial(revision=1, resolved=False), a_trial(revision=2), a_retraction(revision=3)


@pytest.mark.parametrize(
    ("events", "effects", "trials"),
    [
        ([NEW, NEW, OLD], "counted duplicate superseded", 1),
        ([a_trial(), a_trial(revision=7), a_trial()], "counted duplicate duplicate", 1),
        (SAME, "counted duplicate", 1),
        ([a_trial(model="@gpt-5"), a_trial(model="gpt-5")], "counted duplicate", 1),
        ([OLD, GONE, a_trial(revision=3)], "counted counted ignored", 0),
        ([OLD, GONE, GONE, a_trial(revision=4)], "counted counted duplicate counted", 1),
        (LATE, "counted counted duplicate counted counted ignored", 0),
        ([OLD, a_deletion(revision=2), NEW], "counted counted ignored", 0),
        ([a_start(position=at) for at in (3, 3, 4, 2)], "started duplicate duplicate started", 0),
        ([GONE, a_start(revision=3)], "counted ignored", 0),
    ],
)
def test_r17_r32_an_event_counts_once_and_not_below_a_stronger(
    events: list[Event], effects: str, trials: int
) -> None:
    run, done = applied(*events)
    assert (done, run.totals.trials, run.state_version) == (effects, trials, len(events) - 1)


def test_a_run_exists_from_its_first_event_until_it_is_deleted_and_the_latest_time_stands() -> None:
    assert not RunState("run-1", PriceTable.default()).exists
    assert applied(a_plan(tasks=1))[0].exists
    assert not applied(a_trial(revision=1), a_deletion(revision=2))[0].exists
    assert applied(a_deletion(revision=2), a_trial(revision=3))[0].exists
    times = [a_trial(task_id=at, finished_at=at) for at in ("2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z")]
    assert applied(*times)[0].last_event_at == applied(*reversed(times))[0].last_event_at


FAILED = a_trial(resolved=False)
ENDS = [FAILED, FAILED | {"finished_at": "2026-01-01T00:00:00Z", "cost_usd": 1.0}]
ENDS.append(a_trial(finished_at="2026-01-02T00:00:00Z"))


@pytest.mark.parametrize(
    ("names", "events", "values"),
    [
        ("trials resolved superseded conflicts", [OLD, NEW], (1, 1, 1, 0)),
        ("resolved superseded conflicts", ENDS, (1, 2, 0)),  # the later end; no end is lowest
        ("conflicts", [a_trial(cost_usd=1.0), a_trial(cost_usd=2.0)], (1,)),  # the fingerprint alone
        ("trials", [a_trial(revision=3), GONE, a_trial(revision=4, cost_usd=1.0)], (1,)),
    ],
)
def test_the_loser_is_counted_and_not_averaged(
    names: str, events: list[Event], values: tuple[Any, ...]
) -> None:
    assert shown(AGENT, names, events) == shown(RUN, names, events) == values
    assert len({summarised(order)[AGENT]["digest"] for order in permutations(events)}) == 1
    assert shown(AGENT, "superseded digest", [NEW]) == (0, summarised([OLD, NEW])[AGENT]["digest"])


def test_a_retracted_slot_and_a_deleted_run_are_gone_for_all_that_is_not_newer() -> None:
    for order in permutations([a_trial(revision=3), a_retraction(revision=3)]):
        assert AGENT not in summarised(order)
    events = [
        a_trial(),
        a_plan(tasks=3, attempts=1),
        a_deletion(revision=5),
        a_trial(revision=5, cost_usd=2.0),
    ]
    for order in permutations(events):
        assert digests(folded(order)[0]) == {}
    assert summarised([*events, a_trial(revision=6)])[AGENT]["trials"] == 1


def test_deleting_a_run_leaves_its_marker_page_and_tombstones_all_else() -> None:
    pipeline, _ = folded([a_trial(tier="T0")], writer="w")
    run = pipeline.run("run-1")
    published = {change.key for change in run.take_changes().summaries}
    assert {write.key for write in run.take_pages()} == {"run-1/w/1"}
    pipeline.fold(records([a_deletion()]))
    cut = run.take_changes()
    assert {change.key for change in cut.summaries if change.value is None} == published
    assert [trial.value for trial in cut.scored] == [None]
    pages = [(write.key, write.value is None) for write in run.take_pages()]
    assert pages == [("run-1/w/0", False), ("run-1/w/1", True)]


# -----------------------------------------------------------------------------
# Metrics that harnesses name themselves: statistics, errors, how to read them (R30).


def rewarded(*rewards: float, **fields: Any) -> list[Event]:
    """A trial of a task of its own for each."""
    return [
        a_trial(task_id=f"t{n}", metrics={"reward": reward}, **fields) for n, reward in enumerate(rewards)
    ]


def test_a_named_metric_has_the_statistics_and_the_error_of_the_built_in_ones() -> None:
    """inference 6: two attempts at each task; one trial of the three tasks has no value."""
    values = {("a", 1): 0.25, ("a", 2): 0.75, ("b", 1): 3.0, ("b", 2): 1.0, ("c", 1): 2.0}
    events = [
        a_trial(task_id=task, attempt=n, tier="T0", cost_usd=value, metrics={"x": value})
        for (task, n), value in values.items()
    ]
    result = summarised([*events, a_trial(task_id="c", attempt=2, tier="T0", metrics={})])
    for key in (AGENT, TIER_KEY):
        named, built_in = result[key]["metrics"]["x"], result[key]["statistics"]["cost_usd"]
        assert {name: named.pop(name) for name in built_in} == built_in
        assert named == {"direction": "higher", "unit": None, "label": None, "planned": False}
        assert (built_in["standard_error"] is None) is (key == TIER_KEY)


def test_the_plan_says_how_to_read_a_metric_and_what_orders_the_boards() -> None:
    lower = {"direction": "lower", "unit": "seconds", "label": None}
    higher = {"direction": "higher", "unit": None, "label": None}
    plan = a_plan(metrics={"latency": lower}, primary_metric="metrics/reward")
    result = summarised([plan, *rewarded(0.5)])
    assert result[RUN]["primary_metric"] == "metrics/reward"
    assert result[RUN]["metrics"] == {"latency": lower, "reward": higher}
    latency, reward = result[AGENT]["metrics"]["latency"], result[AGENT]["metrics"]["reward"]
    assert (latency["count"], latency["mean"], latency["direction"]) == (0, None, "lower")
    assert (reward["count"], reward["mean"], reward["planned"]) == (1, 0.5, True)


TWO = ["terminus:gpt-5", "b:m"]


@pytest.mark.parametrize(
    ("plan", "verdict", "primary"),
    [
        ({"metrics": {"match": {}}}, {}, "metrics/match"),
        ({"metrics": {"match": {}}}, {"resolved": True}, "pass_rate"),
        ({}, {}, "pass_rate"),
        ({"metrics": {"match": {}, "style": {}}}, {}, "pass_rate"),
        ({"metrics": {"match": {}}, "primary_metric": "mean_cost"}, {}, "mean_cost"),
        # A trial that waits for an agent counts as incomplete, and the metric leads all the same.
        ({"metrics": {"match": {}}, "agent_models": TWO}, {"agent_index": 1}, "metrics/match"),
    ],
)
def test_r31_without_verdicts_the_only_planned_metric_leads(
    plan: Event, verdict: Event, primary: str
) -> None:
    numbers = {"resolved": None, "metrics": {"match": 0.5}}
    run = summarised([a_plan(**plan), a_trial(**numbers | verdict)])[RUN]
    assert (run["primary_metric"], run["verdict_trials"]) == (primary, len(verdict.keys() & {"resolved"}))


def test_a_corrected_and_a_retracted_metric_leave_no_trace() -> None:
    kept = a_trial(task_id="t1", revision=2, metrics={"reward": 0.25})
    corrected = a_trial(task_id="t1", revision=1, metrics={"reward": 9.0, "gone": 1.0})
    withdrawn = a_trial(task_id="t2", revision=1, metrics={"reward": 5.0, "style": 1.0})
    left = summarised([corrected, withdrawn, kept, a_retraction(task_id="t2", revision=1)])
    assert left[AGENT]["metrics"] == summarised([kept])[AGENT]["metrics"]


def test_a_summary_has_the_planned_metrics_and_those_of_the_most_trials() -> None:
    events = [a_trial(task_id=f"t{n}", metrics={f"m{n % 3}.{k}": 1.0 for k in range(60)}) for n in range(8)]
    planned = a_plan(metrics={"zero": {}})
    metrics = summarised([planned, *events])[AGENT]["metrics"]
    assert len(metrics) == MOST_NAMED
    assert metrics["zero"]["count"] == 0
    assert [name[:2] for name, of in metrics.items() if of["count"] == 3].count("m0") == 60
    assert sum(of["count"] == 2 for of in metrics.values()) == 0  # m0 and m1 have three trials each, m2 two


# -----------------------------------------------------------------------------
# A cut costs what has changed, however many agents a plan names; and misses nothing that has changed.


FINISHED = an_end(revision=1)


def a_sub_trial(agent: int, task: str, **fields: Any) -> Event:
    """A sub-trial with a benchmark."""
    measured = {"b": {"agent/nop": 0.5, "oracle/nop": 0.25}}
    result = {"agent": f"a{agent}", "model": "m", "task_id": task, "agent_index": agent + 1}
    return a_trial(**result, benchmarks=measured) | fields


@pytest.mark.parametrize("fields", [{}, {"ledger": {"name": "year", "baseline": "before/a:m"}}])
def test_the_planned_agents_are_gone_through_a_few_times_however_many_tiers_and_agents_ask(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, calls = Pipeline(), []
    agent_models = Plan.agent_models

    def counted(self: Plan) -> set[tuple[str, str]]:
        calls.append(self)
        return agent_models(self)

    monkeypatch.setattr(Plan, "agent_models", counted)
    planned = [f"a{number}:m" for number in range(300)]
    trials = (a_trial(tier=f"T{n}", task_id=f"t{n}") for n in range(100))
    pipeline.fold(records([a_plan(agent_models=planned, tasks=9, attempts=1, **fields), *trials]))
    pipeline.run("run-1").take_changes()
    assert len(calls) <= (6 if fields else 5)


def numbers(missing: MissingTrials) -> tuple[Any, ...]:
    """What missing trials say."""
    sums = missing.sums
    body = formulacode_numbers(sums)
    return sums.trials, sums.failures, sums.fallbacks, body, missing.tasks, missing.speedups


def plainly_missing(pipeline: Pipeline) -> dict[tuple[str, str], MissingTrials]:
    """What agents lack, worked out one trial and one agent after the other."""
    run = pipeline.run("run-1").state
    scores: dict[tuple[str, str], list[Any]] = {}
    tasks: dict[tuple[str, str], Counter[str]] = {}
    groups = run.scores.trial_groups()
    for group in groups:
        there = {(k[3], k[4]) for k, slot in run.slots.items() if (*k[:3], *k[5:]) == group and slot.winner}
        mates = {(k[3], k[4]) for other, keys in groups.items() if other[0] == group[0] for k in keys}
        planned = run.plan.agent_models() & mates if group[0] else run.plan.agent_models()
        for owner in planned - there:
            scores.setdefault(owner, []).append(run.scores.of_missing(group))
            tasks.setdefault(owner, Counter())[group.task_id] += 1
    sums = {owner: FormulaCodeSums.of(result, failures=len(result)) for owner, result in scores.items()}
    return {owner: MissingTrials(sums[owner], tasks[owner]) for owner in sums}


@examples(24)
@given(seed=st.integers(0, 999))
def test_missing_sub_trials_and_what_cuts_publish_are_those_of_a_plain_walk(seed: int) -> None:
    rng, pipeline, published = random.Random(seed), Pipeline(), dict[tuple[str, str], str]()
    planned = [f"a{number}:m" for number in range(8)]
    events = [FINISHED]
    for _ in range(150):
        agent, task = rng.randrange(5), f"t{rng.randrange(6)}"
        where = {"shard": rng.choice(("", "", "s")), "tier": rng.choice((None, None, "T0", "T1"))}
        where |= {"revision": rng.randrange(3), "agent_index": rng.choice((agent + 1, agent + 1, None))}
        events.append(a_sub_trial(agent, task, **where))
        if rng.random() < 0.1:
            missing = {"agent": f"a{agent}", "model": "m", "task_id": task, "shard": where["shard"]}
            events.append(a_retraction(**missing, tier=where["tier"], revision=rng.randrange(3)))
        if rng.random() < 0.1:
            some = rng.sample(planned, rng.randrange(1, 8))
            events.append(a_plan(agent_models=some, tasks=6, attempts=1, revision=rng.randrange(9)))
    events.insert(rng.randrange(len(events)), a_deletion())
    for start in range(0, len(events), 5):
        pipeline.fold(records(events[start : start + 5]))
        for change in pipeline.run("run-1").take_changes().summaries:
            published[change.kind, change.key] = change.digest
            if change.value is None:
                del published[change.kind, change.key]
        current = pipeline.run("run-1").summaries()
        assert published == {(change.kind, change.key): change.digest for change in current}
        state = pipeline.run("run-1").state
        if state.totals.with_formulacode and state.plan.agent_models():
            both = missing_sub_trials(state), plainly_missing(pipeline)
            found, plain = ({owner: numbers(trials) for owner, trials in one.items()} for one in both)
            assert found == plain


# -----------------------------------------------------------------------------
# News of grades: once per move, never of the run itself or of a group that is gone.


def test_a_grade_is_news_when_it_moves_and_only_then() -> None:
    grades = Grades()
    steps = [an_agent_model_change(grade=grade) for grade in (None, "B", "B", "A", None, "B")]
    steps += [an_agent_model_change(deleted=True), an_agent_model_change(grade="B"), a_run_change()]
    news = [(step, json.loads(item.value)) for step, item in enumerate(map(grades.moved, steps)) if item]
    assert [(step, said["from_grade"], said["to_grade"]) for step, said in news] == [
        *((1, None, "B"), (3, "B", "A"), (4, "A", None), (5, None, "B")),
        (7, None, "B"),  # a group that is gone begins again without a grade
    ]


def test_the_same_move_has_the_same_id_and_another_move_another() -> None:
    moves = [Grades().moved(an_agent_model_change("a|b", grade=grade)) for grade in "AAB"]
    assert {move and move.key for move in moves} == {"a%7Cb"}
    first, same, other = (json.loads(move.value)["id"] for move in moves if move)
    assert first == same != other


# -----------------------------------------------------------------------------
# Uplift, variance, spread and cost of a pass; the specification's example is in test_rulings_costs.


def a_group(*, resolved: bool) -> GroupState:
    """One trial."""
    run = folded([a_trial(resolved=resolved)])[0].run("run-1").state
    run.count()
    [group] = run.groups.values()
    return group


PASSED, FAILURE, NOTHING = a_group(resolved=True), a_group(resolved=False), GroupState()


@pytest.mark.parametrize(
    ("group", "baseline", "difference"),
    [(NOTHING, PASSED, None), (PASSED, NOTHING, None), (PASSED, None, None), (PASSED, FAILURE, 1.0)],
    ids=["no group", "no trial of the baseline", "no baseline", "a baseline of 0"],
)
def test_uplift_needs_a_baseline_above_zero_and_delta_any(
    group: GroupState, baseline: GroupState | None, difference: float | None
) -> None:
    pair = grade_scores(group, baseline, None)
    assert (uplift(pair), delta(pair)) == (None, difference)
    assert [tier_uplift(0.5, rate) for rate in (0.0, -0.2, -0.0, math.nan)] == [None] * 4


def test_what_is_not_finite_enters_no_variance_and_no_spread() -> None:
    for ddof in (0, 1):
        assert [variance_of_medians(of, ddof) for of in ([], [0.7])] == [None, 0.0]
    assert variance_of_medians([1.0, math.inf, 3.0, math.nan], ddof=0) == 1.0
    assert variance_of_medians([1e300, -1e300], ddof=0) == math.inf
    spreads = [cost_delta(of) for of in ([], [1.5], [1.0, math.inf, 3.0], [math.inf])]
    assert spreads == [None, 0.0, 2.0, None]


@examples(100)
@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=8), st.sampled_from([0, 1]), st.randoms())
def test_the_variance_is_exact_in_any_order(medians: list[float], ddof: int, random: object) -> None:
    exact = [Fraction(m) for m in medians]
    mean = sum(exact) / len(exact)
    expected = float(sum((x - mean) ** 2 for x in exact) / (len(exact) - ddof))
    random.shuffle(medians)  # type: ignore[attr-defined]
    assert variance_of_medians(medians, ddof) == expected


# -----------------------------------------------------------------------------
# No events make a summary that cannot be published: plans, failure modes, labels, agents, tiers.


AGENT_KEY, RUN_KEY = "run-1|terminus:gpt-5", "run-1"


def summaries_of(pipeline: Pipeline, run_id: str = "run-1") -> dict[str, dict[str, Any]]:
    """Every summary by key; asserts that each is one and is small enough."""
    result = {}
    for change in pipeline.run(run_id).summaries():
        assert change.value is not None
        assert len(change.value) < MAX_SUMMARY_BYTES
        SUMMARY.validate_json(change.value)
        result[change.key] = orjson.loads(change.value)
    return result


def distinct(number: int, characters: int = 128) -> str:
    """A name of so many characters, each of which takes 2 bytes in JSON."""
    return f"{number:05d}".ljust(characters, '"')


def test_a_plan_whose_product_exceeds_2_to_the_53_is_held_to_it() -> None:
    """The tiers and agents that were seen are factors, and have no limit."""
    agents = [f"a{n}:m" for n in range(5_000)]
    tiers = [f"T{n}" for n in range(100)]
    plan = a_plan(tasks=MAX_TASKS, attempts=10_000, tiers=tiers, subtests=dict.fromkeys(tiers, 1_000))
    pipeline, result = folded([plan, a_plan(revision=1, agent_models=agents), a_trial(tier="T0")])
    assert not result.rejections
    summary = summaries_of(pipeline)
    assert summary[RUN_KEY]["progress"]["planned"] == MAX_COUNT
    assert {body["runs_planned"] for key, body in summary.items() if "|T0" in key} <= {MAX_COUNT, 10**13}


def many_failure_modes() -> list[Event]:
    """3,500 trials: mode n of 0 to 149 ends n // 10 + 1 trials; the rest have a mode of their own."""
    modes = [distinct(n) for n in range(150) for _ in range(n // 10 + 1)]
    modes += [distinct(n) for n in range(1_000, 1_000 + 3_500 - len(modes))]
    return [a_trial(task_id=f"t{n}", failure_mode=mode) for n, mode in enumerate(modes)]


def test_a_summary_keeps_the_100_most_frequent_failure_modes_and_counts_the_rest_as_other() -> None:
    pipeline, _ = folded(many_failure_modes())
    for key in (AGENT_KEY, RUN_KEY):
        modes = summaries_of(pipeline)[key]["failure_modes"]
        assert len(modes) == MAX_FAILURE_MODES + 1
        assert sum(modes.values()) == 3_500
        # 11 to 15 trials each: modes 100 to 149; 6 to 10 trials each: modes 50 to 99
        assert modes.keys() == {distinct(n) for n in range(50, 150)} | {OTHER}


def test_of_equally_frequent_failure_modes_the_first_by_name_are_kept() -> None:
    names = [f"mode-{n:03d}" for n in range(150)]
    random.Random(3).shuffle(names)
    pipeline, _ = folded([a_trial(task_id=name, failure_mode=name) for name in names])
    kept = summaries_of(pipeline)[RUN_KEY]["failure_modes"]
    assert kept == {f"mode-{n:03d}": 1 for n in range(100)} | {OTHER: 50}


def test_trials_that_are_taken_back_bring_back_the_failure_modes_that_were_counted_as_other() -> None:
    events = many_failure_modes()
    missing = [a_retraction(task_id=event["task_id"]) for event in events[60:3_400]]
    pipeline, _ = folded(events)
    pipeline.fold(records(missing))
    alone, _ = folded([*events[:60], *events[3_400:]])
    left, expected = summaries_of(pipeline), summaries_of(alone)
    assert left[AGENT_KEY]["failure_modes"] == expected[AGENT_KEY]["failure_modes"]
    assert left[AGENT_KEY]["digest"] == expected[AGENT_KEY]["digest"]
    assert left[RUN_KEY]["digest"] == expected[RUN_KEY]["digest"]


def test_a_failure_mode_called_other_is_counted_with_the_rest() -> None:
    modes = [OTHER] * 3 + [f"m{n:03d}" for n in range(150)]
    pipeline, _ = folded([a_trial(task_id=f"t{n}", failure_mode=mode) for n, mode in enumerate(modes)])
    kept = summaries_of(pipeline)[RUN_KEY]["failure_modes"]
    assert (len(kept), kept[OTHER], sum(kept.values())) == (100, 3 + 51, 153)


def test_1_200_agents_in_a_run_all_have_their_cost() -> None:
    names = [f"agent-{n:04d}-with-a-name-of-an-ordinary-length" for n in range(1_200)]
    models = "openrouter/some-provider/some-model-of-2026-preview"
    trials = [a_trial(agent=name, model=models, cost_usd=n + 0.5) for n, name in enumerate(names)]
    pipeline, result = folded(trials)
    assert result.counted == 1_200
    run = summaries_of(pipeline)[RUN_KEY]
    costs = {f"{name}:{models}": n + 0.5 for n, name in enumerate(names)}
    assert (run["agent_models"], run["cost_by_agent_model"]) == (1_200, costs)


def test_of_7_000_agents_with_long_names_the_dearest_have_entries_and_the_rest_a_sum() -> None:
    trials = [a_trial(agent=distinct(n), model=distinct(n), cost_usd=n * 0.1) for n in range(7_000)]
    pipeline, result = folded(trials)
    assert result.counted == 7_000
    run = summaries_of(pipeline)[RUN_KEY]
    costs = run["cost_by_agent_model"]
    named = costs.keys() - {OTHER}
    lowest = 7_000 - len(named)
    assert len(named) > 200
    assert named == {f"{distinct(n)}:{distinct(n)}" for n in range(lowest, 7_000)}
    assert costs[OTHER] == pytest.approx(sum(n * 0.1 for n in range(lowest)))
    assert run["agent_models"] == 7_000


@pytest.mark.parametrize("costs", [None, 1.0])
def test_agents_without_a_known_cost_come_after_those_with_one(costs: float | None) -> None:
    known = [a_trial(agent="z", cost_usd=0.0)]
    unknown = [a_trial(agent=distinct(n), model=distinct(n), cost_usd=costs) for n in range(1_000)]
    pipeline, _ = folded([*known, *unknown])
    result = summaries_of(pipeline)[RUN_KEY]["cost_by_agent_model"]
    assert OTHER in result
    assert (result[OTHER] is None) == (costs is None)


def test_labels_of_many_plans_stay_within_the_summary() -> None:
    plans = [
        a_plan(revision=n, labels={distinct(100 * n + k): '"' * 512 for k in range(100)}) for n in range(20)
    ]
    pipeline, result = folded([*plans, a_trial()])
    assert not result.rejections
    labels = summaries_of(pipeline)[RUN_KEY]["labels"]
    assert list(labels) == [distinct(n) for n in range(len(labels))]
    assert 50 < len(labels) < 100


def test_the_100_labels_of_one_ordinary_plan_are_all_there() -> None:
    labels = {f"key-{n}".ljust(128, "k"): "v" * 512 for n in range(100)}
    pipeline, _ = folded([a_plan(labels=labels)])
    assert summaries_of(pipeline)[RUN_KEY]["labels"] == labels


def test_a_run_with_everything_at_its_limit_has_summaries_that_can_be_published() -> None:
    wide = "\N{MUSICAL SYMBOL G CLEF}"
    tiers = [f"{n:03d}".ljust(128, wide) for n in range(300)]
    plan = a_plan(
        **dict.fromkeys(("project", "benchmark_version", "display_name"), "\x01" * 1024),
        **dict.fromkeys(("harness",), "\x01" * 128),
        labels={distinct(n): "\x01" * 512 for n in range(100)},
        benchmark=wide * 128,
        baseline_tier=tiers[0],
    )
    end = {"type": "run_finished", "run_id": "run-1", "status": "\x01" * 1024}
    trials = [
        a_trial(
            task_id=f"t{n}",
            agent=f"{n:04d}".ljust(128, wide),
            model=f"{n:04d}".ljust(128, wide),
            tier=tiers[n % 300],
            failure_mode=f"{n:04d}".ljust(128, "\x01"),
            cost_usd=1.7e308,
            attempt=2**31,
        )
        for n in range(1_500)
    ]
    pipeline, result = folded([plan, end, *trials])
    assert not result.rejections
    assert len(summaries_of(pipeline)) == 2 * 1_500 + 300 + 1


def test_cost_of_pass_is_rounded_once() -> None:
    costs = (0.1, 0.2, 0.3, 0.7, 0.9)
    pipeline, _ = folded([a_trial(task_id=f"t{n}", cost_usd=cost) for n, cost in enumerate(costs)])
    assert summaries_of(pipeline)[AGENT_KEY]["cost_of_pass"] == 0.44
