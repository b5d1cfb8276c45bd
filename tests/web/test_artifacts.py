"""Files of trials: whose they are, what opens them, and what their logs and trajectories become."""

from __future__ import annotations

import json
import os
import socket
import tarfile
import tempfile
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.events import TrialResult
from streamer.settings import Settings
from streamer.sources import convert
from streamer.sources.tail import LedgerFile, followed, ledger_path
from streamer.web import artifacts
from streamer.web.artifacts import MAX_STEPS, CannotBeOpened, lines_of, openhands_steps, read_below, view_of
from tests.support.data import REPOSITORY, shared_data
from tests.web.feeding import StandingClock
from tests.web.trial_files import FILES, RUN, SECRET, TRAJECTORY, TRIAL, make_run

LOOKS: list[tuple[str, list[dict[str, object]]]] = [
    (
        "\x1b[1;32mok\x1b[22m still\x1b[39m plain",
        [{"text": "ok", "color": 2, "bold": True}, {"text": " still", "color": 2}, {"text": " plain"}],
    ),
    (
        "\x1b[3;4;91;44mx\x1b[m",
        [{"text": "x", "color": 9, "background": 4, "italic": True, "underline": True}],
    ),
    ("\x1b[38;5;9mx", [{"text": "x", "color": 9}]),
    ("\x1b[38;5;200;1mx", [{"text": "x", "bold": True}]),  # of 256 colours 16 are kept
    ("\x1b[38;2;1;2;3;4mx", [{"text": "x", "underline": True}]),
    ("10 %\r50 %\r100 %", [{"text": "100 %"}]),
    ("\x1b]0;no end\x1b[31mred", [{"text": "0;no end"}, {"text": "red", "color": 1}]),
    (f"\x1b[{'1;' * (artifacts.MAX_CODES - 1)}4;0mx", [{"text": "x", "bold": True, "underline": True}]),
    (
        "\x1b]0;title\x07a\x1b]8;;javascript:alert(1)\x1b\\b\x1b[2J\x1b[H\x1b[?2004lc\x08\x07\x9b",
        [{"text": letter} for letter in "abc"],
    ),
]


@pytest.mark.parametrize(("text", "spans"), LOOKS)
def test_codes_become_attributes_and_the_others_nothing(text: str, spans: list[dict[str, object]]) -> None:
    assert [span.model_dump(exclude_defaults=True) for span in lines_of(text)[0][0]] == spans


def test_attributes_reach_over_the_end_of_a_line_whatever_ends_it() -> None:
    assert [line[0].color for line in lines_of("\x1b[31ma\nb")[0]] == [1, 1]
    assert [line[0].text for line in lines_of("a\r\nb\r\n")[0]] == ["a", "b"]


