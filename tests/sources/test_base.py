"""Whatever lies on disk: what can be read is sent, what cannot is named, and nothing is raised."""

from __future__ import annotations

import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from streamer.client import TrialPublisher
from streamer.operate.local.processes import free_port
from streamer.schemas.base import MAX_NAME_CHARACTERS, microseconds, rfc3339
from streamer.settings import Settings
from streamer.sources.base import (
    ConvertOptions,
    ConvertReport,
    RunPlan,
    fit_event,
    metric_name,
    with_short_names,
)
from streamer.sources.convert import convert
from streamer.sources.fc_eval import Roster
from streamer.sources.files import ConfiguredAgent
from streamer.sources.harbor import start_in
from streamer.sources.inspect import read_scores
from streamer.sources.tail import session
from streamer.sources.tail.follow import AGAIN_SECONDS, REST, ReadQueue
from streamer.sources.tail.session import tail
from tests.client.publish.publishing import events, make_topics, settings_of
from tests.sources.builders import (
    Event,
    a_result,
    a_run,
    a_trial_file,
    converted,
    joined_plan,
    plan_of,
    slots_of,
    the_trial,
    trials_of,
    write_json,
)
from tests.sources.harbor import a_job, a_trial_result
from tests.support.events import summarised
from tests.support.examples import examples

NOT_TRIALS: dict[str, str | bytes] = {
    "cut off": '{"task_id": "bad", "is_resolved": tr',
    "empty": "",
    "a list": "[1, 2]",
    "a number": "12",
    "null": "null",
    "no task": "{}",
    "a task that is a number": '{"task_id": 5, "trial_name": "5.1-of-1.run1"}',
    "an empty task": '{"task_id": "", "trial_name": "x"}',
    "a task too long": json.dumps({"task_id": "x" * 600}),
    "bytes that are no text": b"\xff\x00{\x80",
    "zeros": b"\x00" * 9,
    "nested too deeply": "[" * 200_000,
    "an integer of 5000 digits": '{"task_id": "bad", "total_input_tokens": ' + "9" * 5000 + "}",
}


@pytest.mark.parametrize("name", NOT_TRIALS)
@pytest.mark.parametrize("harness", ["terminal-bench", "harbor"])
def test_a_file_without_a_trial_is_named_and_others_go_on(tmp_path: Path, harness: str, name: str) -> None:
    content = NOT_TRIALS[name]
    content = content if isinstance(content, bytes) else content.encode()
    if harness == "harbor":
        run, content = a_job(tmp_path / "run1", a_trial_result("oom")), content.replace(b"_id", b"_name")
        bad = run / "t1" / "result.json"
    else:
        run = a_run(tmp_path / "run1", [a_result()], [])
        bad = run / "bad" / "bad.1-of-1.run1" / "results.json"
    write_json(bad, "").write_bytes(content)
    events, report = converted(run)
    assert [event["task_id"] for event in trials_of(events)] == ["oom"]
    ((path, reason),) = report.unreadable
    assert path == bad
    assert reason


@pytest.mark.parametrize(
    ("field", "value", "sent_as"),
    [
        *(("total_input_tokens", value, "input_tokens") for value in ("12", -1, True, math.nan)),
        *(("total_output_tokens", value, "output_tokens") for value in (2**60, 2**80)),
        ("is_resolved", "yes", "resolved"),
        ("failure_mode", ["unset"], "failure_mode"),
        ("trial_ended_at", "yesterday", "finished_at"),
        ("total_cost", math.inf, "cost_usd"),
        ("id", {"uuid": 1}, "trial_id"),
    ],
)
def test_a_value_that_does_not_fit_is_left_out(tmp_path: Path, field: str, value: Any, sent_as: str) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    whole = the_trial(run) | {"revision": 0}
    file = a_trial_file(run, a_result(**{field: value}))
    events, report = converted(run)
    (trial,) = trials_of(events)
    whole.pop(sent_as, None)
    assert trial | {"revision": 0} == whole
    ((path, name, reason),) = report.left_out
    assert (path, name) == (file, sent_as)
    assert reason


ZONED = "2025-09-24T10:05:00Z"


