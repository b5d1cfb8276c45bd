"""Answers that fold the log of a run again: as of an earlier position, and what moved a number."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime
from functools import partial
from typing import TypeVar

from streamer.client.folded_run import FoldedRun, fold_run
from streamer.client.moves import Question
from streamer.client.results import ComparedRun
from streamer.client.results import RunSnapshot as StoredSnapshot
from streamer.client.run_log import RunLog
from streamer.client.trials import NotInLog
from streamer.client.why import metric_of, why
from streamer.fold import CannotBeFolded
from streamer.kafka.errors import TopicAuthorizationFailedError, TopicMissing
from streamer.records import Position
from streamer.views.models import Comparison
from streamer.views.ordered_words import needs_order, ordered_words, with_words
from streamer.views.why import MetricMoves
from streamer.web.folds import LogTruncated
from streamer.web.models import WhyQuery
from streamer.web.resources import Web

T = TypeVar("T")


async def snapshot_as_of(web: Web, run_id: str, as_of: str) -> tuple[StoredSnapshot, datetime | None]:
    """The run as of a position, and the time of that; None: not known."""
    return await answer_as_of(web, "snapshot", run_id, as_of, _folded_snapshot)


async def comparison_as_of(web: Web, run_id: str, as_of: str) -> ComparedRun:
    """The agents of the run compared, as of a position."""
    return await answer_as_of(web, "comparison", run_id, as_of, FoldedRun.comparison)


async def moves_of(web: Web, run_id: str, query: WhyQuery) -> MetricMoves:
    """Which events of the run moved a number."""
    question = Question(metric_of(query.metric), query.agent, _position(query.since), query.limit)
    as_of = _position(query.as_of)
    version = (await web.reader.run(run_id)).state_version
    work = partial(why, web.settings, run_id, web.prices, question, as_of)
    return MetricMoves.of(await web.folds.answer(("why", run_id, version, query.model_dump_json()), work))


async def answer_as_of(
    web: Web, question: Hashable, run_id: str, as_of: str, answer: Callable[[FoldedRun], T]
) -> T:
    """What a run folded as of a position says.

    Args:
        web: the server's resources.
        question: what is asked, besides the run and the position.
        run_id: the run.
        as_of: the position, as a user writes it.
        answer: called in a thread with the run.

    Raises:
        UnknownRun, RedisUnavailable: see `StateReader`.
        BadPosition, NothingYet, NotInLog, CannotBeFolded and others: see `fold_run`.
        LogTruncated: the run's log has lost its beginning.
        TooManyFolds: too many questions wait already.
    """
    position = Position.of(as_of)
    version = (await web.reader.run(run_id)).state_version

    def folded() -> T:
        if begins_at := RunLog(web.settings, run_id, position).begins_at:
            raise LogTruncated(f"run {run_id!r}", begins_at)
        return answer(fold_run(web.settings, run_id, web.prices, position))

    return await web.folds.answer(("as of", question, run_id, version, position), folded)


async def in_order(web: Web, found: Comparison) -> Comparison:
    """A comparison of two runs, and what the order of their trials allows to say; see `ordered_words`.

    The same comparison where the log does not hold all events of both, or this server may not read them.
    """
    if not needs_order(found):
        return found
    runs, agents = (found.a.run, found.b.run), (found.a.agent_model, found.b.agent_model)
    versions = [(await web.reader.run(run_id)).state_version for run_id in runs]

    def folded() -> list[str]:
        a, b = (fold_run(web.settings, run_id, web.prices) for run_id in runs)
        truncated = a.log.begins_at or b.log.begins_at
        return [] if truncated else ordered_words(a.run.state, b.run.state, *agents)

    question = "order", *runs, *agents, *versions
    try:
        return with_words(found, await web.folds.answer(question, folded, keep=True))
    except (NotInLog, CannotBeFolded, TopicMissing, TopicAuthorizationFailedError):
        return found


def _folded_snapshot(found: FoldedRun) -> tuple[StoredSnapshot, datetime | None]:
    return found.snapshot(), found.log.moment


def _position(text: str | None) -> Position | None:
    return None if text is None else Position.of(text)
