"""Entry point of the page for `streamer up`: `python -m streamer.web [PORT]`.

STREAMER_WEB_HOST and STREAMER_WEB_TOKEN decide who may open it; without them, only this machine.
"""

import os
import sys

from streamer.settings import Settings
from streamer.web import DEFAULT_HOST
from streamer.web.app import run_server

if __name__ == "__main__":
    run_server(
        Settings(),
        host=os.environ.get("STREAMER_WEB_HOST", DEFAULT_HOST),
        port=int(sys.argv[1]) if sys.argv[1:] else None,
        token=os.environ.get("STREAMER_WEB_TOKEN"),
        echo=print,
    )
