"""What lies beside a result: an agent's own entry of a log (R7), tokens and length (R1, R2), and files."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

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
from streamer.terminal import cli
from tests.sources.builders import (
    Event,
    a_result,
    a_run,
    converted,
    edit_json,
    once,
    the_trial,
    trials_of,
    write_json,
)
from tests.sources.fc_eval_runs import SUB_TRIAL, trial_directories
from tests.sources.harbor import a_job, a_trial_result
from tests.support.events import a_trial

GPT = "terminus-2:openai/gpt-5"
QWEN = "terminus-2:fireworks/qwen3"
IN_CONTAINER = "agent-3-terminus-2:openai-gpt-5"
BARE = "terminus-2:openai-gpt-5"
SPELLINGS = [GPT, "terminus-2:@openai/gpt-5", IN_CONTAINER, "terminus-2:dated"]
"""From the closest to the loosest."""

OTHERS_IN_CONTAINER = ["agent-1-nop:nop", "agent-2-oracle:oracle", "agent-4-terminus-2:fireworks-qwen3"]


def test_the_harness_spells_the_key_for_the_container_with_the_agents_position() -> None:
    agent = ConfiguredAgent("my_agents.Best", "accounts/x/y_z")
    assert container_key(1, agent) == "agent-1-my-agents.Best:accounts-x-y-z"
    assert container_key(2, ConfiguredAgent("a", None)) == "agent-2-a:unknown"


def a_subject(key: str = GPT, position: int = 3) -> Subject:
    return Subject(key, position, {"nop:nop", "oracle:oracle", GPT, QWEN} - {key})


DATED = ["terminus-2:dated-1", "terminus-2:dated-2"]
OF_QWEN = (QWEN, "agent-4-terminus-2:fireworks-qwen3", "terminus-2:fireworks-qwen3")
SLASH, DASH = Subject("t:openai/x", 1, {"t:openai-x"}), Subject("t:openai-x", 2, {"t:openai/x"})
NUMBERED, ORACLE = Subject("agent-7-x:m/n", 1, {"agent-8-x:m/n"}), a_subject("oracle:oracle", 2)
KIMI = ("a:accounts/fireworks/models/kimi", "a:fireworks/accounts/fireworks/models/kimi")


@pytest.mark.parametrize(
    ("keys", "subject", "last_agent", "found"),
    [
        # every spelling is found among the others' keys, and a closer one before a looser one
        *(([*OTHERS_IN_CONTAINER, key], a_subject(), None, key) for key in (*SPELLINGS[:3], BARE)),
        *(([*SPELLINGS[:at:-1], key], a_subject(), None, key) for at, key in enumerate(SPELLINGS)),
        *(([theirs], Subject(ours), None, theirs) for theirs, ours in itertools.permutations(KIMI)),
        (["terminus-2:gpt-5"], Subject(GPT, others={"terminus-2:gpt-5"}), "terminus-2:gpt-5", None),
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
        *(("oracle", "Oracle", "oracle"), ("nop", "NOP", "nop"), ("oracle", None, None)),
        *((label, "openai/gpt-5", "openai/gpt-5") for label in ("oracle", "terminus")),
        ("Oracle", "Oracle", "Oracle"),
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

LOG = "agent-logs/t.json"


def write_cast(trial: Path, events: int, name: str = "agent.cast", seconds: int = 0) -> Path:
    content = HEADER + '[0.1, "o", "x"]\n' * events
    return write_json(trial / "sessions" / name, content, mtime_ns=seconds * 10**9)


def a_step(prompt: Any = 10, completion: Any = 2) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {"llm_metrics": {"accumulated_token_usage": usage}}


def write_steps(trial: Path, *steps: Any, name: str = "t.json") -> Path:
    return write_json(trial / "agent-logs" / name, json.dumps(steps), mtime_ns=0)


def read(trial: Path) -> tuple[int | None, int | None, int | None]:
    logs = read_agent_logs(trial)
    return logs.input_tokens, logs.output_tokens, logs.trajectory_length


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
    write_steps(tmp_path, *steps)
    assert read(tmp_path) == (*tokens, len(steps))


@pytest.mark.parametrize("completion", ["many", None, [], 1e400])
def test_a_bad_completion_count_leaves_the_prompt_count(completion: Any, tmp_path: Path) -> None:
    write_steps(tmp_path, a_step(7, 7), a_step(10, completion))
    logs = read_agent_logs(tmp_path)
    assert read(tmp_path) == (10, None, 2)
    assert logs.sources == dict.fromkeys(("input_tokens", "trajectory_length"), LOG)
    assert "step 1: completion_tokens is" in logs.problems[0]


def test_a_step_in_error_ends_the_scan_and_what_later_steps_stated_stays(tmp_path: Path) -> None:
    write_steps(tmp_path, a_step(9, 9), {"llm_metrics": None}, a_step(0, 0))
    assert read(tmp_path) == (0, 0, 3)
    assert read_agent_logs(tmp_path).problems == (f"{LOG}: step 1: found None instead of an object",)


def test_of_logs_written_at_the_same_instant_the_last_by_name_counts(tmp_path: Path) -> None:
    write_steps(tmp_path, a_step(1, 1), name="a.json")
    write_steps(tmp_path, a_step(2, 2), name="b.json")
    assert read(tmp_path) == (2, 2, 1)


@pytest.mark.parametrize("name", ["t.JSON", "t.jsonl", "below/t.json"])
def test_only_json_files_of_the_directory_itself_are_logs(name: str, tmp_path: Path) -> None:
    write_steps(tmp_path, a_step(), name=name)
    assert read_agent_logs(tmp_path) == AgentLogs()


def test_an_empty_list_gives_way_to_a_recording_and_is_0_without_one(tmp_path: Path) -> None:
    write_steps(tmp_path)
    assert read(tmp_path) == (None, None, 0)
    write_cast(tmp_path, 3)
    logs = read_agent_logs(tmp_path)
    assert (logs.trajectory_length, logs.sources["trajectory_length"]) == (3, "sessions/agent.cast")


def test_links_and_what_is_no_file_are_not_read(tmp_path: Path) -> None:
    elsewhere = write_steps(tmp_path / "elsewhere", a_step())
    trial, linked = tmp_path / "trial", tmp_path / "linked"
    (trial / "agent-logs").mkdir(parents=True)
    (trial / "agent-logs" / "link.json").symlink_to(elsewhere)
    assert read_agent_logs(trial) == AgentLogs()
    os.mkfifo(trial / "agent-logs" / "pipe.json")
    assert read_agent_logs(trial).problems == ("agent-logs/pipe.json: not a regular file",)
    linked.mkdir()
    (linked / "agent-logs").symlink_to(elsewhere.parent)
    assert read_agent_logs(linked) == AgentLogs()


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"[1", b"\xed\xa0\x80", b"[" + b"9" * 5000 + b"]", b"null"]
)
def test_hostile_logs_are_problems_not_exceptions(content: bytes, tmp_path: Path) -> None:
    write_steps(tmp_path).write_bytes(content)
    logs = read_agent_logs(tmp_path)
    assert (logs.trajectory_length, len(logs.problems)) == (None, 1)


def test_a_sub_trial_finds_its_recording_in_the_main_trial_by_its_index_after_its_own(tmp_path: Path) -> None:
    main, sub = tmp_path / "t.1-of-1.r", tmp_path / "t.1-of-1.r.agent-1-x"
    sub.mkdir()
    write_cast(main, 4, "agent-1-x:gpt-5.cast")
    write_cast(main, 9, "agent-10-y:gpt-5.cast", seconds=10)
    write_steps(main, a_step())
    logs = read_agent_logs(sub, main_trial=main.name, agent_index=1)
    assert (logs.trajectory_length, logs.input_tokens) == (4, None)
    assert (sub / logs.sources["trajectory_length"]).resolve() == main / "sessions" / "agent-1-x:gpt-5.cast"
    write_cast(sub, 2, "agent-1-x:gpt-5.cast")
    assert read_agent_logs(sub, main_trial=main.name, agent_index=1).trajectory_length == 2


TOKENS = ("input_tokens", "output_tokens")
FIELDS = (*TOKENS, "cost_usd", "trajectory_length")
NOTHING = (None, None, None)


@pytest.mark.parametrize(
    ("own", "logged", "result", "of_logs"),
    [
        # tokens of the logs replace the agent's own if either is above 0
        ((5, 5, None, None), (0, 8, None), (0, 8, None, None), TOKENS),
        *(
            (own, (*logged, None), own, ())
            for own in ((5, 6, None, None), (None, None, None, None))
            for logged in ((0, 0), (-7, -1), (None, None))
        ),
        # a reported cost of 0 beside them is unknown, and another one stays
        ((None, None, 0.0, None), (10, 2, None), (10, 2, None, None), TOKENS),
        ((None, None, 0.0, None), NOTHING, (None, None, 0.0, None), ()),
        ((None, None, 0.5, None), (10, 2, None), (10, 2, 0.5, None), TOKENS),
        ((5, None, 0.0, 3), (10, 2, 7), (10, 2, None, 3), TOKENS),
        ((5, None, 0.0, 3), (5, None, 3), (5, None, None, 3), ("input_tokens",)),
        ((5, None, 0.0, 3), NOTHING, (5, None, 0.0, 3), ()),
        # the length is the harness's, or the logs' where that is 0 or unknown
        *(
            ((None, None, None, length), (None, None, 7), (None, None, None, 7), ("trajectory_length",))
            for length in (None, 0)
        ),
        *(
            ((None, None, None, length), (None, None, logged), (None, None, None, length), ())
            for length, logged in ((5, 7), (0, None))
        ),
    ],
    ids=str,
)
def test_logs_replace_what_they_know_better_and_what_the_harness_had_is_remembered(
    own: tuple[Any, ...], logged: tuple[Any, ...], result: tuple[Any, ...], of_logs: tuple[str, ...]
) -> None:
    sources = dict.fromkeys((*TOKENS, "trajectory_length"), LOG)
    event = a_trial(**{name: value for name, value in zip(FIELDS, own, strict=True) if value is not None})
    merged = enriched(event, AgentLogs(*logged, sources=sources), own="trial/results.json")
    known = {name: value for name, value in zip(FIELDS, result, strict=True) if value is not None}
    assert merged.event == a_trial(**known)
    assert merged.sources == {name: LOG if name in of_logs else "trial/results.json" for name in known}
    changed = zip(FIELDS, own, result, strict=True)
    assert merged.own == {name: before for name, before, after in changed if before != after}


STEPS = [{}, a_step(100, 20)]
UNCOUNTED: Event = {"total_input_tokens": 0, "total_output_tokens": 0, "total_cost": 0.0}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two trials whose harness counted no tokens: a log lies beside one, a recording beside the other."""
    results = [a_result(task, **UNCOUNTED) for task in ("t1", "t2")]
    lock = {"agent": {"name": "terminus", "model_name": "gpt-5"}}
    result = a_run(tmp_path / "run1", results, run_file=results, lock=lock)
    write_steps(result / "t1" / results[0]["trial_name"], *STEPS)
    write_cast(result / "t2" / results[1]["trial_name"], 1, "tests.cast")
    return result


