"""docs/compatibility.md: each difference from fc-eval 0.1.0's numbers, its ruling, and an example.

`python -m tests.conformance.make_compatibility` writes it; a test holds it to what the cases say. Every
number in it is taken from a case: fc-eval's from what its code computed, ours from a fold.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streamer.folding.fold import Folding
from streamer.folding.score.formulacode import task_metrics
from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.convert import convert
from streamer.sources.fc_eval_payload import parse_log
from tests.conformance import compatibility as prose
from tests.conformance import compatibility_scylla as scylla
from tests.conformance import formulacode_run_directories as runs
from tests.conformance import test_compatibility as merge
from tests.conformance import test_formulacode_parse as run
from tests.conformance.compatibility import Difference
from tests.conformance.compatibility_shares import in_order, opening
from tests.conformance.fc_run_differences import SUB_TRIALS
from tests.conformance.fc_runs import trials, unpacked
from tests.conformance.folds import folded, summaries
from tests.conformance.formulacode_rules import sub_trials
from tests.conformance.group_rules import distribution
from tests.house.citations import linked
from tests.support.data import shared_data
from tests.support.formulacode_cases import Case, cases
from tests.support.rows import read_rows, scylla_row_to_event

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
Json = dict[str, Any]


class Examples:
    """What fc-eval says and what we say, by case and field."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            directories = unpacked(Path(folder))
            options = ConvertOptions(harness="fc-eval")
            self.folding: Folding = folded(convert([directories], options, ConvertReport()))
            self.trials = {
                name: trials(directories / name, known["agents"], known["multi_agent"])
                for name, known in runs.expected().items()
            }
        self._scored = {
            name: [
                json.loads(c.value) for c in self.folding.pipeline.run(name).take_changes().scored if c.value
            ]
            for name in runs.RUNS
        }

    def sub_trial(self, case_id: str, index: int, field: str) -> str:
        """A field of a sub-trial's payload in a `merge` case."""
        case = one("merge", case_id)
        sub = sub_trials(case)[index - 1]
        ours = merge.folded_case(case_id)[0][sub.key]["formulacode"] or {}
        theirs = merge.payload_of(case, sub)
        said = theirs[field] if theirs else "nothing (no such entry)"
        return told(f"{case_id}, `{sub.key}`", field, said, ours.get(field))

    def merged(self, case_id: str, theirs_at: Iterable[str], ours_at: str) -> str:
        """A field of the merged trial, and of our run summary."""
        theirs: Any = one("merge", case_id).expected["merged"]
        for name in theirs_at:
            theirs = theirs[name]
        return told(case_id, ours_at, theirs, merge.folded_case(case_id)[1][ours_at])

    def aggregate(self, case_id: str, key: str, field: str) -> str:
        """A field of an agent:model's run-level numbers in a `run` case."""
        case = one("run", case_id)
        summary = case.expected["agent_metrics_summary"].get(key, {})
        theirs = summary.get(field, "nothing (it raises an error)")
        ours = run.summary(key, run.by_agent(case, "agent_metrics_by_agent")[key])[field]
        return told(f"{case_id}, `{key}`", field, theirs, ours)

    def trial(self, name: str, trial: str, key: str, field: str) -> str:
        """A field of a trial's payload in a complete run directory."""
        (whole,) = (t for t in self.trials[name] if t.name.startswith(f"{trial}."))
        (ours,) = (
            s
            for s in self._scored[name]
            if (s["task_id"], s["attempt"], s["agent_model"]) == (whole.task_id, whole.attempt, key)
        )
        theirs = whole.payloads.get(key, {}).get(field)
        return told(f"{name}, {trial}, `{key}`", field, theirs, ours["formulacode"][field])

    def whole_run(self, name: str, field: str, key: str | None = None) -> str:
        """A field of a run's summary, or of an agent:model's in it."""
        theirs = runs.expected()[name]["expected_from_run_results"]
        result = summaries(self.folding, "agent_model" if key else "run")
        ours = next(s for s in result if s["run_id"] == name and s.get("agent_model") == (key or s.get("-")))
        if key:
            theirs, ours = theirs["agent_metrics_summary"][key], ours["formulacode"]
        return told(f"{name}{f', `{key}`' if key else ''}", field, theirs[field], ours[field])

    def pass_at_k(self, name: str) -> str:
        theirs = runs.expected()[name]["expected_from_run_results"]["pass_at_k"]
        ours = next(s for s in summaries(self.folding, "run") if s["run_id"] == name)["pass_at_k"]
        return told(name, "pass_at_k", theirs, {k: stored["value"] for k, stored in ours.items()})

    def snapshot_failures(self, case_id: str) -> str:
        case = one("parse", case_id)
        (theirs,) = case.expected["extra_metrics"]["agent_metrics_by_agent"].values()
        ours = parse_log(case.input["text"]).snapshot["failed"]
        return told(case_id, "snapshot_summary.failed", theirs["snapshot_summary"]["failed"], ours)

    def metrics(self, case_id: str, field: str) -> str:
        case = one("speedups", case_id)
        ours = task_metrics(case.input["per_benchmark_speedups"], fallback=False)
        values = {"task_speedup": ours.task_speedup, "agent_advantage": ours.advantages}
        return told(case_id, field, case.expected["harness"][field], values[field])

    def lost_trial(self, case_id: str) -> str:
        case = one("merge", case_id)
        written = len(case.input["agent_results"]) if case.expected["written"] else 0
        return told(case_id, "sub-trials counted", written, len(sub_trials(case)))

    def parse_error(self, case_id: str) -> str:
        """What we make of tests and snapshot where fc-eval's parser stumbles."""
        case = one("parse", case_id)
        assert case.expected["raised"]
        parsed = parse_log(case.input["text"])
        ours = {"tests": parsed.tests["status"], "snapshot": parsed.snapshot["status"]}
        return told(case_id, "tests and snapshot", "nothing (it raises an error)", ours)

    def scylla_mode(self, dataset: str, tier: str, metric: str) -> str:
        """A mode of a tier."""
        folder = shared_data() / "scylla"
        theirs = json.loads((folder / "expected.json").read_text())["datasets"][dataset]["pooled"]
        rows = [row for row in read_rows(folder / f"{dataset}.jsonl") if row["tier"] == tier]
        ours = distribution([scylla_row_to_event(row, dataset) for row in rows], metric)["mode"]
        said = theirs["by_score"]["tiers"][tier][metric]["mode"]
        return told(f"{dataset}, {tier}", f"mode of {metric}", said, ours)


