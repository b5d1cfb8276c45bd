"""Answers that fold the log of a run again: as of an earlier position, and what moved a number."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TypeVar

from streamer.client.folded_run import FoldedRun, fold_run
from streamer.client.moves import Question
from streamer.client.results import ComparedRun, RunSnapshot
from streamer.client.run_log import RunLog
from streamer.client.trials import NotInLog
from streamer.client.why import metric_of, why
from streamer.records import Position
from streamer.views.compare_sides import ComparedSide
from streamer.views.ordered_words import ordered_words
from streamer.views.why import MetricMoves
from streamer.web.models import WhyQuery
from streamer.web.resources import Web

T = TypeVar("T")


class LogTruncated(Exception):
    """The log of a run has lost its beginning, so it cannot be folded as of an earlier position."""

    def __init__(self, run_id: str, begins_at: int) -> None:
        super().__init__(
            f"The log of run {run_id!r} begins at offset {begins_at}, because earlier events were deleted. "
            "Events of the run may be among them: leave as_of out, or ask `streamer query --as-of`"
        )


async def snapshot_as_of(web: Web, run_id: str, as_of: str) -> tuple[RunSnapshot, datetime | None]:
    """The run as of a position, and the time of that; None: not known."""
    return await _folded(web, run_id, as_of, _snapshot)


async def comparison_as_of(web: Web, run_id: str, as_of: str) -> ComparedRun:
    """The agents of the run compared, as of a position."""
    return await _folded(web, run_id, as_of, FoldedRun.comparison)


async def moves_of(web: Web, run_id: str, query: WhyQuery) -> MetricMoves:
    """Which events of the run moved a number."""
    question = Question(metric_of(query.metric), query.agent, _position(query.since), query.limit)
    as_of = _position(query.as_of)
    version = (await web.reader.run(run_id)).state_version
    work = partial(why, web.settings, run_id, web.prices, question, as_of)
    return MetricMoves.of(await web.folds.answer(("why", run_id, version, query.model_dump_json()), work))


async def ordered_words_of(web: Web, a: ComparedSide, b: ComparedSide) -> list[str]:
    """What the order of their trials allows to say of agents of two runs; [] where a log is not whole."""
    sides = [(side.run.run.run_id, side.run.run.state_version, side.agent_model) for side in (a, b)]

    def folded() -> list[str]:
        try:
            one, other = (fold_run(web.settings, run_id, web.prices) for run_id, _, _ in sides)
        except NotInLog:
            return []
        if one.log.begins_at or other.log.begins_at:
            return []
        return ordered_words(one.run.state, other.run.state, a.agent_model, b.agent_model)

    return await web.folds.answer(("ordered", *sides), folded)


async def _folded(web: Web, run_id: str, as_of: str, answer: Callable[[FoldedRun], T]) -> T:
    position = Position.of(as_of)
    version = (await web.reader.run(run_id)).state_version

    def folded() -> T:
        if begins_at := RunLog(web.settings, run_id, position).begins_at:
            raise LogTruncated(run_id, begins_at)
        return answer(fold_run(web.settings, run_id, web.prices, position))

    return await web.folds.answer((answer, run_id, version, position), folded)


def _snapshot(found: FoldedRun) -> tuple[RunSnapshot, datetime | None]:
    return found.snapshot(), found.log.moment


def _position(text: str | None) -> Position | None:
    return None if text is None else Position.of(text)
