"""What reads bad input, and what it has to answer: events or reasons, never an exception."""

from __future__ import annotations

import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

from streamer.folding.fold import Pipeline
from streamer.operate.bundle import MEMBERS, SUMS, NotABundle, check_bundle
from streamer.schemas.base import canonical_json
from streamer.schemas.events import Event
from streamer.schemas.summaries import Rejection
from streamer.schemas.wire import Reason, Record, Result, decode, plain_event
from streamer.sources.base import ConvertOptions, ConvertReport, fit_event
from streamer.sources.convert import convert
from streamer.sources.fc_eval_payload import parse_log, sections_for
from streamer.sources.files import FileError, Subject, cast_length, enriched, read_agent_logs
from tests.fuzz import documents
from tests.fuzz.mutations import mutated
from tests.operate.test_bundle import bundled, members_of, packed
from tests.sources.inspect import A_PLAN, a_spec, a_summary, an_archive
from tests.support.events import a_trial
from tests.support.layouts import LAYOUTS

CUT_EVERY = 1_000
"""Records folded into one pipeline before its summaries are cut and it is thrown away."""


class Target(ABC):
    """Reads one broken document after the other. `folder` is its own, and removed by whoever gave it."""

    originals: Callable[[], list[bytes]]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def broken(self, rng: Random) -> bytes:
        return mutated(rng.choice(self.originals()), rng)

    @abstractmethod
    def read(self, document: bytes) -> bool:
        """Whether it gave something. Any exception is a finding, AssertionError included."""


class Decode(Target):
    """Records of the event topic: decoded, folded, and what was folded is summed up."""

    originals = staticmethod(documents.events)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folded = 0
        self._pipeline = Pipeline()

    def read(self, document: bytes) -> bool:
        result = decode(document)
        assert isinstance(result, Event | Result | Reason)
        plain = plain_event(document)
        assert plain is None or not isinstance(result, Reason), "the short way took what is no event"
        folded = self._pipeline.fold([Record(document, self._folded, key=b"k")])
        assert folded.records == 1
        for rejected in folded.rejections:
            assert Rejection.model_validate_json(rejected.value).message.isprintable()
        assert bool(folded.rejections) >= isinstance(result, Reason)
        self._folded += 1
        if self._folded % CUT_EVERY == 0:
            self._sum_up()
        return not folded.rejections

    def _sum_up(self) -> None:
        """Summaries of nonsense are summaries, or none: scoring survives whatever decode lets through."""
        for run_id in self._pipeline.runs():
            for change in self._pipeline.run(run_id).take_changes().summaries:
                assert change.value is None or change.value.startswith(b"{")
        self._pipeline = Pipeline()


class Directory(Target):
    """Run directories of one harness: one file of a small one is broken at a time, or is no file any more."""

    def __init__(self, layout: str, folder: Path) -> None:
        super().__init__(folder)
        self.layout = layout
        runs = documents.run_directories(layout, folder)
        self._files = [(run, path) for run in runs for path in sorted(run.rglob("*")) if path.is_file()]
        self._place = self._files[0]
        self._instead: Callable[[Path], object] | None = None

    def broken(self, rng: Random) -> bytes:
        self._place = rng.choice(self._files)
        self._instead = rng.choice(_INSTEAD) if rng.random() < 0.05 else None
        return mutated(self._place[1].read_bytes(), rng)

    def read(self, document: bytes) -> bool:
        run, path = self._place
        kept = path.read_bytes()
        if self._instead is None:
            path.write_bytes(document)
        else:
            path.unlink()
            self._instead(path)
        try:
            return _converted(run, self.layout)
        finally:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            path.write_bytes(kept)


class Inspect(Target):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        header = {"status": "success", "eval": a_spec(), "plan": A_PLAN, "stats": {"completed_at": "x"}}
        failed = a_summary(id=2, scores={"m": {"value": {"a": 1}}}, error="E('x')", limit="token")
        members = {"header.json": header, "summaries.json": [a_summary(), failed]}
        self._members = {name: json.dumps(content).encode() for name, content in members.items()}
        self._file = folder / "log.eval"

    def broken(self, rng: Random) -> bytes:
        name = rng.choice([*self._members, ""])
        members = {key: mutated(text, rng) if key == name else text for key, text in self._members.items()}
        archive = an_archive(self._file, members).read_bytes()
        return archive if name else mutated(archive, rng)

    def read(self, document: bytes) -> bool:
        self._file.write_bytes(document)
        return _converted(self._file, "inspect")