def one(kind: str, case_id: str) -> Case:
    (case,) = (case for case in cases(kind) if case.id == case_id)
    return case


def told(where: str, field: str, theirs: Any, ours: Any) -> str:
    assert theirs != ours, f"{where}: {field} is no example of a difference"
    return f"{where}, `{field}`: theirs {shown(theirs)}, ours {shown(ours)}."


def shown(value: Any) -> str:
    """A value as in JSON; floats to six digits."""
    if isinstance(value, str) and value.startswith("nothing"):
        return value
    if isinstance(value, float):
        return f"{value:.6g}" if value in (float("inf"), float("-inf")) else json.dumps(float(f"{value:.6g}"))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {shown(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def document() -> str:
    """The whole document."""
    examples = Examples()
    titles = {stored.ruling: stored.title for stored in prose.DIFFERENCES}
    parts = [prose.HEAD, opening(examples.trials, titles, prose.IN_SHORT), prose.DETAILS]
    parts += [section(examples, stored) for stored in prose.DIFFERENCES]
    parts += [scylla.HEAD, *(section(examples, stored, "ProjectScylla") for stored in scylla.DIFFERENCES)]
    return linked("\n".join([*parts, prose.HOW_CHECKED, how_many()]))


def section(examples: Examples, stored: Difference, harness: str = "fc-eval") -> str:
    """A difference with its examples."""
    lines = [f"- {getattr(examples, name)(*arguments)}" for name, *arguments in stored.examples]
    text = (
        f"### {stored.ruling}: {stored.title}\n\n**{harness}**: {stored.theirs}\n\n**Here**: {stored.ours}\n"
    )
    return text + ("\n" + "\n".join(lines) + "\n" if lines else "")


def how_many() -> str:
    """Ruling by ruling, how many answers it moves in the shared cases and run directories."""
    in_merges: Counter[str] = Counter()
    for stored, result in merge.DIFFERS.items():
        in_merges.update(dict.fromkeys(stored.split(), len(result.split())))
    in_runs: Counter[str] = Counter()
    for counted in SUB_TRIALS.values():
        for stored, number in counted.items():
            in_runs.update(dict.fromkeys(stored.split(), number))
    fields = {
        stored: sum(int(f.partition(":")[2]) for f in result.split())
        for stored, result in run.DIFFERS.items()
    }
    equal = sum(counted.get("", 0) for counted in SUB_TRIALS.values())
    whole = sum(sum(counted.values()) for counted in SUB_TRIALS.values())
    names = sorted({*in_merges, *in_runs, *fields}, key=in_order)
    rows = [f"| {n} | {in_merges[n]} | {in_runs[n]} | {fields.get(n, 0)} |" for n in names]
    return "\n".join(
        [
            "| ruling | sub-trials of merge cases | sub-trials of run directories | fields of run cases |",
            "|---|---|---|---|",
            f"| none: equal | {merge.EQUAL} of {merge.COMPARED} | {equal} of {whole} "
            f"| {run.EQUAL} of {run.COMPARED} |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
