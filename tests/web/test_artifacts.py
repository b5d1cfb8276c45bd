"""Terminal output becomes text with attributes, and nothing in it controls anything any more."""

from __future__ import annotations

import json
import os
import socket
import tarfile
import tempfile
import threading
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.events import TrialResult
from streamer.settings import Settings
from streamer.sources import convert
from streamer.sources.tail import LedgerFile, followed, ledger_path
from streamer.web import artifacts
from streamer.web.artifacts import (
    LOOK_AGAIN_SECONDS,
    MAX_CALLS,
    MAX_CHARACTERS,
    MAX_CODES,
    MAX_LINE_CHARACTERS,
    MAX_LINES,
    MAX_LOG_BYTES,
    MAX_PARTS,
    MAX_STEP_CHARACTERS,
    MAX_STEPS,
    NOT_NAMED,
    CannotBeOpened,
    NotThisFormat,
    RunDirectories,
    Span,
    Step,
    lines_of,
    numbered,
    read_below,
    recording,
    view_of,
)
from tests.support.data import REPOSITORY
from tests.web.feeding import StandingClock
from tests.web.trial_files import FILES, RUN, TRAJECTORY, make_run

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
    (f"\x1b[{'1;' * (MAX_CODES - 1)}4;0mx", [{"text": "x", "bold": True, "underline": True}]),
]


@pytest.mark.parametrize(("text", "spans"), LOOKS)
def test_codes_become_attributes(text: str, spans: list[dict[str, object]]) -> None:
    assert [span.model_dump(exclude_defaults=True) for span in lines_of(text)[0][0]] == spans


def test_titles_links_and_movements_leave_nothing_behind() -> None:
    text = "\x1b]0;title\x07a\x1b]8;;javascript:alert(1)\x1b\\b\x1b[2J\x1b[H\x1b[?2004lc\x08\x07\x9b"
    assert "".join(span.text for span in lines_of(text)[0][0]) == "abc"


def test_attributes_reach_over_the_end_of_a_line_whatever_ends_it() -> None:
    assert [line[0].color for line in lines_of("\x1b[31ma\nb")[0]] == [1, 1]
    assert [line[0].text for line in lines_of("a\r\nb\r\n")[0]] == ["a", "b"]


def test_of_many_lines_the_last_are_kept_and_long_lines_end() -> None:
    lines, before = lines_of("x\n" * (MAX_LINES + 3) + "y" * (MAX_LINE_CHARACTERS + 1))
    assert (len(lines), before) == (MAX_LINES, 4)
    assert len(lines[-1][0].text) == MAX_LINE_CHARACTERS


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", ["\x1b]" * 524_288, "\x1b]0;" * 262_144, f"\x1b[{';' * (1 << 20)}m"])
def test_a_line_takes_time_in_proportion_to_its_length(line: str) -> None:
    """If each sequence looked through the rest of the line, a mebibyte would take hours."""
    text = "".join(span.text for span in lines_of(line)[0][0])
    assert set(text) <= set("0;")


@given(st.text(alphabet=st.sampled_from("ab\x1b[];?0123456789mKHJ\x07\\\r\n\t\x9b\x00"), max_size=200))
def test_no_control_character_is_left_of_any_text(text: str) -> None:
    for line in lines_of(text)[0]:
        for span in line:
            assert isinstance(span, Span)
            assert not any(unicodedata.category(c) == "Cc" and c != "\t" for c in span.text)


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
        assert more == 0
        said = [(step["source"], step["message"]) for step in content["steps"]]
        assert [(step.source, step.text) for step in steps] == said


def test_calls_of_atif_have_their_outputs_and_what_failed_is_marked() -> None:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"keystrokes": "ls\n"}}
    other = {"tool_call_id": "c2", "function_name": "edit", "arguments": "x"}
    failure = "Traceback (most recent call last):"
    results = [
        {"source_call_id": "c2", "content": [{"type": "text", "text": failure}]},
        {"source_call_id": "c1", "content": "a.py"},
        {"content": "a notice"},
    ]
    result = step_of(
        message=[{"type": "text", "text": "look"}, {"type": "image"}],
        reasoning_content="hm",
        timestamp="2026-01-01T00:00:00Z",
        tool_calls=[call, other],
        observation={"results": results},
        metrics={"completion_tokens": 5, "cost_usd": 0.25},
    )
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


def steps_of(*steps: dict[str, Any]) -> tuple[list[Step], int]:
    return artifacts.atif_steps({"schema_version": "ATIF-v1.5", "steps": list(steps)})


def step_of(**fields: object) -> Step:
    [result], _ = steps_of({"source": "agent", **fields})
    return result