@pytest.mark.parametrize(
    ("ended", "known", "why"),
    [
        (ZONED[:-1], {"duration_seconds": 300.0}, "their durations count, their starts and ends are unknown"),
        ("2025-09-24T09:00:00", {}, "they end before they start"),
        (ZONED, {"finished_at": ZONED}, "one of the two is left out, and there is no duration"),
    ],
)
def test_times_without_a_zone_give_at_most_the_duration_and_one_remark_a_run(
    tmp_path: Path, ended: str, known: dict[str, Any], why: str
) -> None:
    times: Event = {"trial_started_at": "2025-09-24T10:00:00", "trial_ended_at": ended}
    events, report = converted(a_run(tmp_path / "run1", [a_result(task, **times) for task in "ab"], []))
    names = {"started_at", "finished_at", "duration_seconds"}
    said = [{name: trial[name] for name in names & trial.keys()} for trial in trials_of(events)]
    assert said == [known] * 2
    assert report.left_out == []
    (remarks,) = report.remarks.values()
    assert str(remarks) == f"run run1: 2 trials with times without a zone: {why}"


def test_a_broken_run_file_is_named(tmp_path: Path) -> None:
    for name, text in (("a", "{"), ("b", '{"results": {}}'), ("c", '{"results": [3], "n_resolved": 0}')):
        run = a_run(tmp_path / name, [a_result(run=name)], metadata={})
        write_json(run / "results.json", text)
    events, report = converted(tmp_path)
    assert len(trials_of(events)) == 3
    assert [path.parent.name for path, _ in report.unreadable] == ["a", "b", "c"]
    assert "results[0]" in report.unreadable[2][1]


def test_a_folder_with_nothing_but_a_broken_run_file_says_so(tmp_path: Path) -> None:
    for name in ("x/results.json", "y_results.json"):
        write_json(tmp_path / name, "{")
    events, report = converted(tmp_path)
    assert not events
    assert {path.name for path, _ in report.unreadable} == {"results.json", "y_results.json"}
    assert all("not valid JSON" in reason for _, reason in report.unreadable)


def test_broken_metadata_is_named_and_costs_only_what_it_would_have_told(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [], lock={"agent": {"name": "nop"}})
    write_json(run / "run_metadata.json", "{")
    events, report = converted(run)
    assert trials_of(events)[0]["agent"] == "nop"
    assert [path.name for path, _ in report.unreadable] == ["run_metadata.json"]


def test_results_of_something_else_are_no_run(tmp_path: Path) -> None:
    write_json(tmp_path / "lint_results.json", {"results": [{"file": "a.py"}]})
    write_json(tmp_path / "lint" / "results.json", [1])
    events, report = converted(tmp_path)
    assert not events
    assert "fc-eval or terminal-bench or scylla" in report.unreadable[0][1]


def test_a_path_that_does_not_exist_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    events, report = converted(tmp_path / "gone", run)
    assert len(trials_of(events)) == 1
    assert report.unreadable == [(tmp_path / "gone", "cannot be read: No such file or directory")]


def test_an_unknown_harness_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allowed: auto, inspect, fc-eval, terminal-bench, scylla"):
        convert([tmp_path], ConvertOptions(harness="helm"), ConvertReport())


def test_a_directory_name_that_is_no_text_still_names_the_run(tmp_path: Path) -> None:
    run = a_run(Path(os.fsdecode(os.fsencode(tmp_path) + b"/r\xff\n")), [a_result()], [])
    assert the_trial(run)["run_id"] == "r��"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
TRIAL = st.dictionaries(st.sampled_from(sorted(a_result())), JSON, max_size=8)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trial=TRIAL | JSON, run_file=st.lists(TRIAL | JSON, max_size=3), lock=JSON, metadata=JSON)
def test_no_json_at_all_makes_it_raise_or_send_something_invalid(
    tmp_path: Path, trial: Any, run_file: list[Any], lock: Any, metadata: Any
) -> None:
    run = a_run(tmp_path / "run1", [a_result()])
    write_json(run / "x" / "x.1-of-1.run1" / "results.json", trial)
    write_json(run / "results.json", {"results": run_file, "n_resolved": 0})
    write_json(run / "tb.lock", {"agent": lock, "dataset": lock, "run_config": lock})
    write_json(run / "run_metadata.json", {"task_ids": metadata, "end_time": metadata, "n_attempts": lock})
    for run_id in (None, "pool"):
        events, _ = converted(run, run_id=run_id)
        assert "oom" in {event["task_id"] for event in trials_of(events)}


# -----------------------------------------------------------------------------
# Trials that have begun: those whose agent a file names, and as their result will name them.


