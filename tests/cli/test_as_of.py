"""`--as-of`, on a log that a worker publishes from and on files: the numbers of then, digest by digest."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from streamer.client.folded import fold_run
from streamer.folding.fold import fold_records
from streamer.folding.score.prices import PriceTable
from streamer.schemas.wire import BadPosition, Position, Record, up_to
from streamer.storage.kafka import Names, partition_of
from streamer.storage.log import read_topic
from tests.aggregate.test_order_never_matters import events
from tests.cli.calling import call, lines, ndjson, published, settled
from tests.support.cli import streamer
from tests.support.events import Event, a_plan, a_retraction, a_start, a_trial, digests, folded, records
from tests.support.examples import examples
from tests.support.online import PARTITIONS, Online, online

RUN, OTHER = "as-of/1", "as-of/2"
AGENTS = ("good:m", "bad:m", "nop:nop")


def trial(number: int, agent: str, **fields: Any) -> Event:
    name, model = agent.split(":")
    passed = (number * 7 + len(name)) % 5 > 1
    measured = {"resolved": passed, "score": number / 20, "cost_usd": 0.25 * number, "tier": f"T{number % 2}"}
    return a_trial(run_id=RUN, task_id=f"t{number}", agent=name, model=model, **measured | fields)


def history() -> list[list[Event]]:
    """What happens in a run, in portions; another run has events between them."""
    at = {"agent": "good", "model": "m", "tier": "T1"}
    return [
        [a_plan(run_id=RUN, tasks=10, attempts=1, benchmark="b"), a_start(run_id=RUN, task_id="t1", **at)],
        [trial(number, agent) for number in range(4) for agent in AGENTS],
        [a_trial(run_id=OTHER), trial(1, "good:m", resolved=None, revision=1), trial(4, "good:m")],
        [a_retraction(run_id=RUN, task_id="t1", revision=2, **at), trial(1, "good:m", revision=3)],
        [trial(number, agent) for number in range(5, 10) for agent in AGENTS],
        [a_plan(run_id=RUN, revision=1, tasks=9), {"type": "run_finished", "run_id": RUN, "revision": 1}],
    ]


@dataclass
class Logged:
    """A run that a worker published as it came."""

    stack: Online
    summaries: list[dict[str, Any]]

    def query(self, *arguments: object, code: int = 0) -> list[dict[str, Any]]:
        done = call(self.stack, "query", *arguments, "--json")
        assert done.returncode == code, done.stderr
        return lines(done.stdout)

    def at(self, kind: str, version: int) -> list[dict[str, Any]]:
        return [s for s in self.summaries if s["type"] == kind and s["state_version"] == version]


@pytest.fixture(scope="module")
def logged(stack: Online) -> Logged:
    for portion in history():
        published(stack, portion)
        settled(stack, RUN)
    names, found = Names(stack.settings.namespace), []
    topics = (names.run_summaries, names.agent_model_summaries, names.tier_summaries, names.run_comparisons)
    for topic in topics:
        values = (record.value for record in read_topic(stack.settings, topic) if record.value)
        found += [summary for summary in map(orjson.loads, values) if summary["run_id"] == RUN]
    return Logged(stack, found)


def test_as_of_the_state_version_of_every_published_summary_its_digest_stands(logged: Logged) -> None:
    versions = sorted({summary["state_version"] for summary in logged.summaries})
    assert len(versions) >= len(history())
    assert {summary["type"] for summary in logged.summaries} == {
        *("run_summary", "agent_model_summary", "tier_summary", "run_comparison")
    }
    for version in versions:
        past = fold_run(logged.stack.settings, RUN, PriceTable.default(), Position(offset=version))
        groups = {change.group: change.digest for change in past.run.summaries()}
        then = {(group.type, group.tier, group.agent_model): digest for group, digest in groups.items()}
        for summary in (s for s in logged.summaries if s["state_version"] == version):
            place = summary["type"], summary.get("tier"), summary.get("agent_model")
            assert then[place] == summary["digest"], (version, place)
        assert past.snapshot().run.state_version == version


def test_query_answers_as_of_a_version_with_the_summaries_published_then(logged: Logged) -> None:
    runs = sorted({s["state_version"] for s in logged.summaries if s["type"] == "run_summary"})
    version = runs[len(runs) // 2]
    assert version < runs[-1]
    [run] = logged.query("run", RUN, "--as-of", version)
    [then] = logged.at("run_summary", version)
    assert (run["digest"], run["state_version"]) == (then["digest"], version)
    for command, kind in (("agents", "agent_model_summary"), ("tiers", "tier_summary")):
        asked = {
            (s.get("tier"), s["agent_model"]): s["digest"]
            for s in logged.query(command, RUN, "--as-of", version)
        }
        told = {(s.get("tier"), s["agent_model"]): s["digest"] for s in logged.at(kind, version)}
        assert told
        assert told.items() <= asked.items()
    [compared] = logged.query("comparisons", RUN, "--as-of", runs[-1])
    assert compared["digest"] == logged.query("comparisons", RUN)[0]["digest"]
    trials = logged.query("trials", RUN, "--as-of", version)
    assert len(trials) == run["progress"]["done"]
    now = logged.query("trials", RUN), logged.query("trials", RUN, "--as-of", runs[-1])
    live, folded_again = ([trial["digest"] for trial in trials] for trials in now)
    assert live == folded_again
    assert "as-of/1" in call(logged.stack, "query", "run", RUN, "--as-of", version).stdout.decode()


def test_a_report_as_of_a_version_has_the_summaries_published_then(logged: Logged) -> None:
    version = sorted({s["state_version"] for s in logged.summaries if s["type"] == "run_summary"})[2]
    done = call(logged.stack, "report", RUN, "--format", "json", "--as-of", version)
    assert (done.returncode, done.stderr) == (0, b"")
    found = orjson.loads(done.stdout)
    [then] = logged.at("run_summary", version)
    assert found["run"]["digest"] == then["digest"]
    assert len(found["trials"]) == then["progress"]["done"]
    assert found["history"][-1]["state_version"] <= version


def test_a_time_counts_the_records_up_to_it_and_the_state_is_that_of_the_time(logged: Logged) -> None:
    settings, topic = logged.stack.settings, Names(logged.stack.settings.namespace).trial_events
    recorded = list(read_topic(settings, topic, run_id=RUN))
    middle = recorded[len(recorded) // 2]
    at = datetime.fromtimestamp(middle.timestamp / 1000, UTC)
    counted = [record for record in recorded if record.timestamp <= middle.timestamp]
    [run] = logged.query("run", RUN, "--as-of", at.isoformat())
    expected = fold_records(counted, owns=RUN.__eq__).summaries_of(RUN)[-1]
    assert run["digest"] == expected.digest
    assert run["state"] == "running"


@pytest.mark.parametrize(
    ("position", "code", "said"),
    [
        ("999999", 2, "nothing is at offset 999999 yet: the last record is at offset"),
        ("2999-01-01T00:00:00Z", 2, "is in the future"),
        ("2020-01-01T00:00:00Z", 1, "its first event is at offset"),
        ("yesterday", 2, "neither an offset, as 41, nor a time with a zone"),
        ("2026-01-01T00:00:00", 2, "nor a time with a zone"),
        ("-1", 2, "neither an offset"),
    ],
)
def test_a_position_of_which_nothing_is_known_is_one_line(
    logged: Logged, position: str, code: int, said: str
) -> None:
    for command in (["query", "run"], ["report"], ["why"]):
        done = call(logged.stack, *command, RUN, "--as-of", position)
        assert (done.returncode, done.stdout) == (code, b"")
        assert len(done.stderr.splitlines()) == 1
        assert said.lower() in done.stderr.decode().lower()


def test_a_run_that_the_log_does_not_hold_is_said_so(logged: Logged) -> None:
    done = call(logged.stack, "query", "run", "nobody", "--as-of", 0)
    assert (done.returncode, b"holds nothing of run 'nobody'" in done.stderr) == (1, True)


@pytest.mark.kafka
def test_a_log_that_lost_its_beginning_is_said_so(
    kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with online(tmp_path_factory.mktemp("cut"), kafka_bootstrap, "kafka", worker=False) as cut:
        for portion in history():
            published(cut, portion)
        asyncio.run(lose_the_first(cut, 3))
        early = call(cut, "query", "run", RUN, "--as-of", 2)
        assert (early.returncode, b"begins at offset 3" in early.stderr) == (2, True)
        for command in (["query", "run"], ["report"], ["why"]):
            late = call(cut, *command, RUN, "--as-of", 20)
            assert late.returncode == 0, late.stderr
            assert b"begins at offset 3, because earlier events were deleted" in late.stderr


async def lose_the_first(stack: Online, count: int) -> None:
    """Delete the first events of the run's partition."""
    place = TopicPartition(Names(stack.settings.namespace).trial_events, partition_of(RUN, PARTITIONS))
    admin = AIOKafkaAdminClient(**stack.settings.kafka_options())
    await admin.start()
    try:
        await admin.delete_records({place: RecordsToDelete(before_offset=count)})
    finally:
        await admin.close()


