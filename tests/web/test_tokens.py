"""Which servers start: one that others can reach has tokens, long ones, and another for each use."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli import streamer

TOKEN = "correct-horse-battery"


def test_an_address_that_others_can_reach_needs_a_long_token(tmp_path: Path) -> None:
    open_to_all = streamer("serve", "--host", "0.0.0.0", cwd=tmp_path)
    assert open_to_all.returncode == 1
    assert b"--token" in open_to_all.stderr
    short = streamer("serve", "--host", "0.0.0.0", "--token", "short", cwd=tmp_path)
    assert short.returncode == 1
    assert b"--token is too short: 16 characters" in short.stderr


def test_a_token_for_publishing_is_long_too(tmp_path: Path) -> None:
    short = streamer("serve", "--publish-token", "short", cwd=tmp_path)
    assert short.returncode == 1
    assert b"--publish-token is too short: 16 characters" in short.stderr


def test_a_token_for_publishing_alone_opens_no_other_address(tmp_path: Path) -> None:
    done = streamer("serve", "--host", "0.0.0.0", "--publish-token", TOKEN, cwd=tmp_path)
    assert done.returncode == 1
    assert b"--token" in done.stderr


def test_one_token_for_both_uses_is_refused_and_not_shown(tmp_path: Path) -> None:
    environment = {"STREAMER_WEB_TOKEN": TOKEN, "STREAMER_WEB_PUBLISH_TOKEN": TOKEN, "STREAMER_DEBUG": "1"}
    same = streamer("serve", cwd=tmp_path, environment=environment)
    assert same.returncode == 1
    assert b"are the same" in same.stderr
    assert TOKEN.encode() not in same.stderr + same.stdout
