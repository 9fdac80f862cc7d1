"""Who may send commands: pages of this very server, in JSON. Keeps other web sites from driving the engine."""

from urllib.parse import urlsplit

from starlette.requests import Request

LOOPBACK = {"127.0.0.1", "localhost", "::1", "[::1]"}


def refusal(request: Request, bound_to: str | None, content: str = "application/json") -> str | None:
    """Why a command must not be taken, or None.

    Args:
        request: the HTTP request.
        bound_to: the address that the server was told to listen on; it is an allowed host besides loopback.
        content: the type that the body must have; never one that a form of another site can send.
    """
    host = request.headers.get("host", "")
    name = urlsplit(f"//{host}").hostname or ""
    if name not in LOOPBACK | {bound_to}:
        return "host"
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return "origin"
    if request.headers.get("content-type", "").split(";")[0].strip() != content:
        return "content-type"
    return None
