"""May two sides be compared (R36, inference 10)? Every surface names a difference, unless it was declared."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from html import unescape
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.provenance import HARNESS_CHANGING, Made, normalised
from streamer.schemas.summaries import TasksOfRun
from streamer.terminal import cli
from streamer.views.decide.comparable import Comparability, comparable
from streamer.views.decide.leaderboard import BenchmarkBoard, boards_of, with_words
from tests.support.board_runs import a_night, board_runs
from tests.support.builders import present
from tests.support.events import Event, a_plan, a_retraction, a_trial, folded
from tests.terminal.calling import ndjson

TASKS = [f"t{number:02}" for number in range(10)]
UNCOMPARABLE = 3
NOW = datetime(2026, 2, 1, tzinfo=UTC)


def a_run(
    run: str, day: int, agent: str = "a", trials: dict[str, str] | None = None, **plan: Any
) -> list[Event]:
    """A finished run of ten tasks, of which the first six pass; `trials` is every trial's own provenance."""
    own = {} if trials is None else {"provenance": trials}
    at = {"run_id": run, "agent": agent, "model": "m"}
    return [
        a_plan(run_id=run, tasks=TASKS, attempts=1, benchmark="tb", **plan),
        *(a_trial(task_id=task, resolved=task < "t06", **at, **own) for task in TASKS),
        {"type": "run_finished", "run_id": run, "finished_at": f"2026-01-0{day}T00:00:00Z"},
    ]


def of_tasks(events: list[Event], count: int, **provenance: str) -> list[Event]:
    """The same events; so many trials have another provenance."""
    own = {"provenance": provenance}
    return [e | own if e.get("task_id") in TASKS[:count] else e for e in events]


class Sides(NamedTuple):
    """Two runs as files, and as events."""

    folder: Path
    a: list[Event]
    b: list[Event]

    @classmethod
    def of(cls, folder: Path, a: list[Event], b: list[Event]) -> Sides:
        for name, events in (("a", a), ("b", b)):
            (folder / f"{name}.ndjson").write_bytes(ndjson(events))
        return cls(folder, a, b)

    def call(self, *arguments: str) -> Result:
        files = {"A": str(self.folder / "a.ndjson"), "B": str(self.folder / "b.ndjson")}
        return CliRunner().invoke(cli, [files.get(one, one) for one in arguments])

    def compare(self, *options: str) -> Result:
        return self.call("compare", "--files", "A", "B", *options)

    def gate(self, *options: str) -> Result:
        """B is the candidate, so that it stands first."""
        return self.call("gate", "B", "--against", "A", *options)

    def codes(self, *options: str) -> tuple[int, int]:
        return self.compare(*options).exit_code, self.gate(*options).exit_code

    def answers(self) -> tuple[Any, Any]:
        return json.loads(self.compare("--json").stdout), json.loads(self.gate("--json").stdout)

    def board(self) -> BenchmarkBoard:
        [board] = with_words(boards_of(board_runs([*self.a, *self.b]), "pass_rate", NOW))
        return board

    def surfaces(self) -> dict[str, str]:
        """What every surface that compares says: terminal, JSON, Markdown, HTML, the page's answer."""
        markdown = self.folder / "gate.md"
        said = {
            **{form: self.compare("--format", form).output for form in ("text", "json", "md", "html")},
            "gate": self.gate("--markdown", str(markdown)).output,
            "gate --json": self.gate("--json").output,
            "leaderboard": "\n".join(self.board().notes),
            "gate --markdown": markdown.read_text("utf-8"),
        }
        return {surface: " ".join(unescape(text).replace("\\", "").split()) for surface, text in said.items()}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("timeout", ["600", "600.0", "10m", "600s", "10 min", "600 seconds"]),
        ("timeout", ["3600", "1h", "60m", "1h 0m"]),
        ("timeout_multiplier", ["2", "2.0", "2.00", "2e0"]),
        ("resources", ["cpus=2,memory_mb=4096", "memory_mb=4096.0; cpus=2.0"]),
        ("limits", ["time=10m, messages=50", "messages=50,time=600"]),
        ("seed", ["7", "7.0"]),
        ("task_digest", ["sha256:ABC0", "abc0"]),
        ("limits", ["10m", "600", "10 min"]),
        ("timeout", ["600", "600, 600.0", "10m, 600"]),
    ],
)
def test_values_that_mean_the_same_are_equal(name: str, values: list[str]) -> None:
    assert len({normalised(name, value) for value in values}) == 1


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("dataset_version", "1.1", "1.10"),
        ("harness_version", "2", "2.0"),
        ("limits", "tokens=10m", "tokens=600"),
        ("resources", "memory=10m", "memory=600"),
        ("timeout", "10m", "10h"),
        ("timeout", "nan", "600"),
        ("timeout", "1e400", "600"),
    ],
)
def test_values_that_differ_stay_different(name: str, one: str, other: str) -> None:
    assert normalised(name, one) != normalised(name, other)


