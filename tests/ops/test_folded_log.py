"""The event log folded again is what a fold of the same events says."""

from __future__ import annotations

from streamer.folding.score.prices import PriceTable
from streamer.operate.verify import fold_log
from streamer.settings import Settings
from tests.ops.verifying import publish
from tests.publish.publishing import make_topics, settings_of
from tests.support.events import a_deletion, a_trial, folded

EVENTS = [a_trial(run_id=run, task_id=task) for run in ("one", "two") for task in ("a", "b")]


def a_log(embedded_broker: str, namespace: str) -> Settings:
    return make_topics(settings_of(embedded_broker, namespace))


def test_every_run_has_the_digests_of_a_fold(embedded_broker: str, namespace: str) -> None:
    settings = a_log(embedded_broker, namespace)
    publish(settings, EVENTS)
    log = fold_log(settings, prices=PriceTable.default(), run_id=None, scored=True)
    assert log.runs.keys() == log.scored.keys() == {"one", "two"}
    for run_id, changes in log.runs.items():
        wanted = folded(EVENTS)[0].run(run_id).summaries()
        assert {c.digest for c in changes.values()} == {c.digest for c in wanted}
    assert {len(scored) for scored in log.scored.values()} == {2}
    assert {key[:3] for key in log.scored["one"]} == {b"one"}


def test_of_one_run_the_others_are_named_and_not_folded(embedded_broker: str, namespace: str) -> None:
    settings = a_log(embedded_broker, namespace)
    publish(settings, EVENTS)
    log = fold_log(settings, prices=PriceTable.default(), run_id="one", scored=False)
    assert (set(log.runs), log.scored, log.others, log.failed) == ({"one"}, {}, {"two"}, {})


def test_a_deleted_run_has_nothing(embedded_broker: str, namespace: str) -> None:
    settings = a_log(embedded_broker, namespace)
    publish(settings, [*EVENTS, a_deletion(run_id="one", revision=9)])
    log = fold_log(settings, prices=PriceTable.default(), run_id=None, scored=True)
    assert {suffix for suffix, change in log.runs["one"].items() if change.value is not None} == set()
    assert log.scored.get("one", {}) == {}
