"""Our totals are those that each recorded release of a harness wrote itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sources.builders import unpacked
from tests.sources.newest import Number, differences, of_harbor, of_inspect, of_swe_bench

HERE = Path(__file__).parent

RELEASES: list[tuple[str, str, Callable[[Path], Iterator[Number]], int]] = [
    ("harbor/jobs-0.1.28.tar.gz", "", of_harbor, 4),
    ("harbor/jobs.tar.gz", "", of_harbor, 13),
    ("harbor/jobs-0.26.0.tar.gz", "", of_harbor, 13),
    ("inspect/logs-0.3.58.tar.gz", "0.3.58", of_inspect, 4),
    ("inspect/logs-0.3.183.tar.gz", "0.3.183", of_inspect, 4),
    ("inspect/logs.tar.gz", "finished", of_inspect, 4),
    ("swe_bench/runs-4.1.0.tar.gz", "", of_swe_bench, 3),
    ("swe_bench/runs.tar.gz", "", of_swe_bench, 3),
]


@pytest.mark.parametrize(("archive", "folder", "numbers_of", "count"), RELEASES)
def test_our_totals_are_the_ones_of_each_recorded_release(
    tmp_path: Path, archive: str, folder: str, numbers_of: Callable[[Path], Iterator[Number]], count: int
) -> None:
    numbers = list(numbers_of(unpacked(HERE / archive, tmp_path) / folder))
    assert (len(numbers), differences(numbers)) == (count, [])


def test_a_number_that_differs_or_is_missing_is_said() -> None:
    numbers = [("a", 1.0, 1.0 + 1e-14), ("b", 2, 3), ("c", 0, 0), ("d", 0.5, None)]
    assert differences(numbers) == ["b: 2 by the harness, 3 by us", "d: 0.5 by the harness, None by us"]