class Planted(NamedTuple):
    """A field in which two runs differ, or all of their trials do."""

    name: str
    a: str
    b: str
    of_trials: bool = False

    def __str__(self) -> str:
        return f"{self.name}{' of trials' * self.of_trials}"

    def sides(self, folder: Path) -> Sides:
        field = "trials" if self.of_trials else "provenance"
        own: list[dict[str, Any]] = [{field: {self.name: value}} for value in (self.a, self.b)]
        return Sides.of(folder, a_run("A", 1, **own[0]), a_run("B", 2, "b", **own[1]))


PLANTED = [
    Planted("timeout", "600", "20m"),
    Planted("timeout_multiplier", "1.0", "2.0"),
    Planted("resources", "cpus=2,memory_mb=4096", "cpus=4,memory_mb=4096"),
    Planted("dataset", "terminal-bench", "terminal-bench-pro"),
    Planted("dataset_version", "1.1", "1.10"),
    Planted("judge", "openai/gpt-5", "anthropic/claude-opus-4-5"),
    Planted("judge_version", "2025-08-07", "2026-01-10"),
    Planted("limits", "messages=50", "messages=100"),
    Planted("timeout", "agent=600", "agent=900", of_trials=True),
    Planted("resources", "cpus=1", "cpus=2", of_trials=True),
    Planted("judge", "x", "y", of_trials=True),
    Planted("timeout_multiplier", "1", "1.5", of_trials=True),
    Planted("harness", "harbor", "terminal-bench"),
    Planted("harness_version", "0.25.0", "0.26.0"),
    Planted("model_served", "gpt-5-2025-08-07", "gpt-5-2026-01-10", of_trials=True),
    Planted("prices", "2026-01", "2026-02"),
    Planted("seed", "7", "8"),
    Planted("concurrency", "4", "32"),
    Planted("attempts", "1", "5"),
    Planted("temperature", "0", "1"),
]


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_every_surface_names_a_planted_difference(planted: Planted, tmp_path: Path) -> None:
    sides = planted.sides(tmp_path)
    name, a, b, _ = planted
    said = sides.surfaces()
    for surface in ("text", "json", "html", "md"):
        assert f"{name} {a} against {b}" in said[surface], surface
    for surface in ("gate", "gate --json", "gate --markdown"):
        assert f"{name} {b} against {a}" in said[surface], surface
    if name != "model_served":  # of two agents it differs by nature
        assert f"{name} differs among the runs: " in said["leaderboard"]
    is_refused = name in HARNESS_CHANGING
    compared, gated = sides.compare(), sides.gate()
    assert (compared.exit_code, gated.exit_code) == ((UNCOMPARABLE,) * 2 if is_refused else (0, 0))
    assert (f"--allow {name}" in compared.output) is (f"--allow {name}" in gated.output) is is_refused
    answer = json.loads(sides.compare("--json").stdout)
    assert (answer["refused"] == [name]) is is_refused
    assert (answer["ended"], answer["not_comparable"] is None) == (not is_refused, not is_refused)


