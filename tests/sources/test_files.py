"""R7: an agent finds its own entry of a log, in every spelling, and never another agent's."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.prices import PriceTable
from streamer.sources.every_eval_ever import read_samples
from streamer.sources.files import (
    VANISHED,
    AgentLogs,
    ConfiguredAgent,
    FileError,
    Subject,
    agent_of_key,
    artifacts_of,
    cast_length,
    container_key,
    enriched,
    model_of,
    own_key,
    read_agent_logs,
)
from streamer.sources.inspect import read_header
from tests.sources.builders import Event, a_result, a_run, converted, once, trials_of, write_json
from tests.sources.fc_eval_runs import SUB_TRIAL, trial_directories
from tests.sources.harbor import a_job, a_trial_result
from tests.support.events import a_trial

GPT = "terminus-2:openai/gpt-5"
QWEN = "terminus-2:fireworks/qwen3"
IN_CONTAINER = "agent-3-terminus-2:openai-gpt-5"
BARE = "terminus-2:openai-gpt-5"
OTHERS_IN_CONTAINER = ["agent-1-nop:nop", "agent-2-oracle:oracle", "agent-4-terminus-2:fireworks-qwen3"]


def a_subject(key: str = GPT, position: int = 3) -> Subject:
    return Subject(key, position, {"nop:nop", "oracle:oracle", GPT, QWEN} - {key})


def test_the_harness_spells_the_key_for_the_container_with_the_agents_position() -> None:
    assert container_key(3, ConfiguredAgent("terminus-2", "openai/gpt-5")) == IN_CONTAINER
    assert (
        container_key(1, ConfiguredAgent("my_agents.Best", "accounts/x/y_z"))
        == "agent-1-my-agents.Best:accounts-x-y-z"
    )
    assert container_key(2, ConfiguredAgent("a", None)) == "agent-2-a:unknown"


@pytest.mark.parametrize("key", [GPT, "terminus-2:@openai/gpt-5", IN_CONTAINER, BARE])
def test_every_spelling_of_the_agent_is_found_among_the_others(key: str) -> None:
    for keys in itertools.permutations([*OTHERS_IN_CONTAINER, key]):
        assert own_key(keys, a_subject()) == key


def test_a_closer_spelling_wins_over_a_looser_one() -> None:
    spellings = [GPT, "terminus-2:@openai/gpt-5", IN_CONTAINER, "terminus-2:dated"]
    for first in range(len(spellings)):
        assert own_key(reversed(spellings[first:]), a_subject()) == spellings[first]


DATED = ["terminus-2:dated-1", "terminus-2:dated-2"]
OF_QWEN = (QWEN, "agent-4-terminus-2:fireworks-qwen3", "terminus-2:fireworks-qwen3")
SLASH, DASH = Subject("t:openai/x", 1, {"t:openai-x"}), Subject("t:openai-x", 2, {"t:openai/x"})
NUMBERED, ORACLE = Subject("agent-7-x:m/n", 1, {"agent-8-x:m/n"}), a_subject("oracle:oracle", 2)


@pytest.mark.parametrize(
    ("keys", "subject", "last_agent", "found"),
    [
        # two keys that fit equally well are none
        ([IN_CONTAINER, BARE], a_subject(), BARE, None),
        (["terminus-2:@openai/gpt-5", "terminus-2:@@openai/gpt-5"], a_subject(), None, None),
        (DATED, a_subject(), None, None),
        # a model that no configuration names is found by the label
        (["nop:nop", "agent-3-terminus-2:dated"], a_subject(), None, "agent-3-terminus-2:dated"),
        (DATED, a_subject(), DATED[1], DATED[1]),
        (DATED, a_subject(), "oracle:oracle", None),
        (["openhands:dated"], a_subject(), "openhands:dated", None),
        # one of two models crashed: its log holds the other's entry alone, as only key and as last agent
        *((["nop:nop", key], a_subject(), last, None) for key in OF_QWEN for last in (None, key)),
        *(([key], a_subject(QWEN, 4), last, key) for key in OF_QWEN for last in (None, key)),
        # a key with another position is never taken
        *(([f"agent-4-{key}"], a_subject(), f"agent-4-{key}", None) for key in ("terminus-2:dated", BARE)),
        ([IN_CONTAINER], a_subject(GPT, 4), None, None),
        # two agents whose file names are equal keep their exact keys apart
        *((["t:openai-x"], subject, None, found) for subject, found in ((DASH, "t:openai-x"), (SLASH, None))),
        (["agent-1-t:openai-x"], SLASH, None, "agent-1-t:openai-x"),
        (["agent-1-t:openai-x"], DASH, None, None),
        # an agent may be named like a position
        *(
            ([key], NUMBERED, None, key)
            for key in ("agent-7-x:m/n", "agent-7-x:m-n", "agent-1-agent-7-x:m-n")
        ),
        (["agent-8-x:m-n"], NUMBERED, None, None),
        # a baseline is found however its model is capitalised
        (["oracle:Oracle"], ORACLE, None, "oracle:Oracle"),
        (["oracle:openai/gpt-5", "oracle:Oracle"], ORACLE, None, "oracle:Oracle"),
    ],
)
def test_an_agent_finds_its_own_key_and_never_anothers(
    keys: list[str], subject: Subject, last_agent: str | None, found: str | None
) -> None:
    assert own_key(keys, subject, last_agent) == found


@pytest.mark.parametrize(
    ("label", "model", "expected"),
    [
        ("oracle", "Oracle", "oracle"),
        ("nop", "NOP", "nop"),
        ("oracle", "openai/gpt-5", "openai/gpt-5"),
        ("Oracle", "Oracle", "Oracle"),
        ("oracle", None, None),
    ],
)
def test_a_baseline_is_its_label_and_its_model_is_too_however_it_is_capitalised(
    label: str, model: str | None, expected: str | None
) -> None:
    assert model_of(label, model) == expected
    assert agent_of_key(f"{label}:{model or ''}") == ConfiguredAgent(label, expected)


KEYS = st.from_regex(r"(agent-[1-4]-)?(t|t-2|nop)(:[a-c/@-]{0,3})?", fullmatch=True)


@given(st.lists(KEYS, max_size=5), KEYS, st.integers(1, 4), st.sets(KEYS, max_size=3), st.none() | KEYS)
def test_what_is_found_is_a_key_of_the_log_whatever_the_order(
    keys: list[str], key: str, position: int, others: set[str], last_agent: str | None
) -> None:
    subject = Subject(key, position, others)
    result = own_key(keys, subject, last_agent)
    assert result is None or result in keys
    assert own_key(reversed(keys), subject, last_agent) == result
    if key in keys:
        assert result == key


# -----------------------------------------------------------------------------
# Reading agent logs and recordings, and giving their numbers to a trial (E1-E3, E6-E8, R1, R2, R8).


HEADER = '{"version": 2}\n'
"""The first line of a terminal's recording."""


