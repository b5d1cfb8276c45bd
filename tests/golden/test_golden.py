"""Every summary of all real data and of fifty random histories is what it was, to the last bit."""

from __future__ import annotations

import json
import random
from collections import Counter

import orjson
import pytest

from streamer.folding.fold import fold_records
from streamer.schemas.wire import records_of_lines
from tests.golden.digests import DIGESTS, FIELDS, computed, restricted
from tests.golden.histories import HISTORIES, history


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_golden_digest_is_computed_again() -> None:
    expected = DIGESTS.read_text().splitlines()
    result = list(computed(json.loads(FIELDS.read_text())))
    changed = sorted(set(expected) ^ set(result))
    assert not changed, f"{len(changed)} of {len(expected)} digests differ, the first: {changed[:6]}"
    assert len(result) == len(expected)


def test_the_golden_digests_cover_all_data_and_every_history() -> None:
    streams = Counter(line.split(" ")[0].partition("/")[0] for line in DIGESTS.read_text().splitlines())
    assert set(streams) == {"terminal_bench", "scylla", "formulacode", "history"}
    seeds = {line.split(" ")[0] for line in DIGESTS.read_text().splitlines() if line.startswith("history/")}
    assert len(seeds) >= HISTORIES - 5  # a history may end with its run deleted


@pytest.mark.parametrize("seed", range(0, HISTORIES, 5))
def test_a_history_in_another_order_and_partly_twice_gives_the_same_digests(seed: int) -> None:
    events = history(seed)
    rng = random.Random(seed)
    shuffled = events + rng.choices(events, k=30)
    rng.shuffle(shuffled)
    first, second = (
        {change.key: change.digest for change in fold_records(records_of_lines(lines)).summaries()}
        for lines in (map(orjson.dumps, events), map(orjson.dumps, shuffled))
    )
    assert first == second
    assert first or any(event["type"] == "run_deleted" for event in events)


def test_later_fields_are_left_out_of_a_golden_digest() -> None:
    shape = {"grade": {}, "statistics": {"*": {"mean": {}}}}
    value = {"grade": "A", "later": 1, "statistics": {"cost_usd": {"mean": 0.5, "later": 2}}}
    assert restricted(value, shape) == {"grade": "A", "statistics": {"cost_usd": {"mean": 0.5}}}
