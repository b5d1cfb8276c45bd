"""A Redis and a broker, and what is fed into them."""

from __future__ import annotations

from tests.report.conftest import environment, feed, settings

__all__ = ["environment", "feed", "settings"]
