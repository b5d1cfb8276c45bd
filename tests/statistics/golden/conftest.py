"""make.py needs inspect_ai, which the tests do not."""

from __future__ import annotations

collect_ignore = ["make.py"]