@examples(100)
@given(events, st.data())
def test_as_of_any_record_a_fold_is_the_fold_of_what_came_before(
    arrived: list[Event], data: st.DataObject
) -> None:
    if not arrived:
        return
    last = data.draw(st.integers(0, len(arrived) - 1))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    spread = [
        Record(record.value, record.offset, timestamp=int(start.timestamp() * 1000) + 10 * record.offset)
        for record in records(arrived)
    ]
    wanted = digests(folded(arrived[: last + 1])[0])
    at = start + timedelta(milliseconds=10 * last + data.draw(st.integers(0, 9)))
    for position in (Position(offset=last), Position(at=at), Position.of(str(Position(at=at)))):
        assert digests(fold_records(spread, as_of=position).pipeline) == wanted


def test_records_whose_times_are_out_of_order_count_by_their_times() -> None:
    given = [Record(b"{}", offset, timestamp=at) for offset, at in enumerate((1000, 3000, 2000, 4000))]
    position = Position(at=datetime.fromtimestamp(2.5, UTC))
    assert [record.offset for record in up_to(given, position)] == [0, 2]


def test_records_without_a_time_have_no_place_before_a_time() -> None:
    with pytest.raises(BadPosition, match="has no timestamp"):
        list(up_to([Record(b"{}", 0)], Position(at=datetime(2026, 1, 1, tzinfo=UTC))))


