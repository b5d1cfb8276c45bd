"""The events of trials: told apart by slot and content, read once, whatever else lies in the partition."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from streamer.settings import Settings
from streamer.storage.kafka import TopicAuthorizationFailedError, TopicMissing
from streamer.web import log as run_log
from streamer.web.log import EventsClosed, TrialEvents, TrialLog, TrialMoved
from tests.support.events import a_plan, a_trial
from tests.web.feeding import Feed


@pytest.fixture
async def logging_feed(logged: Settings) -> AsyncIterator[Feed]:
    async with Feed(logged, log=True) as feed:
        yield feed


@pytest.fixture
def events(logged: Settings) -> TrialEvents:
    return TrialEvents(logged, lambda: 0.0)


async def test_the_winners_of_the_run_are_kept_with_what_lists_show(
    logging_feed: Feed, events: TrialEvents
) -> None:
    await logging_feed.take(
        [
            a_plan(),
            a_trial(message="Timeout after 3 s", trial_name="n", finished_at="2026-01-02T03:04:05Z"),
            a_trial(task_id="other", resolved=False),
            *(a_trial(run_id=f"other-{number}") for number in range(9)),
        ]
    )
    facts = await events.facts("run-1")
    assert [fact.reason for fact in facts.values()] == ["Timeout after 3 s", None]
    first = next(iter(facts.values()))
    assert (first.kind, first.trial_name) == ("Timeout after N s", "n")
    assert first.finished_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


async def test_the_whole_event_is_read_where_it_stands(
    logging_feed: Feed, events: TrialEvents, logged: Settings
) -> None:
    log = TrialLog(logged, lambda: 0.0)
    await logging_feed.take([a_trial(task_id=f"t{number}", message=f"m{number}") for number in range(5)])
    trials = await log.trials("run-1")
    assert len(trials) == 5
    for trial in trials.values():
        event = await events.event("run-1", trial)
        assert event is not None
        assert event.message == f"m{trial.row.task_id[1:]}"
        assert await events.event("other", trial) is None
        with pytest.raises(TrialMoved):
            await events.event("run-1", replace(trial, fingerprint="of an older result"))


async def test_however_often_a_slot_is_written_its_winner_alone_is_kept(
    logging_feed: Feed, events: TrialEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "MAX_TRIALS", 3)
    revisions = (3, 9, *range(4, 9))
    await logging_feed.take([a_trial(revision=number, message=f"m{number}") for number in revisions])
    assert [fact.reason for fact in (await events.facts("run-1")).values()] == ["m9"]


async def test_a_run_whose_id_is_written_with_escapes_is_found(
    logging_feed: Feed, events: TrialEvents
) -> None:
    run = 'a "run" \u05e9/\\'
    await logging_feed.take([a_trial(run_id=run)])
    assert len(await events.facts(run)) == 1


@pytest.mark.parametrize(
    "refusal", [TopicMissing("trial-events", "127.0.0.1:1"), TopicAuthorizationFailedError("trial-events")]
)
async def test_a_topic_that_may_not_be_seen_or_read_is_said_to_be_closed(
    monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    """The edge is the broker, which says the one or the other by the permission that lacks."""

    async def refused(*_: object, **__: object) -> AsyncIterator[list[object]]:
        raise refusal
        yield []

    monkeypatch.setattr(run_log, "read_batches", refused)
    with pytest.raises(EventsClosed, match=r"trial-events.*docs/security\.md"):
        await TrialEvents(Settings(), lambda: 0.0).facts("run-1")
