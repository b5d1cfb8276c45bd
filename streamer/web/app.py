"""The web application: its paths, with checks and streams around them."""

from __future__ import annotations

import asyncio
import gc
import gzip
import hashlib
import logging
import re
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import cache, partial
from html import escape
from importlib.metadata import PackageNotFoundError, version
from mimetypes import guess_type
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, get_origin
from urllib.parse import unquote

import orjson
import uvicorn
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from sse_starlette import EventSourceResponse
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from streamer import DISTRIBUTION
from streamer.schemas.base import canonical_json
from streamer.schemas.events import EVENT_TYPES
from streamer.schemas.export import VERSION, definitions
from streamer.settings import Settings
from streamer.storage.redis import check_protocol
from streamer.text import visible
from streamer.views.tables import Document
from streamer.web import BACKLOG, DEFAULT_HOST, STATIC, announcement, check_tokens, listening
from streamer.web.answers import DRAWN, DRAWN_TYPE, refusal
from streamer.web.api import DOWNLOADS, OPERATIONS, SHEETS, WRITERS, Web, download, recorded, values_of
from streamer.web.boards import view_of
from streamer.web.models import (
    AsOfQuery,
    BadQuery,
    Operation,
    Page,
    Problem,
    PublishedEvents,
    Query,
    Refused,
    ViewQuery,
    checked,
    problem,
    status_of,
)
from streamer.web.pages import hash_of, page_styles, shared_module, sheet, static_file
from streamer.web.protocols.connections import (
    DATA_PATHS,
    EVENTS_PATH,
    IDLE_SECONDS,
    MCP_PATH,
    MOST_PER_ADDRESS,
    SESSION_PATH,
    Connections,
    LimitedProtocol,
    RequestChecks,
    content_security_policy,
)
from streamer.web.protocols.intake import (
    MAX_BODY_BYTES,
    MAX_EVENT_BYTES,
    MAX_EVENTS,
    BodyKind,
    publish_events,
)
from streamer.web.protocols.live import Room, View
from streamer.web.protocols.results import METRICS_PATH, results

if TYPE_CHECKING:
    from streamer.web.mcp import OverHttp

# -----------------------------------------------------------------------------
# The OpenAPI 3.1 document of the API, made from the operations and their models.


REFERENCE = "#/components/schemas/{model}"
TOTAL_HEADER = "X-Total-Count"
STREAMS = {
    "/api/updates": "The runs that change, after a page of the latest ones.",
    "/api/runs/{run}/updates": "A run, its agents and its tiers as they change.",
}

_ABOUT_STREAMS = (
    "Server-Sent Events. `snapshot`: forget what you know, everything follows. `run_summary`, "
    "`agent_model_summary`, `tier_summary`: a summary as it stands now, the same JSON as elsewhere; a "
    "run has its `state` besides, and is told again when that changes by the passing of time alone. "
    "`deleted`: an object with run_id, type, tier and agent_model; that summary is gone. `told`: now you "
    "know everything. Send Last-Event-ID to be told only what changed since; where the server does not "
    "remember, it begins with a snapshot. Of a summary that changes often only the latest state is told."
)

_ABOUT_PUBLISHING = (
    "Answered once the broker has acknowledged every event. Events keep their order. An invalid event is "
    "published as it came: the worker puts it into the rejection topic with its bytes. One with a score "
    "outside 0 to 1 is rejected here and not published. No Content-Encoding; "
    f"at most {MAX_BODY_BYTES:,} bytes, {MAX_EVENTS:,} events, and {MAX_EVENT_BYTES:,} bytes an event. "
    "Sending the same events again does no harm: duplicates do not count."
)
_REFUSALS = {
    "400": "The body is not JSON, or neither an array nor an object.",
    "401": "The token for publishing is missing or wrong.",
    "403": "Publishing is off, the token is for viewing only, or a page of another site asks.",
    "413": "Too large: the body, one event, or the number of events.",
    "415": "Another Content-Type, or a Content-Encoding.",
    "422": "The broker refuses events for good. Sending the same body again does not help.",
    "429": "Too many events wait for the broker. Send the same body after Retry-After seconds.",
    "503": "The broker did not acknowledge all events. Send the same body after Retry-After seconds.",
}


