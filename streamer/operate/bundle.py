"""A bundle: runs in one file that anybody can check, without a broker and without Redis (docs/bundle.md).

It holds the events from the log, and every result computed from them. `check_bundle` folds the events again
and compares. The file is an uncompressed tar archive, and its content determines each byte. So equal input
gives equal bytes, and every change is detected. It has no compressed parts and no file paths.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from tarfile import BLOCKSIZE, USTAR_FORMAT, TarInfo
from typing import Any, BinaryIO, Literal, Self

import msgspec
import orjson

from streamer import DISTRIBUTION, product_version
from streamer.client.folded import RunLog
from streamer.folding.fold import CannotBeFolded, Folding, event_in, fold_records
from streamer.folding.plan import Plan
from streamer.folding.prices import PriceTable
from streamer.folding.run import Run
from streamer.folding.slots import SummaryChange
from streamer.operate.verify import Mismatch, Verdict, difference, json_difference
from streamer.schemas.base import EVENT_SCHEMA_VERSION, SEMANTICS_VERSION, canonical_json, sha256_hex
from streamer.schemas.events import RunStarted
from streamer.schemas.wire import LogRecord, Reason, Record, decode
from streamer.settings import Settings
from streamer.views.decide.ledger import verdicts_of

# -----------------------------------------------------------------------------
# The sources of a bundle, and the conclusions from them.


FORMAT = 1

Json = dict[str, Any]


class CannotBeBundled(Exception):
    """Runs that do not fit in one bundle; the message gives reason and remedy."""


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a bundle's runs; `records` are read once.

    `is_history` runs are the basis of plans and orders, and get no verdicts. `begins_at` is above 0 if the
    log has lost earlier events.
    """

    name: str
    kind: Literal["log", "events", "harness"]
    records: Iterable[LogRecord] = field(repr=False)
    is_history: bool = False
    begins_at: int = 0


def is_event(record: LogRecord, run_id: str | None = None) -> bool:
    event, *_ = event_in(record.value)
    return not isinstance(event, Reason) and run_id in (None, event.run_id)


def is_rejected(record: LogRecord, run_id: str) -> bool:
    if not isinstance(record.value, bytes) or not isinstance(event_in(record.value)[0], Reason):
        return False
    try:
        said = orjson.loads(record.value)
    except orjson.JSONDecodeError:
        return False
    return isinstance(said, dict) and said.get("run_id") == run_id


def source_of_run(settings: Settings, run_id: str, *, is_history: bool) -> Source:
    log = RunLog(settings, run_id)
    own = (record for record in log.records() if is_event(record, run_id))
    return Source(run_id, "log", own, is_history, log.begins_at)


@dataclass(slots=True)
class _Folded:
    source: Source
    folding: Folding = field(init=False)
    plans: dict[str, LogRecord] = field(default_factory=dict)
    events: int = 0

    @classmethod
    def of(cls, source: Source, prices: PriceTable, keep: Callable[[LogRecord], object] = id) -> Self:
        folded = cls(source)

        def counted_records() -> Iterator[LogRecord]:
            for record in source.records:
                keep(record)
                folded.events += 1
                if record.value and b"run_started" in record.value:
                    event = decode(record.value)
                    if isinstance(event, RunStarted):
                        folded.plans.setdefault(event.run_id, record)
                yield record

        folded.folding = fold_records(counted_records(), prices=prices)
        return folded

    def runs(self) -> list[Run]:
        return [self.folding.pipeline.run(run_id) for run_id in self.folding.runs()]

    def described(self) -> Json:
        return {
            "name": self.source.name,
            "kind": self.source.kind,
            "history": self.source.is_history,
            "begins_at": self.source.begins_at,
            "events": self.events,
            "rejected": self.folding.rejected,
            "runs": [self._run_described(run.state.run_id, run.state.plan) for run in self.runs()],
        }

    def _run_described(self, run_id: str, plan: Plan) -> Json:
        at = self.plans.get(run_id)
        logged = at and {"partition": at.partition, "offset": at.offset, "timestamp": at.timestamp}
        times = {name: plan.get(name) for name in ("planned_at", "started_at", "attempts")}
        return {
            "run_id": run_id,
            "plan": times | {"tasks": plan.task_count, "order_kind": plan.order.kind, "logged": logged},
            "provenance": plan.get("provenance") or {},
            "varies": plan.get("varies") or [],
        }


