"""What Redis says of a run of which the log holds nothing."""

from __future__ import annotations

from contextlib import suppress

from streamer.client.reader import StateReader
from streamer.client.results import RedisUnavailable
from streamer.schemas.summaries import RunSummary
from streamer.settings import Settings


def known_run(settings: Settings, run_id: str) -> RunSummary | None:
    """The run as it stands in Redis; None: no Redis answers.

    Raises:
        UnknownRun: Redis has no such run. The error names runs that are called alike.
    """
    with suppress(RedisUnavailable), StateReader(settings) as reader:
        return reader.run(run_id)
    return None


def scored_of(settings: Settings, run_id: str) -> list[bytes]:
    """The scored trials of a run as published; [] of a run that has none yet.

    Raises:
        UnknownRun: as `known_run`.
        NotInLog: the run has scored trials, or no Redis answers, and the log holds none of them.
    """
    from streamer.client.trials import NotInLog, scored_trials  # only this needs a Kafka client

    try:
        return scored_trials(settings, run_id)
    except NotInLog:
        run = known_run(settings, run_id)
        if run is None or run.progress.done:
            raise
        return []
