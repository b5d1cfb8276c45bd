"""What the user declares of a plan, what `publish` sends, and what is told meanwhile: lines and notices."""

from __future__ import annotations

import gzip
import io
import json
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import orjson
import pytest
from click.testing import CliRunner

from streamer.client.readers import StateReader
from streamer.operate.notice_rules import Rules
from streamer.schemas.summaries import AgentModelSummary, Leader, RunSummary
from streamer.settings import Settings
from streamer.terminal import StatusLine, harness, meanwhile
from streamer.terminal.files import _progress
from streamer.terminal.harness import Messages, declared_plan, print_lines
from streamer.terminal.local import URLS, Asked, notify_options
from tests.support.builders import a_run_change, an_agent_model_change
from tests.support.cli import streamer
from tests.support.events import a_trial
from tests.support.online import Online
from tests.support.worker_process import wait_for
from tests.terminal.calling import SECONDS, a_run, call, lines, ndjson, settled, started, stderr_of, the_run


def a_file(folder: Path, content: Any) -> Path:
    file = folder / "plan.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_the_option_stands_over_the_file(tmp_path: Path) -> None:
    assert declared_plan(None, None) == {}
    file = a_file(tmp_path, {"tasks": ["b", "a"], "order_kind": "chosen"})
    assert declared_plan(file, None) == {"tasks": ["b", "a"], "order_kind": "chosen"}
    assert declared_plan(file, "shuffled") == {"tasks": ["b", "a"], "order_kind": "shuffled"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "plan.json: "),
        ([], "holds a JSON list instead of an object"),
        ({"taks": ["a"]}, "'taks' is not a plan field"),
        ({"run_id": "r"}, "'run_id' is not a plan field"),
        ({"attempts": 0}, "attempts 0: Input should be greater than or equal to 1"),
    ],
)
def test_a_file_that_is_no_plan_is_wrong_use(tmp_path: Path, content: Any, says: str) -> None:
    with pytest.raises(click.UsageError) as told:
        declared_plan(a_file(tmp_path, content), None)
    assert str(told.value).startswith(f"--plan {tmp_path / 'plan.json'}: ")
    assert says in str(told.value)


# `streamer publish`: what is sent, what is counted, and what is named.
def test_a_published_file_is_in_redis_with_the_digest_of_fold(stack: Online, tmp_path: Path) -> None:
    (file := tmp_path / "events.ndjson.gz").write_bytes(gzip.compress(ndjson(a_run("from-file"))))
    done = call(stack, "publish", file)
    assert (stderr_of(done, 0), done.stdout) == ("12 events sent and acknowledged; 0 bad lines\n", b"")
    settled(stack, "from-file")
    [folded] = [s for s in lines(streamer("fold", "--json", file).stdout) if s["type"] == "run_summary"]
    assert the_run(stack, "from-file")["digest"] == folded["digest"]


MISSPELT = (True, "yes", 7, -2.5, None, ["a", "b"], {"c": 3})


def test_misspelt_fields_of_any_value_are_sent_and_counted_by_their_name(stack: Online) -> None:
    """The most frequent ones come first, and the rest is cut."""
    events = [a_trial(run_id="misspelt", task_id=f"t{n}") for n in range(12)]
    misspelt = [event | {"reslved": value} for event, value in zip(events, MISSPELT, strict=False)]
    many = [event | {"often": "x", f"field-{n}": n} for n, event in enumerate(events)]
    for given, named in ((misspelt, "reslved (7)"), (many, "often (12), field-")):
        done = call(stack, "publish", stdin=ndjson(given))
        assert (done.returncode, done.stdout) == (0, b"")
        counts, unknown = done.stderr.decode().splitlines()
        assert counts == f"{len(given)} events sent and acknowledged; 0 bad lines"
        assert unknown.startswith(f"fields that these events do not have, sent along and ignored: {named}")
    rest = unknown.split(", ")[-11:]
    assert [part.endswith(" (1)") for part in rest[1:-1]] == [True] * 9
    assert rest[-1] == "..."


