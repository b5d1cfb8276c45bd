"""Two workers against one, with the broker on the same cores: it takes its share from both."""

from __future__ import annotations

from benchmarks.common import Scale, events, quotients, spread
from benchmarks.drain import Drained, drain
from benchmarks.machine import SERVERS, cores, move
from benchmarks.rows import Measured, Row, Sites
from benchmarks.site import Deployment, Site

OF_WHAT_CAN_BE = 0.9


def two_workers(scale: Scale, sites: Sites) -> Measured:
    """Rows: the rate of two workers over the rate of one, against 2 / (1 + f), f = broker CPU / worker CPU.

    Runs are hashed over partitions and partitions over workers, so one of them has more to do. The second row
    is the rate over the one that the fuller worker's share of the work allows: 1 where both had half.

    One worker has a core of its own and the broker another. Two workers have a core each, and the broker runs
    on the free one. Left to the system, both workers may stay on one core for seconds. The backlog becomes
    readable once the workers have shared the partitions.
    """
    site, both = sites["kafka"], tuple(cores()[:2])
    one, two, broker_share, shares = [], [], [], []
    for turn in range(scale.repeats + scale.warm_up):
        alone = _drained(site, scale, ((both[-1],),))
        move(site.broker_pid, *both)
        together = _drained(site, scale, ((both[0],), (both[-1],)))
        move(site.broker_pid, SERVERS)
        if turn >= scale.warm_up:
            one.append(alone.rate)
            two.append(together.rate)
            broker_share.append(alone.broker_share)
            shares.append(together.fullest_share)
    f = spread(broker_share)["median"]
    speedups = quotients(two, one)
    target = OF_WHAT_CAN_BE / (1 + f)
    what = f"two workers on two cores against one (f = {f:.2f})"
    of_possible = [speedup * share for speedup, share in zip(speedups, shares, strict=True)]
    return Measured(
        [
            Row(what, speedups, "x", ">=", 2 * target),
            Row("the same, of what the fuller worker's share allows", of_possible, "x", ">=", target),
        ],
        {"one": one, "two": two, "broker_share": broker_share, "fuller_share": shares},
    )


def _drained(site: Site, scale: Scale, on: tuple[tuple[int, ...], ...]) -> Drained:
    lines = events(scale.backlog)
    with Deployment(site) as deployment, deployment.holding(lines) as (wanted, release):
        return drain(deployment, wanted, scale.backlog, on=on, release=release)
