"""The directories of runs whose files may be shown: those named on this machine.

`serve --artifacts DIR` names them; `live` and `tail` keep a list of what they followed. A directory may hold
several runs, distinguished as in `tail`. Nothing above it is read.

Events cannot grant access, because a publisher may write any path into them. Only files that the run's
connector names for the same trial are shown.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar, cast

from pydantic import Field

from streamer.schemas.base import MAX_COUNT, Message, optional
from streamer.schemas.events import RELATIVE_PATH, TrialResult
from streamer.settings import Settings
from streamer.sources.base import AUTO, ConvertOptions, ConvertReport, slot_of
from streamer.sources.convert import SourceRun, convert_part, convert_runs, discover, sources_for
from streamer.sources.files import entries
from streamer.sources.tail import Followed, followed
from streamer.text import counted

# -----------------------------------------------------------------------------
# Opens a file below a run's directory: never outside it, never through a link, regular files only.
#
# Every part of the path is opened relative to the one before it, without following links. So nothing that an
# agent puts into the directory, at any time, leads elsewhere.


_RELATIVE = re.compile(RELATIVE_PATH)
_SAFE = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = _SAFE | getattr(os, "O_DIRECTORY", 0)
_FILE = _SAFE | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class CannotBeOpened(Exception):
    """A file of a trial is missing, or may not be shown; the message says why."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """The bytes of a file, or its end.

    `size` is the whole file's when it was opened. `left_out` counts the unread bytes before `content`.
    """

    content: bytes
    size: int
    left_out: int


def read_below(home: Path, relative: str, limit: int, *, from_end: bool = False) -> FilePart:
    """A file below a directory, of at most `limit` bytes; `from_end` reads the end of a larger file.

    Raises:
        CannotBeOpened: the file is missing, not regular, behind a link, outside the directory, or too large.
    """
    with _opened(home, relative) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > limit and not from_end:
            raise CannotBeOpened(
                f"{relative!r} has {size:,} bytes; at most {limit:,} are shown. Open it on its machine"
            )
        left_out = max(0, size - limit)
        content = bytearray()
        while len(content) < limit:
            piece = os.pread(descriptor, min(limit - len(content), 1 << 20), left_out + len(content))
            if not piece:
                break
            content += piece
        return FilePart(bytes(content), size, left_out)


@contextmanager
def _opened(home: Path, relative: str) -> Iterator[int]:
    if not _RELATIVE.fullmatch(relative):
        raise CannotBeOpened(f"{relative!r} is not inside a run's directory")
    *folders, name = [part for part in relative.split("/") if part != "."] or ["."]
    descriptors: list[int] = []
    try:
        descriptors.append(os.open(home, _DIRECTORY))
        for folder in folders:
            descriptors.append(os.open(folder, _DIRECTORY, dir_fd=descriptors[-1]))
        descriptors.append(os.open(name, _FILE, dir_fd=descriptors[-1]))
        if not stat.S_ISREG(os.fstat(descriptors[-1]).st_mode):
            raise CannotBeOpened(f"{relative!r} is not a file")
        yield descriptors[-1]
    except FileNotFoundError:
        raise CannotBeOpened(f"{relative!r} is no longer in the run's directory") from None
    except OSError as error:
        raise CannotBeOpened(f"{relative!r} cannot be opened: {error.strerror or error}") from error
    finally:
        for descriptor in descriptors:
            with suppress(OSError):
                os.close(descriptor)


# -----------------------------------------------------------------------------
# The directories of runs whose files may be shown: those named on this machine.


LOOK_AGAIN_SECONDS = 5.0
"""The shortest time between two searches for an unknown run."""

NOT_NAMED = (
    "The server knows no directory for this run. Start it with --artifacts DIR, or follow the run with "
    "`streamer tail` or `streamer live` on the same machine"
)
SEVERAL = (
    "Several directories on the server hold a run with this name, so it cannot tell whose file "
    "this is. Rename or remove all but one"
)
_RENAMED = {"agent": "", "model": ""}
"""Fields that `tail` can rename by options, so they cannot identify a trial here."""


@dataclass(frozen=True, slots=True)
class DirectoryRun:
    """A run in a named directory; `pool` is the run that its events are pooled into, None for its own."""

    source_run: SourceRun
    pool: str | None

    @property
    def home(self) -> Path:
        return self.source_run.path if self.source_run.path.is_dir() else self.source_run.path.parent

    def check(self, event: TrialResult, path: str) -> None:
        """Check that the file is the trial's, by reading the trial's files; raises CannotBeOpened if not."""
        slot = slot_of(event.model_dump() | _RENAMED)
        for trial in self._trials_at(path):
            files = trial.get("artifacts", ()) if slot_of(trial | _RENAMED) == slot else ()
            if any(file.get("path") == path for file in files):
                return
        raise CannotBeOpened(
            f"{path!r} is not one of this trial's own files in the run's directory. Other files are not shown"
        )

    def _trials_at(self, path: str) -> Iterator[dict[str, Any]]:
        run, options, report = self.source_run, ConvertOptions(run_id=self.pool), ConvertReport()
        part = run.source.part(run.path, run.path / path) if run.path.is_dir() else None
        if part is None:
            yield from convert_runs([run], options, report)
            return
        yield from convert_part(run, part, options, report)
        for entry in entries(run.path):
            file = Path(entry.path)
            if entry.is_file(follow_symlinks=False) and run.source.part(run.path, file) == file:
                yield from convert_part(run, file, options, report)


@dataclass(frozen=True, slots=True)
class _Named:
    """The runs in a directory; `pools` are runs that they may be pooled into, None for any run or none."""

    runs: Sequence[SourceRun]
    pools: tuple[str | None] | None

    def fitting(self, run_id: str, shard: str) -> Iterator[DirectoryRun]:
        for pool in (run_id, None) if self.pools is None else self.pools:
            for run in self.runs:
                own = pool is None and run.run_id == run_id
                if own or (pool == run_id and f"{shard}/".startswith(f"{run.run_id}/")):
                    yield DirectoryRun(run, pool)


class RunDirectories:
    """The directory of each run. The methods read files, so call them in a thread.

    `settings` belong to the deployment whose followed directories count. `named` are the server's
    directories.
    """

    def __init__(self, settings: Settings, named: Sequence[Path], clock: Callable[[], float]) -> None:
        self._settings = settings
        self._named = tuple(named)
        self._clock = clock
        self._lock = threading.Lock()
        self._named_runs: list[_Named] = []
        self._followed: list[Followed] = []
        self._looked_at = float("-inf")

    def of(self, run_id: str, shard: str) -> DirectoryRun:
        """The run that a trial's paths are relative to; the shard holds the original run of pooled ones.

        Raises:
            CannotBeOpened: no directory of the run was named, or several are.
        """
        matches, now_followed = self._match(run_id, shard), followed(self._settings)
        unclear = len(matches) != 1 and self._clock() - self._looked_at >= LOOK_AGAIN_SECONDS
        changed = unclear or now_followed != self._followed
        looked_at = self._looked_at
        first = looked_at == float("-inf")
        if changed and self._lock.acquire(blocking=first):  # later, others get the result of the last search
            try:
                if self._looked_at == looked_at:
                    self._look(now_followed)
            finally:
                self._lock.release()
            matches = self._match(run_id, shard)
        if len(matches) != 1:
            raise CannotBeOpened(SEVERAL if matches else NOT_NAMED)
        return matches[0]

    def _match(self, run_id: str, shard: str) -> list[DirectoryRun]:
        fitting = (run for named in self._named_runs for run in named.fitting(run_id, shard))
        return list({run.home: run for run in fitting}.values())

    def _look(self, now_followed: list[Followed]) -> None:
        named = [_Named(_runs_in(root), None) for root in self._named]
        named += [_Named(_runs_in(one.root), (one.run_id,)) for one in now_followed]
        self._named_runs, self._followed = named, now_followed
        self._looked_at = self._clock()


def _runs_in(root: Path) -> list[SourceRun]:
    """The runs at and below a directory; if copies share an id, the first."""
    runs, _, _ = discover([root], sources_for(AUTO), ConvertOptions(), around=False)
    return list({run.run_id: run for run in reversed(runs)}.values())


# -----------------------------------------------------------------------------
# The steps of an agent's trajectory, for all formats of logs.


MAX_STEPS = 2_000
MAX_CALLS = 100

MAX_CHARACTERS = 8_000_000
"""The greatest length of all steps together, as JSON."""

MAX_STEP_CHARACTERS = 16_000
"""The greatest length of each text of a step; longer texts lose their middle."""

_SAYS_ERROR = re.compile(
    r"Traceback \(most recent call last\)|\bexit[ _]?code\W{0,4}(?:-|[1-9])|^\[?error\b", re.IGNORECASE
)
"""Texts in a tool's output that mean failure, for formats without a field for it."""

