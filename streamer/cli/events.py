"""`streamer events`: what the log holds of a run."""

from __future__ import annotations

from difflib import get_close_matches

import click
import orjson

from streamer.cli.errors import FOUND_WRONG
from streamer.cli.options import with_settings
from streamer.cli.printing import print_json, say
from streamer.kafka.log import read_topic
from streamer.kafka.names import Names
from streamer.records import may_name
from streamer.schemas.decode import Reason, decode
from streamer.settings import Settings
from streamer.text import counted

_SUGGESTED = 5


@click.command()
@click.argument("run")
@click.option("--json", is_flag=True, expose_value=False, help="What is printed anyway; for symmetry.")
@with_settings
def events_command(run: str, settings: Settings) -> None:
    """Print the events of RUN from the log, one JSON object per line, as they were received.

    Everything up to the present end of the log is printed, corrections, duplicates and retractions included.
    The order is the order of arrival, within each partition where producers have spread a run over several.
    The order does not matter for what they add up to. Records that were rejected are left out and counted. So
    a finished run is priced again by

        streamer events RUN | streamer fold - --prices FILE

    The exit code is 1 if the log holds no event of RUN.
    """
    printed = rejected = 0
    others: dict[str, None] = {}
    for record in read_topic(settings, Names(settings.namespace).trial_events):
        value: bytes = record.value or b""
        if not may_name(run, value):
            others[(record.key or b"").decode(errors="replace")] = None
        elif isinstance(event := decode(value), Reason):
            rejected += _names(run, value)
        elif event.run_id == run:
            print_json(_on_one_line(value))
            printed += 1
    say(f"{counted(printed, 'event')} of {run}; {counted(rejected, 'rejected record')} of it left out")
    if not printed:
        say(_unknown(run, [name for name in others if name]))
        raise click.exceptions.Exit(FOUND_WRONG)


def _names(run: str, rejected: bytes) -> bool:
    """Whether a record that is no event is meant for the run."""
    try:
        event = orjson.loads(rejected)
    except orjson.JSONDecodeError:
        return False
    return isinstance(event, dict) and event.get("run_id") == run


def _on_one_line(value: bytes) -> bytes:
    r"""The same JSON without line ends: outside of its texts they are but space, inside they are escaped.

    >>> _on_one_line(b'{\n"a": "b\\n"}\r\n')
    b'{ "a": "b\\n"}'
    """
    return value.strip().replace(b"\r", b" ").replace(b"\n", b" ")


def _unknown(run: str, others: list[str]) -> str:
    """The message for a run that the log does not hold; the others in the order of their first records."""
    found = f"the log holds no event of {run!r}"
    if close := get_close_matches(run, others, n=_SUGGESTED, cutoff=0.4):
        return f"{found}. Did you mean {', '.join(close)}?"
    if others:
        return f"{found}. The latest of {len(others)} runs in it: {', '.join(others[-_SUGGESTED:])}"
    return f"{found}, nor of any other run; publish some first"
