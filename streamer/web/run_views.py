"""Answers about one run that are worked out when somebody asks: curves, outlook, breakdown by a label."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from streamer.aggregate.by_label import by_label
from streamer.client.breakdowns import labelled
from streamer.client.folded_run import FoldedRun
from streamer.views.outlook import Outlook, outlook_of
from streamer.web.folded import answer_as_of
from streamer.web.models import AsOfQuery, LabelGroup, OutlookQuery
from streamer.web.resources import Web
from streamer.web.run_curves import RunCurves, run_curves


async def curves_of(web: Web, query: AsOfQuery, run: str) -> RunCurves:
    """The learning curves of a run."""
    if query.as_of is not None:
        return await answer_as_of(web, "curves", run, query.as_of, _curves)
    summary = await web.reader.run(run)
    return await web.curves.curves(run, (summary.epoch, summary.state_version))


async def outlook(web: Web, query: OutlookQuery, run: str) -> Outlook:
    """What a run still has before it."""
    if query.as_of is not None:
        question = "outlook", query.budget
        return await answer_as_of(web, question, run, query.as_of, partial(_outlook, query.budget))
    found = await web.reader.snapshot(run)
    compared = await web.reader.comparison(run)
    return outlook_of(found.run, found.agents, found.in_flight, compared, datetime.now(UTC), query.budget)


async def labels(web: Web, query: AsOfQuery, run: str, label: str) -> list[LabelGroup]:
    """A run broken down by a label."""
    if query.as_of is not None:
        groups = await answer_as_of(
            web, ("labels", label), run, query.as_of, lambda found: by_label(found.run.state, label)
        )
    else:
        question = "labels", run, (await web.reader.run(run)).state_version, label
        groups = await web.folds.answer(question, partial(labelled, web.settings, run, label, web.prices))
    return [LabelGroup.model_validate(group) for group in groups]


def _curves(found: FoldedRun) -> RunCurves:
    return run_curves(found.run.state, found.snapshot().run.state_version)


def _outlook(budget: float | None, found: FoldedRun) -> Outlook:
    at, now = found.snapshot(), found.log.moment or datetime.now(UTC)
    return outlook_of(at.run, at.agents, at.in_flight, found.comparison(), now, budget)