def write_cast(trial: Path, events: int, name: str = "agent.cast", seconds: int = 0) -> Path:
    content = HEADER + '[0.1, "o", "x"]\n' * events
    return write_json(trial / "sessions" / name, content, mtime_ns=seconds * 10**9)


def a_step(prompt: Any = 10, completion: Any = 2) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {"llm_metrics": {"accumulated_token_usage": usage}}


def write_steps(trial: Path, steps: Any, name: str = "t.json") -> Path:
    return write_json(trial / "agent-logs" / name, json.dumps(steps), mtime_ns=0)


def test_a_trial_without_logs_says_nothing(tmp_path: Path) -> None:
    assert read_agent_logs(tmp_path) == AgentLogs()
    assert read_agent_logs(tmp_path / "gone") == read_agent_logs(None) == AgentLogs()


@pytest.mark.parametrize(
    ("steps", "tokens"),
    [
        ([a_step(10, 2), a_step(30, 5), a_step(0, 0), {}], (30, 5)),
        ([a_step(0, 0), {}], (0, 0)),  # stated as 0
        ([{"llm_metrics": {"accumulated_token_usage": {"prompt_tokens": 3}}}], (3, None)),
    ],
)
def test_the_last_step_that_states_tokens_counts_since_they_are_accumulated(
    steps: Any, tokens: tuple[int, int | None], tmp_path: Path
) -> None:
    write_steps(tmp_path, steps)
    logs = read_agent_logs(tmp_path)
    assert (logs.input_tokens, logs.output_tokens, logs.trajectory_length) == (*tokens, len(steps))


@pytest.mark.parametrize("completion", ["many", None, [], 1e400])
def test_a_bad_completion_count_leaves_the_prompt_count_and_an_unknown(
    completion: Any, tmp_path: Path
) -> None:
    write_steps(tmp_path, [a_step(7, 7), a_step(10, completion)])
    logs = read_agent_logs(tmp_path)
    assert (logs.input_tokens, logs.output_tokens, logs.trajectory_length) == (10, None, 2)
    assert logs.sources == dict.fromkeys(("input_tokens", "trajectory_length"), "agent-logs/t.json")
    assert "step 1: completion_tokens is" in logs.problems[0]


