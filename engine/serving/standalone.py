"""``python -m engine serve``: the routes without the app, on this machine only."""

import socket
import sys

import uvicorn
from starlette.applications import Starlette

from engine.config import EngineConfig
from engine.driver import Driver
from engine.errors import InvalidRequest
from engine.serving import metrics, openai
from engine.serving.guard import LOOPBACK


def application(driver: Driver) -> Starlette:
    """All routes over one driver."""
    return Starlette(routes=[*openai.routes(lambda: driver), *metrics.routes(lambda: driver)])


def run(config: EngineConfig, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Load the model and serve until interrupted.

    Raises:
        InvalidRequest: ``host`` is not a loopback address.
        UnsupportedModel, OutOfMemory, EngineStopped: the model cannot be loaded.
        SystemExit: 1 with one line when the port is in use.
    """
    if host not in LOOPBACK:
        raise InvalidRequest("host", f"a loopback address ({', '.join(LOOPBACK)})", host)
    listener = _listen(host, port)  # before the model: a used port should not cost a load
    driver = Driver(config)
    driver.start()
    try:
        _show_progress(driver)
        shown = f"[{host}]" if ":" in host else host
        print(f"serving http://{shown}:{listener.getsockname()[1]}/v1 (Ctrl-C ends)", file=sys.stderr)
        server = uvicorn.Server(uvicorn.Config(application(driver), log_level="warning"))
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        driver.stop("the server was stopped")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        print(f"error: cannot serve on port {port}: {error.strerror.lower()}; choose another --port", file=sys.stderr)
        raise SystemExit(1) from error
    return listener


def _show_progress(driver: Driver) -> None:
    """Say what is loading, once a second at most, until the engine is ready."""
    shown = ""
    while True:
        try:
            return driver.wait_ready(timeout=1.0)
        except TimeoutError:
            text, fraction = driver.progress
            line = f"{text} ({fraction:.0%})"
            if line != shown:
                print(line, file=sys.stderr)
                shown = line
