"""When a gate would have decided in public runs of Terminal-Bench, and what it would have saved.

    python -m benchmarks.gate_replay [--page]

Each run of `benchmarks.replay` is once the candidate against each other run, which counts as finished. They
are compared on their common tasks, in the candidate's own order of starts, as if it had been shuffled. A gate
with a margin of 2 points asks question `final` after each result. The candidate stops with its verdict.

It saves the trials that have not started by then, and the rest of the running ones. The runs have no token
counts, so the USD are unknown. `--page` puts the table and the figure into docs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from statistics import median

from benchmarks.gate_study import MARGIN, PAGE, difference_at, first_decided, into_page
from benchmarks.replay import Past, past, public_runs
from benchmarks.two_agents import TwoRuns
from streamer.statistics.pairs import FinalDifference, GateVerdict, no_further_behind

FIGURE = PAGE.parent / "inference" / "gate.png"
HEAD = (
    *(
        "baseline",
        "verdict",
        "comparisons",
        "results in by then",
        "trials never started",
        "trial hours saved",
    ),
    "wrong",
)


@dataclass(frozen=True)
class Gated:
    """One candidate against one baseline.

    Attributes:
        candidate, baseline: their submissions and names.
        difference: of the final pass rates, -1 to 1.
        verdict: of question `final`, as soon as it has one.
        truth: what the end says.
        share: of the candidate's results that were in with the verdict.
        unstarted: trials that had not started by then.
        saved_seconds: of trials, running ones included.
        seconds: of all its trials.
    """

    candidate: str
    baseline: str
    difference: float
    verdict: GateVerdict
    truth: GateVerdict
    share: float
    unstarted: int
    saved_seconds: float
    seconds: float

    @property
    def same_agent(self) -> bool:
        """Whether both are runs of one submission."""
        return self.candidate.partition(", ")[0] == self.baseline.partition(", ")[0]


def gated(candidate: str, ours: Sequence[Past], baseline: str, theirs: Sequence[Past]) -> Gated:
    """Replay the candidate until the gate decides; both are sorted by start."""
    finished = {trial.task: trial.passed for trial in theirs}
    common = [trial for trial in ours if trial.task in finished]
    runs = as_runs(common, [finished[trial.task] for trial in common])
    look = first_decided(runs)
    verdict = no_further_behind(difference_at(runs, min(look, runs.results)).ends(), MARGIN)
    stopped = sorted(trial.ended for trial in common)[min(look, runs.results) - 1]
    ahead = sum(runs.ours) - sum(runs.theirs)
    return Gated(
        candidate,
        baseline,
        ahead / len(common),
        verdict,
        no_further_behind(FinalDifference(ahead, ahead, len(common)).ends(), MARGIN),
        look / runs.planned,
        sum(trial.started > stopped for trial in common),
        sum(max(0.0, trial.ended - max(trial.started, stopped)) for trial in common),
        sum(trial.ended - trial.started for trial in common),
    )


def as_runs(trials: Sequence[Past], finished: list[bool]) -> TwoRuns:
    """The candidate's trials by start, each known once it has ended, against a finished side."""
    ours_known = [0.0] * len(trials)
    for number, place in enumerate(sorted(range(len(trials)), key=lambda at: trials[at].ended), 1):
        ours_known[place] = number
    return TwoRuns(
        tasks=list(range(len(trials))),
        ours=[trial.passed for trial in trials],
        theirs=finished,
        ours_known=ours_known,
        theirs_known=[0.0] * len(trials),
        results=len(trials),
        planned=len(trials),
    )


def comparisons() -> list[Gated]:
    """Every public run with times against every other."""
    runs = {run: trials for run, rows in public_runs() if (trials := past(rows))}
    return [gated(one, runs[one], other, runs[other]) for one, other in permutations(runs, 2)]


def table(result: Sequence[Gated]) -> Iterator[str]:
    """A row for each verdict, of the same agent and of others; medians."""
    yield f"| {' | '.join(HEAD)} |"
    yield "|---" * len(HEAD) + "|"
    for same, name in ((True, "same submission"), (False, "another submission")):
        for verdict in GateVerdict:
            chosen = [one for one in result if one.same_agent is same and one.verdict is verdict]
            if chosen:
                yield f"| {name} | {verdict} | {len(chosen)} | {' | '.join(_medians(chosen))} |"


def _medians(chosen: Sequence[Gated]) -> Iterator[str]:
    yield f"{median(one.share for one in chosen):.0%}"
    yield f"{median(one.unstarted for one in chosen):.0f}"
    hours = median(one.saved_seconds for one in chosen) / 3600
    yield f"{hours:.1f} of {median(one.seconds for one in chosen) / 3600:.1f}"
    yield str(sum(one.verdict not in (one.truth, GateVerdict.UNDECIDED) for one in chosen))


def figure(result: Sequence[Gated], file: Path) -> None:
    """When the gate decided, by how far apart the two runs ended; hollow: the same submission."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn, axes = pyplot.subplots(figsize=(8, 4.6), layout="constrained")
    for verdict, colour in ((GateVerdict.PASS, "#2a6f97"), (GateVerdict.FAIL, "#b23a48")):
        for same in (False, True):
            chosen = [one for one in result if one.verdict is verdict and one.same_agent is same]
            axes.scatter(
                [100 * one.difference for one in chosen],
                [100 * one.share for one in chosen],
                s=26,
                facecolors="none" if same else colour,
                edgecolors=colour,
                label=f"{verdict}, {'same' if same else 'another'} submission",
            )
    axes.axvline(-100 * float(MARGIN), linestyle="--", color="#888888", label="2 points behind")
    axes.set_xlabel("candidate's final pass rate minus the baseline's, points")
    axes.set_ylabel("results in when the gate decided, %")
    axes.set_ylim(0, 103)
    axes.legend(fontsize="small")
    drawn.savefig(file, dpi=110, metadata={"Software": None})
    pyplot.close(drawn)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="When a gate would have decided in public runs.")
    parser.add_argument("--page", action="store_true", help="put table and figure into docs as well")
    options = parser.parse_args(arguments)
    result = comparisons()
    text = "\n".join(table(result))
    print(text)
    if options.page:
        FIGURE.parent.mkdir(exist_ok=True)
        figure(result, FIGURE)
        into_page({"gate-replay": text})
    return 0


if __name__ == "__main__":
    sys.exit(main())
