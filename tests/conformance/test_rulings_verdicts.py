"""R7, R27: spellings of baselines, and verdicts that follow from tests and snapshot."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.folding.fold import Folding, Pipeline
from streamer.schemas.wire import Record
from tests.conformance import folds, group_rules
from tests.conformance.folds import Summary
from tests.conformance.ruling_examples import AGENT, ORACLE, Json, summary, the_agent, the_oracle
from tests.support.cli import streamer
from tests.support.data import shared_data
from tests.support.events import a_late_score, a_plan, a_retraction, a_trial, summarised
from tests.support.formulacode_cases import decoded
from tests.support.formulacode_trials import a_suite, published
from tests.support.rows import read_rows, scylla_row_to_event

# R7


@pytest.mark.parametrize("model", ["Oracle", "ORACLE", "oracle"])
def test_r7_a_baseline_has_one_spelling(model: str) -> None:
    result = summarised([the_oracle(model=model), the_agent()])
    assert result[f"agent_model run-1|{ORACLE}"]["baseline"] is True


def test_r7_an_oracle_with_a_model_stays_what_it_says() -> None:
    stored = summarised([the_oracle(model="openai/gpt-5"), the_agent()]).values()
    result = {s["agent_model"] for s in stored if s["type"] == "agent_model_summary"}
    assert result == {"oracle:openai/gpt-5", AGENT}


def test_r7_two_spellings_of_the_oracle_are_one_slot() -> None:
    events = [the_oracle(model="Oracle"), the_oracle(model="oracle", revision=1), the_agent()]
    assert summary(*events, key=f"agent_model run-1|{ORACLE}")["trials"] == 1


# R27


def test_r27_a_derived_verdict_enters_accuracy_unless_there_is_a_failure_mode() -> None:
    derived, failed = a_trial(resolved=None, tests=a_suite(0)), a_trial(task_id="t2", resolved=False)
    stored = summary(derived, failed)
    assert (stored["accuracy"], stored["no_verdict"], stored["resolved"]) == (0.5, 0, 1)
    stored = summary(derived | {"failure_mode": "x"}, failed)
    assert (stored["accuracy"], stored["no_verdict"], stored["resolved"]) == (0.0, 1, 0)


def test_r27_a_derived_verdict_follows_an_oracle_that_comes_late() -> None:
    """R9: two failures are as many as the oracle has."""
    stream = published(a_trial(agent_index=3, resolved=None, tests=a_suite(2)))
    (before,) = stream.scored.values()
    assert before["resolved"] is False
    stream.fold(the_oracle(tests=a_suite(2)))
    (after,) = [s for s in stream.scored.values() if s["agent"] == "terminus"]
    assert (after["resolved"], after["verdict_source"]) == (True, "derived")
    assert stream.summaries[f"agent_model run-1|{AGENT}"]["accuracy"] == 1.0


# -----------------------------------------------------------------------------
# Real ProjectScylla results against what ProjectScylla computes from them, under the `specified` profile.


Rows = list[dict[str, Any]]
Events = list[dict[str, Any]]
Wanted = dict[str, Any]

DATASETS = ("dryrun", "haiku_n3", "haiku_draft")
DISTRIBUTED = ("pass_rate", "impl_rate", "composite_score", "cost_usd", "duration_seconds")
VARIANCES = ("pass_rate_variance", "impl_rate_variance", "cost_variance", "cost_delta")


@pytest.fixture(scope="module")
def data() -> Path:
    return shared_data() / "scylla"


@pytest.fixture(scope="module")
def expected(data: Path) -> dict[str, Wanted]:
    loaded: dict[str, Wanted] = json.loads((data / "expected.json").read_text())["datasets"]
    return loaded


def check_group(ours: Summary, theirs: Wanted, trials: Events) -> None:
    """One tier or subtest: statistics, grade, cost of pass; as ProjectScylla has them, or as ruled."""
    assert ours["runs_completed"] == theirs["runs_completed"] == len(trials)
    assert ours["grading_profile"] == "specified"
    for metric in (name for name in DISTRIBUTED if name in theirs):
        ruled = group_rules.distribution(trials, metric)
        folds.check_ruled(ours["statistics"][metric], ruled)
        assert ours["statistics"][metric]["mode"] == ruled["mode"], metric
        same = theirs[metric].keys() - {"mode"}  # (R15, differs from S4)
        folds.check_ruled(ruled, {name: theirs[metric][name] for name in same})
    ruled = group_rules.graded(trials)
    folds.check_ruled(ours, ruled)
    assert (ruled["grade_basis"], ruled["grade_provisional"]) == (
        "composite_median",
        False,
    )  # all judged (R13)
    folds.check_ruled(ruled, {"grade": theirs["grade"], "grade_score": theirs["composite_score"]["median"]})
    check_cost_of_pass(ours, theirs, trials)


def check_cost_of_pass(ours: Summary, theirs: Wanted, trials: Events) -> None:
    """R14: a metric of each run; the group's is mean cost / mean pass rate, total cost / passes."""
    folds.check_ruled(ours["statistics"]["cost_of_pass"], group_rules.distribution(trials, "cost_of_pass"))
    folds.check_ruled(ours, {"cost_of_pass": group_rules.cost_of_pass(trials)})
    if "cost_of_pass_from_means" in theirs:
        folds.check_ruled(ours, {"cost_of_pass": decoded(theirs["cost_of_pass_from_means"])})