NOP, TERMINUS = ConfiguredAgent("nop", "nop"), ConfiguredAgent("terminus", None)
ENDS = ("", ".agent-1-other", ".agent-2-terminus", ".agent-3-terminus")
"""Of names of directories: without an agent, and with agents of which one is configured at its place."""


@pytest.mark.parametrize(
    ("agents", "names", "attempt"),
    [
        ([TERMINUS], ["t.2-of-5.run1", "t.1-of-1.another"], 2),
        ([NOP, TERMINUS], [f"t.1-of-1.run1{end}" for end in ENDS], 1),
    ],
)
def test_a_trial_of_fc_eval_starts_with_the_directory_that_names_its_run_and_agent(
    tmp_path: Path, agents: list[ConfiguredAgent], names: list[str], attempt: int
) -> None:
    options = ConvertOptions(model="asked-for")
    roster = Roster(tmp_path, tmp_path / "results.json", RunPlan("run1"), options)
    roster.agents, roster.is_multi = dict(enumerate(agents, 1)), len(agents) > 1
    trials = [tmp_path / "t" / name for name in names]
    for trial in trials:
        (trial / "sessions").mkdir(parents=True)
    [start] = [result.event for result in roster.starts_of(trials, {"run1"})]
    slot = [start[name] for name in ("task_id", "attempt", "agent", "model")]
    assert slot == ["t", attempt, "terminus", "asked-for"]


DEFAULT, CODEX = {"name": "oracle"}, {"name": "codex", "model_name": "m"}
CODE = {"name": "package.module:Agent", "model_name": "m"}


@pytest.mark.parametrize(
    ("agent", "directory", "other", "begun"),
    [
        (DEFAULT, "t__abc1234", None, [("t", "oracle", "unknown")]),
        (CODE, "t__abc1234", None, []),
        (CODE, "t__abc1234", ("t", "another", CODE), [("t", "codex", "m")]),
        (CODEX, "t__abc1234", ("org/t", "t", CODEX), [("org/t", "codex", "m")]),
        (CODEX, "t__another", None, []),
        (CODEX, "t__nothing", None, []),
    ],
    ids=[
        *("the default agent is in the lock alone", "code has no label yet", "code has its result's label"),
        *("a task has its result's name", "files of another trial", "no files"),
    ],
)
def test_a_trial_of_harbor_has_begun_under_the_name_that_its_result_will_have(
    tmp_path: Path, agent: Event, directory: str, other: tuple[str, str, Event] | None, begun: list[Any]
) -> None:
    trial, left_out = tmp_path / directory, agent == DEFAULT
    if directory != "t__nothing":
        config = {"trial_name": "t__abc1234", "task": {"path": "t"}}
        write_json(trial / "config.json", config | ({} if left_out else {"agent": agent}))
        write_json(trial / "lock.json", {"task": {"name": "t"}, "agent": agent})
    if other:
        task, path, of = other
        result = a_trial_result(task, "t__xyz9876", config={"agent": of, "task": {"path": path}})
        write_json(tmp_path / "t__xyz9876" / "result.json", result)
    starts = [result.event for result in start_in(tmp_path, trial, ConvertOptions())]
    assert [(start["task_id"], start["agent"], start["model"]) for start in starts] == begun


# -----------------------------------------------------------------------------
# What does not fit an event: the largest field, metrics that are none, and long names.


def test_an_event_that_would_be_too_large_loses_its_largest_field_and_counts() -> None:
    """A record of more than 1 MiB would be rejected, and the trial with it."""
    kept = {"type": "trial_result", "run_id": "r", "task_id": "t", "output_tokens": 7}
    kept["claimed"] = {"c": "x" * 700_000}
    fitted, misfits = fit_event(kept | {"benchmarks": {"b": "y" * 800_000}})
    assert fitted == kept
    assert list(misfits) == ["benchmarks"]
    assert "800,008 bytes" in misfits["benchmarks"]


