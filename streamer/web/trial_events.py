"""What harnesses said of the trials that people look at: message, files, times; scored trials lack them.

A scored trial names the event that won its slot by slot and fingerprint (R17). Of each slot only the event
that wins it is kept here, so a slot that is written often takes the room of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from sys import intern

from streamer.aggregate.keys import fingerprint, microseconds, slot_in_run, slot_key
from streamer.aggregate.slots import SlotRank
from streamer.kafka.errors import TopicAuthorizationFailedError, TopicMissing
from streamer.kafka.names import Names
from streamer.kafka.reader import LogRecord
from streamer.records import may_name
from streamer.schemas.decode import decode
from streamer.schemas.events import TrialResult
from streamer.settings import Settings
from streamer.views.failures import kind_of, telling_line
from streamer.web.problems import Refused
from streamer.web.run_log import CachedRunLog
from streamer.web.trial_log import HeldTrial, TrialMoved


class EventsClosed(Refused):
    """The server's account may not read events."""

    status = 501

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"The server may not read topic {topic!r}, so it knows no messages, labels and files of trials. "
            "Let its Kafka account read that topic (docs/security.md)"
        )


@dataclass(frozen=True, slots=True)
class EventFacts:
    """The facts that lists need about an event.

    Attributes:
        standing: what decides which event of a slot wins (R17).
        offset: where it stands in its partition.
        finished_at: when the trial ended; None: not said.
        trial_name: the harness's name of the trial; None: not said.
        reason: the line of its message that says why it failed; None without a message.
        kind: of its message, for groups of failures; "" without one.
    """

    standing: SlotRank
    offset: int
    finished_at: datetime | None
    trial_name: str | None
    reason: str | None
    kind: str


def facts_of(facts: Mapping[str, EventFacts], trial: HeldTrial) -> EventFacts | None:
    """The facts about the result of a trial; None: the log lacks them, or a newer result won."""
    found = facts.get(trial.slot)
    return found if found is not None and found.standing[2] == trial.fingerprint else None


class _EventsOfRun:
    """The results that win the slots of one run, by slot.

    A retraction that withdraws the greatest standing withdraws all of its slot, so retractions are not read.
    """

    def __init__(self, run_id: str) -> None:
        self.held: dict[str, EventFacts] = {}
        self._run_id = run_id

    def take(self, record: LogRecord) -> None:
        """Keep the facts of a result of this run."""
        if not may_name(self._run_id, record.value):
            return
        event = decode(record.value)
        if not isinstance(event, TrialResult) or event.run_id != self._run_id:
            return
        slot = slot_in_run(slot_key(event))
        standing = (event.revision, microseconds(event.finished_at), fingerprint(event))
        if (held := self.held.get(slot)) is not None and standing <= held.standing:
            return
        said = event.message
        self.held[slot] = EventFacts(
            standing,
            record.offset,
            event.finished_at,
            event.trial_name,
            telling_line(said) if said else None,
            intern(kind_of(said)) if said else "",
        )


class TrialEvents:
    """The results that harnesses published, by run.

    Args:
        settings: where the broker is.
        clock: seconds, monotonic.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._topic = Names(settings.namespace).trial_events
        self._log = CachedRunLog(settings, self._topic, _EventsOfRun, clock)

    async def facts(self, run_id: str) -> Mapping[str, EventFacts]:
        """The facts about the result that wins each slot of a run, by slot.

        Raises:
            EventsClosed: the broker does not show the topic of events. Also as `RunLog.of` otherwise.
        """
        try:
            return (await self._log.of(run_id)).held
        except (TopicAuthorizationFailedError, TopicMissing):
            raise EventsClosed(self._topic) from None

    async def event(self, run_id: str, trial: HeldTrial) -> TrialResult | None:
        """The result of a trial as it was published; None: the log has it no more.

        Raises:
            TrialMoved: another result wins the slot by now; ask again.
        """
        facts = (await self.facts(run_id)).get(trial.slot)
        if facts is not None and facts.standing[2] != trial.fingerprint:
            raise TrialMoved
        record = None if facts is None else await self._log.record_at(run_id, facts.offset)
        event = None if record is None else decode(record.value)
        return event if isinstance(event, TrialResult) and event.run_id == run_id else None