def numbers(events: list[Event]) -> list[tuple[Any, ...]]:
    return [tuple(event.get(name) for name in FIELDS) for event in trials_of(events)]


@pytest.mark.parametrize(
    ("copy", "duplicates"), [(None, 0), ("run1 copied without logs", 2), ("run1_results.json", 0)]
)
def test_a_trials_log_counts_beside_a_copy_without_it(run: Path, copy: str | None, duplicates: int) -> None:
    """A recording of a Terminal-Bench trial is not its trajectory."""
    if copy == "run1_results.json":
        shutil.copyfile(run / "results.json", run.parent / copy)
    elif copy:
        shutil.copytree(run, run.parent / copy, ignore=shutil.ignore_patterns("agent-logs"))
    events, report = converted(run.parent)
    assert numbers(events) == [(100, 20, None, 2), (0, 0, None, None)]
    assert (report.trials, report.duplicates, report.unreadable) == (2, duplicates, [])


def test_a_log_that_cannot_be_used_is_a_hint_not_an_error(run: Path) -> None:
    write_json(run / "t1" / "t1.1-of-1.run1" / "agent-logs" / "t.json", "[cut off")
    events, report = converted(run)
    assert numbers(events) == [(0, 0, None, None)] * 2
    assert report.unreadable == []
    [hint] = report.explanations[0].hints
    assert hint.startswith("agent-logs/t.json: not valid JSON")


