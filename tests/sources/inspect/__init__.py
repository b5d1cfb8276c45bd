"""Logs that inspect_ai 0.3.285 itself wrote, recorded by record.py; and archives made by hand."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import cramjam

from tests.sources.builders import unpacked

LOGS = Path(__file__).parent / "logs.tar.gz"

OLDER = ("0.3.58", "0.3.183")
"""Older versions that record.py has recorded too, each in an archive with its number.

0.3.58 writes summaries without tokens and times, and names no scorers. Up to 0.3.183 cached tokens are part
of the input.
"""
ZSTANDARD = 93


def unpack_logs(home: Path) -> Path:
    """The folders `finished`, `json`, `growing`, `grown` and `retried`, as record.py says."""
    return unpacked(LOGS, home)


def unpack_older_logs(home: Path) -> Path:
    """A folder for each of the older versions, with the log of one eval."""
    for version in OLDER:
        unpacked(LOGS.with_name(f"logs-{version}.tar.gz"), home)
    return home


def the_log(folder: Path) -> Path:
    """The one log in a folder."""
    [log] = folder.iterdir()
    return log


def a_spec(**fields: Any) -> dict[str, Any]:
    """An eval's specification with what inspect_ai always writes and the connector reads."""
    spec: dict[str, Any] = {"task": "addition", "task_id": "T1", "created": "2026-01-02T03:04:05+00:00"}
    spec |= {"model": "mockllm/model", "config": {"epochs": 1}}
    spec |= {"dataset": {"samples": 2, "sample_ids": [1, 2], "shuffled": False}}
    return spec | {"scorers": [{"name": "match", "metrics": [{"name": "inspect_ai/accuracy"}]}]} | fields


A_PLAN = {"name": "plan", "steps": [{"solver": "generate", "params": {}}]}


def a_summary(**fields: Any) -> dict[str, Any]:
    """The summary of a sample that ended well."""
    summary: dict[str, Any] = {"id": 1, "epoch": 1, "input": "1 + 1", "target": "2", "uuid": "u1"}
    usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
    summary |= {"scores": {"match": {"value": "C"}}, "model_usage": {"mockllm/model": usage}}
    summary |= {"started_at": "2026-01-02T03:04:06+00:00", "completed_at": "2026-01-02T03:04:08.500000+00:00"}
    return summary | {"total_time": 2.5, "working_time": 2.0, "completed": True} | fields


def a_log(path: Path, *summaries: Any, spec: Any = None, **members: Any) -> Path:
    """A finished `.eval` with these summaries; `members`: other contents of header.json."""
    header = {"version": 2, "status": "success", "eval": spec or a_spec(), "plan": A_PLAN, **members}
    return an_archive(path, {"header.json": header, "summaries.json": list(summaries)})


def an_archive(path: Path, members: Mapping[str, Any], claimed: Mapping[str, int] | None = None) -> Path:
    """A zip archive whose members are packed with Zstandard, which zipfile cannot write.

    Args:
        path: where.
        members: name to contents: bytes as they are, all else as JSON.
        claimed: name to the size that the archive claims, where that is not the real one.
    """
    packed = io.BytesIO()
    plain: dict[str, bytes] = {}
    with ZipFile(packed, "w", ZIP_STORED) as archive:
        for name, content in members.items():
            plain[name] = content if isinstance(content, bytes) else json.dumps(content).encode()
            archive.writestr(name, bytes(cramjam.zstd.compress(plain[name])))
        entries = archive.infolist()
    whole = bytearray(packed.getvalue())
    at = whole.index(b"PK\x01\x02")
    for entry in entries:
        size = (claimed or {}).get(entry.filename, len(plain[entry.filename]))
        # Method, checksum and size: in the member's own header, then in the directory of the archive.
        for place, method, sums in ((entry.header_offset, 8, 14), (at, 10, 16)):
            struct.pack_into("<H", whole, place + method, ZSTANDARD)
            struct.pack_into("<I", whole, place + sums, zlib.crc32(plain[entry.filename]))
            struct.pack_into("<I", whole, place + sums + 8, size)
        at = whole.find(b"PK\x01\x02", at + 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(whole)
    return path
