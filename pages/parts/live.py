"""The routes behind the live pages: the event stream, single frames, commands, and the files of the canvas.

A stream sends at most ten frames a second and always the newest; while nothing changes it sends a sign of life each
second, so that a page can say what the engine does. Streams only read; what moves the engine goes through ``command``.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from pages.parts.desk import Desk
from pages.parts.guard import refusal
from pages.parts.panels import panel_routes
from pages.parts.recordings import MAX_UPLOAD

FRAME_S = 0.1
QUIET_S = 1.0
RECORDING = "application/octet-stream"
_WEB = Path(__file__).parent / "web"
_TYPES = {".js": "text/javascript", ".css": "text/css"}
_FRESH = {"Cache-Control": "no-cache"}


class _Answers:
    """What each route answers, over one desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def live(self, request: Request) -> Response:
        """The stream of frames of one tab."""
        query = request.query_params
        follow = query.get("cursor", "live") == "live"
        stream = _stream(request, self._desk, follow, query.get("selected", "auto"), query.get("tab", ""))
        return StreamingResponse(stream, media_type="text/event-stream", headers=_FRESH | {"X-Accel-Buffering": "no"})

    async def one_frame(self, request: Request) -> Response:
        """One frame, by record or by step."""
        query = request.query_params
        where = {name: int(query[name]) for name in ("seq", "step") if query.get(name, "").isdigit()}
        frame = await asyncio.to_thread(
            self._desk.frame, query.get("selected", "auto"), recording=query.get("recording", ""), **where
        )
        return JSONResponse(frame, headers=_FRESH) if frame else PlainTextResponse("no such step", 404)

    async def checks(self, request: Request) -> Response:
        """The self-check chips of a run."""
        found = await asyncio.to_thread(self._desk.checks, request.query_params.get("recording", ""))
        return PlainTextResponse("no run", 404) if found is None else JSONResponse(found, headers=_FRESH)

    async def save(self, request: Request) -> Response:
        """A run as a file."""
        data = await asyncio.to_thread(self._desk.save, request.query_params.get("recording", ""))
        if data is None:
            return PlainTextResponse("no run", 404)
        name = {"Content-Disposition": 'attachment; filename="flightdeck.fdtrace"'}
        return Response(data, media_type=RECORDING, headers=_FRESH | name)

    async def shipped(self, request: Request) -> Response:
        """The recordings of this tree."""
        return JSONResponse(self._desk.recordings.shipped(), headers=_FRESH)

    async def upload(self, request: Request) -> Response:
        """Open a recording that the browser sends."""
        barred = refusal(request, st.get_option("server.address"), RECORDING)
        if barred:
            return JSONResponse({"error": "notice.barred", "detail": barred}, 403)
        try:
            data = await _body(request, MAX_UPLOAD)
            title = request.query_params.get("title", "")[:80]
            return JSONResponse(await asyncio.to_thread(self._desk.recordings.open_bytes, title, data))
        except ValueError as error:
            return JSONResponse({"error": "notice.invalid", "detail": str(error)}, 400)

    async def command(self, request: Request) -> Response:
        """Move the engine."""
        barred = refusal(request, st.get_option("server.address"))
        if barred:
            return JSONResponse({"error": "notice.barred", "detail": barred}, 403)
        try:
            asked = json.loads(await request.body())
        except ValueError:
            asked = None
        if not isinstance(asked, dict):
            return JSONResponse({"error": "notice.invalid", "detail": "a JSON object"}, 400)
        status, answer = await asyncio.to_thread(self._desk.command, asked)
        return JSONResponse(answer, status)


def routes(desk: Desk) -> list[Route]:
    """The routes, all below ``/flightdeck/``, over one desk."""
    answers = _Answers(desk)
    return [
        Route("/flightdeck/live", answers.live),
        Route("/flightdeck/frame", answers.one_frame),
        Route("/flightdeck/command", answers.command, methods=["POST"]),
        Route("/flightdeck/checks", answers.checks),
        Route("/flightdeck/recordings", answers.shipped),
        Route("/flightdeck/recording", answers.save, methods=["GET"]),
        Route("/flightdeck/recording", answers.upload, methods=["POST"]),
        Route("/flightdeck/web/{name}", _web_file),
        *panel_routes(desk.look_at, desk.recordings),
    ]


async def _stream(request: Request, desk: Desk, follow: bool, selected: str, tab: str) -> AsyncIterator[str]:
    seen, quiet = None, 0.0
    while not await request.is_disconnected():
        mark, message = await asyncio.to_thread(desk.message, tab, follow, selected, seen)
        if mark != seen or quiet >= QUIET_S:
            seen, quiet = mark, 0.0
            yield f"data: {json.dumps(message, separators=(',', ':'))}\n\n"
        await asyncio.sleep(FRAME_S)
        quiet += FRAME_S


async def _body(request: Request, most: int) -> bytes:
    """The body; what is too large is not read to its end. Raises ``ValueError``."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise ValueError(f"a recording of at most {most // 2**20} MiB")
    return bytes(data)


async def _web_file(request: Request) -> Response:
    path = _WEB / request.path_params["name"]
    if path.parent != _WEB or path.suffix not in _TYPES or not path.is_file():
        return PlainTextResponse("not found", 404)
    return FileResponse(path, media_type=_TYPES[path.suffix], headers=_FRESH)