def test_of_metrics_only_what_does_not_fit_is_left_out() -> None:
    event = {"type": "trial_result", "run_id": "r", "task_id": "t"}
    metrics = {"reward": 0.7, "a b": 1, "ok/x": 2, "text": "1", "yes": True, "nan": math.nan}
    fitted, reasons = fit_event(event | {"metrics": metrics})
    assert fitted == event | {"metrics": {"reward": 0.7, "ok/x": 2}}
    assert reasons["metrics"].startswith("'a b': 1, 'text': '1', 'yes': True, ...: left out.")
    assert fit_event(event | {"metrics": {"a b": 1}})[0] == event
    many = {f"m{number:03}": number for number in range(100)}
    fitted, reasons = fit_event(event | {"metrics": many})
    assert fitted == event | {"metrics": dict(list(many.items())[:64])}
    assert "m064" in reasons["metrics"]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *[("C", 1.0), ("P", 0.5), ("I", 0.0), ("N", 0.0)],
        *[(True, 1.0), (False, 0.0), (3, 3), (-0.25, -0.25)],
        *[("yes", 1.0), ("True", 1.0), ("No", 0.0), ("2.5", 2.5)],
        *[(None, None), (math.nan, None)],  # not scored
    ],
)
def test_a_value_is_the_number_that_inspect_counts(value: object, number: float | None) -> None:
    result = read_scores({"s": {"value": value}, "t": {"value": {"k": value}}, "u": {}, "v": 1})
    expected = {} if number is None else {"s": number, "t/k": number}
    assert (result.metrics, result.left_out) == (expected, [])


@pytest.mark.parametrize(
    ("scores", "kept", "said"),
    [
        ({"s": [1, 2]}, {}, ["the score 's' is a list"]),
        *(
            ({"s": value}, {}, [f"the score 's' is {shown}, which is not a number"])
            for value, shown in (("lovely", "'lovely'"), ("inf", "'inf'"), (math.inf, "inf"))
        ),
        ({"s": 10**400}, {}, [f"the score 's' is 1{'0' * 39}..., which is not a number"]),
        ({"s": "x" * 99}, {}, [f"the score 's' is '{'x' * 39}..., which is not a number"]),
        ({"a b": 1, "a_b": 2}, {"a_b": 1}, ["the score 'a_b' has another score's name: 'a_b'"]),
        ({"": 1}, {}, ["a score has no name"]),
        (
            {"s": {str(number): number for number in range(66)}},
            {f"s/{number}": number for number in range(64)},
            [f"the score 's/{number}' is one more than 64" for number in (64, 65)],
        ),
    ],
)
def test_what_is_no_metric_is_said(scores: dict[str, Any], kept: dict[str, float], said: list[str]) -> None:
    result = read_scores({name: {"value": value} for name, value in scores.items()})
    assert (result.metrics, result.left_out) == (kept, said)


LONG = "the same beginning of a name " * 12


def test_long_names_are_cut_so_that_two_never_become_one(tmp_path: Path) -> None:
    modes = [LONG + "1", LONG + "2", "é" * 128]
    results = [a_result(f"t{number}", failure_mode=mode) for number, mode in enumerate(modes)]
    events, report = converted(a_run(tmp_path / "run1", results))
    first, second, short = (trial["failure_mode"] for trial in trials_of(events))
    assert len(first) == len(second) == MAX_NAME_CHARACTERS
    assert first != second
    assert first.startswith(LONG[:115] + "~")
    assert short == modes[2]
    cut = [(name, "longer than 128" in reason) for _, name, reason in report.cut]
    assert cut == [("failure_mode", True)] * 2
    assert (report.left_out, report.unreadable) == ([], [])


