"""The fingerprint of a configuration: workers with equal ones compute equal numbers from equal events."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache

from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import canonical_json, sha256_hex
from streamer.score.prices import PriceTable
from streamer.score.scoring_rules import PROFILES

DIGITS = 16
"""Hexadecimal digits of a fingerprint: short enough to read out, long enough never to meet its double."""


@lru_cache(maxsize=8)
def made_with(prices: PriceTable) -> str:
    """What numbers are made with: version of the formulas, prices, grading profiles.

    >>> made_with(PriceTable.default()) == made_with(PriceTable.from_toml(""))
    True
    >>> dearer = PriceTable.from_toml('[models."gpt-4o"]\\ninput = 100\\noutput = 200\\n')
    >>> made_with(PriceTable.default()) == made_with(dearer)
    False
    """
    profiles = [asdict(profile) for _, profile in sorted(PROFILES.items())]
    return sha256_hex(canonical_json([SEMANTICS_VERSION, prices.digest(), profiles]))[:DIGITS]