Source = Literal["system", "user", "agent", "environment"]


class ToolCall(Message):
    """A call of a tool in a step, and its output."""

    name: str = Field(description="The tool.")
    arguments: str = Field(description="Its arguments: text, or JSON.")
    output: str | None = optional("What it gave; null: the log does not say.")
    error: bool = optional("It failed, as the log or its output says.", False)


class Step(Message):
    """One step of a trajectory."""

    number: int = Field(ge=1, description="From 1, in the order of the log.")
    source: Source = Field(description="Who took it.")
    text: str = optional("What was said; empty: nothing.", "")
    reasoning: str | None = optional("The model's reasoning; null: not logged.")
    calls: list[ToolCall] = optional("Calls of tools, in order.", [])
    at: str | None = optional("When, as the log writes it; null: not logged.")
    tokens: int | None = optional("Output tokens; null: not logged.", ge=0)
    cost_usd: float | None = optional("Cost in USD; null: not logged.", ge=0)
    error: bool = optional("It, or a call in it, failed.", False)


T = TypeVar("T")


class NotThisFormat(Exception):
    """The file is not a trajectory of this format."""


def trimmed(value: Any) -> str:
    """A value as text; long text loses its middle, and says how much.

    >>> trimmed({"b": 1, "a": None}), trimmed(None), trimmed("text")
    ('{"b": 1, "a": null}', '', 'text')
    >>> len(trimmed("x" * 20_000)) < MAX_STEP_CHARACTERS + 100
    True
    """
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    sendable = text.encode("utf-8", "replace").decode()  # half characters cannot be sent
    if len(sendable) <= MAX_STEP_CHARACTERS:
        return sendable
    half = MAX_STEP_CHARACTERS // 2
    return f"{sendable[:half]}\n[{len(sendable) - 2 * half:,} characters left out]\n{sendable[-half:]}"


