"""`streamer notify`: wrong use is one line, and no URL is ever said."""

from __future__ import annotations

import pytest

from tests.notifications.receiving import SECRET
from tests.support.cli import streamer


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--all"], "where to?"),
        (["--notify", "json://x"], "name the runs to watch, or say --all"),
        (["r", "--all", "--notify", "json://x"], "name the runs to watch, or say --all"),
        (["--all", "--notify", "json://x", "--notify", f"nosuch://{SECRET}"], "notification URL 2 is none"),
        (["--all", "--budget", "5"], "need --notify URL, or STREAMER_NOTIFY"),
        (["--all", "--notify", "json://x", "--stalled-after", "0"], "stalled-after"),
    ],
)
def test_wrong_use_is_one_line_without_the_url(arguments: list[str], said: str) -> None:
    done = streamer("notify", *arguments)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert said.encode() in done.stderr
    assert SECRET.encode() not in done.stderr


def test_without_redis_it_ends_and_says_so() -> None:
    done = streamer("notify", "--all", "--notify", "json://x", "--redis", "redis://127.0.0.1:1")
    assert done.returncode == 1
    assert b"Redis at 127.0.0.1:1 does not answer" in done.stderr