def test_a_long_name_is_cut_alike_in_trials_and_in_their_plan(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    events, _ = converted(run, agent=LONG, model=f"openai/{LONG}")
    [trial] = trials_of(events)
    assert plan_of(events)["agent_models"] == [f"{trial['agent']}:{trial['model']}"]
    assert len(trial["agent"]) == len(trial["model"]) == MAX_NAME_CHARACTERS


@given(st.text(min_size=129, max_size=300), st.text(min_size=129, max_size=300))
def test_different_long_names_stay_different(one: str, other: str) -> None:
    cut = [with_short_names({"agent": name})[0]["agent"] for name in (one, other)]
    assert (cut[0] == cut[1]) == (one == other)
    assert {len(name) for name in cut} == {MAX_NAME_CHARACTERS}
    metrics = [metric_name("n" * 99 + name) for name in (one, other)]
    assert [len(name) for name in metrics] == [64, 64]
    assert (metrics[0] == metrics[1]) == (one == other)


# -----------------------------------------------------------------------------
# Runs that are pooled into one have one plan, and a shard each.


def test_pooled_runs_are_shards_of_one_run_with_one_plan(tmp_path: Path) -> None:
    for n, name in enumerate("abc", 1):
        dataset = {"task_ids": ["oom"], "name": "core", "version": f"0.{n}"}
        times = {"start_time": f"2025-01-0{n}T00:00:00+00:00", "end_time": f"2025-02-0{n}T00:00:00+00:00"}
        lock, metadata = {"dataset": dataset, "agent": {"name": "x"}}, {"n_attempts": 2, **times}
        a_run(tmp_path / name, [a_result(run=name)], [], lock=lock, metadata=metadata)
    events, report = converted(tmp_path, run_id="pool")
    assert slots_of(events) == [("pool", shard, "oom", 1) for shard in "abc"]
    assert {event["run_id"] for event in events} == {"pool"}
    plan = joined_plan(events)
    said = {name: plan.get(name) for name in ("tasks", "attempts", "agent_models", "benchmark")}
    assert said == {"tasks": ["oom"], "attempts": 6, "agent_models": ["x:unknown"], "benchmark": "core"}
    assert (plan.parts, plan.get("benchmark_version")) == ({"seen": 3, "planned": 3}, None)
    assert str(rfc3339(microseconds(plan.get("started_at")))).startswith("2025-01-01T00:00:00")
    assert plan.finished is not None
    assert str(rfc3339(microseconds(plan.finished.finished_at))).startswith("2025-02-03T00:00:00")
    assert report.runs == ["a", "b", "c"]


def test_a_pool_plans_no_attempts_if_its_tasks_differ_and_does_not_end_before_all(tmp_path: Path) -> None:
    finished = {"n_attempts": 1, "end_time": "2025-02-01T00:00:00+00:00"}
    a_run(tmp_path / "a", [a_result(run="a")], metadata={"task_ids": ["oom"], **finished})
    a_run(tmp_path / "b", [a_result(run="b")], metadata={"task_ids": ["oom", "b"], "n_attempts": 1})
    plan = joined_plan(converted(tmp_path, run_id="pool")[0])
    assert (plan.get("tasks"), plan.attempts, plan.finished) == (["oom", "b"], None, None)


def test_a_pool_has_a_chosen_order_and_an_incomplete_plan_if_one_of_its_runs_has(tmp_path: Path) -> None:
    dataset = {"dataset": {"task_ids": ["oom"]}, "run_config": {"n_attempts": 1, "n_concurrent_trials": 4}}
    chosen = {"harness": {"package": "terminal-bench", "version": "0.2.18"}}
    for name, lock in (("a", dataset | chosen), ("b", dataset)):
        a_run(tmp_path / name, [a_result(run=name)], lock=lock)
    plan = joined_plan(converted(tmp_path, run_id="pool")[0])
    assert (plan.get("order_kind"), plan.get("plan_complete")) == ("chosen", True)
    assert (plan.get("order"), plan.get("concurrency")) == (None, None)
    a_run(tmp_path / "c", [a_result(run="c")], lock={})
    assert joined_plan(converted(tmp_path, run_id="pool")[0]).get("plan_complete") is True
    a_run(tmp_path / "c", metadata={"n_attempts": 1})
    assert joined_plan(converted(tmp_path, run_id="pool")[0]).get("plan_complete") is False


def test_a_pool_has_an_incomplete_plan_until_all_of_its_runs_can_be_read(tmp_path: Path) -> None:
    lock = {"dataset": {"task_ids": ["oom"]}, "agent": {"name": "x"}}
    for name in "ab":
        a_run(tmp_path / name, [a_result(run=name)], lock=lock, metadata={"n_attempts": 1})
    whole, _ = converted(tmp_path, run_id="pool")
    (tmp_path / "b" / "run_metadata.json").write_text("{")
    half, _ = converted(tmp_path, run_id="pool")
    corrected = [event | {"revision": event.get("revision", 0) + 10**18} for event in whole]
    progress = [summarised(events)["run pool"]["progress"] for events in (half, [*half, *corrected])]
    common = {"done": 2, "parts": {"seen": 2, "planned": 2}}
    assert progress == [
        common | {"planned": None, "plan_complete": False},
        common | {"planned": 2, "plan_complete": True},
    ]


def test_r35_only_a_run_that_lacks_what_its_files_announce_is_interrupted() -> None:
    """Not one whose plan is incomplete for another reason, beside a note of another kind."""
    plan = RunPlan("r", started={"plan_complete": False}, notes=["two ids are one"])
    plan.finished = {"type": "run_finished", "status": "completed"}
    assert plan.end == plan.finished
    plan.lacks("3 trials announced, 1 found")
    assert plan.end == {"type": "run_finished", "status": "interrupted"}
    plan.finished = {"type": "run_finished", "status": "cancelled"}
    assert plan.end == plan.finished
    assert plan.notes == ["two ids are one", "3 trials announced, 1 found"]


# -----------------------------------------------------------------------------
# One `streamer tail`: what a directory says is published, and what the broker does not take is kept.


@pytest.fixture
def two_trials(tmp_path: Path) -> Path:
    return a_run(tmp_path / "run1", [a_result("a"), a_result("b")])


@pytest.fixture
def away(tmp_path: Path) -> Settings:
    """Settings of a broker that is not there."""
    return Settings(bootstrap=f"127.0.0.1:{free_port()}", data_dir=tmp_path / "data")


def test_what_is_there_is_published_once_and_all_of_it_has_arrived_at_the_end(
    embedded_broker: str, namespace: str, tmp_path: Path, two_trials: Path
) -> None:
    settings = make_topics(settings_of(embedded_broker, namespace))
    settings = settings.model_copy(update={"data_dir": tmp_path / "data"})
    result = tail(settings, two_trials, ConvertOptions(), threading.Event(), print, lambda _: None, once=True)
    assert result.pending == 0
    assert sorted(event["task_id"] for event in trials_of(events(settings))) == ["a", "b"]


def test_what_the_broker_does_not_take_is_kept_and_said(
    away: Settings, two_trials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CLOSE_SECONDS", 1.0)
    stop, said = threading.Event(), list[str]()
    result = tail(away, two_trials, ConvertOptions(), stop, said.append, lambda _: stop.set())
    assert result.pending >= 2
    assert any("accepts no events" in line for line in said)


def test_a_signal_ends_the_wait_of_once_for_the_broker(
    away: Settings, two_trials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CLOSE_SECONDS", 0.0)
    stop, waits = threading.Event(), list[float]()

    def flush(_: object, seconds: float) -> bool:
        stop.set()
        waits.append(seconds)
        return False

    monkeypatch.setattr(TrialPublisher, "flush", flush)
    assert tail(away, two_trials, ConvertOptions(), stop, print, lambda _: None, once=True).pending
    assert waits == [session.WAIT_SECONDS]


# -----------------------------------------------------------------------------
# Which parts of a followed directory are read again, and when: none alone keeps the machine busy.


PART = Path("part")


class Parts:
    """Parts under a clock of our own."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pending = ReadQueue(clock=lambda: self.now)

    def read(self, part: Path, seconds: float = 0.0, *, again: bool = False) -> None:
        begun = self.now
        self.now += seconds
        self.pending.was_read(part, begun, again=again)


def test_what_changed_is_read_before_what_was_found_and_a_plan_after_both() -> None:
    parts = Parts()
    parts.pending.changed(Path("plan"), last=True)
    parts.pending.add(Path("found"))
    parts.now += 1.0
    parts.pending.changed(Path("changed"))
    assert parts.pending.ready() == [Path("changed"), Path("found"), Path("plan")]


def test_a_part_is_read_once_more_after_it_changed_and_then_no_more() -> None:
    parts = Parts()
    parts.pending.changed(PART)
    parts.read(PART)
    assert parts.pending.ready() == []
    assert not parts.pending.is_quiet(PART)
    parts.now += AGAIN_SECONDS
    assert parts.pending.ready() == [PART]
    assert parts.pending.is_quiet(PART)
    parts.read(PART)
    parts.now += 1_000.0
    assert parts.pending.ready() == []


def test_a_part_that_takes_long_and_changes_all_the_time_rests_between_readings() -> None:
    parts = Parts()
    parts.pending.changed(PART)
    parts.read(PART, seconds=2.0)
    parts.pending.changed(PART)
    assert parts.pending.ready() == []
    parts.now += 2.0 * REST
    assert parts.pending.ready() == [PART]


def test_a_part_that_is_being_written_is_read_until_it_is_not() -> None:
    parts = Parts()
    parts.pending.add(PART)
    for _ in range(5):
        assert parts.pending.ready() == [PART]
        parts.read(PART, again=True)
        assert parts.pending.ready() == []
        parts.now += AGAIN_SECONDS
    parts.read(PART)
    assert parts.pending.ready() == []
