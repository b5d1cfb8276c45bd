"""The commands that talk to a deployment, as a user calls them."""

from __future__ import annotations

import gzip
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis

from streamer.embedded.probe import free_port
from streamer.schemas.canonical import digest_of
from streamer.schemas.summaries import SUMMARY
from tests.support.cli import COMMAND, streamer
from tests.support.events import Event, a_plan, a_trial
from tests.support.layers import ENGINES
from tests.support.online import Online, bootstrap_of, online
from tests.support.worker_process import wait_for

SECONDS = 60
Done = subprocess.CompletedProcess[bytes]


@pytest.fixture(params=ENGINES, scope="module")
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    directory = tmp_path_factory.mktemp("online")
    with online(directory, bootstrap_of(request, request.param), request.param, worker=True) as found:
        yield found


def call(stack: Online, *arguments: object, stdin: bytes = b"") -> Done:
    return streamer(*arguments, stdin=stdin, environment=stack.environment)


def ndjson(events: list[Event]) -> bytes:
    return b"".join(orjson.dumps(event) + b"\n" for event in events)


def a_run(run_id: str, trials: int = 12) -> list[Event]:
    return [
        a_trial(run_id=run_id, task_id=f"t{n}", tier=f"T{n % 2}", resolved=n % 3 > 0, score=n / trials)
        for n in range(trials)
    ]


def published(stack: Online, events: list[Event]) -> None:
    done = call(stack, "publish", stdin=ndjson(events))
    assert done.returncode == 0, done.stderr


def settled(stack: Online, run_id: str) -> None:
    """Publish nothing more and wait until Redis says what the log says."""
    done = call(stack, "verify", run_id, "--wait", 30)
    assert done.returncode == 0, done.stdout + done.stderr


def lines(output: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in output.splitlines()]


