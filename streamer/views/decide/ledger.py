"""A ledger: candidate after candidate against a baseline, and at most 5 % false verdicts among all of them.

A run enters its agents by `run_started.ledger` (inference 8a). The ledger follows from the runs as they
stand, so the order in which events arrive cannot matter. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import orjson
from pydantic import Field

from streamer.client.folded import answers_of
from streamer.client.queries import RunAnswers
from streamer.folding.pairs import Contestant
from streamer.folding.pairs.contest import worse_and_behind
from streamer.folding.run import Run
from streamer.folding.state import RunState, agents_of, candidates_of, declared_agents, texts_of
from streamer.folding.summaries import archived_lines, ledger_entry
from streamer.schemas.base import GroupId, Instant, Message, split_label
from streamer.schemas.events import PRIMARY_METRIC, LedgerLine
from streamer.schemas.summaries import LedgerEntry, RunSummary
from streamer.statistics.final import ALPHA
from streamer.statistics.ledger import Judged, drops, evidence_better, judged, rounded
from streamer.statistics.pairs import Direction, GateVerdict, Pair, grouped, is_behind
from streamer.text import counted
from streamer.views.cells import minute, of_planned
from streamer.views.columns import Board, Column
from streamer.views.decide.compare import ComparedSide, compare_sides, pair_standings
from streamer.views.decide.gate import (
    UNMATCHED,
    Entrant,
    NoSuchSide,
    entrant,
    matched_as_made,
    possible_runs,
    with_order,
)
from streamer.views.decide.leaderboard import boards_of, with_words
from streamer.views.decide.outlook import places_of
from streamer.views.models import TrialRow
from streamer.views.tables import Document, table_of

# -----------------------------------------------------------------------------
# A ledger as `streamer ledger`, `streamer gate --ledger` and the API write it.


LedgerVerdict = Literal["better", "undecided", "not_judged"]
Missing = Literal[
    "undated",
    "late",
    "undeclared",
    "other_metric",
    "metric_unknown",
    "baseline_missing",
    "no_verdicts",
    "no_plan",
    "plan_changed",
    "tasks_differ",
    "not_comparable",
    "not_ahead",
    "begun_again",
]

REASONS: dict[Missing, str] = {
    "undated": "its declaration has no time",
    "late": "nothing shows that it was declared before its first trial",
    "undeclared": "no plan named this agent before the first trial",
    "other_metric": "the ledger judges another metric",
    "metric_unknown": "only pass rates are judged",
    "baseline_missing": "the baseline is not known, or names several agents",
    "no_verdicts": "one side has no verdicts",
    "no_plan": "a side has no complete plan",
    "plan_changed": "the plan's trials have changed",
    "tasks_differ": "the sides have different tasks",
    "not_comparable": "the sides were made in different ways; `streamer compare` lists them",
    "not_ahead": "the candidate is not ahead",
    "begun_again": "archived, then restarted under the same id",
}
"""Why there is no verdict, or no better one, for people."""

NOT_JUDGED = frozenset({"undated", "late", "undeclared"})
"""The reasons for which a candidate stays out of the order of those that are judged, whatever others do."""


class LedgerCandidate(Message):
    """One candidate of a ledger."""

    place: int | None = Field(
        ge=1, description="Its place among those judged, from 1; null: it is not judged."
    )
    run_id: str = Field(description="Its run.")
    agent_model: str = Field(description="Label `agent:model`.")
    planned_at: Instant | None = Field(description="When it was declared, UTC; null: not known.")
    baseline: str = Field(description="What it is compared with: RUN or RUN/AGENT:MODEL.")
    verdict: LedgerVerdict = Field(description="better, undecided or not_judged.")
    missing: Missing | None = Field(description="Why it is not judged, or has no evidence; null: it has.")
    evidence: float | None = Field(ge=0, description="Evidence that it is better; null: none.")
    level: float | None = Field(gt=0, description="Its part of the ledger's error; null: it is not judged.")
    needed: float | None = Field(gt=0, description="Evidence from which on it is better: 1 / level.")
    pairs: int = Field(ge=0, description="Planned pairs with the baseline; 0: not known.")
    wins: int = Field(ge=0, description="Pairs that only the candidate passed.")
    losses: int = Field(ge=0, description="Pairs that only the baseline passed.")
    unknown: int = Field(ge=0, description="Pairs without a final value on a side.")
    over: bool = Field(description="True if nothing more is awaited on either side, or it is not judged.")


class LedgerResult(Message):
    """A ledger as it stands. `words` say it in sentences, whose names are not escaped."""

    type: Literal["ledger"] = Field(default="ledger", description="Always this.")
    name: str = Field(description="Names it.")
    metric: str = Field(description="What is compared: that of the first candidate that is judged.")
    level: float = Field(
        gt=0, lt=1, description="At most 1 - level of all better verdicts are false, on average."
    )
    tried: int = Field(ge=0, description="How many candidates are judged.")
    better: int = Field(ge=0, description="How many of them are better.")
    candidates: list[LedgerCandidate] = Field(
        description="In the order in which they were declared; those that are not judged come last."
    )
    words: list[str] = Field(description="What it means, one sentence each.")

    def of(self, run_id: str, label: str | None = None) -> list[LedgerCandidate]:
        """The candidates of a run, or the one with a label."""
        return [one for one in self.candidates if one.run_id == run_id and label in (None, one.agent_model)]


class LedgerName(Message):
    """One ledger in the list of all."""

    name: str = Field(description="Names it.")
    runs: int = Field(ge=1, description="How many runs belong to it.")
    candidates: int = Field(ge=0, description="How many candidates they enter.")
    baselines: list[str] = Field(description="What they are compared with.")


class NoSuchLedger(Exception):
    """No run names the ledger.

    Args:
        name: that was asked for.
        names: those that there are.
    """

    def __init__(self, name: str, names: Iterable[str]) -> None:
        listed = ", ".join(sorted(names)) or "none yet; a run names one in its run_started event"
        super().__init__(f"No run belongs to a ledger {name!r}. Ledgers: {listed}")


# -----------------------------------------------------------------------------
# Which runs a ledger needs: its members, and the baselines that they name.


Entries = Mapping[str, LedgerEntry]
"""Run id to the ledger that the run belongs to."""


def entries_of(runs: Iterable[RunSummary | RunState]) -> dict[str, LedgerEntry]:
    """The ledgers of runs, from their summaries or their states; runs without one are left out."""
    entries: dict[str, LedgerEntry] = {}
    for run in runs:
        stated = run.ledger if isinstance(run, RunSummary) else ledger_entry(run)
        if stated is not None:
            entries[run.run_id] = stated if isinstance(stated, LedgerEntry) else LedgerEntry(**stated)
    return entries


def names_of(entries: Entries) -> list[LedgerName]:
    """All ledgers, by name."""
    by_name = grouped((entry.name, entry) for entry in entries.values())
    return [
        LedgerName(
            name=name,
            runs=len(members),
            candidates=sum(one.candidates for one in members),
            baselines=sorted({one.baseline for one in members}),
        )
        for name, members in sorted(by_name.items())
    ]


def runs_of(name: str, entries: Entries) -> set[str]:
    """The ids of a ledger's runs, and all that its baselines may name.

    Raises:
        NoSuchLedger: no run belongs to it.
    """
    members = {run_id: entry for run_id, entry in entries.items() if entry.name == name}
    if not members:
        raise NoSuchLedger(name, {entry.name for entry in entries.values()})
    return {*members, *(run for entry in members.values() for run in possible_runs(entry.baseline))}


def judged_before(entries: Entries, candidate: Contestant, baseline: Contestant) -> int:
    """How many other candidates ledgers judge against the same agent, in the candidate's own run, too."""
    texts = texts_of(baseline.run, baseline.group)
    in_time = sorted(
        ((one.planned_at, id_), one) for id_, one in entries.items() if one.in_time and one.candidates
    )
    metrics = {one.name: one.metric for _, one in reversed(in_time)}
    judged_runs = {
        id_: one for (_, id_), one in in_time if one.baseline in texts and one.metric == metrics[one.name]
    }
    many, own = sum(one.candidates for one in judged_runs.values()), judged_runs.get(candidate.run.run_id)
    is_one = own is not None and candidate.group in _judged_of(candidate.run, own.baseline)
    return many - is_one


