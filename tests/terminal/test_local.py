"""Options about notices: they need a service, and no URL of one is ever printed."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import timedelta

import click
import pytest
from click.testing import CliRunner

from streamer.operate.notice_rules import Rules
from streamer.terminal.local import URLS, Asked, check_urls, notify_options

SECRET = "json://user:hunter2@127.0.0.1:1/"


def asked(*arguments: str, **environment: str) -> tuple[int, str, list[Asked | None]]:
    """Exit code and output of a command with these options, and what it was given."""
    given: list[Asked | None] = []

    @click.command()
    @notify_options
    def command(asked: Asked | None) -> None:
        given.append(asked)

    done = CliRunner().invoke(command, list(arguments), env={URLS: None} | environment)
    return done.exit_code, done.output, given


@pytest.mark.parametrize("option", ["--budget", "--stalled-after", "--rejection-rate", "--target"])
def test_a_rule_that_is_no_finite_number_or_without_a_service_is_refused(option: str) -> None:
    for value in ("nan", "inf"):
        code, output, given = asked(option, value, "--notify", SECRET)
        assert (code, given) == (2, [])
        assert f"{value} is no" in output or "is not in the range" in output
    code, output, given = asked(option, "1")
    assert (code, given) == (2, [])
    assert "need --notify URL, or STREAMER_NOTIFY" in output
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


def test_a_url_that_no_service_has_is_wrong_use_without_the_url() -> None:
    with pytest.raises(click.UsageError) as told:
        check_urls(Asked(["nobody://hunter2/"], Rules(None, None, None), None))
    assert "hunter2" not in str(told.value)


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