def test_explain_names_the_file_of_each_number_on_stderr(run: Path) -> None:
    file = shutil.copyfile(run / "results.json", run.parent / "run2_results.json")
    words = (str(run), "--explain"), (str(file), "--explain"), (str(run),)
    whole, run_level, silent = (CliRunner().invoke(cli, ["convert", *more]) for more in words)
    assert whole.exit_code == 0
    assert all(json.loads(line) for line in whole.stdout.splitlines())
    first, second, counts = whole.stderr.splitlines()[:3]
    assert first.endswith(
        "t1.1-of-1.run1/results.json: input_tokens 100 from agent-logs/t.json, output_tokens 20 from "
        "agent-logs/t.json, cost_usd unknown, trajectory_length 2 from agent-logs/t.json"
    )
    assert "input_tokens 0 from results.json" in second
    assert counts.startswith("1 of 2 trials with numbers from agent logs or recordings")
    tokens = "input_tokens 0 from run2_results.json, output_tokens 0 from run2_results.json"
    assert f"{tokens}, cost_usd unknown" in run_level.stderr
    assert "0 of 2 trials with numbers from agent logs" in run_level.stderr
    assert "agent-logs" not in silent.stderr


# -----------------------------------------------------------------------------
# Real fc-eval runs: logs say what the harness made of them, and stand in where it has not (E6-E8, G1).