def _judged_of(run: RunState, baseline: str) -> list[GroupId]:
    """The candidates of a run that a ledger judges if it was declared in time."""
    return declared_agents(run, candidates_of(run, baseline))


# -----------------------------------------------------------------------------
# The ledger of some runs.


class _Compared(NamedTuple):
    """One candidate against its baseline; `missing`: why there is no evidence."""

    evidence: float | None = None
    ahead: bool = False
    missing: Missing | None = None
    pairs: Sequence[Pair] = ()
    planned: int = 0
    over: bool = True
    counts: tuple[int, int, int] | None = None
    """Pairs of an archived run in place of `pairs`: only the candidate passed, only the baseline, unknown."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One candidate, as its run declares it; `at` None: it is not judged, `missing` says why."""

    at: int
    run: RunState
    group: GroupId
    entry: LedgerEntry
    missing: Missing | None
    kept: LedgerLine | None = None

    @property
    def key(self) -> tuple[bool, int, str, str]:
        """Candidates stand in this order; those that are not judged come last."""
        return self.missing is not None, self.at, self.run.run_id, self.group.agent_model or ""


def ledger_of(
    name: str, runs: Mapping[str, RunState], truncated: Mapping[str, int] | None = None
) -> LedgerResult:
    """A ledger as its runs stand.

    Args:
        name: names it; without a member it is empty.
        runs: its members and their baselines, by id; others are left alone.
        truncated: what has lost the beginning of its log, to the offset at which that begins now.
    """
    listed = sorted(_candidates(name, runs), key=attrgetter("key"))
    metric = listed[0].entry.metric if listed else PRIMARY_METRIC
    tried = [one for one in listed if one.missing is None and one.entry.metric == metric]
    rest = sorted((one for one in listed if one not in tried), key=attrgetter("at", "key"))
    compared = [_against(one, runs) for one in tried]
    verdicts = judged(of.evidence if of.evidence and of.ahead else 0.0 for of in compared)
    candidates = [
        _line(one, of, verdict, place)
        for place, (one, of, verdict) in enumerate(zip(tried, compared, verdicts, strict=True), start=1)
    ]
    candidates += [_line(one, _Compared(missing=one.missing or "other_metric"), None, None) for one in rest]
    result = LedgerResult(
        name=name,
        metric=metric,
        level=float(1 - ALPHA),
        tried=len(tried),
        better=sum(one.verdict == "better" for one in candidates),
        candidates=candidates,
        words=[],
    )
    lost = [
        f"the log of {whose} begins at offset {offset:,}, so candidates and results may be missing"
        for whose, offset in (truncated or {}).items()
    ]
    return result.model_copy(update={"words": [*_words(result), *_chosen_baselines(tried, runs), *lost]})


