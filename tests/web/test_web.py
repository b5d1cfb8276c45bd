"""The web server: its addresses, the limits of its connections, its tokens, and its start inside `up`."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
import re
import signal
import socket
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from streamer import web
from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.web import app
from streamer.web.protocols import connections
from streamer.web.protocols.connections import Connections
from streamer.web.protocols.intake import EventIntake
from tests.operate.stack import descendants, runs
from tests.support.cli import staying, streamer
from tests.support.servers import RedisServer
from tests.support.worker_process import wait_for
from tests.web.serving import Serving
from tests.web.viewer import Viewer

# -----------------------------------------------------------------------------
# Where the page says it is: addresses that can be opened, and a QR code that other machines can use.

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize("host", [name for name in web.EVERYWHERE if name])
def test_a_host_that_stands_for_all_is_never_printed(host: str) -> None:
    result = web.addresses(host, 8720, web.own_addresses(host))
    assert result
    assert not any(f"//{host}:" in address or f"//[{host}]:" in address for address in result)


@pytest.mark.parametrize(
    ("token", "more", "opened"), [(None, "", ""), (TOKEN, "; the code holds the token", f"?token={TOKEN}")]
)
def test_the_code_for_others_alone_holds_the_token(token: str | None, more: str, opened: str) -> None:
    first, words, *code = web.announcement("10.1.2.3", 8720, token, on_terminal=True)
    assert (first, words) == ("http://10.1.2.3:8720/", f"with a phone in the same network{more}")
    assert code == web.qr_code(f"http://10.1.2.3:8720/{opened}").splitlines()


@pytest.mark.parametrize(("host", "on_terminal"), [("10.1.2.3", False), ("127.0.0.1", True), ("::1", True)])
def test_there_is_no_code_in_a_file_and_none_for_this_machine_alone(host: str, on_terminal: bool) -> None:
    assert len(web.announcement(host, 8720, TOKEN, on_terminal=on_terminal)) == 1


def test_the_first_printed_address_of_a_server_open_to_all_answers(serving: Serving) -> None:
    [address] = web.addresses("127.0.0.1", serving.port)
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


Connect = Callable[..., socket.socket]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connect to a port, and send; what is connected is closed at the end."""
    with ExitStack() as stack:

        def connecting(port: int, data: bytes, source: str = "127.0.0.1") -> socket.socket:
            address = ("127.0.0.1", port)
            result = socket.create_connection(address, timeout=20, source_address=(source, 0))
            stack.enter_context(result).sendall(data)
            return result

        yield connecting


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


def test_a_request_that_does_not_arrive_is_closed_and_no_stream(hasty: int, connect: Connect) -> None:
    following = connect(hasty, STREAM)
    start = time.monotonic()
    slow = {sent: connect(hasty, sent) for sent in (b"", b"G", HALF, HALF_BODY, HALF_EVENTS)}
    while time.monotonic() - start < SECONDS / 2:
        assert not any(map(is_closed, slow.values()))
    for sent, connection in slow.items():
        wait_for(lambda: is_closed(connection), f"the half request {sent!r} is closed", 15)  # noqa: B023
    assert not is_closed(following)


def test_a_byte_now_and_then_does_not_keep_a_half_request_open(hasty: int, connect: Connect) -> None:
    slow = connect(hasty, HALF)

    def is_refused() -> bool:
        try:
            slow.sendall(b"x")
        except ConnectionError:
            return True
        return False

    wait_for(is_refused, "the half request is closed though bytes come", 15)


def test_the_next_request_on_a_connection_has_the_same_limit(hasty: int, connect: Connect) -> None:
    slow = connect(hasty, WHOLE)
    assert slow.recv(65536).startswith(b"HTTP/1.1 200")
    slow.sendall(HALF)
    wait_for(lambda: is_closed(slow), "the half request is closed", 4)  # uvicorn's own limit is 5 s


@pytest.mark.parametrize(
    ("limits", "addresses", "closed"),
    [
        ({"most_per_address": 20}, [OTHER_ADDRESS] * 300, 280),
        ({"most_per_address": 20}, ["127.0.0.1"] * 300, 280),
        ({"most": 10}, [f"127.0.0.{number}" for number in range(2, 32)], 20),
    ],
    ids=["of another address", "of the same address", "of many addresses"],
)
def test_half_requests_without_number_keep_others_in(
    settings: Settings,
    connect: Connect,
    limits: dict[str, Any],
    addresses: list[str],
    closed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 60)  # so that the number alone closes any
    with Serving(settings, connections=Connections(**limits)) as serving:
        halves = [connect(serving.port, HALF, address) for address in addresses]
        start = time.monotonic()
        assert [serving.get("/api/health").status for _ in range(5)] == [200] * 5
        assert time.monotonic() - start < 5
        wait_for(lambda: sum(is_closed(half) for half in halves) >= closed, "only as many may stay", 15)