def says_error(output: str | None) -> bool:
    """Whether the output of a tool says that it failed.

    >>> says_error("exit code: 0"), says_error("exit_code=127"), says_error("[error] no such file")
    (False, True, True)
    """
    return bool(output and _SAYS_ERROR.search(output))


def numbered(logged: Sequence[T], fields_of: Callable[[T], dict[str, Any]]) -> tuple[list[Step], int]:
    """The first steps with their numbers, and the number of further ones.

    At most :data:`MAX_STEPS` are read, up to :data:`MAX_CHARACTERS`. `fields_of` leaves out number and error.
    """
    shown: list[Step] = []
    left = MAX_CHARACTERS
    for number, one in enumerate(logged[:MAX_STEPS], 1):
        fields = fields_of(one)
        step = Step(number=number, error=any(call.error for call in fields["calls"]), **fields)
        left -= len(step.model_dump_json())
        if left < 0:
            break
        shown.append(step)
    return shown, len(logged) - len(shown)


def left_out(number: int, what: str) -> str:
    """How much of a step is not shown, in words; "" if all is shown.

    >>> left_out(3, "calls"), left_out(0, "calls")
    ('[3 more calls not shown]', '')
    """
    return f"[{number:,} more {what} not shown]" if number > 0 else ""


def object_of(value: Any) -> Mapping[str, Any]:
    """An object in a log; any other value becomes an empty one."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def count_of(value: Any) -> int | None:
    """A count in a log; None unless it is a whole number from 0 to 2**53.

    >>> count_of(5), count_of(10**30), count_of(True)
    (5, None, None)
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MAX_COUNT else None


