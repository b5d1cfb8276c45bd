"""Answers about one run that are worked out when somebody asks: curves, outlook, breakdown by a label."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from streamer.client.breakdowns import labelled
from streamer.views.outlook import Outlook, outlook_of
from streamer.web.models import LabelGroup, NoQuery, OutlookQuery
from streamer.web.resources import Web
from streamer.web.run_curves import RunCurves


async def curves_of(web: Web, query: NoQuery, run: str) -> RunCurves:
    """The learning curves of a run."""
    summary = await web.reader.run(run)
    return await web.curves.curves(run, (summary.epoch, summary.state_version))


async def outlook(web: Web, query: OutlookQuery, run: str) -> Outlook:
    """What a run still has before it."""
    found = await web.reader.snapshot(run)
    compared = await web.reader.comparison(run)
    return outlook_of(found.run, found.agents, found.in_flight, compared, datetime.now(UTC), query.budget)


async def labels(web: Web, query: NoQuery, run: str, label: str) -> list[LabelGroup]:
    """A run broken down by a label."""
    question = "labels", run, (await web.reader.run(run)).state_version, label
    groups = await web.folds.answer(question, partial(labelled, web.settings, run, label, web.prices))
    return [LabelGroup.model_validate(group) for group in groups]
