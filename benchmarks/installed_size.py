"""How much `pip install` brings: packages and megabytes of the base, and of it with each extra.

    python -m benchmarks.installed_size

Builds the wheel, installs it into a new virtual environment for each, with the pinned versions, and counts.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.installation import build_wheel, install

MEGABYTE = 1_000_000

OTHERS = ("mcp", "mlflow", "notify", "otlp", "report", "rocksdb")
"""Extras that are installed with the base alone."""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="installed-size-") as made:
        folder = Path(made)
        (folder / "wheel").mkdir()
        wheel = build_wheel(folder / "wheel")
        print("| installed | packages | MB |\n|---|---:|---:|")
        for extra in (None, "local", *OTHERS, "all"):
            there = install(folder / (extra or "base"), wheel, extra)
            size = there.bytes_installed(bytecode=False) / MEGABYTE
            name = f"trialstream[{extra}]" if extra else "trialstream"
            print(f"| `{name}` | {len(there.packages)} | {size:.0f} |")


if __name__ == "__main__":
    main()
