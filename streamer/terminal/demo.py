"""`streamer demo`: a stack, a simulated benchmark, its judge and its boards for about a minute."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import webbrowser
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from random import Random
from textwrap import wrap
from typing import Any
from urllib.request import ProxyHandler, build_opener

import click
import orjson

from streamer.client.publisher import TrialPublisher
from streamer.client.queries import ComparedRun, RunSnapshot, UnknownRun
from streamer.client.readers import StateReader
from streamer.operate.verify import Verdict
from streamer.schemas.wire import Reason, canonical_json, decode
from streamer.settings import Settings
from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.convert import convert
from streamer.sources.tail.session import TailResult, tail
from streamer.storage.kafka import Names, partitions_of
from streamer.storage.log import PartitionReader, read_topic
from streamer.storage.outbox import Outgoing, ThreadedPublisher
from streamer.terminal import FAILED, print_line, say
from streamer.terminal.boards import board_lines, print_board, print_run
from streamer.terminal.harness import LOOK_SECONDS, Messages, lines_of, on_terminal, print_lines, show_screens
from streamer.terminal.local import READY_SECONDS, started_stack
from streamer.terminal.options import with_local_settings
from streamer.terminal.replay import exit_code, verdicts_of
from streamer.terminal.replay import print_verdict as show_verdict
from streamer.terminal.simulate import CRASH, EXCEPTIONS, MEAN_SECONDS, Disk, HarborAgent, write_harbor
from streamer.text import counted, percent, visible
from streamer.views.cells import of_planned
from streamer.views.columns import best_first, primary_of
from streamer.views.compare import NOTHING
from streamer.views.outlook import outlook_of, places_of
from streamer.views.tables import agents_table, leaders_table, runs_table
from streamer.web import DEFAULT_HOST, available_port

# -----------------------------------------------------------------------------
# What happens in a run, a line each: a new leader, a crash, a judge, a pair that is told apart.


LEAD_FROM = 5
"""An agent leads once every agent has so many results: before that, each trial changes the lead."""

CRASHED = EXCEPTIONS[CRASH]

Summary = dict[str, Any]


class Moments:
    """Compares each look at a run with the one before."""

    def __init__(self) -> None:
        self._leader: str | None = None
        self._happened: set[str] = set()
        self._decided: set[frozenset[str]] = set()

    def new_lines(self, snapshot: RunSnapshot, compared: ComparedRun, now: datetime) -> list[str]:
        """What happened since the last look; [] if nothing that is worth a line.

        Args:
            snapshot: the run as it stands.
            compared: its agents compared.
            now: the time of the look.
        """
        run = snapshot.run.model_dump(mode="json")
        rows = [one.model_dump(mode="json") for one in snapshot.agents]
        agents = sorted(rows, key=best_first(primary_of(run)))
        words = outlook_of(snapshot.run, snapshot.agents, snapshot.in_flight, compared, now).first_two
        return [*self._firsts(run), *self._lead(agents), *self._pair(agents, words)]

    def _firsts(self, run: Summary) -> Iterator[str]:
        """What happens for the first time."""
        done = of_planned(run["progress"]["done"], run["progress"]["planned"])
        judged = run["coverage"].get("impl_rate", 0)
        scores, crashes = of_planned(judged, run["trials"]), run["failure_modes"].get(CRASHED)
        for kind, happened, line in (
            ("started", run["in_flight"], f"{run['in_flight']} trials run, {done} are done"),
            ("judged", judged, f"the judge's first scores are in: {scores} results have one"),
            ("crashed", crashes, f"a trial crashed ({CRASHED}); harbor runs it again"),
        ):
            if happened and kind not in self._happened:
                self._happened.add(kind)
                yield line

    def _lead(self, agents: list[Summary]) -> Iterator[str]:
        if not agents or min(agent["trials"] for agent in agents) < LEAD_FROM:
            return
        rates = {agent["agent_model"]: agent["statistics"]["pass_rate"]["mean"] for agent in agents}
        first, before = agents[0]["agent_model"], self._leader
        if before is None:
            self._leader = first
            yield f"{visible(first)} leads: pass rate {percent(rates[first])}"
        elif rates[first] > rates[before]:
            self._leader = first
            ends = f"{percent(rates[first])} to {percent(rates[before])}"
            yield f"{visible(first)} overtakes {visible(before)}: pass rate {ends}"

    def _pair(self, agents: list[Summary], words: list[str]) -> Iterator[str]:
        pair = frozenset(agent["agent_model"] for agent in agents[:2])
        if words and not words[0].startswith(NOTHING) and pair not in self._decided:
            self._decided.add(pair)
            yield visible(words[0])


# -----------------------------------------------------------------------------
# Opening the demo's page in a browser, where there is one that a person looks at.


PAGE_SECONDS = 30.0
"""So long the page has to begin."""

BROWSER_POLL_SECONDS = 0.1


def has_display(environment: Mapping[str, str], platform: str) -> bool:
    """Whether a browser that is opened here is seen by the person at this terminal.

    >>> has_display({"DISPLAY": ":0"}, "linux"), has_display({}, "linux"), has_display({}, "darwin")
    (True, False, True)
    >>> has_display({"SSH_CONNECTION": "10.0.0.1 22"}, "darwin"), has_display({"CI": "true"}, "darwin")
    (False, False)
    """
    if environment.get("CI"):
        return False
    if environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"):
        return True
    return platform == "darwin" and not environment.get("SSH_CONNECTION")


def open_page(address: str, given_up: threading.Event, opens: Callable[[str], object] | None = None) -> None:
    """Open the page in a browser as soon as it answers; nothing where there is no browser, or it never does.

    A browser that would need this terminal (lynx, w3m) is not opened.

    Args:
        address: of the page.
        given_up: set: the page is not needed any more.
        opens: opens an address; None: the browser that the system prefers.
    """
    if opens is None:
        if not has_display(os.environ, sys.platform):
            return
        try:
            browser = webbrowser.get()
        except webbrowser.Error:
            return
        if type(browser) is webbrowser.GenericBrowser:
            return
        opens = open_quietly
    deadline = time.monotonic() + PAGE_SECONDS
    while time.monotonic() < deadline and not given_up.wait(BROWSER_POLL_SECONDS):
        if _answers(address):
            opens(address)
            return


def open_quietly(address: str) -> None:
    """Open an address in the preferred browser, in a process whose output does not tear the screen."""
    command = [sys.executable, "-m", "webbrowser", address]
    nowhere = subprocess.DEVNULL
    subprocess.run(command, check=False, stdin=nowhere, stdout=nowhere, stderr=nowhere)  # noqa: S603 - ours


def _answers(address: str) -> bool:
    """Whether a page on this machine answers; a proxy of the user is not asked."""
    with suppress(OSError, HTTPException), build_opener(ProxyHandler({})).open(address, timeout=1.0):
        return True
    return False


# -----------------------------------------------------------------------------
# What one sees of the demo: the screens of `watch` on a terminal until `q`, elsewhere a line a moment.


COLUMNS = 100
MOST_LINES = 9
"""So many lines of moments, so that all of the demo's output is one screen of 24 lines."""


