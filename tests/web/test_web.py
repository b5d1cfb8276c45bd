"""Steps of OpenHands, and of the agent logs of fc-eval from real runs."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from streamer import web as module
from streamer.schemas.base import canonical_json
from streamer.settings import Settings
from streamer.web import (
    EVERYWHERE,
    AddressInUse,
    addresses,
    announcement,
    app,
    artifacts,
    listening,
    own_addresses,
    qr_code,
)
from streamer.web import log as trial_log
from streamer.web.artifacts import MAX_CALLS, NotThisFormat
from streamer.web.log import TrialLog, TrialMoved
from streamer.web.protocols import connections
from streamer.web.protocols.connections import Connections
from streamer.web.protocols.intake import EventIntake
from tests.support.data import REPOSITORY, shared_data
from tests.support.events import a_trial
from tests.support.servers import RedisServer
from tests.support.worker_process import wait_for
from tests.web.feeding import Feed
from tests.web.serving import Serving
from tests.web.viewer import Viewer

JOBS = REPOSITORY / "tests" / "sources" / "harbor" / "jobs.tar.gz"


def test_every_agent_log_of_fc_eval_that_is_a_list_of_actions_becomes_steps() -> None:
    read = 0
    for file in sorted((shared_data() / "formulacode" / "logs").glob("*/agent-logs/*.json")):
        try:
            content = json.loads(file.read_bytes())
            steps, _ = artifacts.openhands_steps(content)
        except (ValueError, NotThisFormat):
            continue
        read += 1
        actions = [event for event in content if isinstance(event, dict)]
        assert [step.calls[0].name for step in steps] == [event["action"] for event in actions]
        assert {call.arguments for step in steps for call in step.calls} == {"ls"}
    assert read >= 20


def test_an_observation_of_openhands_stands_at_the_action_that_caused_it() -> None:
    events: list[Any] = [
        {"id": 0, "source": "user", "action": "message", "args": {"content": "fix it"}},
        {"id": 1, "source": "agent", "action": "run", "args": {"command": "make", "thought": "try"}},
        {"id": 2, "cause": 1, "source": "agent", "observation": "run", "content": "no rule"}
        | {"extras": {"metadata": {"exit_code": 2}}},
        {"id": 3, "source": "environment", "observation": "error", "content": "lost"},
        {"id": 4, "source": "agent", "action": "finish", "args": {"final_thought": "done"}},
        "not an event",
    ]
    steps, _ = artifacts.openhands_steps(events)
    assert [(step.source, step.text) for step in steps] == [
        ("user", "fix it"),
        ("agent", "try"),
        ("environment", ""),
        ("agent", "done"),
    ]
    [call] = steps[1].calls
    assert (call.arguments, call.output, call.error) == ("make", "no rule", True)
    assert [step.error for step in steps] == [False, True, True, False]


# -----------------------------------------------------------------------------
# Steps of the answers that Terminus gets from its model.


def test_an_answer_of_terminus_is_what_it_thinks_and_types() -> None:
    first = {"state_analysis": "new", "explanation": "look", "is_task_complete": False}
    second = {"analysis": "seen", "plan": "end", "task_complete": True}
    keys = [{"keystrokes": "ls\n", "is_blocking": True}]
    steps, _ = artifacts.terminus_steps([first | {"commands": keys}, second | {"commands": []}])
    assert [step.text for step in steps] == ["new\nlook", "seen\nend\nIt says that the task is complete."]
    assert [call.arguments for call in steps[0].calls] == ["ls\n"]


def test_of_very_many_keystrokes_the_first_are_shown_and_the_others_counted() -> None:
    [step], _ = artifacts.terminus_steps({"commands": [{"keystrokes": "ls"}] * (MAX_CALLS + 3)})
    assert (len(step.calls), step.text) == (MAX_CALLS, "[3 more calls not shown]")


# -----------------------------------------------------------------------------
# Where the page says it is: addresses that can be opened, and a QR code that other machines can use.


TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize("host", [name for name in EVERYWHERE if name])
def test_a_host_that_stands_for_all_is_never_printed(host: str) -> None:
    result = addresses(host, 8720, own_addresses(host))
    assert result
    assert not any(f"//{host}:" in address or f"//[{host}]:" in address for address in result)


@pytest.mark.parametrize(
    ("token", "more", "opened"), [(None, "", ""), (TOKEN, "; the code holds the token", f"?token={TOKEN}")]
)
def test_the_address_for_others_comes_first_and_their_code_alone_holds_the_token(
    token: str | None, more: str, opened: str
) -> None:
    first, words, *code = announcement("10.1.2.3", 8720, token, on_terminal=True)
    assert (first, words) == ("http://10.1.2.3:8720/", f"with a phone in the same network{more}")
    assert code == qr_code(f"http://10.1.2.3:8720/{opened}").splitlines()


@pytest.mark.parametrize(("host", "on_terminal"), [("10.1.2.3", False), ("127.0.0.1", True), ("::1", True)])
def test_there_is_no_code_in_a_file_and_none_for_this_machine_alone(host: str, on_terminal: bool) -> None:
    assert len(announcement(host, 8720, TOKEN, on_terminal=on_terminal)) == 1


def test_the_first_printed_address_of_a_server_open_to_all_answers(serving: Serving) -> None:
    [address] = addresses("127.0.0.1", serving.port)
    assert serving.get("/", host=address.split("/")[2]).status == 200


# -----------------------------------------------------------------------------
# Requests that never end and connections without number: closed in time, and nobody else is kept out.


HALF = b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
HALF_BODY = b"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nabc"
HALF_EVENTS = HALF_BODY.replace(b"runs", b"events").replace(
    b"Host", b"Content-Type: application/json\r\nHost"
)
WHOLE = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
OTHER_ADDRESS = "127.0.0.2"
SECONDS = 1.0


STREAM = WHOLE.replace(b"/api/health", b"/api/updates")


@pytest.fixture
def hasty(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Port of a server whose limits of time are shorter."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", SECONDS)
    monkeypatch.setattr(connections, "BODY_SECONDS", SECONDS)
    with Serving(settings) as serving:
        yield serving.port


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(stack: ExitStack, port: int, data: bytes, source: str = "127.0.0.1") -> socket.socket:
    result = socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(source, 0))
    stack.enter_context(result)
    result.sendall(data)
    return result


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed it; what it sent before is passed over."""
    connection.settimeout(0.01)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def test_a_request_that_does_not_arrive_is_closed_in_time_and_a_stream_goes_on(
    hasty: int, sockets: ExitStack
) -> None:
    following = connected(sockets, hasty, STREAM)
    start = time.monotonic()
    slow = {sent: connected(sockets, hasty, sent) for sent in (b"", b"G", HALF, HALF_BODY, HALF_EVENTS)}
    while time.monotonic() - start < SECONDS / 2:
        assert not any(map(is_closed, slow.values()))
    for sent, connection in slow.items():
        wait_for(lambda: is_closed(connection), f"the half request {sent!r} is closed", 15)  # noqa: B023
    assert not is_closed(following)


