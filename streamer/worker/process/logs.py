"""A worker's log: lines for people, or JSON for programs."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import orjson

from streamer.settings import Settings

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """One JSON object per entry, on one line: `at` (UTC), `level`, `logger`, `message`; `exception` if any.

    >>> record = logging.LogRecord("a", logging.INFO, "f", 1, "two\\n%s", ("lines",), None)
    >>> orjson.loads(JsonLines().format(record))["message"].splitlines()
    ['two', 'lines']
    """

    def format(self, record: logging.LogRecord) -> str:
        """The entry as JSON."""
        entry = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        readable = {name: text.encode("utf-8", "backslashreplace").decode() for name, text in entry.items()}
        return orjson.dumps(readable).decode()


def configure_logging(settings: Settings) -> None:
    """Log to stderr as the settings say; libraries only from WARNING on, unless at DEBUG."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.log_format == "json" else logging.Formatter(TEXT))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("streamer").setLevel(settings.log_level)
    logging.getLogger("mode.timers").setLevel(logging.ERROR)  # a long batch delays a commit: no news
    for noisy in ("faust", "mode", "aiokafka"):
        logging.getLogger(noisy).setLevel(logging.DEBUG if settings.log_level == "DEBUG" else logging.WARNING)