def check_run(run: Summary, tiers: dict[str, Summary], required: Wanted, trials: Events) -> None:
    assert tiers.keys() == required["tiers"].keys()
    for tier, theirs in required["tiers"].items():
        check_group(tiers[tier], theirs, [trial for trial in trials if trial["tier"] == tier])
    across, theirs = run["cross_tier"], required["cross_tier"]
    folds.check_ruled(across, {name: theirs[name] for name in VARIANCES})
    check_uplifts(across["tier_uplift"], tiers, theirs["tier_uplifts"])
    folds.check_pass_at_k(run, trials)


def check_uplifts(ours: dict[str, Any], tiers: dict[str, Summary], theirs: dict[str, float]) -> None:
    """R23 (differs from S7): null, not 0.0 or absent, where T0's number is not above 0."""
    baseline = tiers["T0"]["grade_score"] if "T0" in tiers else None
    assert ours.keys() == tiers.keys() - {"T0"}
    for tier, uplift in ours.items():
        assert uplift == tiers[tier]["tier_uplift"]
        if baseline is None or baseline <= 0:
            assert uplift is None
        else:
            assert uplift == folds.close(theirs[tier])


def events_of(rows: Rows, dataset: str, run_id: str, revision: int = 0) -> list[dict[str, Any]]:
    """Rows as events; where the keys repeat (S18) the row is the shard."""
    return [
        scylla_row_to_event(row, run_id, str(row["row"]) if dataset == "haiku_draft" else "", revision)
        for row in rows
    ]


@pytest.mark.parametrize("dataset", DATASETS)
def test_each_subtest_gives_scyllas_numbers(data: Path, expected: dict[str, Wanted], dataset: str) -> None:
    rows = read_rows(data / f"{dataset}.jsonl")
    result: dict[str, tuple[Summary, Events]] = {}
    for experiment in {row["experiment"] for row in rows}:
        events = events_of([row for row in rows if row["experiment"] == experiment], dataset, experiment)
        for (tier, name), body in folds.pooled_subtests(folds.folded(events)).items():
            result[f"{experiment}/{tier}/{name}"] = body, of_subtest(events, tier, name)
    assert result.keys() == expected[dataset]["_subtests"].keys()
    for place, theirs in expected[dataset]["_subtests"].items():
        check_group(result[place][0], theirs, result[place][1])


def of_subtest(events: Events, tier: str, subtest: str) -> Events:
    return [e for e in events if (e.get("tier"), e.get("subtest")) == (tier, subtest)]


