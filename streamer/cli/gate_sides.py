"""Both sides of `streamer gate`: files are folded once, runs are followed in the event log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import click

from streamer.aggregate.run_state import RunState
from streamer.cli.source import open_records, report_rejected
from streamer.client.followed_runs import FollowedRuns
from streamer.fold import CannotBeFolded, fold_records
from streamer.inference.comparisons import GateVerdict
from streamer.score import PriceTable
from streamer.settings import Settings
from streamer.views.entrants import NoSuchSide, entrant, possible_runs
from streamer.views.gate import Entrant, Terms, judge
from streamer.views.gate_verdict import GateResult
from streamer.views.gate_words import counts

LOOK_SECONDS = 1.0
"""At most one line a second."""


@dataclass(frozen=True, slots=True)
class Named:
    """One side as it was given.

    Attributes:
        source: the whole text.
        text: what names the run and the agent.
        held: the runs of its file; None: it is a run of the event log.
    """

    source: str
    text: str
    held: dict[str, RunState] | None = field(default=None, repr=False)


class Gate:
    """A gate that looks at both sides until it knows.

    Args:
        candidate, against: as `streamer gate` takes them; `against` None: only the target is judged.
        terms: what is asked.
        settings: where the broker is; not asked if both sides are files.
        prices: price table (R2).

    Raises:
        CannotBeFolded: an exception sets a run of a file apart.
        click.ClickException: a file cannot be read, or some of its lines cannot.
    """

    def __init__(
        self, candidate: str, against: str | None, terms: Terms, settings: Settings, prices: PriceTable
    ) -> None:
        self._terms, self._settings, self._prices = terms, settings, prices
        self._files: dict[Path, dict[str, RunState]] = {}
        self._candidate = self._named(candidate)
        self._against = None if against is None else self._named(against)

    def run(self, give_up_seconds: float | None, tell: Callable[[str], None]) -> GateResult:
        """The verdict, as soon as it is certain; undecided at the end, or after so many seconds.

        Args:
            tell: called with a line whenever something is known that was not known before.

        Raises:
            NoSuchSide: a side names no run or agent, or several.
            CannotBeFolded: an exception sets a run apart.
            TopicMissing, TopicUnreadable, KafkaError: the event log cannot be read.
        """
        sides = (self._candidate, self._against)
        live = [side.text for side in sides if side is not None and side.held is None]
        if not live:
            return self._judge({})
        wanted = [run for text in live for run in possible_runs(text)]
        return asyncio.run(self._follow(wanted, give_up_seconds, tell))

    async def _follow(
        self, wanted: list[str], give_up_seconds: float | None, tell: Callable[[str], None]
    ) -> GateResult:
        followed, result = FollowedRuns(self._settings, wanted, self._prices), self._judge({})
        known: list[str] = []
        looked = False
        try:
            async with asyncio.timeout(give_up_seconds), aclosing(followed.looks(LOOK_SECONDS)) as looks:
                async for _ in looks:
                    looked = True
                    result = self._judge(followed.states())
                    if give_up_seconds is None:
                        _must_exist(result)
                    if result.verdict is not GateVerdict.UNDECIDED or result.over:
                        return result
                    if result.words != known:
                        known = result.words
                        tell("; ".join((counts(result), *known)))
        except TimeoutError:
            tell(f"no verdict within {give_up_seconds:g} s" + ("" if looked else ": the log is not read yet"))
            if looked:  # half a log may hold all passes and no failure
                result = self._judge(followed.states())
        return result

    def _judge(self, runs: dict[str, RunState]) -> GateResult:
        against = self._against
        baseline = None if against is None else _entrant(against, runs)
        return judge(_entrant(self._candidate, runs), baseline, self._terms)

    def _named(self, source: str) -> Named:
        for text in (source, *possible_files(source)):
            file = Path(text)
            if file.is_file():
                if file not in self._files:
                    self._files[file] = self._folded(file)
                return Named(source, source[len(text) + 1 :], self._files[file])
        return Named(source, source)

    def _folded(self, file: Path) -> dict[str, RunState]:
        with open_records(file) as records:
            folding = fold_records(records, prices=self._prices, on_rejected=report_rejected, exits=True)
        for failure in folding.failed:
            raise CannotBeFolded(failure)
        if folding.rejected:
            raise click.ClickException(
                f"{file}: {folding.rejected:,} of its lines could not be read, see above. Results may be "
                "missing; mend or remove these lines"
            )
        return {run_id: folding.pipeline.run(run_id).state for run_id in folding.runs()}


def possible_files(source: str) -> list[str]:
    """What of a text may name a file: everything before a slash, the longest first.

    >>> possible_files("out/events.ndjson/terminus:openai/gpt-5")
    ['out/events.ndjson/terminus:openai', 'out/events.ndjson', 'out']
    """
    return [source[:at] for at in range(len(source) - 1, 0, -1) if source[at] == "/"]


def _entrant(side: Named, runs: dict[str, RunState]) -> Entrant:
    held = side.held
    try:
        return entrant(side.source, side.text, runs if held is None else held, fixed=held is not None)
    except NoSuchSide as error:
        raise click.UsageError(str(error)) from error


def _must_exist(result: GateResult) -> None:
    """A run that is not there is an error, unless somebody said how long to wait for it."""
    for side in (result.candidate, result.baseline):
        if side is not None and side.run_id is None:
            if Path(side.source).is_dir():
                raise NoSuchSide(
                    f"{side.source} is a directory, and the event log holds no such run. `streamer convert "
                    f"{side.source} > FILE` writes its results as events; judge FILE"
                )
            raise NoSuchSide(
                f"there is no file {side.source!r}, and the event log holds no such run. `streamer query "
                "runs` lists the runs; --timeout SECONDS waits for one that has not begun"
            )