def openapi() -> dict[str, Any]:
    models: set[type[BaseModel]] = {operation.model for operation in OPERATIONS}
    models |= {Problem, PublishedEvents}
    in_order = sorted(models, key=lambda model: model.__name__)
    references, answers = models_json_schema(
        [(model, "serialization") for model in in_order], ref_template=REFERENCE, by_alias=True
    )
    named = {model: reference for (model, _), reference in references.items()}
    paths = {operation.path: {"get": _get(operation, named[operation.model])} for operation in OPERATIONS}
    paths |= {path: {"get": _stream(path, summary)} for path, summary in STREAMS.items()}
    paths |= {path: {"get": _file_operation(path, ending)} for path, ending in DOWNLOADS.items()}
    paths[EVENTS_PATH] = {"post": _post(named[PublishedEvents])}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Streamer",
            "version": VERSION,
            "description": "Numbers that are not finite are the texts Infinity, -Infinity and "
            "NaN. Ids in paths are percent-encoded, a slash as %2F.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": definitions(EVENT_TYPES) | answers["$defs"],
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Where serve has a --token."},
                "publish_token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "To publish, where serve has a --publish-token or a --token.",
                },
            },
        },
        "security": [{}, {"token": []}],
    }


def _get(operation: Operation, reference: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "array", "items": reference} if operation.many else reference
    if operation.file_name is not None:
        schema = {"type": "string", "description": "A file to keep."}
    says = {operation.media: {"schema": schema}}
    described = _operation(operation.path, operation.summary, says, _query_parameters(operation.query))
    if operation.many and "offset" in operation.query.model_fields:
        total = {"description": "Items on all pages.", "schema": {"type": "integer"}}
        described["responses"]["200"]["headers"] = {TOTAL_HEADER: total}
    return described


def _post(answer: dict[str, Any]) -> dict[str, Any]:
    event = {"oneOf": [{"$ref": REFERENCE.format(model=model.__name__)} for model in EVENT_TYPES]}
    operation = _operation(EVENTS_PATH, "Publish events.", {"application/json": {"schema": answer}}, [])
    operation["responses"] |= {status: _refusal(status, meaning) for status, meaning in _REFUSALS.items()}
    del operation["parameters"]
    return operation | {
        "description": _ABOUT_PUBLISHING,
        "security": [{}, {"publish_token": []}],
        "requestBody": {
            "required": True,
            "content": {
                BodyKind.LINES.value: {"schema": {"type": "string", "description": "One event per line."}},
                BodyKind.JSON.value: {"schema": {"anyOf": [{"type": "array", "items": event}, event]}},
            },
        },
    }


def _refusal(status: str, meaning: str) -> dict[str, Any]:
    after = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return _PROBLEM | {"description": meaning} | ({"headers": after} if status in ("429", "503") else {})


def _stream(path: str, summary: str) -> dict[str, Any]:
    resume = [
        {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}},
        {
            "name": "last_event_id",
            "in": "query",
            "description": "For clients that cannot send the header.",
            "schema": {"type": "string"},
        },
    ]
    says = {"text/event-stream": {"schema": {"type": "string"}}}
    return _operation(path, summary, says, resume, "Until the viewer goes.") | {"description": _ABOUT_STREAMS}


def _file_operation(path: str, ending: str) -> dict[str, Any]:
    media_type = WRITERS[ending][1].partition(";")[0]
    summary = f"All scored trials of a run as {ending}, as `streamer report` writes them."
    return _operation(path, summary, {media_type: {}}, _query_parameters(AsOfQuery), "A file to keep.")


