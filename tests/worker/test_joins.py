"""Workers that join the group while others end: real workers, a real broker."""

from __future__ import annotations

from functools import partial

from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import Deployment, trial_events

JOINS = 3
"""About one join in ten misses the moment: half a session after a worker asked to join."""


def asked_to_join(worker: WorkerProcess) -> bool:
    """Whether it has asked for a member id, and then to join."""
    return worker.output.count("Sending JoinGroup") >= 2


def test_a_worker_that_joins_while_another_one_stops_takes_over(on_embedded: Deployment) -> None:
    """Shows that workers do not leave their group on the embedded broker.

    A leader that leaves amid a join stays the leader for that broker. No member gets partitions from then on,
    and the events published here are never folded.
    """
    leader = on_embedded.worker().start()
    leader.kill()
    leader.start()  # of a second generation: nobody leaves the first one
    events = trial_events(30 * JOINS)
    for join in range(JOINS):
        successor = on_embedded.worker(environment={"STREAMER_LOG_LEVEL": "DEBUG"}).start(ready=False)
        successor.wait_until(partial(asked_to_join, successor), "it joins")
        assert leader.stop() == 0
        on_embedded.publish(events[30 * join : 30 * (join + 1)])
        on_embedded.wait_until_equal(successor)
        leader = successor
