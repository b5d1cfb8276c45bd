"""The numbers of docs/compatibility.md: its tables, and the examples of each ruling; the prose stays.

`python -m tests.conformance.make_compatibility` writes them; a test holds the page to what the cases say.
fc-eval's numbers are what its code computed, ours come from a fold.
"""

from __future__ import annotations

import json
import re
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
from tests.conformance import formulacode_run_directories as runs
from tests.conformance import test_compatibility as merge
from tests.conformance import test_formulacode_parse as run
from tests.conformance.compatibility_shares import in_order, shares
from tests.conformance.fc_run_differences import SUB_TRIALS
from tests.conformance.fc_runs import trials, unpacked
from tests.conformance.folds import folded, summaries
from tests.conformance.formulacode_rules import sub_trials
from tests.conformance.group_rules import distribution
from tests.house.citations import linked
from tests.support.data import shared_data
from tests.support.formulacode_cases import Case, cases
from tests.support.rows import read_rows, scylla_row_to_event

GPT_5, GPT_5_DATED = "terminus-2:openai/gpt-5", "terminus-2:openai/gpt-5-2025-08-07"

EXAMPLES: dict[str, tuple[tuple[Any, ...], ...]] = {
    "R1": (
        ("sub_trial", "merge-0230", 3, "trajectory_length"),
        ("aggregate", "run-0044", GPT_5, "mean_speedup"),
    ),
    "R2": (("whole_run", "fc-multi-of-one", "total_cost"), ("whole_run", "fc-rough", "total_cost")),
    "R3": (
        ("trial", "fc-single-terminus", "astropy_astropy_sin3.1-of-1", GPT_5, "agent_advantage"),
        ("whole_run", "fc-single-terminus", "agent_advantage_level1", GPT_5),
    ),
    "R4": (("trial", "fc-single-nop", "astropy_astropy_sin2.1-of-1", "nop:nop", "fallback_to_baseline"),),
    "R5": (
        ("sub_trial", "merge-0007", 3, "success"),
        ("sub_trial", "merge-0007", 3, "task_speedup"),
        ("trial", "fc-nop-oracle-gpt5", "scikit-learn_scikit-learn_nop39.1-of-1", GPT_5, "success"),
    ),
    "R6": (("snapshot_failures", "parse-0000"),),
    "R7": (
        ("sub_trial", "merge-0202", 3, "num_valid_benchmarks"),
        ("sub_trial", "merge-0043", 1, "agent_advantage"),
    ),
    "R8": (
        ("whole_run", "fc-single-terminus", "mean_cost_per_task", GPT_5),
        ("whole_run", "fc-single-terminus", "mean_trajectory_length", GPT_5),
    ),
    "R10": (
        ("merged", "merge-0098", ("parser_extra_metrics", "speedup_percentage"), "mean_speedup_percentage"),
    ),
    "R11": (("pass_at_k", "fc-two-attempts"), ("pass_at_k", "fc-nop-oracle-gpt5")),
    "R18": (
        ("aggregate", "run-0048", GPT_5, "mean_speedup"),
        ("aggregate", "run-0049", GPT_5, "mean_trajectory_length"),
    ),
    "R20": (("aggregate", "run-0045", GPT_5, "mean_success_rate"),),
    "R21": (
        ("whole_run", "fc-single-terminus", "mean_speedup", GPT_5),
        ("whole_run", "fc-multi-of-one", "mean_success_rate", GPT_5_DATED),
        ("sub_trial", "merge-0128", 3, "agent_advantage"),
    ),
    "R22": (("metrics", "speedups-0032", "task_speedup"), ("metrics", "speedups-0032", "agent_advantage")),
    "R25": (("aggregate", "run-0035", "oracle:oracle", "cost_weighted_advantage"),),
    "R28": (("whole_run", "fc-no-oracle-same-framework", "accuracy"), ("whole_run", "fc-rough", "accuracy")),
    "B4": (("parse_error", "parse-0115"), ("parse_error", "parse-0118"), ("parse_error", "parse-0088")),
    "D3": (("merged", "merge-0242", ("total_cost",), "total_cost"),),
    "D8": (
        ("trial", "fc-nop-oracle-gpt5", "pandas_dev-pandas_nop4.1-of-1", GPT_5, "task_speedup"),
        ("whole_run", "fc-nop-oracle-gpt5", "mean_speedup", GPT_5),
    ),
    "D16": (("lost_trial", "merge-0237"),),
    "R15": (("scylla_mode", "haiku_n3", "T0", "cost_usd"), ("scylla_mode", "haiku_n3", "T3", "cost_usd")),
}
"""Ruling -> methods of `Examples`, each with its arguments."""

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
        case = one("merge", case_id)
        sub = sub_trials(case)[index - 1]
        ours = merge.folded_case(case_id)[0][sub.key]["formulacode"] or {}
        theirs = merge.payload_of(case, sub)
        said = theirs[field] if theirs else "nothing (no such entry)"
        return compared(f"{case_id}, `{sub.key}`", field, said, ours.get(field))

    def merged(self, case_id: str, theirs_at: Iterable[str], ours_at: str) -> str:
        theirs: Any = one("merge", case_id).expected["merged"]
        for name in theirs_at:
            theirs = theirs[name]
        return compared(case_id, ours_at, theirs, merge.folded_case(case_id)[1][ours_at])

    def aggregate(self, case_id: str, key: str, field: str) -> str:
        case = one("run", case_id)
        summary = case.expected["agent_metrics_summary"].get(key, {})
        theirs = summary.get(field, "nothing (it raises an error)")
        ours = run.summary(key, run.by_agent(case, "agent_metrics_by_agent")[key])[field]
        return compared(f"{case_id}, `{key}`", field, theirs, ours)

    def trial(self, name: str, trial: str, key: str, field: str) -> str:
        (whole,) = (t for t in self.trials[name] if t.name.startswith(f"{trial}."))
        (ours,) = (
            s
            for s in self._scored[name]
            if (s["task_id"], s["attempt"], s["agent_model"]) == (whole.task_id, whole.attempt, key)
        )
        theirs = whole.payloads.get(key, {}).get(field)
        return compared(f"{name}, {trial}, `{key}`", field, theirs, ours["formulacode"][field])

    def whole_run(self, name: str, field: str, key: str | None = None) -> str:
        theirs = runs.expected()[name]["expected_from_run_results"]
        result = summaries(self.folding, "agent_model" if key else "run")
        ours = next(s for s in result if s["run_id"] == name and s.get("agent_model") == (key or s.get("-")))
        if key:
            theirs, ours = theirs["agent_metrics_summary"][key], ours["formulacode"]
        return compared(f"{name}{f', `{key}`' if key else ''}", field, theirs[field], ours[field])

    def pass_at_k(self, name: str) -> str:
        theirs = runs.expected()[name]["expected_from_run_results"]["pass_at_k"]
        ours = next(s for s in summaries(self.folding, "run") if s["run_id"] == name)["pass_at_k"]
        return compared(name, "pass_at_k", theirs, {k: stored["value"] for k, stored in ours.items()})

    def snapshot_failures(self, case_id: str) -> str:
        case = one("parse", case_id)
        (theirs,) = case.expected["extra_metrics"]["agent_metrics_by_agent"].values()
        ours = parse_log(case.input["text"]).snapshot["failed"]
        return compared(case_id, "snapshot_summary.failed", theirs["snapshot_summary"]["failed"], ours)

    def metrics(self, case_id: str, field: str) -> str:
        case = one("speedups", case_id)
        ours = task_metrics(case.input["per_benchmark_speedups"], fallback=False)
        values = {"task_speedup": ours.task_speedup, "agent_advantage": ours.advantages}
        return compared(case_id, field, case.expected["harness"][field], values[field])

    def lost_trial(self, case_id: str) -> str:
        case = one("merge", case_id)
        written = len(case.input["agent_results"]) if case.expected["written"] else 0
        return compared(case_id, "sub-trials counted", written, len(sub_trials(case)))

    def parse_error(self, case_id: str) -> str:
        """What we make of tests and snapshot where fc-eval's parser stumbles."""
        case = one("parse", case_id)
        assert case.expected["raised"]
        parsed = parse_log(case.input["text"])
        ours = {"tests": parsed.tests["status"], "snapshot": parsed.snapshot["status"]}
        return compared(case_id, "tests and snapshot", "nothing (it raises an error)", ours)

    def scylla_mode(self, dataset: str, tier: str, metric: str) -> str:
        folder = shared_data() / "scylla"
        theirs = json.loads((folder / "expected.json").read_text())["datasets"][dataset]["pooled"]
        rows = [row for row in read_rows(folder / f"{dataset}.jsonl") if row["tier"] == tier]
        ours = distribution([scylla_row_to_event(row, dataset) for row in rows], metric)["mode"]
        said = theirs["by_score"]["tiers"][tier][metric]["mode"]
        return compared(f"{dataset}, {tier}", f"mode of {metric}", said, ours)


