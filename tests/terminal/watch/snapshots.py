"""The screens as text, of the same runs at one moment; run as `python -m tests.terminal.watch.snapshots`."""

from __future__ import annotations

import asyncio
import itertools
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from streamer.operate.local.broker import Broker
from streamer.schemas.wire import Reason, decode
from streamer.settings import Settings
from tests.support.servers import RedisServer
from tests.support.simulated import TIERED_RUN, simulate
from tests.terminal.watch.driving import LARGE, NOW, SMALL, Driver, reject, watching
from tests.web.feeding import PARTITIONS, Feed

FOLDER = Path(__file__).parent / "snapshots"
START = NOW - timedelta(hours=2, minutes=30)
SIZES = {"80x24": SMALL, "100x30": (100, 30), "200x50": LARGE}
WRONG = "Field 'cost_usd': Input should be greater than or equal to 0, got -1. " + "And so on. " * 12
STILL_SECONDS = 2.0
VIEWS = {"runs": None, "run": TIERED_RUN}


@asynccontextmanager
async def fed(settings: Settings) -> AsyncIterator[None]:
    lines = [line for line in simulate(seed=5, start=START) if not isinstance(decode(line), Reason)]
    broken = [line for line in simulate(seed=5, start=START) if isinstance(decode(line), Reason)]
    async with Feed(settings, log=True) as feed:
        await feed.take([line for line in lines if is_in_time(line, NOW)])
        minutes_ago = int(1000 * (NOW - timedelta(minutes=7)).timestamp())
        await reject(settings, *broken, at_ms=minutes_ago, message=WRONG)
        yield


async def picture(settings: Settings, view: str, size: str, expected: str | None = None) -> str:
    """What stands on the screen once it is as expected; None: a while after everything has come."""
    async with watching(settings, VIEWS[view], SIZES[size]) as driver:
        if expected is None:
            await driver.until(lambda: _is_there(driver, view), "everything is there")
            await asyncio.sleep(STILL_SECONDS)
        else:
            with suppress(AssertionError):  # whoever compares says more
                await driver.until(lambda: harmless(driver.text) == expected, "the screen is as it was")
        return harmless(driver.text)


def harmless(text: str) -> str:
    """Text without what is another one each time, in the same width."""
    text = re.sub(r"127\.0\.0\.1:\d{4,5}( · t[0-9a-f]{12})?", "HOST:PORT", text)
    return text.rstrip() + "\n"


def _is_there(driver: Driver, view: str) -> bool:
    if view == "runs":
        return "5 rejections" in driver.text and "2 runs" in driver.text and "worker" in driver.text
    whole = ("agents (3)", "tiers (7)", "outcome", "rejections (2)", "1 more", "type", "T6 ")
    return all(part in driver.text for part in whole)


def is_in_time(line: bytes, now: datetime) -> bool:
    event = decode(line)
    assert not isinstance(event, Reason)
    at: datetime | None = getattr(event, "finished_at", None)
    return event.type == "run_started" or (at is not None and at <= now)


async def renew(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, Broker() as broker:
        (server := RedisServer(Path(directory))).start()
        where = {"redis": server.url, "bootstrap": broker.bootstrap, "embedded": True}
        try:
            async with fed(settings := Settings.model_validate(where | {"partitions": PARTITIONS})):
                for view, size in itertools.product(VIEWS, SIZES):
                    file = folder / f"{view}-{size}.txt"
                    file.write_text(await picture(settings, view, size), "utf-8")
                    print(file)
        finally:
            server.stop()


if __name__ == "__main__":
    asyncio.run(renew(FOLDER))
