"""The API of trials: their events and files, groups of failures, the matrix, and what stays closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.settings import Settings
from streamer.web import api, log
from tests.support.events import a_plan, a_retraction, a_start, a_trial
from tests.web.feeding import Feed
from tests.web.serving import Serving
from tests.web.trial_files import FILES, LINK, REFUSED, RUN, SECRET, events, make_run

TOKEN = "correct-horse-battery"


@pytest.fixture
async def fed(logged: Settings, tmp_path: Path) -> AsyncIterator[Feed]:
    make_run(tmp_path)
    async with Feed(logged, log=True) as feed:
        await feed.take(events())
        yield feed


@pytest.fixture
def serving(logged: Settings, tmp_path: Path) -> Iterator[Serving]:
    """A server that may show the files of the runs below one directory."""
    with Serving(logged.model_copy(update={"data_dir": tmp_path}), artifacts=[tmp_path / "runs"]) as serving:
        yield serving


def trial_of(serving: Serving, task: str = "task-1") -> str:
    [trial] = serving.get(f"/api/runs/{RUN}/trials?task={task}").json()["trials"]
    return f"/api/runs/{RUN}/trials/{trial['id']}"


def numbers(serving: Serving) -> dict[str, int]:
    return {
        file["name"]: file["number"] for file in serving.get(f"{trial_of(serving)}/event").json()["artifacts"]
    }


async def test_a_trial_has_its_message_times_labels_and_files(fed: Feed, serving: Serving) -> None:
    event = serving.get(f"{trial_of(serving)}/event").json()
    assert event["message"].startswith("Timeout after 300 s")
    assert (event["trial_name"], event["labels"]) == ("task-1.1-of-1.files-run", {"language": "c"})
    assert (event["started_at"], event["finished_at"]) == ("2026-01-02T03:00:00Z", "2026-01-02T03:05:00Z")
    assert [file["closed"] for file in event["artifacts"]] == [None] * len(event["artifacts"])
    assert event["artifacts"][-1]["url"] == LINK


async def test_of_several_results_of_a_slot_the_winners_event_is_told(fed: Feed, serving: Serving) -> None:
    late = {"run_id": RUN, "task_id": "task-2", "resolved": False}
    await fed.take(
        [a_trial(**late, revision=9, message="the winner"), a_trial(**late, revision=3, message="too old")]
    )
    assert serving.get(f"{trial_of(serving, 'task-2')}/event").json()["message"] == "the winner"


async def test_each_file_is_read_as_what_it_is(fed: Feed, serving: Serving) -> None:
    places = numbers(serving)
    kinds = {
        name: serving.get(f"{trial_of(serving)}/artifacts/{places[name]}").json()["kind"] for name in FILES
    }
    assert kinds == {
        "trajectory.json": "steps",
        "agent.log": "log",
        "fix.patch": "diff",
        "agent.cast": "cast",
    }


async def test_nothing_outside_the_directory_and_nothing_but_text_is_shown(
    fed: Feed, serving: Serving
) -> None:
    places = numbers(serving)
    for what, name in REFUSED.items():
        answer = serving.get(f"{trial_of(serving)}/artifacts/{places[name]}")
        assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json"), what
        assert SECRET.encode() not in answer.body, what


NO_NUMBERS = ["99", "-1", "0x0", "%2e%2e", "00", "%200", "%D9%A0"]
NO_NUMBERS += ["..%2F..%2Fetc%2Fpasswd", "task-1%2Fagent.log"]


async def test_files_are_asked_for_by_number_and_by_nothing_else(fed: Feed, serving: Serving) -> None:
    artifacts = f"{trial_of(serving)}/artifacts"
    assert serving.get(f"{artifacts}/0").status == 200
    found = {number: serving.get(f"{artifacts}/{number}").status for number in NO_NUMBERS}
    assert found == dict.fromkeys(NO_NUMBERS, 404)


async def test_an_event_cannot_name_a_file_outside(fed: Feed, serving: Serving) -> None:
    """The schema refuses such a path, so the trial is not even counted."""
    for path in ("../outside.txt", "/etc/passwd", "a/../../outside.txt", "..\\outside.txt"):
        await fed.take([a_trial(run_id=RUN, task_id="evil", artifacts=[{"name": "x", "path": path}])])
    assert serving.get(f"/api/runs/{RUN}/trials?task=evil").json()["matching"] == 0


async def test_a_publisher_opens_no_file_that_the_harness_does_not_name(
    fed: Feed, serving: Serving, tmp_path: Path
) -> None:
    """By an event in the run of a directory, and by one in a run of its own with that run as its shard."""
    (tmp_path / "runs" / RUN / ".env").write_text(f"KEY={SECRET}")
    paths = [".env", "run_metadata.json", "tb.lock", "task-1/task-1.1-of-1.files-run/results.json"]
    named = [{"name": path, "path": path} for path in paths]
    for fields in ({"run_id": RUN, "revision": 9}, {"run_id": "mine", "shard": RUN}):
        await fed.take([a_trial(**fields, resolved=False, artifacts=named)])
        run = f"/api/runs/{fields['run_id']}/trials"
        [trial] = serving.get(f"{run}?task=task-1&agent=terminus:gpt-5").json()["trials"]
        for number, path in enumerate(paths):
            answer = serving.get(f"{run}/{trial['id']}/artifacts/{number}")
            assert (answer.status, path in answer.json()["detail"]) == (404, True)


async def test_without_a_directory_the_file_is_named_and_what_to_do_is_said(
    fed: Feed, logged: Settings, tmp_path: Path
) -> None:
    with Serving(logged.model_copy(update={"data_dir": tmp_path})) as serving:
        files = serving.get(f"{trial_of(serving)}/event").json()["artifacts"]
        assert "--artifacts DIR" in files[0]["closed"]
        assert "--artifacts DIR" in serving.get(f"{trial_of(serving)}/artifacts/0").json()["detail"]


async def test_files_and_the_player_need_the_token_too(fed: Feed, logged: Settings, tmp_path: Path) -> None:
    with Serving(logged, artifacts=[tmp_path / "runs"], token=TOKEN) as serving:
        for path in ("event", "artifacts/0", "artifacts/3/player"):
            assert serving.get(f"/api/runs/{RUN}/trials/{'0' * 24}/{path}").status == 401


async def test_the_player_has_a_policy_of_its_own_and_nothing_else_has(fed: Feed, serving: Serving) -> None:
    places = numbers(serving)
    played = serving.get(f"{trial_of(serving)}/artifacts/{places['agent.cast']}/player")
    policy = played.headers["content-security-policy"]
    assert played.status == 200
    for part in ("default-src 'none'", "sandbox allow-scripts", "frame-ancestors 'self'"):
        assert part in policy
    for part in ("allow-same-origin", "unsafe-inline", "'unsafe-eval'", "connect-src", "'self';"):
        assert part not in policy.replace("frame-ancestors 'self'", "")
    assert (played.headers["x-frame-options"], played.headers["x-content-type-options"]) == (
        "SAMEORIGIN",
        "nosniff",
    )
    assert played.body.count(b"</script>") == 2
    assert b"\\u003c/script>" in played.body
    for path in ("/", f"{trial_of(serving)}/artifacts/0"):
        headers = serving.get(path).headers
        assert "require-trusted-types-for" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"


async def test_only_recordings_are_played(fed: Feed, serving: Serving) -> None:
    places = numbers(serving)
    answer = serving.get(f"{trial_of(serving)}/artifacts/{places['agent.log']}/player")
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_failures_are_grouped_and_lead_to_their_trials(fed: Feed, serving: Serving) -> None:
    groups = serving.get(f"/api/runs/{RUN}/failures").json()
    first = groups[0]
    assert (first["failure_mode"], first["kind"]) == ("agent_timeout", "Killed after N s in PATH")
    assert first["count"] == 7
    assert sum(group["share"] for group in groups) == pytest.approx(1)
    assert groups[0]["agents"] == {"terminus:gpt-5": 4, "other:gpt-5": 3}
    query = "failure_mode=agent_timeout&kind=Killed%20after%20N%20s%20in%20PATH"
    page = serving.get(f"/api/runs/{RUN}/trials?{query}").json()
    assert page["matching"] == 7
    assert {trial["reason"][:6] for trial in page["trials"]} == {"Killed"}
    assert {trial["finished_at"] is not None for trial in page["trials"]} == {True}


async def test_an_account_that_may_not_read_events_gets_the_list_and_is_told_what_is_missing(
    logged: Settings,
) -> None:
    """A topic that one may not see looks as one that does not exist."""
    async with Feed(logged, log=True, events=False) as feed:
        await feed.take(events())
        with Serving(logged) as serving:
            page = serving.get(f"/api/runs/{RUN}/trials?outcome=failed").json()
            assert {(trial["reason"], trial["finished_at"]) for trial in page["trials"]} == {(None, None)}
            assert page["matching"] == 8
            for path in ("failures", "trials?kind=x", f"trials/{page['trials'][0]['id']}/event"):
                answer = serving.get(f"/api/runs/{RUN}/{path}")
                assert answer.status == 501
                assert "docs/security.md" in answer.json()["detail"]


async def test_the_matrix_has_a_cell_for_each_agent_and_task_and_marks_what_is_running(
    feed_and_serving: tuple[Feed, Serving],
) -> None:
    feed, serving = feed_and_serving
    run: dict[str, Any] = {"run_id": "matrix"}
    await feed.take(
        [
            a_plan(**run, tasks=["easy", "hard"], attempts=2),
            *(a_trial(**run, task_id="easy", attempt=n, agent=a, cost_usd=n) for n in (1, 2) for a in "ab"),
            a_trial(**run, task_id="hard", agent="a", resolved=False),
            a_start(**run, task_id="hard", agent="b", started_at="2026-01-02T03:00:00Z"),
        ]
    )
    found = serving.get("/api/runs/matrix/matrix?metric=cost_usd&sort=difficulty").json()
    assert found["agents"] == ["b:gpt-5", "a:gpt-5"]
    assert [(task["task_id"], task["cells"]) for task in found["tasks"]] == [
        ("hard", [[0, 0, 0, 1, None], [1, 0, 0, 0, None]]),
        ("easy", [[2, 2, 0, 0, 1.5], [2, 2, 0, 0, 1.5]]),
    ]
    assert (found["low"], found["high"]) == (1.5, 1.5)


@pytest.fixture
async def feed_and_serving(logged: Settings) -> AsyncIterator[tuple[Feed, Serving]]:
    async with Feed(logged, log=True) as feed:
        with Serving(logged) as serving:
            yield feed, serving


async def test_for_a_trial_without_files_no_directory_is_searched(
    fed: Feed, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def of(run_id: str, shard: str) -> None:
        asked.append(run_id)

    monkeypatch.setattr(serving.web.directories, "of", of)
    assert serving.get(f"{trial_of(serving, 'task-2')}/event").json()["artifacts"] == []
    assert asked == []
    serving.get(f"{trial_of(serving)}/event")
    assert asked == [RUN]


async def test_results_that_were_withdrawn_close_neither_trials_nor_failures(
    fed: Feed, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_TRIALS", 10)
    slots = [{"run_id": RUN, "task_id": f"gone-{number}"} for number in range(3)]
    await fed.take(
        [event for slot in slots for event in (a_trial(**slot, revision=1), a_retraction(**slot, revision=2))]
    )
    page = serving.get(f"/api/runs/{RUN}/trials").json()
    assert (page["total"], {trial["reason"] for trial in page["trials"]}) == (9, {None})
    [group] = serving.get(f"/api/runs/{RUN}/failures").json()
    assert (group["failure_mode"], group["count"]) == ("agent_timeout", 8)


async def test_one_file_is_read_at_a_time(
    fed: Feed, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, together = threading.Barrier(2), []
    view_of = api.view_of

    def counted(*place: Any) -> Any:
        try:
            both.wait(2)
            together.append(place)
        except threading.BrokenBarrierError:
            pass
        return view_of(*place)

    monkeypatch.setattr(api, "view_of", counted)
    path = f"{trial_of(serving)}/artifacts/0"
    answers = await asyncio.gather(*(asyncio.to_thread(serving.get, path) for _ in range(2)))
    assert [answer.status for answer in answers] == [200, 200]
    assert together == []
