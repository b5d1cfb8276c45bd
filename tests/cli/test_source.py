"""Records of a file: plain or gzip whatever it is called, and bounded."""

from __future__ import annotations

import gzip
from pathlib import Path

import click
import pytest

from streamer.terminal import options as module
from streamer.terminal.options import open_records

LINES = [b'{"a": 1}\n', b"\n", b"last"]


def lines(file: Path) -> list[tuple[int, bytes | None]]:
    with open_records(file) as found:
        return [(record.offset, record.value) for record in found]


@pytest.mark.parametrize("name", ["events.ndjson", "events.gz"])
def test_gzip_is_known_by_its_bytes_and_not_by_its_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    for content in (b"".join(LINES), gzip.compress(b"".join(LINES))):
        file.write_bytes(content)
        assert lines(file) == [(0, b'{"a": 1}'), (2, b"last")]


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert lines(tmp_path / "empty") == []


def test_damaged_gzip_is_said(tmp_path: Path) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"x" * 10_000)[:-9])
    with pytest.raises(click.ClickException, match=r"cut\.gz is damaged gzip"):
        lines(tmp_path / "cut.gz")


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_refused_with_what_to_do(tmp_path: Path, codec: str) -> None:
    (tmp_path / "file").write_bytes("\ufeff{}".encode(codec))
    with pytest.raises(click.UsageError, match="is UTF-16; events are UTF-8"):
        lines(tmp_path / "file")


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_beyond_the_limit_is_named_and_ends_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 10)
    content = b"123456789\n" + b"1234567890\n"
    (tmp_path / "file").write_bytes(gzip.compress(content) if packed else content)
    with open_records(tmp_path / "file") as found:
        assert next(found).value == b"123456789"
        with pytest.raises(click.ClickException, match="line 2 has more than 10 bytes"):
            next(found)
