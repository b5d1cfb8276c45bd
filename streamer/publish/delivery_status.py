"""The problem that keeps events from arriving: logged once when it comes, and once when it goes."""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger("streamer.client")


class DeliveryStatus:
    """The status of one publisher.

    Args:
        bootstrap: where its broker is.
        directory: where its events wait.
    """

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._broker: str | None = None
        self._disk: str | None = None

    @property
    def text(self) -> str | None:
        """Why events do not arrive or could not be kept, None if all is well."""
        return " and ".join(filter(None, (self._broker, self._disk))) or None

    def broker_fails(self, error: Exception) -> None:
        """The broker cannot be reached, or does not acknowledge."""
        said = " ".join(str(error).split()) or type(error).__name__
        problem = f"the broker at {self._bootstrap} does not take events: {said}"
        if self._broker is None:
            log.warning("%s. They are kept in %s until it does", problem, self._directory)
        self._broker = problem

    def broker_is_well(self) -> None:
        """The broker takes events."""
        if self._broker is not None:
            log.warning("The broker at %s takes events again", self._bootstrap)
            self._broker = None

    def disk_fails(self, error: OSError) -> None:
        """The file cannot be written."""
        problem = f"cannot keep events in {self._directory}: {error.strerror or error}"
        if self._disk is None:
            log.error("%s. Until it is mended, or spill_dir names another one, memory has to do", problem)
        self._disk = problem

    def disk_is_well(self) -> None:
        """The file was written."""
        self._disk = None