def test_of_many_lines_the_last_are_kept_and_long_lines_say_what_is_missing() -> None:
    lines, before = lines_of("x\n" * (artifacts.MAX_LINES + 3) + "y" * (artifacts.MAX_LINE_CHARACTERS + 1))
    assert (len(lines), before) == (artifacts.MAX_LINES, 4)
    assert len(lines[-1][0].text) == artifacts.MAX_LINE_CHARACTERS
    assert lines[-1][1].text == "[1 more characters not shown]"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", ["\x1b]" * 524_288, "\x1b]0;" * 262_144, f"\x1b[{';' * (1 << 20)}m"])
def test_a_line_takes_time_in_proportion_to_its_length(line: str) -> None:
    """If each sequence looked through the rest of the line, a mebibyte would take hours."""
    text = "".join(span.text for span in lines_of(line)[0][0])
    assert set(text.partition("[")[0]) <= set("0;")


@given(st.text(alphabet=st.sampled_from("ab\x1b[];?0123456789mKHJ\x07\\\r\n\t\x9b\x00"), max_size=200))
def test_no_control_character_is_left_of_any_text(text: str) -> None:
    left = "".join(span.text for line in lines_of(text)[0] for span in line)
    assert not any(unicodedata.category(c) == "Cc" and c != "\t" for c in left)


# -----------------------------------------------------------------------------
# Steps of trajectories in ATIF: recordings of harbor, and what else the format allows.


JOBS = REPOSITORY / "tests" / "sources" / "harbor" / "jobs.tar.gz"


def test_every_recorded_trajectory_of_harbor_becomes_its_own_steps(tmp_path: Path) -> None:
    """Those that harbor's agents wrote (tests/sources/harbor/record.py)."""
    with tarfile.open(JOBS) as packed:
        packed.extractall(tmp_path, filter="data")
    recorded = [json.loads(file.read_text()) for file in tmp_path.glob("**/trajectory.json")]
    assert len(recorded) >= 10
    for content in recorded:
        steps, more = artifacts.atif_steps(content)
        said = [(step["source"], step["message"]) for step in content["steps"]]
        assert ([(step.source, step.text) for step in steps], more) == (said, 0)


def test_calls_of_atif_have_their_outputs_and_what_failed_is_marked() -> None:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"keystrokes": "ls\n"}}
    other = {"tool_call_id": "c2", "function_name": "edit", "arguments": "x"}
    failure = "Traceback (most recent call last):"
    results = [
        {"source_call_id": "c2", "content": [{"type": "text", "text": failure}]},
        {"source_call_id": "c1", "content": "a.py"},
        {"content": "a notice"},
    ]
    said = {"message": [{"type": "text", "text": "look"}, {"type": "image"}], "reasoning_content": "hm"}
    numbers = {"metrics": {"completion_tokens": 5, "cost_usd": 0.25}, "timestamp": "2026-01-01T00:00:00Z"}
    result = step_of(**said, **numbers, tool_calls=[call, other], observation={"results": results})
    assert (result.text, result.reasoning) == ("look\n[image not shown]\na notice", "hm")
    assert (result.tokens, result.cost_usd, result.error) == (5, 0.25, True)
    assert [(one.name, one.arguments, one.output, one.error) for one in result.calls] == [
        ("bash", '{"keystrokes": "ls\\n"}', "a.py", False),
        ("edit", "x", failure, True),
    ]


def test_terminus_in_atif_leaves_its_one_output_at_its_one_call() -> None:
    call = {"tool_call_id": "call_0", "function_name": "bash_command", "arguments": {"keystrokes": "pwd\n"}}
    result = step_of(tool_calls=[call], observation={"results": [{"content": "/app"}]})
    assert result.calls[0].output == "/app"


def steps_of(*steps: dict[str, Any]) -> tuple[list[artifacts.Step], int]:
    return artifacts.atif_steps({"schema_version": "ATIF-v1.5", "steps": list(steps)})


def step_of(**fields: object) -> artifacts.Step:
    [result], _ = steps_of({"source": "agent", **fields})
    return result


def test_each_output_is_told_once_however_many_calls_have_its_id() -> None:
    calls = [{"tool_call_id": "c", "function_name": "bash"}] * 50
    results = [{"source_call_id": "c", "content": f"out-{number}"} for number in range(50)]
    result = step_of(tool_calls=calls, observation={"results": results})
    assert [call.output for call in result.calls] == ["\n".join(f"out-{n}" for n in range(50)), *[None] * 49]


def test_of_very_many_calls_and_parts_the_first_are_shown_and_the_others_counted() -> None:
    result = step_of(tool_calls=[{}] * (artifacts.MAX_CALLS + 3), message=[0] * (artifacts.MAX_PARTS + 1000))
    [typed], _ = artifacts.terminus_steps({"commands": [{"keystrokes": "ls"}] * (artifacts.MAX_CALLS + 3)})
    assert len(result.calls) == len(typed.calls) == artifacts.MAX_CALLS
    assert result.text.splitlines()[-2:] == ["[1,000 more parts not shown]", "[3 more calls not shown]"]
    assert typed.text == "[3 more calls not shown]"


def test_every_agent_log_of_fc_eval_that_is_a_list_of_actions_becomes_steps() -> None:
    read = 0
    for file in sorted((shared_data() / "formulacode" / "logs").glob("*/agent-logs/*.json")):
        try:
            content = json.loads(file.read_bytes())
            steps, _ = openhands_steps(content)
        except (ValueError, artifacts.NotThisFormat):
            continue
        read += 1
        actions = [event for event in content if isinstance(event, dict)]
        assert [step.calls[0].name for step in steps] == [event["action"] for event in actions]
        assert {call.arguments for step in steps for call in step.calls} == {"ls"}
    assert read >= 20


