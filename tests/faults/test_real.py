"""The real runs of the fault suite are checked by numbers that a plain fold has too."""

from __future__ import annotations

from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record
from streamer.storage.kafka import Names
from tests.faults.real import RUNS, RealRuns
from tests.faults.traffic import Traffic
from tests.support.data import shared_data


def test_a_fold_of_the_real_runs_has_the_numbers_of_their_harnesses() -> None:
    real, names = RealRuns(shared_data(), seed=1), Names("faults")
    pipeline = Pipeline()
    messages = real.messages(Traffic(1, 4))
    pipeline.fold(Record(message.value, offset) for offset, message in enumerate(messages))
    topics = {
        "agent_model": names.agent_model_summaries,
        "tier": names.tier_summaries,
        "run": names.run_summaries,
    }
    latest: dict[str, dict[str, bytes]] = {topic: {} for topic in topics.values()}
    for run in pipeline.runs():
        for change in pipeline.run(run).summaries():
            if change.value is not None:
                latest[topics[change.kind]][change.key] = change.value
    assert real.check(latest, names) == RUNS + 1