@pytest.mark.parametrize("planted", [one for one in PLANTED if one.name in HARNESS_CHANGING], ids=str)
def test_what_is_allowed_is_named_and_judged(planted: Planted, tmp_path: Path) -> None:
    sides = planted.sides(tmp_path)
    for done in (sides.compare("--allow", planted.name), sides.gate("--allow", planted.name)):
        assert done.exit_code == 0, done.output
        assert planted.name in done.output
        assert "left out" not in done.output
    others = [name for name in sorted(HARNESS_CHANGING) if name != planted.name]
    allowed = [part for name in ("tasks", *others) for part in ("--allow", name)]
    assert sides.codes(*allowed) == (UNCOMPARABLE, UNCOMPARABLE)


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_no_surface_names_a_declared_variation(planted: Planted, tmp_path: Path) -> None:
    """`varies` of either run is enough."""
    (_, a, b), name = planted.sides(tmp_path), planted.name
    of_a, of_b = ([plan | {"varies": [name]}, *rest] for plan, *rest in (a, b))
    for one, other in ((of_a, b), (a, of_b)):
        declared = Sides.of(tmp_path, one, other)
        for surface, said in declared.surfaces().items():
            for words in (planted.a, planted.b, "differs"):
                assert f"{name} {words}" not in said, surface
        assert declared.codes() == (0, 0)


def test_what_one_side_alone_says_is_said_and_forbids_nothing(tmp_path: Path) -> None:
    sides = Sides.of(tmp_path, a_run("A", 1, provenance={"timeout": "600", "seed": "7"}), a_run("B", 2, "b"))
    assert "known of A alone: seed, timeout" in sides.compare().output
    assert "known of the baseline alone: seed, timeout" in sides.gate().output
    assert sides.codes() == (0, 0)
    assert sides.board().differences == ["unknown for some runs: seed, timeout"]
    silent = Sides.of(tmp_path, a_run("A", 1), a_run("B", 2, "b"))
    assert "known of" not in silent.compare().output + silent.gate().output
    ours, theirs = ({"agent": one, "model": one} for one in "ab")
    agents = Sides.of(tmp_path, a_run("A", 1, provenance=ours), a_run("B", 2, "b", provenance=theirs))
    assert "against" not in agents.compare().output, "agent and model are no difference"
    assert agents.board().differences == []


SAME = {"task_digest": "sha256:1", "timeout": "600"}


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"task_digest": "sha256:2"}, "task_digest differs in 3 of 10 common tasks: t00, t01, t02"),
        ({"timeout": "900"}, "timeout {} in 3 of 10 common tasks: t00, t01, t02"),
    ],
)
def test_tasks_that_differ_leave_the_pairs_and_are_named(
    field: dict[str, str], said: str, tmp_path: Path
) -> None:
    b = of_tasks(a_run("B", 2, "b", trials=SAME), 3, **SAME | field)
    sides = Sides.of(tmp_path, a_run("A", 1, trials=SAME), b)
    answer, verdict = sides.answers()
    assert said.format("600 against 900") in answer["words"]
    assert said.format("900 against 600") in verdict["words"]
    passes = answer["differences"]["pass_rate"]
    assert (answer["tasks"], answer["a"]["trials"], passes["tasks"], passes["mean"]) == (7, 7, 7, 0.0)
    assert answer["a"]["pass_rate"] == pytest.approx(3 / 7)
    assert (answer["left_out"], answer["ended"], answer["refused"]) == (TASKS[:3], True, [])
    pairs = verdict["pairs"]
    assert (pairs["planned"], pairs["tasks"], pairs["ties"], pairs["left_out"]) == (7, 7, 7, TASKS[:3])
    assert pairs["only_candidate"] == pairs["only_baseline"] == []
    assert (sides.codes(), verdict["verdict"]) == ((0, 0), "pass")
    assert "in common" in answer["in_common"]
    assert "different ones" not in str(answer)


