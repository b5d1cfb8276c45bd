"""`streamer demo`: a stack, a simulated benchmark, its judge and its boards for about a minute."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import webbrowser
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from textwrap import wrap
from typing import Any

import click
import orjson

from streamer.client.publisher import TrialPublisher
from streamer.client.queries import OF_COMPARISON, OF_SNAPSHOT, RunAnswers, UnknownRun
from streamer.client.readers import StateReader
from streamer.schemas.base import canonical_json
from streamer.settings import Settings
from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.convert import convert
from streamer.sources.tail.session import tail
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from streamer.storage.outbox import Outgoing, ThreadedPublisher, outgoing
from streamer.terminal import FAILED, print_line, say
from streamer.terminal.boards import board_lines, print_board
from streamer.terminal.harness import LOOK_SECONDS, Messages, lines_of, on_terminal, print_lines, show_screens
from streamer.terminal.local import started_stack
from streamer.terminal.options import with_local_settings
from streamer.terminal.replay import SUMMARIES, exit_code, print_verdict, verdicts_of
from streamer.terminal.simulate import CRASH, EXCEPTIONS, MEAN_SECONDS, Disk, HarborAgent, write_harbor
from streamer.text import counted, percent, visible
from streamer.views.cells import of_planned
from streamer.views.columns import best_first, primary_of
from streamer.views.decide.comparable import NOTHING
from streamer.views.decide.outlook import outlook_of, places_of
from streamer.views.tables import agents_table, runs_table
from streamer.web import DEFAULT_HOST, available_port

# -----------------------------------------------------------------------------
# The published events: a simulated job of harbor, six agents on the same shuffled tasks, in a minute, which
# the tail follows; then each result again, with a judge's score. Or real results, at a visible pace.


RUN = "demo"

AGENTS = (
    HarborAgent("aspen", "simulated", "large", 0.80),
    HarborAgent("birch", "simulated", "large", 0.52),
    HarborAgent("cedar", "simulated", "large", 0.46),
    HarborAgent("aspen", "simulated", "small", 0.40),
    HarborAgent("birch", "simulated", "small", 0.30),
    HarborAgent("cedar", "simulated", "small", 0.15),
)
"""Invented names, so that the numbers are not mistaken for real agents' results."""

TASKS, AT_ONCE = 40, 12
"""Tasks that each agent tries once, and the number of parallel trials."""

SEED = 433
"""A seed with a change of leader and a retry, where the two best agents separate before the end."""

SPEED, PIECE_SECONDS = 24.0, 0.01
"""Pace of the demo: a trial takes seconds of real time, so ages and forecasts are real too."""

OPTIONS = ConvertOptions(
    declared={"order_kind": "shuffled", "judged": True, "display_name": "Demo: six simulated agents"}
)
"""Facts that the run's files lack: the task order is shuffled, and a judge scores the trials."""

BROKEN = (
    b"not JSON at all",
    b'{"type":"trial_result","run_id":"demo","task_id":"task-1","resolved":"yes"}',
    b'{"type":"trial_result","run_id":"demo","task_id":"task-1","cost_usd":-1}',
)

JUDGE_SECONDS, JUDGE_POLL_SECONDS = 4.0, 0.5

VISIBLE_SECONDS = 33.0
"""Seconds over which real results are published, so that the viewer can follow."""

Event = dict[str, Any]


def write_benchmark(
    directory: Path,
    start: datetime,
    sleep: Callable[[float], None],
    written: Callable[[Path], None] = lambda _: None,
    *,
    fast: bool = False,
) -> None:
    """Write the job's directory, whose name is the run's id.

    `sleep` waits as long as the trials take; with `fast` it is not called.
    """
    disk = Disk(directory, SEED, 0.0 if fast else MEAN_SECONDS, sleep, written, PIECE_SECONDS)
    write_harbor(disk, TASKS, SEED, start, AT_ONCE, shuffle=True, agents=AGENTS, attempts=1, speed=SPEED)


