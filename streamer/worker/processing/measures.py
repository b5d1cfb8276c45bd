"""The measurements of processing, for metrics."""

from __future__ import annotations

from typing import Protocol

from streamer.decoding import Folded


class Measures(Protocol):
    """Counts and times the work; `process.metrics` shows them to Prometheus."""

    def folded(self, folded: Folded) -> None:
        """Count what a fold reported."""

    def fold_took(self, seconds: float) -> None:
        """A batch was folded in so many seconds."""

    def publish_took(self, seconds: float) -> None:
        """Summaries were published in so many seconds."""