def show(
    settings: Settings,
    reader: StateReader,
    run_id: str | None,
    page: str,
    work: Future[Any],
    messages: Messages,
    *,
    browser: bool,
) -> None:
    """Show the work until it is over; on a terminal until the user presses `q`, however long.

    Args:
        settings, reader: of the stack.
        run_id: the run that it is about; None: several.
        page: address of the stack's page.
        work: what publishes.
        messages: what it says meanwhile.
        browser: open the page on a terminal, where there is a browser.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    if not on_terminal():
        if run_id is None:
            print_lines(reader, work.done)
        else:
            print_moments(reader, run_id, work)
        return
    address = f"{page}#/run/{run_id}" if run_id else page
    given_up = threading.Event()
    if browser:
        threading.Thread(target=open_page, args=(address, given_up), daemon=True).start()

    def line() -> str:
        if work.done():
            return f"The benchmark is over. q ends the demo · {address}"
        return f"In a browser: {address} · q ends the demo"

    try:
        show_screens(
            settings,
            lambda: work.done() and work.exception() is not None,
            messages,
            opens=lambda: run_id,
            line=line,
        )
    finally:
        given_up.set()


def print_moments(reader: StateReader, run_id: str, work: Future[Any]) -> None:
    """Print a line for each moment of the run, until the work is over."""
    moments, start, printed = Moments(), time.monotonic(), 0
    over = False
    while not over:
        over = work.done()
        with suppress(UnknownRun):
            snapshot, compared = reader.snapshot(run_id), reader.comparison(run_id)
            for moment in moments.new_lines(snapshot, compared, datetime.now(UTC)):
                lines = wrap(
                    f"{time.monotonic() - start:3.0f} s  {moment}", COLUMNS, subsequent_indent=" " * 7
                )
                if printed + len(lines) <= MOST_LINES:
                    printed += len(lines)
                    for line in lines:
                        print_line(line)
            sys.stdout.flush()
        time.sleep(LOOK_SECONDS)


# -----------------------------------------------------------------------------
# An embedded stack of the demo's own: `streamer up --ephemeral` below this process, hidden from others.


@dataclass(frozen=True, slots=True)
class DemoStack:
    """A running stack.

    Attributes:
        settings: where its servers are.
        page: address of its page, which may take a moment to answer.
    """

    settings: Settings
    page: str


@contextmanager
def demo_stack() -> Iterator[DemoStack]:
    """A running stack, which ends with the block; what it held is gone then.

    Settings of the user (STREAMER_* variables, streamer.toml) do not reach it.

    Raises:
        streamer.operate.local.processes.ServerFailed: it did not start; the message says what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="streamer-demo-") as folder:
        discovery = Path(folder) / "running.json"
        port = available_port()
        options = ("--ephemeral", "--web-port", str(port))
        log, env = Path(folder) / "up.log", _environment(discovery)
        with started_stack("The embedded stack", *options, ready=discovery.exists, log=log, env=env) as up:
            settings = _settings(discovery)
            with StateReader(settings) as reader:
                up.wait_ready(lambda: _at_work(reader), READY_SECONDS)
            yield DemoStack(settings, f"http://{DEFAULT_HOST}:{port}/")