def test_an_observation_of_openhands_stands_at_the_action_that_caused_it() -> None:
    observed = {"content": "no rule", "extras": {"metadata": {"exit_code": 2}}}
    events: list[Any] = [
        {"id": 0, "source": "user", "action": "message", "args": {"content": "fix it"}},
        {"id": 1, "source": "agent", "action": "run", "args": {"command": "make", "thought": "try"}},
        {"id": 2, "cause": 1, "source": "agent", "observation": "run", **observed},
        {"id": 3, "source": "environment", "observation": "error", "content": "lost"},
        {"id": 4, "source": "agent", "action": "finish", "args": {"final_thought": "done"}},
        "not an event",
    ]
    steps, _ = openhands_steps(events)
    assert [step.source for step in steps] == ["user", "agent", "environment", "agent"]
    assert [step.text for step in steps] == ["fix it", "try", "", "done"]
    [call] = steps[1].calls
    assert (call.arguments, call.output, call.error) == ("make", "no rule", True)
    assert [step.error for step in steps] == [False, True, True, False]


def test_an_answer_of_terminus_is_what_it_thinks_and_types() -> None:
    first = {"state_analysis": "new", "explanation": "look", "is_task_complete": False}
    second = {"analysis": "seen", "plan": "end", "task_complete": True}
    keys = [{"keystrokes": "ls\n", "is_blocking": True}]
    steps, _ = artifacts.terminus_steps([first | {"commands": keys}, second | {"commands": []}])
    assert [step.text for step in steps] == ["new\nlook", "seen\nend\nIt says that the task is complete."]
    assert [call.arguments for call in steps[0].calls] == ["ls\n"]


# -----------------------------------------------------------------------------
# A file of a trial is opened below its run's directory, and nowhere else, whatever lies there.


LOG = "task/agent/agent.log"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "outside.txt").write_text(SECRET)
    home = tmp_path / "run"
    (home / "task" / "agent").mkdir(parents=True)
    (home / LOG).write_bytes(b"inside")
    return home


def test_a_file_below_the_directory_is_read_and_of_a_long_one_the_end_if_asked(home: Path) -> None:
    for path in (LOG, "./task/./agent/agent.log"):
        part = read_below(home, path, 100)
        assert (part.content, part.size, part.left_out) == (b"inside", 6, 0)
    assert read_below(home, LOG, 4, from_end=True).content == b"side"
    with pytest.raises(CannotBeOpened, match=r"has 6 bytes; at most 4 are shown"):
        read_below(home, LOG, 4)
    with pytest.raises(CannotBeOpened, match="is no longer in the run's directory"):
        read_below(home / "nowhere", LOG, 100)


ELSEWHERE = ("../outside.txt", "task/../../outside.txt", "/etc/passwd", "..\\outside.txt", "~/.ssh/id_rsa")
NO_FILES = ("", ".", "..", "task", "task/agent", f"{LOG}/", f"{LOG}/more", "task//agent/agent.log")


@pytest.mark.parametrize("path", [*ELSEWHERE, *NO_FILES, f"{LOG}\0", "x" * 5000])
def test_paths_that_lead_elsewhere_or_to_no_file_are_refused(home: Path, path: str) -> None:
    with pytest.raises(CannotBeOpened):
        read_below(home, path, 100)


def test_links_are_never_followed_wherever_they_stand_in_the_path(home: Path) -> None:
    (home / "file").symlink_to(home.parent / "outside.txt")
    (home / "folder").symlink_to(home.parent)
    (home / "task" / "up").symlink_to("../..")
    (home / "inner").symlink_to("task")
    (home / "loop").symlink_to("loop")
    for path in ("file", "folder/outside.txt", "task/up/outside.txt", "inner/agent/agent.log", "loop"):
        with pytest.raises(CannotBeOpened, match="cannot be opened"):
            read_below(home, path, 100)


