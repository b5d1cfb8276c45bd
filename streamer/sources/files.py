"""Reading what harnesses leave on disk: dirty JSON, endless links, odd names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from streamer.sources.base import Unreadable

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


VANISHED = "no longer there when it was read"
"""The remark on a file or directory that was moved or deleted after it was found."""


MAX_FILE_BYTES = 64 * 1024 * 1024
"""Larger files are not read: agents under test can write some of them. As JSON of nothing but brackets,
so many bytes take 1.4 GB of memory while they are read."""


class FileError(Exception):
    """A file cannot be read; the text says why and is meant for the user."""


def is_file(path: Path) -> bool:
    """Whether there is a regular file; False, not an exception, where one may not look."""
    return os.path.isfile(path)


def is_directory(path: Path) -> bool:
    """Whether there is a directory; False where one may not look."""
    return os.path.isdir(path)


def exists(path: Path) -> bool:
    """Whether there is anything; False where one may not look."""
    return os.path.exists(path)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Around the reading of a regular file: whatever the system objects to becomes FileError."""
    try:
        if not is_file(path):  # reading a pipe would wait for ever
            raise FileError("not a regular file" if os.path.lexists(path) else VANISHED)
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileError(VANISHED) from error
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror or error}") from error


def read_bytes(path: Path) -> bytes:
    """Content of a regular file of at most :data:`MAX_FILE_BYTES`. Raises FileError."""
    with reading(path), path.open("rb") as opened:
        check_size(os.fstat(opened.fileno()).st_size, MAX_FILE_BYTES)
        content = opened.read(MAX_FILE_BYTES + 1)
    check_size(len(content), MAX_FILE_BYTES)
    return content


def check_size(found: int, allowed: int) -> None:
    """Raises FileError if a file is larger than allowed."""
    if found > allowed:
        raise FileError(f"too large: {found:,} bytes; {allowed:,} are allowed, and nothing of it was read")


def read_json(path: Path) -> Any:
    """Content of a JSON file. Raises FileError; NaN and Infinity pass as floats."""
    return parse_json(read_bytes(path))


UNFINISHED = "it may be cut off, or still being written"
"""What may be wrong with a file that is no JSON."""


def parse_json(content: bytes, hint: str = UNFINISHED) -> Any:
    """The value in the content of a JSON file; NaN and Infinity pass as floats.

    Args:
        content: the bytes of the file.
        hint: what may be wrong if they are no JSON, for the user.

    Raises:
        FileError: they are no JSON, or nested too deeply.
    """
    try:
        return json.loads(content)
    except RecursionError as error:
        raise FileError("not usable JSON: nested too deeply") from error
    except ValueError as error:
        raise FileError(f"not valid JSON ({error}); {hint}") from error


def read_object(path: Path) -> dict[str, Any]:
    """Content of a JSON file that holds an object. Raises FileError."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise FileError(f"holds a JSON {type(value).__name__} where an object belongs")
    return value


def peek(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if there is none that can be read."""
    try:
        return read_object(path)
    except FileError:
        return {}


def read_optional(path: Path, problems: list[Unreadable]) -> dict[str, Any]:
    """Content of a file that may be missing: empty then, and (noted as a problem) if it cannot be read."""
    if not exists(path):
        return {}
    try:
        return read_object(path)
    except FileError as error:
        problems.append(Unreadable(path, str(error)))
        return {}


def part(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object under a key, empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def listed(value: Mapping[str, Any], key: str) -> list[Any]:
    """The list under a key, empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, list) else []


def objects(value: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects of the list under a key; whatever else stands there is left out."""
    return [item for item in listed(value, key) if isinstance(item, dict)]


def text(value: Any) -> str | None:
    """A text that says something, else None."""
    return value if isinstance(value, str) and value else None


def known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without those that are None: a missing value is missing (R1)."""
    return {name: value for name, value in fields.items() if value is not None}


def mtime_ns(path: Path) -> int:
    """Time of the last write in Unix nanoseconds (R17); 0 if the file is gone."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def first_written_ns(*paths: Path) -> int:
    """The earliest time of the last write among paths, in Unix nanoseconds; 0 if all are gone."""
    return min(filter(None, map(mtime_ns, paths)), default=0)


def time_of(value: Any) -> datetime | None:
    """A time with zone from ISO 8601 text, else None."""
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else None


def is_plain(name: str) -> bool:
    """Whether a name stays in its directory."""
    return Path(name).name == name and "\0" not in name


def clean_name(path: Path) -> str:
    """Name of a file or directory as an id: what UTF-8 or an id cannot hold becomes U+FFFD."""
    return clean_text(os.fsencode(path.name).decode("utf-8", "replace"))


def clean_text(value: str) -> str:
    """A text as an id: control characters and half characters become U+FFFD."""
    return _CONTROL.sub("�", value.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))


def entries(directory: Path, problem: Callable[[Path, str], None] | None = None) -> list[os.DirEntry[str]]:
    """The entries of a directory, by name; nothing (and a problem reported) if it cannot be listed."""
    try:
        with os.scandir(directory) as listing:
            return sorted(listing, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        if problem:
            problem(directory, VANISHED)
        return []
    except OSError as error:
        if problem:
            problem(directory, f"cannot be listed: {error.strerror or error}")
        return []


def subdirectories(directory: Path) -> list[Path]:
    """Directories in a directory, by name; symbolic links are not followed."""
    return [Path(e.path) for e in entries(directory) if e.is_dir(follow_symlinks=False)]


def walk(
    root: Path, skip: Callable[[Path], bool], problem: Callable[[Path, str], None] | None = None
) -> Iterator[Path]:
    """The directory and all below it, outer ones first, by name; symbolic links are not followed.

    Args:
        root: where to start; never skipped itself.
        skip: asked for each directory below; true leaves it and all below it out.
        problem: called with directories that cannot be listed.
    """
    pending = [root]
    while pending:
        directory = pending.pop()
        yield directory
        below = [Path(e.path) for e in entries(directory, problem) if e.is_dir(follow_symlinks=False)]
        pending.extend(path for path in reversed(below) if not skip(path))
