"""The disk of a simulated harness writes in pieces, at its pace."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.sources.simulate.layouts import MEAN_SECONDS, SHARE_OF_WRITING, Disk


def test_a_file_is_empty_first_and_grows_in_pieces_until_it_is_whole(tmp_path: Path) -> None:
    text = "x" * 1000
    for seed in range(20):
        file = tmp_path / str(seed) / "file"
        seen: list[int] = []
        written: list[Path] = []
        disk = Disk(tmp_path, seed, 2.0, lambda _: seen.append(file.stat().st_size), written.append)  # noqa: B023
        disk.text(file, text)
        assert seen == sorted(seen)
        assert file.read_text() == text
        assert written == [file]
    assert disk.name == tmp_path.name


@pytest.mark.parametrize(("pace", "slept"), [(0.0, []), (2.0, [2.0, 2 * SHARE_OF_WRITING])])
def test_simulated_time_goes_by_at_the_pace(tmp_path: Path, pace: float, slept: list[float]) -> None:
    waited: list[float] = []
    disk = Disk(tmp_path, 1, pace, waited.append, lambda _: None)
    disk.pass_time(MEAN_SECONDS)
    disk.pass_time(0.0)
    disk.pause_writing()
    assert waited == slept


def test_writing_is_part_of_the_time_that_goes_by(tmp_path: Path) -> None:
    waited: list[float] = []
    disk = Disk(tmp_path, 1, MEAN_SECONDS, waited.append, lambda _: None, piece_seconds=2.0)
    for _ in range(3):
        disk.pause_writing()
    for seconds in (1.0, 6.0, 10.0):
        disk.pass_time(seconds)
    assert waited == [2.0, 2.0, 2.0, 0.0, 1.0, 10.0]
