"""A run broken down by subtest or by label, from the event log. Folding needs numpy; reading does not."""

from __future__ import annotations

from typing import Any

from streamer.aggregate.by_label import by_label
from streamer.aggregate.by_subtest import by_subtest
from streamer.aggregate.run_state import RunState
from streamer.client.trials import NotInLog
from streamer.fold import CannotBeFolded, fold_records
from streamer.kafka.log import read_topic
from streamer.kafka.names import Names
from streamer.score import PriceTable
from streamer.settings import Settings


def subtests(settings: Settings, run_id: str, prices: PriceTable) -> list[dict[str, Any]]:
    """The tiers of a run by subtest; see `by_subtest`. Raises what :func:`folded_run` raises."""
    return by_subtest(folded_run(settings, run_id, prices))


def labelled(settings: Settings, run_id: str, label: str, prices: PriceTable) -> list[dict[str, Any]]:
    """The trials of a run by a label of theirs; see `by_label`.

    Raises:
        UnknownLabel: no trial has it.
        others: as :func:`folded_run`.
    """
    return by_label(folded_run(settings, run_id, prices), label)


def folded_run(settings: Settings, run_id: str, prices: PriceTable) -> RunState:
    """A run, folded again from the event topic.

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
    return folding.pipeline.run(run_id).state


def prices_of(settings: Settings) -> PriceTable:
    """The price table that the settings name, or the default one.

    >>> prices_of(Settings(prices_file=None)).digest() == PriceTable.default().digest()
    True
    """
    if settings.prices_file is None:
        return PriceTable.default()
    return PriceTable.from_toml(settings.prices_file.read_text(encoding="utf-8"))