def _operation(
    path: str, summary: str, says: dict[str, Any], parameters: list[dict[str, Any]], what: str = "The answer."
) -> dict[str, Any]:
    """The common parts of all operations.

    `says` has the answer's content by media type. `parameters` are those besides the path.
    """
    names = re.findall(r"{(\w+)}", path)
    in_path = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    return {
        "operationId": "_".join(re.findall(r"\w+", path.removeprefix("/api"))),
        "summary": summary,
        "parameters": in_path + parameters,
        "responses": {"200": {"description": what, "content": says}, "default": _PROBLEM},
    }


_PROBLEM = {
    "description": "What went wrong.",
    "content": {"application/problem+json": {"schema": {"$ref": REFERENCE.format(model="Problem")}}},
}


def _query_parameters(query: type[Query]) -> list[dict[str, Any]]:
    schema = query.model_json_schema()
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": field["description"],
            "schema": {key: value for key, value in field.items() if key not in ("title", "description")},
        }
        for name, field in schema.get("properties", {}).items()
    ]


# -----------------------------------------------------------------------------
# The player of a terminal's recording: a separate page, in a sandbox with its own policy.
#
# It has no origin, no cookies and no way to reach any server. Its policy allows only the scripts and styles
# in it, by their hashes. It contains the recording as JSON that cannot end its element.


_VENDORED = STATIC / "vendor" / "asciinema-player"
_START = (
    'const recorded = JSON.parse(document.getElementById("recorded").textContent);\n'
    'AsciinemaPlayer.create({ data: recorded }, document.getElementById("player"), '
    '{ fit: "width", preload: true, idleTimeLimit: 2 });\n'
)
_STYLE = "html,body{margin:0;background:#121314}\n"


def player(recording: str, name: str) -> Response:
    """The page that plays a recording, given the contents of its `.cast` file and a name for the title."""
    style, script, policy = _fixed()
    data = canonical_json(recording).decode().replace("<", "\\u003c")
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(visible(name))}</title>'
        f'<style>{style}</style><div id="player"></div>'
        f'<script type="application/json" id="recorded">{data}</script>'
        f"<script>{script}</script></html>"
    )
    headers = {
        "content-security-policy": policy,
        "x-frame-options": "SAMEORIGIN",
        "cache-control": "no-store",
    }
    return Response(page, media_type="text/html", headers=headers)


@cache
def _fixed() -> tuple[str, str, str]:
    licence = (_VENDORED / "LICENSE").read_text(encoding="utf-8").strip()
    code = (_VENDORED / "asciinema-player.min.js").read_text(encoding="utf-8")
    style = (_VENDORED / "asciinema-player.css").read_text(encoding="utf-8") + _STYLE
    script = f"/*\n{licence}\n*/\n{code}\n{_START}"
    policy = (
        "default-src 'none'",
        f"script-src {hash_of(script)} 'wasm-unsafe-eval'",
        f"style-src {hash_of(style)}",
        "font-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
        "sandbox allow-scripts",
    )
    return style, script, "; ".join(policy)


# -----------------------------------------------------------------------------
# The application: its paths, with checks around them.


log = logging.getLogger("streamer.web")

Q = TypeVar("Q", bound=Query)

LEAST_MCP = (2, 3)

PLAYER_PATH = "/api/runs/{run}/trials/{trial}/artifacts/{artifact}/player"