def test_a_byte_now_and_then_does_not_keep_a_half_request_open(hasty: int, sockets: ExitStack) -> None:
    slow = connected(sockets, hasty, HALF)

    def is_refused() -> bool:
        try:
            slow.sendall(b"x")
        except ConnectionError:
            return True
        return False

    wait_for(is_refused, "the half request is closed though bytes come", 15)


def test_the_next_request_on_a_connection_has_the_same_limit(hasty: int, sockets: ExitStack) -> None:
    slow = connected(sockets, hasty, WHOLE)
    assert slow.recv(65536).startswith(b"HTTP/1.1 200")
    slow.sendall(HALF)
    wait_for(lambda: is_closed(slow), "the half request is closed", 4)  # uvicorn's own limit is 5 s


@pytest.mark.parametrize("address", [OTHER_ADDRESS, "127.0.0.1"])
def test_half_requests_without_number_keep_nobody_out(
    settings: Settings, sockets: ExitStack, address: str
) -> None:
    with Serving(settings, connections=Connections(most_per_address=20)) as serving:
        halves = [connected(sockets, serving.port, HALF, address) for _ in range(300)]
        start = time.monotonic()
        for _ in range(5):
            assert serving.get("/api/health").status == 200
        assert time.monotonic() - start < 5
        wait_for(lambda: sum(is_closed(half) for half in halves) >= 280, "only 20 may stay", 15)