@dataclass(frozen=True, slots=True)
class _Conclusions:
    summaries: dict[tuple[str, str], SummaryChange]
    verdicts: Json
    manifest: Json

    @classmethod
    def of(cls, sources: Sequence[_Folded]) -> Self:
        runs = [run for one in sources for run in one.runs()]
        changes = [change for run in runs for change in run.summaries()]
        manifest = {
            "bundle": FORMAT,
            "product": product_version(),
            "semantics_version": SEMANTICS_VERSION,
            "schema_version": EVENT_SCHEMA_VERSION,
            "sources": [one.described() for one in sources],
        }
        judged, history = (
            [r for s in sources if s.source.is_history is past for r in s.runs()] for past in (False, True)
        )
        keyed = {(change.run_id, change.group.redis_suffix): change for change in changes}
        return cls(keyed, verdicts_of(judged, history), manifest)


# -----------------------------------------------------------------------------
# The file: a tar archive of regular files in a fixed order, each header as this code writes it.


EVENTS, RECORDS, PRICES, SUMMARIES, VERDICTS, MANIFEST, SUMS = MEMBERS = (
    "events.ndjson",
    "records.ndjson",
    "prices.toml",
    "summaries.ndjson",
    "verdicts.json",
    "manifest.json",
    "SHA256SUMS",
)
"""Members in order. `SHA256SUMS` lists the others, in the format of `sha256sum -c`."""

Parts = Mapping[str, tuple[int, int]]

END = bytes(2 * BLOCKSIZE)
GZIP = b"\x1f\x8b"
PIECE = 1024 * 1024
MOST_BYTES = 256 * 1024 * 1024
"""The limit for members other than events and records, which are read whole."""

MOST_LINE_BYTES = 64 * 1024
"""The limit for a line of records.ndjson: a topic has up to 249 characters, a file name 255 bytes."""

MOST_VALUE_BYTES = 64 * 1024 * 1024
"""The limit for the value of one record; an event has at most 1 MiB."""


