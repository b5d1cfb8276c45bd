"""What has to be published again: what differs from the tables, and what they hold beyond a run."""

from __future__ import annotations

import pytest

from streamer.folding.slots import SummaryChange
from streamer.storage.kafka import Names
from streamer.worker.partition import RecordEncoder
from tests.support.builders import a_run_change, an_agent_model_change
from tests.worker.processor_bench import Bench


class Given:
    """An encoder whose records are acknowledged at once."""

    def __init__(self) -> None:
        self._bench = Bench()
        self.encoder = RecordEncoder(Names(), self._bench.tables)

    async def publish(self, *changes: SummaryChange) -> None:
        await self._bench.broker.write(self.encoder.of_summaries(0, changes))


@pytest.fixture
def given() -> Given:
    return Given()


async def test_a_summary_differs_by_its_content_and_not_by_when_it_was_touched(given: Given) -> None:
    change = a_run_change(version=1)
    assert given.encoder.differs(change)
    await given.publish(change)
    assert not given.encoder.differs(a_run_change(version=2))
    assert given.encoder.differs(a_run_change(version=1, trials=2))
    assert given.encoder.differs(a_run_change(version=1, epoch=2))
    assert given.encoder.differs(a_run_change(deleted=True))


async def test_a_tombstone_of_what_was_never_published_says_nothing_new(given: Given) -> None:
    assert not given.encoder.differs(a_run_change(deleted=True))


async def test_groups_that_a_run_has_no_more_get_tombstones_of_their_own_version(given: Given) -> None:
    await given.publish(
        a_run_change(version=3), an_agent_model_change(version=3), an_agent_model_change("other", version=3)
    )
    current = {"r1": [a_run_change(version=4)]}
    [orphan] = given.encoder.orphans(0, current, epoch=2)
    assert (orphan.run_id, orphan.kind, orphan.value) == ("r1", "agent_model", None)
    assert (orphan.epoch, orphan.state_version) == (2, 3)


async def test_what_the_tables_hold_of_a_run_reads_back(given: Given) -> None:
    change = an_agent_model_change("a|b", version=3)
    await given.publish(change, a_run_change("other"))
    assert given.encoder.stored_of_runs(0, ["a|b", "unknown"]) == {"a|b": [change], "unknown": []}