def test_streams_keep_no_request_of_the_same_address_out_and_one_too_many_gets_an_answer(
    settings: Settings, sockets: ExitStack
) -> None:
    with Serving(settings, connections=Connections(most_per_address=5)) as serving:
        streams = [connected(sockets, serving.port, STREAM) for _ in range(5)]
        for following in streams:
            assert following.recv(10) == b"HTTP/1.1 2"
        late = serving.get("/api/updates")
        assert (late.status, late.json()["detail"][:38]) == (503, "5 streams from '127.0.0.1' are open al")
        assert "trusted_proxies" in late.json()["detail"]
        assert [serving.get("/api/health").status for _ in range(20)] == [200] * 20
        assert serving.post(b"no JSON", kind="application/json").status == 400
        assert not any(is_closed(following) for following in streams)
        streams.pop().close()
        wait_for(lambda: serving.get("/api/health").json()["viewers"] == 4, "the viewer has left")
        assert connected(sockets, serving.port, STREAM).recv(10) == b"HTTP/1.1 2"


def test_streams_of_all_addresses_leave_room_for_requests(settings: Settings, sockets: ExitStack) -> None:
    limits = Connections(most=12)
    with Serving(settings, connections=limits) as serving:
        opened = (connected(sockets, serving.port, STREAM, f"127.0.0.{number}") for number in range(2, 22))
        answers = [stream.recv(12) for stream in opened]
        assert answers == [b"HTTP/1.1 200"] * limits.most_streams + [b"HTTP/1.1 503"] * 10
        assert [serving.get("/api/health").status for _ in range(20)] == [200] * 20


def forwarded(client: str, request: bytes = STREAM) -> bytes:
    return request.replace(b"\r\n\r\n", f"\r\nX-Forwarded-For: {client}\r\n\r\n".encode())


@pytest.mark.parametrize("proxies", ["127.0.0.1", "10.9.9.9,127.0.0.0/8"])
def test_streams_through_a_proxy_that_is_named_are_counted_by_viewer(
    settings: Settings, sockets: ExitStack, proxies: str
) -> None:
    with Serving(settings, connections=Connections(most_per_address=2, proxies=proxies)) as serving:
        viewers = [f"198.51.100.{number}" for number in range(5)]
        for viewer in viewers * 2:
            assert connected(sockets, serving.port, forwarded(viewer)).recv(10) == b"HTTP/1.1 2"
        late = serving.get("/api/updates", x_forwarded_for=f"203.0.113.7, {viewers[0]}")
        assert (late.status, viewers[0] in late.json()["detail"]) == (503, True)
        assert [serving.get("/api/health").status for _ in range(20)] == [200] * 20


@pytest.mark.parametrize("proxies", ["", "10.9.9.9"])
def test_a_forwarded_address_of_anybody_else_is_not_believed(
    settings: Settings, sockets: ExitStack, proxies: str
) -> None:
    with Serving(settings, connections=Connections(most_per_address=2, proxies=proxies)) as serving:
        for client in ("198.51.100.1", "198.51.100.2"):
            assert connected(sockets, serving.port, forwarded(client)).recv(10) == b"HTTP/1.1 2"
        late = serving.get("/api/updates", x_forwarded_for="198.51.100.9")
        assert (late.status, "'127.0.0.1'" in late.json()["detail"]) == (503, True)


