"""The work of `streamer notify`: it follows runs and rejections, and sends each due notice once."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import queue
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from time import monotonic

from streamer.client.feeds import subscribe, until_one_ends
from streamer.client.folded import fold_states
from streamer.client.queries import OF_COMPARISON, OF_SNAPSHOT, UnknownRun
from streamer.client.readers import AsyncStateReader, StateUpdate
from streamer.folding.fold import CannotBeFolded
from streamer.folding.prices import price_table
from streamer.operate.notice_rules import TOLD, Decider, Json, Memory, Notification, Rules, named
from streamer.schemas.summaries import RunSummary, is_over
from streamer.settings import Settings
from streamer.storage.outbox import LoopThread
from streamer.views.decide.gate import possible_runs
from streamer.views.decide.ledger import NoSuchLedger, entries_of, ledger_of, runs_of
from streamer.views.decide.outlook import outlook_of

# -----------------------------------------------------------------------------
# Sends notices by apprise (the extra `notify`), without delaying anything else.
#
# URLs contain secrets and are never shown: services are called by their number and kind, `notification
# service 2 (slack)`.


SEND_PAUSES_SECONDS = (1.0, 5.0, 25.0)
"""Pauses between attempts; after the last one a notice is dropped."""

MAX_WAITING = 1000


class NotifyMissing(Exception):
    def __init__(self) -> None:
        super().__init__(
            "notices need apprise, which the extra `notify` brings: pip install 'trialstream[notify]'"
        )


class BadNotifyUrl(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(
            f"apprise does not know notification URL {number} (not shown, because it may contain a "
            "secret). Use for example mailto://..., slack://... or json://HOST/PATH; apprise's "
            "documentation lists them"
        )


class Service:
    """One notification service, with its own thread; its `url` is never shown. Raises BadNotifyUrl."""

    def __init__(
        self,
        url: str,
        number: int,
        say: Callable[[str], None],
        retry_seconds: Sequence[float] = SEND_PAUSES_SECONDS,
    ) -> None:
        try:
            import apprise
        except ImportError:
            raise NotifyMissing from None
        logger = logging.getLogger("apprise")
        logger.propagate = False  # it writes URLs down
        logger.setLevel(logging.CRITICAL + 1)
        self._apprise = apprise.Apprise()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # what its plugins import is old
            added = self._apprise.add(url)
        if not added:
            raise BadNotifyUrl(number)
        kind = type(self._apprise[0]).__name__.removeprefix("Notify")
        self.name = f"notification service {number} ({kind})"
        self._text = apprise.NotifyFormat.TEXT
        self._say = say
        self._retry_seconds = retry_seconds
        self._waiting: queue.Queue[tuple[Notification, Callable[[], None]] | None] = queue.Queue(MAX_WAITING)
        self._closing = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def send(self, notice: Notification, done: Callable[[], None]) -> None:
        try:
            self._waiting.put_nowait((notice, done))
        except queue.Full:
            self._fail()
            done()

    def close(self, seconds: float) -> None:
        self._closing.set()
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(seconds)

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            notice, done = item
            if self._delivered(notice):
                if self._failing:
                    self._say(f"{self.name} gets notices again")
                self._failing = False
                done()
            elif not self._closing.is_set():
                self._fail()
                done()

    def _delivered(self, notice: Notification) -> bool:
        for pause in (*self._retry_seconds, None):
            try:
                if self._apprise.notify(title=notice.title, body=notice.body, body_format=self._text):
                    return True
            except Exception as error:  # a plugin's mistake must not end the thread
                if not self._failing:
                    self._say(f"{self.name} failed: {type(error).__name__}")
            if pause is None or self._closing.wait(pause):
                return False
        return False

    def _fail(self) -> None:
        if not self._failing:
            self._failing = True
            self._say(f"{self.name} does not accept notices; it will miss these. Check its URL")


def watch_name(urls: Sequence[str]) -> str:
    """The name of a watch, which keeps its memory apart from others'. It does not reveal the URLs.

    >>> watch_name(["json://a", "json://b"]) == watch_name(["json://b", "json://a"]) != watch_name(["json://a"])
    True
    """
    return hashlib.sha256("\n".join(sorted(urls)).encode()).hexdigest()[:12]


# -----------------------------------------------------------------------------
# Rejections within a minute: one notice if there are too many, until the rate drops. Pure.


WINDOW = timedelta(minutes=1)
QUIET = timedelta(hours=1)
"""The least time between two notices of rejections."""

KEY = "rejections"
MAX_CODES = 5


class RejectionRate:
    """A counter of rejections, with a notice above `per_minute`; the last one was sent at `told_at`.

    Times far in the future, from before the clock was set back, do not count.
    """

    def __init__(self, per_minute: float, told_at: datetime | None = None) -> None:
        self._limit = per_minute
        self.told_at = told_at
        self._seen: deque[tuple[datetime, str, str | None]] = deque(maxlen=int(per_minute) + 1)

    def take(self, code: str, run_id: str | None, now: datetime) -> Notification | None:
        self._seen.append((now, code, run_id))
        while abs(now - self._seen[0][0]) >= WINDOW:
            self._seen.popleft()
        if len(self._seen) <= self._limit or (self.told_at is not None and abs(now - self.told_at) < QUIET):
            return None
        self.told_at = now
        codes = Counter(code for _, code, _ in self._seen).most_common(MAX_CODES)
        runs = sorted({run_id for _, _, run_id in self._seen if run_id is not None})
        lines = [", ".join(f"{named(code)} {count}" for code, count in codes)]
        if runs:
            lines.append(f"Runs: {', '.join(map(named, runs[:MAX_CODES]))}")
        lines.append("'streamer rejections list' shows them, 'streamer rejections requeue' sends them again")
        title = f"more than {self._limit:g} records rejected within a minute"
        return Notification("", KEY, title, "\n".join(lines))


# -----------------------------------------------------------------------------
# Follows runs, decides which notices to send, and has them sent.


TICK_SECONDS = 1.0
RESUME_SECONDS = 5.0
LOOK_SECONDS = 5.0

LEDGER_SHARE = 9.0
"""The pause after a check of ledgers, in multiples of its duration."""

CLOSE_SECONDS = 10.0


def now() -> datetime:
    return datetime.now(UTC)


class Watch:
    """One watch of chosen runs; its `urls` are never shown, and `say` gets each error from any thread."""

    def __init__(
        self,
        settings: Settings,
        urls: Sequence[str],
        rules: Rules,
        say: Callable[[str], None],
        chosen: Callable[[str], bool] = lambda run_id: True,
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._say = say
        self._chosen = chosen
        self._services = [Service(url, number, say) for number, url in enumerate(urls, start=1)]
        self._decider = Decider(rules)
        self._memory = Memory(settings, watch_name(urls), say)
        self._initial: frozenset[str] = frozenset()
        self._left: dict[tuple[str, str], int] = {}
        self._writing: set[asyncio.Task[None]] = set()
        self._moved: set[str] = set()
        self._going: set[str] = set()
        self._ledgers: dict[str, set[str]] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until stopped; pending notices then get a few more seconds.

        Raises RedisUnavailable at the beginning (later outages are waited out), and UnreadableSummary.
        """
        work = [self._follow_state(), self._tick(), self._look_ahead()]
        if self._rules.rejections_per_minute is not None:
            work.append(self._follow_rejections(self._rules.rejections_per_minute))
        try:
            await until_one_ends(*work, stop.wait())
        finally:
            await self._close()

    async def _follow_state(self) -> None:
        async with AsyncStateReader(self._settings) as reader:
            self._initial = frozenset(run.run_id for run in await reader.runs())
            async with aclosing(reader.updates()) as updates:  # type: ignore[type-var]
                async for update in updates:
                    if self._chosen(update.run_id):
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
        fields = summary.model_dump(mode="json")
        self._hear(run_id, summary)
        agents: list[Json] = []
        if fields.get("status") is not None:
            try:
                agents = [agent.model_dump(mode="json") for agent in await reader.agents(run_id)]
            except UnknownRun:  # deleted just now
                return
        await self._tell(run_id, self._decider.take(fields, now(), agents))

    def _hear(self, run_id: str, summary: object) -> None:
        self._moved.add(run_id)
        if isinstance(summary, RunSummary):
            (self._going.discard if is_over(summary) else self._going.add)(run_id)
            if entry := summary.ledger:
                for member in (run_id, *possible_runs(entry.baseline)):
                    self._ledgers.setdefault(member, set()).add(entry.name)

    async def _look_ahead(self) -> None:
        """Check estimates and ledgers. A ledger reads the log, so a long one is checked less often."""
        failing, ledgers_at, due, broken = False, 0.0, set[str](), set[str]()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            moved, self._moved = self._moved, set()
            due |= {name for run_id in moved for name in self._ledgers.get(run_id, ())}
            try:
                async with AsyncStateReader(self._settings) as reader:
                    for run_id in moved & self._going:
                        await self._estimate(reader, run_id)
                    began = monotonic()
                    if due and began >= ledgers_at:
                        entries = entries_of(await reader.runs())
                        for name in sorted(due):
                            try:
                                with suppress(NoSuchLedger):  # its last run was deleted meanwhile
                                    await self._judge(name, runs_of(name, entries))
                            except CannotBeFolded as error:
                                if name not in broken:
                                    self._say(f"ledger {name} is not watched: {error}")
                                broken.add(name)
                            due.discard(name)
                        ledgers_at = monotonic() + LEDGER_SHARE * (monotonic() - began)
                failing = False
            except Exception as error:  # a broker that is away must not end the rest of the watch
                self._moved |= moved
                if not failing:
                    self._say(f"ledgers and estimates cannot be read ({error}); trying again")
                failing = True

    async def _estimate(self, reader: AsyncStateReader, run_id: str) -> None:
        try:
            at = await reader.answers(run_id, *OF_SNAPSHOT, *OF_COMPARISON)
        except UnknownRun:  # deleted meanwhile
            return
        outlook = outlook_of(at.run, at.agents, at.in_flight, at.compared, at.moment)
        if outlook.decision is not None:
            await self._tell(run_id, self._decider.estimated(run_id, outlook.decision))

    async def _judge(self, name: str, run_ids: set[str]) -> None:
        prices = price_table(self._settings.prices_file)
        states, _ = await asyncio.to_thread(fold_states, self._settings, run_ids, prices)
        for notice in self._decider.judged(ledger_of(name, states)):
            await self._tell(notice.run_id, [notice])
        for run_id in run_ids:
            await self._memory.save(run_id, self._decider.changed(run_id))

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
        if run_id is None or self._chosen(run_id):
            notice = rate.take(str(message.get("code")), run_id, now())
            if notice:
                await self._memory.save("", {KEY: now().isoformat()})
                self._send(notice)

    async def _tell(self, run_id: str, notices: Sequence[Notification]) -> None:
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


# -----------------------------------------------------------------------------
# A watch beside something else in the same process.


@contextmanager
def watching(watch: Callable[[], Watch], say: Callable[[str], None]) -> Iterator[None]:
    """A context with a watch in its own thread. An error is passed to `say`, and ends only the watch."""
    stop = asyncio.Event()

    async def work() -> None:
        try:
            await watch().run(stop)
        except Exception as error:
            say(f"notices have stopped: {error}")

    thread = LoopThread("notices")
    working = thread.submit(work())
    try:
        yield
    finally:
        thread.loop.call_soon_threadsafe(stop.set)
        try:
            working.result(2 * CLOSE_SECONDS)
        except TimeoutError:
            working.cancel()
        thread.stop()
