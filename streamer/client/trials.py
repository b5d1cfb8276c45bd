"""Single trials, which only the log knows."""

from __future__ import annotations

from streamer.client.scored_trial_reader import ScoredTrialReader
from streamer.kafka.log import read_topic
from streamer.kafka.names import Names
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
