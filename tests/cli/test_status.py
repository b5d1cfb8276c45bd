"""`streamer status`: well, or what is wrong."""

from __future__ import annotations

from pathlib import Path

from streamer.operate.local.processes import free_port
from streamer.schemas.export import TOPICS
from tests.cli.calling import a_run, call, lines, published
from tests.support.online import Online, online


def test_status_is_well_when_everything_is(stack: Online) -> None:
    done = call(stack, "status", "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    [found] = lines(done.stdout)
    assert found["problems"] == []
    assert [worker["live"] for worker in found["workers"]] == [True]
    assert found["workers"][0]["partitions"] == [p["partition"] for p in found["partitions"]]
    assert len(found["broker"]["topics"]) == len(TOPICS)
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
    assert (done.returncode, done.stdout.count(b"does not answer")) == (1, 2)
    assert b"no Kafka broker answers at" in done.stderr
    assert b"Redis at" in done.stderr
    nobody = call(stack, "status", "--namespace", "nobody")
    assert (nobody.returncode, nobody.stderr[:38]) == (1, b"streamer: none of our topics exists: a")
