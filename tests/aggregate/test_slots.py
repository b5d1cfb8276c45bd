"""One slot holds one result, and the greatest (revision, finished_at, fingerprint) wins (R17)."""

from __future__ import annotations

from itertools import permutations

from tests.support.events import (
    a_deletion,
    a_plan,
    a_retraction,
    a_trial,
    digests,
    folded,
    records,
    summarised,
)

AGENT = "agent_model run-1|terminus:gpt-5"


def test_the_same_content_again_is_a_duplicate_whatever_its_revision() -> None:
    _, result = folded([a_trial(), a_trial(revision=7), a_trial()])
    assert (result.counted, result.duplicates) == (1, 2)


def test_equal_instants_and_explicit_defaults_are_the_same_content() -> None:
    _, result = folded(
        [
            a_trial(finished_at="2026-01-01T01:00:00+01:00"),
            a_trial(finished_at="2026-01-01T00:00:00Z", attempt=1, shard="", tier=None, schema_version=1),
        ]
    )
    assert (result.counted, result.duplicates) == (1, 1)


def test_a_correction_replaces_and_the_loser_is_counted_not_averaged() -> None:
    for order in permutations([a_trial(resolved=False, revision=1), a_trial(resolved=True, revision=2)]):
        summary = summarised(order)[AGENT]
        assert (summary["trials"], summary["resolved"], summary["superseded"]) == (1, 1, 1)
        assert summary["conflicts"] == 0


def test_of_equal_revisions_the_later_end_wins_and_no_end_is_lowest() -> None:
    ends = [
        a_trial(resolved=False),
        a_trial(resolved=False, finished_at="2026-01-01T00:00:00Z", cost_usd=1.0),
        a_trial(resolved=True, finished_at="2026-01-02T00:00:00Z"),
    ]
    for order in permutations(ends):
        summary = summarised(order)[AGENT]
        assert (summary["resolved"], summary["superseded"], summary["conflicts"]) == (1, 2, 0)


def test_a_slot_decided_by_the_fingerprint_alone_is_a_conflict() -> None:
    pair = [a_trial(cost_usd=1.0), a_trial(cost_usd=2.0)]
    seen = [summarised(order)[AGENT] for order in permutations(pair)]
    assert [summary["conflicts"] for summary in seen] == [1, 1]
    assert seen[0]["digest"] == seen[1]["digest"]


def test_superseded_and_conflicts_are_not_digested() -> None:
    alone = summarised([a_trial(revision=2)])[AGENT]
    corrected = summarised([a_trial(revision=1, cost_usd=9.0), a_trial(revision=2)])[AGENT]
    assert corrected["superseded"] == 1
    assert corrected["digest"] == alone["digest"]


def test_a_retraction_is_a_floor_that_only_a_higher_revision_passes() -> None:
    for order in permutations([a_trial(revision=3), a_retraction(revision=3)]):
        assert AGENT not in summarised(order)
    for order in permutations(
        [a_trial(revision=3), a_retraction(revision=3), a_trial(revision=4, cost_usd=1.0)]
    ):
        assert summarised(order)[AGENT]["trials"] == 1


def test_models_are_normalised_before_the_slot_is_formed() -> None:
    _, result = folded([a_trial(model="@gpt-5"), a_trial(model="gpt-5")])
    assert (result.counted, result.duplicates) == (1, 1)


def test_a_deleted_run_is_gone_and_ignores_what_is_not_newer() -> None:
    events = [
        a_trial(),
        a_plan(tasks=3, attempts=1),
        a_deletion(revision=5),
        a_trial(revision=5, cost_usd=2.0),
    ]
    for order in permutations(events):
        pipeline, _ = folded(order)
        assert digests(pipeline) == {}
    assert summarised([*events, a_trial(revision=6)])[AGENT]["trials"] == 1


def test_deleting_a_run_cuts_a_tombstone_for_every_summary_and_slot() -> None:
    pipeline, _ = folded([a_trial(tier="T0")])
    published = {change.key for change in pipeline.run("run-1").take_changes().summaries}
    pipeline.fold(records([a_deletion()]))
    cut = pipeline.run("run-1").take_changes()
    assert {change.key for change in cut.summaries if change.value is None} == published
    assert [trial.value for trial in cut.scored] == [None]


def test_deleting_a_run_leaves_the_marker_page_and_tombstones_the_others() -> None:
    pipeline, _ = folded([a_trial()], writer="w")
    first = {write.key for write in pipeline.run("run-1").take_pages()}
    pipeline.fold(records([a_deletion()]))
    writes = pipeline.run("run-1").take_pages()
    assert first == {"run-1/w/1"}
    assert [(write.key, write.value is None) for write in writes] == [
        ("run-1/w/0", False),
        ("run-1/w/1", True),
    ]
