"""Public runs against each other: what would have been saved, by hand, and that the page has the table."""

from __future__ import annotations

from pathlib import Path

from benchmarks.gate_replay import FIGURE, comparisons, figure, gated, table
from benchmarks.replay import Past
from streamer.statistics.pairs import GateVerdict
from tests.house.repository import ROOT

PAGE = (ROOT / "docs" / "inference.md").read_text("utf-8")


def test_the_candidate_stops_with_the_first_loss_if_the_baseline_passed_everything() -> None:
    """Ten trials of 60 s start every 20 s. The first fails at 60 s; two others run, and one starts then."""
    ours = [Past(f"t{n}", n > 0, started=20.0 * n, ended=20.0 * n + 60) for n in range(10)]
    theirs = [Past(f"t{n}", passed=True, started=0, ended=1) for n in range(10)]
    found = gated("x, 1", ours, "y, 1", theirs)
    assert (found.verdict, found.truth, found.difference) == (GateVerdict.FAIL, GateVerdict.FAIL, -0.1)
    assert (found.share, found.unstarted) == (0.1, 6)
    assert (found.saved_seconds, found.seconds) == (20 + 40 + 60 + 6 * 60, 600)
    assert not found.same_agent
    assert gated("x, 1", ours, "x, 2", theirs).same_agent


def test_only_common_tasks_are_compared() -> None:
    ours = [Past(task, passed=True, started=n, ended=n + 5) for n, task in enumerate("abc")]
    theirs = [Past(task, passed=False, started=n, ended=n + 5) for n, task in enumerate("cbd")]
    found = gated("x, 1", ours, "y, 1", theirs)
    assert (found.difference, found.verdict, found.seconds) == (1.0, GateVerdict.PASS, 10)


def test_the_page_has_the_table_and_the_figure_of_the_command(tmp_path: Path) -> None:
    found = comparisons()
    assert len(found) == 14 * 13
    assert sum(one.same_agent for one in found) == 20
    assert all(one.verdict is one.truth for one in found)
    assert "\n".join(table(found)) in PAGE
    figure(found, tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes().startswith(b"\x89PNG")
    assert FIGURE.is_file()
    assert f"]({FIGURE.relative_to(ROOT / 'docs')})" in PAGE