def test_streams_keep_no_request_out_and_the_last_is_refused(settings: Settings, connect: Connect) -> None:
    with Serving(settings, connections=Connections(most_per_address=5)) as serving:
        streams = [connect(serving.port, STREAM) for _ in range(5)]
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
        assert connect(serving.port, STREAM).recv(10) == b"HTTP/1.1 2"


def test_streams_of_all_addresses_leave_room_for_requests(settings: Settings, connect: Connect) -> None:
    limits = Connections(most=12)
    with Serving(settings, connections=limits) as serving:
        opened = (connect(serving.port, STREAM, f"127.0.0.{number}") for number in range(2, 22))
        answers = [stream.recv(12) for stream in opened]
        assert answers == [b"HTTP/1.1 200"] * limits.most_streams + [b"HTTP/1.1 503"] * 10
        assert [serving.get("/api/health").status for _ in range(20)] == [200] * 20


def forwarded(client: str) -> bytes:
    return STREAM.replace(b"\r\n\r\n", f"\r\nX-Forwarded-For: {client}\r\n\r\n".encode())


@pytest.mark.parametrize(
    ("proxies", "viewers", "last", "counted"),
    [
        *(
            (named, 5, "203.0.113.7, 198.51.100.0", "198.51.100.0")
            for named in ("127.0.0.1", "10.9.9.9,127.0.0.0/8")
        ),
        *((named, 1, "198.51.100.9", "'127.0.0.1'") for named in ("", "10.9.9.9")),
    ],
)
def test_streams_are_counted_by_the_viewer_that_a_named_proxy_and_no_other_says(
    settings: Settings, connect: Connect, proxies: str, viewers: int, last: str, counted: str
) -> None:
    with Serving(settings, connections=Connections(most_per_address=2, proxies=proxies)) as serving:
        for number in range(2 * viewers):
            client = f"198.51.100.{number % viewers}"
            assert connect(serving.port, forwarded(client)).recv(10) == b"HTTP/1.1 2"
        late = serving.get("/api/updates", x_forwarded_for=last)
        assert (late.status, counted in late.json()["detail"]) == (503, True)
        assert [serving.get("/api/health").status for _ in range(20)] == [200] * 20


def test_requests_at_work_are_limited_by_address_but_not_those_of_a_proxy(
    settings: Settings, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(EventIntake, "read", endless)
    body = HALF_EVENTS.replace(b"Content-Length: 10", b"Content-Length: 3").replace(b"abc", b"[1]")
    with Serving(settings, connections=Connections(most_per_address=5, proxies=OTHER_ADDRESS)) as serving:
        sources = ("127.0.0.1", OTHER_ADDRESS) * 5
        at_work = [connect(serving.port, body, source) for source in sources]
        by_proxy = connect(serving.port, WHOLE, OTHER_ADDRESS)
        assert by_proxy.recv(12) == b"HTTP/1.1 200"
        late = connect(serving.port, WHOLE)
        wait_for(lambda: is_closed(late), "one too many is closed", 15)
        assert not any(is_closed(one) for one in at_work)


def test_a_port_that_was_named_and_is_taken_is_an_error_that_says_so() -> None:
    with web.listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(web.AddressInUse, match=rf"127\.0\.0\.1 port {port}: .*--port"):
            web.listening("127.0.0.1", port)


def test_the_usual_port_gives_way_to_a_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with web.listening("127.0.0.1", 0) as first:
        monkeypatch.setattr(web, "DEFAULT_PORT", first.getsockname()[1])
        with web.listening("127.0.0.1", None) as second:
            assert second.getsockname()[1] != first.getsockname()[1]


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(web.AddressInUse, match=r"192\.0\.2\.1"):
        web.listening("192.0.2.1", None)


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


FOREIGN = ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "["]


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/js/main.js"])
def test_a_foreign_name_is_refused_so_that_no_page_can_rebind(checked: Serving, host: str, path: str) -> None:
    answer = checked.get(path, host=host)
    assert (answer.status, "--host-name" in answer.json()["detail"]) == (421, True)
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


async def test_a_token_in_the_address_becomes_a_cookie_for_streams_too(closed: Serving) -> None:
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
def test_every_answer_forbids_inline_code_frames_and_other_origins(checked: Serving, path: str) -> None:
    headers = checked.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    directives = ("default-src", "connect-src", "require-trusted-types-for", "frame-ancestors")
    assert [policy[one] for one in directives] == ["'none'", "'self'", "'script'", "'none'"]
    if path != "/":
        assert policy["script-src"] == policy["style-src"] == "'self'"
    assert "unsafe" not in headers["content-security-policy"]
    others = ("x-content-type-options", "referrer-policy", "cross-origin-resource-policy")
    assert [headers[one] for one in others] == ["nosniff", "no-referrer", "same-origin"]
    assert "access-control-allow-origin" not in headers


def test_the_first_page_waits_for_no_file_and_allows_its_own_script_alone(checked: Serving) -> None:
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