def test_r13_a_score_outside_0_to_1_is_a_bad_line(stack: Online) -> None:
    """As in a TrialPublisher and by HTTP."""
    done = call(stack, "publish", stdin=orjson.dumps(a_trial(run_id="scale", score=85)))
    first, counts = stderr_of(done, 1).splitlines()
    assert first.startswith("line 1: score_out_of_range: Field 'score': 85 lies outside 0 to 1")
    assert counts == "0 events sent and acknowledged; 1 bad line not sent"


def test_bad_lines_are_named_and_not_sent_unless_asked(stack: Online) -> None:
    good, bad = orjson.dumps(a_trial(run_id="mixed")), b'{"type": "trial_result", "run_id": "mixed"}'
    done = call(stack, "publish", stdin=b"\n".join([good, b"", bad, b"\xff\x00"]))
    first, second, counts = stderr_of(done, 1).splitlines()
    assert first.startswith("line 3: missing_field: Field 'task_id'")
    assert second.startswith("line 4: not_json: ")
    assert counts == "1 event sent and acknowledged; 2 bad lines not sent"
    raw = call(stack, "publish", "--raw", stdin=bad + b"\n" + b"\xff\x00")
    assert stderr_of(raw, 1).endswith("2 events sent and acknowledged; 2 bad lines\n")
    rejections = call(stack, "subscribe", "rejections", "--from-beginning", "--json", "--limit", 2)
    assert {r["code"] for r in lines(rejections.stdout)} == {"missing_field", "not_json"}
    shown = call(stack, "subscribe", "rejections", "--from-beginning", "--limit", 2).stdout.decode()
    assert "missing_field: Field 'task_id'" in shown


