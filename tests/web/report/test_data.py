"""The data of a report from a file of events."""

from __future__ import annotations

import pytest

from streamer.folding.fold import NoSuchRun
from tests.support.events import a_trial
from tests.web.report.reporting import folded, tiered


def test_the_history_of_a_file_ends_with_what_the_summaries_say() -> None:
    data = tiered()
    for agent in data.agents:
        label = agent["agent_model"]
        points = [p for p in data.history if (p["kind"], p["agent_model"]) == ("agent_model", label)]
        assert len(points) > 10
        assert points[-1]["pass_rate"] == agent["statistics"]["pass_rate"]["mean"]


def test_of_several_runs_one_must_be_named() -> None:
    lines = [a_trial(run_id=run) for run in ("demo-tiers", "demo-terminal")]
    with pytest.raises(NoSuchRun, match="2 runs"):
        folded(lines)
    with pytest.raises(NoSuchRun, match="Did you mean demo-tiers"):
        folded(lines, "demo-tier")