@pytest.mark.parametrize(("count", "code"), [(5, 0), (6, UNCOMPARABLE)])
def test_fewer_than_half_are_not_comparable(count: int, code: int, tmp_path: Path) -> None:
    b = of_tasks(a_run("B", 2, "b", trials=SAME), count, **SAME | {"task_digest": "2"})
    sides = Sides.of(tmp_path, a_run("A", 1, trials=SAME), b)
    assert sides.codes() == (code, code)
    few = f"not comparable: only {10 - count} of 10 common tasks agree in task_digest"
    assert (few in sides.compare().output) is (few in sides.gate().output) is (code == UNCOMPARABLE)
    assert sides.codes("--allow", "task_digest") == (0, 0)


def test_fields_that_differ_in_different_tasks_share_one_sentence(tmp_path: Path) -> None:
    """Each field leaves 6 of 10 tasks, both together 2."""
    b = of_tasks(a_run("B", 2, "b", trials=SAME), 8, **SAME | {"timeout": "900"})
    b = of_tasks(b, 4, **SAME | {"task_digest": "2"})
    sides = Sides.of(tmp_path, a_run("A", 1, trials=SAME), b)
    said = (
        "not comparable: only 2 of 10 common tasks agree in task_digest and timeout; "
        "--allow task_digest --allow timeout judges these"
    )
    for done in (sides.compare(), sides.gate()):
        assert done.exit_code == UNCOMPARABLE
        assert said in done.output


@pytest.mark.parametrize(("known", "differ"), [(6, 4), (6, 5), (8, 6)])
@pytest.mark.parametrize("is_named", [True, False], ids=["tasks named", "tasks counted"])
def test_while_a_run_goes_on_the_half_is_one_of_planned_tasks(
    known: int, differ: int, is_named: bool, tmp_path: Path
) -> None:
    """Inference 7 and 10: a pair is what both sides plan. `compare` and `gate` refuse the same."""
    a = a_run("A", 1, trials=SAME)
    plan, *trials = of_tasks(a_run("B", 2, "b", trials=SAME), differ, **SAME | {"task_digest": "2"})
    b = [plan if is_named else plan | {"tasks": len(TASKS)}, *trials[:known]]
    answer, verdict = Sides.of(tmp_path, a, b).answers()
    is_refused = differ > 5
    assert answer["refused"] == verdict["refused"] == ["task_digest"] * is_refused
    left_out = [] if is_refused else TASKS[:differ]
    assert answer["left_out"] == verdict["pairs"]["left_out"] == left_out
    listed = ", ".join(TASKS[: min(differ, 5)]) + (" and 1 more" if differ > 5 else "")
    said = f"task_digest differs in {differ} of 10 common tasks: {listed}"
    assert (said in answer["words"]) is (said in verdict["words"]) is True


def test_the_help_says_why_there_may_be_no_verdict() -> None:
    outputs = (CliRunner().invoke(cli, [name, "--help"]).output for name in ("compare", "gate"))
    compare, gate = (" ".join(output.split()) for output in outputs)
    for said in (compare, gate):
        assert "the sides ran different tasks or were made in different ways" in said
    assert "With --race, 0 means the race is over" in gate


def test_a_trials_field_replaces_that_of_its_run(tmp_path: Path) -> None:
    """The runs differ, and all trials of one say what the other run says: nothing differs."""
    a = a_run("A", 1, provenance={"timeout": "600"})
    b = a_run("B", 2, "b", trials={"timeout": "10m"}, provenance={"timeout": "900"})
    assert Sides.of(tmp_path, a, b).codes() == (0, 0)
    some = [e | {"provenance": {}} if e.get("task_id") == "t09" else e for e in b]
    assert Sides.of(tmp_path, a, some).codes() == (UNCOMPARABLE, UNCOMPARABLE)
    own = Sides.of(tmp_path, a_run("A", 1, trials={"timeout": "600"}, provenance={"timeout": "300"}), b)
    assert own.codes() == (0, 0)
    assert "timeout" not in own.compare().output + own.gate().output


