"""`streamer subscribe`: each feed, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from streamer.schemas.summaries import SUMMARY
from streamer.schemas.wire import digest_of
from tests.cli.calling import SECONDS, a_run, call, lines, published
from tests.support.cli import COMMAND
from tests.support.events import a_plan, a_trial
from tests.support.online import Online


@pytest.mark.parametrize(
    ("feed", "type_"),
    [
        ("agent-model", "agent_model_summary"),
        ("tier", "tier_summary"),
        ("run", "run_summary"),
        ("comparison", "run_comparison"),
        ("grades", "grade_change"),
        ("trials", "scored_trial"),
    ],
)
def test_each_feed_gives_what_was_published(stack: Online, feed: str, type_: str) -> None:
    published(stack, [*a_run(f"feed-{feed}"), a_trial(run_id=f"feed-{feed}", agent="another")])
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


def test_named_metrics_come_with_the_summaries(stack: Online) -> None:
    plan = a_plan(run_id="with metrics", metrics={"reward": {"label": "a\u202eb"}})
    published(stack, [plan, a_trial(run_id="with metrics", metrics={"reward": 0.5, "style": 2.0})])
    for feed in ("agent-model", "trials"):
        given = ("subscribe", feed, "--run", "with metrics", "--from-beginning", "--limit", 1)
        [message] = lines(call(stack, *given, "--json").stdout)
        assert set(message["metrics"]) == {"reward", "style"}
        done = call(stack, *given)
        assert done.returncode == 0
        assert "\u202e" not in done.stdout.decode()


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
