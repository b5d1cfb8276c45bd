"""The screens in a real terminal, for the documents: `python -m tests.terminal.watch.captures FOLDER`.

FOLDER gets them as text; those that docs/watch.md shows are put there, too.
"""

from __future__ import annotations

import re
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from streamer.schemas.wire import Reason, decode
from streamer.settings import Settings
from tests.house.repository import ROOT
from tests.support.simulated import TIERED_RUN, simulate
from tests.terminal.watch.driving import LARGE, SMALL
from tests.terminal.watch.snapshots import is_in_time
from tests.terminal.watch.terminal import Terminal
from tests.web.browsing import a_stack, publish

DOCUMENT = ROOT / "docs" / "watch.md"
WAY_IN = timedelta(hours=2, minutes=30)
"""So long ago the simulated benchmark began; it is not through yet."""

SIZES = {"80x24": SMALL, "200x50": LARGE}
VIEWS = {"runs": None, "run": TIERED_RUN}
WHOLE = {
    "runs": ("2 runs", "1 worker", "5 rejections"),
    "run": ("agents (3)", "tiers (7)", "passed", "rejections (2)", " ago "),
}
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")


def feed(settings: Settings) -> None:
    now = datetime.now(UTC)
    lines = simulate(seed=5, start=now - WAY_IN)
    publish(settings, [line for line in lines if isinstance(decode(line), Reason) or is_in_time(line, now)])


def take(settings: Settings, directory: Path, out: Path) -> dict[str, str]:
    """Name (VIEW-SIZE) to screen; each is written to `watch-NAME.txt`, too."""
    where = {
        "STREAMER_BOOTSTRAP": settings.bootstrap,
        "STREAMER_REDIS": settings.redis,
        "STREAMER_EMBEDDED": "true",
    }
    result = {}
    for view, run in VIEWS.items():
        for name, size in SIZES.items():
            arguments = ("watch", run) if run else ("watch",)
            with Terminal(directory, *arguments, environment=where, size=size) as terminal:
                terminal.shows(*WHOLE[view])
                screen = terminal.still()
            result[f"{view}-{name}"] = ADDRESS.sub("127.0.0.1:6379", screen)
            (out / f"watch-{view}-{name}.txt").write_text(result[f"{view}-{name}"], "utf-8")
    return result


def put(document: str, screens: dict[str, str]) -> str:
    """The document with its screens anew: each stands in the block after `<!-- screen: NAME -->`."""
    for name, screen in screens.items():
        block = re.compile(rf"(<!-- screen: {name} -->\n```text\n).*?(```\n)", re.DOTALL)
        document = block.sub(lambda result, screen=screen: result[1] + screen + result[2], document)  # type: ignore[misc]
    return document


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="watch-") as folder, a_stack(Path(folder)) as settings:
        feed(settings)
        screens = take(settings, Path(folder), out)
    DOCUMENT.write_text(put(DOCUMENT.read_text("utf-8"), screens), "utf-8")
    for name in screens:
        print(out / f"watch-{name}.txt")


if __name__ == "__main__":
    main()
