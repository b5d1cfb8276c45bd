"""A worker in small that publishes to a sink, and whether Redis says what it says."""

from __future__ import annotations

import redis

from streamer.folding.slots import RunUpdate, SummaryChange
from streamer.storage.entries import Keys
from streamer.storage.redis import RedisSink
from tests.storage.conftest import MakeSink
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change, an_update
from tests.support.eventually import eventually
from tests.support.owning import Owning

KEYS = Keys()


class Owner(Owning):
    """A worker in small: what it owns, published to a sink as it changes."""

    def __init__(self, make_sink: MakeSink, runs: int = 3) -> None:
        super().__init__()
        self.sink: RedisSink = make_sink(owner=self)
        self.runs = [f"run {number}" for number in range(runs)]
        self.version = -1

    def expected(self) -> list[SummaryChange]:
        return [change for run_id in self.run_ids() for change in self.summaries(run_id)]

    async def step(self) -> None:
        """The next event of every run."""
        self.version += 1
        updates = [self._cut(run) for run in self.runs]
        for update in updates:
            self.put(*update.summaries)
        await self.sink.write(updates)

    def _cut(self, run: str) -> RunUpdate:
        version, trials = self.version, self.version + 1
        return an_update(
            an_agent_model_change(run, version=version, trials=trials, mean_cost=trials / 4),
            a_tier_change(run, version=version, trials=trials),
            a_run_change(run, version=version, benchmark="b", trials=trials),
        )


def holds(client: redis.Redis, owner: Owner) -> bool:
    """Whether Redis says of every summary and board what the owner says."""
    try:
        for change in owner.expected():
            suffix = {"run": "run", "tier": "tier:T0", "agent_model": "agent_model:claude:opus"}[change.kind]
            if client.get(KEYS.of_run(change.run_id, suffix)) != (change.value or b"").decode():
                return False
        cost = (owner.version + 1) / 4
        members = [(f"{run}|claude:opus", cost) for run in owner.runs]
        boards = [client.zrange(KEYS.board(run, "mean_cost"), 0, -1, withscores=True) for run in owner.runs]
        return bool(
            client.zrange(KEYS.benchmark_board("b", "mean_cost"), 0, -1, withscores=True) == members
            and boards == [[("claude:opus", cost)]] * len(owner.runs)
            and client.zcard(KEYS.runs) == len(owner.runs)
        )
    except redis.RedisError:
        return False


async def converged(client: redis.Redis, owner: Owner) -> None:
    await eventually(lambda: owner.sink.unsent == 0 and not owner.sink.away, "the sink is done")
    await eventually(lambda: holds(client, owner), "Redis says what the owner says")
