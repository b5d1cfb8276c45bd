"""Live boards in a browser: a JSON API, Server-Sent Events, and one page that needs no build step.

Answers come from Redis, single trials and folded runs from the log. Only `POST /api/events` writes: it
publishes events to the broker.
"""

from pathlib import Path

STATIC = Path(__file__).with_name("static")
"""The page's files; reports are made of them too."""
