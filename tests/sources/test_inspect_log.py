"""The files of inspect_ai: which members of an archive are read, and which are refused."""

from __future__ import annotations

import os
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from streamer.sources import files
from streamer.sources.files import MAX_FILE_BYTES, FileError
from streamer.sources.inspect import is_log, read_header, read_samples
from tests.sources.builders import write_json
from tests.sources.inspect import A_PLAN, a_log, a_spec, a_summary, an_archive, the_log

START = {"_journal/start.json": {"version": 2, "eval": a_spec(), "plan": A_PLAN}}


def test_a_log_is_known_by_its_first_bytes(inspect_logs: Path, tmp_path: Path) -> None:
    assert is_log(the_log(inspect_logs / "growing"))
    assert is_log(the_log(inspect_logs / "json"))
    (tmp_path / "x.eval").write_bytes(b"GIF89a")
    (tmp_path / "y.json").write_text('{"version": 2, "results": []}')
    os.mkfifo(tmp_path / "z.eval")
    assert not any(map(is_log, [*tmp_path.iterdir(), tmp_path, tmp_path / "missing.eval"]))


def test_a_journal_is_read_in_the_order_of_its_numbers_and_the_last_of_a_sample_counts(
    tmp_path: Path,
) -> None:
    journal = {
        f"_journal/summaries/{number}.json": [a_summary(id=number % 4, uuid=f"u{number}")]
        for number in (10, 2, 1, 9)
    }
    path = an_archive(tmp_path / "x.eval", START | journal)
    assert {summary["id"]: summary["uuid"] for summary in read_samples(path)} == {1: "u9", 2: "u10"}


def test_a_number_and_a_text_are_two_samples(tmp_path: Path) -> None:
    path = a_log(tmp_path / "x.eval", a_summary(id=1), a_summary(id="1"))
    assert len(list(read_samples(path))) == 2


def test_archives_of_older_versions_are_packed_otherwise(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "x.eval", "w", ZIP_DEFLATED) as archive:
        archive.writestr("header.json", '{"eval": {"task": "t"}, "status": "success"}')
        archive.writestr("summaries.json", '[{"id": 1, "epoch": 1, "scores": {"f": {"value": NaN}}}]')
    assert read_header(tmp_path / "x.eval")["eval"] == {"task": "t"}
    assert [summary["id"] for summary in read_samples(tmp_path / "x.eval")] == [1]


def test_an_archive_without_its_start_is_no_log_yet(tmp_path: Path) -> None:
    path = an_archive(tmp_path / "x.eval", {"_journal/config_updates/1.json": {}})
    with pytest.raises(FileError, match=r"the archive has no _journal/start\.json"):
        read_header(path)


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_half_an_archive_is_refused_with_a_reason(inspect_logs: Path, tmp_path: Path, cut: float) -> None:
    whole = the_log(inspect_logs / "growing").read_bytes()
    (tmp_path / "x.eval").write_bytes(whole[: int(len(whole) * cut)])
    with pytest.raises(FileError, match="not a valid zip archive"):
        read_header(tmp_path / "x.eval")


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = a_log(tmp_path / "x.eval", a_summary())
    content = bytearray(path.read_bytes())
    content[content.index(b"header.json") + len("header.json") + 30] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(FileError, match="not a valid zip archive"):
        read_header(path)


def test_a_member_that_claims_too_much_is_not_unpacked(tmp_path: Path) -> None:
    path = an_archive(tmp_path / "x.eval", {"header.json": {}}, {"header.json": MAX_FILE_BYTES + 1})
    with pytest.raises(FileError, match="too large: 67,108,865 bytes"):
        read_header(path)


def test_a_member_that_is_larger_than_it_claims_is_not_unpacked_further(tmp_path: Path) -> None:
    bomb = b"[" + b" " * 50_000_000 + b"]"
    path = an_archive(tmp_path / "x.eval", {"header.json": bomb}, {"header.json": 100})
    assert path.stat().st_size < 100_000
    with pytest.raises(FileError, match="not a valid zip archive"):
        read_header(path)


def test_members_are_limited_together_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"_journal/summaries/{number}.json": [a_summary(id=number)] for number in range(1, 9)}
    path = an_archive(tmp_path / "x.eval", START | many)
    assert len(list(read_samples(path))) == 8
    monkeypatch.setattr("streamer.sources.inspect.MAX_FILE_BYTES", 2000)
    with pytest.raises(FileError, match="too large"):
        list(read_samples(path))


def test_a_directory_of_the_archive_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = an_archive(tmp_path / "x.eval", {"header.json": {"eval": a_spec()}, "n" * 60_000: b"{}"})
    monkeypatch.setattr("streamer.sources.inspect.MAX_FILE_BYTES", 50_000)
    with pytest.raises(FileError, match="too large: 60,"):
        read_header(path)


def test_a_method_that_nobody_unpacks_here_is_named(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "x.eval", "w", ZIP_BZIP2) as archive:
        archive.writestr("header.json", "{}")
    with pytest.raises(FileError, match=r"header\.json is packed with method 12"):
        read_header(tmp_path / "x.eval")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "header.json is not valid JSON"),
        (b"[" * 200_000, "header.json is not usable JSON: nested too deeply"),
        (b"[]", "it has no object `eval`"),
        (b"{}", "it has no object `eval`"),
        (b"\xff\xfe", "header.json is not valid JSON"),
    ],
)
def test_a_header_that_is_none_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(FileError, match=reason):
        read_header(an_archive(tmp_path / "x.eval", {"header.json": content}))


@pytest.mark.parametrize("method", [ZIP_STORED, ZIP_DEFLATED, None])
def test_a_member_with_the_right_checksum_is_not_said_to_be_cut_off(
    tmp_path: Path, method: int | None
) -> None:
    path = tmp_path / "x.eval"
    if method is None:
        an_archive(path, {"header.json": b'{"eval": '})
    else:
        with ZipFile(path, "w", method) as archive:
            archive.writestr("header.json", '{"eval": ')
    with pytest.raises(FileError, match=r"header\.json is not valid JSON .* its checksum is right") as caught:
        read_header(path)
    assert files.UNFINISHED not in str(caught.value)


@pytest.mark.parametrize("samples", [{}, "", 0, {"1": a_summary()}])
def test_samples_that_are_no_list_are_said(tmp_path: Path, samples: object) -> None:
    log = {"version": 2, "status": "success", "eval": a_spec(), "plan": A_PLAN}
    whole = write_json(tmp_path / "x.json", log | {"samples": samples})
    with pytest.raises(FileError, match=r"`samples` is a JSON \w+ where a list of samples belongs"):
        list(read_samples(whole))
    packed = an_archive(tmp_path / "x.eval", {"header.json": log, "summaries.json": samples})
    with pytest.raises(FileError, match=r"summaries\.json is a JSON \w+ where a list of samples belongs"):
        list(read_samples(packed))


def test_a_log_may_keep_no_samples(tmp_path: Path) -> None:
    log = {"version": 2, "status": "success", "eval": a_spec()}
    assert list(read_samples(write_json(tmp_path / "x.json", log))) == []
    assert list(read_samples(write_json(tmp_path / "y.json", log | {"samples": None}))) == []


def test_a_log_that_is_gone_or_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=files.VANISHED):
        read_header(tmp_path / "gone.eval")
    os.mkfifo(tmp_path / "pipe.eval")
    with pytest.raises(FileError, match="not a regular file"):
        read_header(tmp_path / "pipe.eval")
