"""What the trials of a run are scored by: grading profiles (R12), the rules of its plan, a fingerprint."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

from streamer.model_names import BASELINE_LABELS
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import canonical_json, sha256_hex
from streamer.schemas.summary_fields import Grade
from streamer.score.prices import PriceTable

MAX_WEIGHT = 1e6
_WEIGHTS = re.compile(r"(?P<pass>\d*\.?\d+(?:e[+-]?\d+)?):(?P<impl>\d*\.?\d+(?:e[+-]?\d+)?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class GradingProfile:
    """How trials become a composite score, and the score of a group a grade.

    Attributes:
        name: canonical name, as every summary shows it; `grading_profile(p.name) == p`.
        thresholds: (lower bound, grade), bounds descending and inclusive; below the last is F.
        ddof: 0 for the variance of a population, 1 for the variance of a sample.
        pass_weight: weight of the pass rate in the composite.
        impl_weight: weight of the implementation rate in the composite.
    """

    name: str
    thresholds: tuple[tuple[float, Grade], ...]
    ddof: int
    pass_weight: float = 0.5
    impl_weight: float = 0.5

    def grade(self, score: float | None) -> Grade | None:
        """Grade of a score (S5, R13): exact comparison; NaN is F, above 1 the best, None None (R16).

        >>> [grading_profile("specified").grade(x) for x in (0.95, 0.925, 0.1, float("nan"), None)]
        ['A', 'B', 'F', 'F', None]
        """
        if score is None:
            return None
        for bound, grade in self.thresholds:
            if score >= bound:
                return grade
        return "F"

    def composite(self, pass_rate: float, impl_rate: float) -> float:
        """Weighted mean of both rates, each in [0, 1] (S2); 0.0 if the weights sum to 0 or less.

        >>> grading_profile("specified").composite(1.0, 0.85)
        0.925
        """
        if self.pass_weight == self.impl_weight and self.pass_weight > 0:
            return (pass_rate + impl_rate) / 2
        total = self.pass_weight + self.impl_weight
        if total <= 0:
            return 0.0
        return (pass_rate * self.pass_weight + impl_rate * self.impl_weight) / total


SPECIFIED = GradingProfile("specified", ((0.95, "A"), (0.85, "B"), (0.75, "C"), (0.65, "D")), ddof=0)
"""The specification's thresholds and population variance: the default (R12)."""

SCYLLA_2026 = GradingProfile(
    "scylla-2026", ((1.0, "S"), (0.8, "A"), (0.6, "B"), (0.4, "C"), (0.2, "D")), ddof=1
)
"""ProjectScylla's later scale and sample variance (S17)."""

PROFILES = {profile.name: profile for profile in (SPECIFIED, SCYLLA_2026)}


class UnknownProfile(ValueError):
    """A grading profile that does not exist, or whose weights cannot be read."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"grading profile {name!r} is unknown; allowed: {' or '.join(PROFILES)}, optionally followed by "
            f"@PASS:IMPL with the two weights of the composite, each a number from 0 to {MAX_WEIGHT:g} "
            "(for example specified@0.7:0.3); correct grading_profile, or leave it out for specified"
        )


@lru_cache(maxsize=1024)
def grading_profile(name: str | None) -> GradingProfile:
    """The profile of that name; None is `specified`. Raises UnknownProfile.

    Equal weights are the default weights, however they are written, so that equal meaning has one name.

    >>> grading_profile("scylla-2026").grade(0.81)
    'A'
    >>> grading_profile("specified@.7:0.30").name
    'specified@0.7:0.3'
    >>> grading_profile("specified@1:1").name
    'specified'
    """
    if name is None:
        return SPECIFIED
    base, at, weights = name.partition("@")
    profile = PROFILES.get(base)
    if profile is None:
        raise UnknownProfile(name)
    if not at:
        return profile
    match = _WEIGHTS.fullmatch(weights)
    if match is None:
        raise UnknownProfile(name)
    pass_weight, impl_weight = float(match["pass"]), float(match["impl"])
    if max(pass_weight, impl_weight) > MAX_WEIGHT:
        raise UnknownProfile(name)
    if pass_weight == impl_weight > 0:
        return profile
    canonical = f"{base}@{_number(pass_weight)}:{_number(impl_weight)}"
    return replace(profile, name=canonical, pass_weight=pass_weight, impl_weight=impl_weight)


def _number(weight: float) -> str:
    """Shortest text that reads back equal."""
    return repr(weight).removesuffix(".0")


ORACLE = "oracle"
"""How the names of oracles begin."""

NOP = "nop"
"""The agent that changes nothing: what the others' speedups are measured from."""


@dataclass(frozen=True, slots=True)
class ScoringRules:
    """What the trials of one run are scored by; two equal ones give every trial the same score.

    Attributes:
        prices: what tokens cost (R2).
        profile: grades and weights (R12).
        named_baselines: agents that the plan names as baselines beside nop and oracle (R10).
        infrastructure: failure modes that the plan names as the infrastructure's; None: the table
            of :mod:`streamer.score.infrastructure` decides.
        harness: the one that the plan names, for trials that name none.
        oracle_planned: the plan names an oracle, whose result decides on the failed tests of the others (D8).
    """

    prices: PriceTable
    profile: GradingProfile = SPECIFIED
    named_baselines: frozenset[str] = frozenset()
    infrastructure: frozenset[str] | None = None
    harness: str | None = None
    oracle_planned: bool = False

    def is_baseline(self, agent: str) -> bool:
        """nop, oracle, and what the plan names, by agent (R10)."""
        return agent in BASELINE_LABELS or agent in self.named_baselines


_DIGITS = 16
"""Hexadecimal digits of a fingerprint: short enough to read out, long enough never to meet its double."""


@lru_cache(maxsize=8)
def made_with(prices: PriceTable) -> str:
    """The fingerprint of a configuration: version of the formulas, prices, grading profiles.

    Workers with equal ones compute equal numbers from equal events.

    >>> made_with(PriceTable.default()) == made_with(PriceTable.from_toml(""))
    True
    >>> dearer = PriceTable.from_toml('[models."gpt-4o"]\\ninput = 100\\noutput = 200\\n')
    >>> made_with(PriceTable.default()) == made_with(dearer)
    False
    """
    profiles = [asdict(profile) for _, profile in sorted(PROFILES.items())]
    return sha256_hex(canonical_json([SEMANTICS_VERSION, prices.digest(), profiles]))[:_DIGITS]
