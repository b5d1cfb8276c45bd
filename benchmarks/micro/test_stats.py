"""What each statistic costs: counting values in one by one and many at once, and saying the numbers.

pytest benchmarks/micro
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from streamer.statistics.ability import PassAtK
from streamer.statistics.distribution import Distribution, ExactSum

RNG = random.Random(1)
VALUES = [round(RNG.lognormvariate(-1, 1), 6) for _ in range(1_000)]
ATTEMPTS = [(RNG.randrange(250), RNG.random() < 0.6) for _ in range(1_000)]
HELD = 10_000
KINDS: list[Callable[[], Any]] = [ExactSum, Distribution]


def held(kind: Callable[[], Any]) -> Any:
    """One that holds many values already."""
    made = kind()
    made.extend([round(RNG.lognormvariate(-1, 1), 6) for _ in range(HELD)])
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_thousand_values_at_once(benchmark: Any, kind: Callable[[], Any]) -> None:
    statistic = held(kind)
    benchmark.pedantic(statistic.extend, args=(VALUES,), rounds=200)


@pytest.mark.parametrize("kind", KINDS)
def test_one_value_in_and_out(benchmark: Any, kind: Callable[[], Any]) -> None:
    statistic = held(kind)

    def there_and_back() -> None:
        statistic.add(0.25)
        statistic.remove(0.25)

    benchmark(there_and_back)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_after_one_more_value(benchmark: Any, kind: Callable[[], Any]) -> None:
    statistic = held(kind)

    def add_and_say() -> Any:
        statistic.add(0.25)
        return statistic.summary()

    assert benchmark(add_and_say)


def test_mode(benchmark: Any) -> None:
    assert benchmark(Distribution.of(VALUES * 10).mode)


def test_pass_at_k_thousand_attempts_at_once(benchmark: Any) -> None:
    attempts, more = PassAtK(), PassAtK.of(ATTEMPTS)
    benchmark.pedantic(attempts.merge, args=(more,), rounds=200)


def test_pass_at_k_numbers(benchmark: Any) -> None:
    assert benchmark(PassAtK.of(ATTEMPTS).summary)
