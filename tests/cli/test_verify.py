"""`streamer verify`: its exit codes and the differences it shows."""

from __future__ import annotations

import redis

from streamer.operate.local.processes import free_port
from tests.cli.calling import a_run, call, lines, published, settled
from tests.support.online import Online


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
    assert b"tampered: 1 difference, 6 summaries compared" in done.stdout
    assert b"tier:T0" in done.stdout
