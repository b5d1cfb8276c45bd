"""The prose of docs/compatibility.md on ProjectScylla."""

from __future__ import annotations

from tests.conformance.compatibility import Difference

HEAD = """\
## ProjectScylla

On ProjectScylla's data, every statistic, grade and variance matches its code of 2025-12-31, with these
exceptions:
"""

DIFFERENCES = (
    Difference(
        "R13",
        "grades without a judge",
        "The grade comes from the median composite. Every run there has a judge.",
        "A group without a judge has no composite. Its grade comes from its mean pass rate, with the same "
        "thresholds (`grade_basis: mean_pass_rate`). A partly judged group is marked `grade_provisional`.",
        (),
    ),
    Difference(
        "R14",
        "cost of pass",
        "As soon as one run fails, its mean is infinite and its deviation NaN.",
        "A failed trial costs Infinity, whether its cost is known or not. The mean is then Infinity and the "
        "deviation null. A pass at an unknown cost has none.",
        (),
    ),
    Difference(
        "R15",
        "modes use exact values",
        "It rounds values to six decimals before counting them, and shows the rounded value.",
        "Values are compared exactly. The mode is one of them.",
        (("scylla_mode", "haiku_n3", "T0", "cost_usd"), ("scylla_mode", "haiku_n3", "T3", "cost_usd")),
    ),
    Difference(
        "R16",
        "statistics without data",
        "They are 0.0, and the grade is F.",
        "They are null, the count is 0, and there is no grade.",
        (),
    ),
    Difference(
        "R23",
        "uplift",
        "It is 0.0, or absent, if T0's median composite is not above 0.",
        "In that case it is null, and `tier_delta` has the plain difference. Both use the number that the "
        "grade is based on, and are null if the two tiers use different ones.",
        (),
    ),
)