class _Place(msgspec.Struct, forbid_unknown_fields=True):
    """A record's position in the log, and the length of its value (None: no value) in events.ndjson."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    bytes: int | None


class NotABundle(Exception):
    """A file that cannot be checked; the message says what is wrong, and what to do."""

    def __init__(self, what: str, advice: str = "Download the bundle again.") -> None:
        super().__init__(f"{what}. {advice}")


def write_bundle(file: BinaryIO, sources: Iterable[Source], prices: PriceTable) -> Json:
    """Write a bundle of the sources, in the given order, into an empty, seekable file; returns its manifest.

    Raises CannotBeBundled, or CannotBeFolded for a run that failed.
    """
    places = bytearray()
    file.write(bytes(BLOCKSIZE))
    folded = []
    for source in sources:
        folded.append(_Folded.of(source, prices, partial(_keep, source, file, places)))
    size = file.tell() - BLOCKSIZE
    file.write(_padding(size))
    _check_runs(folded)
    said = _Conclusions.of(folded)
    groups = (group for one in folded for run in one.runs() for group in run.state.groups)
    models = {group.model for group in groups if group.model is not None}
    rows = ({"run_id": at[0], "key": at[1], "summary": of.summary} for at, of in said.summaries.items())
    members = {
        RECORDS: bytes(places),
        PRICES: prices.toml(models).encode(),
        SUMMARIES: _lines(*rows),
        VERDICTS: _lines(said.verdicts),
        MANIFEST: _lines(said.manifest),
    }
    file.seek(0)
    file.write(_header(EVENTS, size))
    sums = {EVENTS: _sha256(file, BLOCKSIZE, size)}
    sums |= {name: sha256_hex(content) for name, content in members.items()}
    file.seek(0, os.SEEK_END)
    for name, content in (members | {SUMS: _sums(sums)}).items():
        file.write(_header(name, len(content)) + content + _padding(len(content)))
    file.write(END)
    return said.manifest


def _keep(source: Source, file: BinaryIO, places: bytearray, record: LogRecord) -> None:
    value = record.value
    if value is not None and not isinstance(value, bytes):
        raise CannotBeBundled(
            f"the record at offset {record.offset} of partition {record.partition} of topic {record.topic} "
            "cannot be read, so it cannot be copied. `streamer rejections` says why"
        )
    topic = record.topic if source.kind == "log" else source.name
    size = None if value is None else len(value)
    place = _Place(topic, record.partition, record.offset, record.timestamp, size)
    places.extend(msgspec.json.encode(place) + b"\n")
    file.write((value or b"") + b"\n")


def _check_runs(folded: Iterable[_Folded]) -> None:
    seen: dict[str, str] = {}
    for one in folded:
        if one.folding.failed:
            raise CannotBeFolded(one.folding.failed[0])
        if not one.folding.runs():
            name, is_log = one.source.name, one.source.kind == "log"
            raise CannotBeBundled(
                f"there is no file {name}, and no run with that name in the event log"
                if is_log
                else f"{name} has no run. `streamer fold` says what is wrong with a file of events"
            )
        for run_id in one.folding.runs():
            if run_id in seen:
                raise CannotBeBundled(
                    f"run {run_id!r} is in both {seen[run_id]} and {one.source.name}, but a bundle may "
                    "contain a run only once. Rename one (`streamer convert --run-id`), or leave it out"
                )
            seen[run_id] = one.source.name


def _header(name: str, size: int) -> bytes:
    info = TarInfo(name)
    info.size = size
    try:
        return info.tobuf(USTAR_FORMAT)
    except ValueError as error:
        raise CannotBeBundled(
            f"{name} has {size:,} bytes, more than a tar archive can hold. Bundle fewer runs at once"
        ) from error


def _padding(size: int) -> bytes:
    return bytes(-size % BLOCKSIZE)


def _lines(*rows: Json) -> bytes:
    return b"".join(canonical_json(row) + b"\n" for row in rows)


def _sums(sums: Mapping[str, str]) -> bytes:
    return "".join(f"{digest}  {name}\n" for name, digest in sums.items()).encode()


def _sha256(file: BinaryIO, start: int, size: int) -> str:
    file.seek(start)
    digest = hashlib.sha256()
    while size > 0 and (piece := file.read(min(size, PIECE))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest()


# -----------------------------------------------------------------------------
# Checking: the same conclusions from the same events, or every difference by its name.


WORDS = frozenset({"words", "title", "notes", "in_common"})
"""Keys of sentences in verdicts, whose wording may differ between versions of the product."""


def check_bundle(file: BinaryIO, name: str) -> list[Verdict]:
    """Fold the events of a bundle again and compare: a verdict on each run.

    A verdict on `name` comes first if the file differs from its sums, verdicts or manifest, or is from
    another release. For another release, `reason` says that sentences were not compared. Raises NotABundle if
    the file is unreadable, or needs another version.
    """
    parts, damage = _parts(file), damage_of(file)
    try:
        return _checked(file, name, parts, damage)
    except (NotABundle, KeyError, TypeError, ValueError) as error:
        if isinstance(error, NotABundle) and not damage:
            raise
        harmed = f"Damaged: {', '.join(one.key for one in damage)}. " if damage else ""
        raise NotABundle(f"{harmed}{type(error).__name__}: {error}") from error


def _checked(file: BinaryIO, name: str, parts: Parts, damage: list[Mismatch]) -> list[Verdict]:
    manifest = _json(MANIFEST, _read(file, parts, MANIFEST))
    _refuse_other(manifest)
    prices = PriceTable.closed(_read(file, parts, PRICES).decode())
    stored = _stored_summaries(_read(file, parts, SUMMARIES))
    records = _records(file, parts)
    folded = []
    for of in manifest["sources"]:
        own = islice(records, of["events"])
        folded.append(_Folded.of(Source(of["name"], of["kind"], own, of["history"], of["begins_at"]), prices))
    if next(records, None) is not None:
        raise NotABundle(f"{RECORDS} has more records than {MANIFEST} counts")
    said = _Conclusions.of(folded)
    by_run: dict[str, list[Mismatch | None]] = {}
    for at in sorted(said.summaries.keys() | stored.keys()):
        differs = difference(at[1], said.summaries.get(at), stored.get(at))
        by_run.setdefault(at[0], []).append(differs)
    ours, release = product_version(), _release(manifest) or "unknown"
    why = None if ours == release else f"made by release {release}, checked by {ours}"
    verdicts = _json(VERDICTS, _read(file, parts, VERDICTS))
    whole = [
        *damage,
        *json_difference(VERDICTS, said.verdicts, verdicts, WORDS if why else ()),
        *json_difference(MANIFEST, said.manifest, manifest, ("product", "schema_version")),
    ]
    failed = {one.run_id: one.reason for each in folded for one in each.folding.failed}
    silent = f"made by release {release}: its sentences were not compared" if why else None
    of_file = replace(_verdict(name, len(said.summaries), whole, why), reason=silent)
    result = [of_file] if whole or silent else []
    for run_id, of_run in by_run.items():
        verdict = _verdict(run_id, len(of_run), [one for one in of_run if one], why)
        reason = failed.get(run_id)
        result.append(Verdict(run_id, "unverifiable", reason=reason) if reason else verdict)
    return result


def _verdict(name: str, summaries: int, differences: Sequence[Mismatch], why: str | None) -> Verdict:
    named = tuple(replace(one, topic="bundle", reason=one.reason or why) for one in differences)
    return Verdict(name, "differs" if named else "equal", summaries, named)


def _release(manifest: Json) -> str | None:
    named = manifest.get("product")
    return named if isinstance(named, str) and re.fullmatch(r"[0-9A-Za-z.+!-]{1,64}", named) else None


def _refuse_other(manifest: Json) -> None:
    for key, ours in (("bundle", FORMAT), ("semantics_version", SEMANTICS_VERSION)):
        if manifest.get(key) != ours:
            install = f": pip install '{DISTRIBUTION}[local]=={of}'" if (of := _release(manifest)) else ""
            raise NotABundle(
                f"The bundle has {key} {manifest.get(key)!r:.40}, and this version of the product has {ours}",
                f"Check it with the version that made it{install}",
            )


def _parts(file: BinaryIO) -> Parts:
    """Position and size of each member. Everything between members must be exactly as in `write_bundle`."""
    total = file.seek(0, os.SEEK_END)
    parts: dict[str, tuple[int, int]] = {}
    at = 0
    for name in MEMBERS:
        header = _at(file, at, BLOCKSIZE)
        try:
            size = int(header[124:135], 8)
            is_right = header == _header(name, size)
        except (ValueError, CannotBeBundled):
            is_right = False
        if not at and header.startswith(GZIP):
            raise NotABundle("The bundle is compressed with gzip", "Unpack it with gunzip.")
        if not is_right:
            raise NotABundle(f"At byte {at:,} the bundle's header for {name} is missing")
        begin, at = at + BLOCKSIZE, at + BLOCKSIZE + size + len(_padding(size))
        if at > total:
            raise NotABundle(f"{name} should have {size:,} bytes, but the file ends earlier")
        if _at(file, begin + size, at - begin - size) != _padding(size):
            raise NotABundle(f"There are extra bytes after {name}")
        if size > MOST_BYTES and name not in (EVENTS, RECORDS):
            raise NotABundle(f"{name} has {size:,} bytes; the limit is {MOST_BYTES:,}")
        parts[name] = (begin, size)
    if total - at != len(END) or _at(file, at, len(END)) != END:
        raise NotABundle(f"After {SUMS} there is something other than the end of an archive")
    return parts


def damage_of(file: BinaryIO) -> list[Mismatch]:
    """The members whose SHA-256 differs from `SHA256SUMS`, or this file itself. Raises NotABundle."""
    parts = _parts(file)
    actual = {name: _sha256(file, *place) for name, place in parts.items() if name != SUMS}
    stored = _read(file, parts, SUMS)
    if stored == _sums(actual):
        return []
    lines = (line.partition("  ") for line in stored.decode("ascii", "replace").split("\n"))
    named = {name: digest for digest, _, name in lines}
    wrong = [name for name, digest in actual.items() if named.get(name) != digest]
    return [Mismatch(one, actual.get(one), named.get(one), ("SHA-256",)) for one in wrong or [SUMS]]


class Contents:
    """The contents of an undamaged bundle, unfolded, while its file is open. Raises NotABundle."""

    def __init__(self, file: BinaryIO) -> None:
        if damage := damage_of(file):
            raise NotABundle(f"Damaged: {', '.join(one.key for one in damage)}")
        self._file, self._parts = file, _parts(file)
        try:
            self.manifest = _json(MANIFEST, _read(file, self._parts, MANIFEST))
            if self.manifest.get("bundle") != FORMAT:
                _refuse_other(self.manifest)
            self.summaries = _stored_summaries(_read(file, self._parts, SUMMARIES))
            _ = self.manifest["semantics_version"], [one["kind"] for one in self.manifest["sources"]]
        except (KeyError, TypeError, ValueError) as error:
            raise NotABundle(f"{MANIFEST} or {SUMMARIES} lacks something: {error!r}") from error

    def records(self) -> Iterator[LogRecord]:
        return _records(self._file, self._parts)


def _records(file: BinaryIO, parts: Parts) -> Iterator[LogRecord]:
    (begin, left), (at, places) = parts[EVENTS], parts[RECORDS]
    end = at + places
    while at < end:
        file.seek(at)
        line = file.readline(min(MOST_LINE_BYTES, end - at))
        at += len(line)
        try:
            place = msgspec.json.decode(line, type=_Place)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise NotABundle(f"{RECORDS} cannot be read: {type(error).__name__}: {error}") from error
        size = place.bytes or 0
        is_right = 0 <= size < min(left, MOST_VALUE_BYTES)
        value = _at(file, begin, size + 1) if is_right else b""
        if not value.endswith(b"\n"):
            raise NotABundle(f"{RECORDS} and {EVENTS} do not match")
        begin, left = begin + size + 1, left - size - 1
        kept = None if place.bytes is None else value[:-1]
        yield Record(kept, place.offset, place.partition, place.timestamp, None, place.topic)
    if left:
        raise NotABundle(f"{EVENTS} has more bytes than {RECORDS} counts")


def _stored_summaries(lines: bytes) -> dict[tuple[str, str], bytes]:
    stored: dict[tuple[str, str], bytes] = {}
    for line in lines.splitlines():
        row = orjson.loads(line)
        at = str(row["run_id"]), str(row["key"])
        if at in stored:
            raise NotABundle(f"{SUMMARIES} has {at[1]} of run {at[0]!r} twice")
        stored[at] = canonical_json(row["summary"])
    return stored


def _json(name: str, content: bytes) -> Json:
    value = orjson.loads(content)
    if not isinstance(value, dict):
        raise NotABundle(f"{name} is not an object")
    return value


def _read(file: BinaryIO, parts: Parts, name: str) -> bytes:
    return _at(file, *parts[name])


def _at(file: BinaryIO, begin: int, size: int) -> bytes:
    file.seek(begin)
    return file.read(size)
