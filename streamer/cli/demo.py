"""`streamer demo`: everything at once, on this machine, in about a minute."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import orjson

from streamer.cli.board_lines import board_lines, print_board
from streamer.cli.boards import Messages
from streamer.cli.convert import lines_of
from streamer.cli.demo_benchmark import RUN
from streamer.cli.demo_harness import run_benchmark
from streamer.cli.demo_stack import DemoStack, demo_stack
from streamer.cli.demo_view import COLUMNS, show
from streamer.cli.errors import FOUND_WRONG
from streamer.cli.options import with_settings
from streamer.cli.printing import print_line, say
from streamer.cli.tables import print_run
from streamer.cli.verify import exit_code, verdicts_of
from streamer.cli.verify import print_verdict as show_verdict
from streamer.client.reader import StateReader
from streamer.kafka.log import read_topic
from streamer.kafka.names import Names
from streamer.ops.verify import Verdict
from streamer.publish.publisher import Outgoing, ThreadedPublisher
from streamer.schemas.canonical import canonical_json
from streamer.schemas.decode import Reason, decode
from streamer.settings import Settings
from streamer.sources.base import ConvertOptions
from streamer.sources.convert import convert
from streamer.sources.report import ConvertReport
from streamer.text import counted
from streamer.views.outlook import places_of
from streamer.views.tables import agents_table, leaders_table, runs_table

VISIBLE_SECONDS = 33.0
"""How long the events of real results take to stream, so that one can watch."""

IN_FLIGHT_SECONDS = 30.0
RUNS_IN_FULL = 3

Summary = dict[str, Any]


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
@with_settings
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
        raise click.exceptions.Exit(FOUND_WRONG)
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
            raise click.exceptions.Exit(FOUND_WRONG)


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
        found = reader.snapshot(run.run_id)
        for summary in (found.run, *found.agents, *found.tiers):
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
    found, compared = reader.snapshot(RUN), reader.comparison(RUN)
    places = places_of(compared.comparison)
    table = agents_table([agent.model_dump(mode="json") for agent in found.agents], places=places)
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