def amount_of(value: Any) -> float | None:
    """An amount in a log; None unless it is a finite number from 0.

    >>> amount_of(1), amount_of(10**400), amount_of(float("nan"))
    (1.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if 0 <= value < float("inf") else None
    except OverflowError:  # an integer too large for a float
        return None


# -----------------------------------------------------------------------------
# Terminal output as lines of text with attributes: colours and weights stay, other controls are dropped.
#
# Only SGR sequences (ECMA-48 8.3.117) have an effect. Others are dropped. A carriage return starts the line
# over.


MAX_LINES = 5_000
MAX_LINE_CHARACTERS = 4_000
MAX_CODES = 64

_SEQUENCE = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])"  # control sequence
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # strings: titles, links; none holds an escape
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


class Span(Message):
    """A piece of a line with uniform style."""

    text: str = Field(description="The characters; nothing in them controls a terminal.")
    color: int | None = optional("Colour of the text, 0 to 15; null: as usual.", ge=0, le=15)
    background: int | None = optional("Colour behind it, likewise.", ge=0, le=15)
    bold: bool = optional("Bold.", False)
    dim: bool = optional("Faint.", False)
    italic: bool = optional("Italic.", False)
    underline: bool = optional("Underlined.", False)


_Look = Mapping[str, Any]

_FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline"}
_ENDS = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 39: ("color",), 49: ("background",)}
_COLOURS = ((30, "color", 0), (90, "color", 8), (40, "background", 0), (100, "background", 8))


def lines_of(text: str) -> tuple[list[list[Span]], int]:
    """The last :data:`MAX_LINES` lines, and how many come before them.

    >>> lines, _ = lines_of("\\x1b[31mred\\x1b[0m plain\\x1b]0;title\\x07\\n50 %\\r100 %")
    >>> [(span.text, span.color) for span in lines[0]], lines[1][0].text
    ([('red', 1), (' plain', None)], '100 %')
    """
    raw = text.replace("\r\n", "\n").split("\n")
    if raw and not raw[-1]:
        raw.pop()
    look: _Look = {}
    lines = []
    for line in raw[-MAX_LINES:]:
        spans, look = _spans(line, look)
        lines.append(spans)
    return lines, max(0, len(raw) - MAX_LINES)


def _spans(line: str, look: _Look) -> tuple[list[Span], _Look]:
    spans: list[tuple[str, _Look]] = []
    for piece, sequence in _pieces(line.rstrip("\r")):
        if sequence is not None:
            look = _after(look, sequence)
        elif "\r" in piece:
            spans = [(piece.rpartition("\r")[2], look)]
        else:
            spans.append((piece, look))
    left, made = MAX_LINE_CHARACTERS, []
    for text, one in spans:
        if text and left > 0:
            made.append(Span(text=text[:left], **one))
        left -= len(text)
    if left < 0:
        made.append(Span(text=left_out(-left, "characters")))
    return made, look


def _pieces(line: str) -> Iterator[tuple[str, str | None]]:
    at = 0
    for match in _SEQUENCE.finditer(line):
        yield line[at : match.start()], None
        at = match.end()
        if match[2] == "m":
            yield "", match[1]
    yield line[at:], None


def _after(look: _Look, parameters: str) -> _Look:
    given = re.split("[;:]", parameters, maxsplit=MAX_CODES)[:MAX_CODES]
    codes = [int(code) if code.isdigit() and len(code) < 4 else 0 for code in given]
    at = 0
    while at < len(codes):
        code, at = codes[at], at + 1
        if code in (38, 48):
            number, taken = _extended(codes[at : at + 2])
            at += taken
            look = {**look, "color" if code == 38 else "background": number}
        else:
            look = _one(look, code)
    return look


def _extended(codes: list[int]) -> tuple[int | None, int]:
    if codes[:1] == [5]:
        return (codes[1] if len(codes) > 1 and codes[1] < 16 else None), 2
    return None, 4 if codes[:1] == [2] else 0


def _one(look: _Look, code: int) -> _Look:
    if code == 0:
        return {}
    if code in _FLAGS:
        return {**look, _FLAGS[code]: True}
    if code in _ENDS:
        return {name: value for name, value in look.items() if name not in _ENDS[code]}
    for first, name, add in _COLOURS:
        if first <= code < first + 8:
            return {**look, name: code - first + add}
    return look


# -----------------------------------------------------------------------------
# Steps of a trajectory in ATIF, as Harbor's agents write them (Terminus 2 and OpenHands among them).
#
# https://github.com/laude-institute/harbor/blob/main/docs/rfcs/0001-trajectory-format.md


SOURCES = ("system", "user", "agent")

MAX_PARTS = 200


def atif_steps(content: Any) -> tuple[list[Step], int]:
    """The steps, and the number of further ones.

    Raises NotThisFormat unless it is an object with `schema_version` ATIF and a list under `steps`.
    """
    if not isinstance(content, dict) or not isinstance(content.get("steps"), list):
        raise NotThisFormat
    if not str(content.get("schema_version", "")).startswith("ATIF"):
        raise NotThisFormat
    return numbered([step for step in content["steps"] if isinstance(step, dict)], _atif_fields)


def _atif_fields(step: Mapping[str, Any]) -> dict[str, Any]:
    source = step.get("source")
    metrics = object_of(step.get("metrics"))
    calls, rest = _atif_calls(step)
    said = _atif_text(step.get("message"))
    return {
        "source": cast(Source, source if source in SOURCES else "environment"),
        "text": trimmed("\n".join(filter(None, (said, rest)))),
        "reasoning": trimmed(step.get("reasoning_content")) or None,
        "calls": calls,
        "at": trimmed(step.get("timestamp")) or None,
        "tokens": count_of(metrics.get("completion_tokens")),
        "cost_usd": amount_of(metrics.get("cost_usd")),
    }


def _atif_calls(step: Mapping[str, Any]) -> tuple[list[ToolCall], str]:
    """The calls with their outputs, and the outputs without a call; calls may share an id."""
    calls = objects_of(step.get("tool_calls"))
    results = objects_of(object_of(step.get("observation")).get("results"))
    outputs: dict[Any, list[Mapping[str, Any]]] = {}
    ids = {str(call.get("tool_call_id")) for call in calls}
    rest = []
    for result in results:
        name = str(result.get("source_call_id"))
        if name in ids:
            outputs.setdefault(name, []).append(result)
        elif len(calls) == 1:
            outputs.setdefault(str(calls[0].get("tool_call_id")), []).append(result)
        else:
            rest.append(_atif_text(result.get("content")))
    made = [_call(call, outputs.pop(str(call.get("tool_call_id")), [])) for call in calls[:MAX_CALLS]]
    rest.append(left_out(len(calls) - MAX_CALLS, "calls"))
    return made, "\n".join(filter(None, rest))


def _call(call: Mapping[str, Any], results: list[Mapping[str, Any]]) -> ToolCall:
    output = "\n".join(filter(None, (_atif_text(result.get("content")) for result in results)))
    flags = (object_of(result.get("extra")).get("is_error") for result in results)
    return ToolCall(
        name=trimmed(call.get("function_name")) or "tool",
        arguments=trimmed(call.get("arguments")),
        output=trimmed(output) if results else None,
        error=any(flag is True for flag in flags) or says_error(output),
    )


def _atif_text(value: Any) -> str:
    if isinstance(value, list):
        more = left_out(len(value) - MAX_PARTS, "parts")
        return "\n".join([*map(_part, value[:MAX_PARTS]), *filter(None, [more])])
    return trimmed(value)


def _part(part: Any) -> str:
    if isinstance(part, dict) and part.get("type") == "text":
        return trimmed(part.get("text"))
    kind = part.get("type") if isinstance(part, dict) else None
    return f"[{kind or 'part'} not shown]"


# -----------------------------------------------------------------------------
# Steps of an OpenHands trajectory, and of fc-eval's agent logs: a list of actions and observations (E6).


SAID = ("message", "system", "finish", "think")
"""Actions that are words rather than tool calls."""

_OPENHANDS_WORDS = ("content", "thought", "final_thought", "message")


def openhands_steps(content: Any) -> tuple[list[Step], int]:
    """The steps, and the number of further ones; an observation belongs to the action that caused it.

    Raises NotThisFormat unless the content is a list of objects with `action` or `observation`.
    """
    if not isinstance(content, list):
        raise NotThisFormat
    events = [event for event in content if isinstance(event, dict)]
    if not any("action" in event or "observation" in event for event in events):
        raise NotThisFormat
    steps: list[list[Mapping[str, Any]]] = []
    by_id: dict[Any, list[Mapping[str, Any]]] = {}
    for event in events:
        cause = event.get("cause")
        step = by_id.get(cause) if isinstance(cause, int | str) else None
        if "observation" in event and step is not None and _is_call(step[0]):
            step[1:] = [event]
            continue
        steps.append([event])
        if isinstance(event.get("id"), int | str):
            by_id[event["id"]] = steps[-1]
    return numbered(steps, _step)


def _step(events: list[Mapping[str, Any]]) -> dict[str, Any]:
    fields = _openhands_fields(events[0])
    for event in events[1:]:
        fields["calls"][0] = _with_output(fields["calls"][0], event)
    return fields


def _is_call(event: Mapping[str, Any]) -> bool:
    action = event.get("action")
    return "observation" in event or (isinstance(action, str) and action not in SAID)


def _openhands_fields(event: Mapping[str, Any]) -> dict[str, Any]:
    arguments = object_of(event.get("args"))
    action = event.get("action")
    source = event.get("source")
    words = next((text for name in _OPENHANDS_WORDS if (text := _said(arguments, name))), "")
    calls: list[ToolCall] = []
    if isinstance(action, str) and action not in SAID:
        given = {name: value for name, value in arguments.items() if name != "thought" and value is not None}
        command = given.get("command")
        shown = command if isinstance(command, str) and len(given) <= 1 else given
        calls = [ToolCall(name=trimmed(action), arguments=trimmed(shown))]
        words = _said(arguments, "thought")
    elif "observation" in event:
        output = event.get("content")
        calls = [_with_output(ToolCall(name=trimmed(event["observation"]) or "result", arguments=""), event)]
        words = "" if output else _said(event, "message")
    return {
        "source": cast(Source, source if source in ("user", "agent", "environment") else "system"),
        "text": trimmed(words or ("" if calls else _said(event, "message"))),
        "calls": calls,
        "at": trimmed(event.get("timestamp")) or None,
    }


def _with_output(call: ToolCall, event: Mapping[str, Any]) -> ToolCall:
    extras = object_of(event.get("extras"))
    code = object_of(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
    output = trimmed(event.get("content") or event.get("message"))
    failed = event.get("observation") == "error" or (isinstance(code, int) and code != 0)
    return call.model_copy(update={"output": output, "error": failed or says_error(output)})


def _said(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


# -----------------------------------------------------------------------------
# Steps of an answer that Terminus got from its model: its thoughts, and the keys that it types.
#
# Terminal-Bench keeps one answer in `response.txt` or `response.json`. Terminus 1 writes `state_analysis`,
# `explanation` and `is_task_complete`, Terminus 2 `analysis`, `plan` and `task_complete`.


_TERMINUS_WORDS = ("state_analysis", "analysis", "explanation", "plan")
_DONE = ("is_task_complete", "task_complete")


def terminus_steps(content: Any) -> tuple[list[Step], int]:
    """The steps of one answer, or of a list of them, and the number of further ones.

    Raises NotThisFormat if an answer has no list of `commands` with `keystrokes`.
    """
    answers = content if isinstance(content, list) else [content]
    if not answers or not all(_is_answer(answer) for answer in answers):
        raise NotThisFormat
    return numbered(answers, _terminus_fields)


def _is_answer(value: Any) -> bool:
    commands = value.get("commands") if isinstance(value, dict) else None
    return isinstance(commands, list) and all(isinstance(c, dict) and "keystrokes" in c for c in commands)


def _terminus_fields(answer: Mapping[str, Any]) -> dict[str, Any]:
    words = [answer[name] for name in _TERMINUS_WORDS if isinstance(answer.get(name), str) and answer[name]]
    if any(answer.get(name) is True for name in _DONE):
        words.append("It says that the task is complete.")
    commands = answer["commands"]
    words += filter(None, [left_out(len(commands) - MAX_CALLS, "calls")])
    calls = [ToolCall(name="keystrokes", arguments=trimmed(c["keystrokes"])) for c in commands[:MAX_CALLS]]
    return {"source": "agent", "text": trimmed("\n".join(words)), "calls": calls}


# -----------------------------------------------------------------------------
# The contents of a file for the page: steps, lines of a log, a diff, or a recording to play.


MAX_LOG_BYTES = 1 << 20
"""Limit for the shown end of a text, in bytes; the end usually has the reason for a failure."""

MAX_TRAJECTORY_BYTES = 32 << 20
MAX_CAST_BYTES = 16 << 20

Kind = Literal["steps", "log", "diff", "cast"]

READERS: tuple[Callable[[Any], tuple[list[Step], int]], ...] = (atif_steps, openhands_steps, terminus_steps)
_STEPS, _DIFFS, _CASTS = (".json",), (".diff", ".patch"), (".cast",)
_ANSWERS = ("response.txt", "response.json")


class ArtifactView(Message):
    """A readable file of a trial. Its texts come from the agent or harness and are never markup."""

    kind: Kind = Field(description="How it is shown; `cast`: in the player.")
    name: str = Field(description="The artifact's name.")
    size: int = Field(ge=0, description="Bytes of the file.")
    steps: list[Step] = optional("Of a trajectory, in order.", [])
    lines: list[list[Span]] = optional("Of a log or a diff: each line's pieces.", [])
    left_out: str | None = optional("What is not shown, in words; null: nothing.")


def view_of(home: Path, path: str, name: str) -> ArtifactView:
    """A file below a run's directory, for the page; raises CannotBeOpened, for example for binary files."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _CASTS:
        part = read_below(home, path, MAX_CAST_BYTES)
        return ArtifactView(kind="cast", name=name, size=part.size)
    if suffix in _STEPS or PurePosixPath(path).name in _ANSWERS:
        view = _steps(home, path, name)
        if view is not None:
            return view
    part = read_below(home, path, MAX_LOG_BYTES, from_end=True)
    lines, before = lines_of(_text_view(part, path))
    kind: Kind = "diff" if suffix in _DIFFS else "log"
    return ArtifactView(
        kind=kind, name=name, size=part.size, lines=lines, left_out=_left_out(part.left_out, before)
    )


