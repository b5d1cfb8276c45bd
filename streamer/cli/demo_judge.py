"""The demo's judge: it scores each result some seconds after its verdict, and publishes it again."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterable
from random import Random
from typing import Any

import orjson

from streamer.cli.demo_benchmark import SEED
from streamer.kafka.names import Names
from streamer.kafka.partitions import partitions_of
from streamer.kafka.reader import PartitionReader
from streamer.publish.trial_publisher import TrialPublisher
from streamer.settings import Settings

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
    found = []
    for value in values:
        try:
            event = orjson.loads(value)
        except orjson.JSONDecodeError:
            continue
        if event["type"] == "trial_result" and "revision" in event and "score" not in event:
            found.append(event)
    return found


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
