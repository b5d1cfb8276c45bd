"""Words for what may be concluded from a run, the same on every surface (docs/inference.md).

Each function takes the summary of a group, as its model or as the dict of its JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor

from streamer.text import UNSEEN, percent
from streamer.views.columns import found
from streamer.views.wording import Summary, is_open

SO_FAR = "so far"

REASONS = {
    "no_plan": "the run has not said how many trials it plans",
    "plan_undeclared_tiers": "the plan leaves out tiers or subtests that have results",
    "plan_exceeded": "there are more trials than planned",
    "order_chosen": "the order was chosen",
    "order_unknown_in_part": "some trials have no place in the order",
    "attempts_together": "all attempts at a task run one after the other",
    "order_follows_difficulty": "the order follows the declared difficulty",
    "order_follows_outcome": "passes lie early or late in the order",
    "nothing_yet": "no trial has a final value",
    "empty": "no final pass rate agrees with all results: the assumptions do not hold",
}
"""`final_missing` -> why there is no interval; the table in docs/inference.md says the same."""

EXPLAINED = {
    SO_FAR: "so far: results are still missing. Passes often come first, so this pass rate may mislead.",
    "interval": "[low, high]: the final pass rate lies there, in percent. "
    "At most 5 of 100 runs ever miss it, however often you look.",
    "if": "[low, high]?: the same, if the order has nothing to do with difficulty.",
    "bounds": "(low to high): the final pass rate cannot leave this range, unless results are corrected.",
    "decided": "decided: the grade can no longer change, unless results are corrected.",
}
"""What the marks beside a pass rate and a grade mean."""

PLACES = (
    "place: with 95 % probability no agent truly stands outside of its places, "
    "however often you look, all agents at once."
)
"""What the places beside the agents mean (inference 7)."""

_NEARLY = 1e-9
"""A share such as 0.57 is a little less than 57 %, and is not rounded away from it."""


def pass_rate(group: Summary) -> str:
    """The pass rate with the interval of the final one; while results are missing it is one "so far".

    >>> final = {"low": 0.553, "high": 0.674, "unknown": 40, "order_kind": "shuffled"}
    >>> running = {"statistics": {"pass_rate": {"mean": 0.617}}, "provisional": True, "in_flight": 8}
    >>> pass_rate({**running, "uncertainty": {"final": final}})
    '61.7 % so far [55, 68]'
    >>> pass_rate({**running, "provisional": False, "in_flight": 0, "uncertainty": {"final": final}})
    '61.7 % [55, 68]'
    >>> pass_rate({**running, "uncertainty": None})
    '61.7 % so far'
    """
    rate = found(group, ("statistics", "pass_rate", "mean"))
    if rate is None:
        return UNSEEN
    words = (percent(rate), SO_FAR if is_open(group) else "", interval(group))
    return " ".join(word for word in words if word)


def short_pass_rate(group: Summary) -> str:
    """The same where there is little room: an interval says by itself that results are missing.

    >>> final = {"low": 0.553, "high": 0.674, "unknown": 40, "order_kind": "shuffled"}
    >>> running = {"statistics": {"pass_rate": {"mean": 0.617}}, "provisional": True, "in_flight": 8}
    >>> short_pass_rate({**running, "uncertainty": {"final": final}})
    '61.7 % [55, 68]'
    >>> short_pass_rate({**running, "uncertainty": None})
    '61.7 % so far'
    """
    ends, rate = interval(group), found(group, ("statistics", "pass_rate", "mean"))
    return f"{percent(rate)} {ends}" if ends and rate is not None else pass_rate(group)


def interval(group: Summary) -> str:
    """Where the final pass rate lies, in whole percent, rounded outwards; "" once it is known, or not at all.

    Brackets hold the interval `final`, with `?` if it assumes that the order is fair. Parentheses hold the
    hard bounds, where there is no such interval.

    >>> final = {"low": 0.57, "high": 0.674, "unknown": 40, "order_kind": "unknown"}
    >>> interval({"uncertainty": {"final": final}})
    '[57, 68]?'
    >>> interval({"uncertainty": {"final": final | {"unknown": 0}}})
    ''
    >>> bounds = {"pass_rate": {"low": 0.2247, "high": 0.7191}}
    >>> interval({"uncertainty": {"final": None, "reachable": bounds}})
    '(22 to 72)'
    """
    final = found(group, ("uncertainty", "final"))
    if final is not None:
        low, high = _percents(final)
        mark = "?" * (found(final, ("order_kind",)) != "shuffled")
        return f"[{low}, {high}]{mark}" if found(final, ("unknown",)) else ""
    reach = found(group, ("uncertainty", "reachable", "pass_rate"))
    if reach is None or found(reach, ("low",)) == found(reach, ("high",)):
        return ""
    low, high = _percents(reach)
    return f"({low} to {high})"


def reason(group: Summary) -> str:
    """Why there is no interval of the final pass rate; "" where there is one, or the rate is known.

    >>> reason({"uncertainty": {"final": None, "final_missing": "order_chosen", "reachable": None}})
    'the order was chosen'
    """
    code = found(group, ("uncertainty", "final_missing"))
    reach = found(group, ("uncertainty", "reachable", "pass_rate"))
    if code is None or (reach is not None and found(reach, ("low",)) == found(reach, ("high",))):
        return ""
    return REASONS.get(str(code), str(code))


def decided(group: Summary) -> str:
    """ "yes" if the grade can no longer change though results are missing; else a dash.

    >>> decided({"uncertainty": {"decided": {"grade": True}}, "provisional": True})
    'yes'
    """
    settled = found(group, ("uncertainty", "decided", "grade"))
    return "yes" if settled and is_open(group) else UNSEEN


def footnotes(groups: Sequence[Summary]) -> list[str]:
    """What the marks in these rows mean, a line each, and why intervals are missing."""
    marks = {
        SO_FAR: any(SO_FAR in pass_rate(group) for group in groups),
        "interval": any("[" in pass_rate(group) for group in groups),
        "if": any("]?" in pass_rate(group) for group in groups),
        "bounds": any("(" in pass_rate(group) for group in groups),
        "decided": any(decided(group) != UNSEEN for group in groups),
    }
    return [*(EXPLAINED[mark] for mark, stands in marks.items() if stands), *_missing(groups)]


def _missing(groups: Sequence[Summary]) -> Iterable[str]:
    """Why groups have no interval; names of agents stand in it as they are where the reasons differ."""
    without: dict[str, list[Summary]] = {}
    for group in groups:
        if why := reason(group):
            without.setdefault(why, []).append(group)
    for why, those in without.items():
        names = [str(found(group, ("agent_model",))) for group in those if found(group, ("agent_model",))]
        whose = f" for {', '.join(names)}" if names and len(those) < len(groups) else ""
        yield f"No interval of the final pass rate{whose}: {why}."


def _percents(share: Summary) -> tuple[int, int]:
    low, high = 100 * found(share, ("low",)), 100 * found(share, ("high",))
    return floor(low + _NEARLY), ceil(high - _NEARLY)
