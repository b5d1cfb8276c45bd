"""What the user declares of a run's plan, beyond what the harness's files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from streamer.schemas.events import RunStarted
from streamer.sources.files import FileError, read_object
from streamer.sources.fit import fit_event

NOT_DECLARED = frozenset({"type", "run_id", "revision", "schema_version"})
"""Fields of `run_started` that are not about the plan."""


def declared_plan(file: Path | None, order_kind: str | None) -> dict[str, Any]:
    """Fields of `run_started` from a file and an option; the option comes first.

    Raises:
        click.UsageError: the file holds something else.
    """
    plan = _read(file) if file is not None else {}
    return plan | ({"order_kind": order_kind} if order_kind else {})


def _read(file: Path) -> dict[str, Any]:
    try:
        plan = read_object(file)
    except FileError as error:
        raise click.UsageError(f"--plan {file}: {error}") from error
    fields = RunStarted.model_fields.keys() - NOT_DECLARED
    if unknown := sorted(plan.keys() - fields):
        raise click.UsageError(
            f"--plan {file}: {unknown[0]!r} is no field of a plan; {', '.join(sorted(fields))} are"
        )
    _, wrong = fit_event({"type": "run_started", "run_id": "any", **plan})
    if wrong:
        raise click.UsageError(f"--plan {file}: {'; '.join(f'{name} {why}' for name, why in wrong.items())}")
    return plan
