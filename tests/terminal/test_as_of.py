"""`--as-of`, on a log that a worker publishes from and on files: the numbers of then, digest by digest."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import pty
import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
import redis
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from streamer.client.folded import fold_run
from streamer.folding.fold import fold_records
from streamer.folding.prices import PriceTable
from streamer.operate.local.processes import free_port
from streamer.schemas.wire import BadPosition, LogRecord, Position, Record, up_to
from streamer.settings import Settings
from streamer.sources.files import MAX_FILE_BYTES, FileError, read_json
from streamer.storage.kafka import Names, partition_of
from streamer.storage.log import read_topic
from streamer.worker.process import ensure_topics
from tests.folding.test_fold import events
from tests.sources.builders import a_result, a_run, converted, trials_of
from tests.support.bounded import GIB, gzip_bomb, sparse, streamer_within
from tests.support.cli import found_by, streamer
from tests.support.events import Event, a_plan, a_retraction, a_start, a_trial, digests, folded, records
from tests.support.examples import examples
from tests.support.online import PARTITIONS, Online, online
from tests.support.tailing import followed
from tests.support.worker_process import wait_for
from tests.terminal.calling import a_run as a_published_run
from tests.terminal.calling import call, lines, ndjson, published, settled, started, stderr_of, the_run
from tests.terminal.gating import written
from tests.terminal.watch.driving import LARGE
from tests.terminal.watch.terminal import Terminal, tmux
from tests.views.test_ledger import BASE, entered

RUN, OTHER = "as-of/1", "as-of/2"
AGENTS = ("good:m", "bad:m", "nop:nop")


def trial(number: int, agent: str, **fields: Any) -> Event:
    name, model = agent.split(":")
    passed = (number * 7 + len(name)) % 5 > 1
    measured = {"resolved": passed, "score": number / 20, "cost_usd": 0.25 * number, "tier": f"T{number % 2}"}
    measured["provenance"] = {"task_digest": f"{number % 3}", "timeout": "600" if name == "good" else "900"}
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


class Logged(NamedTuple):
    stack: Online
    summaries: list[dict[str, Any]]

    def query(self, *arguments: object) -> list[dict[str, Any]]:
        done = call(self.stack, "query", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return lines(done.stdout)

    def at(self, kind: str, version: int) -> list[dict[str, Any]]:
        return [s for s in self.summaries if s["type"] == kind and s["state_version"] == version]


def events_of_the_run(settings: Settings) -> list[LogRecord]:
    """Its records; the partition has those of other runs, too."""
    records = read_topic(settings, Names(settings.namespace).trial_events, run_id=RUN)
    return [one for one in records if one.value and orjson.loads(one.value).get("run_id") == RUN]


@pytest.fixture
def file(logged: Logged, tmp_path: Path) -> Path:
    found = events_of_the_run(logged.stack.settings)
    (result := tmp_path / "events.ndjson").write_bytes(b"\n".join(record.value or b"" for record in found))
    return result


@pytest.fixture(scope="module")
def logged(stack: Online) -> Logged:
    for portion in history():
        settled(stack, RUN, portion)
    names = Names(stack.settings.namespace)
    topics = (names.run_summaries, names.agent_model_summaries, names.tier_summaries, names.run_comparisons)
    values = (record.value for topic in topics for record in read_topic(stack.settings, topic))
    summaries = [orjson.loads(value) for value in values if value]
    return Logged(stack, [summary for summary in summaries if summary["run_id"] == RUN])


def test_as_of_the_state_version_of_every_published_summary_its_digest_stands(logged: Logged) -> None:
    versions = sorted({summary["state_version"] for summary in logged.summaries})
    assert len(versions) >= len(history())
    kinds = {"run_summary", "agent_model_summary", "tier_summary", "run_comparison"}
    assert {summary["type"] for summary in logged.summaries} == kinds
    for version in versions:
        past = fold_run(logged.stack.settings, RUN, PriceTable.default(), Position(offset=version))
        groups = {change.group: change.digest for change in past.run.summaries()}
        then = {(group.type, group.tier, group.agent_model): digest for group, digest in groups.items()}
        for summary in (s for s in logged.summaries if s["state_version"] == version):
            place = summary["type"], summary.get("tier"), summary.get("agent_model")
            assert then[place] == summary["digest"], (version, place)
        assert past.answers.run.state_version == version


def test_query_and_report_answer_as_of_a_version_with_the_summaries_published_then(logged: Logged) -> None:
    runs = sorted({s["state_version"] for s in logged.summaries if s["type"] == "run_summary"})
    version = runs[len(runs) // 2]
    assert version < runs[-1]
    [run] = logged.query("run", RUN, "--as-of", version)
    [then] = logged.at("run_summary", version)
    assert (run["digest"], run["state_version"]) == (then["digest"], version)
    for command, kind in (("agents", "agent_model_summary"), ("tiers", "tier_summary")):
        asked, told = (
            {(s.get("tier"), s["agent_model"]): s["digest"] for s in stored}
            for stored in (logged.query(command, RUN, "--as-of", version), logged.at(kind, version))
        )
        assert told
        assert told.items() <= asked.items()
    assert len(logged.query("trials", RUN, "--as-of", version)) == run["progress"]["done"]
    assert "as-of/1" in call(logged.stack, "query", "run", RUN, "--as-of", version).stdout.decode()
    done = call(logged.stack, "report", RUN, "--format", "json", "--as-of", version)
    assert stderr_of(done, 0) == ""
    result = orjson.loads(done.stdout)
    assert result["run"]["digest"] == then["digest"]
    assert len(result["trials"]) == then["progress"]["done"]
    assert result["history"][-1]["state_version"] <= version


def test_redis_the_log_and_a_file_give_every_question_one_answer(logged: Logged, file: Path) -> None:
    [run] = logged.query("run", RUN)
    report = call(logged.stack, "report", RUN, "--from", file, "--format", "json").stdout
    summaries = lines(call(logged.stack, "fold", file, "--json").stdout)
    of_file = orjson.loads(report)
    compared = [one for one in summaries if one["type"] == "run_comparison" and one["run_id"] == RUN]
    of_file["comparisons"] = compared
    for question in ("run", "agents", "tiers", "comparisons", "trials"):
        now = logged.query(question, RUN)
        then = logged.query(question, RUN, "--as-of", run["state_version"])
        differs = ["epoch", "state"]  # the worker's beginning, and the time of asking
        if question != "run":
            differs += ["state_version", "last_event_at"]  # a worker publishes each as it changes
        differing = dict.fromkeys(differs)
        assert [answer | differing for answer in then] == [answer | differing for answer in now], question
        of_question = of_file[question] if isinstance(of_file[question], list) else [of_file[question]]
        assert [answer["digest"] for answer in of_question] == [answer["digest"] for answer in now], question


def test_r36_redis_and_a_file_know_what_trials_were_made_with(logged: Logged, file: Path) -> None:
    """R36: the hash `tasks` has the provenance of trials as a fold of the events has it."""
    agents = ("--a-agent", "good:m", "--b-agent", "bad:m", "--json")
    live = call(logged.stack, "compare", RUN, RUN, *agents)
    of_file = call(logged.stack, "compare", "--files", file, file, *agents)
    assert live.returncode == of_file.returncode == 3
    answer = orjson.loads(live.stdout)
    assert answer == orjson.loads(of_file.stdout)
    assert answer["refused"] == ["timeout"]
    assert "timeout 600 against 900 in 9 of 10 common tasks" in " ".join(answer["words"])


def test_a_time_counts_the_records_up_to_it_and_the_state_is_that_of_the_time(logged: Logged) -> None:
    recorded = events_of_the_run(logged.stack.settings)
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
        ("999999", 2, "there is nothing at offset 999999 yet: the last record is at"),
        ("2999-01-01T00:00:00Z", 2, "is in the future"),
        ("2020-01-01T00:00:00Z", 1, "its first event is at offset"),
        ("yesterday", 2, "neither an offset (41) nor a time with a zone"),
        ("2026-01-01T00:00:00", 2, "nor a time with a zone"),
        ("-1", 2, "neither an offset"),
    ],
)
def test_an_unknown_position_is_one_line(logged: Logged, position: str, code: int, said: str) -> None:
    for command in (["query", "run"], ["report"], ["why"]):
        done = call(logged.stack, *command, RUN, "--as-of", position)
        [line] = stderr_of(done, code).splitlines()
        assert (done.stdout, said.lower() in line.lower()) == (b"", True)


def test_a_run_that_the_log_does_not_hold_is_said_so(logged: Logged) -> None:
    done = call(logged.stack, "query", "run", "absent", "--as-of", 0)
    assert "holds nothing for run 'absent'" in stderr_of(done, 1)


@pytest.mark.kafka
def test_a_log_that_lost_its_beginning_is_said_so(kafka_bootstrap: str, tmp_path: Path) -> None:
    with online(tmp_path, kafka_bootstrap, "kafka", worker=False) as cut:
        for portion in history():
            published(cut, portion)
        asyncio.run(lose_the_first(cut, 3))
        assert "begins at offset 3" in stderr_of(call(cut, "query", "run", RUN, "--as-of", 2), 2)
        for command in (["query", "run"], ["report"], ["why"]):
            late = stderr_of(call(cut, *command, RUN, "--as-of", 20), 0)
            assert "begins at offset 3, because earlier events were deleted" in late


async def lose_the_first(stack: Online, count: int) -> None:
    place = TopicPartition(Names(stack.settings.namespace).trial_events, partition_of(RUN, PARTITIONS))
    admin = AIOKafkaAdminClient(**stack.settings.kafka_options())
    await admin.start()
    try:
        await admin.delete_records({place: RecordsToDelete(before_offset=count)})
    finally:
        await admin.close()


@examples(100)
@given(events, st.data())
def test_a_fold_counts_what_came_before(arrived: list[Event], data: st.DataObject) -> None:
    if not arrived:
        return
    last = data.draw(st.integers(0, len(arrived) - 1))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    spread = [
        Record(record.value, record.offset, timestamp=int(start.timestamp() * 1000) + 10 * record.offset)
        for record in records(arrived)
    ]
    expected = digests(folded(arrived[: last + 1])[0])
    at = start + timedelta(milliseconds=10 * last + data.draw(st.integers(0, 9)))
    for position in (Position(offset=last), Position(at=at), Position.of(str(Position(at=at)))):
        assert digests(fold_records(spread, as_of=position).pipeline) == expected


def test_records_whose_times_are_out_of_order_count_by_their_times() -> None:
    given = [Record(b"{}", offset, timestamp=at) for offset, at in enumerate((1000, 3000, 2000, 4000))]
    position = Position(at=datetime.fromtimestamp(2.5, UTC))
    assert [record.offset for record in up_to(given, position)] == [0, 2]
    with pytest.raises(BadPosition, match="has no timestamp"):
        list(up_to([Record(b"{}", 0)], position))


def test_of_a_file_the_offset_is_the_line_from_0_as_its_summaries_say_it(tmp_path: Path) -> None:
    arrived = [event for portion in history() for event in portion if event["run_id"] == RUN]
    file = written(tmp_path, "events.ndjson", arrived)
    for version in (0, len(arrived) // 2):
        shorter = streamer("fold", "-", "--json", stdin=ndjson(arrived[: version + 1])).stdout
        assert streamer("fold", file, "--json", "--as-of", version).stdout == shorter
        assert {summary["state_version"] for summary in lines(shorter)} == {version}
        report = streamer("report", "--from", file, "--format", "json", "--as-of", version).stdout
        assert orjson.loads(report)["run"]["digest"] == lines(shorter)[-1]["digest"]


@pytest.mark.parametrize("command", [["fold"], ["report", "--from"], ["why", "--from"]])
def test_a_position_beyond_a_file_is_wrong_use(tmp_path: Path, command: list[str]) -> None:
    file = written(tmp_path, "events.ndjson", [a_trial()])
    for position, said in (("1", "last record is at 0"), ("2026-01-01T00:00:00Z", "has no timestamp")):
        done = streamer(*command, file, "--as-of", position)
        assert (said in stderr_of(done, 2), done.stdout) == (True, b"")


# Files larger than the memory: sparse, as an agent under test can write them, or packed.
MIB = 1024**2


def a_run_with_two_trials(folder: Path) -> tuple[Path, Path]:
    results = [a_result(task, total_input_tokens=7) for task in ("t1", "t2")]
    run = a_run(folder / "run1", results, lock={"agent": {"name": "terminus", "model_name": "gpt-5"}})
    return run, run / "t1" / results[0]["trial_name"]


def converted_within(most_bytes: int, run: Path) -> tuple[list[str], str]:
    ended = streamer_within(most_bytes, "convert", run, "--explain")
    assert ended.returncode in (0, 1), ended.stderr.decode()[-2000:]
    return [trial["task_id"] for trial in trials_of(lines(ended.stdout))], ended.stderr.decode()


@pytest.mark.parametrize("name", ["agent-logs/trajectory.json", "results.json"])
def test_a_sparse_file_of_6_gb_is_named(tmp_path: Path, name: str) -> None:
    run, trial = a_run_with_two_trials(tmp_path)
    sparse(trial / name)
    tasks, said = converted_within(GIB, run)
    assert tasks == (["t2"] if name == "results.json" else ["t1", "t2"])
    assert f"{name}: too large: 6,442,450,944 bytes; 67,108,864 are allowed" in said


@pytest.mark.slow
def test_an_agent_log_at_the_limit_that_is_all_brackets_is_read_within_2_gib(tmp_path: Path) -> None:
    """No JSON takes more memory for its size."""
    run, trial = a_run_with_two_trials(tmp_path)
    file = trial / "agent-logs" / "trajectory.json"
    file.parent.mkdir()
    file.write_bytes(b"[" + b"[]," * ((MAX_FILE_BYTES - 4) // 3) + b"[]]")
    tasks, said = converted_within(2 * GIB + 512 * MIB, run)
    assert tasks == ["t1", "t2"]
    assert "too large" not in said


def test_a_file_one_byte_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    at, beyond = tmp_path / "at.json", tmp_path / "beyond.json"
    at.write_bytes(b" " * (MAX_FILE_BYTES - 2) + b"{}")
    beyond.write_bytes(b" " * (MAX_FILE_BYTES - 1) + b"{}")
    assert read_json(at) == {}
    with pytest.raises(FileError, match=f"{MAX_FILE_BYTES:,} are allowed"):
        read_json(beyond)


@pytest.mark.parametrize("name", ["agent-logs/trajectory.json", "sessions/agent.cast", "results.json"])
def test_a_directory_with_a_sparse_file_of_6_gb_is_followed(tmp_path: Path, name: str) -> None:
    _, trial = a_run_with_two_trials(tmp_path)
    sparse(trial / name)
    whole = {"t2"} if name == "results.json" else {"t1", "t2"}
    with followed(tmp_path) as following:
        wait_for(lambda: {event.get("task_id") for event in following.events} >= whole, "all is published")


def test_a_line_of_6_gb_in_a_sparse_or_packed_file_is_an_error_not_an_end(tmp_path: Path) -> None:
    bomb = gzip_bomb(tmp_path / "bomb.ndjson.gz", bytes(64 * MIB), 96)
    for file in (bomb, sparse(tmp_path / "events.ndjson")):
        said = stderr_of(streamer_within(GIB, "fold", file), 1)
        assert "line 1 has more than 67,108,864 bytes; an event has at most 1,048,576" in said
        assert "Traceback" not in said


def test_a_line_too_long_for_an_event_is_a_rejection_and_the_rest_is_folded(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson.gz"
    long = json.dumps(a_trial(task_id="long", note="x" * 20 * MIB)).encode()
    right = json.dumps(a_trial()).encode()
    file.write_bytes(gzip.compress(long + b"\n" + right + b"\n"))
    ended = streamer_within(GIB, "fold", "--json", file)
    assert b"line 1: too_large" in ended.stderr
    assert b"2 events: 1 counted" in ended.stderr


def test_a_configuration_is_adopted_once(settings: Settings) -> None:
    """A deployment with topics, in which no worker has begun."""
    asyncio.run(ensure_topics(settings))
    config = partial(streamer, "config", environment=found_by(settings))
    shown = json.loads(config("show", "--json").stdout)
    assert (shown["current"], shown["workers"]) == (None, {})
    for said in (f"{shown['this_command']} is current now; 0 live workers have it", "is already current"):
        assert said in config("adopt").stderr.decode()
    assert config("show").stdout.decode().count(shown["this_command"]) == 2
    unknown = stderr_of(config("adopt", "0123456789abcdef"), 2)
    assert "no live worker, nor this command, has the configuration" in unknown


def test_a_run_is_deleted_when_that_is_confirmed(stack: Online) -> None:
    settled(stack, "doomed", a_published_run("doomed"))
    assert "confirm with --yes" in stderr_of(call(stack, "delete", "doomed"), 2)
    done = call(stack, "delete", "doomed", "--yes")
    assert stderr_of(done, 0) == "doomed: deleted, and gone from Redis\n"
    verified = call(stack, "verify", "doomed").stdout
    assert verified.splitlines()[1:] == [b"doomed: equal, deleted, and gone from Redis"]
    again = stderr_of(call(stack, "delete", "doomed", "--yes"), 1)
    assert again.startswith("streamer: There is no run 'doomed'")
    followed = ("subscribe", "run", "--run", "doomed", "--from-beginning", "--json", "--limit")
    told = (lines(call(stack, *followed, number).stdout)[-1] for number in range(1, 20))  # until the deletion
    assert any(message.get("deleted") for message in told)


def test_a_deleted_run_stays_in_its_ledger_and_a_baseline_is_not_deleted(stack: Online) -> None:
    """Inference 8a: `c` passes 14 of 20 tasks, its baseline `base` 4; the verdict outlives the run."""
    published(stack, [*BASE, *entered("c", 4, range(14))])
    for run in ("base", "c"):
        settled(stack, run)
    before = json.loads(call(stack, "ledger", "nightly", "--json").stdout)
    assert [one["verdict"] for one in before["candidates"]] == ["better"]
    refused = stderr_of(call(stack, "delete", "base", "--yes"), 2)
    assert "base is the baseline of ledger nightly" in refused
    done = stderr_of(call(stack, "delete", "c", "--yes"), 0)
    assert done == "c: archived, its lines stay in its ledger\n"
    assert json.loads(call(stack, "ledger", "nightly", "--json").stdout) == before
    left = the_run(stack, "c")
    assert (left["trials"], left["status"]) == (0, "archived")
    assert call(stack, "verify", "c").returncode == 0
    gone = stderr_of(call(stack, "delete", "c", "--yes", "--from-ledger"), 0)
    assert gone == "c: deleted, and gone from Redis\n"
    assert "Ledgers: none yet" in stderr_of(call(stack, "ledger", "nightly"), 2)


def test_on_a_terminal_delete_asks(stack: Online) -> None:
    settled(stack, "asked", a_published_run("asked"))
    for answer, code in ((b"n\n", 130), (b"y\n", 0)):
        master, slave = pty.openpty()
        with started(stack, "delete", "asked", stdin=slave, stderr=subprocess.PIPE) as process:
            os.write(master, answer)
            _, said = process.communicate(timeout=60)
        os.close(master)
        os.close(slave)
        assert (process.returncode, b"Delete run asked with 12 trials?" in said) == (code, True)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("to_the_end", [True, False])
@pytest.mark.in_turn(2)
def test_on_a_terminal_the_boards_of_the_demo_stay_until_q_is_pressed(to_the_end: bool) -> None:
    """After its end or before it: what there is by then is verified."""
    tmux()
    with tempfile.TemporaryDirectory(prefix="watch-") as folder:
        arguments = ("demo", *["--fast"] * to_the_end, "--no-browser", "--out", f"{folder}/out")
        with Terminal(Path(folder), *arguments, environment={}, size=LARGE) as terminal:
            if to_the_end:
                over = "The benchmark is over. q ends the demo"
                seen = terminal.shows(over, "aspen:simulated/large", "240 of 240")
                assert "http://127.0.0.1:" in seen
                assert "#/run/demo" in seen
                terminal.still()
                assert terminal.exit_code is None
            else:
                terminal.shows("In a browser: http", "q ends the demo", "agents (6)")
            terminal.press("q")
            terminal.shows("demo: equal, 8 summaries", "Written: ")
            wait_for(lambda: terminal.exit_code == 0, "it ends well")


def test_a_run_is_named_and_labelled_field_by_field(stack: Online) -> None:
    plan = a_plan(run_id="named", benchmark="b", display_name="old", labels={"a": "1"})
    published(stack, [*a_published_run("named"), plan])
    for options in (["--name", "New name"], ["--label", "b=2", "--label", "c=3=4"]):
        assert call(stack, "runs", "set", "named", *options).returncode == 0
    labels = {"a": "1", "b": "2", "c": "3=4"}
    wait_for(lambda: the_run(stack, "named").get("labels") == labels, "labels")
    run = the_run(stack, "named")
    assert (run["display_name"], run["benchmark"]) == ("New name", "b")
    for wrong in ([], ["--label", "novalue"]):
        assert call(stack, "runs", "set", "named", *wrong).returncode == 2


def test_a_run_directory_is_written_and_named_after_the_run_and_no_other_is_touched(tmp_path: Path) -> None:
    done = streamer("simulate", "--out", tmp_path / "nightly", "--trials", 6)
    assert (done.returncode, done.stdout) == (0, b"")
    events, report = converted(tmp_path / "nightly")
    assert {event["run_id"] for event in trials_of(events)} == {"nightly"}
    assert report.unreadable == []
    again = stderr_of(streamer("simulate", "--out", tmp_path), 2)
    assert "is not empty; name a new directory" in again
    assert [path.name for path in tmp_path.iterdir()] == ["nightly"]


def test_verify_says_what_it_found_by_its_exit_code(stack: Online) -> None:
    settled(stack, "checked", a_published_run("checked"))
    [verdict] = lines(call(stack, "verify", "checked", "--json").stdout)
    assert (verdict["run_id"], verdict["outcome"], verdict["differences"]) == ("checked", "equal", [])
    assert call(stack, "verify", "--all").stdout.count(b": equal, ") >= 1
    unknown = call(stack, "verify", "chekced")
    assert (unknown.returncode, b"Did you mean checked?" in unknown.stdout) == (3, True)
    away = call(stack, "verify", "checked", "--redis", f"redis://127.0.0.1:{free_port()}")
    assert stderr_of(away, 3).startswith("streamer: cannot be verified: Redis at")
    assert call(stack, "verify").returncode == call(stack, "verify", "checked", "--all").returncode == 2
    with redis.Redis.from_url(stack.redis.url) as client:
        client.delete(f"{stack.settings.namespace}:streamer:{{checked}}:tier:T0")
    done = call(stack, "verify", "checked", "--wait", 5)
    assert done.returncode == 1
    assert b"checked: 1 difference, 6 summaries compared" in done.stdout
    assert b"tier:T0" in done.stdout
