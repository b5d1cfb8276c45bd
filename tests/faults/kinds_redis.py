"""What happens to Redis and on the way to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from streamer.operate.health import read_health
from streamer.storage.entries import Keys
from tests.faults.kind import Kind
from tests.faults.proxy import Link


class RedisKilled(Kind):
    """SIGKILL; some time later it is there again, empty."""

    name = "Redis killed, back empty later"
    hold_seconds = 2.0

    def inject(self) -> None:
        self.bed.redis.forget_copies()
        self.bed.redis.server.kill()

    def heal(self) -> None:
        self.bed.redis.server.start()


class RedisEmptied(Kind):
    """Restarted at once, or flushed while it runs: connections may not even notice."""

    name = "Redis restarted empty or flushed"
    hold_seconds = 0.2

    def inject(self) -> None:
        self.bed.redis.forget_copies()
        if self.rng.random() < 0.5:
            self.bed.redis.server.restart_empty()
        else:
            self.bed.redis.server.flush()


class RedisOlder(Kind):
    """Killed, and back with an older copy of its data."""

    name = "Redis back with an older copy"

    def prepare(self) -> None:
        _command(self, lambda client: client.save())

    def inject(self) -> None:
        self.bed.in_redis.forgiving = True
        self.bed.redis.server.kill()

    def heal(self) -> None:
        self.bed.redis.server.start()

    def tidy(self) -> None:
        self.bed.in_redis.forgiving = False
        self.bed.redis.forget_copies()


def leave_another_log(client: redis.Redis, keys: Keys) -> None:
    """Redis as another log leaves it: with its name, and with higher versions of everything."""
    client.set(keys.log, "another")
    for key in list(client.scan_iter(keys.versions("*"))):
        for suffix, version in client.hgetall(key).items():
            client.hset(key, suffix, f"{int(version.split(b':')[0]) + 1}:{10**9}")


class RedisOfAnotherLog(Kind):
    """The log is new and Redis is kept: it names another log, which left higher versions of every run."""

    name = "a new log, Redis kept"
    hold_seconds = 0.2

    def inject(self) -> None:
        self._victims = self.bed.fleet.numbers()
        for victim in self._victims:
            self.bed.fleet.kill(victim)
        _command(self, lambda client: leave_another_log(client, self.bed.keys))

    def heal(self) -> None:
        for victim in self._victims:
            self.bed.fleet.start(victim)


class _OnLinks(Kind):
    def inject(self) -> None:
        self._links = [self.bed.redis.links[number] for number in self.bed.fleet.numbers()]
        for link in self._links:
            self.harm(link)

    def harm(self, link: Link) -> None:
        """Do it to one link."""
        raise NotImplementedError

    def heal(self) -> None:
        for link in self._links:
            link.heal()


class RedisSlow(_OnLinks):
    """Every answer takes its time; sometimes longer than a worker waits."""

    name = "Redis slow"
    hold_seconds = 3.0

    def inject(self) -> None:
        self._seconds = self.rng.choice([0.2, 1.0, 3.0])
        super().inject()

    def harm(self, link: Link) -> None:
        link.slow(self._seconds)


class RedisCut(_OnLinks):
    """Nothing passes between the workers and Redis; what they had sent arrives afterwards."""

    name = "network cut: worker and Redis"
    zombie = True

    def inject(self) -> None:
        self.hold_seconds = self.rng.choice([2.0, 7.0])
        super().inject()

    def harm(self, link: Link) -> None:
        link.cut()


class RedisRefused(_OnLinks):
    """Connections to Redis are reset, new ones refused."""

    name = "connections to Redis reset and refused"
    hold_seconds = 2.0

    def harm(self, link: Link) -> None:
        link.refuse()


class RedisReadOnly(Kind):
    """It takes no writes: a replica of nobody, or without the replicas that it wants."""

    name = "Redis read-only"
    hold_seconds = 2.0

    def inject(self) -> None:
        self._replica = self.rng.random() < 0.5
        if self._replica:
            _command(self, lambda client: client.replicaof("127.0.0.1", "1"))
        else:
            _command(self, lambda client: client.config_set("min-replicas-to-write", 1))

    def heal(self) -> None:
        if self._replica:
            _command(self, lambda client: client.replicaof("NO", "ONE"))
        else:
            _command(self, lambda client: client.config_set("min-replicas-to-write", 0))


class RedisOutOfMemory(Kind):
    """It refuses whatever takes memory, and `streamer status` says so."""

    name = "Redis out of memory"
    hold_seconds = 2.0

    def inject(self) -> None:
        _command(self, fill)

    def last(self) -> None:
        super().last()
        problems = read_health(self.bed.settings).problems
        assert is_named_full(problems), f"status tells nothing: {problems}"

    def heal(self) -> None:
        _command(self, lambda client: client.config_set("maxmemory", 0))


def fill(client: redis.Redis) -> None:
    """Let Redis refuse whatever takes memory, until `maxmemory` is 0 again."""
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)


def is_named_full(problems: Sequence[str]) -> bool:
    """Whether `streamer status` says that Redis is full."""
    return any(" is full: " in problem for problem in problems)


def _command(kind: Kind, command: Any) -> None:
    with redis.Redis.from_url(kind.bed.redis.server.url) as client:
        command(client)


KINDS = [
    RedisKilled,
    RedisEmptied,
    RedisOlder,
    RedisOfAnotherLog,
    RedisSlow,
    RedisCut,
    RedisRefused,
    RedisReadOnly,
    RedisOutOfMemory,
]