RUNS = {"fc-rough": 32, "fc-single-terminus": 23, "fc-multi-of-one": 8}
"""Run to how many of its trials have a log or a recording."""


def by_id(events: Iterable[Event]) -> dict[str, Event]:
    return {event["trial_id"]: event for event in trials_of(events) if event.get("agent_index", 1)}


def without_what_the_harness_read(run: Path, copy: Path) -> Path:
    """A copy in which no result has tokens, cost or length yet: as it is first written (G3)."""
    shutil.copytree(run, copy)
    unread = {"total_input_tokens": None, "total_output_tokens": None, "total_cost": None}
    for directory in trial_directories(copy):
        metrics = edit_json(directory / "results.json", **unread).get("parser_extra_metrics")
        if metrics is not None:
            metrics.pop("trajectory_length", None)
            edit_json(directory / "results.json", parser_extra_metrics=metrics)
    return copy


@pytest.mark.parametrize("name", RUNS)
def test_the_logs_give_what_the_harness_reads_from_them_later(runs: Path, name: str, tmp_path: Path) -> None:
    events = by_id(converted(without_what_the_harness_read(runs / name, tmp_path / name))[0])
    with_logs = 0
    for directory in trial_directories(runs / name):
        logs = read_agent_logs(directory)
        result = json.loads((directory / "results.json").read_bytes())
        event = events[result["id"]]
        if logs == AgentLogs():
            assert not event.keys() & {*FIELDS}
            continue
        with_logs += 1
        assert event["trajectory_length"] == result["parser_extra_metrics"]["trajectory_length"]
        if logs.input_tokens is not None:
            assert event["input_tokens"] == result["total_input_tokens"]
            assert event["output_tokens"] == result["total_output_tokens"]
        assert "cost_usd" not in event
    assert with_logs == RUNS[name]


def test_a_recording_that_lies_with_the_whole_trial_is_the_sub_trials(runs: Path, tmp_path: Path) -> None:
    run = without_what_the_harness_read(runs / "fc-rough", tmp_path / "fc-rough")
    expected = by_id(converted(run)[0])
    casts = sorted(run.glob("*/*.agent-*/sessions/agent-*.cast"))
    for cast in casts:
        sub_trial = cast.parents[1]
        main = sub_trial.with_name(SUB_TRIAL.split(sub_trial.name)[0]) / "sessions"
        main.mkdir(parents=True, exist_ok=True)
        shutil.move(cast, main / cast.name)
    assert len(casts) > 0
    events, report = converted(run)
    assert {key: event | {"artifacts": None} for key, event in by_id(events).items()} == {
        key: event | {"artifacts": None} for key, event in expected.items()
    }
    sources = {file for result in report.explanations for _, file in result.values.values()}
    assert any(source.startswith("../") and "/sessions/agent-" in source for source in sources)


# -----------------------------------------------------------------------------
# The files that a trial left are named where they lie.


