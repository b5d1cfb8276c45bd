"""The errors of the embedded stack, each with its own sentence."""

from __future__ import annotations

from pathlib import Path


class EmbeddedError(RuntimeError):
    """The embedded stack cannot start or go on."""


class EmbeddedUnavailable(EmbeddedError):
    """This platform has no packaged binary of a server that the embedded stack needs."""

    def __init__(self, server: str, package: str, reason: str) -> None:
        super().__init__(
            f"No {server} for this platform: the package {package} has no usable binary here ({reason}). "
            "The embedded stack runs on Linux and macOS, x86-64 and arm64. Instead, run `docker compose up` "
            "with the repository's docker-compose.yml, or give the addresses of a Kafka and a Redis of your "
            "own with --bootstrap and --redis (STREAMER_BOOTSTRAP, STREAMER_REDIS)."
        )


class ServerFailed(EmbeddedError):
    """A server of the stack ended, or did not answer in time."""

    def __init__(self, name: str, what: str, log: Path | None) -> None:
        tail = last_lines(log)
        where = f" Its log is {log}." if log else ""
        said = f" It said last:\n{tail}" if tail else ""
        super().__init__(f"{name} {what}.{where}{said}")


def last_lines(log: Path | None, lines: int = 8) -> str:
    """The last lines of a log file, "" if there is none."""
    if log is None or not log.is_file():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