def _at_work(reader: StateReader) -> bool:
    """True once the worker has its partitions: before that, published events would show nothing."""
    states = [worker.status for worker in reader.workers()]
    return any(state.get("partitions") and not state.get("catching_up") for state in states)


def _environment(discovery: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    return clean | {"STREAMER_DISCOVERY": str(discovery), "STREAMER_CONFIG": ""}


def _settings(discovery: Path) -> Settings:
    """Everything that says where the stack is, so that nothing of the user's settings gets in between.

    What the tail and the publisher keep on disk goes with the stack.
    """
    stack = orjson.loads(discovery.read_bytes())
    return Settings(
        bootstrap=stack["bootstrap"],
        redis=stack["redis"],
        namespace=stack["namespace"],
        partitions=stack["partitions"],
        embedded=True,
        redis_password=None,
        security_protocol="PLAINTEXT",
        prices_file=None,
        data_dir=discovery.parent,
    )


# -----------------------------------------------------------------------------
# The demo's benchmark: a simulated job of harbor, six agents on the same shuffled tasks, in a minute.


RUN = "demo"

AGENTS = (
    HarborAgent("aspen", "simulated", "large", 0.80),
    HarborAgent("birch", "simulated", "large", 0.52),
    HarborAgent("cedar", "simulated", "large", 0.46),
    HarborAgent("aspen", "simulated", "small", 0.40),
    HarborAgent("birch", "simulated", "small", 0.30),
    HarborAgent("cedar", "simulated", "small", 0.15),
)
"""Invented names, so that these numbers are not taken for results of a real agent."""

TASKS = 40
"""Each agent tries each of them once."""

AT_ONCE = 12
"""Trials that run at once, of all agents together."""

SEED = 433
"""Chosen for what it shows: an overtaking, a retry, and the two best told apart before the end."""

SPEED = 24.0
"""A trial of the demo takes some seconds; its times are true, so ages and forecasts on the boards are too."""

PIECE_SECONDS = 0.01

DECLARED = {"order_kind": "shuffled", "judged": True, "display_name": "Demo: six simulated agents"}
"""What the run's files do not say: the tasks were shuffled, and a judge will score the trials."""

OPTIONS = ConvertOptions(declared=DECLARED)


def write_benchmark(
    directory: Path,
    start: datetime,
    sleep: Callable[[float], None],
    written: Callable[[Path], None] = lambda _: None,
    *,
    fast: bool = False,
    seed: int = SEED,
) -> None:
    """Write the job's directory from its first file to its last.

    Args:
        directory: whose name is the run's id.
        start: when the job begins, with a zone.
        sleep: waits; as long in all as the trials take.
        written: called with each file when it is complete.
        fast: do not wait.
        seed: of everything random.
    """
    disk = Disk(directory, seed, 0.0 if fast else MEAN_SECONDS, sleep, written, PIECE_SECONDS)
    write_harbor(disk, TASKS, seed, start, AT_ONCE, shuffle=True, agents=AGENTS, attempts=1, speed=SPEED)


# -----------------------------------------------------------------------------
# The demo's judge: it scores each result some seconds after its verdict, and publishes it again.


JUDGE_SECONDS = 4.0
"""How long after its result a trial is judged."""

JUDGE_POLL_SECONDS = 0.2

Event = dict[str, Any]


def judged(event: Event) -> Event:
    """A result with a score: the whole result again, as a correction of it. The trial decides the score.

    >>> result = {"type": "trial_result", "task_id": "t", "shard": "t__a", "resolved": True, "revision": 7}
    >>> judged(result)["revision"], judged(result) == judged(result), 0 <= judged(result)["score"] <= 1
    (8, True, True)
    """
    skill = (8, 2) if event.get("resolved") else (3, 4)
    score = round(Random(f"{SEED} {event['task_id']} {event.get('shard')}").betavariate(*skill), 2)  # noqa: S311
    return event | {"score": score, "revision": event["revision"] + 1}


def unjudged(values: Iterable[bytes]) -> list[Event]:
    """The results among records that no judge has scored; broken records are left out.

    >>> unjudged([b"no JSON", b'{"type": "trial_result", "revision": 1, "score": 0.5}'])
    []
    """
    events = []
    for value in values:
        try:
            event = orjson.loads(value)
        except orjson.JSONDecodeError:
            continue
        if event["type"] == "trial_result" and "revision" in event and "score" not in event:
            events.append(event)
    return events


def judge(settings: Settings, ending: threading.Event, hurry: threading.Event) -> int:
    """Follow the results in the event topic and judge them; how many were judged.

    Args:
        settings: where the broker is.
        ending: no result is still to come; it ends once all are judged.
        hurry: the rest is judged at once.
    """
    return asyncio.run(_judge(settings, ending, hurry))


async def _judge(settings: Settings, ending: threading.Event, hurry: threading.Event) -> int:
    topic = Names(settings.namespace).trial_events
    places = [(topic, number) for number in await partitions_of(settings, topic)]
    waiting: deque[tuple[float, Event]] = deque()
    positions = dict.fromkeys(places, 0)
    number = 0
    with TrialPublisher(settings) as publisher:
        async with PartitionReader(settings, places) as reader:
            while True:
                is_last = ending.is_set()
                ends = await reader.ends()
                async for batch in reader.read(positions, ends):
                    due = time.monotonic() + JUDGE_SECONDS
                    waiting += ((due, event) for event in unjudged(record.value for record in batch))
                positions = ends
                while waiting and (hurry.is_set() or waiting[0][0] <= time.monotonic()):
                    publisher.publish(judged(waiting.popleft()[1]))
                    number += 1
                if is_last and not waiting:
                    return number
                await asyncio.sleep(JUDGE_POLL_SECONDS)


# -----------------------------------------------------------------------------
# The demo at work: a simulated harness writes, the tail follows, a judge scores what it reads in the log.


BROKEN = (
    b"not JSON at all",
    b'{"type":"trial_result","run_id":"demo","task_id":"task-1","resolved":"yes"}',
    b'{"type":"trial_result","run_id":"demo","task_id":"task-1","cost_usd":-1}',
)
"""What harnesses with bugs send."""


class _DemoStopped(Exception):
    """The simulated harness is not awaited any more."""


def run_benchmark(
    settings: Settings, root: Path, stop: threading.Event, say: Callable[[str], None], *, fast: bool
) -> TailResult:
    """Let the harness write, follow and judge it, until all is published.

    Args:
        settings: of the stack.
        root: where the run directory is written; one of an earlier demo is removed.
        stop: set: the user has left, so it ends at once.
        say: takes lines for the user, from any thread.
        fast: as fast as it goes.
    """
    shutil.rmtree(root / RUN, ignore_errors=True)
    root.mkdir(parents=True, exist_ok=True)
    written, published = threading.Event(), threading.Event()
    hurry = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        following = threads.submit(tail, settings, root, OPTIONS, written, say, lambda _: None)
        judging = threads.submit(judge, settings, published, hurry)
        try:
            _send_broken(settings)
            _write_benchmark(root / RUN, stop, fast=fast)
        finally:
            written.set()
            if fast or stop.is_set():
                hurry.set()
            try:
                outcome = following.result()
            finally:
                published.set()
        while not judging.done():
            if stop.wait(0.1):
                hurry.set()
        judging.result()
    return outcome


def _write_benchmark(directory: Path, stop: threading.Event, *, fast: bool) -> None:
    """Write the benchmark, by a clock: what other work of this machine costs is made good."""
    due = time.monotonic()

    def sleep(seconds: float) -> None:
        nonlocal due
        due += seconds
        if stop.wait(max(0.0, due - time.monotonic())):
            raise _DemoStopped

    try:
        write_benchmark(directory, datetime.now(UTC), sleep, fast=fast)
    except _DemoStopped:
        return


def _send_broken(settings: Settings) -> None:
    with ThreadedPublisher(settings) as publisher:
        for line in BROKEN:
            publisher.send(Outgoing(None, line))
        publisher.flush()


# -----------------------------------------------------------------------------
# `streamer demo`: everything at once, on this machine, in about a minute.


VISIBLE_SECONDS = 33.0
"""How long the events of real results take to stream, so that one can watch."""

IN_FLIGHT_SECONDS = 30.0
RUNS_IN_FULL = 3


@click.command()
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="Stream this directory of real results instead.",
)
@click.option("--fast", is_flag=True, help="Stream as fast as it goes.")
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open the page, on a terminal.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-out"),
    show_default=True,
    help="Where the simulated run directory, the events and the final summaries are written.",
)
@with_local_settings
def demo_command(data: Path | None, fast: bool, browser: bool, out: Path, settings: Settings) -> None:
    """Start broker, Redis, worker and page, follow a simulated benchmark for a minute, verify, stop.

    A simulated harness writes a run directory, `streamer tail` follows it, and a judge scores the trials. On
    a terminal the boards stay until you press `q`. The stack is the demo's own and ends with it; a running
    one is not touched, and the settings of your own servers are not used.
    """
    lines = _real_events(data) if data else []
    out.mkdir(parents=True, exist_ok=True)
    print_line("Starting broker, Redis, worker and page (some seconds) ...")
    sys.stdout.flush()
    with demo_stack() as stack, StateReader(stack.settings) as reader:
        if data:
            _stream(stack, reader, lines, 0.0 if fast else VISIBLE_SECONDS, browser=browser)
        else:
            _follow(stack, reader, out / "simulated", fast=fast, browser=browser)
        verdicts = verdicts_of(stack.settings, None, IN_FLIGHT_SECONDS)
        summaries = list(_summaries(reader))
        if data:
            _print_boards(reader, summaries)
        else:
            _print_board(reader)
        _print_rejections(stack.settings)
        lines = lines or _sent(stack.settings)
    _print_verdicts(verdicts)
    _write_results(out, lines, summaries)
    raise click.exceptions.Exit(exit_code(verdicts))


