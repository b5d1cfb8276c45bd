"""Who may ask, under which name, and what every answer forbids the browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamer.settings import Settings
from streamer.web import AddressInUse, listening
from tests.support.servers import RedisServer
from tests.web.serving import Serving
from tests.web.viewer import Viewer

TOKEN = "correct-horse-battery"
PUBLISH_TOKEN = "staple-correct-horse"
UPDATES = "/api/updates"


@pytest.fixture(scope="module")
def settings(session_redis: RedisServer) -> Settings:
    """An empty Redis and no broker: these tests write nothing, so they share their servers."""
    session_redis.start_empty()
    return Settings(redis=session_redis.url, namespace="checks", bootstrap="127.0.0.1:1")


@pytest.fixture(scope="module")
def serving(settings: Settings) -> Iterator[Serving]:
    with Serving(settings) as serving:
        yield serving


@pytest.fixture(scope="module")
def closed(settings: Settings) -> Iterator[Serving]:
    with Serving(settings, token=TOKEN, host_names=["boards.example"]) as serving:
        yield serving


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8720", "LOCALHOST", "[::1]:1", "10.1.2.3:80"])
def test_addresses_and_localhost_are_good_names(serving: Serving, host: str) -> None:
    assert serving.get("/api/runs", host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "["]
)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/js/main.js"])
def test_a_foreign_name_is_refused_so_that_no_page_can_rebind_it(
    serving: Serving, host: str, path: str
) -> None:
    answer = serving.get(path, host=host)
    assert answer.status == 421
    assert "--host-name" in answer.json()["detail"]


def test_a_name_that_was_given_is_good(closed: Serving) -> None:
    assert closed.get("/", host="Boards.Example.:443").status == 200


def test_without_the_token_there_is_no_data_but_the_page_loads(closed: Serving) -> None:
    for path in ("/api/runs", "/api/openapi.json", UPDATES, "/api/session", "/api/nothing"):
        answer = closed.get(path)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert closed.get("/").status == 200
    assert closed.get("/static/js/main.js").status == 200


@pytest.mark.parametrize(
    "path",
    ["/%61pi/runs", "//api/runs", "/api%2Fruns", "/static/../api/runs", "/API/runs", "/api/../api/runs"],
)
def test_no_spelling_of_a_path_goes_round_the_token(closed: Serving, path: str) -> None:
    assert closed.get(path).status in (401, 404)


@pytest.mark.parametrize("given", ["Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer", TOKEN])
def test_a_wrong_token_does_not_fit(closed: Serving, given: str) -> None:
    assert closed.get("/api/runs", authorization=given).status == 401


def test_the_token_fits_as_a_bearer(closed: Serving) -> None:
    assert closed.get("/api/runs", authorization=f"Bearer {TOKEN}").status == 200


async def test_a_token_in_the_address_becomes_a_cookie_once_for_streams_too(closed: Serving) -> None:
    answer = closed.get(f"/?token={TOKEN}&a=b%26")
    assert (answer.status, answer.headers["location"]) == (303, "/?a=b%26")
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert {"httponly", "samesite=strict", "path=/"} == {attribute.lower() for attribute in attributes}
    assert TOKEN not in cookie
    assert closed.get("/api/runs", cookie=cookie).status == 200
    viewer = await Viewer(closed.port, UPDATES, headers={"Cookie": cookie}).open()
    assert viewer.status == 200
    await viewer.close()


def test_a_wrong_token_in_the_address_gives_no_cookie_and_leaves_the_address(closed: Serving) -> None:
    answer = closed.get("/?token=wrong")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert "set-cookie" not in answer.headers


def test_the_page_exchanges_a_bearer_for_the_cookie(closed: Serving) -> None:
    answer = closed.get("/api/session", authorization=f"Bearer {TOKEN}")
    assert answer.status == 204
    cookie = answer.headers["set-cookie"].split(";")[0]
    assert closed.get("/api/session", cookie=cookie).status == 204
    for wrong in ("streamer_session=", "streamer_session=0", f"streamer_session={TOKEN}", "=;;="):
        assert closed.get("/api/runs", cookie=wrong).status == 401


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/nothing", "/static/js/main.js", "/nothing"])
def test_every_answer_forbids_inline_code_frames_sniffing_and_other_origins(
    serving: Serving, path: str
) -> None:
    headers = serving.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_events_can_be_written(serving: Serving, method: str) -> None:
    for path in ("/api/runs", "/api/runs/x", UPDATES, "/"):
        assert serving.get(path, method=method).status == 405


@pytest.fixture(scope="module")
def for_both(settings: Settings) -> Iterator[Serving]:
    with Serving(
        settings, token=TOKEN, publish_token=PUBLISH_TOKEN, host_names=["boards.example"]
    ) as serving:
        yield serving


PASSED = 415
"""The answer to a post without a media type: the checks have let it pass."""


@pytest.mark.parametrize("host", ["127.0.0.1:8720", "localhost", "[::1]:1"])
def test_without_any_token_this_machine_may_publish(serving: Serving, host: str) -> None:
    assert serving.post(b"", kind="", host=host).status == PASSED


@pytest.mark.parametrize("host", ["10.1.2.3:80", "boards.example"])
def test_without_a_token_for_publishing_no_other_machine_may(settings: Settings, host: str) -> None:
    with Serving(settings, host_names=["boards.example"]) as serving:
        assert serving.get("/api/runs", host=host).status == 200
        answer = serving.post(b"", kind="", host=host)
        assert answer.status == 403
        assert "--publish-token" in answer.json()["detail"]


def test_a_foreign_name_is_refused_for_events_too(serving: Serving) -> None:
    assert serving.post(b"", kind="", host="evil.example").status == 421


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://localhost",
        "http://127.0.0.1:1",
        "https://127.0.0.1.evil.example",
        "",
    ],
)
def test_a_page_of_another_origin_may_not_publish(serving: Serving, origin: str) -> None:
    answer = serving.post(b"", kind="", host="127.0.0.1:8720", origin=origin)
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_our_own_origin_may_publish(serving: Serving, scheme: str) -> None:
    answer = serving.post(b"", kind="", host="localhost:8720", origin=f"{scheme}://LocalHost:8720")
    assert answer.status == PASSED


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_types_that_any_page_may_post_are_refused(serving: Serving, kind: str) -> None:
    """Others a browser sends only after it has asked with OPTIONS, and that is refused."""
    assert serving.post(b"{}", kind=kind).status == 415
    asked = serving.get(
        "/api/events",
        method="OPTIONS",
        origin="http://evil.example",
        access_control_request_method="POST",
        access_control_request_headers="content-type",
    )
    assert asked.status == 405
    assert not [name for name in asked.headers if name.startswith("access-control")]


def test_each_token_is_good_for_one_use(for_both: Serving) -> None:
    viewing, publishing = f"Bearer {TOKEN}", f"Bearer {PUBLISH_TOKEN}"
    assert for_both.post(b"", kind="", authorization=publishing).status == PASSED
    assert for_both.get("/api/runs", authorization=viewing).status == 200
    assert for_both.get("/api/runs", authorization=publishing).status == 401
    assert for_both.get(f"/?token={PUBLISH_TOKEN}").headers.get("set-cookie") is None
    refused = for_both.post(b"", kind="", authorization=viewing)
    assert refused.status == 403
    assert "for viewing" in refused.json()["detail"]
    for wrong in ("", "Bearer x", f"Basic {PUBLISH_TOKEN}"):
        answer = for_both.post(b"", kind="", authorization=wrong)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_the_cookie_of_a_viewer_does_not_publish(for_both: Serving) -> None:
    cookie = for_both.get(f"/?token={TOKEN}").headers["set-cookie"].split(";")[0]
    assert for_both.get("/api/runs", cookie=cookie).status == 200
    assert for_both.post(b"", kind="", cookie=cookie).status == 401


def test_with_a_token_for_viewing_alone_nobody_may_publish(closed: Serving) -> None:
    for authorization in (f"Bearer {TOKEN}", "", "Bearer x"):
        assert closed.post(b"", kind="", authorization=authorization).status == 403


def test_with_a_token_for_publishing_alone_everybody_may_look(settings: Settings) -> None:
    with Serving(settings, publish_token=PUBLISH_TOKEN) as serving:
        assert serving.get("/api/runs").status == 200
        assert serving.post(b"", kind="").status == 401
        assert serving.post(b"", kind="", authorization=f"Bearer {PUBLISH_TOKEN}").status == PASSED


def test_a_port_that_is_taken_is_an_error_only_if_it_was_asked_for() -> None:
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressInUse, match=str(port)):
            listening("127.0.0.1", port)


def test_files_outside_the_static_folder_are_not_served(serving: Serving) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"):
        assert serving.get(path).status == 404
