"""Live boards in a browser: a JSON API, Server-Sent Events, and one page that needs no build step.

Read-only. Everything comes from Redis, single trials from the log; nothing is written anywhere.
"""

from pathlib import Path

STATIC = Path(__file__).with_name("static")
"""The page's files; reports are made of them too."""