def create_app(
    web: Web, *, token: str | None = None, publish_token: str | None = None, host_names: Iterable[str] = ()
) -> ASGIApp:
    """The ASGI application; its lifespan follows and closes `web`.

    Clients need `token` for data and `publish_token` to publish; see `RequestChecks`. `host_names` are names
    of this server besides localhost and addresses.
    """
    document = canonical_json(openapi())
    tools = _tools(web)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        following = asyncio.gather(web.hub.follow(), web.hub.watch_states(), web.follow_large_runs())
        async with tools.running() if tools else nullcontext():
            yield
        web.hub.close()
        web.curves.close()
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
        return _json(canonical_json((await publish_events(web.intake, request)).model_dump()))

    async def updates(request: Request, run: str | None = None) -> Response:
        _refuse_as_of(request)
        address = request.client.host if request.client else ""
        given = {name: v for name, v in request.query_params.items() if name in ViewQuery.model_fields}
        query = checked(ViewQuery, given)
        room = await web.hub.enter(run, address)
        leave = partial(web.hub.leave, run, room, address)
        if request.method == "HEAD":  # the answer has no body, so nothing would tell its end
            leave()
            return Response(media_type="text/event-stream", headers={"cache-control": "no-store"})
        if run is not None:
            web.read_ahead(run)
        return _Stream(web, room, request, leave, view_of(web, room, query, run))

    async def play(request: Request, **names: str) -> Response:
        return player(await recorded(web, **names), names["trial"])

    async def download_as(ending: str, request: Request, run: str) -> Response:
        return await download(web, _query(AsOfQuery, request), run, ending)

    async def show(drawn: str, request: Request, **names: str) -> Response:
        query, draw = SHEETS[drawn]
        try:
            content, status = await draw(web, _query(query, request), **names), 200
        except Exception as error:
            refusal = _explained(web, error)
            said = orjson.loads(refusal.body)
            content, status = sheet(Document(said["title"], [], [said["detail"]], [])), refusal.status_code
        return Response(content, status, media_type="text/html", headers={"cache-control": "no-store"})

    answers: dict[str, Callable[..., Awaitable[Response]]] = {
        **{path: partial(show, path) for path in SHEETS},
        PLAYER_PATH: play,
        **{path: partial(download_as, ending) for path, ending in DOWNLOADS.items()},
        **dict.fromkeys(STREAMS, updates),
        **{operation.path: partial(_answer, web, operation) for operation in OPERATIONS},
    }
    routes = [
        Route("/", _page_file),
        Route("/api/openapi.json", describe),
        Route(SESSION_PATH, session),
        Route(EVENTS_PATH, _endpoint(web, events), methods=["POST"]),
        Route(METRICS_PATH, _endpoint(web, partial(results, web.reader))),
        *(Route(path, _endpoint(web, answer)) for path, answer in answers.items()),
        Route("/static/{path:path}", _page_file),
        *([Route(MCP_PATH, tools, methods=["POST"])] if tools else []),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _http_problem})
    zipped = GZipMiddleware(_Encoded(app), minimum_size=1000, compresslevel=5)
    return RequestChecks(zipped, token, publish_token, host_names)


def _tools(web: Web) -> OverHttp | None:
    try:
        if tuple(map(int, version("mcp").split(".")[:2])) < LEAST_MCP:
            raise ImportError(f"package mcp has version {version('mcp')}")
        from streamer.web.mcp import OverHttp
    except PackageNotFoundError:
        return None
    except (ImportError, ValueError) as error:
        log.warning("No tools at %s: %s. Mend it with: pip install '%s[mcp]'", MCP_PATH, error, DISTRIBUTION)
        return None
    return OverHttp(web)


def _endpoint(web: Web, answer: Callable[..., Awaitable[Response]]) -> Any:
    """An endpoint with the path's parameters; errors become problems."""

    async def endpoint(request: Request) -> Response:
        try:
            return await answer(
                request, **{name: unquote(part) for name, part in request.path_params.items()}
            )
        except Exception as error:
            return _explained(web, error)

    return endpoint


