"""A worker that joins the group while another one ends: real workers, a real broker."""

from __future__ import annotations

from tests.worker.deployment import Deployment, trial_events


def test_a_worker_that_joins_while_another_one_stops_takes_over(on_embedded: Deployment) -> None:
    leader = on_embedded.worker().start()
    leader.kill()
    leader.start()  # of a second generation: nobody leaves the first one
    successor = on_embedded.worker(environment={"STREAMER_LOG_LEVEL": "DEBUG"}).start(ready=False)
    asked = "Sending JoinGroup"  # for a member id, then to join
    successor.wait_until(lambda: successor.output.count(asked) >= 2, "it joins")
    assert leader.stop() == 0
    on_embedded.publish(trial_events(30))
    on_embedded.wait_until_equal(successor)