def _real_events(data: Path) -> list[bytes]:
    report = ConvertReport()
    lines = [canonical_json(event) for event in convert([data], ConvertOptions(), report)]
    for line in lines_of(report):
        say(line)
    if not lines:
        raise click.exceptions.Exit(FAILED)
    return lines


def _follow(stack: DemoStack, reader: StateReader, root: Path, *, fast: bool, browser: bool) -> None:
    """The simulated benchmark, from its first file to the last acknowledgement."""
    print_line(f"A simulated harbor writes {root / RUN}. Page: {stack.page}")
    sys.stdout.flush()
    stop, messages = threading.Event(), Messages()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(run_benchmark, stack.settings, root, stop, messages.say, fast=fast)
        try:
            show(stack.settings, reader, RUN, stack.page, running, messages, browser=browser)
        finally:
            stop.set()
        if pending := running.result().pending:
            events = counted(pending, "event")
            say(f"streamer: the demo's broker has not acknowledged {events}: the numbers lack them")
            raise click.exceptions.Exit(FAILED)


def _sent(settings: Settings) -> list[bytes]:
    """The event topic, in the order in which it was sent."""
    records = read_topic(settings, Names(settings.namespace).trial_events)
    return [record.value for record in sorted(records, key=lambda record: record.timestamp)]


