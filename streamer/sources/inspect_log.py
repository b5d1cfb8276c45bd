"""Log files of inspect_ai: `.eval`, a zip archive that grows while the eval runs, and `.json`.

Of an `.eval` only the header and the summaries of samples are read. They hold all that an event needs, so
the size of the transcripts does not matter. While an eval runs, its archive has `_journal/start.json`. Each
time that inspect_ai writes samples to it, it adds `_journal/summaries/N.json`. At the end come `header.json`
and `summaries.json`. inspect_ai replaces the whole file each time, so a reader never sees half an archive.
Members are packed with Zstandard (method 93), which Python's zipfile cannot unpack before 3.14.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import cramjam

from streamer.sources.files import (
    MAX_FILE_BYTES,
    FileError,
    check_size,
    is_file,
    parse_json,
    part,
    read_object,
    reading,
)

ARCHIVE = ".eval"
HEADER, START = "header.json", "_journal/start.json"
SUMMARIES = "summaries.json"
JOURNAL = re.compile(r"_journal/summaries/(\d{1,9})\.json")

ZSTANDARD = 93
"""The method's number in the zip format."""

WRITTEN_SO = "its checksum is right, so the log was written like this: write it again with inspect_ai"
"""What may be wrong with a member that is no JSON. Checksums are compared first, so it is whole."""

_LOCAL_HEADER = struct.Struct("<4s22xHH")
"""A member's header in the archive: signature, lengths of the name and of the extra field."""

_ZIP_MAGIC = b"PK\x03\x04"
_JSON_START = re.compile(rb'\s*\{\s*"version":\s*\d+,\s*"status":\s*"\w+",\s*"eval":\s*\{')
_JSON_START_BYTES = 256


def is_log(path: Path) -> bool:
    """Whether a file is a log of inspect_ai, by its first bytes."""
    if not is_file(path):
        return False
    try:
        with path.open("rb") as opened:
            start = opened.read(_JSON_START_BYTES)
    except OSError:
        return False
    if path.suffix == ARCHIVE:
        return start.startswith(_ZIP_MAGIC)
    return path.suffix == ".json" and _JSON_START.match(start) is not None


def read_header(path: Path) -> dict[str, Any]:
    """What a log says of the eval as a whole: `eval`, `plan`, `status`, `stats`; not all while it runs.

    Raises:
        FileError: the file is no log, is damaged, or is too large.
    """
    if path.suffix != ARCHIVE:
        header = read_object(path)
        header.pop("samples", None)
    else:
        with _opened(path) as archive:
            header = archive.json_of(HEADER if archive.has(HEADER) else START)
    if not isinstance(header, dict) or not part(header, "eval"):
        raise FileError("not a log of inspect_ai: it has no object `eval`")
    return header


def read_samples(path: Path) -> Iterator[Any]:
    """The finished samples of a log, or their summaries; a sample that ran again comes once, as it is now.

    Raises:
        FileError: as :func:`read_header`, or no list stands where the samples belong.
    """
    if path.suffix != ARCHIVE:
        samples = read_object(path).get("samples")  # null in a log that keeps none
        yield from [] if samples is None else _list_of("`samples`", samples)
        return
    with _opened(path) as archive:
        lists = [_list_of(name, archive.json_of(name)) for name in archive.summary_names()]
    latest: dict[tuple[Any, Any], Any] = {}
    for summary in (summary for found in lists for summary in found):
        key = (summary.get("id"), summary.get("epoch")) if isinstance(summary, dict) else (None, id(summary))
        latest[json.dumps(key[0], default=str), json.dumps(key[1], default=str)] = summary
    yield from latest.values()


def _list_of(name: str, value: Any) -> list[Any]:
    """The list. Raises FileError where something else stands in its place."""
    if not isinstance(value, list):
        raise FileError(f"{name} is a JSON {type(value).__name__} where a list of samples belongs")
    return value


@contextmanager
def _opened(path: Path) -> Iterator[_Archive]:
    """The archive in a file. What is wrong with it becomes FileError."""
    try:
        with reading(path), _BoundedFile(io.FileIO(path)) as file, ZipFile(file) as archive:
            yield _Archive(file, archive)
    except (BadZipFile, cramjam.DecompressionError, zlib.error, struct.error, EOFError) as error:
        raise FileError(
            f"not a valid zip archive ({error}); it may be cut off, or be written still"
        ) from error
    except (NotImplementedError, RuntimeError) as error:  # another method, or a password
        raise FileError(f"a zip archive that cannot be unpacked: {error}") from error


class _BoundedFile(io.BufferedReader):
    """A file that is read in pieces of limited size, whatever sizes the archive claims."""

    def read(self, size: int | None = -1, /) -> bytes:
        check_size(size or 0, MAX_FILE_BYTES)
        return super().read(size)


class _Archive:
    """Reads members, none of them larger than a file may be, nor all of them together."""

    def __init__(self, file: _BoundedFile, archive: ZipFile) -> None:
        self._file = file
        self._archive = archive
        self._members = archive.NameToInfo  # of members with one name the last
        self._left = MAX_FILE_BYTES

    def has(self, name: str) -> bool:
        return name in self._members

    def summary_names(self) -> list[str]:
        """The members with summaries, in the order in which they were written."""
        if self.has(SUMMARIES):
            return [SUMMARIES]
        numbered = ((match, name) for name in self._members if (match := JOURNAL.fullmatch(name)))
        return [name for _, name in sorted((int(match[1]), name) for match, name in numbered)]

    def json_of(self, name: str) -> Any:
        """The contents of a member; NaN and Infinity pass as floats."""
        if name not in self._members:
            raise FileError(f"not a log of inspect_ai: the archive has no {name}")
        member = self._members[name]
        check_size(member.file_size, self._left)
        content = self._zstandard(member) if member.compress_type == ZSTANDARD else self._plain(member)
        self._left -= len(content)
        try:
            return parse_json(content, WRITTEN_SO)
        except FileError as error:
            raise FileError(f"{name} is {error}") from error

    def _plain(self, member: ZipInfo) -> bytes:
        """A member in a method that zipfile knows in every version; it checks the sum itself."""
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise NotImplementedError(f"{member.filename} is packed with method {member.compress_type}")
        with self._archive.open(member) as opened:
            content = opened.read(member.file_size + 1)
        check_size(len(content), member.file_size)
        return content

    def _zstandard(self, member: ZipInfo) -> bytes:
        """A member packed with Zstandard, unpacked into as many bytes as it claims and no more."""
        self._file.seek(member.header_offset)
        signature, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        if signature != _ZIP_MAGIC:
            raise BadZipFile(f"{member.filename} does not lie where the archive says")
        self._file.seek(name_bytes + extra_bytes, 1)
        content = bytearray(member.file_size)
        written = cramjam.zstd.decompress_into(self._file.read(member.compress_size), content)
        if written != member.file_size or zlib.crc32(content) != member.CRC:
            raise BadZipFile(f"{member.filename} is not what its checksum says")
        return bytes(content)