def test_a_step_in_error_ends_the_scan_and_what_later_steps_stated_stays(tmp_path: Path) -> None:
    write_steps(tmp_path, [a_step(9, 9), {"llm_metrics": None}, a_step(0, 0)])
    logs = read_agent_logs(tmp_path)
    assert (logs.input_tokens, logs.output_tokens) == (0, 0)
    assert logs.problems == ("agent-logs/t.json: step 1: found None instead of an object",)


def test_of_logs_written_at_the_same_instant_the_last_by_name_counts(tmp_path: Path) -> None:
    write_steps(tmp_path, [a_step(1, 1)], "a.json")
    write_steps(tmp_path, [a_step(2, 2)], "b.json")
    assert read_agent_logs(tmp_path).input_tokens == 2


@pytest.mark.parametrize("name", ["t.JSON", "t.jsonl", "below/t.json"])
def test_only_json_files_of_the_directory_itself_are_logs(name: str, tmp_path: Path) -> None:
    write_steps(tmp_path, [a_step()], name)
    assert read_agent_logs(tmp_path) == AgentLogs()


def test_an_empty_list_gives_way_to_a_recording_and_is_0_without_one(tmp_path: Path) -> None:
    write_steps(tmp_path, [])
    assert read_agent_logs(tmp_path).trajectory_length == 0
    write_cast(tmp_path, 3)
    logs = read_agent_logs(tmp_path)
    assert (logs.trajectory_length, logs.sources["trajectory_length"]) == (3, "sessions/agent.cast")


def test_links_and_what_is_no_file_are_not_read(tmp_path: Path) -> None:
    elsewhere = write_steps(tmp_path / "elsewhere", [a_step()])
    trial = tmp_path / "trial"
    (trial / "agent-logs").mkdir(parents=True)
    (trial / "agent-logs" / "link.json").symlink_to(elsewhere)
    assert read_agent_logs(trial) == AgentLogs()
    os.mkfifo(trial / "agent-logs" / "pipe.json")
    assert read_agent_logs(trial).problems == ("agent-logs/pipe.json: not a regular file",)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "agent-logs").symlink_to(elsewhere.parent)
    assert read_agent_logs(linked) == AgentLogs()


