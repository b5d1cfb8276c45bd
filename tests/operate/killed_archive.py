"""`streamer`, killed before or after a step of an archive: STEP:WHEN:COUNT in the environment says which."""

from __future__ import annotations

import os
import signal
from typing import Any

from streamer.operate import archive
from streamer.terminal import main

STEPS = (
    *("write_bundle:before:1", "write_bundle:after:1", "_damage:after:1", "_compare:after:1"),
    *("_place:before:1", "_place:after:1", "_note:before:1", "_note:after:1", "_send:before:1"),
    *("_send:after:1", "_complete:after:1", "_send:after:2", "wait_until_deleted:after:1"),
)
"""From the beginning of the file to the end of the deletion, in order."""


def die_at(step: str, when: str, count: int) -> None:
    homes: list[Any] = [archive.Archive, archive, archive.bundle]
    home = next(home for home in homes if hasattr(home, step))
    original, calls = getattr(home, step), [count]

    def dies(*given: Any, **named: Any) -> Any:
        calls[0] -= 1
        if calls[0] == 0 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*given, **named)
        if calls[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(home, step, dies)


if __name__ == "__main__":
    step, when, count = os.environ["KILLED_AT"].split(":")
    die_at(step, when, int(count))
    main()
