"""What the answers share: a history is read once for all who ask together, and prices come from a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from streamer.folding.score.prices import PriceTable
from streamer.settings import Settings
from streamer.web.api import MAX_HISTORIES, Web
from tests.support.events import a_trial
from tests.web.feeding import Feed

PRICES = '[models."gpt-5"]\ninput = 100\noutput = 200\n'


async def test_a_history_is_read_once_for_all_who_ask_together(feed: Feed, settings: Settings) -> None:
    await feed.take([a_trial()])
    web = Web(settings)
    first, second = await asyncio.gather(web.history("run-1"), web.history("run-1"))
    assert first is second
    assert {entry.kind for entry in first} == {"run", "agent_model"}
    await web.reader.close()


async def test_a_limited_number_of_histories_is_kept_the_latest(feed: Feed, settings: Settings) -> None:
    names = [f"r{number}" for number in range(MAX_HISTORIES + 1)]
    await feed.take([a_trial(run_id=name) for name in names])
    web = Web(settings)
    for name in names:
        await web.history(name)
    assert list(web._histories) == names[1:]
    await web.reader.close()


async def test_prices_are_those_of_the_file(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(PRICES)
    with_file = Web(settings.model_copy(update={"prices_file": file}))
    assert with_file.prices.digest() == PriceTable.from_toml(PRICES).digest()
    await with_file.reader.close()
