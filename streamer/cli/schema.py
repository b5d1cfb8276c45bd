"""`streamer schema`: what crosses a wire, as JSON Schema and AsyncAPI."""

from __future__ import annotations

from pathlib import Path

import click

from streamer.cli.options import with_settings
from streamer.cli.printing import print_line
from streamer.schemas.export import documents
from streamer.settings import Settings


@click.command()
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Directory to write to."
)
@with_settings
def schema_command(out: Path, settings: Settings) -> None:
    """Write the JSON Schema of each message and one AsyncAPI document of all topics into a directory."""
    out.mkdir(parents=True, exist_ok=True)
    for name, text in documents().items():
        path = out / name
        path.write_text(text, encoding="utf-8")
        print_line(str(path))
