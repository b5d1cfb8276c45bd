"""A worker's log as JSON: one object per line, whatever is in it, and no secret."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pydantic import SecretStr

from streamer.settings import Settings
from streamer.worker.process import JsonLines, configure_logging

SECRET = "s3cr3t"


@contextmanager
def logging_as(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the log writes meanwhile; the logging of the test run is put back afterwards."""
    root, names = logging.getLogger(), ("streamer", "mode.timers", "faust", "mode", "aiokafka")
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in names}
    root.handlers.clear()
    stream = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        configure_logging(settings)
    try:
        yield stream
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, before in levels.items():
            logging.getLogger(name).setLevel(before)


def test_each_entry_is_one_json_object_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("streamer.test")
    with logging_as(Settings(log_format="json"), monkeypatch) as out:
        log.info("several\nlines, %s and \x1b[31m", "\u2028 separators")
        log.warning("half a character: %s", "\ud800")
        log.debug("not at this level")
        try:
            raise ValueError("why")
        except ValueError:
            log.exception("it failed")
    lines = out.getvalue().split("\n")
    assert (len(lines), lines[3]) == (4, "")
    first, second, third = map(json.loads, lines[:3])
    assert (first["level"], first["logger"]) == ("INFO", "streamer.test")
    assert first["message"] == "several\nlines, \u2028 separators and \x1b[31m"
    assert first["at"].endswith("+00:00")
    assert "\\ud800" in second["message"]
    assert third["exception"].endswith("ValueError: why")


def test_text_stays_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    with logging_as(Settings(), monkeypatch) as out:
        logging.getLogger("streamer.test").warning("plain")
    assert out.getvalue().endswith("WARNING streamer.test: plain\n")


def test_settings_in_an_entry_print_no_secret() -> None:
    settings = Settings(
        redis=f"redis://u:{SECRET}@h/0", sasl_username="u", sasl_password=SecretStr(SECRET), log_format="json"
    )
    record = logging.LogRecord("a", logging.INFO, "f", 1, "with %s and %r", (settings, settings), None)
    assert SECRET not in JsonLines().format(record)
