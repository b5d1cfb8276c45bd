"""Runs in other formats: Every Eval Ever for a common record, JUnit XML for CI services.

Both use the rows of a data set (`streamer.operate.rows`), so their numbers equal the summary's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal
from uuid import UUID
from xml.etree import ElementTree as Xml

import orjson

from streamer import product_version
from streamer.operate.rows import Row, RunRows, claim, file_name
from streamer.schemas.base import encode_id
from streamer.schemas.events import NO_FAILURE
from streamer.statistics.pairs import GateVerdict
from streamer.text import shown, visible
from streamer.views.decide.gate import GateResult, gate_lines, sides_of

# -----------------------------------------------------------------------------
# Every Eval Ever (schema 0.3.0): for each agent:model one file about the whole, and one with a row a trial.


SCHEMA_VERSION = "0.3.0"

UNKNOWN = "unknown"

LEVEL = 0.95

PASSED = "pass_rate"

_TOKENS = ("input_tokens", "output_tokens")


def every_eval_ever(run: RunRows) -> Iterator[tuple[Path, bytes]]:
    """The files of a run with their places in a data store, data/BENCHMARK/DEVELOPER/MODEL/UUID.json.

    Only run and agent determine the names, so another export replaces the files. A trial without a verdict is
    a failure, as in the summary (R19). A trial with only numbers has rows for them (R31).
    """
    for agent in run.rows["agents"]:
        trials = [trial for trial in run.rows["trials"] if trial["agent_model"] == agent["agent_model"]]
        file = _Evaluation(run, agent, trials)
        yield file.path.with_name(f"{file.uuid}_samples.jsonl"), file.samples
        yield file.path, orjson.dumps(file.whole(), option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n"


class _Evaluation:
    def __init__(self, run: RunRows, agent: Row, trials: Sequence[Row]) -> None:
        self._run, self._agent = run.run, agent
        self.id = f"{encode_id(run.run.run_id)}/{agent['agent_model']}"  # the first slash ends the run
        self.name = run.run.benchmark or run.run.run_id
        self.uuid = _uuid(self.id)
        developer, _, model = str(agent["model"] or UNKNOWN).rpartition("/")
        place = [self.name, developer or UNKNOWN, model or UNKNOWN]
        self.path = Path("data", *map(file_name, place), f"{self.uuid}.json")
        rows = [row for trial in trials for row in self._rows(trial)]
        self.rows, self.samples = len(rows), b"".join(orjson.dumps(row) + b"\n" for row in rows)

    def _rows(self, trial: Row) -> Iterator[Row]:
        passed, scores = trial["success"], dict[str, tuple[float, bool | None]]()
        if passed is not None:
            scores[PASSED] = float(passed), bool(passed)
        for name, value in trial.items():
            if name.startswith("metrics/") and value is not None:
                scores[_result_id(name.removeprefix("metrics/"))] = value, None
        for result, (score, is_correct) in scores.items():
            yield self._row(trial, result, score, is_correct)

    def _row(self, trial: Row, result: str, score: float, is_correct: bool | None) -> Row:
        said = {name: str(trial[name]) for name in ("tier", "subtest", "shard") if trial[name]}
        failed = trial["failure_mode"] if trial["failure_mode"] not in NO_FAILURE else None
        row: Row = {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": self.id,
            "model_id": self._agent["model"] or UNKNOWN,
            "evaluation_name": self.name,
            "evaluation_result_id": result,
            "sample_id": trial["task_id"],
            "interaction_type": "agentic",
            "input": {"raw": trial["task_id"], "reference": []},
            "messages": [],
            "answer_attribution": [],
            "evaluation": {"score": score, "is_correct": is_correct is True},
            "metadata": {"epoch": str(trial["attempt"]), "agent": self._agent["agent"]} | said,
        }
        if is_correct is None:
            row["metadata"]["is_correct_applicable"] = "false"
        if None not in (counts := [trial[name] for name in _TOKENS]):
            row["token_usage"] = dict(zip(_TOKENS, counts, strict=True)) | {"total_tokens": sum(counts)}
        if failed is not None:
            row["error"] = f"{failed}: {trial['message']}" if trial["message"] else failed
        return row

    def whole(self) -> Row:
        run, agent = self._run, self._agent
        at = "" if run.last_event_at is None else str(int(run.last_event_at.timestamp()))
        started = {} if run.started_at is None else {"evaluation_timestamp": str(run.started_at.timestamp())}
        results = [self._result(PASSED, agent["statistics"]["pass_rate"], {"direction": "higher"})]
        results += [self._result(_result_id(name), of, of) for name, of in agent["metrics"].items()]
        harness = {"name": run.harness or UNKNOWN, "version": run.provenance.get("harness_version", UNKNOWN)}
        by = {"streamer": product_version(), "semantics_version": str(run.semantics_version)}
        return started | {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": self.id,
            "retrieved_timestamp": at or "0",
            "source_metadata": {
                "source_name": run.display_name or run.run_id,
                "source_type": "evaluation_run",
                "source_organization_name": UNKNOWN,
                "evaluator_relationship": "other",
            },
            "eval_library": harness | {"additional_details": by | {"digest": agent["digest"]}},
            "model_info": {
                "name": agent["model"] or UNKNOWN,
                "id": agent["model"] or UNKNOWN,
                "additional_details": {
                    "deployment_type": UNKNOWN,
                    "model_availability": UNKNOWN,
                    "agent": agent["agent"],
                },
            },
            "evaluation_results": [one for one in results if one is not None],
            "detailed_evaluation_results": {
                "format": "jsonl",
                "file_path": str(self.path.with_name(f"{self.uuid}_samples.jsonl")),
                "hash_algorithm": "sha256",
                "checksum": sha256(self.samples).hexdigest(),
                "total_rows": self.rows,
            },
        }

    def _result(self, name: str, of: Mapping[str, Any], reading: Mapping[str, Any]) -> Row | None:
        if not of["count"] or of["mean"] is None:
            return None
        bounds = (0.0, 1.0) if name == PASSED else ("-Infinity", "Infinity")
        uncertainty: Row = {"num_samples": of["count"]}
        if of["std_dev"] is not None:
            uncertainty["standard_deviation"] = of["std_dev"]
        if of["standard_error"] is not None:
            method = "clustered by task"
            uncertainty["standard_error"] = {"value": of["standard_error"], "method": method}
            ends = {"lower": of["low"], "upper": of["high"], "confidence_level": LEVEL, "method": method}
            uncertainty["confidence_interval"] = ends
        run, unit = self._run, "proportion" if name == PASSED else reading["unit"]
        dataset = {"dataset_name": self.name, "source_type": "other"}
        config = {
            "metric_name": reading.get("label") or name,
            **({"metric_unit": unit} if unit else {}),
            "lower_is_better": reading["direction"] == "lower",
            "score_type": "continuous",
            "min_score": bounds[0],
            "max_score": bounds[1],
        }
        details = {
            "trials": str(self._agent["trials"]),
            "provisional": str(self._agent["provisional"]).lower(),
        }
        return {
            "evaluation_result_id": name,
            "evaluation_name": self.name,
            "source_data": dataset
            | ({"additional_details": {"version": run.benchmark_version}} if run.benchmark_version else {}),
            "metric_config": config,
            "score_details": {"score": of["mean"], "details": details, "uncertainty": uncertainty},
        }


def _uuid(name: str) -> UUID:
    """A UUID of version 4, as the format requires, derived from a name.

    >>> _uuid("a") == _uuid("a"), _uuid("a").version
    (True, 4)
    """
    return UUID(bytes=sha256(name.encode()).digest()[:16], version=4)


def _result_id(metric: str) -> str:
    return f"metric:{metric}" if metric == PASSED else metric


# -----------------------------------------------------------------------------
# JUnit XML: a suite for each agent:model, a case for each task.


_CONTROL = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(run: RunRows) -> bytes:
    """The run as JUnit XML, with all agents and tasks of the plan from the beginning.

    A task that an agent passed in some attempt is flaky, not failed, and its output says so. A task that only
    the infrastructure failed is an error, and one without a verdict or result is skipped.
    """
    root = Xml.Element("testsuites", name=_plain(run.run.display_name or run.run.run_id))
    seen = [agent["agent_model"] for agent in run.rows["agents"]]
    for label in sorted({*seen, *run.agents}):
        root.append(_suite(label, [_case(label, *one) for one in _by_task(run, label)]))
    return _as_file(root)


def gate_junit(result: GateResult) -> bytes:
    name = " against ".join(shown(side.run_id) for side in sides_of(result))
    case = Xml.Element("testcase", classname="streamer gate", name=_plain(name), time="0")
    head, *said = gate_lines(result)
    if result.verdict is not GateVerdict.PASS:
        why = Xml.SubElement(case, "skipped", message=_plain(head))
        why.text = _plain("\n".join(said))
        if result.verdict is GateVerdict.FAIL:
            why.tag, why.attrib["type"] = "failure", "gate"
    root = Xml.Element("testsuites", name="streamer gate")
    root.append(_suite("gate", [case]))
    return _as_file(root)


def _suite(name: str, cases: Sequence[Xml.Element]) -> Xml.Element:
    counts = {
        attribute: str(sum(case.find(tag) is not None for case in cases))
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    suite = Xml.Element("testsuite", {"name": _plain(name), "tests": str(len(cases)), **counts})
    suite.extend(cases)
    return suite


def _as_file(root: Xml.Element) -> bytes:
    Xml.indent(root)
    content: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


_Task = tuple[str, str, str]


def _by_task(run: RunRows, label: str) -> list[tuple[str, list[Row]]]:
    trials: dict[_Task, list[Row]] = {}
    if not any(row["subtest"] for row in run.rows["trials"]):  # those the plan does not tie to tasks
        trials = {(tier or "", "", task): [] for tier, task in run.planned}
    for row in run.rows["tasks"]:
        if row["agent_model"] == label:
            trials.setdefault(_task(row), [])
    for row in run.rows["trials"]:
        if row["agent_model"] == label:
            trials.setdefault(_task(row), []).append(row)
    return [(" / ".join(filter(None, task)), of) for task, of in sorted(trials.items())]


def _task(row: Row) -> _Task:
    return row["tier"] or "", row["subtest"] or "", row["task_id"]


def _case(label: str, task: str, trials: Sequence[Row]) -> Xml.Element:
    case = Xml.Element("testcase", classname=_plain(label), name=_plain(task))
    if seconds := [of for trial in trials if (of := trial["duration_seconds"]) is not None]:
        case.set("time", f"{sum(seconds):.3f}")
    passed = sum(trial["success"] is True for trial in trials)
    broken = [trial for trial in trials if trial["infrastructure_failure"]]
    judged = [trial for trial in trials if trial["success"] is not None and trial["resolved"] is not None]
    own = [trial for trial in judged if trial not in broken]
    if passed:
        if passed < len(trials):
            Xml.SubElement(case, "system-out").text = f"flaky: {passed} of {len(trials)} attempts passed"
    elif own:
        _told(case, "failure", own[-1], f"0 of {len(trials)} attempts passed")
    elif broken:
        _told(case, "error", broken[-1], "the infrastructure failed")
    else:
        Xml.SubElement(case, "skipped", message="no verdict" if trials else "no result yet")
    return case


def _told(case: Xml.Element, tag: str, trial: Row, message: str) -> None:
    mode = trial["failure_mode"] if trial["failure_mode"] not in NO_FAILURE else None
    about = f"{message}: {mode}" if mode else message
    Xml.SubElement(case, tag, message=_plain(about), type=_plain(mode or tag)).text = _plain(
        trial["message"] or ""
    )


def _plain(text: str) -> str:
    return _CONTROL.sub("", "\n".join(map(visible, text.split("\n"))))


# -----------------------------------------------------------------------------
# The files of several runs, each written in one step.


def write_files(out: Path, runs: Iterable[RunRows], chosen: Literal["every-eval-ever", "junit"]) -> int:
    """Write the files of these runs, each whole or not at all; returns their number. Raises NotOurs."""
    claim(out)
    count = 0
    for run in runs:
        named = Path(f"{file_name(run.run.run_id)}.xml")
        for place, content in every_eval_ever(run) if chosen != "junit" else [(named, junit(run))]:
            file = out / place
            file.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=file.parent, prefix=".", delete=False) as aside:
                aside.write(content)
            Path(aside.name).chmod(0o644)
            Path(aside.name).replace(file)
            count += 1
    return count