def _candidates(name: str, runs: Mapping[str, RunState]) -> Iterator[_Candidate]:
    for run_id, entry in entries_of(runs.values()).items():
        run = runs[run_id]
        declared = run.plan.ledger
        if declared is None or entry.name != name:
            continue
        if (lines := archived_lines(run)) is not None:
            for label, line in lines.items():
                if run.slots and line[1] is None:  # the trials that stand are not those of the verdict
                    line = (None, "begun_again", *line[2:])
                not_judged = _reason(line) if line[1] in NOT_JUDGED else None
                group = GroupId(None, *split_label(label))
                yield _Candidate(declared.at or 0, run, group, entry, not_judged, line)
            continue
        late: Missing | None = "undated" if declared.at is None else None if entry.in_time else "late"
        named = _judged_of(run, entry.baseline)
        for group in candidates_of(run, entry.baseline):
            missing: Missing | None = late or (None if group in named else "undeclared")
            yield _Candidate(declared.at or 0, run, group, entry, missing)


def _against(candidate: _Candidate, runs: Mapping[str, RunState]) -> _Compared:
    """A candidate and its baseline, pair by pair; of an archived run as its line says."""
    if candidate.kept is not None:
        evidence, said, planned, *counts = candidate.kept
        wins, losses, unknown = counts
        return _Compared(
            evidence, said is None, _reason(candidate.kept), (), planned, counts=(wins, losses, unknown)
        )
    if candidate.entry.metric != PRIMARY_METRIC:
        return _Compared(missing="metric_unknown")
    ours, theirs = (
        Contestant(candidate.run, candidate.group),
        _baseline(candidate.entry.baseline, runs).trials,
    )
    if theirs is None:
        return _Compared(missing="baseline_missing", over=ours.over)
    missing: Missing | None = None
    matched, made = matched_as_made(ours, theirs)
    if ours.run.queue.has_grown:
        missing = "plan_changed"
    elif not (ours.has_verdicts and theirs.has_verdicts):
        missing = "no_verdicts"
    elif ours.declared is None or matched.unmatched:
        missing = "no_plan"
    elif "tasks" in made.refused:
        missing = "tasks_differ"
    elif made.refused:
        missing = "not_comparable"
    if missing is not None:
        return _Compared(missing=missing, over=matched.over)
    ordered, pairs = turned(matched.in_order), turned(matched.pairs)
    evidence = evidence_better(ordered, pairs, matched.planned)
    ahead = is_behind(ordered, pairs, matched.planned)
    return _Compared(evidence, ahead, None if ahead else "not_ahead", pairs, matched.planned, matched.over)