def test_a_browser_that_asks_for_another_page_whether_it_may_post_is_refused(checked: Serving) -> None:
    """A browser asks before all types but a form's, and a form is no event (test_intake.py)."""
    about: dict[str, Any] = {"origin": "http://evil.example", "access_control_request_method": "POST"}
    asking = about | {"access_control_request_headers": "content-type"}
    asked = checked.get("/api/events", method="OPTIONS", **asking)
    assert asked.status == 405
    assert not [name for name in asked.headers if name.startswith("access-control")]


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


VIEWING: dict[str, Any] = {"token": VIEW_TOKEN}
PUBLISHING: dict[str, Any] = {"publish_token": PUBLISH_TOKEN}
VIEWER, PUBLISHER = f"Bearer {VIEW_TOKEN}", f"Bearer {PUBLISH_TOKEN}"


@pytest.mark.parametrize(
    ("tokens", "given", "looking", "publishing"),
    [
        (VIEWING | PUBLISHING, PUBLISHER, 401, PASSED),
        (VIEWING | PUBLISHING, VIEWER, 200, 403),
        *((VIEWING | PUBLISHING, wrong, 401, 401) for wrong in ("", "Bearer x", f"Basic {PUBLISH_TOKEN}")),
        (VIEWING, VIEWER, 200, 403),
        *((VIEWING, wrong, 401, 403) for wrong in ("", "Bearer x")),
        (PUBLISHING, PUBLISHER, 200, PASSED),
        (PUBLISHING, "", 200, 401),
    ],
)
def test_each_token_is_good_for_one_use(
    bare_settings: Settings, tokens: dict[str, Any], given: str, looking: int, publishing: int
) -> None:
    with Serving(bare_settings, **tokens) as serving:
        looked = serving.get("/api/runs", authorization=given)
        published = serving.post(b"", kind="", authorization=given)
    assert (looked.status, published.status) == (looking, publishing)
    if PUBLISHING.items() <= tokens.items():
        assert ("for viewing" in published.json()["detail"]) == (publishing == 403)
        assert published.headers.get("www-authenticate") == {401: "Bearer"}.get(publishing)


def test_the_cookie_of_a_viewer_does_not_publish(bare_settings: Settings) -> None:
    with Serving(bare_settings, **VIEWING, **PUBLISHING) as serving:
        assert serving.get(f"/?token={PUBLISH_TOKEN}").headers.get("set-cookie") is None
        cookie = serving.get(f"/?token={VIEW_TOKEN}").headers["set-cookie"].split(";")[0]
        assert serving.get("/api/runs", cookie=cookie).status == 200
        assert serving.post(b"", kind="", cookie=cookie).status == 401


def test_files_outside_the_static_folder_are_not_served(checked: Serving) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"):
        assert checked.get(path).status == 404


def test_memory_holds_the_files_of_the_page_and_nothing_else_that_was_asked_for(checked: Serving) -> None:
    held = app._packed.cache_info().currsize
    assert {checked.get(f"/static/js/{number}.js").status for number in range(20)} == {404}
    assert app._packed.cache_info().currsize == held


# -----------------------------------------------------------------------------
# Which servers start: one that others can reach has tokens, long ones, and another for each use.


SAME = {"STREAMER_WEB_TOKEN": VIEW_TOKEN, "STREAMER_WEB_PUBLISH_TOKEN": VIEW_TOKEN, "STREAMER_DEBUG": "1"}


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        (["--host", "0.0.0.0"], {}, b"--token"),
        (["--host", "0.0.0.0", "--token", "short"], {}, b"--token is too short: it needs 16"),
        (["--publish-token", "short"], {}, b"--publish-token is too short: it needs 16"),
        (["--host", "0.0.0.0", "--publish-token", VIEW_TOKEN], {}, b"--token"),
        ([], SAME, b"are the same"),
    ],
)
def test_an_address_that_others_can_reach_needs_a_long_token_for_each_use(
    options: list[str], environment: dict[str, str], said: bytes, tmp_path: Path
) -> None:
    done = streamer("serve", *options, cwd=tmp_path, environment=environment)
    assert done.returncode == 2
    assert said in done.stderr
    assert VIEW_TOKEN.encode() not in done.stderr + done.stdout


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/runs", timeout=2) as answer:
            return bool(answer.read() == b"[]")
    except OSError:
        return False


def page_of(pid: int) -> int:
    """Process id of the page below a process, 0 if there is none."""
    result = [child for child, command in descendants(pid).items() if "-m streamer.web" in command]
    return result[0] if result else 0


@pytest.mark.slow
def test_up_serves_the_page_starts_it_again_and_ends_it(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "up.log"
    environment = {"STREAMER_DISCOVERY": str(tmp_path / "running.json")}
    with staying(log, "up", "--ephemeral", "--web-port", port, environment=environment) as up:
        wait_for(lambda: answers(port), "the page answers")
        said = f"Web page   http://127.0.0.1:{port}/"
        wait_for(lambda: said in log.read_text(), "up says where the page is")
        first = page_of(up.pid)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: page_of(up.pid) not in (0, first), "another page is started")
        wait_for(lambda: answers(port), "the other page answers")
        below = descendants(up.pid)
    wait_for(lambda: not [pid for pid in below if runs(pid)], "everything has ended")
