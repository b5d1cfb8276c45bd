"""`streamer rejections`: what was rejected is seen, mended and counted, and never goes round."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import orjson
import pytest
from click.testing import CliRunner

from streamer.client import folded
from streamer.client.readers import StateReader
from streamer.folding.fold import CannotBeFolded, Pipeline
from streamer.operate.health import read_lags, read_rejections
from streamer.schemas.summaries import RunSummary
from streamer.schemas.wire import Failure, Record, canonical_json
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from streamer.terminal import operate
from streamer.terminal.operate import _publish as publish_all
from streamer.terminal.operate import kept_lines as kept
from streamer.terminal.operate import rejections_command
from tests.support.cli import COMMAND, streamer
from tests.support.events import a_trial, summarised
from tests.support.layers import ENGINES
from tests.support.online import Online, bootstrap_of, online
from tests.support.worker_process import wait_for
from tests.views.test_ledger import BASE, entered, states_of

Done = subprocess.CompletedProcess[bytes]
Listed = dict[str, Any]
HOSTILE = b'\x1b[2J{"type":"trial_result","run_id":"\xff"'


@pytest.fixture(params=ENGINES, scope="module")
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    directory = tmp_path_factory.mktemp("rejections")
    with online(directory, bootstrap_of(request, request.param), request.param, worker=True) as result:
        yield result


def call(stack: Online, *arguments: object, stdin: bytes = b"") -> Done:
    return streamer(*arguments, stdin=stdin, environment=stack.environment)


def listed(stack: Online, *filters: str) -> list[Listed]:
    done = call(stack, "rejections", "list", "--json", *filters)
    assert done.returncode == 0, done.stderr
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def count(stack: Online, run_id: str) -> int:
    """How many rejections there are of a run."""
    return sum(result.run_id == run_id for result in read_rejections(stack.settings))


def rejected(stack: Online, value: bytes, run_id: str) -> Listed:
    """Publish a line that is no event, and wait for its rejection."""
    call(stack, "publish", "--raw", stdin=value + b"\n")
    wait_for(lambda: count(stack, run_id), "the rejection")
    return listed(stack, "--run", run_id)[-1]


def requeue(stack: Online, *arguments: object, stdin: bytes = b"") -> str:
    done = call(stack, "rejections", "requeue", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stderr.decode()


def settled(stack: Online) -> None:
    """Wait until the workers have done everything."""
    settings = stack.settings
    wait_for(lambda: sum(p.lag for p in asyncio.run(read_lags(settings))) == 0, "no lag")


def a_line(**fields: Any) -> bytes:
    return orjson.dumps(a_trial(**fields))


def events_in_log(stack: Online) -> int:
    return len(list(read_topic(stack.settings, Names(stack.settings.namespace).trial_events)))


def test_a_corrected_event_counts_as_if_it_had_come_right_the_first_time(
    stack: Online, tmp_path: Path
) -> None:
    good, right = a_line(run_id="mend", task_id="t1"), a_line(run_id="mend", task_id="t2", cost_usd=2.5)
    call(stack, "publish", stdin=good + b"\n")
    result = rejected(stack, right.replace(b"2.5", b'"2.5"'), "mend")
    assert (result["code"], result["run_id"]) == ("invalid_field", None)
    file = tmp_path / "event.json"
    shown = call(stack, "rejections", "show", result["id"], "--raw").stdout
    file.write_bytes(shown.replace(b'"2.5"', b"2.5") + b"\n")
    assert "1 record requeued" in requeue(stack, result["id"], "--with", file)
    pipeline = Pipeline()
    pipeline.fold([Record(good, 0), Record(right, 1, timestamp=result["source_timestamp_ms"])])
    expected = {c.key: c for c in pipeline.run("mend").summaries() if c.kind == "run"}["mend"].summary
    assert expected is not None
    with StateReader(stack.settings) as reader:
        wait_for(lambda: reader.run("mend").trials == 2, "both trials count")
        summary = reader.run("mend").model_dump(mode="json")
    assert (summary["digest"], summary["last_event_at"]) == (expected["digest"], expected["last_event_at"])


def test_what_is_still_wrong_is_requeued_only_by_force_and_rejected_once_more_at_most(stack: Online) -> None:
    value = a_line(run_id="round", attempt=0)
    result = rejected(stack, value, "round")
    done = call(stack, "rejections", "requeue", result["id"])
    assert done.returncode == 1
    assert b"still invalid_field" in done.stderr
    settled(stack)
    before = events_in_log(stack)
    requeue(stack, result["id"], "--force")
    wait_for(lambda: count(stack, "round") == 2, "one more rejection")
    assert "1 record requeued" in requeue(stack, "--all", "--run", "round", "--force")  # two of the same
    wait_for(lambda: count(stack, "round") == 3, "one more rejection")
    settled(stack)
    assert {r["source_timestamp_ms"] for r in listed(stack, "--run", "round")} == {
        result["source_timestamp_ms"]
    }
    assert (events_in_log(stack) - before, len(listed(stack, "--run", "round"))) == (2, 3)


def test_a_correction_that_is_wrong_is_refused(stack: Online) -> None:
    result = rejected(stack, a_line(run_id="worse", attempt=-1), "worse")
    settled(stack)
    before = events_in_log(stack)
    done = call(stack, "rejections", "requeue", result["id"], "--with", "-", stdin=b"{}")
    assert done.returncode == 1
    assert b"still unknown_type" in done.stderr
    assert events_in_log(stack) == before


def test_hostile_bytes_are_shown_escaped_and_written_raw_only_to_files(stack: Online) -> None:
    call(stack, "publish", "--raw", stdin=HOSTILE + b"\n")
    wait_for(lambda: any(r.original == HOSTILE for r in read_rejections(stack.settings)), "the rejection")
    [result] = listed(stack, "--code", "not_json")
    for arguments in (["list"], ["show", result["id"]], ["show", result["id"], "--json"]):
        said = call(stack, "rejections", *arguments)
        assert said.returncode == 0, said.stderr
        assert b"\x1b" not in said.stdout
        assert b"\xff" not in said.stdout
    assert (
        rb'\x1b[2J{"type":"trial_result","run_id":"\xff"'
        in call(stack, "rejections", "show", result["id"]).stdout
    )
    assert call(stack, "rejections", "show", result["id"], "--raw").stdout == HOSTILE
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "wb") as terminal:
        environment = os.environ | stack.environment
        command = [*COMMAND, "rejections", "show", result["id"], "--raw"]
        done = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, env=environment)
    assert done.returncode == 2
    assert b"--raw > FILE" in done.stderr


def test_filters_choose_by_code_run_and_time(stack: Online) -> None:
    rejected(stack, a_line(run_id="chosen", model=1), "chosen")
    assert len(listed(stack, "--run", "chosen", "--since", "1h")) == 1
    assert listed(stack, "--run", "chosen", "--since", "2999-01-01") == []
    assert listed(stack, "--run", "chosen", "--code", "not_json") == []
    none = call(stack, "rejections", "list", "--run", "nobody")
    assert (none.returncode, none.stdout, none.stderr) == (0, b"", b"no such rejections\n")


def test_an_id_that_names_nothing_is_one_line(stack: Online) -> None:
    done = call(stack, "rejections", "show", "0:999999")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"has no rejection 0:999999" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "7"], "PARTITION:OFFSET"),
        (["requeue"], "--all"),
        (["requeue", "0:0", "--all"], "--all"),
        (["requeue", "0:0", "--code", "empty"], "--all"),
        (["requeue", "--all", "--with", "-"], "--all"),
        (["list", "--since", "yesterday"], "2026-01-31"),
    ],
)
def test_wrong_use_is_refused(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(rejections_command, arguments)
    assert (done.exit_code, says in done.output) == (2, True), done.output


# -----------------------------------------------------------------------------
# `streamer delete` of a run in a ledger: it goes only with its lines.


class Reads:
    """A reader of Redis that has these runs."""

    def __init__(self, *events: dict[str, Any], without: str = "") -> None:
        self._runs = [
            RunSummary.model_validate_json(canonical_json(one))
            for one in summarised(events).values()
            if one["type"] == "run_summary" and one["run_id"] != without
        ]

    def runs(self) -> list[RunSummary]:
        return self._runs


IN_LEDGER = [*BASE, *entered("c", 4, range(14))]


def test_a_run_whose_ledger_cannot_be_folded_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise CannotBeFolded(Failure(run_id="d", reason="broken"))

    monkeypatch.setattr(folded, "fold_states", fails)
    with pytest.raises(click.UsageError, match=r"c is not deleted.*run 'd' cannot be folded.*--from-ledger"):
        kept(Settings(), Reads(*IN_LEDGER).runs(), "c", 1)


def test_lines_that_rest_on_a_truncated_log_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states = states_of(IN_LEDGER)
    monkeypatch.setattr(folded, "fold_states", lambda *_: (states, {"partition 3": 70}))
    [plan, _] = kept(Settings(), Reads(*IN_LEDGER).runs(), "c", 1)
    assert plan["ledger"]["lines"].keys() == {"b:m"}
    assert "the log of partition 3 begins at offset 70" in capsys.readouterr().err


def test_a_run_without_a_summary_says_that_no_lines_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert kept(Settings(), Reads(*IN_LEDGER, without="c").runs(), "c", 1) == []
    assert "c: has no summary to say whether it is in a ledger" in capsys.readouterr().err


@pytest.mark.parametrize(("run", "is_baseline"), [("base", True), ("ba", False), ("base/a", False)])
def test_a_baseline_is_refused_and_a_run_with_a_name_like_it_is_not(run: str, is_baseline: bool) -> None:
    named = {"name": "nightly", "baseline": "base/a:m"}
    reader = Reads(*entered("c", 4, range(14), ledger=named), a_trial(run_id=run))
    if is_baseline:
        with pytest.raises(click.UsageError, match="base is the baseline of ledger nightly"):
            kept(Settings(), reader.runs(), run, 1)
    else:
        assert kept(Settings(), reader.runs(), run, 1) == []


def test_a_deletion_is_not_published_without_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    class Publisher(nullcontext[Any]):
        def __enter__(self) -> Any:
            return self

        def send(self, record: Any) -> None:
            sent.append(record)

    monkeypatch.setattr(operate, "ThreadedPublisher", Publisher)
    deletion = {"type": "run_deleted", "run_id": "c", "revision": 1}
    with pytest.raises(TypeError):
        publish_all(Settings(), [deletion, {"type": "run_started", "run_id": "c", "ledger": object()}])
    assert sent == []
    publish_all(Settings(), [deletion, deletion | {"revision": 2}])
    assert len(sent) == 2