def test_each_output_is_told_once_however_many_calls_have_its_id() -> None:
    calls = [{"tool_call_id": "c", "function_name": "bash"}] * 50
    results = [{"source_call_id": "c", "content": f"out-{number}"} for number in range(50)]
    result = step_of(tool_calls=calls, observation={"results": results})
    assert [call.output for call in result.calls] == ["\n".join(f"out-{n}" for n in range(50)), *[None] * 49]


def test_of_very_many_calls_and_parts_the_first_are_shown_and_the_others_counted() -> None:
    result = step_of(tool_calls=[{}] * (MAX_CALLS + 3), message=[0] * (MAX_PARTS + 1000))
    assert len(result.calls) == MAX_CALLS
    assert result.text.splitlines()[-2:] == ["[1,000 more parts not shown]", "[3 more calls not shown]"]


def test_numbers_that_cannot_be_sent_are_unknown() -> None:
    result = step_of(metrics={"cost_usd": 10**400, "completion_tokens": 10**30})
    assert (result.cost_usd, result.tokens) == (None, None)


# -----------------------------------------------------------------------------
# A file of a trial is opened below its run's directory, and nowhere else, whatever lies there.


SECRET = b"outside the run"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "outside.txt").write_bytes(SECRET)
    home = tmp_path / "run"
    (home / "task" / "agent").mkdir(parents=True)
    (home / "task" / "agent" / "agent.log").write_bytes(b"inside")
    return home


def test_a_file_below_the_directory_is_read(home: Path) -> None:
    for path in ("task/agent/agent.log", "./task/./agent/agent.log"):
        part = read_below(home, path, 100)
        assert (part.content, part.size, part.left_out) == (b"inside", 6, 0)


def test_of_a_long_file_the_end_is_read_where_that_is_wanted(home: Path) -> None:
    assert read_below(home, "task/agent/agent.log", 4, from_end=True).content == b"side"
    with pytest.raises(CannotBeOpened, match=r"has 6 bytes; at most 4 are shown"):
        read_below(home, "task/agent/agent.log", 4)


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "task/../../outside.txt",
        "/etc/passwd",
        "task//agent/agent.log",
        "..\\outside.txt",
        "task/agent/agent.log\0",
        "~/.ssh/id_rsa",
        "",
        ".",
        "..",
        "task",
        "task/agent",
        "task/agent/agent.log/",
        "task/agent/agent.log/more",
        "x" * 5000,
    ],
)
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


