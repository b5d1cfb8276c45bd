"""What only the log knows: single trials, and tiers broken down by subtest."""

from __future__ import annotations

from typing import Any

from streamer.aggregate.by_subtest import by_subtest
from streamer.client.scored_trial_reader import ScoredTrialReader
from streamer.fold import CannotBeFolded, fold_records
from streamer.kafka.log import read_topic
from streamer.kafka.names import Names
from streamer.score import PriceTable
from streamer.settings import Settings


class NotInLog(Exception):
    """The log holds nothing of a run."""

    def __init__(self, run_id: str, topic: str) -> None:
        super().__init__(
            f"topic {topic!r} holds nothing of run {run_id!r}. `streamer query runs` lists the runs; "
            "if the run is among them, its part of the log was cut off"
        )


def scored_trials(settings: Settings, run_id: str) -> list[bytes]:
    """The scored trial of every filled slot of a run, as published; by key.

    Raises:
        NotInLog: there is none.
        TopicMissing, TopicUnreadable, KafkaError: see `streamer.kafka.log`.
    """
    topic = Names(settings.namespace).scored_trials
    reader, latest = ScoredTrialReader(run_id), dict[bytes, bytes]()
    for record in read_topic(settings, topic, run_id=run_id):
        if (change := reader.change(record)) is None:
            continue
        if change.value is None:
            latest.pop(change.key, None)
        else:
            latest[change.key] = change.value
    if not latest:
        raise NotInLog(run_id, topic)
    return [latest[key] for key in sorted(latest)]


def subtests(settings: Settings, run_id: str, prices: PriceTable) -> list[dict[str, Any]]:
    """The tiers of a run by subtest, folded again from the event topic; see `by_subtest`.

    Raises:
        NotInLog: the event topic holds nothing of the run.
        CannotBeFolded: an exception sets it apart.
        TopicMissing, TopicUnreadable, KafkaError: see `streamer.kafka.log`.
    """
    topic = Names(settings.namespace).trial_events
    records = read_topic(settings, topic, run_id=run_id)
    folding = fold_records(records, prices=prices, owns=run_id.__eq__)
    if failure := folding.pipeline.failed.get(run_id):
        raise CannotBeFolded(failure)
    if run_id not in folding.runs():
        raise NotInLog(run_id, topic)
    return by_subtest(folding.pipeline.run(run_id).state)