def _stream(
    stack: DemoStack, reader: StateReader, lines: Sequence[bytes], seconds: float, *, browser: bool
) -> None:
    """Publish the lines over so many seconds, and show the boards meanwhile."""
    print_line(f"Streaming {len(lines):,} events. Page: {stack.page}")
    stop = threading.Event()

    def publish() -> None:
        with ThreadedPublisher(stack.settings) as publisher:
            start = time.monotonic()
            for number, line in enumerate(lines, start=1):
                event = decode(line)
                publisher.send(Outgoing(None if isinstance(event, Reason) else event.run_id.encode(), line))
                if stop.wait(max(0.0, start + seconds * number / len(lines) - time.monotonic())):
                    return
            publisher.flush()

    with ThreadPoolExecutor(1) as thread:
        publishing = thread.submit(publish)
        try:
            show(stack.settings, reader, None, stack.page, publishing, Messages(), browser=browser)
        finally:
            stop.set()
        publishing.result()


def _summaries(reader: StateReader) -> Iterator[Summary]:
    """Everything in Redis, by run."""
    for run in sorted(reader.runs(), key=lambda run: run.run_id):
        snapshot = reader.snapshot(run.run_id)
        for summary in (snapshot.run, *snapshot.agents, *snapshot.tiers):
            yield summary.model_dump(mode="json")
        if (comparison := reader.comparison(run.run_id).comparison) is not None:
            yield comparison.model_dump(mode="json")


