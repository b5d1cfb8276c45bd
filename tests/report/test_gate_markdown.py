"""The comment for a pull request: hostile names stay text."""

from __future__ import annotations

from streamer.report.gate_markdown import gate_markdown
from streamer.views.gate import Entrant, Terms, judge
from tests.aggregate.matched import side, the_plan, trial
from tests.views.test_gate import BASELINE, PLANS, judged, ours

HOSTILE = "x|<img src=x onerror=alert(1)>](https://evil.example) @team #1"


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