async def _answer(web: Web, operation: Operation, request: Request, **parameters: str) -> Response:
    query = _query(operation.query, request)
    result = await operation.answer(web, query, **parameters)
    if request.headers.get("accept") == DRAWN_TYPE and operation.path in DRAWN:
        drawn = await DRAWN[operation.path](web, query, result, **parameters)
        return Response(orjson.dumps(drawn), media_type=DRAWN_TYPE, headers={"cache-control": "no-store"})
    body = result if isinstance(result, bytes) else canonical_json(values_of(result))
    if operation.file_name is None:
        answer = _json(body)
        if isinstance(result, Page):
            answer.headers[TOTAL_HEADER] = str(result.total)
        return answer
    as_file = {
        "cache-control": "no-store",
        "content-disposition": f'attachment; filename="{operation.file_name}"',
    }
    return Response(body, media_type=operation.media, headers=as_file)


def _query(model: type[Q], request: Request) -> Q:
    if "as_of" not in model.model_fields:
        _refuse_as_of(request)
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        field = model.model_fields.get(name)
        if field is not None and get_origin(field.annotation) is list:
            given.setdefault(name, []).append(value)
        else:
            given[name] = value
    return checked(model, given)


def _refuse_as_of(request: Request) -> None:
    if "as_of" in request.query_params:
        paths = [one.path for one in OPERATIONS if "as_of" in one.query.model_fields]
        raise BadQuery(
            "as_of: this path shows only the current state. Trials as of an earlier time are in "
            f"trials.csv. These paths take as_of: {', '.join([*paths, *DOWNLOADS])}"
        )


def _explained(web: Web, error: Exception) -> Response:
    status = status_of(error)
    if status is None:
        log.exception("An answer failed")
        return problem(500, f"An error of this server's own, {type(error).__name__}; its log says more")
    return problem(status, refusal(web, error), again=isinstance(error, Refused) and error.again)


async def _http_problem(request: Request, error: Exception) -> Response:
    status, headers = (error.status_code, error.headers) if isinstance(error, HTTPException) else (500, None)
    use = f"Use GET, or POST to {EVENTS_PATH} or {MCP_PATH}"
    answer = problem(
        status, {404: "/api/openapi.json lists the paths", 405: use}.get(status, "This cannot be answered")
    )
    answer.headers.update(headers or {})
    return answer


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json", headers={"cache-control": "no-store"})


@cache
def _first_page() -> tuple[str, str]:
    """The page in its first version for a visitor, and its content security policy.

    Its styles and the script of its colours are inline, because a browser paints nothing without them, and as
    files they came last of twenty simultaneous requests.
    """
    style, theme = page_styles(), static_file("js/theme.js")
    page = Template(static_file("index.html")).substitute(style=style, theme=theme)
    return page, content_security_policy([hash_of(theme)], [hash_of(style)])


JOINED: dict[str, Callable[[], str]] = {
    "index.html": lambda: _first_page()[0],
    "js/shared.js": shared_module,
    "css/page.css": page_styles,
}


class _Packed(NamedTuple):
    """A file of the page, compressed in advance: a first visit requests twenty of them at once."""

    content: bytes
    zipped: bytes
    media_type: str | None
    tag: str
    headers: Mapping[str, str]


@cache
def _paths() -> frozenset[str]:
    """Every path below `static`; only these are cached, whatever clients ask for."""
    return frozenset(JOINED) | {
        file.relative_to(STATIC).as_posix() for file in STATIC.rglob("*") if file.is_file()
    }


@cache
def _packed(path: str) -> _Packed:
    content = JOINED[path]().encode() if path in JOINED else (STATIC / path).read_bytes()
    zipped = gzip.compress(content, mtime=0)
    tag = f'"{hashlib.sha256(content).hexdigest()}"'
    headers = {"content-security-policy": _first_page()[1]} if path == "index.html" else {}
    return _Packed(content, zipped, guess_type(path)[0], tag, headers)