def _reason(line: LedgerLine) -> Missing | None:
    """Why an archived candidate was not better; a reason of another version says that it was not ahead."""
    if line[1] is None:
        return None
    return next((reason for reason in REASONS if reason == line[1]), "not_ahead")


def archived(result: LedgerResult, run: RunSummary, revision: int) -> list[dict[str, Any]]:
    """The events that keep a run's lines in its ledger once it is deleted up to the revision before.

    Args:
        result: the ledger as it stands.
        run: a run that belongs to it.
        revision: of these events.
    """
    entry = run.ledger
    assert entry is not None
    lines = {
        one.agent_model: [one.evidence, one.missing, one.pairs, one.wins, one.losses, one.unknown]
        for one in result.of(run.run_id)
    }
    ledger = {"name": entry.name, "baseline": entry.baseline, "metric": entry.metric, "lines": lines}
    of_run = {"run_id": run.run_id, "revision": revision}
    said = run.model_dump(mode="json", include={"display_name", "benchmark"}, exclude_none=True)
    at = {} if entry.planned_at is None else {"planned_at": entry.planned_at.isoformat()}
    return [
        {"type": "run_started", **of_run, **said, **at, "ledger": ledger},
        {"type": "run_finished", **of_run, "status": "archived", "scores_pending": False},
    ]


def turned(pairs: Iterable[Pair]) -> list[Pair]:
    """The same pairs, seen from the other side."""
    return [Pair(pair.theirs, pair.ours) for pair in pairs]


def _baseline(text: str, runs: Mapping[str, RunState]) -> Entrant:
    try:
        return entrant(text, text, runs, fixed=False)
    except NoSuchSide:
        return Entrant(text, None)


def _line(one: _Candidate, of: _Compared, verdict: Judged | None, place: int | None) -> LedgerCandidate:
    won = [pair.won() for pair in of.pairs]
    lost = [pair.lost() for pair in of.pairs]
    open_ = of.planned - sum(None not in pair for pair in of.pairs)
    wins, losses, unknown = of.counts or (lost.count(True), won.count(True), open_)
    said: LedgerVerdict = "not_judged" if verdict is None else "better" if verdict.better else "undecided"
    return LedgerCandidate(
        place=place,
        run_id=one.run.run_id,
        agent_model=one.group.agent_model or "",
        planned_at=one.entry.planned_at,
        baseline=one.entry.baseline,
        verdict=said,
        missing=of.missing,
        evidence=of.evidence,
        level=verdict and verdict.level,
        needed=verdict and verdict.needed,
        pairs=of.planned,
        wins=wins,
        losses=losses,
        unknown=unknown,
        over=verdict is None or of.over,
    )


