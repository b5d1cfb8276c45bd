"""The state of one run: what each event does to it."""

from __future__ import annotations

import json

from streamer.folding.score.prices import PriceTable
from streamer.folding.slots import Effect
from streamer.folding.state import RunState
from streamer.schemas.events import EVENT
from tests.support.events import Event, a_deletion, a_plan, a_retraction, a_trial


def applied(*events: Event) -> tuple[RunState, list[Effect]]:
    """A run after these events, and what each did."""
    run = RunState("run-1", PriceTable.default())
    found = []
    for offset, event in enumerate(events):
        raw = json.dumps(event).encode()
        found.append(run.apply(EVENT.validate_json(raw), raw, offset, 1_700_000_000_000))
    run.count()
    return run, found


def test_a_result_counts_its_copy_is_a_duplicate_and_a_weaker_one_is_superseded() -> None:
    strong, weak = a_trial(revision=2), a_trial(revision=1, resolved=False)
    run, effects = applied(strong, strong, weak)
    assert effects == [Effect.COUNTED, Effect.DUPLICATE, Effect.SUPERSEDED]
    assert (run.totals.trials, run.state_version) == (1, 2)


def test_a_retraction_empties_the_slot_for_all_that_is_not_newer() -> None:
    run, effects = applied(a_trial(revision=1), a_retraction(revision=3), a_trial(revision=3))
    assert (effects[0], effects[2]) == (Effect.COUNTED, Effect.IGNORED)
    assert run.totals.trials == 0
    run, _ = applied(a_trial(revision=1), a_retraction(revision=3), a_trial(revision=4))
    assert run.totals.trials == 1


def test_a_run_exists_from_its_first_event_until_it_is_deleted() -> None:
    assert not RunState("run-1", PriceTable.default()).exists
    assert applied(a_plan(tasks=1))[0].exists
    run, effects = applied(a_trial(revision=1), a_deletion(revision=2), a_trial(revision=2))
    assert not run.exists
    assert effects[2] is Effect.IGNORED
    assert applied(a_deletion(revision=2), a_trial(revision=3))[0].exists


def test_the_latest_time_stands_whatever_order_events_come_in() -> None:
    early, late = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"
    events = [a_trial(task_id=at, finished_at=at) for at in (early, late)]
    assert applied(*events)[0].last_event_at == applied(*reversed(events))[0].last_event_at