def judged(event: Event) -> Event:
    """A result with a score, as a correction of the whole result; the trial determines the score.

    >>> result = {"type": "trial_result", "task_id": "t", "shard": "t__a", "resolved": True, "revision": 7}
    >>> judged(result)["revision"], judged(result) == judged(result), 0 <= judged(result)["score"] <= 1
    (8, True, True)
    """
    skill = (8, 2) if event.get("resolved") else (3, 4)
    score = round(Random(f"{SEED} {event['task_id']} {event.get('shard')}").betavariate(*skill), 2)  # noqa: S311
    return event | {"score": score, "revision": event["revision"] + 1}


def judge(settings: Settings, following: Future[Any]) -> None:
    """Judge the run's results in the event topic; once `following` is done, judge the rest immediately."""
    topic, position, is_last = Names(settings.namespace).trial_events, 0, False
    with TrialPublisher(settings) as publisher:
        while not is_last:
            is_last = bool(wait([following], JUDGE_POLL_SECONDS).done)
            due_ms = math.inf if is_last else 1000 * (time.time() - JUDGE_SECONDS)
            for record in read_topic(settings, topic, run_id=RUN):
                if record.timestamp > due_ms:
                    break
                event = orjson.loads(record.value) if record.key and record.offset >= position else {}
                if event.get("type") == "trial_result" and "score" not in event:
                    publisher.publish(judged(event))
                position = max(position, record.offset + 1)


class _Stopped(Exception):
    """Ends the simulated harness, because the user has left."""


def run_benchmark(
    root: Path, fast: bool, settings: Settings, stop: threading.Event, say: Callable[[str], None]
) -> int:
    """Write, follow and judge the benchmark, replacing an earlier one; returns the unacknowledged events."""
    shutil.rmtree(root / RUN, ignore_errors=True)
    root.mkdir(parents=True, exist_ok=True)
    written, due = threading.Event(), time.monotonic()

    def sleep(seconds: float) -> None:
        nonlocal due
        due += seconds  # by the clock, to make up for time that this machine's other work takes
        if stop.wait(max(0.0, due - time.monotonic())):
            raise _Stopped

    with ThreadPoolExecutor(2) as threads:
        following = threads.submit(tail, settings, root, OPTIONS, written, say, lambda _: None)
        judging = threads.submit(judge, settings, following)
        try:
            with ThreadedPublisher(settings) as publisher:
                for line in BROKEN:
                    publisher.send(Outgoing(None, line))
            with suppress(_Stopped):
                write_benchmark(root / RUN, datetime.now(UTC), sleep, fast=fast)
        finally:
            written.set()
        judging.result()
    return following.result().pending


def stream(events: Sequence[Event], fast: bool, settings: Settings, stop: threading.Event, _: object) -> int:
    seconds, start = 0.0 if fast else VISIBLE_SECONDS, time.monotonic()
    with ThreadedPublisher(settings) as publisher:
        for number, event in enumerate(events, start=1):
            publisher.send(outgoing(event))
            if stop.wait(max(0.0, start + seconds * number / len(events) - time.monotonic())):
                break
    return 0


def _real_events(data: Path) -> list[Event]:
    report = ConvertReport()
    events = list(convert([data], ConvertOptions(), report))
    for line in lines_of(report):
        say(line)
    if not events:
        raise click.exceptions.Exit(FAILED)
    return events


# -----------------------------------------------------------------------------
# The display of the demo: the screens of `watch` on a terminal until `q`, elsewhere a line for each event.


COLUMNS, CRASHED = 100, EXCEPTIONS[CRASH]

LEAD_FROM = 5
"""Results of each agent before one counts as leading, because early trials change the lead too often."""


