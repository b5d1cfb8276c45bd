"""Real ProjectScylla results against what ProjectScylla computes from them, under the `specified` profile."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.folding.fold import Folding, Pipeline
from streamer.schemas.wire import Record, digest_of
from tests.conformance.folds import (
    Summary,
    close,
    decoded,
    digests,
    folded,
    pooled_subtests,
    pooled_tiers,
    statistics_of,
    summaries,
    the_run,
    travelling,
)
from tests.conformance.group_rules import cost_of_pass, distribution, graded, pass_at_k
from tests.support.cli import streamer
from tests.support.data import shared_data
from tests.support.rows import read_rows, scylla_row_to_event

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
        ruled = distribution(trials, metric)
        assert statistics_of(ours, metric) == {k: close(v) for k, v in ruled.items()}, metric
        assert ours["statistics"][metric]["mode"] == ruled["mode"], metric
        assert {k: v for k, v in ruled.items() if k != "mode"} == {
            k: close(v)
            for k, v in theirs[metric].items()
            if k != "mode"  # (R15, differs from S4)
        }, metric
    check_grade(ours, theirs, trials)
    check_cost_of_pass(ours, theirs, trials)


def check_grade(ours: Summary, theirs: Wanted, trials: Events) -> None:
    """The grade of the median composite: every run here has a judge (R13)."""
    ruled = graded(trials)
    assert ours["grade"] == ruled["grade"] == theirs["grade"]
    assert ours["grade_score"] == close(ruled["grade_score"])
    assert ruled["grade_score"] == close(theirs["composite_score"]["median"])
    assert (ours["grade_basis"], ours["grade_provisional"]) == ("composite_median", False)
    assert (ruled["grade_basis"], ruled["grade_provisional"]) == ("composite_median", False)


def check_cost_of_pass(ours: Summary, theirs: Wanted, trials: Events) -> None:
    """R14: a metric of each run; the group's is mean cost / mean pass rate, total cost / passes."""
    ruled = distribution(trials, "cost_of_pass")
    assert statistics_of(ours, "cost_of_pass") == {k: close(travelling(v)) for k, v in ruled.items()}
    assert ours["cost_of_pass"] == close(travelling(cost_of_pass(trials)))
    if "cost_of_pass_from_means" in theirs:
        assert ours["cost_of_pass"] == close(decoded(theirs["cost_of_pass_from_means"]))


def check_run(run: Summary, tiers: dict[str, Summary], wanted: Wanted, trials: Events) -> None:
    """All tiers, and the numbers across them."""
    assert tiers.keys() == wanted["tiers"].keys()
    for tier, theirs in wanted["tiers"].items():
        check_group(tiers[tier], theirs, [trial for trial in trials if trial["tier"] == tier])
    across, theirs = run["cross_tier"], wanted["cross_tier"]
    for name in VARIANCES:
        assert across[name] == close(theirs[name]), name
    check_uplifts(across["tier_uplift"], tiers, theirs["tier_uplifts"])
    check_pass_at_k(run["pass_at_k"], trials)


def check_pass_at_k(ours: Summary | None, trials: Events) -> None:
    """R11: null where there are several tiers."""
    ruled = pass_at_k(trials)
    assert (ours is None) is (ruled is None)
    for k, held in (ruled or {}).items():
        assert ours is not None
        assert ours[k]["value"] == close(held["value"])
        assert ours[k]["tasks_covered"] == held["tasks_covered"]


def check_uplifts(ours: dict[str, Any], tiers: dict[str, Summary], theirs: dict[str, float]) -> None:
    """R23 (differs from S7): null, not 0.0 or absent, where T0's number is not above 0."""
    baseline = tiers["T0"]["grade_score"] if "T0" in tiers else None
    assert ours.keys() == tiers.keys() - {"T0"}
    for tier, uplift in ours.items():
        assert uplift == tiers[tier]["tier_uplift"]
        if baseline is None or baseline <= 0:
            assert uplift is None
        else:
            assert uplift == close(theirs[tier])


def events_of(rows: Rows, dataset: str, run_id: str, revision: int = 0) -> list[dict[str, Any]]:
    """Rows as events; where the keys repeat (S18) the row is the shard."""
    return [
        scylla_row_to_event(row, run_id, str(row["row"]) if dataset == "haiku_draft" else "", revision)
        for row in rows
    ]


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_pooled_rows_give_scyllas_numbers(data: Path, expected: dict[str, Wanted], dataset: str) -> None:
    rows = read_rows(data / f"{dataset}.jsonl")
    events = events_of(rows, dataset, dataset)
    folding = folded(events)
    assert the_run(folding)["trials"] == expected[dataset]["n_rows"]
    check_run(the_run(folding), pooled_tiers(folding), expected[dataset]["pooled"]["by_score"], events)


