"""What the core reads of the installation: our own price table and the version of genai-prices.

This is the only module of the core that reads anything. Both texts belong to the installed packages, like
the code: machines with the same versions read the same, and no setting of the user changes them.
"""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files


def built_in_prices() -> str:
    """The text of `prices.toml` beside this module."""
    return files("streamer.score").joinpath("prices.toml").read_text(encoding="utf-8")


def genai_prices_version() -> str:
    """The version of the installed package genai-prices, such as `0.0.30`."""
    return version("genai-prices")