def test_a_directory_that_becomes_a_link_leads_nowhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent swaps a directory for a link after the first part of the path was opened."""
    opened = os.open

    def swapping(path: str | Path, *rest: int, dir_fd: int | None = None) -> int:
        descriptor = opened(path, *rest, dir_fd=dir_fd)
        if path == "task":
            (home / "task").rename(home / "moved")
            (home / "task").symlink_to(home.parent)
        return descriptor

    monkeypatch.setattr(os, "open", swapping)
    assert read_below(home, LOG, 100).content == b"inside"


def test_devices_pipes_and_sockets_are_refused_without_waiting(home: Path) -> None:
    os.mkfifo(home / "pipe")
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{short}/socket")
        for folder, name in ((home, "pipe"), (Path(short), "socket"), (Path("/dev"), "zero")):
            with pytest.raises(CannotBeOpened):
                read_below(folder, name, 100)


# -----------------------------------------------------------------------------
# Each kind of file is shown as what it is; what is none of them is text, or refused.


KINDS = {
    "trajectory.json": (json.dumps(TRAJECTORY).encode(), "steps", 3, []),
    "other.json": (b'{"a": 1}', "log", 0, ['{"a": 1}']),
    "broken.json": (b'[{"action"', "log", 0, ['[{"action"']),
    "deep.json": (b"[" * 100_000, "log", 0, ["[" * 4_000 + "[96,000 more characters not shown]"]),
    "agent.log": (b"a\nb\n", "log", 0, ["a", "b"]),
    "latin.log": (b"caf\xe9", "log", 0, ["caf\ufffd"]),
    "my.patch": (b"-a\n+b\n", "diff", 0, ["-a", "+b"]),
    "page.html": (b"<script>alert(1)</script>", "log", 0, ["<script>alert(1)</script>"]),
    "agent.cast": (b'{"version": 2}\n', "cast", 0, []),
    "response.txt": (b'{"commands": [{"keystrokes": "ls"}]}', "steps", 1, []),
}
"""Contents, kind, number of steps, and lines."""


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_follows_from_the_file_and_its_contents(tmp_path: Path, name: str) -> None:
    content, kind, steps, lines = KINDS[name]
    (tmp_path / name).write_bytes(content)
    result = view_of(tmp_path, name, name)
    assert (result.kind, len(result.steps)) == (kind, steps)
    assert ["".join(span.text for span in line) for line in result.lines] == lines


def test_of_a_long_log_the_end_is_shown_and_what_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "long.log").write_bytes(b"x\n" * artifacts.MAX_LOG_BYTES + b"the end\n")
    result = view_of(tmp_path, "long.log", "long")
    assert result.lines[-1][0].text == "the end"
    assert "before this" in (result.left_out or "")
    (tmp_path / "core.log").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(CannotBeOpened, match="is not text"):
        view_of(tmp_path, "core.log", "core.log")


def test_only_recordings_are_played(tmp_path: Path) -> None:
    (tmp_path / "a.cast").write_text("recorded")
    (tmp_path / "a.log").write_text("a log")
    assert artifacts.recording(tmp_path, "a.cast") == "recorded"
    with pytest.raises(CannotBeOpened, match="is not a recording"):
        artifacts.recording(tmp_path, "a.log")


# -----------------------------------------------------------------------------
# What holds of every format of trajectories: nonsense is refused, and hostile values become text.


@pytest.mark.parametrize("content", [None, 1, "x", [], {}, [1], {"steps": 1}, {"commands": [1]}, [{"a": 1}]])
def test_whatever_is_none_of_the_formats_is_said_to_be_none(content: Any) -> None:
    for read in (artifacts.atif_steps, openhands_steps, artifacts.terminus_steps):
        with pytest.raises(artifacts.NotThisFormat):
            read(content)


def test_hostile_values_in_every_field_become_text_or_nothing() -> None:
    odd = [{}, [], 1, True, None, "\x1b[31m<script>", "\ud800", float("nan"), 10**30, {"a": [1, "\ud800"]}]
    names = ("source", "message", "reasoning_content", "timestamp", "tool_calls", "observation", "metrics")
    assert len(steps_of(*(dict.fromkeys(names, value) for value in odd))[0]) == len(odd)
    unsent = step_of(metrics={"cost_usd": 10**400, "completion_tokens": 10**30})
    assert (unsent.cost_usd, unsent.tokens) == (None, None)
    fields = ("action", "observation", "args", "content", "extras", "cause", "id", "source", "timestamp")
    assert openhands_steps([dict.fromkeys(fields, value) for value in odd])[0]


def test_of_a_very_long_trajectory_the_first_steps_are_read_and_the_others_counted() -> None:
    fields_of = Mock(return_value={"source": "agent", "calls": []})
    steps, more = artifacts.numbered(range(MAX_STEPS * 3), fields_of)
    assert (len(steps), fields_of.call_count, more) == (MAX_STEPS, MAX_STEPS, MAX_STEPS * 2)


def test_all_steps_together_are_bounded() -> None:
    result, more = steps_of(*[{"source": "agent", "message": "\x01" * artifacts.MAX_STEP_CHARACTERS}] * 200)
    assert len(result) + more == 200
    sent = sum(len(step.model_dump_json()) for step in result)
    assert artifacts.MAX_CHARACTERS / 2 < sent <= artifacts.MAX_CHARACTERS


# -----------------------------------------------------------------------------
# Whose directory is whose: named to the server, or followed by `tail`; and which of its files are shown.


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


def follow(settings: Settings, root: Path, pool: str | None = None) -> None:
    """What `tail` leaves of a directory that it follows."""
    with LedgerFile(ledger_path(settings, root, pool), root, pool) as ledger:
        ledger.load()


def known_to(
    settings: Settings, *named: Path, clock: StandingClock | None = None
) -> artifacts.RunDirectories:
    return artifacts.RunDirectories(settings, named, clock or StandingClock())


def found_in(directories: artifacts.RunDirectories, run_id: str = RUN, shard: str = "") -> Path | None:
    """The directory of a run; None: the server knows none. Any other reason not to say it is an error."""
    try:
        return directories.of(run_id, shard).home
    except CannotBeOpened as error:
        if str(error) != artifacts.NOT_NAMED:
            raise
        return None


def a_result(**fields: Any) -> TrialResult:
    """A result in the slot of the one trial that lies in the directory of the run."""
    return TrialResult(**{"type": "trial_result", "run_id": RUN, "task_id": "task-1"} | fields)


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("", True),
        (RUN, True),
        *((f"{RUN}/{below}", False) for below in ("task-1", TRIAL, f"{TRIAL}/agent.log")),
    ],
)
def test_a_run_is_found_below_a_directory_that_was_named_and_not_above(
    settings: Settings, tmp_path: Path, named: str, found: bool
) -> None:
    runs = make_run(tmp_path)
    assert found_in(known_to(settings, runs / named)) == ((runs / RUN).resolve() if found else None)


def test_a_run_that_was_pooled_is_found_by_its_shard(settings: Settings, tmp_path: Path) -> None:
    directories = known_to(settings, make_run(tmp_path))
    found = [found_in(directories, "pool", shard) for shard in (f"{RUN}/2", f"{RUN}2", "other")]
    assert found == [(tmp_path / "runs" / RUN).resolve(), None, None]


def test_what_tail_followed_is_named_for_its_deployment_alone(settings: Settings, tmp_path: Path) -> None:
    runs = make_run(tmp_path)
    follow(settings, runs)
    assert found_in(known_to(settings)) == (runs / RUN).resolve()
    assert found_in(known_to(settings.model_copy(update={"namespace": "other"}))) is None


def test_two_pools_with_one_shard_name_have_each_its_directory(settings: Settings, tmp_path: Path) -> None:
    pools = {pool: make_run(tmp_path / pool) for pool in ("a", "b")}
    for pool, runs in pools.items():
        follow(settings, runs, pool)
    directories = known_to(settings)
    for pool, runs in pools.items():
        assert found_in(directories, pool, RUN) == (runs / RUN).resolve()
    for stranger, shard in (("mine", RUN), (RUN, ""), ("a", "")):
        assert found_in(directories, stranger, shard) is None


def test_where_two_directories_fit_neither_is_shown_while_both_do(settings: Settings, tmp_path: Path) -> None:
    clock = StandingClock()
    first, second = (make_run(tmp_path / place) for place in ("a", "b"))
    directories = known_to(settings, first, clock=clock)
    assert found_in(directories) == (first / RUN).resolve()
    follow(settings, second)
    with pytest.raises(CannotBeOpened, match="Rename or remove all but one"):
        directories.of(RUN, "")
    (first / RUN).rename(tmp_path / "aside")
    clock.now += artifacts.LOOK_AGAIN_SECONDS
    assert found_in(directories) == (second / RUN).resolve()


def test_a_run_that_appears_later_is_looked_for_now_and_then(settings: Settings, tmp_path: Path) -> None:
    clock = StandingClock()
    directories = known_to(settings, tmp_path / "runs", clock=clock)
    assert found_in(directories) is None
    make_run(tmp_path)
    assert found_in(directories) is None
    clock.now += artifacts.LOOK_AGAIN_SECONDS
    assert found_in(directories) is not None


def test_runs_of_other_packages_connectors_are_found(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edge is the list of what is installed: a run that the connectors of ours do not know."""
    theirs = [source for source in convert.SOURCES if source.name == "terminal-bench"]
    rest = tuple(source for source in convert.SOURCES if source.name not in ("terminal-bench", "fc-eval"))
    runs = make_run(tmp_path)
    monkeypatch.setattr(convert, "SOURCES", rest)
    assert found_in(known_to(settings, runs)) is None
    monkeypatch.setattr(convert, "load_all", lambda taken: theirs)
    assert found_in(known_to(settings, runs)) == (runs / RUN).resolve()


