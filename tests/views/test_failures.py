"""Failures that are alike stand together, whatever numbers, ids and paths are in their messages."""

from __future__ import annotations

import pytest

from streamer.views.models import FailedTrial, failure_groups, kind_of, telling_line


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("exit code 1", "exit code 137"),
        ("no file /app/a/b.py", "no file /srv/x/c.txt"),
        ("container 4f5a6b7c8d9e is gone", "container 0011aabbccdd is gone"),
        ("run 123e4567-e89b-12d3-a456-426614174000", "run 00000000-0000-0000-0000-000000000001"),
        ("at 0xdeadbeef", "at 0x1"),
        ("GET https://a.example/x?y=1 failed", "GET http://b.example failed"),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'a'", "KeyError: 'a'"),
        ("\n\n  first line \nsecond", "first line\nother"),
    ],
)
def test_messages_that_differ_in_such_parts_alone_are_of_one_kind(one: str, other: str) -> None:
    assert kind_of(one) == kind_of(other)


@pytest.mark.parametrize(
    ("one", "other"), [("failed tests: test_a", "failed tests: test_b"), ("decade", "facade"), ("a", "")]
)
def test_words_tell_kinds_apart(one: str, other: str) -> None:
    assert kind_of(one) != kind_of(other)


def test_hostile_messages_end_soon() -> None:
    for message in ("/" * 4096, "a" * 4096, "0x" * 2048, "1." * 2048, "\n" * 4096, ""):
        assert len(kind_of(message)) <= 160
        assert len(telling_line(message)) <= 300


def test_groups_have_counts_shares_and_agents_the_largest_first() -> None:
    def failed(agent: str, mode: str | None, message: str = "") -> FailedTrial:
        return FailedTrial(agent, mode, kind_of(message) if message else "", message or None)

    groups = failure_groups(
        [
            failed("a", "unset", "x 1"),
            failed("b", "none", "x 2"),
            failed("a", None, "x 3"),
            failed("a", "timeout"),
        ]
    )
    assert [(group.failure_mode, group.kind, group.count, group.share) for group in groups] == [
        (None, "x N", 3, 0.75),
        ("timeout", "", 1, 0.25),
    ]
    assert groups[0].agents == {"a": 2, "b": 1}
    assert (groups[0].example, groups[1].example) == ("x 1", None)
    assert failure_groups([]) == []
