"""`streamer tail` as a process: against a broker, ended and killed."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.operate.local.processes import stopped_by_signals
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.terminal.harness import stopping
from streamer.worker.process import ensure_topics
from tests.house.repository import ROOT
from tests.operate.stack import descendants, runs
from tests.sources.builders import a_result, a_run, a_trial_file, write_json
from tests.sources.test_harbor import JOB, Answers, a_trial_result, address, listed
from tests.support.cli import COMMAND, staying, streamer
from tests.support.events import a_plan, a_retraction, a_trial
from tests.support.layouts import simulate_run
from tests.support.online import Online
from tests.support.tail_process import DEADLINE_SECONDS, Tails, ended
from tests.support.tailing import Event, converted_digests, digests_of
from tests.support.worker_process import wait_for
from tests.terminal.calling import Done, call, lines, ndjson, sent, settled, stderr_of

START = datetime(2026, 1, 2, tzinfo=UTC)
__all__ = ["address"]


@pytest.fixture
def tails(tmp_path: Path, embedded_broker: str, namespace: str) -> Tails:
    """Tails of a directory that does not exist yet; nobody consumes, and there is no Redis."""
    away = "redis://127.0.0.1:1/0"
    settings = Settings(bootstrap=embedded_broker, redis=away, namespace=namespace, partitions=2)
    asyncio.run(ensure_topics(settings))
    (data := tmp_path / "data").mkdir()
    return Tails(tmp_path / "run1", data, settings)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_publishes_what_is_complete_and_ends_with_0(tails: Tails, number: signal.Signals) -> None:
    with tails.running() as process:
        wait_for(lambda: "following" in tails.printed, "the start")
        a_run(tails.run, [a_result()], metadata={"agent_name": "terminus"})
        wait_for(lambda: len(tails.events) == 2, "the plan and the first result")
        a_trial_file(tails.run, a_result("b"))
        assert ended(process, number) == 0
    assert digests_of(tails.events) == converted_digests(tails.run)
    assert "1 run, 2 trials; 3 events published, all acknowledged" in tails.printed


@pytest.mark.parametrize("program", [stopping, stopped_by_signals])
def test_nohup_is_respected(program: Callable[[], AbstractContextManager[Any]]) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGHUP, before)
        stack.enter_context(program())
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def once(tails: Tails, *options: str) -> int:
    with tails.running("--once", *options) as process:
        return process.wait(DEADLINE_SECONDS)


def test_once_publishes_what_is_there_and_says_what_is_unreadable_or_missing(tails: Tails) -> None:
    assert once(tails) == 1
    assert f"{tails.run}: there is no such directory" in tails.printed
    tails.run.mkdir()
    assert once(tails) == 1
    assert f"{tails.run}: no run of a known harness found; give a run's directory" in tails.printed
    assert "0 runs" in tails.printed
    a_run(tails.run, [a_result()])
    assert once(tails) == 0
    broken = write_json(tails.run / "b" / "b.1-of-1.run1" / "results.json", "{")
    assert once(tails) == 1
    assert f"{broken}: not valid JSON" in tails.printed
    assert digests_of(tails.events) == converted_digests(tails.run)


def test_two_tails_of_one_directory_are_refused_and_waiting_events_are_remarked_on(tails: Tails) -> None:
    a_run(tails.run, [a_result()])
    with tails.running():
        wait_for(lambda: tails.events, "the first one")
        with tails.running() as second:
            assert second.wait(DEADLINE_SECONDS) == 1
        wait_for(lambda: "no worker has taken any of the 2 events that wait" in tails.printed, "the remark")
    assert "no worker is running" not in tails.printed, "without Redis that is not known"
    assert f"another process follows {tails.run} for the same broker" in tails.printed


@pytest.mark.parametrize(
    ("layout", "trials", "seconds", "kills"),
    [
        *((layout, 30, 4.0, 1) for layout in ("fc-eval", "terminal-bench", "scylla")),
        pytest.param("terminal-bench", 2_000, 12.0, 3, marks=pytest.mark.slow),
    ],
)
@pytest.mark.in_turn(3)
def test_a_tail_that_is_killed_again_and_again_ends_as_convert_has_it(
    tails: Tails, layout: str, trials: int, seconds: float, kills: int
) -> None:
    rng = random.Random(f"{layout} {trials}")
    simulated: dict[str, Any] = {"seed": 9, "start": START, "pace_seconds": seconds / trials}
    harness = threading.Thread(target=simulate_run, args=(layout, tails.run, trials), kwargs=simulated)
    harness.start()
    killed = 0
    while harness.is_alive():
        with tails.running() as process:
            harness.join(0.5 + rng.random() * 3.0)
            assert process.poll() is None, tails.printed
        killed += 1
    assert (once(tails), killed > kills) == (0, True)
    assert digests_of(tails.events) == converted_digests(tails.run)


def plans(tails: Tails) -> list[Event]:
    return [event for event in tails.events if event["type"] == "run_started"]


def test_the_order_is_declared_as_content_of_the_plan(tails: Tails, tmp_path: Path) -> None:
    a_run(tails.run, [a_result()], lock={"dataset": {"task_ids": ["oom", "b"]}})
    declared = {"order": ["b", "oom"], "order_kind": "shuffled", "attempts": 2}
    plan = write_json(tmp_path / "plan.json", declared)
    for options in ([], ["--order-kind", "chosen"], ["--plan", str(plan)]):
        assert once(tails, *options) == 0
    fields = ("order", "order_kind", "attempts", "tasks")
    assert [[plan.get(name) for name in fields] for plan in plans(tails)] == [
        [None, None, None, ["oom", "b"]],
        [None, "chosen", None, ["oom", "b"]],
        [["b", "oom"], "shuffled", 2, ["oom", "b"]],
    ]
    first, second, third = (plan["revision"] for plan in plans(tails))
    assert first < second < third


def test_a_declaration_that_the_lock_contradicts_is_remarked_on(tails: Tails) -> None:
    lock = {"harness": {"package": "terminal-bench", "version": "0.2.18"}, "dataset": {"task_ids": ["oom"]}}
    a_run(tails.run, [a_result()], lock=lock)
    assert once(tails) == once(tails, "--order-kind", "shuffled") == 0
    assert [plan["order_kind"] for plan in plans(tails)] == ["chosen", "shuffled"]
    assert "its harness orders tasks itself" in tails.printed


def test_difficulty_comes_from_the_trials_of_another_run(tails: Tails) -> None:
    """The share of failures of each task, as the topic of scored trials has them; baselines do not count."""
    topic = Names(tails.settings.namespace).scored_trials
    for task, agent, success in (
        ("oom", "x", True),
        ("oom", "y", False),
        ("b", "x", False),
        ("b", "oracle", True),
    ):
        scored = {"task_id": task, "agent": agent, "success": success, "epoch": 1, "state_version": 1}
        sent(tails.settings, topic, "past", (f"past||{task}|1|{agent}|m||".encode(), orjson.dumps(scored)))
    a_run(tails.run, [a_result()])
    assert once(tails, "--difficulty-from", "past") == 0
    assert [plan["task_difficulty"] for plan in plans(tails)] == [{"b": 1.0, "oom": 0.5}]
    assert once(tails, "--difficulty-from", "elsewhere") == 1
    assert "holds nothing for run 'elsewhere'" in tails.printed


# `streamer up` and what a newcomer does with it: publish, query, verify by digest, stop.
RUNS = ("r1", "r2", "r/3")
EVENTS = ndjson(
    [
        a_trial(run_id=run, task_id=f"t{n}", tier=tier, resolved=n % 3 == 0, score=n / 7, cost_usd=0.1)
        for run, tier, n in itertools.product(RUNS, ("T0", "T1"), range(7))
    ]
)
STOP_SECONDS = 40


@contextmanager
def up(directory: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A running `streamer up --ephemeral` that only commands with this discovery file find."""
    log, places = directory / "up.log", {"STREAMER_DISCOVERY": str(directory / "running.json")}
    with staying(log, "up", "--ephemeral", environment=places | settings) as process:
        wait_for(lambda: "Ctrl-C ends everything" in log.read_text(), "streamer up is up")
        yield process, log


