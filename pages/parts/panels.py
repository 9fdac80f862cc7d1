"""The routes of the panels below the Theatre: asked only while a panel is open, so that frames stay small.

All read a run, an opened recording or the engine's newest. Questions start a simulation and need the guard of commands.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

import streamlit as st
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from engine.trace.event_log import GROUPS, EventLog
from engine.trace.replay import to_html
from engine.trace.timeline import Timeline
from engine.trace.tree_view import tree_view
from pages.parts.guard import refusal
from pages.parts.recordings import Recordings
from pages.parts.what_if import WhatIf
from pages.parts.words import LANGUAGES

_FRESH = {"Cache-Control": "no-cache"}
LookAt = Callable[[str], Timeline | None]


class _Panels:
    """What each route answers.

    Args:
        look_at: the run that a tab looks at, by the name of an opened recording or ``""``.
        recordings: where simulated runs are kept.
    """

    def __init__(self, look_at: LookAt, recordings: Recordings) -> None:
        self._look_at, self._what_if = look_at, WhatIf(recordings)
        self._logs: WeakKeyDictionary[Timeline, EventLog] = WeakKeyDictionary()
        self._lock = threading.Lock()

    async def log(self, request: Request) -> Response:
        """The lines of the event log around a step, filtered and searched."""
        query = request.query_params
        groups = query.get("groups", ",".join(GROUPS)).split(",")
        asked = groups, query.get("search", ""), _step(request)
        return await self._of_run(request, lambda run: self._log(run).page(run, *asked))

    async def tree(self, request: Request) -> Response:
        """The prefix tree at the end of a step."""
        return await self._of_run(request, lambda run: tree_view(run.state_at(run.seq_of_step(_step(request)))))

    async def replay(self, request: Request) -> Response:
        """The run as one HTML file."""
        run = self._look_at(request.query_params.get("recording", ""))
        if run is None:
            return PlainTextResponse("no run", 404)
        spoken = request.query_params.get("lang", "")
        page = await asyncio.to_thread(lambda: to_html(run.frozen(), spoken if spoken in LANGUAGES else "en"))
        name = {"Content-Disposition": 'attachment; filename="flightdeck.html"'}
        return Response(page, media_type="text/html", headers=_FRESH | name)

    async def ask(self, request: Request) -> Response:
        """Begin to answer a question to a run."""
        barred = refusal(request, st.get_option("server.address"))
        if barred:
            return JSONResponse({"error": "notice.barred", "detail": barred}, 403)
        try:
            asked = json.loads(await request.body())
            run = self._look_at(str(asked.get("recording", "")))
            if run is None:
                raise ValueError("recording: an opened recording, or none while the engine has a run")
            return JSONResponse(self._what_if.ask(run, str(asked.get("question"))))
        except (ValueError, AttributeError) as error:
            return JSONResponse({"error": "notice.invalid", "detail": str(error)}, 400)

    async def answer(self, request: Request) -> Response:
        """How far the answer to a question is."""
        number = request.query_params.get("number", "")
        found = self._what_if.answer(int(number)) if number.isdigit() else None
        return PlainTextResponse("no such question", 404) if found is None else JSONResponse(found, headers=_FRESH)

    async def _of_run(self, request: Request, make: Callable[[Timeline], dict]) -> Response:
        run = self._look_at(request.query_params.get("recording", ""))
        if run is None:
            return PlainTextResponse("no run", 404)
        return JSONResponse(await asyncio.to_thread(make, run), headers=_FRESH)

    def _log(self, run: Timeline) -> EventLog:
        with self._lock:
            if run not in self._logs:
                self._logs[run] = EventLog()
            return self._logs[run]


def _step(request: Request) -> int:
    asked = request.query_params.get("step", "")
    return int(asked) if asked.isdigit() else 0


def panel_routes(look_at: LookAt, recordings: Recordings) -> list[Route]:
    """The routes, all below ``/flightdeck/``."""
    panels = _Panels(look_at, recordings)
    return [
        Route("/flightdeck/log", panels.log),
        Route("/flightdeck/tree", panels.tree),
        Route("/flightdeck/replay", panels.replay),
        Route("/flightdeck/what_if", panels.answer, methods=["GET"]),
        Route("/flightdeck/what_if", panels.ask, methods=["POST"]),
    ]
