"""Records what a version leaves on the disk when its worker and its broker are killed in mid-batch.

    git worktree add ../earlier COMMIT
    PYTHONPATH=../earlier python tests/worker/record_volume.py FILE.tar.xz

The worker is the one of that commit. The file has the volume of the broker, `redis.json` with what Redis had,
and `events.ndjson` with what was published.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import redis

from tests.support.servers import KafkaServer, RedisServer
from tests.worker.deployment import Deployment, trial_events

NAMESPACE = "upgraded"
EVENTS = 200
"""Published at once, again and again, until a kill finds pages of them written and some not committed."""
RUNS = 40
"""More than a round of publishing takes at once."""


def held(client: redis.Redis) -> dict[str, Any]:
    """Strings, hashes and sorted sets by their keys; streams and the rest are left out."""
    readers = {
        "string": client.get,
        "hash": client.hgetall,
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
    }
    kinds = {key: client.type(key) for key in client.scan_iter()}
    return {key: readers[kind](key) for key, kind in sorted(kinds.items()) if kind in readers}


def record(file: Path) -> None:
    """Publish, kill worker and broker while events are folded and not all published, and pack."""
    with tempfile.TemporaryDirectory(prefix="volume-") as name:
        folder = Path(name)
        for part in ("kafka", "redis"):
            (folder / part).mkdir()
        kafka, server = KafkaServer(folder / "kafka"), RedisServer(folder / "redis")
        kafka.start()
        server.start()
        deployment = Deployment(folder, kafka.bootstrap, server.url, NAMESPACE, embedded=False)
        worker = deployment.worker().start()
        for seed in count(1):
            pages = len(deployment.records("trials-changelog"))
            deployment.publish(trial_events(EVENTS, runs=RUNS, seed=seed))
            if seed > 1:
                more = lambda n=pages: len(deployment.records("trials-changelog")) > n  # noqa: E731
                worker.wait_until(more, "a page of these events is written")
                worker.kill()
                committed = deployment.committed()
                if 0 < committed < len(deployment.published):
                    break
                worker.start()
            deployment.wait_until_equal(worker)
            worker.wait_until(lambda: deployment.committed() == len(deployment.published), "all committed")
        print(f"{committed:,} of {len(deployment.published):,} events committed")
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            (folder / "redis.json").write_text(json.dumps(held(client)))
        kafka.kill()
        server.stop()
        (folder / "events.ndjson").write_bytes(b"\n".join(deployment.published) + b"\n")
        with tarfile.open(file, "w:xz") as archive:
            for part in ("kafka/data", "redis.json", "events.ndjson"):
                archive.add(folder / part, part)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
