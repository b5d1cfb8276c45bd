"""`python -m streamer.worker`: a worker with the settings of the environment."""

import sys

from streamer.settings import Settings
from streamer.worker.runner import run_worker

if __name__ == "__main__":
    sys.exit(run_worker(Settings()))