def test_requests_at_work_are_limited_by_address_but_not_those_of_a_proxy(
    settings: Settings, sockets: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(EventIntake, "read", endless)
    body = HALF_EVENTS.replace(b"Content-Length: 10", b"Content-Length: 3").replace(b"abc", b"[1]")
    with Serving(settings, connections=Connections(most_per_address=5, proxies=OTHER_ADDRESS)) as serving:
        sources = ("127.0.0.1", OTHER_ADDRESS) * 5
        at_work = [connected(sockets, serving.port, body, source) for source in sources]
        by_proxy = connected(sockets, serving.port, WHOLE, OTHER_ADDRESS)
        assert by_proxy.recv(12) == b"HTTP/1.1 200"
        late = connected(sockets, serving.port, WHOLE)
        wait_for(lambda: is_closed(late), "one too many is closed", 15)
        assert not any(is_closed(one) for one in at_work)


def test_all_connections_together_are_limited_too(settings: Settings, sockets: ExitStack) -> None:
    with Serving(settings, connections=Connections(most=10)) as serving:
        addresses = [f"127.0.0.{number}" for number in range(2, 32)]
        halves = [connected(sockets, serving.port, HALF, address) for address in addresses]
        assert serving.get("/api/health").status == 200
        wait_for(lambda: sum(is_closed(half) for half in halves) >= 20, "only 10 may stay", 15)


# -----------------------------------------------------------------------------
# The port of the page: the usual one, another one if that is taken, and only the one that was named.


def test_a_port_that_was_named_and_is_taken_is_an_error_that_says_so() -> None:
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(AddressInUse, match=rf"127\.0\.0\.1 port {port}: .*--port"):
            listening("127.0.0.1", port)


def test_the_usual_port_gives_way_to_a_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening("127.0.0.1", 0) as first:
        monkeypatch.setattr(module, "DEFAULT_PORT", first.getsockname()[1])
        with listening("127.0.0.1", None) as second:
            assert second.getsockname()[1] != first.getsockname()[1]


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(AddressInUse, match=r"192\.0\.2\.1"):
        listening("192.0.2.1", None)


# -----------------------------------------------------------------------------
# Who may ask, under which name, and what every answer forbids the browser.


VIEW_TOKEN = "correct-horse-battery"
PUBLISH_TOKEN = "staple-correct-horse"
UPDATES = "/api/updates"


@pytest.fixture(scope="module")
def bare_settings(session_redis: RedisServer) -> Settings:
    """An empty Redis and no broker: these tests write nothing, so they share their servers."""
    session_redis.start_empty()
    return Settings(redis=session_redis.url, namespace="checks", bootstrap="127.0.0.1:1")


@pytest.fixture(scope="module")
def checked(bare_settings: Settings) -> Iterator[Serving]:
    with Serving(bare_settings) as serving:
        yield serving


@pytest.fixture(scope="module")
def closed(bare_settings: Settings) -> Iterator[Serving]:
    with Serving(bare_settings, token=VIEW_TOKEN, host_names=["boards.example"]) as serving:
        yield serving


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8720", "LOCALHOST", "[::1]:1", "10.1.2.3:80"])
def test_addresses_and_localhost_are_good_names(checked: Serving, host: str) -> None:
    assert checked.get("/api/runs", host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "["]
)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/js/main.js"])
def test_a_foreign_name_is_refused_so_that_no_page_can_rebind_it(
    checked: Serving, host: str, path: str
) -> None:
    answer = checked.get(path, host=host)
    assert answer.status == 421
    assert "--host-name" in answer.json()["detail"]
    assert checked.post(b"", kind="", host=host).status == 421


TRIAL = f"/api/runs/run-1/trials/{'0' * 24}"
CLOSED = [
    *("/api/runs", "/api/openapi.json", UPDATES, "/api/session", "/api/nothing"),
    *(f"{TRIAL}/event", f"{TRIAL}/artifacts/0", f"{TRIAL}/artifacts/3/player"),
    *("/pages/ledgers", "/pages/ledgers/x", "/pages/tasks/x?run=y", "/pages/%6cedgers"),
]


def test_without_the_token_there_is_no_data_but_the_page_loads(closed: Serving) -> None:
    for path in CLOSED:
        answer = closed.get(path)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer"), path
    assert closed.get("/pages/ledgers", authorization=f"Bearer {VIEW_TOKEN}").status == 200
    assert closed.get("/", host="Boards.Example.:443").status == 200, "a name that was given"
    assert closed.get("/").status == 200
    assert closed.get("/static/js/main.js").status == 200


@pytest.mark.parametrize("path", ["/static/js/shared.js", "/static/css/page.css"])
def test_a_joined_file_is_sent_once_and_again_only_when_it_has_changed(closed: Serving, path: str) -> None:
    first = closed.get(path)
    assert (first.status, first.headers["cache-control"]) == (200, "no-cache")
    for tag in (first.headers["etag"], f"W/{first.headers['etag']}", f'"x", {first.headers["etag"]}'):
        assert closed.get(path, if_none_match=tag).status == 304
    assert closed.get(path, if_none_match='"another"').status == 200


@pytest.mark.parametrize("path", ["/", "/static/js/share.js", "/static/js/shared.js", "/static/icon.svg"])
def test_every_file_of_the_page_lies_ready_compressed_and_as_it_is(closed: Serving, path: str) -> None:
    plain = closed.get(path)
    sent = closed.get(path, accept_encoding="gzip")
    assert gzip.decompress(sent.body) == plain.body != sent.body
    assert sent.headers["content-type"] == plain.headers["content-type"]
    for answer in (plain, sent):
        assert "Accept-Encoding" in answer.headers["vary"]