def _print_boards(reader: StateReader, summaries: list[Summary]) -> None:
    now = datetime.now(UTC)
    runs = [summary for summary in summaries if summary["type"] == "run_summary"]
    if len(runs) > RUNS_IN_FULL:
        print_board(runs_table(runs, now))
    else:
        for run in runs:
            within = [s for s in summaries if s["run_id"] == run["run_id"]]
            shown = [s for s in within if not (s["type"] == "tier_summary" and s["agent_model"])]
            print_run(shown, now)
    print_board(leaders_table("pass_rate", reader.leaderboard("pass_rate")))


def _print_board(reader: StateReader) -> None:
    """The agents of the simulated benchmark, best first, in as many columns as fit."""
    snapshot, compared = reader.snapshot(RUN), reader.comparison(RUN)
    places = places_of(compared.comparison)
    agents = [agent.model_dump(mode="json") for agent in snapshot.agents]
    table = agents_table(agents, snapshot.run.model_dump(), places)
    for line in board_lines(table, COLUMNS):
        print_line(line)


def _print_rejections(settings: Settings) -> None:
    """Bad events are data: each one is published with the reason."""
    topic = Names(settings.namespace).trial_rejections
    codes = Counter(orjson.loads(record.value)["code"] for record in read_topic(settings, topic))
    if codes:
        kinds = ", ".join(f"{count} {code}" for code, count in sorted(codes.items()))
        print_line(f"Rejected, as they do not fit the schema: {counted(codes.total(), 'event')} ({kinds})")


def _print_verdicts(verdicts: Sequence[Verdict]) -> None:
    print_line("Verified: the event topic, folded again, against Redis")
    for verdict in verdicts:
        show_verdict(verdict)


def _write_results(out: Path, lines: Sequence[bytes], summaries: Sequence[Summary]) -> None:
    events, results = out / "events.ndjson", out / "summaries.json"
    events.write_bytes(b"".join(line + b"\n" for line in lines))
    results.write_bytes(canonical_json(summaries) + b"\n")
    print_line(f"Written: {events} ({len(lines):,} events), {results} ({len(summaries):,} summaries)")
    print_line(f"Next: streamer up (in another terminal), then streamer publish {events}")
