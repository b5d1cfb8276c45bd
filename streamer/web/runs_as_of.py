"""All runs as of an earlier time, for answers about several: lists of runs, and leaderboards."""

from __future__ import annotations

from streamer.client.folded_runs import fold_runs
from streamer.client.past_runs import PastRuns
from streamer.fold import CannotBeFolded
from streamer.records import Position
from streamer.score import PriceTable
from streamer.settings import Settings
from streamer.web.folds import Folds, LogTruncated


class RunsAsOf:
    """Folds the log of all runs, or of one, when somebody asks.

    Args:
        settings: where the broker is.
        prices: price table (R2).
        folds: where it is folded.
    """

    def __init__(self, settings: Settings, prices: PriceTable, folds: Folds) -> None:
        self._settings, self._prices, self._folds = settings, prices, folds

    async def at(self, as_of: str, run_id: str | None = None) -> PastRuns:
        """The runs as of a position, as a user writes it.

        Args:
            as_of: of all runs a time; of one run an offset or a time.
            run_id: only this run; None: all.

        Raises:
            BadPosition, NothingYet, NotInLog and others: see `fold_runs`.
            LogTruncated: a log has lost its beginning.
            CannotBeFolded: an exception sets a run apart, and the answer would lack it.
            TooManyFolds: too many questions wait already.
        """
        position = Position.of(as_of)

        def folded() -> PastRuns:
            found = fold_runs(self._settings, self._prices, position, run_id)
            for whose, begins_at in found.truncated.items():
                raise LogTruncated(whose, begins_at)
            for failure in found.failed:
                raise CannotBeFolded(failure)
            return found

        return await self._folds.answer(("runs as of", position, run_id), folded)
