"""Curves, outlook and labels as of a position: of the events up to it, at the time of the last of them."""

from __future__ import annotations

from datetime import timedelta

from streamer.settings import Settings
from streamer.web.api import Web, curves_of, labels, outlook
from streamer.web.models import OutlookQuery
from tests.web.feeding import Feed
from tests.web.test_folded import ENDS, PORTIONS, lately


async def test_the_answers_are_of_the_events_up_to_the_position(logged: Settings) -> None:
    web, start = Web(logged), lately()
    async with Feed(logged, log=True, start=start) as feed:
        for portion in PORTIONS:
            await feed.take(portion)
        for minute, (end, trials) in enumerate(zip(ENDS, (2, 3, 4), strict=True)):
            query = OutlookQuery(as_of=str(end))
            assert (await outlook(web, query, "run-1")).at == start + timedelta(minutes=minute)
            curves = await curves_of(web, query, "run-1")
            lines = [curve.points[-1].trials for curve in curves.curves if curve.agent_model is not None]
            assert (curves.state_version, sum(lines)) == (end, trials)
            pooled = [one for one in await labels(web, query, "run-1", "team") if one.agent_model is None]
            assert sum(one.trials for one in pooled) == trials
    await web.reader.close()