# -----------------------------------------------------------------------------
# `streamer gate --ledger`: one candidate, judged by its level in the ledger.


class LedgerGate(Message):
    """What a gate says of one candidate of a ledger."""

    type: Literal["ledger_verdict"] = Field(default="ledger_verdict", description="Always this.")
    verdict: GateVerdict = Field(description="pass: it is better than its baseline; else undecided.")
    ledger: str = Field(description="Names the ledger.")
    tried: int = Field(ge=0, description="How many candidates are judged.")
    candidate: LedgerCandidate


def gate_of(result: LedgerResult, run_id: str, label: str) -> LedgerGate:
    """The verdict on one candidate.

    Raises:
        NoSuchSide: the ledger does not have it.
    """
    for one in result.of(run_id, label):
        verdict = GateVerdict.PASS if one.verdict == "better" else GateVerdict.UNDECIDED
        return LedgerGate(verdict=verdict, ledger=result.name, tried=result.tried, candidate=one)
    raise NoSuchSide(
        f"{label} of run {run_id!r} is not a candidate in ledger {result.name!r}. Its run_started event "
        "must name the ledger, and another agent as baseline"
    )


def gate_words(result: LedgerGate) -> list[str]:
    """The verdict of a gate in sentences, the verdict itself first; names in them are not escaped."""
    one = result.candidate
    place = "" if one.place is None else f", number {one.place} of {counted(result.tried, 'candidate')}"
    words = [
        f"{result.verdict.upper()}: {one.agent_model} of {one.run_id} better than {one.baseline}, "
        f"in ledger {result.ledger}{place}"
    ]
    if one.missing is not None:
        words.append(REASONS[one.missing])
    if one.evidence is not None:
        words.append(
            f"evidence that it is better {amount(one.evidence)}, {amount(one.needed)} needed at this place"
        )
        words.append(
            f"{of_planned(one.pairs - one.unknown, one.pairs)} pairs: only the candidate passed {one.wins}, "
            f"only the baseline {one.losses}"
        )
    return words


# -----------------------------------------------------------------------------
# `streamer gate --race`: candidates of one run, declared before it, of which some may be stopped early.


class RaceVerdict(Message):
    """One candidate of a race that may be stopped."""

    type: Literal["race_verdict"] = Field(default="race_verdict", description="Always this.")
    run_id: str = Field(description="The run of the race.")
    agent_model: str = Field(description="Label `agent:model` of the candidate that is dropped.")
    worse_than: str = Field(description="What it is worse than: a candidate, or the baseline.")
    evidence: float = Field(ge=0, description="Evidence of that.")
    known: int = Field(ge=0, description="Trials of the candidate with a final value.")
    passed: int = Field(ge=0, description="Known trials that passed.")
    planned: int | None = Field(ge=0, description="Planned trials; null: not known.")
    racing: list[str] = Field(description="Candidates that are left.")

    @property
    def environment(self) -> dict[str, str]:
        """What a program learns of the candidate from its environment, with no shell in between."""
        return {
            "RACE_RUN": self.run_id,
            "RACE_AGENT_MODEL": self.agent_model,
            "RACE_WORSE_THAN": self.worse_than,
            "RACE_EVIDENCE": f"{self.evidence:g}",
        }