def test_agents_of_one_run_share_its_provenance_and_their_trials_may_differ(tmp_path: Path) -> None:
    plan = {"agent_models": ["a:m", "b:m"], "provenance": {"timeout": "600"}}
    of_a, of_b = a_run("R", 1, **plan), a_run("R", 1, "b", **plan)
    slower = of_tasks(of_b, 2, timeout="900")
    file = f"{tmp_path}/a.ndjson"
    for events, left_out in (([*of_a, *of_b[1:]], []), ([*of_a, *slower[1:]], ["t00", "t01"])):
        sides = Sides.of(tmp_path, events, events)
        done = sides.call("compare", "--files", "A", "A", "--a-agent", "a:m", "--b-agent", "b:m", "--json")
        answer = json.loads(done.stdout)
        assert answer["left_out"] == left_out
        assert any("tasks like these" in one for one in answer["words"])
        gate = sides.call("gate", f"{file}/b:m", "--against", f"{file}/a:m", "--json")
        pairs = json.loads(gate.stdout)["pairs"]
        assert (pairs["left_out"], pairs["planned"]) == (left_out, 10 - len(left_out))
        assert done.exit_code == gate.exit_code == 0


def test_a_task_without_a_result_is_not_made_in_another_way_yet(tmp_path: Path) -> None:
    """Inference 10: what a trial will say is unknown, though its run says something of all trials."""
    trials, plan = {"timeout": "900"}, {"provenance": {"timeout": "600"}}
    of_a, of_b = (a_run(run, day, trials=trials, **plan) for run, day in (("A", 1), ("B", 2)))
    answer, gate = Sides.of(tmp_path, of_a, of_b[:5]).answers()
    assert (answer["refused"], answer["left_out"], answer["tasks"]) == ([], [], 4)
    assert (gate["refused"], gate["pairs"]["left_out"], gate["pairs"]["planned"]) == ([], [], 10)


def test_numbers_without_verdicts_have_their_trials_provenance(tmp_path: Path) -> None:
    """R31: such trials are in no pass rate, and yet a task's digest counts."""

    def numeric(run: str, agent: str, **provenance: str) -> list[Event]:
        events = of_tasks(a_run(run, 1, agent, trials=SAME), 3, **SAME | provenance)
        more = {"resolved": None, "metrics": {"x": 0.5}}
        return [e | more if e["type"] == "trial_result" else e for e in events]

    sides = Sides.of(tmp_path, numeric("A", "a"), numeric("B", "b", task_digest="2"))
    answer = json.loads(sides.compare("--json").stdout)
    assert answer["left_out"] == TASKS[:3]
    assert answer["differences"]["metrics/x"]["tasks"] == 7


def test_attempts_of_a_task_that_differ_stand_side_by_side() -> None:
    a = Made({}, {"t": {"timeout": "600, 900"}, "u": {}})
    assert comparable(a, Made({}, {"t": {"timeout": "900,600.0"}, "u": {}})) == Comparability()
    result = comparable(a, Made({}, {"t": {"timeout": "900"}, "u": {}}))
    assert result.left_out == {"t"}


@pytest.mark.parametrize("with_agents", [False, True], ids=["attempts", "agents"])
def test_attempts_and_agents_may_spell_a_value_differently(with_agents: bool, tmp_path: Path) -> None:
    """R36: 600, 600.0 and 10m are one value, also where two trials of a side stand at a task."""
    other = {"agent": "c"} if with_agents else {"attempt": 2}
    a, b = a_run("A", 1, trials={"timeout": "600"}), a_run("B", 2, "b", trials={"timeout": "600"})
    plan, *rest = b
    again = [e | other | {"provenance": {"timeout": "600.0"}} for e in b if e["type"] == "trial_result"]
    sides = Sides.of(tmp_path, a, [plan if with_agents else plan | {"attempts": 2}, *again, *rest])
    compared = sides.compare("--json")
    answer = json.loads(compared.stdout)
    assert (compared.exit_code, answer["refused"], answer["left_out"]) == (0, [], [])
    if not with_agents:
        assert sides.gate("--json").exit_code == 0, "the candidate of a gate is one agent"


