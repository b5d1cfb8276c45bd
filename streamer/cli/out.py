"""Where a command writes a file: to stdout, or to a file that is there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from streamer.cli.printing import say


def write(content: bytes, out: Path | None) -> None:
    """Write a file at once, and say on stderr how large it is.

    Args:
        content: all of it.
        out: where; None: stdout.

    Raises:
        OSError: the file cannot be written; it names `out`, not the partial file beside it.
    """
    if out is None:
        click.get_binary_stream("stdout").write(content)
        return
    try:
        handle, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(out)) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    say(f"{out}: {len(content):,} bytes")