def moments(answers: RunAnswers, now: datetime) -> Iterator[tuple[str, str]]:
    """Notable moments of a run, each with its name and a line to print once."""
    run = answers.run
    done, scores = run.progress.done, run.coverage.get("impl_rate", 0)
    if run.in_flight:
        running = counted(run.in_flight, "trial runs", "trials run")
        yield "started", f"{running}, {of_planned(done, run.progress.planned)} are done"
    if CRASHED in run.failure_modes:
        yield "crashed", f"a trial crashed ({CRASHED}); harbor runs it again"
    if scores:
        yield "judged", f"the judge's first scores are in: {of_planned(scores, run.trials)} results have one"
    agents = [agent.model_dump(mode="json") for agent in answers.agents]
    if len(agents) < 2 or min(agent["trials"] for agent in agents) < LEAD_FROM:
        return
    leaders = sorted(agents, key=best_first(primary_of(run.model_dump(mode="json"))))[:2]
    first, second = (visible(agent["agent_model"]) for agent in leaders)
    rate, other = (agent["statistics"]["pass_rate"]["mean"] for agent in leaders)
    if rate > other:
        yield f"{first} leads", f"{first} leads: pass rate {percent(rate)}, and {second} {percent(other)}"
    words = outlook_of(run, answers.agents, answers.in_flight, answers.compared, now).first_two
    if words and not words[0].startswith(NOTHING):
        yield f"{first} and {second}", visible(words[0])


def print_moments(reader: StateReader, work: Future[int]) -> None:
    start, printed, over = time.monotonic(), set[str](), False
    while not over:
        over = work.done()
        with suppress(UnknownRun):
            answers = reader.answers(RUN, *OF_SNAPSHOT, *OF_COMPARISON)
            for name, line in moments(answers, datetime.now(UTC)):
                if name not in printed:
                    printed.add(name)
                    at = f"{time.monotonic() - start:3.0f} s  {line}"
                    for part in wrap(at, COLUMNS, subsequent_indent=" " * 7):
                        print_line(part)
        sys.stdout.flush()
        time.sleep(LOOK_SECONDS)


def open_page(address: str) -> None:
    """Open the page if a browser is visible to the user, and does not run in the terminal, as lynx does."""
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    is_mac = sys.platform == "darwin" and not os.environ.get("SSH_CONNECTION")
    if os.environ.get("CI") or not (display or is_mac):
        return
    with suppress(webbrowser.Error):
        if type(webbrowser.get()) is not webbrowser.GenericBrowser:
            command, none = [sys.executable, "-m", "webbrowser", address], subprocess.DEVNULL
            subprocess.run(command, check=False, stdin=none, stdout=none, stderr=none)  # noqa: S603 - ours


# -----------------------------------------------------------------------------
# `streamer demo`: everything at once, on this machine, in about a minute.


@contextmanager
def demo_stack() -> Iterator[tuple[Settings, str]]:
    """An embedded stack and page of the demo, deleted after the block.

    Other commands do not find it. The user's settings (STREAMER_* variables, streamer.toml) do not apply.
    """
    with tempfile.TemporaryDirectory(prefix="streamer-demo-") as folder:
        discovery, port = Path(folder) / "running.json", available_port()
        for name in [name for name in os.environ if name.startswith("STREAMER_")]:
            del os.environ[name]
        os.environ |= {"STREAMER_CONFIG": "", "STREAMER_DATA_DIR": folder}
        os.environ["STREAMER_DISCOVERY"] = str(discovery)
        options, log = ("--ephemeral", "--web-port", str(port)), Path(folder) / "up.log"
        with started_stack("The embedded stack", *options, ready=discovery.exists, log=log):
            yield Settings(), f"http://{DEFAULT_HOST}:{port}/"


