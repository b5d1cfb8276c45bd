"""The trials of a run as a file: CSV or Parquet, the same bytes as `streamer report` writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from starlette.responses import Response

from streamer.client.folded_run import FoldedRun
from streamer.client.trials import scored_trials
from streamer.schemas.summaries import RunSummary
from streamer.settings import Settings
from streamer.views.trial_csv import as_csv
from streamer.views.trial_parquet import as_parquet
from streamer.web import run_log
from streamer.web.folded import answer_as_of
from streamer.web.models import AsOfQuery
from streamer.web.resources import Web

Writer = Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any] | None], bytes]

WRITERS: dict[str, tuple[Writer, str]] = {
    "csv": (as_csv, "text/csv; charset=utf-8"),
    "parquet": (as_parquet, "application/vnd.apache.parquet"),
}
"""Ending of the file's name to its writer and media type."""

DOWNLOADS = {f"/api/runs/{{run}}/trials.{ending}": ending for ending in WRITERS}
"""Paths that answer with a file."""


async def download(web: Web, query: AsOfQuery, run_id: str, ending: str) -> Response:
    """All scored trials of a run as a file.

    Raises:
        UnknownRun, RedisUnavailable: see `StateReader`.
        NotInLog, TopicMissing, TopicUnreadable, KafkaError: see `scored_trials`.
        TooManyTrials: the run has more than this server holds.
        TooManyFolds: too many questions wait already.
        ParquetMissing: pyarrow is not installed.
        others: as `answer_as_of`, where the trials of an earlier time are asked for.
    """
    run = await web.reader.run(run_id)
    if run.progress.done > run_log.MAX_TRIALS:
        raise run_log.TooManyTrials(run_id)
    write, media_type = WRITERS[ending]
    if query.as_of is not None:
        past = partial(_written_as_of, write)
        content = await answer_as_of(web, ("download", ending), run_id, query.as_of, past)
    else:
        question = "download", run_id, run.state_version, ending
        work = partial(_written, web.settings, run_id, _planned(run), write)
        content = await web.folds.answer(question, work)
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", run_id)[:100].lstrip(".") or "run"
    headers = {
        "content-disposition": f'attachment; filename="{name}-trials.{ending}"',
        "cache-control": "no-store",
    }
    return Response(content, media_type=media_type, headers=headers)


def _planned(run: RunSummary) -> dict[str, Any]:
    """How to read the run's named metrics, as its plan says."""
    planned: dict[str, Any] = run.model_dump(mode="json")["metrics"]
    return planned


def _written_as_of(write: Writer, found: FoldedRun) -> bytes:
    trials = [orjson.loads(value) for value in found.scored_trials()]
    return write(trials, _planned(found.snapshot().run))


def _written(settings: Settings, run_id: str, planned: Mapping[str, Any] | None, write: Writer) -> bytes:
    return write([orjson.loads(value) for value in scored_trials(settings, run_id)], planned)