def recording(home: Path, path: str) -> str:
    if PurePosixPath(path).suffix.lower() not in _CASTS:
        raise CannotBeOpened(f"{path!r} is not a recording: only .cast files are played")
    return _text_view(read_below(home, path, MAX_CAST_BYTES), path)


def _steps(home: Path, path: str, name: str) -> ArtifactView | None:
    part = read_below(home, path, MAX_TRAJECTORY_BYTES, from_end=True)
    try:
        content = None if part.left_out else json.loads(part.content)
    except (ValueError, RecursionError):
        return None
    for read in READERS:
        try:
            steps, more = read(content)
        except NotThisFormat:
            continue
        except RecursionError:
            return None
        left = counted(more, "more step") if more else None
        return ArtifactView(kind="steps", name=name, size=part.size, steps=steps, left_out=left)
    return None


def _text_view(part: FilePart, path: str) -> str:
    if b"\0" in part.content[:8192]:
        raise CannotBeOpened(f"{path!r} is not text. Open it on the machine that has it")
    return part.content.decode("utf-8", "replace")


def _left_out(size: int, lines: int) -> str | None:
    parts = [f"{size:,} bytes" if size else "", counted(lines, "line") if lines else ""]
    return " and ".join(filter(None, parts)) + " before this" if size or lines else None