def test_the_files_of_the_page_weigh_at_most_70_kb_as_they_travel(closed: Serving) -> None:
    page = closed.get("/").body.decode()
    paths = ["/", *re.findall(r'(?:href|src)="(/static/[^"]+)"', page)]
    assert len(paths) == len(set(paths)) > 20
    bodies = [closed.get(path, accept_encoding="gzip").body for path in paths]
    assert sum(map(len, bodies)) <= 70_000


@pytest.mark.parametrize(
    "path",
    ["/%61pi/runs", "//api/runs", "/api%2Fruns", "/static/../api/runs", "/API/runs", "/api/../api/runs"],
)
def test_no_spelling_of_a_path_goes_round_the_token(closed: Serving, path: str) -> None:
    assert closed.get(path).status in (401, 404)


@pytest.mark.parametrize(
    "given", ["Bearer wrong", f"Basic {VIEW_TOKEN}", f"Bearer {VIEW_TOKEN}x", "Bearer", VIEW_TOKEN]
)
def test_only_the_token_as_a_bearer_fits(closed: Serving, given: str) -> None:
    assert closed.get("/api/runs", authorization=given).status == 401
    assert closed.get("/api/runs", authorization=f"Bearer {VIEW_TOKEN}").status == 200


async def test_a_token_in_the_address_becomes_a_cookie_once_for_streams_too_and_a_wrong_one_none(
    closed: Serving,
) -> None:
    answer = closed.get(f"/?token={VIEW_TOKEN}&a=b%26")
    assert (answer.status, answer.headers["location"]) == (303, "/?a=b%26")
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert {"httponly", "samesite=strict", "path=/"} == {attribute.lower() for attribute in attributes}
    assert VIEW_TOKEN not in cookie
    assert closed.get("/api/runs", cookie=cookie).status == 200
    viewer = await Viewer(closed.port, UPDATES, headers={"Cookie": cookie}).open()
    assert viewer.status == 200
    await viewer.close()
    wrong = closed.get("/?token=wrong")
    assert (wrong.status, wrong.headers["location"], "set-cookie" in wrong.headers) == (303, "/", False)
    exchanged = closed.get("/api/session", authorization=f"Bearer {VIEW_TOKEN}")
    assert (exchanged.status, exchanged.headers["set-cookie"].split(";")[0]) == (204, cookie)
    assert closed.get("/api/session", cookie=cookie).status == 204
    for invented in ("streamer_session=", "streamer_session=0", f"streamer_session={VIEW_TOKEN}", "=;;="):
        assert closed.get("/api/runs", cookie=invented).status == 401


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/nothing", "/static/js/main.js", "/nothing"])
def test_every_answer_forbids_inline_code_frames_sniffing_and_other_origins(
    checked: Serving, path: str
) -> None:
    headers = checked.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    if path != "/":
        assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_the_first_page_waits_for_no_other_file_and_allows_its_own_script_and_style_alone(
    checked: Serving,
) -> None:
    page = checked.get("/")
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    head = page.body.decode().split("</head>")[0]
    assert not re.search(r'<script src|rel="stylesheet"', head)
    for tag in ("script", "style"):
        (inline,) = re.findall(f"<{tag}>(.*?)</{tag}>", page.body.decode(), flags=re.DOTALL)
        digest = b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert policy[f"{tag}-src"] == f"'self' 'sha256-{digest}'"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_events_can_be_written(checked: Serving, method: str) -> None:
    for path in ("/api/runs", "/api/runs/x", UPDATES, "/"):
        assert checked.get(path, method=method).status == 405


PASSED = 415
"""The answer to a post without a media type: the checks have let it pass."""