def test_a_published_file_is_in_redis_with_the_digests_of_fold(stack: Online, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson.gz"
    file.write_bytes(gzip.compress(ndjson(a_run("from-file"))))
    done = call(stack, "publish", file)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"12 events sent and acknowledged; 0 bad lines\n"
    settled(stack, "from-file")
    folded = {s["digest"] for s in lines(streamer("fold", "--json", file).stdout)}
    kinds = ("run", "agents", "tiers")
    asked = [call(stack, "query", kind, "from-file", "--json").stdout for kind in kinds]
    assert {s["digest"] for output in asked for s in lines(output)} == folded


@pytest.mark.parametrize("value", [True, "yes", 7, -2.5, None, ["a", "b"], {"c": 3}], ids=repr)
def test_a_misspelt_field_is_sent_and_counted_by_its_name(stack: Online, value: object) -> None:
    misspelt = [a_trial(run_id="misspelt", task_id=f"t{n}") | {"reslved": value} for n in range(2)]
    done = call(stack, "publish", stdin=ndjson(misspelt))
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.splitlines() == [
        b"2 events sent and acknowledged; 0 bad lines",
        b"fields that no event has, sent along and ignored: reslved (2)",
    ]


def test_the_most_frequent_unknown_fields_come_first_and_the_rest_is_cut(stack: Online) -> None:
    events = [a_trial(run_id="many", task_id=f"t{n}") | {"often": "x", f"field-{n}": n} for n in range(12)]
    done = call(stack, "publish", stdin=ndjson(events))
    assert done.returncode == 0
    named = (
        done.stderr.decode()
        .splitlines()[1]
        .removeprefix("fields that no event has, sent along and ignored: ")
    )
    listed = named.split(", ")
    assert listed[0] == "often (12)"
    assert all(part.endswith(" (1)") for part in listed[1:-1])
    assert (len(listed), listed[-1]) == (11, "...")


def test_bad_lines_are_named_and_not_sent_unless_asked(stack: Online) -> None:
    good, bad = orjson.dumps(a_trial(run_id="mixed")), b'{"type": "trial_result", "run_id": "mixed"}'
    done = call(stack, "publish", stdin=b"\n".join([good, b"", bad, b"\xff\x00"]))
    assert done.returncode == 1
    first, second, counts = done.stderr.decode().splitlines()
    assert first.startswith("line 3: missing_field: Field 'task_id'")
    assert second.startswith("line 4: not_json: ")
    assert counts == "1 events sent and acknowledged; 2 bad lines not sent"
    raw = call(stack, "publish", "--raw", stdin=bad + b"\n" + b"\xff\x00")
    assert raw.returncode == 1
    assert raw.stderr.endswith(b"2 events sent and acknowledged; 2 bad lines\n")
    rejections = call(stack, "subscribe", "rejections", "--from-beginning", "--json", "--limit", 2)
    assert {r["code"] for r in lines(rejections.stdout)} == {"missing_field", "not_json"}
    shown = call(stack, "subscribe", "rejections", "--from-beginning", "--limit", 2).stdout.decode()
    assert "missing_field: Field 'task_id'" in shown


def test_lines_of_a_pipe_are_sent_as_they_come(stack: Online) -> None:
    environment = os.environ | stack.environment
    with subprocess.Popen([*COMMAND, "publish"], stdin=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        process.stdin.write(ndjson(a_run("live", 1)))
        process.stdin.flush()
        wait_for(lambda: call(stack, "query", "run", "live").returncode == 0, "the run is there", SECONDS)
        process.stdin.close()
        assert process.wait(SECONDS) == 0


@pytest.mark.parametrize(
    "arguments", [("publish",), ("subscribe", "run"), ("runs", "set", "r", "--name", "n")]
)
def test_a_broker_that_is_away_is_one_clear_line(stack: Online, arguments: tuple[str, ...]) -> None:
    away = f"127.0.0.1:{free_port()}"
    done = call(stack, *arguments, "--bootstrap", away, stdin=ndjson(a_run("nowhere")))
    assert done.returncode == 1
    assert done.stderr.startswith(f"streamer: no Kafka broker answers at {away}. Start one".encode())
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("feed", "type_"),
    [
        ("agent-model", "agent_model_summary"),
        ("tier", "tier_summary"),
        ("run", "run_summary"),
        ("grades", "grade_change"),
        ("trials", "scored_trial"),
    ],
)
def test_each_feed_gives_what_was_published(stack: Online, feed: str, type_: str) -> None:
    published(stack, a_run(f"feed-{feed}"))
    given = ("subscribe", feed, "--run", f"feed-{feed}", "--from-beginning", "--limit", 1)
    done = call(stack, *given, "--json")
    assert done.returncode == 0
    [message] = lines(done.stdout)
    SUMMARY.validate_json(done.stdout, extra="forbid")
    assert (message["type"], message["run_id"]) == (type_, f"feed-{feed}")
    if type_.endswith("summary"):
        assert digest_of(message) == message["digest"]
    [line] = call(stack, *given).stdout.decode().splitlines()
    assert f"feed-{feed}" in line


def test_what_agents_call_themselves_cannot_act_on_the_terminal(stack: Online) -> None:
    published(stack, [a_trial(run_id="hostile", agent="a\u202egnp.exe", model="m\u200b")])
    done = call(stack, "subscribe", "agent-model", "--run", "hostile", "--from-beginning", "--limit", 1)
    assert b"a\\u202egnp.exe:m\\u200b" in done.stdout


def test_ctrl_c_ends_a_subscription_with_one_line(stack: Online) -> None:
    environment = os.environ | stack.environment
    with subprocess.Popen([*COMMAND, "subscribe", "run"], stderr=subprocess.PIPE, env=environment) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"following; Ctrl-C ends it\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130
        assert process.stderr.read() == b"streamer: interrupted\n"


def test_verify_says_what_it_found_by_its_exit_code(stack: Online) -> None:
    published(stack, a_run("checked"))
    settled(stack, "checked")
    equal = call(stack, "verify", "checked", "--json")
    [verdict] = lines(equal.stdout)
    assert (verdict["run_id"], verdict["outcome"], verdict["differences"]) == ("checked", "equal", [])
    assert call(stack, "verify", "--all").stdout.count(b": equal, ") >= 1
    unknown = call(stack, "verify", "chekced")
    assert (unknown.returncode, b"Did you mean checked?" in unknown.stdout) == (3, True)
    away = call(stack, "verify", "checked", "--redis", f"redis://127.0.0.1:{free_port()}")
    assert (away.returncode, away.stderr[:34]) == (3, b"streamer: cannot be verified: Redi")
    assert call(stack, "verify").returncode == call(stack, "verify", "checked", "--all").returncode == 2


def test_verify_shows_a_difference_and_exits_with_1(stack: Online) -> None:
    published(stack, a_run("tampered"))
    settled(stack, "tampered")
    with redis.Redis.from_url(stack.redis.url) as client:
        client.delete(f"{stack.settings.namespace}:streamer:{{tampered}}:tier:T0")
    done = call(stack, "verify", "tampered", "--wait", 5)
    assert done.returncode == 1
    assert b"tampered: 1 of 6 summaries differ" in done.stdout
    assert b"tier:T0" in done.stdout


def test_status_is_well_when_everything_is(stack: Online) -> None:
    done = call(stack, "status", "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    [found] = lines(done.stdout)
    assert found["problems"] == []
    assert [worker["live"] for worker in found["workers"]] == [True]
    assert found["workers"][0]["partitions"] == [p["partition"] for p in found["partitions"]]
    assert len(found["broker"]["topics"]) == 9
    table = call(stack, "status").stdout.decode()
    assert found["workers"][0]["id"] in table


def test_status_names_what_is_wrong(embedded_broker: str, stack: Online, tmp_path: Path) -> None:
    with online(tmp_path, embedded_broker, "embedded", worker=False) as idle:
        published(idle, a_run("waiting", 5))
        done = call(idle, "status")
        assert done.returncode == 1
        assert done.stderr.startswith(b"streamer: no worker is running (5 events wait)")
    away = ("--bootstrap", f"127.0.0.1:{free_port()}", "--redis", f"redis://127.0.0.1:{free_port()}")
    done = call(stack, "status", *away)
    assert (done.returncode, done.stderr.count(b"does not answer")) == (1, 2)
    nobody = call(stack, "status", "--namespace", "nobody")
    assert (nobody.returncode, nobody.stderr[:38]) == (1, b"streamer: none of our topics exists: a")


def the_run(stack: Online, run_id: str) -> dict[str, Any]:
    done = call(stack, "query", "run", run_id, "--json")
    return lines(done.stdout)[0] if done.returncode == 0 else {}


def test_a_run_is_named_and_labelled_field_by_field(stack: Online) -> None:
    published(
        stack, [*a_run("named"), a_plan(run_id="named", benchmark="b", display_name="old", labels={"a": "1"})]
    )
    assert call(stack, "runs", "set", "named", "--name", "New name").returncode == 0
    assert call(stack, "runs", "set", "named", "--label", "b=2", "--label", "c=3=4").returncode == 0
    wait_for(
        lambda: the_run(stack, "named").get("labels") == {"a": "1", "b": "2", "c": "3=4"}, "labels", SECONDS
    )
    run = the_run(stack, "named")
    assert (run["display_name"], run["benchmark"]) == ("New name", "b")
    assert call(stack, "runs", "set", "named").returncode == 2
    assert call(stack, "runs", "set", "named", "--label", "novalue").returncode == 2


def test_a_run_is_deleted_when_that_is_confirmed(stack: Online) -> None:
    published(stack, a_run("doomed"))
    settled(stack, "doomed")
    unconfirmed = call(stack, "delete", "doomed")
    assert (unconfirmed.returncode, b"confirm with --yes" in unconfirmed.stderr) == (2, True)
    done = call(stack, "delete", "doomed", "--yes")
    assert (done.returncode, done.stderr) == (0, b"doomed: deleted, and gone from Redis\n")
    verified = call(stack, "verify", "doomed").stdout
    assert verified.splitlines()[1:] == [b"doomed: equal, deleted, and gone from Redis"]
    again = call(stack, "delete", "doomed", "--yes")
    assert (again.returncode, again.stderr.startswith(b"streamer: There is no run 'doomed'")) == (1, True)
    followed = ("subscribe", "run", "--run", "doomed", "--from-beginning", "--json", "--limit")
    assert any(m.get("deleted") for n in (1, 2) for m in lines(call(stack, *followed, n).stdout))


def test_on_a_terminal_delete_asks(stack: Online) -> None:
    published(stack, a_run("asked"))
    settled(stack, "asked")
    environment = os.environ | stack.environment
    for answer, code in ((b"n\n", 130), (b"y\n", 0)):
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, "delete", "asked"], stdin=slave, stderr=subprocess.PIPE, env=environment
        )
        os.write(master, answer)
        _, said = process.communicate(timeout=SECONDS)
        os.close(master)
        os.close(slave)
        assert (process.returncode, b"Delete run asked with 12 trials?" in said) == (code, True)
