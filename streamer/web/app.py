"""The application: paths, and what stands around them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar, get_origin
from urllib.parse import unquote

from pydantic import ValidationError
from sse_starlette import EventSourceResponse
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from streamer.kafka.errors import KafkaError, broker_problem
from streamer.schemas.canonical import canonical_json
from streamer.web import STATIC
from streamer.web.answers import OPERATIONS, values_of
from streamer.web.boards_module import boards_module
from streamer.web.downloads import DOWNLOADS, download
from streamer.web.models import AsOfQuery, Query
from streamer.web.openapi import STREAMS, openapi
from streamer.web.operation import BadQuery, Operation
from streamer.web.player import player
from streamer.web.problems import Refused, problem, status_of
from streamer.web.publishing import publish_events
from streamer.web.request_checks import EVENTS_PATH, SESSION_PATH, RequestChecks
from streamer.web.resources import Web
from streamer.web.rooms import Room
from streamer.web.trial_answers import recorded

log = logging.getLogger("streamer.web")

Q = TypeVar("Q", bound=Query)

PLAYER_PATH = "/api/runs/{run}/trials/{trial}/artifacts/{artifact}/player"


def create_app(
    web: Web, *, token: str | None = None, publish_token: str | None = None, host_names: Iterable[str] = ()
) -> ASGIApp:
    """The ASGI application.

    Args:
        web: what the answers draw on; followed and closed with the application's lifespan.
        token: a client must know it to get data; None: open to all.
        publish_token: a client must know it to publish; None: see `RequestChecks`.
        host_names: further names that this server may be called by, besides localhost and addresses.
    """
    document = canonical_json(openapi())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        following = asyncio.gather(web.hub.follow(), web.hub.watch_states())
        yield
        web.hub.close()
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await web.intake.close()
        await web.reader.close()

    async def describe(request: Request) -> Response:
        return _json(document)

    async def session(request: Request) -> Response:
        return Response(status_code=204)

    async def events(request: Request) -> Response:
        try:
            found = await publish_events(web.intake, request)
        except Exception as error:
            return _explained(web, error)
        return _json(canonical_json(found.model_dump()))

    async def updates(request: Request) -> Response:
        run_id = request.path_params.get("run")
        try:
            _refuse_as_of(request)
            room = await web.hub.enter(None if run_id is None else unquote(run_id))
        except Exception as error:
            return _explained(web, error)
        return _Stream(web, None if run_id is None else unquote(run_id), room, request)

    async def play(request: Request) -> Response:
        names = {name: unquote(value) for name, value in request.path_params.items()}
        try:
            return player(await recorded(web, **names), names["trial"])
        except Exception as error:
            return _explained(web, error)

    def download_of(ending: str) -> Any:
        async def answer(request: Request) -> Response:
            try:
                query = _query(AsOfQuery, request)
                return await download(web, query, unquote(request.path_params["run"]), ending)
            except Exception as error:
                return _explained(web, error)

        return answer

    routes = [
        Route("/", _index),
        Route("/api/openapi.json", describe),
        Route(SESSION_PATH, session),
        Route(EVENTS_PATH, events, methods=["POST"]),
        Route(PLAYER_PATH, play),
        *(Route(path, download_of(ending)) for path, ending in DOWNLOADS.items()),
        *(Route(path, updates) for path in STREAMS),
        *(Route(operation.path, _endpoint(web, operation)) for operation in OPERATIONS),
        Route("/static/js/boards.js", _boards),
        Mount("/static", _Static(directory=STATIC)),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _http_problem})
    zipped = GZipMiddleware(_Encoded(app), minimum_size=1000, compresslevel=5)
    return RequestChecks(zipped, token, publish_token, host_names)


def _endpoint(web: Web, operation: Operation) -> Any:
    async def answer(request: Request) -> Response:
        parameters = {name: unquote(value) for name, value in request.path_params.items()}
        try:
            query = _query(operation.query, request)
            found = await operation.answer(web, query, **parameters)
            body = found if isinstance(found, bytes) else canonical_json(values_of(found))
        except Exception as error:
            return _explained(web, error)
        if operation.file_name is not None:
            return _file_response(body, operation.media, operation.file_name)
        return _json(body)

    return answer


def _query(model: type[Q], request: Request) -> Q:
    """The part after the question mark; BadQuery says what is wrong with it."""
    if "as_of" not in model.model_fields:
        _refuse_as_of(request)
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        field = model.model_fields.get(name)
        if field is not None and get_origin(field.annotation) is list:
            given.setdefault(name, []).append(value)
        else:
            given[name] = value
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        allowed = ", ".join(model.model_fields) or "nothing"
        raise BadQuery(f"{'.'.join(map(str, first['loc']))}: {first['msg']}. Allowed: {allowed}") from error


def _refuse_as_of(request: Request) -> None:
    if "as_of" in request.query_params:
        paths = [one.path for one in OPERATIONS if "as_of" in one.query.model_fields]
        raise BadQuery(
            "as_of: this path says how things stand now. The single trials of an earlier time are in "
            f"trials.csv. These paths take as_of: {', '.join([*paths, *DOWNLOADS])}"
        )


def _explained(web: Web, error: Exception) -> Response:
    status = status_of(error)
    if status is None:
        log.exception("An answer failed")
        return problem(500, f"An error of this server's own, {type(error).__name__}; its log says more")
    said = str(error)
    if isinstance(error, KafkaError):
        said = f"This needs the broker, and {broker_problem(error, web.settings.bootstrap)}"
    return problem(status, said, again=isinstance(error, Refused) and error.again)


async def _http_problem(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    allowed = {404: "/api/openapi.json lists the paths", 405: f"Use GET, or POST to {EVENTS_PATH}"}
    return problem(status, allowed.get(status, "This cannot be answered"))


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json", headers={"cache-control": "no-store"})


def _file_response(content: bytes, media: str, name: str) -> Response:
    as_file = {"cache-control": "no-store", "content-disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media, headers=as_file)


async def _index(request: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})


async def _boards(request: Request) -> Response:
    return Response(boards_module(), media_type="text/javascript", headers={"cache-control": "no-cache"})


class _Static(StaticFiles):
    """The page's files; asked for again each time, answered with 304 where nothing changed."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        answer = super().file_response(*args, **kwargs)
        answer.headers["cache-control"] = "no-cache"
        return answer


class _Encoded:
    """Routes by the path as it was sent, so that an id may hold `%2F`; endpoints decode the parts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path")
        if scope["type"] == "http" and raw and scope["path"].startswith("/api/"):
            scope = {**scope, "path": raw.decode("ascii", "replace")}
        await self._app(scope, receive, send)


AppStatus.enable_automatic_graceful_drain = False
"""The hub ends its streams itself. A stream that the library cuts lacks its end, and browsers report that."""


class _Stream(EventSourceResponse):
    """Server-Sent Events for one viewer, who leaves the room in any case; a ping every 15 seconds."""

    def __init__(self, web: Web, run_id: str | None, room: Room, request: Request) -> None:
        told = request.headers.get("last-event-id") or request.query_params.get("last_event_id")
        super().__init__(web.hub.stream(room, told), sep="\n")
        self._leave = partial(web.hub.leave, run_id, room)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()
