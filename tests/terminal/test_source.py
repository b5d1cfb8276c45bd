"""`streamer query` against what a fold of the same events says."""

from __future__ import annotations

import asyncio
import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import orjson
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from click.testing import CliRunner, Result

from streamer.folding.breakdowns import by_label, by_subtest
from streamer.folding.fold import Folding, fold_records
from streamer.schemas.base import canonical_json, digest_of
from streamer.schemas.wire import records_of_lines
from streamer.settings import Settings
from streamer.storage.kafka import Names, partition_of
from streamer.storage.redis import RedisSink
from streamer.terminal import StatusLine, cli
from streamer.terminal import options as module
from streamer.terminal.options import open_records
from streamer.views.cells import REASONS
from tests.support.events import Event, a_plan, a_trial
from tests.support.servers import RedisServer
from tests.terminal.calling import lines

Query = Callable[..., Result]
PARTITIONS = 3
DONE, OPEN = "done/1", "open|2"
SUBTESTS = {"T0": 2, "T1": 2}


def trials(run: str, agent: str, passed: int, **fields: Any) -> list[Event]:
    base = {"run_id": run, "agent": agent, "model": "m", "cost_usd": 0.5, **fields}
    return [
        a_trial(**base, task_id=f"t{n}", tier=f"T{n % 2}", subtest=f"0{n // 2}", resolved=n < passed)
        for n in range(4)
    ]


EVENTS = [
    a_plan(run_id=DONE, tasks=1, attempts=1, subtests=SUBTESTS, benchmark="bench"),
    a_plan(run_id=OPEN, tasks=9, attempts=9, labels={"team": "red"}),
    *trials(DONE, "good", 3),
    *trials(DONE, "bad", 1),
    *trials(DONE, "nop", 4),
    *trials(OPEN, "best [red]\u202e", 4, finished_at="2026-01-01T00:00:00Z"),
]
EVENTS[2] |= {"labels": {"size": "small"}}


def fill(settings: Settings, folding: Folding) -> None:
    """Redis and the topics as a worker leaves them."""
    names = Names(settings.namespace)
    cuts = [folding.pipeline.run(run_id).take_changes() for run_id in folding.runs()]
    sent = [(names.trial_events, event["run_id"], None, orjson.dumps(event)) for event in EVENTS]
    sent += [
        (names.scored_trials, cut.run_id, scored.key.encode(), scored.value)
        for cut in cuts
        for scored in cut.scored
    ]

    async def write() -> None:
        sink = RedisSink.from_settings(settings)
        await sink.write(cuts)
        await sink.close()
        admin = AIOKafkaAdminClient(**settings.kafka_options())
        await admin.start()
        topics = (names.trial_events, names.scored_trials)
        await admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics])
        await admin.close()

    asyncio.run(write())
    send(settings, sent)


def send(settings: Settings, records: list[tuple[str, str, bytes | None, bytes | None]]) -> None:
    """Records of a topic and a run, with their keys and values."""

    async def write() -> None:
        async with AIOKafkaProducer(**settings.kafka_options()) as producer:
            for topic, run, key, value in records:
                await producer.send(topic, value, key=key, partition=partition_of(run, PARTITIONS))

    asyncio.run(write())


@pytest.fixture
def settings(redis_server: RedisServer, embedded_broker: str, namespace: str) -> Settings:
    return Settings(bootstrap=embedded_broker, redis=redis_server.url, namespace=namespace, embedded=True)


@pytest.fixture
def folding(settings: Settings) -> Folding:
    folding = fold_records(records_of_lines(map(orjson.dumps, EVENTS)))
    fill(settings, folding)
    return folding


@pytest.fixture
def query(settings: Settings, folding: Folding) -> Query:
    def ask(*arguments: str) -> Result:
        where = ["--bootstrap", settings.bootstrap, "--redis", settings.redis]
        return CliRunner().invoke(cli, ["query", *arguments, *where, "--namespace", settings.namespace])

    return ask