def test_the_files_that_the_connector_names_for_a_trial_are_shown(settings: Settings, tmp_path: Path) -> None:
    directories = known_to(settings, make_run(tmp_path))
    pooled = {"run_id": "pool", "shard": RUN, "agent": "named by an option"}
    for event in (a_result(), a_result(**pooled)):
        for name in FILES:
            directories.of(event.run_id, event.shard).check(event, f"{TRIAL}/{name}")


OTHER_TRIAL = "task-2/task-2.1-of-1.files-run"
OF_THE_RUN = (
    ".env",
    "run_metadata.json",
    "tb.lock",
    "results.json",
    "gone/agent.log",
    f"{OTHER_TRIAL}/agent.log",
)


@pytest.mark.parametrize(
    "path", [*OF_THE_RUN, *(f"{TRIAL}/{name}" for name in ("results.json", "link.log", "./agent.log"))]
)
def test_a_path_that_only_an_event_names_is_not_shown(settings: Settings, tmp_path: Path, path: str) -> None:
    """Events are a publisher's: they make neither files of the harness nor those of other trials visible."""
    run = make_run(tmp_path) / RUN
    (run / ".env").write_text("KEY=1")
    (run / OTHER_TRIAL).mkdir(parents=True)
    (run / OTHER_TRIAL / "results.json").write_text(json.dumps({"task_id": "task-2", "is_resolved": True}))
    (run / OTHER_TRIAL / "agent.log").write_text("of task-2")
    known = known_to(settings, run).of(RUN, "")
    known.check(a_result(task_id="task-2"), f"{OTHER_TRIAL}/agent.log")
    with pytest.raises(CannotBeOpened, match="Other files are not shown"):
        known.check(a_result(), path)