@pytest.mark.stack
def test_the_first_line_comes_long_before_the_stack_is_up(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    environment = os.environ | {"STREAMER_DISCOVERY": str(tmp_path / "running.json")}
    with log.open("wb") as out:
        process = subprocess.Popen([*COMMAND, "up", "--ephemeral"], stdout=out, env=environment)
    try:
        wait_for(lambda: log.stat().st_size, "a line")
        assert not (tmp_path / "running.json").exists()
        assert log.read_text() == "Starting broker, Redis and worker (some seconds) ...\n"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(STOP_SECONDS)


def summaries(output: bytes) -> dict[tuple[str, ...], dict[str, Any]]:
    result = [orjson.loads(line) for line in output.splitlines()]
    return {(s["type"], s["run_id"], s.get("tier") or "", s.get("agent_model") or ""): s for s in result}


@pytest.mark.slow
def test_what_is_published_to_the_stack_is_answered_with_the_digests_of_fold(tmp_path: Path) -> None:
    here = {"STREAMER_DISCOVERY": str(tmp_path / "running.json")}
    folded = summaries(streamer("fold", "--json", stdin=EVENTS).stdout)

    def ask(*arguments: str) -> bytes:
        return streamer("query", *arguments, "--json", environment=here).stdout

    def agrees(answer: bytes, *types: str) -> bool:
        expected = {place: s["digest"] for place, s in folded.items() if place[0] in types}
        return {place: s["digest"] for place, s in summaries(answer).items()} == expected

    with up(tmp_path) as (process, log):
        published = streamer("publish", stdin=EVENTS * 2, environment=here)
        assert published.returncode == 0, published.stderr.decode()
        wait_for(lambda: agrees(ask("runs"), "run_summary"), "Redis says of the runs what fold says")
        groups = b"".join(ask(kind, run) for kind in ("agents", "tiers") for run in RUNS)
        assert agrees(groups, "agent_model_summary", "tier_summary")
        assert len(ask("trials", "r/3").splitlines()) == 14
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_SECONDS) == 0
        assert log.read_text().splitlines()[-1].startswith("Everything ended")