def objects(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return lines(result.stdout_bytes)


def published(folding: Folding, kind: str, run: str) -> list[dict[str, Any]]:
    changes = folding.pipeline.run(run).summaries()
    return [c.summary for c in changes if c.kind == kind and c.summary]


def test_json_is_what_was_published(query: Query, folding: Folding) -> None:
    for command, kind in (("run", "run"), ("agents", "agent_model"), ("tiers", "tier")):
        expected = published(folding, kind, DONE)
        if kind == "run":
            expected = [run | {"state": "complete"} for run in expected]
        assert objects(query(command, DONE, "--json")) == expected, command


def test_a_budget_is_judged_by_the_known_cost_and_its_forecast(query: Query) -> None:
    assert query("run", DONE, "--budget", "2").output.endswith("\nover the budget of $2.00\n")
    [told] = objects(query("run", DONE, "--budget", "100", "--json"))
    assert told["budget"] == {"usd": 100.0, "standing": "within", "seconds_until": None}
    said = query("run", OPEN, "--budget", "9").output.splitlines()[-1]  # 324 trials of half a dollar
    assert said.startswith("forecast: about $162.00 in all, $")
    assert said.endswith("; forecast: the budget of $9.00 is passed")
    assert query("run", OPEN, "--budget", "9", "--by", "label:team").exit_code == 2
    for wrong, said in (("-1", "x>=0"), ("nan", "not finite")):
        refused = query("run", DONE, "--budget", wrong)
        assert (refused.exit_code, said in refused.output) == (2, True)


def test_agents_and_runs_say_what_may_be_concluded(query: Query) -> None:
    [agent] = objects(query("agents", OPEN, "--json"))
    assert (agent["in_flight"], agent["uncertainty"]["final_missing"]) == (0, "plan_undeclared_tiers")
    assert agent["uncertainty"]["ability"]["tasks"] == 4
    for arguments in (["agents", OPEN], ["run", OPEN]):
        text = query(*arguments).output
        assert "100.0 % so far" in text
        assert f"No interval of the final pass rate: {REASONS['plan_undeclared_tiers']}." in text


def test_runs_are_all_runs_the_latest_first(query: Query, folding: Folding) -> None:
    result = objects(query("runs", "--json"))
    [stalled], [complete] = published(folding, "run", OPEN), published(folding, "run", DONE)
    for run in result:
        agents = [one for one in published(folding, "agent_model", run["run_id"]) if not one["baseline"]]
        rates = {one["agent_model"]: one["statistics"]["pass_rate"]["mean"] for one in agents}
        best = min(rates, key=lambda label: (-rates[label], label))
        assert run.pop("leader") == {"agent_model": best, "value": rates[best]}
    assert result == [stalled | {"state": "stalled"}, complete | {"state": "complete"}]
    assert [digest_of(run) for run in result] == [stalled["digest"], complete["digest"]]
    text = query("runs").stdout
    lines = [line.split() for line in text.splitlines() if line.startswith((OPEN, DONE))]
    assert [(line[0], line[2]) for line in lines] == [(OPEN, "stalled"), (DONE, "complete")]


def test_tiers_by_subtest_are_folded_from_the_log(query: Query, folding: Folding) -> None:
    result = objects(query("tiers", DONE, "--by", "subtest", "--json"))
    expected = [orjson.loads(canonical_json(body)) for body in by_subtest(folding.pipeline.run(DONE).state)]
    assert result == [*published(folding, "tier", DONE), *expected]
    assert "Subtests" in query("tiers", DONE, "--by", "subtest").stdout


def test_a_run_by_label_is_folded_from_the_log(query: Query, folding: Folding) -> None:
    result = objects(query("run", DONE, "--by", "label:size", "--json"))
    expected = by_label(folding.pipeline.run(DONE).state, "size")
    assert result == [orjson.loads(canonical_json(body)) for body in expected]
    assert {body["value"] for body in result} == {"small", None}
    text = query("run", DONE, "--by", "label:size").stdout
    assert "By size" in text
    assert "grade" in text  # the run has tiers
    unknown = query("run", DONE, "--by", "label:colour")
    assert (unknown.exit_code, "Labels: 'size'." in unknown.output) == (2, True)


def test_the_leaderboard_leaves_baselines_out_and_puts_incomplete_ones_last(query: Query) -> None:
    rows = objects(query("leaderboard", "--by-run", "--json"))
    assert [(row["rank"], row["agent_model"], row["value"], row["provisional"]) for row in rows] == [
        (1, "good:m", 0.75, False),
        (2, "bad:m", 0.25, False),
        (3, "best [red]\u202e:m", 1.0, True),
    ]
    text = query("leaderboard", "--by-run").stdout
    assert r"best [red]\u202e:m" in text
    assert "incomplete" not in text
    assert [row["state"] for row in rows] == ["complete", "complete", "stalled"]
    assert text.count("complete") == 2
    assert text.count("stalled") == 1


NARROWED_BOARDS = [
    ("--benchmark bench", ["good:m", "bad:m"]),
    (f"--run {DONE} --limit 1", ["good:m"]),
    (f"--run {DONE} --metric cost_of_pass", ["good:m", "bad:m"]),  # less is better
    ("--label team=red", ["best [red]\u202e:m"]),
    ("--label team=blue", []),
]
NARROWED_TRIALS = [
    ("", 12),
    ("--task t1", 3),
    ("--tier T0", 6),
    ("--agent good", 4),
    ("--agent bad:m --task t0 --tier T0", 1),
    ("--agent nobody", 0),
]


def test_the_leaderboard_and_the_trials_can_be_narrowed(query: Query) -> None:
    for options, agents in NARROWED_BOARDS:
        rows = objects(query("leaderboard", "--by-run", *options.split(), "--json"))
        assert [row["agent_model"] for row in rows] == agents, options
    assert "lowest first" in query("leaderboard", "--by-run", "--metric", "cost_of_pass").stdout
    for options, count in NARROWED_TRIALS:
        result = objects(query("trials", DONE, *options.split(), "--json"))
        assert len(result) == count, options
        assert {trial["type"] for trial in result} <= {"scored_trial"}
        text = query("trials", DONE, *options.split()).stdout
        assert len(text.splitlines()) == (count + 4 if count else 1), options


def test_a_run_shows_its_agents_and_tiers_and_an_unknown_one_is_one_line_and_exit_code_1(
    query: Query,
) -> None:
    text = query("run", DONE).stdout
    assert text.splitlines()[0] == f"Run {DONE} · bench · complete"
    assert "Agents" in text
    assert "Tiers" in text
    for command in ("run", "agents", "tiers", "trials"):
        result = query(command, "done1")
        assert (result.exit_code, result.stdout) == (1, "")
        assert len(result.stderr.splitlines()) == 1
        assert "'done1'. Did you mean done/1?" in result.stderr


def test_of_a_slot_the_latest_trial_counts_unless_it_is_a_late_writers(
    query: Query, settings: Settings
) -> None:
    def scored(trial: dict[str, Any], value: dict[str, Any] | None) -> tuple[str, str, bytes, bytes | None]:
        place = ("shard", "task_id", "attempt", "agent", "model", "tier", "subtest")
        key = "|".join(["done%2F1", *(str(trial[name]) for name in place)]).encode()
        return Names(settings.namespace).scored_trials, DONE, key, value and orjson.dumps(value)

    first, other, *_ = objects(query("trials", DONE, "--agent", "good", "--json"))
    newer = first | {"state_version": first["state_version"] + 5, "cost_usd": 9.0}
    late = first | {"state_version": first["state_version"] - 1, "cost_usd": 1.0}
    send(settings, [scored(first, newer), scored(first, late), scored(other, None)])
    result = objects(query("trials", DONE, "--agent", "good", "--json"))
    assert [trial["task_id"] for trial in result] == ["t0", "t2", "t3"]
    assert result[0] == newer


# -----------------------------------------------------------------------------
# Records of a file: plain or gzip whatever it is called, and bounded.


LINES = [b'{"a": 1}\n', b"\n", b"last"]


@pytest.mark.parametrize("name", ["events.ndjson", "events.gz"])
def test_gzip_is_known_by_its_bytes_and_not_by_its_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    for content in (b"".join(LINES), gzip.compress(b"".join(LINES))):
        file.write_bytes(content)
        with open_records(file) as result:
            assert [(record.offset, record.value) for record in result] == [(0, b'{"a": 1}'), (2, b"last")]


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_beyond_the_limit_is_named_and_ends_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 10)
    content = b"123456789\n" + b"1234567890\n"
    (tmp_path / "file").write_bytes(gzip.compress(content) if packed else content)
    with open_records(tmp_path / "file") as result:
        assert next(result).value == b"123456789"
        with pytest.raises(click.ClickException, match="line 2 has more than 10 bytes"):
            next(result)


# -----------------------------------------------------------------------------
# A line that changes in place on a terminal; elsewhere only the lines that stay.


CLEAR = "\r\x1b[2K"


@pytest.fixture(params=[True, False], ids=["terminal", "elsewhere"])
def stderr(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """20 columns wide, where it is a terminal."""
    result = io.StringIO()
    monkeypatch.setattr(result, "isatty", lambda: request.param)
    monkeypatch.setenv("COLUMNS", "20")
    return result


def test_the_line_is_drawn_where_it_changes_and_lines_that_stay_are_printed_above_it(
    stderr: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cut to the terminal, and the end removes it."""
    monkeypatch.setattr(sys, "stderr", stderr)  # pytest takes it back between a fixture and its test
    line = StatusLine()
    line.show("one")
    line.show("one")
    line.show("two \x1b[31m" + "x" * 40)
    line.say("found something")
    line.end()
    line.end()
    two = "two \\x1b[31m" + "x" * 7
    drawn = f"{CLEAR}one{CLEAR}{two}{CLEAR}found something\n{CLEAR}{two}{CLEAR}"
    assert stderr.getvalue() == (drawn if stderr.isatty() else "found something\n")