def one(kind: str, case_id: str) -> Case:
    (case,) = (case for case in cases(kind) if case.id == case_id)
    return case


def compared(where: str, field: str, theirs: Any, ours: Any) -> str:
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


def document(page: str) -> str:
    """The page with its numbers worked out again."""
    examples = Examples()
    sections = re.split(r"^(?=##)", page, flags=re.MULTILINE)
    titles: dict[str, str] = dict(re.findall(r"^### (\w+): (.*)$", page, re.MULTILINE))
    assert EXAMPLES.keys() <= titles.keys()
    counts, tables = shares(examples.trials, titles)
    text = "".join(with_examples(examples, section) for section in sections)
    for count in counts:
        text, found = re.subn(re.sub(r"\d+", r"\\d+", count), count, text)
        assert found == 1, count
    fresh = iter([*tables, how_many()])
    return linked(re.sub(r"(?:^\|.*\n)+", lambda _: next(fresh), text, flags=re.MULTILINE))


def with_examples(examples: Examples, section: str) -> str:
    """A section on a ruling ends in its examples."""
    ruling = re.match(r"### (\w+): ", section)
    if ruling is None:
        return section
    lines = [f"- {getattr(examples, name)(*arguments)}" for name, *arguments in EXAMPLES.get(ruling[1], ())]
    parts = [section.partition("\n- ")[0].strip(), *(["\n".join(lines)] if lines else []), ""]
    return "\n\n".join(parts)


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
    head = "| ruling | sub-trials of merge cases | sub-trials of run directories | fields of run cases |"
    equals = f"{merge.EQUAL} of {merge.COMPARED} | {equal} of {whole} | {run.EQUAL} of {run.COMPARED}"
    return "\n".join([head, "|---|---|---|---|", f"| none: equal | {equals} |", *rows, ""])


if __name__ == "__main__":
    DOCUMENT.write_text(document(DOCUMENT.read_text("utf-8")), encoding="utf-8")
