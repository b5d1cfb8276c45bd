"""The prose of docs/compatibility.md on ProjectScylla."""

from __future__ import annotations

from tests.conformance.compatibility import Difference

HEAD = """\
## ProjectScylla

Every statistic, grade and variance of the ProjectScylla data is the same as in its code of 2025-12-31, with
these exceptions:
"""

DIFFERENCES = (
    Difference(
        "R13",
        "grades without a judge",
        "The median composite gives the grade. Every run there has a judge.",
        "A group without any judge has no composite. Its mean pass rate gives the grade, under the same "
        "thresholds (`grade_basis: mean_pass_rate`). A group that is partly judged says `grade_provisional`.",
        (),
    ),
    Difference(
        "R14",
        "cost of pass",
        "Its mean is infinite and its deviation NaN as soon as one run fails.",
        "A failed trial costs Infinity, whether its cost is known or not. The mean is then Infinity and the "
        "deviation null. A pass at an unknown cost has none.",
        (),
    ),
    Difference(
        "R15",
        "modes compare values as they are",
        "It rounds values to six decimals before it counts them, and shows the rounded value.",
        "Values are compared exactly. The mode is one of them.",
        (("scylla_mode", "haiku_n3", "T0", "cost_usd"), ("scylla_mode", "haiku_n3", "T3", "cost_usd")),
    ),
    Difference(
        "R16",
        "statistics of nothing",
        "They are 0.0, with the grade F.",
        "They are null, with the count 0 and no grade.",
        (),
    ),
    Difference(
        "R23",
        "uplift",
        "It is 0.0, or absent, where T0's median composite is not above 0.",
        "It is null there, and `tier_delta` has the plain difference. Both are of the number that the grade "
        "rests on, and null if two tiers rest on different ones.",
        (),
    ),
)
