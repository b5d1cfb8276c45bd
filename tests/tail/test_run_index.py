"""The runs in a directory: which run a path belongs to, and which runs are known to stand alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.sources.base import ConvertOptions
from streamer.sources.tail.scan import RunIndex, read_whole
from tests.sources.builders import a_result, a_run

OPTIONS = ConvertOptions()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def an_index(root: Path) -> RunIndex:
    """What a reading of the whole found."""
    index = RunIndex(root, OPTIONS)
    index.replace(read_whole(root, OPTIONS).runs, 0.0)
    return index


def test_a_path_belongs_to_the_innermost_run_around_it(root: Path) -> None:
    run = a_run(root / "run1", [a_result("a")])
    index = an_index(root)
    found = index.at(run)
    assert found is not None
    assert index.around(run / "a" / "anything") is found
    assert index.around(root) is None
    assert not index.is_new(found)


def test_a_new_run_is_found_by_a_place_in_it_and_is_new_until_the_whole_has_it(root: Path) -> None:
    a_run(root / "run1", [a_result("a")])
    index = an_index(root)
    run = a_run(root / "run2", [a_result("a", run="run2", id="another")])
    [found] = index.look_for([run / "a"])
    assert (found.path, index.is_new(found)) == (run, True)
    assert index.look_for([run / "a"]) == []
    index.replace(read_whole(root, OPTIONS).runs, float("inf"))
    assert not any(index.is_new(run) for run in index)
    assert len(list(index)) == 2


def test_a_second_run_of_a_name_is_left_to_the_whole(root: Path) -> None:
    a_run(root / "one" / "run1", [a_result("a")])
    index = an_index(root)
    second = a_run(root / "two" / "run1", [a_result("b", id="another")])
    assert index.look_for([second / "b"]) == []


def test_a_reading_that_began_before_a_run_came_does_not_forget_it(root: Path) -> None:
    index = an_index(root)
    run = a_run(root / "run1", [a_result("a")])
    [found] = index.look_for([run])
    index.replace([], 0.0)
    assert index.at(run) is found
    index.replace([], float("inf"))
    assert index.at(run) is None