@pytest.mark.parametrize(
    ("dataset", "part", "experiment"),
    [
        ("dryrun", "pooled", None),
        ("haiku_n3", "pooled", None),
        ("haiku_n3", "experiment=test-001", "test-001"),
        ("haiku_n3", "experiment=test-003", "test-003"),
        ("haiku_draft", "pooled", None),
    ],
)
def test_every_prefix_gives_scyllas_numbers(
    data: Path, expected: dict[str, Wanted], dataset: str, part: str, experiment: str | None
) -> None:
    rows = [r for r in read_rows(data / f"{dataset}.jsonl") if experiment in (None, r["experiment"])]
    required = expected[dataset][part]["prefixes_in_file_order"]
    pipeline, checked = Pipeline(), 0
    events = events_of(rows, dataset, "r")
    run, tiers = Summary(), dict[str, Summary]()
    for offset, event in enumerate(events):
        pipeline.fold([Record(orjson.dumps(event), offset)])
        if str(offset + 1) in required:
            run, tiers = folds.the_run(Folding(pipeline)), folds.pooled_tiers(Folding(pipeline))
            check_run(run, tiers, required[str(offset + 1)], events[: offset + 1])
            checked += 1
    assert checked == len(required)
    assert run["trials"] == len(rows) == expected[dataset][part]["by_score"]["n_rows_used"]
    check_run(run, tiers, expected[dataset][part]["by_score"], events)


def test_results_before_their_corrections_give_scyllas_numbers(
    data: Path, expected: dict[str, Wanted]
) -> None:
    current, superseded = corrections(data)
    replaced = {slot_of(row) for row in superseded}
    rows = superseded + [row for row in current if slot_of(row) not in replaced]
    required = expected["haiku_n3_before_corrections"]
    assert (len(rows), len(replaced)) == (required["n_rows"], required["n_replaced"])
    events = events_of(rows, "haiku_n3", "haiku_n3")
    folding = folds.folded(events)
    check_run(folds.the_run(folding), folds.pooled_tiers(folding), required["pooled"]["by_score"], events)


@pytest.mark.parametrize("order", ["corrections last", "corrections first", "shuffled"])
def test_corrections_in_any_order_give_the_digests_of_the_current_rows_alone(data: Path, order: str) -> None:
    current, superseded = corrections(data)
    old = events_of(superseded, "haiku_n3", "haiku_n3", revision=0)
    new = events_of(current, "haiku_n3", "haiku_n3", revision=1)
    events = new + old if order == "corrections first" else old + new
    if order == "shuffled":
        random.Random(213).shuffle(events)
    folding = folds.folded(events)
    assert folds.digests(folding) == folds.digests(folds.folded(new))
    assert folds.the_run(folding)["superseded"] == len(superseded)
    assert folds.the_run(folding)["conflicts"] == 0


def corrections(data: Path) -> tuple[Rows, Rows]:
    return read_rows(data / "haiku_n3.jsonl"), read_rows(data / "haiku_n3_superseded.jsonl")


def slot_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["experiment"], row["tier"], row["subtest"], row["run_number"])


def test_convert_and_fold_of_the_dryrun_directory_give_scyllas_numbers(
    data: Path, expected: dict[str, Wanted]
) -> None:
    events = streamer("convert", data / "dryrun")
    assert events.returncode == 0, events.stderr.decode()
    result = streamer("fold", "--json", "--by", "subtest", stdin=events.stdout)
    assert result.returncode == 0, result.stderr.decode()
    lines = [orjson.loads(line) for line in result.stdout.splitlines()]
    of_type = {t: [s for s in lines if s["type"] == t and not s.get("agent_model")] for t in TYPES}
    (run,) = of_type["run_summary"]
    tiers = {tier["tier"]: tier for tier in of_type["tier_summary"]}
    trials = [e for e in map(orjson.loads, events.stdout.splitlines()) if e["type"] == "trial_result"]
    check_run(run, tiers, expected["dryrun"]["pooled"]["by_score"], trials)
    value = {f"{s['run_id']}/{s['tier']}/{s['subtest']}": s for s in of_type["subtest_summary"]}
    assert value.keys() == expected["dryrun"]["_subtests"].keys()
    for place, theirs in expected["dryrun"]["_subtests"].items():
        check_group(value[place], theirs, of_subtest(trials, *place.split("/")[1:]))


