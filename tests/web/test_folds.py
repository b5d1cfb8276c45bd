"""Questions that need a whole run in memory: one at a time, equal ones once, and few wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from threading import Event

import pytest

from streamer.web.log import MAX_KEPT, MAX_WAITING, Folds, LogTruncated, TooManyFolds
from streamer.web.models import RETRY_SECONDS, problem, status_of

PATIENCE = 30.0


class Work:
    """Work that lasts until the test ends it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gate = Event()

    def on(self, name: str) -> Callable[[], str]:
        def work() -> str:
            self.begun.append(name)
            assert self.gate.wait(PATIENCE)
            return name

        return work


@pytest.fixture
def work() -> Iterator[Work]:
    work = Work()
    yield work
    work.gate.set()


async def begun(work: Work) -> None:
    async with asyncio.timeout(PATIENCE):
        while not work.begun:
            await asyncio.sleep(0.001)


async def test_one_is_worked_out_at_a_time_in_the_order_of_asking(work: Work) -> None:
    folds = Folds()
    asked = [asyncio.create_task(folds.answer(name, work.on(name))) for name in "abc"]
    await begun(work)
    assert work.begun == ["a"]
    work.gate.set()
    assert await asyncio.gather(*asked) == ["a", "b", "c"]
    assert work.begun == ["a", "b", "c"]


async def test_an_equal_question_under_way_is_worked_out_once_and_later_again(work: Work) -> None:
    folds = Folds()
    asked = [asyncio.create_task(folds.answer("a", work.on("a"))) for _ in range(20)]
    await begun(work)
    work.gate.set()
    assert await asyncio.gather(*asked) == ["a"] * 20
    assert work.begun == ["a"]
    assert await folds.answer("a", work.on("a")) == "a"
    assert work.begun == ["a", "a"]


async def test_an_answer_that_is_kept_is_worked_out_once_until_newer_ones_replace_it(work: Work) -> None:
    folds = Folds()
    work.gate.set()
    for name in [*map(str, range(MAX_KEPT)), "0", "0", "new"]:
        assert await folds.answer(name, work.on(name), keep=True) == name
    assert work.begun == [*map(str, range(MAX_KEPT)), "new"]
    for name in ("0", "new", "1"):
        assert await folds.answer(name, work.on(name), keep=True) == name
    assert work.begun[MAX_KEPT + 1 :] == ["1"]


async def test_where_enough_wait_the_next_is_refused_for_now_and_an_equal_one_is_not(work: Work) -> None:
    folds = Folds()
    names = [str(number) for number in range(1 + MAX_WAITING)]
    asked = [asyncio.create_task(folds.answer(name, work.on(name))) for name in names]
    await begun(work)
    with pytest.raises(TooManyFolds, match=f"{MAX_WAITING} other questions wait") as refused:
        await folds.answer("one more", work.on("one more"))
    answer = problem(status_of(refused.value) or 0, str(refused.value), again=refused.value.again)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, str(RETRY_SECONDS))
    asked.append(asyncio.create_task(folds.answer(names[-1], work.on(names[-1]))))
    await asyncio.sleep(0)
    work.gate.set()
    assert await asyncio.gather(*asked) == [*names, names[-1]]
    assert await folds.answer("one more", work.on("one more")) == "one more"


async def test_who_leaves_takes_no_answer_from_the_others(work: Work) -> None:
    folds = Folds()
    first, second = (asyncio.create_task(folds.answer("a", work.on("a"))) for _ in range(2))
    await begun(work)
    first.cancel()
    work.gate.set()
    assert await second == "a"
    assert first.cancelled()


async def test_a_failure_reaches_all_who_asked_and_the_next_question_is_worked_out() -> None:
    folds = Folds()

    def fails() -> None:
        raise ArithmeticError("broken")

    found = await asyncio.gather(*(folds.answer("a", fails) for _ in range(2)), return_exceptions=True)
    assert [str(error) for error in found] == ["broken", "broken"]
    assert await folds.answer("a", lambda: 1) == 1


def test_a_log_that_lost_its_beginning_says_where_it_begins_and_what_to_do() -> None:
    text = str(LogTruncated("run 'r'", 7))
    assert "log of run 'r' begins at offset 7" in text
    assert "leave as_of out" in text