@pytest.mark.slow
def test_the_worker_of_up_works_by_a_changed_price_file_without_an_operator(tmp_path: Path) -> None:
    here = {"STREAMER_DISCOVERY": str(tmp_path / "running.json")}
    (prices := tmp_path / "prices.toml").write_text('[models."m"]\ninput = 10\noutput = 10\n')
    event = ndjson([a_trial(run_id="r", model="m", input_tokens=1_000_000, output_tokens=0)])

    def costs() -> list[float]:
        result = lines(streamer("query", "agents", "r", "--json", environment=here).stdout)
        return [agent["mean_cost"] for agent in result]

    with up(tmp_path, STREAMER_PRICES_FILE=str(prices)) as (process, _):
        assert streamer("publish", stdin=event, environment=here).returncode == 0
        wait_for(lambda: costs() == [10.0], "the run is priced")
        prices.write_text('[models."m"]\ninput = 20\noutput = 20\n')
        [worker] = [pid for pid, command in descendants(process.pid).items() if "streamer.worker" in command]
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: costs() == [20.0], "the next worker prices it by the new file")


def test_a_worker_ends_with_exit_code_0_on_sigterm(
    embedded_broker: str, redis_server: Any, namespace: str, tmp_path: Path
) -> None:
    where = ("--bootstrap", embedded_broker, "--redis", redis_server.url, "--namespace", namespace)

    def alive() -> bool:
        return b'"workers":[{' in streamer("status", "--json", *where).stdout.replace(b" ", b"")

    with staying(tmp_path / "log", "worker", *where, environment={"STREAMER_EMBEDDED": "true"}) as worker:
        wait_for(alive, "the worker reports")
        worker.terminate()
        assert worker.wait(STOP_SECONDS) == 0


