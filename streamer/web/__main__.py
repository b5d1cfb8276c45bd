"""`python -m streamer.web [PORT]`: the page on this machine only, with the settings of the environment."""

import sys

from streamer.settings import Settings
from streamer.web.server import run_server

if __name__ == "__main__":
    run_server(Settings(), port=int(sys.argv[1]) if sys.argv[1:] else None, echo=print)