class Race:
    """The candidates of one run. A dropped one stays dropped, whatever comes later.

    Args:
        run_id: the run.

    Attributes:
        run_id: the run.
        dropped: the verdicts so far.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._labels: list[str] = []
        self._refused: dict[Direction, str] = {}
        self.dropped: list[RaceVerdict] = []

    @property
    def racing(self) -> list[str]:
        """The candidates that are left."""
        dropped = {one.agent_model for one in self.dropped}
        return [label for label in self._labels if label not in dropped]

    @property
    def refused(self) -> list[str]:
        """The pairs among `racing` that may not be compared at the last look, each with the reason."""
        dropped = {one.agent_model for one in self.dropped}
        return [
            f"{one} and {other}: {why}"
            for (one, other), why in self._refused.items()
            if dropped.isdisjoint((one, other))
        ]

    def look(self, run: RunState, baseline: Contestant | None) -> list[RaceVerdict]:
        """The candidates that may be dropped now, and were not before.

        Args:
            run: the run as it stands.
            baseline: named before, and never dropped; None: each is compared with each.

        Raises:
            NoSuchSide: the run declares too few candidates, too late, or other ones than at the first look.
        """
        sides, evidence = self._sides(run, baseline), dict[Direction, float]()
        staying, hypotheses = set(self.racing), len(sides) * (len(sides) - 1)
        self._refused.clear()
        if baseline is None:
            for one, other in combinations(sides, 2):
                evidence |= self._evidence(one, other, sides[one], sides[other])
        else:
            name = f"{baseline.run.run_id}/{baseline.label}"
            staying, hypotheses = staying | {name}, len(sides)
            for label, side in sides.items():
                both = self._evidence(label, name, side, baseline)
                evidence[label, name] = both.get((label, name), 0.0)
        new = drops(evidence, staying, hypotheses)
        for label, better in new:
            side = sides[label]
            self.dropped.append(
                RaceVerdict(
                    run_id=self.run_id,
                    agent_model=label,
                    worse_than=better,
                    evidence=rounded(evidence[label, better]),
                    known=side.known,
                    passed=side.passed,
                    planned=side.declared,
                    racing=[one for one in self.racing if one != label],
                )
            )
        return self.dropped[len(self.dropped) - len(new) :]

    def is_over(self, run: RunState, baseline: Contestant | None) -> bool:
        """Whether nothing more can be dropped, after a look."""
        sides, fewest = self._sides(run, baseline), 1 if baseline is None else 0
        is_fixed = baseline is None or baseline.over
        return len(self.racing) <= fewest or (is_fixed and all(sides[one].over for one in self.racing))

    def _sides(self, run: RunState, baseline: Contestant | None) -> dict[str, Contestant]:
        declared = {GroupId(None, *one) for one in run.plan.agent_models()}
        out = baseline.group if baseline is not None and baseline.run.run_id == run.run_id else None
        groups = [group for group in agents_of(run) if group in declared and group != out]
        labels = [group.agent_model or "" for group in groups]
        if len(labels) < (2 if baseline is None else 1) or labels != (self._labels or labels):
            raise NoSuchSide(
                f"run {run.run_id!r} declares {counted(len(labels), 'candidate')}"
                + (f", and declared {len(self._labels)} at first" if self._labels else "")
                + (
                    ". A race is between agents that its run_started event names in agent_models "
                    "before the first trial"
                )
            )
        early = run.plan.agents_before(run.scores.began())
        late = [group.agent_model or "" for group in groups if (group.agent, group.model) not in early]
        if late:
            named = ", ".join(late[:NAMED_CANDIDATES])
            raise NoSuchSide(
                f"nothing shows that run {run.run_id!r} named {named} before its first trial. Name the "
                "candidates in agent_models of run_started, with planned_at, and give its trials "
                "times"
            )
        self._labels = labels
        return {label: Contestant(run, group) for label, group in zip(labels, groups, strict=True)}

    def _evidence(self, one: str, other: str, ours: Contestant, theirs: Contestant) -> dict[Direction, float]:
        """Evidence that one is worse, and that the other one is; nothing where they may not be compared."""
        matched, made = matched_as_made(ours, theirs)
        why = list(dict.fromkeys(made.refused.values()))
        if not (ours.has_verdicts and theirs.has_verdicts):
            why = [REASONS["no_verdicts"]]
        elif matched.unmatched and not why:
            why = [UNMATCHED[matched.unmatched].partition(";")[0]]  # a race takes pairs at the end, too
        if why:
            self._refused[one, other] = "; ".join(why)
            return {}
        ordered, every, planned = matched.in_order, matched.pairs, matched.planned
        return {
            (one, other): _shown(*worse_and_behind(ordered, every, planned)),
            (other, one): _shown(*worse_and_behind(turned(ordered), turned(every), planned)),
        }


def _shown(worse: float, behind: bool) -> float:
    return worse if behind else 0.0


def race_words(verdict: RaceVerdict) -> str:
    """One drop in a sentence; names in it are not escaped."""
    trials, left = of_planned(verdict.known, verdict.planned), ", ".join(verdict.racing)
    return (
        f"DROPPED {verdict.agent_model}: worse than {verdict.worse_than}, evidence "
        f"{amount(verdict.evidence)}, after {trials} trials. Left: {left or 'none'}"
    )


# -----------------------------------------------------------------------------
# A ledger in sentences and as a table.


NAMED_CANDIDATES = 3

LEDGER = Board(
    "Ledger",
    (
        Column("place", "place", "number", ("place",), rank=0),
        Column("agent", "candidate", "agent", ("agent_model",), rank=0, least=16),
        Column("run", "run", "name", ("run_id",), rank=1, least=12),
        Column("verdict", "verdict", "state", ("said",), rank=2),
        Column("evidence", "evidence", "number", ("evidence",), rank=3),
        Column("needed", "needed", "number", ("needed",), rank=4),
        Column(
            "wins", "candidate only", "count", ("wins",), rank=5, hint="Pairs that only the candidate passed"
        ),
        Column(
            "losses",
            "baseline only",
            "count",
            ("losses",),
            rank=6,
            hint="Pairs that only the baseline passed",
        ),
        Column("unknown", "open", "some", ("unknown",), rank=7),
        Column("pairs", "pairs", "count", ("pairs",), rank=8),
        Column("declared", "declared", "state", ("declared",), rank=9),
        Column("against", "baseline", "name", ("against",), rank=10, least=12),
    ),
)
"""The columns of a ledger, on every surface."""


def _words(result: LedgerResult) -> Iterator[str]:
    yield f"{counted(result.tried, 'candidate')} tried, {result.better} better than the baseline"
    yield (
        f"at most {100 * (1 - result.level):.2g} % of better verdicts are false on average, however "
        "many candidates you try and however often you look"
    )
    if result.better:
        yield "an older candidate that arrives late may undo a verdict"
    alone = [one for one in result.candidates if _would_do_alone(one)]
    for one in alone[:NAMED_CANDIDATES]:
        yield (
            f"{one.agent_model} of {one.run_id}: evidence of {amount(one.evidence)} is enough for one "
            f"candidate ({amount(float(1 / ALPHA))}), not for number {one.place} "
            f"({amount(one.needed)})"
        )
    left = len(alone) - NAMED_CANDIDATES
    if left > 0:
        yield f"the same goes for {counted(left, 'more candidate')}"


def _would_do_alone(one: LedgerCandidate) -> bool:
    is_ahead = one.verdict == "undecided" and one.missing is None
    return is_ahead and one.evidence is not None and one.evidence >= 1 / ALPHA


def _chosen_baselines(tried: Sequence[_Candidate], runs: Mapping[str, RunState]) -> Iterator[str]:
    """The baselines that had results before a candidate named them: they may be the worst of several."""
    named: dict[str, int] = {}
    for one in tried:
        named[one.entry.baseline] = min(one.at, named.get(one.entry.baseline, one.at))
    for baseline, at in sorted(named.items()):
        trials = _baseline(baseline, runs).trials
        began = None if trials is None else trials.run.scores.began()
        if began is not None and began < at:
            yield (
                f"nothing shows that baseline {baseline} was named before its first trial: if it is the "
                "worst of several runs, run it again"
            )


def amount(value: float | None) -> str | None:
    """Evidence for people: three digits, or whole.

    >>> amount(31.875), amount(0.25), amount(12345.6), amount(1e30)
    ('31.9', '0.25', '12,346', '1e+30')
    """
    if value is None:
        return None
    return f"{value:.3g}" if value < 1000 or value >= 1e15 else f"{value:,.0f}"


def ledger_document(result: LedgerResult) -> Document:
    """A ledger as a document of one table; names in it are not escaped."""
    rows = [
        {
            **one.model_dump(mode="json", exclude={"baseline"}),
            "against": one.baseline,
            "said": _said(one),
            "declared": minute(one.planned_at),
            "evidence": amount(one.evidence),
            "needed": amount(one.needed),
        }
        for one in result.candidates
    ]
    table = table_of(LEDGER, rows)._replace(note="\n".join(f"{line}." for line in result.words))
    return Document(f"Ledger {result.name}", [], [], [table])


def _said(one: LedgerCandidate) -> str:
    verdict = "not judged" if one.verdict == "not_judged" else one.verdict
    return verdict if one.missing is None else f"{verdict}: {REASONS[one.missing]}"


def names_document(names: Sequence[LedgerName]) -> Document:
    """All ledgers as a document of one table."""
    rows = [{**one.model_dump(), "listed": ", ".join(one.baselines)} for one in names]
    return Document("Ledgers", [], [], [table_of(LEDGERS, rows)])


LEDGERS = Board(
    "Ledgers",
    (
        Column("name", "ledger", "name", ("name",), rank=0, least=12),
        Column("runs", "runs", "count", ("runs",)),
        Column("candidates", "candidates", "count", ("candidates",)),
        Column("baselines", "baselines", "name", ("listed",), least=12),
    ),
)
"""The columns of the list of ledgers."""


# -----------------------------------------------------------------------------
# Everything that may be said of several runs that were folded, each with its sentences.


MOST_COMPARED = 20
"""Runs that are compared two by two; of more, only the leaderboards are made."""


def verdicts_of(runs: Sequence[Run], history: Iterable[Run] = ()) -> dict[str, Any]:
    """Leaderboards, every two agents of a run, every two runs, and the ledgers of the runs, as JSON.

    States of runs are determined at the time of the latest event, so nothing depends on the time of asking.

    Args:
        runs: those that are judged.
        history: others that their ledgers may name.
    """
    states = {run.state.run_id: run.state for run in (*runs, *history)}
    names = names_of(entries_of(run.state for run in runs))
    answers = [answers_of(run) for run in runs]
    times = [said.run.last_event_at for said in answers if said.run.last_event_at]
    boards = []
    for metric in sorted({said.run.primary_metric for said in answers}):
        of_metric = [said.board for said in answers if said.run.primary_metric == metric]
        boards += with_words(boards_of(of_metric, metric, max(times, default=datetime.fromtimestamp(0, UTC))))
    agents = [
        {
            "run_id": said.run.run_id,
            "places": places_of(said.comparison),
            "pairs": [_json(pair) for pair in pair_standings(said.compared)],
        }
        for said in answers
    ]
    sides = [
        _compared_side(*both) for both in zip(runs, answers, strict=True) if 1 < len(runs) <= MOST_COMPARED
    ]
    pairs = [
        {"a": a.run_id, "b": b.run_id, "comparison": _json(with_order(compare_sides(x, y, 0, 0), a, b))}
        for (a, x), (b, y) in combinations(sides, 2)
    ]
    return {
        "boards": [_json(board) for board in boards],
        "agents": agents,
        "runs": pairs,
        "ledgers": [_json(ledger_of(one.name, states)) for one in names],
    }


def _compared_side(run: Run, said: RunAnswers) -> tuple[RunState, ComparedSide]:
    trials = [orjson.loads(change.value) for change in run.take_scored() if change.value]
    rows = [TrialRow.of(trial["digest"], trial) for trial in trials]
    return run.state, ComparedSide(said.compared, said.agents, None, rows)


def _json(message: Message) -> dict[str, Any]:
    return message.model_dump(mode="json", by_alias=True)
