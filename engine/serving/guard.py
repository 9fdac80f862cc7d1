"""Who may talk to the routes: this machine only, and no web page of another origin."""

import json
from collections.abc import Awaitable, Callable
from functools import wraps
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.errors import EngineStopped, FlightdeckError, InvalidRequest

LOOPBACK = ("localhost", "127.0.0.1", "::1")
Endpoint = Callable[[Request], Awaitable[Response]]


def guarded(endpoint: Endpoint) -> Endpoint:
    """The endpoint behind the checks of Host and Origin, with errors in OpenAI's shape."""

    @wraps(endpoint)
    async def checked(request: Request) -> Response:
        if not _is_local(request):
            return error_response(403, "this server answers to its own machine and origin only", "forbidden")
        try:
            return await endpoint(request)
        except EngineStopped as error:
            return error_response(503, str(error), "service_unavailable")
        except FlightdeckError as error:
            return error_response(400, str(error), param=getattr(error, "field", None))

    return checked


async def json_body(request: Request) -> dict:
    """The body of a POST as a dict. Raises ``InvalidRequest`` unless it is declared and parses as a JSON object."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise InvalidRequest("content-type", "application/json", content_type)
    try:
        body = json.loads(await request.body())
    except ValueError as error:
        raise InvalidRequest("body", f"JSON ({error})") from error
    if not isinstance(body, dict):
        raise InvalidRequest("body", "a JSON object", type(body).__name__)
    return body


def error_body(message: str, kind: str = "invalid_request_error", param: str | None = None) -> dict:
    """OpenAI's shape of an error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}


def error_response(
    status: int, message: str, kind: str = "invalid_request_error", param: str | None = None
) -> JSONResponse:
    """An error as a response."""
    return JSONResponse(error_body(message, kind, param), status)


def _is_local(request: Request) -> bool:
    """Host is a name of this machine (DNS rebinding), and Origin, which browsers send, is the server's own."""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    return _hostname(host) in LOOPBACK and (origin is None or urlsplit(origin).netloc == host)


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