async def _page_file(request: Request) -> Response:
    """A file of the page. Browsers request it every time, and get a 304 if it has not changed."""
    path = request.path_params.get("path", "index.html")
    if path not in _paths():
        raise HTTPException(404)
    file = _packed(path)
    headers = {"cache-control": "no-cache", "etag": file.tag, "vary": "Accept-Encoding", **file.headers}
    if file.tag in request.headers.get("if-none-match", ""):  # alone, in a list, or weakened by a proxy
        return Response(status_code=304, headers=headers)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.content, media_type=file.media_type, headers=headers)
    headers["content-encoding"] = "gzip"
    return Response(file.zipped, media_type=file.media_type, headers=headers)


class _Encoded:
    """Routes by the raw path, so that ids may contain `%2F`; endpoints decode the parts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path")
        if scope["type"] == "http" and raw and scope["path"].startswith(DATA_PATHS):
            scope = {**scope, "path": raw.decode("ascii", "replace")}
        await self._app(scope, receive, send)


AppStatus.enable_automatic_graceful_drain = False
"""Off, because the hub ends its streams itself, and browsers report streams that the library cuts."""


class _Stream(EventSourceResponse):
    """Server-sent events for one viewer, who always leaves the room; a ping every 15 seconds."""

    def __init__(
        self, web: Web, room: Room, request: Request, leave: Callable[[], None], view: View | None
    ) -> None:
        told = request.headers.get("last-event-id") or request.query_params.get("last_event_id")
        super().__init__(web.hub.stream(room, told, view), sep="\n")
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


# -----------------------------------------------------------------------------
# Runs the application on uvicorn until SIGTERM or Ctrl-C.


GRACE_SECONDS = 5

GARBAGE_THRESHOLDS = (50_000, 20, 100)
"""Thresholds for long-lived rows without cycles; Python's take a fifth of the time to read a large run."""


def run_server(
    settings: Settings,
    *,
    host: str = DEFAULT_HOST,
    port: int | None = None,
    token: str | None = None,
    publish_token: str | None = None,
    host_names: Iterable[str] = (),
    connections_per_address: int = MOST_PER_ADDRESS,
    artifacts: Sequence[Path] = (),
    echo: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Any `host` other than loopback needs a token. Without `port`, it is 8720, or a free one if that is taken.
    Clients need `token` for data and `publish_token` to publish. Without a publish token, only this machine
    may publish, and only without `token`.

    `connections_per_address` limits connections and streams. A proxy that `settings.trusted_proxies` omits
    counts as one address. `artifacts` are directories of runs, or their parents, whose files the page may
    show.

    Raises:
        ServeError: the options do not allow a start.
        OtherProtocol: only one of Redis and the URL uses TLS.
    """
    check_tokens(host, token, publish_token)
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    asyncio.run(check_protocol(settings.redis, settings.redis_options()))
    with listening(host, port) as listener:
        connections = Connections(connections_per_address, proxies=settings.trusted_proxies)
        web = Web(settings, artifacts, connections)
        app = create_app(web, token=token, publish_token=publish_token, host_names=[host, *host_names])
        config = configured(app, connections)
        port = listener.getsockname()[1]
        first, *others = announcement(host, port, token, on_terminal=sys.stdout.isatty())
        for line in (f"streamer serves {first}  (Ctrl-C ends it)", *others):
            echo(line)
        Server(config, web).run(sockets=[listener])


def configured(app: ASGIApp, connections: Connections) -> uvicorn.Config:
    """The uvicorn configuration of the application, with limits."""
    return uvicorn.Config(
        app,
        http=cast(Any, partial(LimitedProtocol, connections)),
        log_level=logging.ERROR,  # bad requests and broken connections are not worth a log line
        access_log=False,
        ws="none",
        server_header=False,
        proxy_headers=bool(connections.proxies),
        forwarded_allow_ips=connections.proxies,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        backlog=BACKLOG,
    )


class Server(uvicorn.Server):
    """A server that ends its streams first, because viewers would keep it running."""

    def __init__(self, config: uvicorn.Config, web: Web) -> None:
        super().__init__(config)
        self._web = web

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._web.hub.close()
        await super().shutdown(sockets)
