"""Which trials moved a number of a run's agents, and by how much: the run folded event by event."""

from __future__ import annotations

from collections.abc import Iterable

from streamer.client.folded_run import fold_run
from streamer.client.moves import Moves, Question, Why
from streamer.client.results import UnknownMetric
from streamer.fold import fold_records
from streamer.records import LogRecord, Position, Rejected
from streamer.schemas.details import NAMED
from streamer.schemas.metrics import BOARD_METRICS, BoardMetric, can_have_board, named_metric
from streamer.score import PriceTable
from streamer.settings import Settings


def metric_of(name: str) -> BoardMetric:
    """The METRIC of that name; UnknownMetric if no board can have it."""
    if not can_have_board(name):
        raise UnknownMetric(name)
    return BOARD_METRICS.get(name) or named_metric(name.removeprefix(NAMED), {})


def why(
    settings: Settings, run_id: str, prices: PriceTable, question: Question, as_of: Position | None = None
) -> Why:
    """Which events of a run in the log moved a number. Raises UnknownAgent, and what `fold_run` raises."""
    moves = Moves(question)
    found = fold_run(settings, run_id, prices, as_of, step=1, after=moves.after)
    return moves.answer(found.run.state, found.log.begins_at)


def why_in(
    records: Iterable[LogRecord],
    run_id: str | None,
    prices: PriceTable,
    question: Question,
    as_of: Position | None = None,
) -> tuple[Why, list[Rejected]]:
    """The same for records of a file, and those that could not be folded; see also `Folding.chosen`."""
    moves, rejected = Moves(question), list[Rejected]()
    folding = fold_records(
        records, prices=prices, on_rejected=rejected.append, as_of=as_of, step=1, after=moves.after
    )
    run = folding.pipeline.run(folding.chosen(run_id))
    return moves.answer(run.state, 0), rejected
