"""Follows runs, decides which notices to send, and has them sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime

from streamer.client.async_reader import AsyncStateReader
from streamer.client.change_feed import StateUpdate
from streamer.client.feeds import subscribe
from streamer.client.results import UnknownRun
from streamer.notifications.decide import TOLD, Decider, Rules
from streamer.notifications.memory import Memory
from streamer.notifications.notification import Json, Notification
from streamer.notifications.rejections import KEY, RejectionRate
from streamer.notifications.send import Service, watch_name
from streamer.settings import Settings

TICK_SECONDS = 1.0
RESUME_SECONDS = 5.0
CLOSE_SECONDS = 10.0
"""So long an ending watch waits for services to take what is on its way."""


def now() -> datetime:
    """Wall clock."""
    return datetime.now(UTC)


class Watch:
    """One watch of some runs or all, for some notification services.

    Args:
        settings: where Redis is, and for rejections the broker.
        urls: of the services; never said.
        rules: what is worth a notice.
        say: called with each error, a line each, from any thread.
        wanted: which runs; by default all.

    Raises:
        NotifyMissing, BadNotifyUrl: see `Service`.
    """

    def __init__(
        self,
        settings: Settings,
        urls: Sequence[str],
        rules: Rules,
        say: Callable[[str], None],
        wanted: Callable[[str], bool] = lambda run_id: True,
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._say = say
        self._wanted = wanted
        self._services = [Service(url, number, say) for number, url in enumerate(urls, start=1)]
        self._decider = Decider(rules)
        self._memory = Memory(settings, watch_name(urls), say)
        self._initial: frozenset[str] = frozenset()
        self._left: dict[tuple[str, str], int] = {}
        self._writing: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until stopped; then notices on their way get some seconds.

        Raises:
            RedisUnavailable: Redis does not answer at the beginning; later outages are sat out.
            UnreadableSummary: a newer version of streamer wrote what stands there.
        """
        work = [self._follow_state(), self._tick()]
        if self._rules.rejections_per_minute is not None:
            work.append(self._follow_rejections(self._rules.rejections_per_minute))
        tasks = [asyncio.create_task(one) for one in (*work, stop.wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._close()

    async def _follow_state(self) -> None:
        async with AsyncStateReader(self._settings) as reader:
            self._initial = frozenset(run.run_id for run in await reader.runs())
            async with aclosing(reader.updates()) as updates:  # type: ignore[type-var]
                async for update in updates:
                    if self._wanted(update.run_id):
                        await self._take(reader, update)

    async def _take(self, reader: AsyncStateReader, update: StateUpdate) -> None:
        run_id, summary = update.run_id, update.summary
        if summary is None:
            if update.kind == "run":
                self._decider.forget(run_id)
                self._initial -= {run_id}  # if it comes again it is new
            elif update.kind == "agent_model":
                self._decider.forget_agent(run_id, update.group)
            return
        if not self._decider.knows(run_id):
            remembered = await self._memory.load(run_id)
            self._decider.begin(run_id, remembered, new=run_id not in self._initial)
        found = summary.model_dump(mode="json")
        agents: list[Json] = []
        if found.get("status") is not None:
            try:
                agents = [agent.model_dump(mode="json") for agent in await reader.agents(run_id)]
            except UnknownRun:  # deleted just now
                return
        await self._tell(run_id, self._decider.take(found, now(), agents))

    async def _tick(self) -> None:
        while True:
            for notice in self._decider.tick(now()):
                await self._tell(notice.run_id, [notice])
            await asyncio.sleep(TICK_SECONDS)

    async def _follow_rejections(self, per_minute: float) -> None:
        told = (await self._memory.load("")).get(KEY)
        rate = RejectionRate(per_minute, datetime.fromisoformat(told) if told else None)
        failing = False
        while True:
            try:
                async with aclosing(subscribe("rejections", self._settings)) as updates:  # type: ignore[type-var]
                    async for update in updates:
                        failing = False
                        await self._rejected(rate, update.message or {})
            except Exception as error:  # a broker that is away must not end the rest of the watch
                if not failing:
                    self._say(f"rejections cannot be followed ({error}); trying again")
                failing = True
            await asyncio.sleep(RESUME_SECONDS)

    async def _rejected(self, rate: RejectionRate, message: Json) -> None:
        run_id = message.get("run_id")
        if run_id is None or self._wanted(run_id):
            notice = rate.take(str(message.get("code")), run_id, now())
            if notice:
                await self._memory.save("", {KEY: now().isoformat()})
                self._send(notice)

    async def _tell(self, run_id: str, notices: Sequence[Notification]) -> None:
        """Write down the changes, then send those that no other watch has claimed."""
        await self._memory.save(run_id, self._decider.changed(run_id))
        for notice in notices:
            if notice.again or await self._memory.claim(run_id, notice.key):
                self._send(notice)

    def _send(self, notice: Notification) -> None:
        loop = asyncio.get_running_loop()
        self._left[notice.run_id, notice.key] = len(self._services)

        def done() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._arrived, notice)

        for service in self._services:
            service.send(notice, done)

    def _arrived(self, notice: Notification) -> None:
        """One service has taken it or given it up; after the last one the notice counts as sent."""
        place = (notice.run_id, notice.key)
        self._left[place] -= 1
        if self._left[place] or not notice.run_id:
            return
        del self._left[place]
        self._decider.delivered(notice)
        task = asyncio.create_task(self._memory.save(notice.run_id, {notice.key: TOLD}))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _close(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(service.close, CLOSE_SECONDS) for service in self._services))
        await asyncio.sleep(0)  # what arrived last is noted
        await asyncio.gather(*self._writing)
        await self._memory.close()