# `streamer live`: one command, from a directory that does not exist yet to a board.
@contextmanager
def following(tmp_path: Path, what: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`streamer live` of a directory or an address, once it follows that; and the file of its output."""
    places = {
        "STREAMER_DISCOVERY": str(tmp_path / "running.json"),
        "STREAMER_DATA_DIR": str(tmp_path / "data"),
    }
    out, settings = tmp_path / "output.txt", places | {"STREAMER_PARTITIONS": "2"}
    with staying(out, "live", "--ephemeral", what, environment=settings) as live:
        wait_for(lambda: b"following" in out.read_bytes() or live.poll() is not None, "the start")
        yield live, out


@pytest.mark.stack
def test_one_command_shows_a_running_benchmark_and_ends_with_all_that_it_started(tmp_path: Path) -> None:
    with following(tmp_path, str(tmp_path / "nightly")) as (live, out):
        simulate_run("scylla", tmp_path / "nightly", 12, seed=1, start=START)
        wait_for(lambda: "nightly: 12 of" in out.read_text() or live.poll() is not None, "the board")
        below = descendants(live.pid)
        assert below
    assert "12 trials" in out.read_text()
    wait_for(lambda: not [pid for pid in below if runs(pid)], "the end of the stack", 20)


@pytest.mark.stack
def test_it_follows_the_server_at_an_address(tmp_path: Path, address: str) -> None:
    """Also before the job has a lock."""
    rollout = "00000000-1111-2222-3333-444444444444"
    job = {"id": JOB, "name": "nightly", "state": "running", "finished_at": None}
    result = a_trial_result(reward_valid=True) | {"config": {"job_id": JOB, "agent": {"name": "codex"}}}
    ended = {"id": rollout, "job_id": JOB, "name": "t__abc1234", "state": "finished", "result": result}
    Answers.answers |= {
        "/jobs": listed(job),
        f"/jobs/{JOB}": (200, {}, json.dumps({"job": job}).encode()),
        "/rollouts": listed(ended),
        f"/rollouts/{rollout}": (200, {}, json.dumps({"rollout": ended}).encode()),
    }
    with following(tmp_path, address) as (live, out):
        wait_for(lambda: f"{JOB}: 1 " in out.read_text() or live.poll() is not None, "the board")
    assert "1 trial" in out.read_text()


# `streamer why`: the table, the sums, JSON, and what it says where it cannot.
RUN = "why/1"
HISTORY = [
    a_trial(task_id="a", tier="T0", subtest="01"),
    a_trial(task_id="b", attempt=2, resolved=False),
    a_trial(task_id="b", attempt=2, resolved=None, revision=1),
    a_trial(task_id="b", attempt=2, revision=2, cost_usd=0.5),
    a_trial(task_id="c", shard="s", resolved=False, agent="other"),
    a_plan(tasks=3),
    a_retraction(task_id="a", tier="T0", subtest="01"),
    a_trial(task_id="n", agent="nop", model="nop"),
]
TABLE = """\
What moved pass_rate, newest first
offset   agent:model      what           trial          before      after          change
     4   other:gpt-5      new result     s: c                –     0.00 %               –
     3   terminus:gpt-5   late verdict   b, attempt 2  50.00 %   100.00 %   +50.00 points
     1   terminus:gpt-5   new result     b, attempt 2 100.00 %    50.00 %   -50.00 points
     0   terminus:gpt-5   new result     a, T0/01            –   100.00 %               –
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "events.ndjson"
    made.write_bytes(ndjson(HISTORY))
    return made


def why(file: Path, *arguments: object) -> Done:
    return streamer("why", "--from", file, *arguments)


def answer(done: Done) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    [result] = lines(done.stdout)
    return result


def test_the_table_lists_so_many_moves_newest_first_and_the_sums_stand_below(file: Path) -> None:
    """Lines that are no events are reported."""
    done, damaged = why(file), streamer("why", "--from", "-", stdin=ndjson(HISTORY) + b"garbage\n")
    assert (done.returncode, done.stderr) == (0, b"")
    assert (damaged.returncode, damaged.stdout) == (1, done.stdout)
    assert b"line 9: not_json" in damaged.stderr
    text = done.stdout.decode()
    rows = [line.split() for line in text.splitlines()[:7] if "─" not in line]
    assert rows == [line.split() for line in TABLE.splitlines()]
    assert text.endswith(
        "pass_rate of other:gpt-5 moved from unknown to 0.00 % by 1 event: 0 up, 0 down\n"
        "pass_rate of terminus:gpt-5 moved from unknown to 100.00 % by 3 events: 1 up, 1 down\n"
    )
    limited = why(file, "--limit", 1).stdout.decode()
    assert "and 3 more (--limit)" in limited
    assert "3 events: 1 up, 1 down" in limited


def test_since_begins_after_a_position_and_as_of_ends_at_one(file: Path) -> None:
    result = answer(why(file, "--since", 0, "--as-of", 2, "--json"))
    assert [move["offset"] for move in result["moves"]] == [1]
    assert result["state_version"] == 2
    [total] = result["totals"]
    assert (total["before"], total["after"], total["delta"]) == (1.0, 0.5, -0.5)
    still = why(file, "--since", 4).stdout.decode()
    assert still.splitlines() == [
        "pass_rate of other:gpt-5 stayed at 0.00 %",
        "pass_rate of terminus:gpt-5 stayed at 100.00 %",
    ]


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("mean_cost", "$0.5000"),
        ("cost_of_pass", "cost_of_pass of other:gpt-5 moved from unknown to inf"),
        ("metrics/reward", "metrics/reward of other:gpt-5 is unknown"),
        ("mean_speedup", "mean_speedup of terminus:gpt-5 is unknown"),
    ],
)
def test_other_metrics_are_written_as_on_their_boards(file: Path, metric: str, said: str) -> None:
    assert said in why(file, "--metric", metric).stdout.decode()


