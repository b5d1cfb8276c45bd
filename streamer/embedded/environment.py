"""The environment of the stack's own programs: where everything is, as settings."""

from __future__ import annotations

import os

from streamer.settings import Settings

OF_OTHER_SERVERS = {"data_dir", "redis_password", "redis_cafile"}
"""Settings that are not handed on, nor those that begin with `sasl_` and `ssl_`."""


def child_environment(settings: Settings) -> dict[str, str]:
    """This process's environment with the settings as STREAMER_* variables, for a child on this machine."""
    values = settings.model_dump(mode="json", exclude=OF_OTHER_SERVERS, exclude_none=True)
    ours = {
        f"STREAMER_{name.upper()}": str(value)
        for name, value in values.items()
        if not name.startswith(("sasl_", "ssl_"))
    }
    return {**os.environ, **ours, "STREAMER_REDIS_PASSWORD": ""}
