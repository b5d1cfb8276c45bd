"""Lists of trials: filters, order and pages."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.web.log import page_of
from streamer.web.models import TrialsQuery
from tests.support.builders import a_row

ROWS = [
    a_row(id="a" * 24, task_id="build", cost_usd=2.0, tier="T0"),
    a_row(id="b" * 24, task_id="test", agent_model="b:m", success=False, outcome="failed", tier="T1"),
    a_row(
        id="c" * 24, task_id="<b>", cost_usd=1.0, failure_mode="Timeout", outcome="fell_back", success=False
    ),
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, "cba"),
        ({"descending": True}, "abc"),
        ({"sort": "cost_usd"}, "cab"),
        ({"sort": "cost_usd", "descending": True}, "acb"),
        ({"sort": "task"}, "cab"),
        ({"outcome": "failed"}, "b"),
        ({"agent": "a"}, "ca"),
        ({"agent": "b:m"}, "b"),
        ({"tier": "T0"}, "a"),
        ({"task": "build"}, "a"),
        ({"search": "TIMEOUT"}, "c"),
        ({"search": "<B>"}, "c"),
        ({"search": ""}, "cba"),
        ({"offset": 1, "limit": 1}, "b"),
        ({"offset": 9}, ""),
    ],
)
def test_a_page_holds_what_was_asked_for_in_its_order(query: dict[str, Any], found: str) -> None:
    page = page_of(ROWS, TrialsQuery(**query))
    assert "".join(row.id[0] for row in page.trials) == found
    assert page.total == 3
