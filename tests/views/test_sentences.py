"""Sentences that misled: what each surface said of an input before, and what it says now (inference, R19)."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from click.testing import CliRunner

from streamer.terminal import cli
from tests.house.repository import ROOT

Event = dict[str, Any]


class Case(NamedTuple):
    """One misleading input.

    Attributes:
        events: of one run, or of A and B; ids and types are filled in.
        command: what reads them.
        before: what was said, and was not true.
        now: what is said in its place.
    """

    events: list[Event]
    command: list[str]
    before: str
    now: str
    code: int = 0
    """Exit code of the command now."""


def trials(count: int, passes: int, **fields: Any) -> list[Event]:
    return [{"task_id": f"t{at}", "resolved": at < passes, **fields} for at in range(count)]


def sides(a: list[Event], b: list[Event]) -> list[Event]:
    """The trials of two runs that have ended."""
    runs = (("A", [*a, ENDED]), ("B", [*b, ENDED]))
    return [{**event, "run_id": run} for run, events in runs for event in events]


def plan(**fields: Any) -> Event:
    return {"type": "run_started", **fields}


def scored(at: int) -> Event:
    return {"type": "trial_scored", "task_id": f"t{at}", "score": 0.2}


def crashed(task: str) -> Event:
    return {"task_id": task, "resolved": None, "failure_mode": "agent_timeout"}


ENDED: Event = {"type": "run_finished"}

MIXED = [
    *trials(8, 8),
    *({"task_id": f"n{at}", "metrics": {"x": 1.0}} for at in range(11)),
    *trials(1, 0, agent="b"),
]

TIERS = [{**one, "tier": tier} for tier in ("T0", "T1") for one in trials(10, 4)]

FOLD = ["fold", "-"]
COMPARE = ["compare", "--files", "A.ndjson", "B.ndjson"]

CASES = {
    "a tiered run without a plan, all assumed trials in": Case(
        TIERS, FOLD, "has not said how many trials it plans", "the run declared no complete plan"
    ),
    "one agent in two tiers": Case(TIERS, FOLD, "pass@k by agent only", "pass@k within tiers"),
    "numbers without verdicts beside verdicts": Case(
        MIXED, FOLD, "all trials", "9 with a verdict resolved: all agents"
    ),
    "verdicts beside numbers: all of the latter have none": Case(
        MIXED, FOLD, "0 without a verdict, 19 tasks", "0 without a verdict, 11 with numbers alone, 19 tasks"
    ),
    "a pass rate over 8 of 19 trials": Case(
        MIXED, FOLD, "11 of 20 trials", "11 of 19 trials of a:m have numbers alone and no verdict"
    ),
    "a report of verdicts beside numbers": Case(
        MIXED,
        ["report", "--from", "-", "--format", "html"],
        "0 trials without a verdict<",
        "0 trials without a verdict, 11 with numbers alone<",
    ),
    "a mean over 11 of 19 trials": Case(
        MIXED, FOLD, "11 of 20 trials", "11 of 19 trials of a:m have x. Its mean is over these."
    ),
    "a cost that half of the trials lack": Case(
        [*trials(2, 1, cost_usd=1.0), *({**one, "attempt": 2} for one in trials(2, 1))],
        FOLD,
        "trials of a:m",
        "2 of 4 trials have a known cost. Its mean is over these.",
    ),
    "a cost that a trial of one label lacks": Case(
        [
            *trials(2, 1, cost_usd=1.0, labels={"k": "x"}),
            *({"task_id": f"t{at}", "labels": {"k": label}, "cost_usd": cost}
              for at, (label, cost) in enumerate((("x", None), ("y", 1.0)), start=2)),
        ],
        ["fold", "-", "--by", "label:k"],
        "2 of 3 trials",
        "3 of 4 trials have a known cost. Its mean is over these.",
    ),
    "an end that is called what the state says": Case(
        [plan(tasks=2, attempts=1), *trials(2, 1), {**ENDED, "status": "completed"}],
        FOLD,
        "complete (completed)",
        "· complete",
    ),
    "a run that ended short of its plan, in an undeclared order": Case(
        [plan(tasks=9, attempts=1), *trials(5, 2), {**ENDED, "status": "cancelled"}],
        FOLD,
        "so far",
        "40.0 % incomplete",
    ),
    "a run that ended short of its plan: its footnote": Case(
        [plan(tasks=9, attempts=1), *trials(5, 2), {**ENDED, "status": "cancelled"}],
        FOLD,
        "results are still missing",
        "incomplete: the run ended without all planned trials",
    ),
    "one judged trial of ten, after the end": Case(
        [plan(tasks=10, attempts=1), *trials(10, 6), scored(0), ENDED],
        FOLD,
        " F composite",
        "F (1 of 10 judged)",
    ),
    "one judged trial of ten, by a label": Case(
        [plan(tasks=10, attempts=1), *trials(10, 6, labels={"kind": "x"}), scored(0), ENDED],
        ["fold", "-", "--by", "label:kind"],
        "A judge scored 2 of 20 trials",
        "A judge scored 1 of 10 trials",
    ),
    "one judged trial of ten, by a subtest": Case(
        [*trials(10, 6, tier="T0", subtest="s"), {**scored(0), "tier": "T0", "subtest": "s"}, ENDED],
        ["fold", "-", "--by", "subtest"],
        "A judge scored 2 of 20 trials",
        "A judge scored 1 of 10 trials",
    ),
    "a tier that waits for its judge beside a judged one": Case(
        [plan(judged=True), *trials(10, 6, tier="T0", score=0.2), *trials(10, 6, tier="T1")],
        FOLD,
        "A judge scored 0 of 10 trials",
        "A judge scored 10 of 20 trials",
    ),
    "a complete run that waits for all its scores": Case(
        [plan(tasks=10, attempts=1, judged=True), *trials(10, 6), ENDED],
        FOLD,
        "a:m 60.0 % F",
        "A judge scored 0 of 10 trials",
    ),
    "a report of a complete run that waits for all its scores (R13)": Case(
        [plan(tasks=10, attempts=1, judged=True), *trials(10, 6), ENDED],
        ["report", "--from", "-"],
        "| F",
        "A judge scored 0 of 10 trials",
    ),
    "a finished run in which a trial has no verdict": Case(
        [plan(tasks=10, attempts=1, order_kind="shuffled"), *trials(9, 4), crashed("t9"), ENDED],
        FOLD,
        "40.0 % [",
        "40.0 % 10 of 10",
    ),
    "an evaluation of numbers alone": Case(
        [{"task_id": f"t{at}", "metrics": {"x": 0.5}} for at in range(8)],
        FOLD,
        "0.0 %",
        "8 trials, no verdicts: 8 tasks, cost",
    ),
    "a report of numbers alone": Case(
        [{"task_id": f"t{at}", "metrics": {"x": 0.5}} for at in range(8)],
        ["report", "--from", "-", "--format", "html"],
        "0 trials without a verdict",
        "8 trials, no verdicts",
    ),
    "a score of 85": Case(
        [*trials(2, 1), {"task_id": "t2", "resolved": True, "score": 85}],
        FOLD,
        "composite 1",
        "1 score outside 0 to 1 not counted",
    ),
    "a later result that lost the verdict": Case(
        [*trials(1, 1, cost_usd=1.0), {"task_id": "t0", "revision": 1}],
        FOLD,
        "0 conflicts; grades by profile specified Agents",
        "1 result without the verdict or cost of an earlier event",
    ),
    "a run that asks for no grades": Case(
        [plan(grading_profile="none"), *trials(10, 4, tier="T0")], FOLD, "40.0 % F", "grades by profile none"
    ),
    "bounds of a run that was broken off": Case(
        [plan(tasks=9, attempts=1, order_kind="chosen"), *trials(5, 2), {**ENDED, "status": "cancelled"}],
        FOLD,
        "the final pass rate cannot leave this range",
        "once all planned trials have results, the pass rate is in this range",
    ),
    "a p in every row": Case(
        sides(trials(20, 12), trials(20, 8)), COMPARE, "ithout p", "p: exact sign test"
    ),
    "two tasks that only one side passes": Case(
        sides(trials(2, 2), trials(2, 0)), COMPARE, "no difference", "no interval, so no conclusion", 3
    ),
    "different tasks of a run that goes on": Case(
        [*sides(trials(9, 9), []), *sides([], [plan(tasks=12, attempts=1), *trials(4, 2)])[:-1]],
        COMPARE,
        "50.0 % of all its 12",
        "B passes 50.0 % of these and 50.0 % of the 4 with verdicts of its 12",
        3,
    ),
    "a gate on a metric of three tasks, after the end": Case(
        sides(trials(3, 3, metrics={"x": 1.0}), trials(3, 3, metrics={"x": 1.0})),
        ["gate", "A.ndjson", "--against", "B.ndjson", "--metric", "metrics/x"],
        "open until all trials are final",
        "an interval needs all trials of 10 tasks where both sides have metrics/x",
    ),
}  # fmt: skip


SLOT = {"type": "trial_result", "run_id": "r", "agent": "a", "model": "m"}


def ndjson(events: Iterable[Event]) -> bytes:
    return b"\n".join(orjson.dumps(SLOT | event) for event in events)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_was_said_of_a_misleading_input_is_no_longer_said(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for run in ("A", "B"):
        Path(f"{run}.ndjson").write_bytes(ndjson(one for one in case.events if one.get("run_id") == run))
    output = CliRunner().invoke(cli, case.command, input=ndjson(case.events), env={"COLUMNS": "300"})
    assert output.exit_code == case.code, output.output
    said = " ".join(output.output.split())
    assert case.before not in said
    assert case.now in said


# -----------------------------------------------------------------------------
# Every text of a surface that shows results was read in the state in which it appears.
#
# texts.toml lists the texts by that state. A new text fails here until somebody has read it so, too.


REVIEWED = Path(__file__).with_name("texts.toml")

SURFACES = (
    "streamer/views/*.py",
    "streamer/views/*/*.py",
    "streamer/terminal/boards.py",
    "streamer/terminal/compare.py",
    "streamer/terminal/query.py",
    "streamer/terminal/watch/*.py",
    "streamer/operate/notice_rules.py",
    "streamer/web/answers.py",
    "streamer/web/boards.py",
    "streamer/web/opened.py",
    "streamer/web/report.py",
    "streamer/web/static/js/**/*.js",
)

UNREAD = (
    "Read each in the state in which it appears. Is it true there, in a run that goes on, has ended, ended "
    "short, has no plan, has tiers, has no verdicts? Then add it to tests/views/texts.toml below that state."
)

_NO_PROSE = re.compile(r"(?m)^\s*//.*$|\s// .*$|^import .*$")
_JAVASCRIPT = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
_FILLED = re.compile(r"\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")


def texts_of(path: Path) -> Iterator[str]:
    """The texts of a file with four words or more; `{}` stands for what is filled in."""
    source = path.read_text(encoding="utf-8")
    found = python_texts(ast.parse(source)) if path.suffix == ".py" else javascript_texts(source)
    for text in found:
        if " " in text.strip() and "{ " not in text and len(re.findall(r"[A-Za-z]{2,}", text)) >= 4:
            yield text


def python_texts(tree: ast.Module) -> Iterator[str]:
    """All but docstrings, descriptions of fields, and errors, which other tests read."""
    left_out: set[int] = set()
    for node in ast.walk(tree):
        prose = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        described = isinstance(node, ast.keyword) and node.arg == "description"
        called = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("optional", "described")
        if prose or described or called or isinstance(node, ast.Raise):
            left_out.update(map(id, ast.walk(node)))
        if isinstance(node, ast.JoinedStr):
            left_out.update(map(id, node.values))
    for node in ast.walk(tree):
        if id(node) not in left_out and isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
        elif id(node) not in left_out and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def javascript_texts(source: str) -> Iterator[str]:
    for quoted, template in _JAVASCRIPT.findall(_NO_PROSE.sub("", source)):
        yield quoted or _FILLED.sub("{}", template)


def test_every_text_was_read_in_the_state_in_which_it_appears() -> None:
    reviewed = {text for one in tomllib.loads(REVIEWED.read_text())["state"] for text in one["texts"]}
    current = {text for pattern in SURFACES for path in ROOT.glob(pattern) for text in texts_of(path)}
    assert current - reviewed == set(), UNREAD
    assert reviewed - current == set(), "these are in no surface any more: take them off the list"
