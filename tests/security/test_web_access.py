"""The page with the accounts of docs/security.md: what it shows of trials with each."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from streamer.client.readers import StateReader
from tests.security.secured import Secured, environment
from tests.security.test_end_to_end import a_worker
from tests.support.cli import streamer
from tests.support.events import a_trial
from tests.web.serving import Serving

pytestmark = pytest.mark.kafka

RUN = "looked at"
MESSAGE = "AssertionError: the troll lives"


def test_reader_lists_trials_and_says_what_is_missing_and_viewer_shows_what_harnesses_said(
    secured: Secured, tmp_path: Path
) -> None:
    event = orjson.dumps(a_trial(run_id=RUN, resolved=False, failure_mode="agent_timeout", message=MESSAGE))
    with a_worker(tmp_path, secured.given("worker")) as worker:
        sent = streamer("publish", stdin=event + b"\n", environment=environment(secured.given("publisher")))
        assert sent.returncode == 0, sent.stderr
        with StateReader(secured.settings("reader")) as reader:
            worker.wait_until(lambda: RUN in [found.run_id for found in reader.runs()], "the run is there")
    for user, reason in (("reader", None), ("viewer", MESSAGE)):
        with Serving(secured.settings(user)) as serving:
            run = f"/api/runs/{RUN.replace(' ', '%20')}"
            [trial] = serving.get(f"{run}/trials").json()["trials"]
            assert trial["reason"] == reason
            failures, event_of = (
                serving.get(f"{run}/failures"),
                serving.get(f"{run}/trials/{trial['id']}/event"),
            )
            if user == "viewer":
                assert [group["example"] for group in failures.json()] == [MESSAGE]
                assert event_of.json()["message"] == MESSAGE
            else:
                assert (failures.status, event_of.status) == (501, 501)
                assert "may not read topic 'trial-events'" in failures.json()["detail"]
                assert MESSAGE.encode() not in event_of.body