@click.command()
@click.option("--data", type=click.Path(exists=True, path_type=Path), help="Stream real results instead.")
@click.option("--fast", is_flag=True, help="Stream at full speed.")
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open the page, on a terminal.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-out"),
    show_default=True,
    help="Directory for the simulated run, the events and the final summaries.",
)
@with_local_settings
def demo_command(data: Path | None, fast: bool, browser: bool, out: Path, settings: Settings) -> None:
    """Start broker, Redis, worker and page, follow a simulated benchmark for a minute, verify, stop.

    A simulated harness writes a run directory, `streamer tail` follows it, and a judge scores the trials. On
    a terminal the boards stay until you press `q`. The stack is the demo's own and ends with it; a running
    one is not touched, and the settings of your own servers are not used.
    """
    events, root = _real_events(data) if data else [], out / "simulated"
    out.mkdir(parents=True, exist_ok=True)
    print_line("Starting broker, Redis, worker and page (some seconds) ...")
    sys.stdout.flush()
    with demo_stack() as (stack, page), StateReader(stack) as reader:
        streams = f"Streaming {counted(len(events), 'event')}"
        print_line(f"{streams if data else f'A simulated harbor writes {root / RUN}'}. Page: {page}")
        sys.stdout.flush()
        work = partial(stream, events, fast) if data else partial(run_benchmark, root, fast)
        _publish(work, stack, reader, page, None if data else RUN, browser)
        verdicts = verdicts_of(stack, None, wait_seconds=30.0)
        runs = [
            reader.answers(run.run_id, *OF_SNAPSHOT, *OF_COMPARISON)
            for run in sorted(reader.runs(), key=lambda run: run.run_id)
        ]
        _print_board(runs)
        _print_rejections(stack)
        records = read_topic(stack, Names(stack.namespace).trial_events)
        sent = [record.value or b"" for record in sorted(records, key=lambda record: record.timestamp)]
    print_line("Verified: the event topic, folded again, against Redis")
    for verdict in verdicts:
        print_verdict(verdict)
    _write_results(out, sent, list(_summaries(runs)))
    raise click.exceptions.Exit(exit_code(verdicts))


def _publish(
    work: Callable[..., int], stack: Settings, reader: StateReader, page: str, run: str | None, browser: bool
) -> None:
    """Publish in a thread, and show the boards until the user presses `q`; without a terminal,
    until the end.
    """
    stop, messages, address = threading.Event(), Messages(), f"{page}#/run/{run}" if run else page
    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(work, stack, stop, messages.say)

        def line() -> str:
            over = "The benchmark is over. q ends the demo"
            return f"{over} · {address}" if working.done() else f"In a browser: {address} · q ends the demo"

        try:
            if on_terminal():
                if browser:
                    threading.Thread(target=open_page, args=(address,), daemon=True).start()
                show_screens(stack, lambda: _failed(working), messages, opens=lambda: run, line=line)
            elif run:
                print_moments(reader, working)
            else:
                print_lines(reader, working.done)
        finally:
            stop.set()
    if pending := working.result():
        events = counted(pending, "event")
        say(f"streamer: the demo's broker has not acknowledged {events}: the numbers lack them")
        raise click.exceptions.Exit(FAILED)


def _failed(work: Future[int]) -> bool:
    return work.done() and work.exception() is not None


def _summaries(runs: Iterable[RunAnswers]) -> Iterator[dict[str, Any]]:
    for run in runs:
        for summary in (run.run, *run.agents, *run.tiers, *filter(None, [run.comparison])):
            yield summary.model_dump(mode="json")


def _print_board(runs: Sequence[RunAnswers]) -> None:
    rows = [run.run.model_dump(mode="json") for run in runs]
    if len(runs) == 1:
        agents = [agent.model_dump(mode="json") for agent in runs[0].agents]
        for line in board_lines(agents_table(agents, rows[0], places_of(runs[0].comparison)), COLUMNS):
            print_line(line)
    else:
        print_board(runs_table(rows, datetime.now(UTC)))


def _print_rejections(settings: Settings) -> None:
    topic = Names(settings.namespace).trial_rejections
    codes = Counter(orjson.loads(record.value)["code"] for record in read_topic(settings, topic))
    if codes:
        kinds = ", ".join(f"{count} {code}" for code, count in sorted(codes.items()))
        print_line(f"Rejected for not fitting the schema: {counted(codes.total(), 'event')} ({kinds})")


def _write_results(out: Path, lines: Sequence[bytes], summaries: Sequence[Mapping[str, Any]]) -> None:
    events, results = out / "events.ndjson", out / "summaries.json"
    events.write_bytes(b"".join(line + b"\n" for line in lines))
    results.write_bytes(canonical_json(summaries) + b"\n")
    many = counted(len(lines), "event"), counted(len(summaries), *SUMMARIES)
    print_line(f"Written: {events} ({many[0]}), {results} ({many[1]})")
    print_line(f"Next: streamer up (in another terminal), then streamer publish {events}")
