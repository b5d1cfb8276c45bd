"""The comment for a pull request: hostile names stay text."""

from __future__ import annotations

import re
from html import unescape

import pytest

from streamer.views.gate import Entrant, Terms, judge
from streamer.web.report import gate_markdown
from tests.aggregate.matched import side, the_plan, trial
from tests.views.test_gate import BASELINE, PLANS, judged, ours

HOSTILE = "x|<img src=x onerror=alert(1)>](https://evil.example) @team #1"
MENTION = re.compile(r"@\w|#\d|GH-\d", re.IGNORECASE)
"""What GitHub takes for a person, a team, an issue or a pull request, in decoded text outside of code."""


def test_a_comment_has_the_verdict_both_sides_and_both_answers() -> None:
    lines = gate_markdown(judged([*PLANS, *BASELINE, *ours(0, 9, cost_usd=0.5)])).decode().splitlines()
    assert lines[0] == "### ❌ Gate: fail"
    assert lines[4:8] == [
        "| | run | agent:model | trials | passed |",
        "| :-- | :-- | :-- | --: | --: |",
        "| candidate | <code>r</code> | <code>a:m</code> | 9 of 20 | 0 |",
        "| baseline | <code>s</code> | <code>b:m</code> | 20 of 20 | 20 |",
    ]
    said = "\n".join(lines[8:])
    assert all(f"- {word}: fail" in said for word in ("final", "ability"))
    assert "- estimate: stopping now saves up to 11 trials" in said


def test_names_of_agents_and_tasks_are_no_markup() -> None:
    plan = the_plan("r", tasks=[HOSTILE], order=None, agent_models=[f"{HOSTILE}:m"])
    events = [plan, trial("r", HOSTILE, HOSTILE, True), the_plan("s"), *BASELINE]
    found = judge(
        Entrant(HOSTILE, side(events, "r", HOSTILE, fixed=True)),
        Entrant(HOSTILE, side(events, "s", "b", fixed=True)),
        Terms(),
    )
    text = gate_markdown(found).decode()
    assert "only in the candidate" in text
    assert not any(part in text for part in ("<img", "](", "https://", "@team", " #1"))
    row = next(line for line in text.splitlines() if line.startswith("| candidate"))
    assert row.count("|") == 6
    alone = gate_markdown(judge(Entrant("mine", None), None, Terms())).decode()
    assert "| candidate | – | – | 0 | 0 |" in alone


@pytest.mark.parametrize(
    "name", ["@org/team", "a@org", "fixes #12", "o/r#12", "GH-12", "gh-12 www.x.example"]
)
def test_a_name_mentions_nobody_once_github_has_decoded_it(name: str) -> None:
    plan = the_plan("r", tasks=[name], order=None)
    events = [plan, trial("r", name, name, True), the_plan("s"), *BASELINE]
    sides = [side(events, run, agent, fixed=True) for run, agent in (("r", name), ("s", "b"))]
    found = judge(Entrant(name, sides[1]), Entrant(name, sides[0]), Terms())
    text = unescape(re.sub("<code>.*?</code>", "", gate_markdown(found).decode()))
    assert MENTION.search(name)
    assert "only in the baseline" in text
    assert "points worse than" in text
    assert MENTION.findall(text) == []