class AgentLogs(Target):
    """Lists of steps beside a trial, read from the disk."""

    originals = staticmethod(documents.agent_logs)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._file = folder / "trial" / "agent-logs" / "t.json"
        self._file.parent.mkdir(parents=True)

    def read(self, document: bytes) -> bool:
        self._file.write_bytes(document)
        logs = read_agent_logs(self.folder / "trial")
        event = {"type": "trial_result", "run_id": "r", "task_id": "t", "input_tokens": 1, "cost_usd": 0}
        _fits(enriched(event, logs).event)
        return not logs.problems


class Cast(Target):
    """Recordings of a terminal, read from the disk."""

    def broken(self, rng: Random) -> bytes:
        document = rng.choice(documents.casts())
        lines = document.splitlines(keepends=True)
        if not lines or rng.random() < 0.3:
            return mutated(document, rng)
        at = rng.randrange(len(lines))
        return b"".join([*lines[:at], mutated(lines[at], rng), *lines[at + 1 :]])

    def read(self, document: bytes) -> bool:
        file = self.folder / "agent.cast"
        file.write_bytes(document)
        try:
            return cast_length(file) >= 0
        except FileError:
            return False


class FormulaCodeLog(Target):
    """FormulaCode's log text, and the sections of an event that come from it."""

    _block = re.compile(rb"(?s)(_START\n)(.*?)(\n?FORMULACODE_\w+_END)")

    def broken(self, rng: Random) -> bytes:
        document = rng.choice(documents.formulacode_logs())
        blocks = list(self._block.finditer(document))
        if not blocks or rng.random() < 0.3:
            return mutated(document, rng)
        result = rng.choice(blocks)
        return document[: result.start(2)] + mutated(result[2], rng) + document[result.end(2) :]

    def read(self, document: bytes) -> bool:
        parsed = parse_log(document.decode("utf-8", "replace"))
        labels = {"nop:nop", "a:m"} | set((parsed.result and parsed.result.benchmarks_by_agent) or {})
        for label in sorted(labels)[:3]:
            sections = sections_for(parsed, Subject(label))
            _fits({"type": "trial_result", "run_id": "r", "task_id": "t", **sections})
        return parsed.result is not None


class Bundled(Target):
    """A bundle, one member or line of which is broken; its SHA-256 is right."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._members = members_of(bundled([a_trial(task_id=task, cost_usd=0.5) for task in "ab"]))

    def broken(self, rng: Random) -> bytes:
        name = rng.choice([name for name in MEMBERS if name != SUMS])
        lines = self._members[name].split(b"\n")
        at = rng.randrange(len(lines))
        lines[at] = mutated(lines[at], rng)
        return packed(self._members | {name: b"\n".join(lines)})

    def read(self, document: bytes) -> bool:
        try:
            return bool(check_bundle(BytesIO(document), "b"))
        except NotABundle:
            return False


TARGETS: dict[str, tuple[Callable[[Path], Target], float]] = {
    "decode and fold": (Decode, 0.82),
    "bundle": (Bundled, 0.01),
    **{layout: (partial(Directory, layout), 0.01) for layout in LAYOUTS},
    "inspect": (Inspect, 0.01),
    "agent logs": (AgentLogs, 0.04),
    "cast": (Cast, 0.04),
    "formulacode logs": (FormulaCodeLog, 0.04),
}
"""Name to what reads it, and its share of the inputs."""


def _fits(event: dict[str, Any]) -> None:
    """What a connector says, fitted to the schema, is an event."""
    fitted, _ = fit_event(event)
    assert fitted is not None
    assert not isinstance(decode(canonical_json(fitted)), Reason)


def _converted(run: Path, harness: str) -> bool:
    """Whether a run gives events; each must be one, and each complaint must have a reason."""
    report = ConvertReport()
    events = list(convert([run], ConvertOptions(harness=harness), report))
    for event in events:
        result = decode(canonical_json(event))
        assert not isinstance(result, Reason), f"{result.code}: {result.message}"
    for place, reason in report.unreadable:
        assert isinstance(place, Path)
        assert reason
    return bool(events)


_INSTEAD: tuple[Callable[[Path], object], ...] = (
    lambda path: None,
    lambda path: path.mkdir(),
    lambda path: os.mkfifo(path),
    lambda path: path.symlink_to(path),
    lambda path: path.symlink_to("nowhere"),
    lambda path: path.symlink_to(path.parent),
    lambda path: (path.mkdir(), os.mkdir(os.fsencode(path) + b"/\xff\x1b[31m\n")),
)
"""What may stand where a file was: nothing, a directory, a pipe, links in circles, odd names."""