HERE = "127.0.0.1:8720"


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        *((host, None, PASSED) for host in (HERE, "localhost", "[::1]:1")),
        *(("localhost:8720", f"{scheme}://LocalHost:8720", PASSED) for scheme in ("http", "https")),
        *((HERE, f"http://{other}", 403) for other in ("evil.example", "localhost", "127.0.0.1:1")),
        *((HERE, other, 403) for other in ("null", "https://127.0.0.1.evil.example", "")),
    ],
)
def test_without_any_token_this_machine_may_publish_and_no_page_of_another_origin(
    checked: Serving, host: str, origin: str | None, status: int
) -> None:
    answer = checked.post(b"", kind="", host=host, **({} if origin is None else {"origin": origin}))
    assert answer.status == status
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("host", ["10.1.2.3:80", "boards.example"])
def test_without_a_token_for_publishing_no_other_machine_may(bare_settings: Settings, host: str) -> None:
    with Serving(bare_settings, host_names=["boards.example"]) as serving:
        assert serving.get("/api/runs", host=host).status == 200
        answer = serving.post(b"", kind="", host=host)
        assert answer.status == 403
        assert "--publish-token" in answer.json()["detail"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_types_that_any_page_may_post_are_refused(checked: Serving, kind: str) -> None:
    """Others a browser sends only after it has asked with OPTIONS, and that is refused."""
    assert checked.post(b"{}", kind=kind).status == 415
    asked = checked.get(
        "/api/events",
        method="OPTIONS",
        origin="http://evil.example",
        access_control_request_method="POST",
        access_control_request_headers="content-type",
    )
    assert asked.status == 405
    assert not [name for name in asked.headers if name.startswith("access-control")]


def test_each_token_is_good_for_one_use_and_so_is_the_cookie_of_a_viewer(bare_settings: Settings) -> None:
    viewing, publishing = f"Bearer {VIEW_TOKEN}", f"Bearer {PUBLISH_TOKEN}"
    with Serving(bare_settings, token=VIEW_TOKEN, publish_token=PUBLISH_TOKEN) as serving:
        assert serving.post(b"", kind="", authorization=publishing).status == PASSED
        assert serving.get("/api/runs", authorization=viewing).status == 200
        assert serving.get("/api/runs", authorization=publishing).status == 401
        assert serving.get(f"/?token={PUBLISH_TOKEN}").headers.get("set-cookie") is None
        refused = serving.post(b"", kind="", authorization=viewing)
        assert (refused.status, "for viewing" in refused.json()["detail"]) == (403, True)
        cookie = serving.get(f"/?token={VIEW_TOKEN}").headers["set-cookie"].split(";")[0]
        assert serving.get("/api/runs", cookie=cookie).status == 200
        assert serving.post(b"", kind="", cookie=cookie).status == 401
        for wrong in ("", "Bearer x", f"Basic {PUBLISH_TOKEN}"):
            answer = serving.post(b"", kind="", authorization=wrong)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_with_a_token_for_viewing_alone_nobody_may_publish(closed: Serving) -> None:
    for authorization in (f"Bearer {VIEW_TOKEN}", "", "Bearer x"):
        assert closed.post(b"", kind="", authorization=authorization).status == 403


def test_with_a_token_for_publishing_alone_everybody_may_look(bare_settings: Settings) -> None:
    with Serving(bare_settings, publish_token=PUBLISH_TOKEN) as serving:
        assert serving.get("/api/runs").status == 200
        assert serving.post(b"", kind="").status == 401
        assert serving.post(b"", kind="", authorization=f"Bearer {PUBLISH_TOKEN}").status == PASSED


def test_files_outside_the_static_folder_are_not_served(checked: Serving) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"):
        assert checked.get(path).status == 404


def test_memory_holds_the_files_of_the_page_and_nothing_else_that_was_asked_for(checked: Serving) -> None:
    held = app._packed.cache_info().currsize
    assert {checked.get(f"/static/js/{number}.js").status for number in range(20)} == {404}
    assert app._packed.cache_info().currsize == held


# -----------------------------------------------------------------------------
# Trials: read from the log once, then on; pages, filters, payloads, comparisons; bounded.


async def test_the_payload_is_what_was_published(logging_feed: Feed, log: TrialLog) -> None:
    await logging_feed.take([a_trial(task_id=f"task-{number}", cost_usd=number) for number in range(9)])
    stored = await log.trials("run-1")
    for trial_id, trial in stored.items():
        payload = await log.payload("run-1", trial_id)
        assert payload is not None
        assert canonical_json({"task_id": trial.row.task_id})[1:-1] in payload
    assert await log.payload("run-1", "nothing") is None


async def test_a_payload_that_moved_meanwhile_is_found_at_the_second_attempt(
    logging_feed: Feed, log: TrialLog
) -> None:
    await logging_feed.take([a_trial(), a_trial(task_id="task-2")])
    stored = await log.trials("run-1")
    (first, stale), (_, other) = stored.items()
    stored[first] = trial_log.StoredTrial(stale.row, stale.key, other.offset, "")
    with pytest.raises(TrialMoved):
        await log.payload("run-1", first)
