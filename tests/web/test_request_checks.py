"""Who may ask, under which name, and what every answer forbids the browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.settings import Settings
from streamer.web.listening import AddressInUse, listening
from tests.support.cli import streamer
from tests.web.serving import Serving
from tests.web.viewer import Viewer

TOKEN = "correct-horse-battery"
UPDATES = "/api/updates"


@pytest.fixture
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
def test_nothing_can_be_written(serving: Serving, method: str) -> None:
    for path in ("/api/runs", "/api/runs/x", UPDATES, "/"):
        assert serving.get(path, method=method).status == 405


def test_an_address_that_others_can_reach_needs_a_long_token(tmp_path: Path) -> None:
    open_to_all = streamer("serve", "--host", "0.0.0.0", cwd=tmp_path)
    assert open_to_all.returncode == 1
    assert b"--token" in open_to_all.stderr
    short = streamer("serve", "--host", "0.0.0.0", "--token", "short", cwd=tmp_path)
    assert short.returncode == 1
    assert b"16 characters" in short.stderr


def test_a_port_that_is_taken_is_an_error_only_if_it_was_asked_for() -> None:
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressInUse, match=str(port)):
            listening("127.0.0.1", port)


def test_files_outside_the_static_folder_are_not_served(serving: Serving) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"):
        assert serving.get(path).status == 404