def test_a_directory_that_becomes_a_link_meanwhile_leads_nowhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent swaps a directory for a link after the first part of the path was opened."""
    opened = os.open

    def swapping(path: str | Path, *rest: int, dir_fd: int | None = None) -> int:
        descriptor = opened(path, *rest, dir_fd=dir_fd)
        if path == "task":
            (home / "task").rename(home / "moved")
            (home / "task").symlink_to(home.parent)
        return descriptor

    monkeypatch.setattr(os, "open", swapping)
    assert read_below(home, "task/agent/agent.log", 100).content == b"inside"


def test_devices_pipes_and_sockets_are_refused_without_waiting(home: Path) -> None:
    os.mkfifo(home / "pipe")
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{short}/socket")
        for folder, name in ((home, "pipe"), (Path(short), "socket"), (Path("/dev"), "zero")):
            with pytest.raises(CannotBeOpened):
                read_below(folder, name, 100)


def test_a_directory_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(CannotBeOpened, match="is no longer in the run's directory"):
        read_below(tmp_path / "nowhere", "agent.log", 100)


# -----------------------------------------------------------------------------
# Each kind of file is shown as what it is; what is none of them is text, or refused.


KINDS: list[tuple[str, bytes, str, int, list[str]]] = [
    ("trajectory.json", json.dumps(TRAJECTORY).encode(), "steps", 3, []),
    ("other.json", b'{"a": 1}', "log", 0, ['{"a": 1}']),
    ("broken.json", b'[{"action"', "log", 0, ['[{"action"']),
    ("deep.json", b"[" * 100_000, "log", 0, ["[" * MAX_LINE_CHARACTERS]),
    ("agent.log", b"a\nb\n", "log", 0, ["a", "b"]),
    ("latin.log", b"caf\xe9", "log", 0, ["caf\ufffd"]),
    ("my.patch", b"-a\n+b\n", "diff", 0, ["-a", "+b"]),
    ("page.html", b"<script>alert(1)</script>", "log", 0, ["<script>alert(1)</script>"]),
    ("agent.cast", b'{"version": 2}\n', "cast", 0, []),
    ("response.txt", b'{"commands": [{"keystrokes": "ls"}]}', "steps", 1, []),
]


@pytest.mark.parametrize(("name", "content", "kind", "steps", "lines"), KINDS, ids=[one[0] for one in KINDS])
def test_the_kind_follows_from_the_file_and_its_contents(
    tmp_path: Path, name: str, content: bytes, kind: str, steps: int, lines: list[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    result = view_of(tmp_path, name, name)
    assert (result.kind, len(result.steps)) == (kind, steps)
    assert ["".join(span.text for span in line) for line in result.lines] == lines


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "core.log").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(CannotBeOpened, match="is not text"):
        view_of(tmp_path, "core.log", "core.log")


def test_of_a_long_log_the_end_is_shown(tmp_path: Path) -> None:
    (tmp_path / "long.log").write_bytes(b"x\n" * MAX_LOG_BYTES + b"the end\n")
    result = view_of(tmp_path, "long.log", "long")
    assert result.lines[-1][0].text == "the end"
    assert result.left_out is not None
    assert "before this" in result.left_out


def test_only_recordings_are_played(tmp_path: Path) -> None:
    (tmp_path / "a.cast").write_text("recorded")
    (tmp_path / "a.log").write_text("a log")
    assert recording(tmp_path, "a.cast") == "recorded"
    with pytest.raises(CannotBeOpened, match="is not a recording"):
        recording(tmp_path, "a.log")


# -----------------------------------------------------------------------------
# What holds of every format of trajectories: nonsense is refused, and hostile values become text.


@pytest.mark.parametrize("content", [None, 1, "x", [], {}, [1], {"steps": 1}, {"commands": [1]}, [{"a": 1}]])
def test_whatever_is_none_of_the_formats_is_said_to_be_none(content: Any) -> None:
    for read in (artifacts.atif_steps, artifacts.openhands_steps, artifacts.terminus_steps):
        with pytest.raises(NotThisFormat):
            read(content)


def test_hostile_values_in_every_field_become_text_or_nothing() -> None:
    odd = [{}, [], 1, True, None, "\x1b[31m<script>", "\ud800", float("nan"), 10**30, {"a": [1, "\ud800"]}]
    names = ("source", "message", "reasoning_content", "timestamp", "tool_calls", "observation", "metrics")
    assert len(steps_of(*(dict.fromkeys(names, value) for value in odd))[0]) == len(odd)
    fields = ("action", "observation", "args", "content", "extras", "cause", "id", "source", "timestamp")
    assert artifacts.openhands_steps([dict.fromkeys(fields, value) for value in odd])[0]


def test_of_a_very_long_trajectory_the_first_steps_are_read_and_the_others_counted() -> None:
    read: list[int] = []

    def fields_of(one: int) -> dict[str, Any]:
        read.append(one)
        return {"source": "agent", "calls": []}

    steps, more = numbered(range(MAX_STEPS * 3), fields_of)
    assert (len(steps), len(read), more) == (MAX_STEPS, MAX_STEPS, MAX_STEPS * 2)


def test_all_steps_together_are_bounded() -> None:
    result, more = steps_of(*[{"source": "agent", "message": "\x01" * MAX_STEP_CHARACTERS}] * 200)
    assert len(result) + more == 200
    sent = sum(len(step.model_dump_json()) for step in result)
    assert MAX_CHARACTERS / 2 < sent <= MAX_CHARACTERS


# -----------------------------------------------------------------------------
# Whose directory is whose: named to the server, or followed by `tail`; and which of its files are shown.


TRIAL = "task-1/task-1.1-of-1.files-run"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


def follow(settings: Settings, root: Path, pool: str | None = None) -> None:
    """What `tail` leaves of a directory that it follows."""
    with LedgerFile(ledger_path(settings, root, pool), root, pool) as ledger:
        ledger.load()


def known_to(settings: Settings, *named: Path, clock: StandingClock | None = None) -> RunDirectories:
    return RunDirectories(settings, named, clock or StandingClock())


def runs_home(directories: RunDirectories, run_id: str = RUN, shard: str = "") -> Path | None:
    """The directory of a run; None: the server knows none. Any other reason not to say it is an error."""
    try:
        return directories.of(run_id, shard).home
    except CannotBeOpened as error:
        if str(error) != NOT_NAMED:
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
    assert runs_home(known_to(settings, runs / named)) == ((runs / RUN).resolve() if found else None)


def test_a_run_that_was_pooled_is_found_by_its_shard(settings: Settings, tmp_path: Path) -> None:
    directories = known_to(settings, make_run(tmp_path))
    assert runs_home(directories, "pool", f"{RUN}/2") == (tmp_path / "runs" / RUN).resolve()
    assert runs_home(directories, "pool", f"{RUN}2") is None
    assert runs_home(directories, "pool", "other") is None


def test_what_tail_followed_is_named_for_the_same_deployment_alone(
    settings: Settings, tmp_path: Path
) -> None:
    runs = make_run(tmp_path)
    follow(settings, runs)
    assert runs_home(known_to(settings)) == (runs / RUN).resolve()
    assert runs_home(known_to(settings.model_copy(update={"namespace": "other"}))) is None


def test_two_pools_that_share_a_shards_name_have_each_its_own_directory(
    settings: Settings, tmp_path: Path
) -> None:
    pools = {pool: make_run(tmp_path / pool) for pool in ("a", "b")}
    for pool, runs in pools.items():
        follow(settings, runs, pool)
    directories = known_to(settings)
    for pool, runs in pools.items():
        assert runs_home(directories, pool, RUN) == (runs / RUN).resolve()
    for stranger, shard in (("mine", RUN), (RUN, ""), ("a", "")):
        assert runs_home(directories, stranger, shard) is None


def test_where_two_directories_fit_neither_is_shown_until_one_is_gone(
    settings: Settings, tmp_path: Path
) -> None:
    clock = StandingClock()
    first, second = (make_run(tmp_path / place) for place in ("a", "b"))
    directories = known_to(settings, first, clock=clock)
    assert runs_home(directories) == (first / RUN).resolve()
    follow(settings, second)
    with pytest.raises(CannotBeOpened, match="Rename or remove all but one"):
        directories.of(RUN, "")
    (first / RUN).rename(tmp_path / "aside")
    clock.now += LOOK_AGAIN_SECONDS
    assert runs_home(directories) == (second / RUN).resolve()


def test_a_run_that_appears_later_is_looked_for_again_but_not_all_the_time(
    settings: Settings, tmp_path: Path
) -> None:
    clock = StandingClock()
    directories = known_to(settings, tmp_path / "runs", clock=clock)
    assert runs_home(directories) is None
    make_run(tmp_path)
    assert runs_home(directories) is None
    clock.now += LOOK_AGAIN_SECONDS
    assert runs_home(directories) is not None


def test_runs_of_other_packages_connectors_are_found(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edge is the list of what is installed: a run that the connectors of ours do not know."""
    [ours] = [source for source in convert.SOURCES if source.name == "terminal-bench"]
    rest = tuple(source for source in convert.SOURCES if source.name not in ("terminal-bench", "fc-eval"))
    runs = make_run(tmp_path)
    monkeypatch.setattr(convert, "SOURCES", rest)
    assert runs_home(known_to(settings, runs)) is None
    monkeypatch.setattr(convert, "load_all", lambda taken: [ours])
    assert runs_home(known_to(settings, runs)) == (runs / RUN).resolve()


