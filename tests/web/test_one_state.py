"""The API reads a run as one: what it answers belongs together, whatever is being written meanwhile."""

from __future__ import annotations

import threading

from tests.support.events import a_trial
from tests.support.servers import RedisServer
from tests.web.feeding import Feed
from tests.web.serving import Serving

RUN, AGENTS, STEPS = "run-1", 6, 300
MISSING = 404


class Reading(threading.Thread):
    """Asks for the snapshot again and again; `torn` has what did not sum up."""

    def __init__(self, serving: Serving) -> None:
        super().__init__(daemon=True)
        self._serving = serving
        self.ended = threading.Event()
        self.answers, self.torn = 0, list[str]()

    def run(self) -> None:
        while not self.ended.is_set():
            answer = self._serving.get(f"/api/runs/{RUN}/snapshot")
            if answer.status == MISSING:  # Redis was just emptied
                continue
            found = answer.json()
            self.answers += 1
            done, parts = found["run"]["progress"]["done"], [agent["trials"] for agent in found["agents"]]
            if sum(parts) != done:
                self.torn.append(f"{done} is not the sum of {parts}")


async def test_a_snapshot_is_never_torn_while_redis_is_written_and_emptied(
    feed: Feed, serving: Serving, redis_server: RedisServer
) -> None:
    reading = Reading(serving)
    reading.start()
    for number in range(STEPS):
        await feed.take([a_trial(task_id=f"t{number}", agent=f"agent {number % AGENTS}")])
        if number % 50 == 25:
            redis_server.flush()
    reading.ended.set()
    reading.join(60)
    assert not reading.is_alive()
    assert reading.torn == []
    assert reading.answers > 10
