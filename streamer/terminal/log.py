"""`streamer subscribe`: follow what is published, as it is published."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

import click
import orjson

from streamer.client.feeds import FEEDS, Feed, Update, subscribe
from streamer.schemas.wire import Reason, canonical_json, decode, may_name
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.terminal import FOUND_WRONG, print_json, print_line, say
from streamer.terminal.options import json_option, with_settings
from streamer.text import counted, dollars, shown

# -----------------------------------------------------------------------------
# `streamer subscribe`: follow what is published, as it is published.


MessageFields = dict[str, Any]


@click.command()
@click.argument("feed", metavar="FEED", type=click.Choice(list(FEEDS)))
@click.option("--from-beginning", is_flag=True, help="Start with everything that the topic holds.")
@click.option("--run", "run_id", metavar="RUN", help="Only what is about this run.")
@click.option("--limit", type=click.IntRange(min=1), help="End after so many.")
@json_option
@with_settings
def subscribe_command(
    feed: Feed, from_beginning: bool, run_id: str | None, limit: int | None, as_json: bool, settings: Settings
) -> None:
    """Follow a topic until Ctrl-C. FEED is agent-model, tier, run, comparison, grades, rejections or trials.

    With --json, each message is printed as it was published; a deleted one as an object with
    `"deleted": true` and its `key`. A message older than the one shown for the same key is left out.
    """
    show = _show_json if as_json else _show_line
    asyncio.run(_follow(settings, feed, from_beginning, run_id, limit, show))


async def _follow(
    settings: Settings,
    feed: Feed,
    from_beginning: bool,
    run_id: str | None,
    limit: int | None,
    show: Callable[[str, Update], None],
) -> None:
    shown_so_far = 0
    updates = subscribe(feed, settings, run_id=run_id, from_beginning=from_beginning, on_ready=_say_ready)
    async with aclosing(updates) as following:  # type: ignore[type-var]
        async for update in following:
            show(feed, update)
            sys.stdout.flush()
            shown_so_far += 1
            if shown_so_far == limit:
                return


def _say_ready() -> None:
    say("following; Ctrl-C ends it")


def _show_json(feed: str, update: Update) -> None:
    print_json(canonical_json(_deleted(feed, update)) if update.value is None else update.value)


def _deleted(feed: str, update: Update) -> MessageFields:
    return {"deleted": True, "feed": feed, "key": update.key, "run_id": update.run_id}


def _show_line(feed: str, update: Update) -> None:
    at = datetime.fromtimestamp(update.timestamp_ms / 1000, UTC).strftime("%H:%M:%S")
    if update.value is None:
        print_line(f"{at} {update.key} deleted")
    elif update.message is None:
        print_line(f"{at} {update.key} {update.value[:200]!r}: not a message of ours")
    else:
        print_line(f"{at} {_LINES[feed](update.message)}")


def _group(message: MessageFields) -> str:
    from streamer.views.columns import accuracy, grade_with_basis

    who = " ".join(str(part) for part in (message.get("tier"), message["agent_model"]) if part)
    done, planned = message["trials"], message["runs_planned"]
    trials = counted(done, "trial") if planned is None else f"{done:,} of {counted(planned, 'trial')}"
    return (
        f"{message['run_id']} {who}: {trials}, "
        f"accuracy {accuracy(message)}, grade {grade_with_basis(message)}, "
        f"cost {dollars(message['total_cost'])}"
    )


def _run(message: MessageFields) -> str:
    from streamer.views.columns import accuracy, accuracy_name
    from streamer.views.tables import progress

    return (
        f"{message['run_id']}: {message['resolved']:,} of {counted(message['trials'], 'trial')} resolved, "
        f"{accuracy_name(message)} {accuracy(message)}, cost {dollars(message['total_cost'])}, "
        f"{progress(message)}"
    )


def _comparison(message: MessageFields) -> str:
    from streamer.schemas.summaries import RunComparison  # the other feeds start without what this loads
    from streamer.views.compare import MISSING
    from streamer.views.outlook import places_of

    comparison = RunComparison.model_validate(message)
    places = ", ".join(f"{label} {place}" for label, place in places_of(comparison).items())
    missing = comparison.rank_missing
    where = f"no ranks: {MISSING[missing]}" if missing else f"places {places}"
    return f"{comparison.run_id}: {counted(comparison.agents_total, 'agent')} compared, {where}"


def _news(message: MessageFields) -> str:
    from streamer.views.columns import grade_with_basis

    if message["type"] == "rescored":
        trial, before, after = message["trial"], _flat(message["before"]), _flat(message["after"])
        moved = [name for name in after if before.get(name) != after[name]]
        changes = ", ".join(f"{name} {shown(before.get(name))} -> {shown(after[name])}" for name in moved)
        return f"{message['run_id']} {_place(trial)}: scored again, {changes or 'nothing moved'}"
    who = " ".join(part for part in (message["tier"], message["agent_model"]) if part)
    return (
        f"{message['run_id']} {who}: grade {shown(message['from_grade'])} -> "
        f"{grade_with_basis(message | {'grade': message['to_grade']})}"
    )


def _flat(scored: MessageFields) -> MessageFields:
    """The single numbers of a score, FormulaCode's among them; a list has no place on a line."""
    single = {name: value for name, value in scored.items() if not isinstance(value, dict | list)}
    return single | (_flat(scored["formulacode"]) if scored.get("formulacode") else {})


def _trial(message: MessageFields) -> str:
    verdict = {True: "resolved", False: "not resolved", None: "no verdict"}[message["resolved"]]
    derived = " (derived)" if message["verdict_source"] == "derived" else ""
    composite = message["composite_score"]
    judged = "" if composite is None else f"composite {shown(composite)}, grade {message['grade']}, "
    return (
        f"{message['run_id']} {_place(message)}: {verdict}{derived}, {judged}"
        f"cost {dollars(message['cost_usd'])}"
    )


def _place(trial: MessageFields) -> str:
    where = [trial["shard"], trial["tier"], trial["subtest"], trial["task_id"]]
    label = f"{trial['agent']}:{trial['model']}"
    return f"{' '.join(str(part) for part in where if part)} attempt {trial['attempt']} of {label}"


def _rejection(message: MessageFields) -> str:
    where = f"{message['source_topic']}/{message['source_partition']}@{message['source_offset']}"
    return f"{where} {message['code']}: {message['message']}"


_LINES: dict[str, Callable[[MessageFields], str]] = {
    "agent-model": _group,
    "tier": _group,
    "run": _run,
    "comparison": _comparison,
    "grades": _news,
    "rejections": _rejection,
    "trials": _trial,
}


# -----------------------------------------------------------------------------
# `streamer events`: what the log holds of a run.


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

    from streamer.storage.log import read_topic

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
