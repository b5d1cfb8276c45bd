"""The application without a terminal: what stands on its screen, and its keys."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer
from textual.pilot import Pilot

from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.terminal.watch import Session, WatchApp
from streamer.worker.process import ensure_topics
from tests.support.events import a_plan, a_trial
from tests.support.eventually import eventually

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LOOK_SECONDS = 60.0
SMALL, LARGE = (80, 24), (200, 50)
AT = "2026-01-31T11:59:00Z"
PLAN = a_plan(tasks=3, attempts=1, agent_models=["terminus:gpt-5"])


class Driver:
    def __init__(self, app: WatchApp, pilot: Pilot[None]) -> None:
        self.app = app
        self._pilot = pilot

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def lines(self) -> list[str]:
        return [strip.text.rstrip() for strip in self.app.screen._compositor.render_strips()]

    def colors(self, word: str) -> set[str]:
        strips = self.app.screen._compositor.render_strips()
        segments = next((strip for strip in strips if word in strip.text), ())
        return {str(segment.style.color) for segment in segments if segment.style and segment.text.strip()}

    def line(self, start: str) -> str:
        return next((line for line in self.lines if line.strip().startswith(start)), "")

    def order(self, *words: str) -> list[str]:
        """Those of the words that are on the screen, from the top."""
        result = {word: self.text.find(word) for word in words}
        return sorted((word for word in words if result[word] >= 0), key=result.__getitem__)

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def resize(self, width: int, height: int) -> None:
        await self._pilot.resize_terminal(width, height)

    async def click(self, selector: str, x: int, y: int) -> None:
        await self._pilot.click(selector, offset=(x, y))

    async def shows(self, *parts: str) -> None:
        """Wait until all of this stands on the screen, broken into lines or not."""

        def shown() -> bool:
            text = self.text
            words = " ".join(text.split())
            return all(part in text or part in words for part in parts)

        await self.until(shown, f"the screen shows {parts}")

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            await eventually(condition, what, LOOK_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text}") from None


@asynccontextmanager
async def watching(
    settings: Settings,
    run_id: str | None = None,
    size: tuple[int, int] = SMALL,
    now: Callable[[], datetime] = lambda: NOW,
    session: Session | None = None,
    budget_usd: float | None = None,
) -> AsyncIterator[Driver]:
    app = WatchApp(settings, run_id, now, session, budget_usd)
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Driver(app, pilot)


def a_board() -> list[dict[str, Any]]:
    """Three agents: `cheap` passes least and costs least, `best` the opposite; and a baseline."""
    events = [a_plan(tasks=4, attempts=1, agent_models=["best:m", "cheap:m", "mid:m", "nop:nop"])]
    for agent, passes, cost in (("best", 3, 3.0), ("mid", 2, 1.0), ("cheap", 1, 0.1)):
        given = {"agent": agent, "model": "m", "cost_usd": cost, "finished_at": AT}
        events += [a_trial(task_id=f"t{n}", resolved=n < passes, **given) for n in range(3)]
    return [*events, a_trial(task_id="t0", agent="nop", model="nop", resolved=False, finished_at=AT)]


NOT_JSON = b"not JSON \x1b[31m"
WRONG = b'{"type":"trial_result","run_id":"run-1","task_id":"task-1","resolved":"yes"}'


async def reject(settings: Settings, *lines: bytes, at_ms: int = 0, message: str | None = None) -> None:
    """What a worker does with lines that are no events; `message`: what it says of each."""
    await ensure_topics(settings)
    folded = Pipeline().fold([Record(line, offset) for offset, line in enumerate(lines)])
    assert len(folded.rejections) == len(lines)
    topic, at = Names(settings.namespace).trial_rejections, at_ms or int(time.time() * 1000)
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        for rejected in folded.rejections:
            said = {} if message is None else {"message": message}
            value = orjson.dumps(orjson.loads(rejected.value) | said)
            await producer.send_and_wait(topic, value, key=rejected.key, partition=0, timestamp_ms=at)