def test_the_files_that_the_connector_names_for_the_trial_are_shown(
    settings: Settings, tmp_path: Path
) -> None:
    directories = known_to(settings, make_run(tmp_path))
    pooled = {"run_id": "pool", "shard": RUN, "agent": "named by an option"}
    for event in (a_result(), a_result(**pooled)):
        for name in FILES:
            directories.of(event.run_id, event.shard).check(event, f"{TRIAL}/{name}")


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "run_metadata.json",
        "tb.lock",
        "results.json",
        f"{TRIAL}/results.json",
        f"{TRIAL}/link.log",
        f"{TRIAL}/./agent.log",
        "task-2/task-2.1-of-1.files-run/agent.log",
        "gone/agent.log",
    ],
)
def test_a_path_that_only_an_event_names_is_not_shown(settings: Settings, tmp_path: Path, path: str) -> None:
    """Events are a publisher's: they make neither files of the harness nor those of other trials visible."""
    run = make_run(tmp_path) / RUN
    (run / ".env").write_text("KEY=1")
    other = run / "task-2" / "task-2.1-of-1.files-run"
    other.mkdir(parents=True)
    (other / "results.json").write_text(json.dumps({"task_id": "task-2", "is_resolved": True}))
    (other / "agent.log").write_text("of task-2")
    known = known_to(settings, run).of(RUN, "")
    known.check(a_result(task_id="task-2"), "task-2/task-2.1-of-1.files-run/agent.log")
    with pytest.raises(CannotBeOpened, match="Other files are not shown"):
        known.check(a_result(), path)


def test_a_trial_that_stands_only_in_the_file_of_the_run_keeps_its_files(
    settings: Settings, tmp_path: Path
) -> None:
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
    assert runs_home(directories) is None
    make_run(tmp_path)
    clock.now += LOOK_AGAIN_SECONDS
    begun, end, result = threading.Event(), threading.Event(), []
    discover = artifacts.discover

    def slow(*arguments: Any, **options: Any) -> Any:
        begun.set()
        assert end.wait(60)
        return discover(*arguments, **options)

    monkeypatch.setattr(artifacts, "discover", slow)
    first = threading.Thread(target=lambda: result.append(runs_home(directories)))
    first.start()
    assert begun.wait(60)
    second = threading.Thread(target=lambda: result.append(runs_home(directories)))
    second.start()
    second.join(30)
    assert result == [None]
    end.set()
    first.join(60)
    assert result == [None, (tmp_path / "runs" / RUN).resolve()]
