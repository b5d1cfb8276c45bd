"""`streamer verify`: fold the log again, compare with Redis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import click

from streamer.cli.errors import FOUND_WRONG, UNVERIFIABLE, explain
from streamer.cli.options import json_option, wait_option, with_settings
from streamer.cli.price_tables import price_table
from streamer.cli.printing import UNSEEN, print_json, print_line, print_table, say
from streamer.client.results import ReaderError
from streamer.kafka.errors import KafkaError, TopicMissing, TopicUnreadable
from streamer.ops.differences import Mismatch
from streamer.ops.verify import Verdict, Verification
from streamer.redis.errors import RedisError
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import canonical_json
from streamer.settings import Settings
from streamer.text import counted

DIGEST_CHARACTERS = 12
"""Enough to see that two differ; --json has all 64."""

CANNOT = (KafkaError, RedisError, ReaderError, TopicMissing, TopicUnreadable, TimeoutError)
"""What can keep the log or Redis from being read."""

SUMMARIES = "summary", "summaries"


@click.command()
@click.argument("run", required=False)
@click.option("--all", "every", is_flag=True, help="Verify every run in the log or in Redis.")
@click.option(
    "--topics",
    is_flag=True,
    help="Compare the topics too: summaries, byte by byte with Redis, and trials.",
)
@wait_option(10.0, "How long to wait for results that are in flight.")
@json_option
@with_settings
def verify_command(
    run: str | None, every: bool, topics: bool, wait: float, as_json: bool, settings: Settings
) -> None:
    """Fold the event topic again and compare each digest of RUN with what Redis holds.

    Exit codes: 0 equal, 1 something differs, 3 cannot be verified. The last means: the log is truncated, the
    broker or Redis is away or empty, the log does not know the run, or results are still in flight.
    """
    if (run is None) != every:
        raise click.UsageError("name one RUN, or give --all")
    verdicts = verdicts_of(settings, run, wait, topics=topics)
    if verdicts and not as_json:
        print_line(f"Compared by semantics_version {SEMANTICS_VERSION}.")
    for verdict in verdicts:
        if as_json:
            print_json(canonical_json(asdict(verdict)))
        else:
            print_verdict(verdict)
    if not verdicts:
        say("streamer: cannot be verified: the log and Redis hold no runs")
    raise click.exceptions.Exit(exit_code(verdicts))


def verdicts_of(
    settings: Settings, run: str | None, wait_seconds: float, *, topics: bool = False
) -> list[Verdict]:
    """Verify; what cannot be read ends the command with code 3."""
    prices = price_table(settings.prices_file)
    try:
        verification = Verification(settings, prices=prices, wait_seconds=wait_seconds, topics=topics)
        return verification.verify(run)
    except CANNOT as error:
        say(f"streamer: cannot be verified: {explain(error, settings)}")
        raise click.exceptions.Exit(UNVERIFIABLE) from error


def print_verdict(verdict: Verdict) -> None:
    """One line, and a table of what differs."""
    match verdict.outcome:
        case "equal":
            held = (
                counted(verdict.summaries, *SUMMARIES)
                if verdict.summaries
                else "deleted, and gone from Redis"
            )
            print_line(f"{verdict.run_id}: equal, {held}")
        case "differs":
            differences = counted(len(verdict.differences), "difference")
            print_line(f"{verdict.run_id}: {differences}, {counted(verdict.summaries, *SUMMARIES)} compared")
        case "unverifiable":
            print_line(f"{verdict.run_id}: cannot be verified: {verdict.reason}")
    columns = ("where", "key", "log", "found", "fields")
    for reason in dict.fromkeys(difference.reason for difference in verdict.differences):
        if reason:
            print_line(f"{verdict.run_id}: {reason}")
    print_table(
        "Differences",
        columns,
        (_difference_row(difference) for difference in verdict.differences),
        left=range(5),
    )


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """1 if any run differs, else 3 if any cannot be verified, else 0; 3 for no runs."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if "differs" in outcomes:
        return FOUND_WRONG
    return 0 if outcomes == {"equal"} else UNVERIFIABLE


def _difference_row(difference: Mismatch) -> list[str]:
    log, found = (_short(digest) for digest in (difference.log, difference.found))
    where = difference.topic or "Redis"
    return [where, difference.key, log, found, ", ".join(difference.fields) or UNSEEN]


def _short(digest: str | None) -> str:
    return "absent" if digest is None else digest[:DIGEST_CHARACTERS]