def test_of_a_file_the_offset_is_the_line_from_0_as_its_summaries_say_it(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    arrived = [event for portion in history() for event in portion if event["run_id"] == RUN]
    file.write_bytes(ndjson(arrived))
    for version in (0, len(arrived) // 2):
        done = streamer("fold", file, "--json", "--as-of", version)
        assert done.returncode == 0, done.stderr
        shorter = streamer("fold", "-", "--json", stdin=ndjson(arrived[: version + 1]))
        assert done.stdout == shorter.stdout
        assert {summary["state_version"] for summary in lines(done.stdout)} == {version}
        report = orjson.loads(
            streamer("report", "--from", file, "--format", "json", "--as-of", version).stdout
        )
        assert report["run"]["digest"] == lines(done.stdout)[-1]["digest"]


@pytest.mark.parametrize("command", [["fold"], ["report", "--from"], ["why", "--from"]])
def test_of_a_file_a_time_or_a_line_beyond_its_end_is_a_usage_error(
    tmp_path: Path, command: list[str]
) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(ndjson([a_trial()]))
    ask = partial(streamer, *command, file, "--as-of")
    for position, said in (("1", "last record is at offset 0"), ("2026-01-01T00:00:00Z", "has no timestamp")):
        done = ask(position)
        assert (done.returncode, done.stdout) == (2, b"")
        assert said in done.stderr.decode()
