"""What was cut and published stays what the state says, whatever comes after it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline
from tests.support.events import Event, a_plan, a_retraction, a_trial, records
from tests.support.examples import examples


class Published:
    """The newest summary by key, as readers have it, of a run that is cut after every step."""

    def __init__(self) -> None:
        self.pipeline = Pipeline()
        self.newest: dict[tuple[str, str], Any] = {}

    def step(self, *events: Event) -> None:
        """Fold, cut, and compare with the whole."""
        self.pipeline.fold(records(events))
        for change in self.pipeline.run("run-1").take_changes().summaries:
            self.newest[change.kind, change.key] = change.summary
        changes = self.pipeline.run("run-1").summaries()
        standing = {(change.kind, change.key): change.summary for change in changes}
        told = {key: summary["digest"] for key, summary in self.newest.items() if summary is not None}
        assert told == {key: summary["digest"] for key, summary in standing.items() if summary is not None}


def test_a_plan_that_comes_and_goes_between_two_new_subtests_leaves_nothing_stale() -> None:
    published = Published()
    both = [a_trial(tier="T0", subtest="s1", agent=agent) for agent in ("a", "b")]
    published.step(a_plan(tasks=2, attempts=1, revision=1), *both)
    published.step(a_plan(tasks=1, attempts=1, revision=2))
    published.step(a_trial(tier="T0", subtest="s2", agent="a"))
    assert published.newest["agent_model", "run-1|b:gpt-5"]["runs_planned"] == 2


def test_a_subtest_that_goes_where_another_comes_leaves_nothing_stale() -> None:
    published = Published()
    in_t0 = [a_trial(tier="T0", subtest=subtest) for subtest in ("s1", "s2")]
    published.step(
        a_plan(tasks=2, attempts=1),
        *in_t0,
        a_trial(tier="T0", subtest="s1", agent="b"),
        a_trial(tier="T1", subtest="s1"),
    )
    published.step(a_retraction(tier="T0", subtest="s2"), a_trial(tier="T1", subtest="s2"))
    assert published.newest["tier", "run-1|T0|b:gpt-5"]["runs_planned"] == 2


TIERS, SUBTESTS, AGENTS = (
    st.sampled_from(["T0", "T1", None]),
    st.sampled_from(["s1", "s2"]),
    st.sampled_from("ab"),
)
TRIALS = st.builds(
    lambda tier, subtest, agent, resolved, score: a_trial(
        tier=tier, subtest=tier and subtest, agent=agent, resolved=resolved, score=score
    ),
    TIERS,
    SUBTESTS,
    AGENTS,
    st.booleans(),
    st.sampled_from([None, 0.25, 0.5]),
)
RETRACTIONS = st.builds(
    lambda tier, subtest, agent: a_retraction(tier=tier, subtest=tier and subtest, agent=agent),
    TIERS,
    SUBTESTS,
    AGENTS,
)
PLANS = st.builds(
    lambda tasks, revision, tiers: a_plan(tasks=tasks, attempts=1, revision=revision, tiers=tiers),
    st.integers(1, 2),
    st.integers(1, 9),
    st.sampled_from([None, ["T0"], ["T0", "T1"]]),
)


@examples(300)
@given(st.lists(st.lists(TRIALS | TRIALS | RETRACTIONS | PLANS, min_size=1, max_size=3), max_size=6))
def test_no_published_summary_is_ever_stale(steps: list[list[Event]]) -> None:
    published = Published()
    published.step(a_trial())
    for events in steps:
        published.step(*events)
