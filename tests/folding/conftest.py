"""A price table that tests of scoring share."""

from __future__ import annotations

import pytest

from streamer.folding.prices import PriceTable


@pytest.fixture(scope="module")
def table() -> PriceTable:
    return PriceTable.default()
