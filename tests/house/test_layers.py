"""Every test is in exactly one layer, and CI runs all of them within an hour."""

from __future__ import annotations

import re
import sys

import pytest

import streamer.schemas.base
from streamer.operate.local.processes import Child
from tests.house.repository import ROOT, ran
from tests.support.layers import ENGINES, LAYERS, layer_of, take_turns

ALL_TESTS = (ROOT / ".ci" / "test-all").read_text("utf-8")
STEPS = {
    target: int(minutes)
    for minutes, target in re.findall(r'^  "(\d+) +make ([a-z-]+)', ALL_TESTS, re.MULTILINE)
}
"""Target of make -> minutes that it may take."""


@pytest.mark.parametrize(
    ("markers", "fixtures", "layer"),
    [
        (set(), ["tmp_path"], "quick"),
        (set(), ["redis_server", "session_redis"], "stack"),
        (set(), ["embedded_broker", "kafka_bootstrap"], "kafka"),
        ({"slow"}, [], "stack"),
        ({"browser"}, [], "stack"),
        ({"stack"}, [], "stack"),
        ({"kafka", "slow"}, ["session_redis"], "kafka"),
        ({"peer"}, ["embedded_broker"], "peer"),
    ],
)
def test_markers_and_fixtures_decide_the_layer(markers: set[str], fixtures: list[str], layer: str) -> None:
    assert layer_of(markers, fixtures) == layer


def test_a_test_cannot_stand_in_two_layers() -> None:
    with pytest.raises(pytest.UsageError, match="stack and kafka"):
        layer_of({"kafka", "stack"}, [])


def test_each_of_the_tests_that_take_turns_is_run_by_one_of_so_many_commits() -> None:
    class Item:
        def __init__(self, name: str, of: int | None) -> None:
            self.nodeid, self._of = name, of

        def get_closest_marker(self, _: str) -> pytest.Mark | None:
            return self._of and pytest.mark.in_turn(self._of).mark

    always = Item("test_a", None)
    engines = [Item(f"test_b[{engine}]", 2) for engine in ENGINES]
    kinds = [Item(f"test_c[{number}]", 3) for number in range(7)]
    runs = [set(take_turns([always, *engines, *kinds], seed)[0]) for seed in range(6)]
    assert all(always in run for run in runs)
    assert [len(run.intersection(engines)) for run in runs] == [1] * 6
    assert runs[0].intersection(engines) != runs[1].intersection(engines)
    assert {len(run.intersection(kinds)) for run in runs} == {2, 3}
    assert runs[0] | runs[1] | runs[2] == {always, *engines, *kinds}


def test_every_test_of_this_session_is_in_one_layer(request: pytest.FixtureRequest) -> None:
    layers = [[layer for layer in LAYERS if item.get_closest_marker(layer)] for item in request.session.items]
    assert {len(result) for result in layers} == {1}


def test_a_quick_test_cannot_start_a_server() -> None:
    with pytest.raises(AssertionError, match=r"starts a server that its layer lacks.*pytest\.mark\.stack"):
        Child("a server", ["sleep", "1"]).start()


def test_a_target_of_make_runs_each_layer_and_all_of_them_are_steps_of_ci() -> None:
    one = re.compile(r"^(test[a-z-]*):.*\n(?:\t.*\n)*?.*\$\(PYTEST\) -m ([a-z]+) ", re.MULTILINE)
    targets = {layer: target for target, layer in one.findall((ROOT / "Makefile").read_text("utf-8"))}
    expected = {"quick": "test", "stack": "test-stack", "kafka": "test-kafka", "peer": "test-peers"}
    assert targets == expected
    assert set(targets.values()) <= set(STEPS)
    assert 'exec make "${@:-test-all}"' in (ROOT / ".ci" / "run").read_text("utf-8")


def test_all_steps_together_have_less_than_an_hour_and_a_night_has_no_turns() -> None:
    nightly = (ROOT / ".github" / "workflows" / "nightly.yml").read_text("utf-8")
    assert "- run: bash .ci/run test test-stack test-kafka TURNS=all\n" in nightly
    [minutes] = re.findall(r"^readonly MINUTES=(\d+)$", ALL_TESTS, re.MULTILINE)
    assert max(STEPS.values()) < int(minutes) < 60


def constants() -> str:
    """Every constant of the module that tests change in processes of their own."""
    result = {name: value for name, value in sorted(vars(streamer.schemas.base).items()) if name.isupper()}
    return repr({n: sorted(value) if isinstance(value, frozenset) else value for n, value in result.items()})


def test_collecting_all_tests_changes_no_constant_of_the_product() -> None:
    fresh = ran(sys.executable, "-c", f"from {__name__} import constants; print(constants())")
    assert fresh.stdout.strip() == constants()
