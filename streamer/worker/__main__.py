"""`python -m streamer.worker`: a worker with the settings of the environment."""

import gc
import sys


def main() -> int:
    gc.disable()  # loaded modules stay: looking for garbage in them takes a seventh of the time
    from pydantic import ValidationError

    from streamer.settings import BadConfigurationFile, Settings, what_is_wrong
    from streamer.worker.process import USAGE_ERROR, run_worker

    gc.enable()
    try:
        settings = Settings()
    except ValidationError as error:
        sys.stderr.write(f"streamer worker: {what_is_wrong(error)}\n")
        return USAGE_ERROR
    except BadConfigurationFile as error:
        sys.stderr.write(f"streamer worker: {error}\n")
        return USAGE_ERROR
    if told := settings.implicit_file_that_decides():
        sys.stderr.write(f"streamer worker: {told}\n")
    return run_worker(settings)


if __name__ == "__main__":
    sys.exit(main())