def written_of_artifacts(folder: Path, *names: str) -> None:
    for name in names:
        write_json(folder / name, "x")


def test_files_of_the_named_directories_are_listed_in_order_without_links(tmp_path: Path) -> None:
    trial = tmp_path / "run" / "t" / "t.1-of-1"
    written_of_artifacts(trial, "logs/b.cast", "logs/a.bin", "z.txt", "results.json", "other/x")
    (trial / "logs" / "link.txt").symlink_to("/etc/hostname")
    (trial / "linked").symlink_to("/etc")
    assert artifacts_of(tmp_path / "run", trial, (".", "logs", "linked", "none"), ("results.json",)) == [
        {"name": "z.txt", "path": "t/t.1-of-1/z.txt", "media_type": "text/plain"},
        {"name": "logs/a.bin", "path": "t/t.1-of-1/logs/a.bin"},
        {"name": "logs/b.cast", "path": "t/t.1-of-1/logs/b.cast", "media_type": "application/x-asciicast"},
    ]


def test_names_that_no_event_may_hold_are_left_out_and_at_most_32_are_named(tmp_path: Path) -> None:
    written_of_artifacts(tmp_path / "t", "a\nb", "c\\d", "e" * 200)
    assert artifacts_of(tmp_path, tmp_path / "t", (".",)) is None
    names = [f"{number:02}.log" for number in range(40)]
    written_of_artifacts(tmp_path / "t", *names)
    result = artifacts_of(tmp_path, tmp_path / "t", (".",))
    assert [artifact["name"] for artifact in result or []] == names[:32]


def test_a_trial_without_a_directory_or_elsewhere_has_none(tmp_path: Path) -> None:
    written_of_artifacts(tmp_path / "a", "x.log")
    (tmp_path / "b").mkdir()
    assert artifacts_of(tmp_path, None, (".",)) is None
    assert artifacts_of(tmp_path / "b", tmp_path / "a", (".",)) is None


def test_terminal_bench_names_screens_recordings_and_logs_also_of_a_crashed_trial(tmp_path: Path) -> None:
    names = ["commands.txt", "panes/post-test.txt", "sessions/agent.cast"]
    crashed = a_result("crashed", id="2", is_resolved=None)
    run = a_run(tmp_path / "run1", [a_result()], [a_result(), crashed])
    for task in ("oom", "crashed"):
        written_of_artifacts(run / task / f"{task}.1-of-1.run1", *names)
    events, _ = converted(run)
    assert [[a["name"] for a in event["artifacts"]] for event in trials_of(events)] == [names, names]


def test_a_copy_of_a_trial_without_its_files_adds_nothing(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()])
    written_of_artifacts(run / "oom" / "oom.1-of-1.run1", "panes/post-test.txt")
    a_run(tmp_path / "copy", [a_result()])
    events, report = converted(tmp_path)
    assert len(trials_of(events)) == report.duplicates == 1


def test_a_name_in_a_run_level_file_leads_nowhere_else(tmp_path: Path) -> None:
    written_of_artifacts(tmp_path / "elsewhere" / "x", "secret.txt")
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
    written_of_artifacts(job / "t0", *names, "config.json", "../up/agent/a.txt")
    assert [artifact["name"] for artifact in the_trial(job)["artifacts"]] == names


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


@pytest.mark.parametrize(
    ("content", "length"),
    [
        (HEADER.encode() + b'[0, "o", "\xff"]\n', "not UTF-8"),
        (b"", "has not begun"),
        (HEADER.encode() + b"[" * 100_000 + b'\n[0, "o", "x"]\n', 1),  # nested too deeply, and a good line
    ],
    ids=["no UTF-8", "not begun", "nested too deeply"],
)
def test_a_recordings_length_is_its_good_lines(tmp_path: Path, content: bytes, length: int | str) -> None:
    file = tmp_path / "a.cast"
    file.write_bytes(content)
    if isinstance(length, str):
        with pytest.raises(FileError, match=length):
            cast_length(file)
    else:
        assert cast_length(file) == length


@pytest.mark.parametrize("read", [cast_length, read_samples, read_header])
def test_vanished_files_and_irregular_files_differ(tmp_path: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(FileError, match=VANISHED):
        read(tmp_path / "gone")
    with pytest.raises(FileError, match="not a regular file"):
        read(tmp_path)