def test_json_has_the_moves_the_sums_and_infinite_numbers_as_text(file: Path) -> None:
    ask = ("--metric", "cost_of_pass", "--json", "--agent")
    result = answer(why(file, *ask, "terminus"))
    assert (result["run_id"], result["metric"], result["unit"]) == ("run-1", "cost_of_pass", "USD")
    assert result["log_begins_at"] == 0
    slot = {"shard": "", "task_id": "b", "attempt": 2, "agent_model": "terminus:gpt-5"}
    assert result["moves"][0]["trial"] == slot | {"tier": None, "subtest": None}
    assert answer(why(file, *ask, "other:gpt-5"))["totals"][0]["after"] == "Infinity"


def test_the_transcript_of_the_page_is_what_is_printed(tmp_path: Path) -> None:
    section = (ROOT / "docs" / "viewer.md").read_text("utf-8").split("## What moved a number")[1]
    (tmp_path / "events.ndjson").write_text(section.split("```json\n")[1].split("```")[0])
    command, told = section.split("```console\n$ ")[1].split("```")[0].split("\n", 1)
    done = streamer(*command.split()[1:], cwd=tmp_path)
    assert (done.returncode, done.stdout.decode()) == (0, told)


def test_the_last_number_is_the_published_one(stack: Online) -> None:
    events = [event | {"run_id": RUN} for event in HISTORY]
    settled(stack, RUN, events)
    assert "'why1'. Did you mean why/1" in stderr_of(call(stack, "why", "why1"), 1)
    result = answer(call(stack, "why", RUN, "--json"))
    agents = lines(call(stack, "query", "agents", RUN, "--json").stdout)
    now = {one["agent_model"]: one["statistics"]["pass_rate"]["mean"] for one in agents}
    del now["nop:nop"]
    assert {total["agent_model"]: total["after"] for total in result["totals"]} == now
    assert all(move["at"] is not None for move in result["moves"])
    text = call(stack, "why", RUN, "--since", result["moves"][0]["at"]).stdout
    assert b"stayed at" in text