@pytest.mark.parametrize("experiment", ["test-001", "test-003"])
def test_each_experiment_gives_scyllas_numbers(
    data: Path, expected: dict[str, Wanted], experiment: str
) -> None:
    rows = [r for r in read_rows(data / "haiku_n3.jsonl") if r["experiment"] == experiment]
    events = events_of(rows, "haiku_n3", experiment)
    folding = folded(events)
    wanted = expected["haiku_n3"][f"experiment={experiment}"]
    check_run(the_run(folding), pooled_tiers(folding), wanted["by_score"], events)


@pytest.mark.parametrize("dataset", DATASETS)
def test_each_subtest_gives_scyllas_numbers(data: Path, expected: dict[str, Wanted], dataset: str) -> None:
    rows = read_rows(data / f"{dataset}.jsonl")
    found: dict[str, tuple[Summary, Events]] = {}
    for experiment in {row["experiment"] for row in rows}:
        events = events_of([row for row in rows if row["experiment"] == experiment], dataset, experiment)
        for (tier, name), body in pooled_subtests(folded(events)).items():
            found[f"{experiment}/{tier}/{name}"] = body, of_subtest(events, tier, name)
    assert found.keys() == expected[dataset]["_subtests"].keys()
    for place, theirs in expected[dataset]["_subtests"].items():
        check_group(found[place][0], theirs, found[place][1])


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
    wanted = expected[dataset][part]["prefixes_in_file_order"]
    pipeline, checked = Pipeline(), 0
    events = events_of(rows, dataset, "r")
    for offset, event in enumerate(events):
        pipeline.fold([Record(orjson.dumps(event), offset)])
        if str(offset + 1) in wanted:
            folding = Folding(pipeline)
            seen = events[: offset + 1]
            check_run(the_run(folding), pooled_tiers(folding), wanted[str(offset + 1)], seen)
            checked += 1
    assert checked == len(wanted)


def test_results_before_their_corrections_give_scyllas_numbers(
    data: Path, expected: dict[str, Wanted]
) -> None:
    current, superseded = corrections(data)
    replaced = {slot_of(row) for row in superseded}
    rows = superseded + [row for row in current if slot_of(row) not in replaced]
    wanted = expected["haiku_n3_before_corrections"]
    assert (len(rows), len(replaced)) == (wanted["n_rows"], wanted["n_replaced"])
    events = events_of(rows, "haiku_n3", "haiku_n3")
    folding = folded(events)
    check_run(the_run(folding), pooled_tiers(folding), wanted["pooled"]["by_score"], events)


@pytest.mark.parametrize("order", ["corrections last", "corrections first", "shuffled"])
def test_corrections_in_any_order_give_the_digests_of_the_current_rows_alone(data: Path, order: str) -> None:
    current, superseded = corrections(data)
    old = events_of(superseded, "haiku_n3", "haiku_n3", revision=0)
    new = events_of(current, "haiku_n3", "haiku_n3", revision=1)
    events = new + old if order == "corrections first" else old + new
    if order == "shuffled":
        random.Random(213).shuffle(events)
    folding = folded(events)
    assert digests(folding) == digests(folded(new))
    assert the_run(folding)["superseded"] == len(superseded)
    assert the_run(folding)["conflicts"] == 0


def test_the_corrections_move_the_grades_of_four_tiers(data: Path) -> None:
    current, superseded = corrections(data)
    replaced = {slot_of(row) for row in superseded}
    before = superseded + [row for row in current if slot_of(row) not in replaced]
    grades = [
        {tier: s["grade"] for tier, s in pooled_tiers(folded(events_of(rows, "haiku_n3", "r"))).items()}
        for rows in (before, current)
    ]
    assert {tier for tier in grades[0] if grades[0][tier] != grades[1][tier]} == {"T3", "T4", "T5", "T6"}


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
    found = {f"{s['run_id']}/{s['tier']}/{s['subtest']}": s for s in of_type["subtest_summary"]}
    assert found.keys() == expected["dryrun"]["_subtests"].keys()
    for place, theirs in expected["dryrun"]["_subtests"].items():
        check_group(found[place], theirs, of_subtest(trials, *place.split("/")[1:]))


TYPES = ("run_summary", "tier_summary", "subtest_summary")


def test_statistics_of_nothing_are_null_without_a_grade() -> None:
    """R16 (differs from S3, which says 0.0 and F)."""
    folding = folded(
        [
            {"type": "trial_result", "run_id": "r", "task_id": "t", "tier": "T0", "resolved": True},
            {"type": "trial_result", "run_id": "r", "task_id": "t", "tier": "T1", "score": 0.5},
        ]
    )
    empty = statistics_of(pooled_tiers(folding)["T0"], "impl_rate")
    assert empty == dict.fromkeys(("median", "mean", "mode", "min", "max", "std_dev")) | {"count": 0}


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_digest_can_be_recomputed_from_its_summary(data: Path, dataset: str) -> None:
    folding = folded(events_of(read_rows(data / f"{dataset}.jsonl"), dataset, dataset))
    held = [s for kind in ("agent_model", "tier", "run") for s in summaries(folding, kind)]
    assert len(held) > 5
    assert all(summary["digest"] == digest_of(summary) for summary in held)