def test_hostile_logs_are_problems_not_exceptions(tmp_path: Path) -> None:
    for number, text in enumerate(("[" * 100_000, "[1", "\ud800", "[" + "9" * 5000 + "]", "null")):
        trial = tmp_path / str(number)
        (trial / "agent-logs").mkdir(parents=True)
        (trial / "agent-logs" / "t.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        logs = read_agent_logs(trial)
        assert logs.trajectory_length is None
        assert len(logs.problems) == 1


def test_a_sub_trial_finds_its_recording_in_the_main_trial_by_its_index(tmp_path: Path) -> None:
    main, sub = tmp_path / "t.1-of-1.r", tmp_path / "t.1-of-1.r.agent-1-x"
    sub.mkdir()
    write_cast(main, 4, "agent-1-x:gpt-5.cast")
    write_cast(main, 9, "agent-10-y:gpt-5.cast", seconds=10)
    write_steps(main, [a_step()])
    logs = read_agent_logs(sub, main_trial=main.name, agent_index=1)
    assert (logs.trajectory_length, logs.input_tokens) == (4, None)
    assert (sub / logs.sources["trajectory_length"]).resolve() == main / "sessions" / "agent-1-x:gpt-5.cast"


def test_a_sub_trials_own_recording_comes_before_the_main_trials(tmp_path: Path) -> None:
    main, sub = tmp_path / "main", tmp_path / "sub"
    write_cast(main, 4, "agent-1-x.cast")
    write_cast(sub, 2, "agent-1-x.cast")
    assert read_agent_logs(sub, main_trial=main.name, agent_index=1).trajectory_length == 2


def some_logs(input_tokens: int | None, output_tokens: int | None, length: int | None = None) -> AgentLogs:
    values = {"input_tokens": input_tokens, "output_tokens": output_tokens, "trajectory_length": length}
    sources = {name: "agent-logs/t.json" for name, value in values.items() if value is not None}
    return AgentLogs(input_tokens, output_tokens, length, sources)


def test_tokens_of_the_logs_replace_the_agents_own_if_either_is_above_0() -> None:
    event = a_trial(input_tokens=5, output_tokens=5)
    result = enriched(event, some_logs(0, 8))
    assert (result.event["input_tokens"], result.event["output_tokens"]) == (0, 8)
    assert result.sources == dict.fromkeys(("input_tokens", "output_tokens"), "agent-logs/t.json")


@pytest.mark.parametrize("logged", [(0, 0), (-7, -1), (None, None)])
def test_tokens_of_the_logs_that_are_not_above_0_replace_nothing(
    logged: tuple[int | None, int | None],
) -> None:
    event = a_trial(input_tokens=5, output_tokens=6)
    result = enriched(event, some_logs(*logged))
    assert result.event == event
    assert result.sources == dict.fromkeys(("input_tokens", "output_tokens"), "results.json")
    assert "input_tokens" not in enriched(a_trial(), some_logs(*logged)).event


def test_a_reported_cost_of_0_beside_tokens_of_the_logs_is_unknown() -> None:
    assert "cost_usd" not in enriched(a_trial(cost_usd=0.0), some_logs(10, 2)).event
    assert enriched(a_trial(cost_usd=0.0), some_logs(None, None)).event["cost_usd"] == 0.0


def test_what_the_logs_changed_is_remembered_as_the_harness_had_it() -> None:
    event = a_trial(cost_usd=0.0, input_tokens=5, trajectory_length=3)
    assert enriched(event, some_logs(10, 2, 7)).own == {
        "input_tokens": 5,
        "output_tokens": None,
        "cost_usd": 0.0,
    }
    assert enriched(event, some_logs(5, None, 3)).own == {"cost_usd": 0.0}
    assert enriched(event, some_logs(None, None)).own == {}


def test_a_reported_cost_stays() -> None:
    result = enriched(a_trial(cost_usd=0.5), some_logs(10, 2), own="trial/results.json")
    assert (result.event["cost_usd"], result.sources["cost_usd"]) == (0.5, "trial/results.json")


@pytest.mark.parametrize(("own", "logged", "taken"), [(None, 7, 7), (0, 7, 7), (5, 7, 5), (0, None, 0)])
def test_the_trajectory_length_enters_from_the_harness_or_from_the_logs(
    own: int | None, logged: int | None, taken: int
) -> None:
    event = a_trial() if own is None else a_trial(trajectory_length=own)
    assert enriched(event, some_logs(None, None, logged)).event["trajectory_length"] == taken


# -----------------------------------------------------------------------------
# Real fc-eval runs: logs say what the harness made of them, and stand in where it has not (E6-E8, G1).


RUNS = {"fc-rough": 32, "fc-single-terminus": 23, "fc-multi-of-one": 8}
"""Run to how many of its trials have a log or a recording."""

PRICED = {"fc-single-terminus": 15, "fc-nop-oracle-gpt5": 19, "fc-two-attempts": 16}
"""Run of models that fc-eval has a price for, to how many of its trials have a log with tokens."""

NUMBERS = ("input_tokens", "output_tokens", "trajectory_length")


def by_id(events: Iterable[Event]) -> dict[str, Event]:
    return {event["trial_id"]: event for event in trials_of(events) if event.get("agent_index", 1)}


def without_artifacts(events: dict[str, Event]) -> dict[str, Event]:
    return {key: event | {"artifacts": None} for key, event in events.items()}


def result_of(directory: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((directory / "results.json").read_bytes())
    return result


def rewrite(directory: Path, **fields: Any) -> None:
    (directory / "results.json").write_text(json.dumps(result_of(directory) | fields))


def without_what_the_harness_read(run: Path, copy: Path) -> Path:
    """A copy in which no result has tokens, cost or length yet: as it is first written (G3)."""
    shutil.copytree(run, copy)
    for directory in trial_directories(copy):
        metrics = result_of(directory).get("parser_extra_metrics")
        if metrics is not None:
            metrics.pop("trajectory_length", None)
        unread = {"total_input_tokens": None, "total_output_tokens": None, "total_cost": None}
        rewrite(directory, **unread, parser_extra_metrics=metrics)
    return copy


@pytest.mark.parametrize("name", RUNS)
def test_the_logs_give_what_the_harness_reads_from_them_before_it_does(
    runs: Path, name: str, tmp_path: Path
) -> None:
    events = by_id(converted(without_what_the_harness_read(runs / name, tmp_path / name))[0])
    with_logs = 0
    for directory in trial_directories(runs / name):
        logs = read_agent_logs(directory)
        result = result_of(directory)
        event = events[result["id"]]
        if logs == AgentLogs():
            assert not event.keys() & {*NUMBERS, "cost_usd"}
            continue
        with_logs += 1
        assert event["trajectory_length"] == result["parser_extra_metrics"]["trajectory_length"]
        if logs.input_tokens is not None:
            assert event["input_tokens"] == result["total_input_tokens"]
            assert event["output_tokens"] == result["total_output_tokens"]
        assert "cost_usd" not in event
    assert with_logs == RUNS[name]


@pytest.mark.parametrize("name", PRICED)
def test_the_price_of_logged_tokens_is_the_cost_that_the_harness_states(runs: Path, name: str) -> None:
    priced = 0
    for directory in trial_directories(runs / name):
        logs, result = read_agent_logs(directory), result_of(directory)
        if logs.input_tokens is not None:
            model = result["parser_extra_metrics"]["agent_model_key"].partition(":")[2]
            cost = PriceTable.default().cost(model, logs.input_tokens, logs.output_tokens)
            assert cost == pytest.approx(result["total_cost"], rel=1e-9)
            priced += 1
    assert priced == PRICED[name]


def test_a_recording_that_a_local_run_left_with_the_trial_as_a_whole_is_the_sub_trials(
    runs: Path, tmp_path: Path
) -> None:
    run = without_what_the_harness_read(runs / "fc-rough", tmp_path / "fc-rough")
    expected = by_id(converted(run)[0])
    moved = 0
    for cast in sorted(run.glob("*/*.agent-*/sessions/agent-*.cast")):
        sub_trial = cast.parents[1]
        main = sub_trial.with_name(SUB_TRIAL.split(sub_trial.name)[0]) / "sessions"
        main.mkdir(parents=True, exist_ok=True)
        shutil.move(cast, main / cast.name)
        moved += 1
    assert moved > 0
    events, report = converted(run)
    assert without_artifacts(by_id(events)) == without_artifacts(expected)
    sources = {file for result in report.explanations for _, file in result.values.values()}
    assert any(source.startswith("../") and "/sessions/agent-" in source for source in sources)


def test_each_number_of_a_real_trial_names_its_file(runs: Path) -> None:
    _, report = once(runs / "fc-single-terminus")
    assert len(report.explanations) == report.trials
    sources = {file for result in report.explanations for _, file in result.values.values() if file}
    assert sources == {"results.json", "agent-logs/trajectory.json"}
    assert not [result.hints for result in report.explanations if result.hints]


# -----------------------------------------------------------------------------
# The files that a trial left are named where they lie.


def written_of_artifacts(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")


def test_files_of_the_named_directories_are_listed_in_order_without_links(tmp_path: Path) -> None:
    trial = tmp_path / "run" / "t" / "t.1-of-1"
    written_of_artifacts(
        *(trial / name for name in ("logs/b.cast", "logs/a.bin", "z.txt", "results.json", "other/x"))
    )
    (trial / "logs" / "link.txt").symlink_to("/etc/hostname")
    (trial / "linked").symlink_to("/etc")
    assert artifacts_of(tmp_path / "run", trial, (".", "logs", "linked", "none"), ("results.json",)) == [
        {"name": "z.txt", "path": "t/t.1-of-1/z.txt", "media_type": "text/plain"},
        {"name": "logs/a.bin", "path": "t/t.1-of-1/logs/a.bin"},
        {"name": "logs/b.cast", "path": "t/t.1-of-1/logs/b.cast", "media_type": "application/x-asciicast"},
    ]


def test_names_that_no_event_may_hold_are_left_out_and_at_most_32_are_named(tmp_path: Path) -> None:
    written_of_artifacts(tmp_path / "t" / "a\nb", tmp_path / "t" / "c\\d", tmp_path / "t" / ("e" * 200))
    assert artifacts_of(tmp_path, tmp_path / "t", (".",)) is None
    written_of_artifacts(*(tmp_path / "t" / f"{number:02}.log" for number in range(40)))
    result = artifacts_of(tmp_path, tmp_path / "t", (".",))
    assert result is not None
    assert [artifact["name"] for artifact in result] == [f"{number:02}.log" for number in range(32)]


def test_a_trial_without_a_directory_or_elsewhere_has_none(tmp_path: Path) -> None:
    written_of_artifacts(tmp_path / "a" / "x.log")
    assert artifacts_of(tmp_path, None, (".",)) is None
    (tmp_path / "b").mkdir()
    assert artifacts_of(tmp_path / "b", tmp_path / "a", (".",)) is None


def test_terminal_bench_names_screens_recordings_and_logs_also_of_a_crashed_trial(tmp_path: Path) -> None:
    names = ["commands.txt", "panes/post-test.txt", "sessions/agent.cast"]
    crashed = a_result("crashed", id="2", is_resolved=None)
    run = a_run(tmp_path / "run1", [a_result()], [a_result(), crashed])
    for task in ("oom", "crashed"):
        written_of_artifacts(*(run / task / f"{task}.1-of-1.run1" / name for name in names))
    events, _ = converted(run)
    assert [[a["name"] for a in event["artifacts"]] for event in trials_of(events)] == [names, names]


def test_a_name_in_a_run_level_file_leads_nowhere_else(tmp_path: Path) -> None:
    written_of_artifacts(tmp_path / "elsewhere" / "x" / "secret.txt")
    odd = a_result("../elsewhere", trial_name="x", is_resolved=None)
    events, _ = converted(a_run(tmp_path / "run1", [a_result()], [odd]))
    assert ["artifacts" in event for event in trials_of(events)] == [False, False]


def test_harbor_names_logs_of_steps_and_what_was_collected(tmp_path: Path) -> None:
    result = a_trial_result(step_results=[{"step_name": "one"}, {"step_name": "../up"}])
    job = a_job(tmp_path / "job", result)
    names = [
        *("exception.txt", "trial.log", "steps/one/agent/a.txt", "steps/one/verifier/test-stdout.txt"),
        *("artifacts/manifest.json", "artifacts/logs/artifacts/fix.patch"),
        "steps/one/artifacts/deep/er/out.diff",
    ]
    written_of_artifacts(*(job / "t0" / name for name in (*names, "config.json")), job / "up/agent/a.txt")
    (trial,) = trials_of(converted(job)[0])
    assert [artifact["name"] for artifact in trial["artifacts"]] == names


def test_a_copy_of_a_trial_without_its_files_adds_nothing(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()])
    written_of_artifacts(run / "oom" / "oom.1-of-1.run1" / "panes" / "post-test.txt")
    a_run(tmp_path / "copy", [a_result()])
    events, report = converted(tmp_path)
    assert len(trials_of(events)) == report.duplicates == 1


def test_real_trials_of_fc_eval_name_files_that_are_there_and_the_tests_that_failed(runs: Path) -> None:
    named = said = 0
    for run in sorted(path for path in runs.iterdir() if path.is_dir()):
        for trial in trials_of(once(run)[0]):
            for artifact in trial.get("artifacts", []):
                assert (run / artifact["path"]).is_file()
                assert not artifact["path"].endswith("/results.json")
                named += 1
            own = run / trial["task_id"] / trial.get("trial_name", "") / "results.json"
            if "message" in trial and own.is_file():
                result = json.loads(own.read_text())
                failed = [test for test, status in result["parser_results"].items() if status == "failed"]
                assert trial["message"] == f"failed tests: {', '.join(failed)}"
                assert result["is_resolved"] is False
                said += 1
    assert named > 300
    assert said > 100


# -----------------------------------------------------------------------------
# Recordings of terminals: how many events they hold (E3).


def test_a_recording_that_is_no_utf_8_or_has_not_begun_has_no_length(tmp_path: Path) -> None:
    file = tmp_path / "a.cast"
    file.write_bytes(HEADER.encode() + b'[0, "o", "\xff"]\n')
    with pytest.raises(FileError, match="not UTF-8"):
        cast_length(file)
    file.write_bytes(b"")
    with pytest.raises(FileError, match="has not begun"):
        cast_length(file)


def test_a_recording_nested_too_deeply_counts_its_good_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.cast"
    file.write_text(HEADER + "[" * 100_000 + '\n[0, "o", "x"]\n')
    assert cast_length(file) == 1


@pytest.mark.parametrize("read", [cast_length, read_samples, read_header])
def test_a_file_that_left_since_it_was_found_is_told_from_what_is_no_file(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    with pytest.raises(FileError, match=VANISHED):
        read(tmp_path / "gone")
    with pytest.raises(FileError, match="not a regular file"):
        read(tmp_path)