def test_values_are_cut_and_long_lists_shortened() -> None:
    many = {f"t{number:02}": {"task_digest": str(number)} for number in range(8)}
    [said] = comparable(Made({}, many), Made({}, {task: {"task_digest": "x"} for task in many})).words
    assert said.endswith("t00, t01, t02, t03, t04 and 3 more")
    sides = (Made({}, {"T0||ds%2Ffix": {"task_digest": of}, "ds%2Fgit": {}}) for of in "xy")
    assert comparable(*sides).words[0] == "task_digest differs in 1 of 2 common tasks: T0/ds/fix"  # R34
    [said] = comparable(Made({"seed": "a" * 99}, {}), Made({"seed": "b"}, {})).words
    assert said == f"seed {'a' * 60}… against b"


def a_strong_and_a_weak(**provenance: str) -> list[Event]:
    """`a` passes all of twenty tasks, `b` none; `c` passes half. The provenance is of b's run."""
    passed = {"a": "+" * 20, "b": "-" * 20, "c": "+" * 10 + "-" * 10}
    plan = {"tasks": [f"t{number:02}" for number in range(20)], "attempts": 1}
    events: list[Event] = []
    for day, (agent, letters) in enumerate(passed.items(), start=1):
        made = provenance if agent == "b" else {"timeout": "600"}
        events += a_night(agent, day, {agent: letters}, **plan, provenance=made)
    return events


def ranks(events: list[Event]) -> dict[str, tuple[int, int] | None]:
    [board] = boards_of(board_runs(events), "pass_rate", NOW)
    return {row.agent_model: row.rank and (row.rank.best, row.rank.worst) for row in board.rows}


def test_agents_whose_runs_differ_are_not_ranked_against_each_other() -> None:
    assert ranks(a_strong_and_a_weak(timeout="600")) == {"a:m": (1, 1), "c:m": (2, 2), "b:m": (3, 3)}
    apart = ranks(a_strong_and_a_weak(timeout="900"))
    assert apart == {"a:m": (1, 2), "c:m": (2, 3), "b:m": (1, 3)}
    assert ranks(a_strong_and_a_weak(seed="8")) == ranks(a_strong_and_a_weak(timeout="10m"))


@pytest.mark.parametrize(("timeout", "said"), [("600", "real"), ("900", "not comparable")])
def test_a_change_between_runs_that_differ_is_not_certain(timeout: str, said: str) -> None:
    plan = {"benchmark": "tb", "attempts": 1, "tasks": 10}
    events = [
        *a_night("n1", 1, {"a": "-" * 10}, provenance={"timeout": "600"}, **plan),
        *a_night("n2", 2, {"a": "+" * 10}, provenance={"timeout": timeout}, **plan),
    ]
    [board] = boards_of(board_runs(events), "pass_rate", NOW)
    change = present(board.rows[0].change)
    assert change.said.endswith(f", {said}")
    assert change.certain is (said == "real")
    assert (change.words[0] == "not comparable: timeout 600 against 900") is (timeout == "900")


VALUES = st.dictionaries(
    st.sampled_from(["timeout", "judge", "seed"]), st.sampled_from(["600", "10m", "900"])
)
MADE = st.builds(Made, VALUES, st.dictionaries(st.sampled_from("abcd"), VALUES))


@given(MADE, MADE)
def test_both_sides_may_change_places(one: Made, other: Made) -> None:
    there, back = comparable(one, other), comparable(other, one)
    assert (there.refused.keys(), there.left_out) == (back.refused.keys(), back.left_out)
    assert len(there.words) == len(back.words)
    assert comparable(one, one) == Comparability()


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_result_that_stands_says_what_its_trial_was_made_with(order: tuple[int, ...]) -> None:
    """R17: revisions and retractions may come in any order."""
    events = [
        a_trial(task_id="t1", revision=1, provenance={"timeout": "600", "other": "x"}),
        a_trial(task_id="t1", revision=2, provenance={"timeout": "900"}),
        a_trial(task_id="t2", revision=1, provenance={"timeout": "600"}),
        a_retraction(task_id="t2", revision=1),
    ]
    run = folded([events[at] for at in order])[0].run("run-1")
    tasks = TasksOfRun.of(run.comparisons.tasks().items())
    assert tasks.provenance == {"t1": {"terminus:gpt-5": {"timeout": "900"}}}