TYPES = ("run_summary", "tier_summary", "subtest_summary")


def test_statistics_of_nothing_are_null_without_a_grade() -> None:
    """R16 (differs from S3, which says 0.0 and F)."""
    folding = folds.folded([a_trial(tier="T0"), a_trial(tier="T1", score=0.5)])
    empty = folds.statistics_of(folds.pooled_tiers(folding)["T0"], "impl_rate")
    assert empty == dict.fromkeys(("median", "mean", "mode", "min", "max", "std_dev")) | {"count": 0}


# -----------------------------------------------------------------------------
# R10, R19, R32 on random events, against the plain reimplementation.


@pytest.mark.parametrize("seed", range(200))
def test_r32_what_stands_in_a_slot_is_the_ruled_one_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    revisions = rng.sample(range(1, 20), 7)
    events = [_of_one_slot(rng, revision, revisions) for revision in revisions]
    stored = [one for one in summarised(events).values() if one["type"] == "agent_model_summary"]
    ruled = group_rules.after_late_scores(events)
    if ruled is None:
        assert not any(one["trials"] for one in stored)
        return
    [ours] = stored
    score = ruled.get("score")
    assert ours["statistics"]["impl_rate"]["mean"] == score
    assert {name: one["mean"] for name, one in ours["metrics"].items()} == ruled["metrics"]
    assert (ours["trials"], ours["resolved"]) == (1, int(ruled["resolved"] is True))


def _of_one_slot(rng: random.Random, revision: int, revisions: list[int]) -> Json:
    """A result, mostly a scored one, or a retraction."""
    kind = rng.choice(["result", "result", "scored", "scored", "scored", "scored", "retracted"])
    if kind == "retracted":
        return a_retraction(revision=revision)
    names = rng.sample(["style", "size"], rng.randrange(3))
    metrics = {name: rng.choice([0.25, 0.5, 2.0]) for name in names}
    said = {"score": rng.choice([None, 0.25, 0.5, 1.0]), "metrics": metrics or None}
    fields = {name: value for name, value in said.items() if value is not None}
    resolved = rng.choice([None, True, False])
    if kind == "result":
        return a_trial(revision=revision, resolved=resolved, **fields)
    of_revision = rng.choice([None, None, rng.choice(revisions)])
    return a_late_score(revision=revision, resolved=resolved, of_revision=of_revision, **fields)


@pytest.mark.parametrize("seed", range(100))
def test_r10_r19_the_accuracy_of_a_run_is_over_its_trials_and_whole_groups_alone_before_the_end(
    seed: int,
) -> None:
    rng = random.Random(seed)
    agents = rng.choice([("oracle", "alpha"), ("alpha", "beta"), ("oracle", "alpha", "beta")])
    trials = [
        a_trial(
            agent=agent, agent_index=index, model="m", task_id=task, resolved=rng.choice([True, False, None])
        )
        for task in ("t1", "t2", "t3", "t4")
        for index, agent in enumerate(agents, 1)
        if rng.random() < 0.8
    ]
    finished = rng.random() < 0.5
    plan = a_plan(agent_models=[f"{agent}:m" for agent in agents])
    end = [{"type": "run_finished", "run_id": "run-1"}] if finished else []
    [run] = [one for one in summarised([plan, *trials, *end]).values() if one["type"] == "run_summary"]
    for trial in trials:
        trial.setdefault("attempt", 1)
    resolved, without, every = group_rules.run_accuracy(trials, agents, finished)
    assert run["accuracy"] == (folds.close(resolved / every) if every else None)
    assert run["no_verdict"] == without