def test_lines_of_a_pipe_are_sent_as_they_come(stack: Online) -> None:
    with started(stack, "publish", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(ndjson(a_run("live", 1)))
        process.stdin.flush()
        wait_for(lambda: call(stack, "query", "run", "live").returncode == 0, "the run is there", SECONDS)
        process.stdin.close()
        assert process.wait(SECONDS) == 0


@pytest.mark.parametrize("name", ["events.ndjson", "e.ndjson.gz"])
def test_a_terminal_sees_the_progress(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share that is read is not known of a packed file."""
    monkeypatch.setattr(sys, "stderr", terminal := io.StringIO())
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    (file := tmp_path / name).write_bytes(b"x" * 400)
    with StatusLine() as line, meanwhile(lambda: line.show(_progress(file, 100, 3, 0.5)), 0.05, 0.05):
        wait_for(terminal.getvalue, "the line")
        line.say("line 1: not_json")
    _, first, *_ = terminal.getvalue().split("\r\x1b[2K")
    share = "" if name.endswith(".gz") else "25 % read, "
    assert first.startswith(f"{share}3 events acknowledged, 0:00:0")
    assert "line 1: not_json\n" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")


# Messages while screens have the terminal, and the plain lines where there is none.
def test_messages_are_held_while_the_screens_are_up(capsys: pytest.CaptureFixture[str]) -> None:
    messages = Messages()
    messages.say("before")
    with pytest.raises(ZeroDivisionError), messages.deferred():  # noqa: PT012
        for given in (["one"], ["two"], []):
            for message in given:
                messages.say(message)
            assert messages.new() == given
        assert capsys.readouterr().err == "before\n"
        raise ZeroDivisionError
    assert capsys.readouterr().err == "one\ntwo\n"


def a_reader(*grades: str | None, value: float = 0.5, **plan: Any) -> Any:
    """Answers with one run, whose agent has another grade at each look and leads."""
    run = RunSummary.model_validate((a_run_change().summary or {}) | plan)
    nop = an_agent_model_change(agent="nop", means={"pass_rate": 1.0})
    changes = [[an_agent_model_change(grade=grade, means={"pass_rate": 0.5}), nop] for grade in grades]
    looks = [[AgentModelSummary.model_validate(change.summary) for change in both] for both in changes]
    return SimpleNamespace(
        looks=looks,
        runs=lambda: [run],
        leaders=lambda _: {run.run_id: Leader(agent_model="claude:opus", value=value)},
        agents=lambda _: looks.pop(0),
        tiers=lambda _: [],
    )


def test_each_look_is_a_line_and_each_change_of_a_grade_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("streamer.terminal.harness.LINES_SECONDS", 0.0)
    monkeypatch.setattr("streamer.terminal.harness.LOOK_SECONDS", 0.0)
    reader = a_reader("C", "B", "B")
    print_lines(reader, lambda: not reader.looks)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].endswith("ahead: claude:opus with pass rate 50.0 %")
    assert [line.strip() for line in lines if "grade" in line] == ["r1 claude:opus: grade C -> B"]


def test_r31_a_line_has_the_best_value_of_the_primary_metric(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a run without verdicts it said `with pass rate –`."""
    metrics = {"loss": {"direction": "lower", "unit": None, "label": None}}
    reader = a_reader("C", value=0.25, primary_metric="metrics/loss", metrics=metrics)
    print_lines(reader, lambda: not reader.looks)
    assert capsys.readouterr().out.splitlines()[0].endswith("ahead: claude:opus with loss 0.25")


def test_lines_outlast_redis(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("streamer.terminal.harness.LINES_SECONDS", 0.0)
    left = [False, False, True]
    print_lines(StateReader(Settings(redis="redis://127.0.0.1:1")), lambda: left.pop(0))
    said = capsys.readouterr().err.splitlines()
    away = "no board: Redis at 127.0.0.1:1 does not answer"
    assert [line.partition(" (")[0] for line in said] == [away, away]


@pytest.mark.parametrize("named", [{"bootstrap": "127.0.0.1:9092"}, {"redis": "redis://other:6379/0"}])
def test_live_starts_no_stack_beside_the_servers_that_are_named(
    named: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It started one beside a broker at the default address, and then published to neither or to both."""
    monkeypatch.setattr(harness, "started_stack", None)
    with harness._stack(settings := Settings(**named), ephemeral=False) as stack:
        assert stack is settings


SECRET = "json://user:hunter2@127.0.0.1:1/"


def asked(*arguments: str, **environment: str) -> tuple[int, str, list[Asked | None]]:
    given: list[Asked | None] = []

    @click.command()
    @notify_options
    def command(asked: Asked | None) -> None:
        given.append(asked)

    done = CliRunner().invoke(command, list(arguments), env={URLS: None, **environment})
    return done.exit_code, done.output, given


@pytest.mark.parametrize("option", ["--budget", "--stalled-after", "--rejection-rate", "--target"])
def test_a_rule_that_is_no_finite_number_or_without_a_service_is_refused(option: str) -> None:
    for value in ("nan", "inf"):
        code, output, given = asked(option, value, "--notify", SECRET)
        assert (code, given) == (2, [])
        assert f"{value} is no" in output or "is not in the range" in output
    code, output, given = asked(option, "1")
    assert (code, given, "need --notify URL, or STREAMER_NOTIFY" in output) == (2, [], True)
    assert asked() == (0, "", [None])


def test_urls_come_from_the_environment_too_separated_by_blanks() -> None:
    [result] = asked("--stalled-after", "1.5", **{URLS: f"{SECRET} json://b/"})[2]
    assert result is not None
    assert list(result.urls) == [SECRET, "json://b/"]
    assert result.rules == Rules(None, timedelta(seconds=90), None)


def test_another_process_gets_the_rules_and_never_a_url() -> None:
    result = Asked([SECRET], Rules(2.5, timedelta(minutes=10), None, 0.6), 10.0)
    assert result.arguments() == ["--budget", "2.5", "--stalled-after", "10.0", "--target", "0.6"]
    assert "hunter2" not in repr(result)


BUSY = """
import asyncio, time
from streamer.terminal.local import _stopped_by_signals
async def main():
    stop = _stopped_by_signals()
    print("works", flush=True)
    await stop.wait()
    print("ends", flush=True)
    await asyncio.to_thread(time.sleep, 60)
asyncio.run(main())
"""


def test_the_second_signal_ends_a_command_whose_receiver_does_not_answer() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in (b"works\n", b"ends\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGINT)
        assert process.wait(20) == -signal.SIGINT