def test_a_trial_in_the_file_of_the_run_alone_keeps_its_files(settings: Settings, tmp_path: Path) -> None:
    run = make_run(tmp_path) / RUN
    (run / TRIAL / "results.json").unlink()
    crashed = {"task_id": "task-1", "trial_name": "task-1.1-of-1.files-run", "is_resolved": None}
    (run / "results.json").write_text(json.dumps({"results": [crashed]}))
    known_to(settings, run).of(RUN, "").check(a_result(), f"{TRIAL}/agent.log")


def test_a_list_that_is_no_list_names_nothing(settings: Settings, tmp_path: Path) -> None:
    place = ledger_path(settings, tmp_path, None).parent
    place.mkdir(parents=True)
    for name, content in (("a", ""), ("b", "[]\n"), ("c", '{"followed": 1}\n'), ("d", "\x00\n")):
        (place / f"{name}.ndjson").write_text(content)
    assert followed(settings) == []


def test_while_one_search_goes_on_others_get_what_the_last_one_found(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StandingClock()
    directories = known_to(settings, tmp_path / "runs", clock=clock)
    assert found_in(directories) is None
    make_run(tmp_path)
    clock.now += artifacts.LOOK_AGAIN_SECONDS
    begun, end = threading.Event(), threading.Event()
    discover = artifacts.discover

    def slow(*arguments: Any, **options: Any) -> Any:
        begun.set()
        assert end.wait(60)
        return discover(*arguments, **options)

    monkeypatch.setattr(artifacts, "discover", slow)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(found_in, directories)
        assert begun.wait(60)
        try:
            assert threads.submit(found_in, directories).result(30) is None
        finally:
            end.set()
        assert first.result(60) == (tmp_path / "runs" / RUN).resolve()
