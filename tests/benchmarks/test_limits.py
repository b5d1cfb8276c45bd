"""The measurement of limits runs and its runs are equal to a fold; the figures mean nothing at this scale."""

from __future__ import annotations

import pytest

from benchmarks.common import events
from benchmarks.limits import closed, drained, revisions
from benchmarks.site import a_site

pytestmark = [pytest.mark.timeout(600), pytest.mark.kafka]


def test_backlogs_and_many_runs_are_measured() -> None:
    with a_site("kafka") as site:
        for lines in (revisions(100, 1_000), events(1_000, runs=1)):
            curve = drained(site, lines, 1_000)
            assert (len(curve.steps), curve.outcome) == (10, "equal")
        rows = closed(site, 20, idle_seconds=3.0)
    assert [row[-1] for row in rows] == ["equal"] * 3
