"""The trials of a run as a file: CSV or Parquet, the same bytes as `streamer report` writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from starlette.responses import Response

from streamer.client.trials import scored_trials
from streamer.settings import Settings
from streamer.views.trial_csv import as_csv
from streamer.views.trial_parquet import as_parquet
from streamer.web import run_log
from streamer.web.resources import Web

Writer = Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any] | None], bytes]

WRITERS: dict[str, tuple[Writer, str]] = {
    "csv": (as_csv, "text/csv; charset=utf-8"),
    "parquet": (as_parquet, "application/vnd.apache.parquet"),
}
"""Ending of the file's name to its writer and media type."""

DOWNLOADS = {f"/api/runs/{{run}}/trials.{ending}": ending for ending in WRITERS}
"""Paths that answer with a file."""


async def download(web: Web, run_id: str, ending: str) -> Response:
    """All scored trials of a run as a file.

    Raises:
        UnknownRun, RedisUnavailable: see `StateReader`.
        NotInLog, TopicMissing, TopicUnreadable, KafkaError: see `scored_trials`.
        TooManyTrials: the run has more than this server holds.
        TooManyFolds: too many questions wait already.
        ParquetMissing: pyarrow is not installed.
    """
    run = await web.reader.run(run_id)
    if run.progress.done > run_log.MAX_TRIALS:
        raise run_log.TooManyTrials(run_id)
    planned = run.model_dump(mode="json")["metrics"]
    write, media_type = WRITERS[ending]
    question = "download", run_id, run.state_version, ending
    content = await web.folds.answer(question, partial(_written, web.settings, run_id, planned, write))
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", run_id)[:100].lstrip(".") or "run"
    headers = {
        "content-disposition": f'attachment; filename="{name}-trials.{ending}"',
        "cache-control": "no-store",
    }
    return Response(content, media_type=media_type, headers=headers)


def _written(settings: Settings, run_id: str, planned: Mapping[str, Any] | None, write: Writer) -> bytes:
    return write([orjson.loads(value) for value in scored_trials(settings, run_id)], planned)
