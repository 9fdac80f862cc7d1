"""Just enough HTTP/1.1 to read a stream of server-sent events without another dependency."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from engine.errors import InvalidRequest

LOOPBACK = ("localhost", "127.0.0.1", "::1")
CONNECT_S = 10.0
LONGEST_LINE = 2**22


class ServerError(RuntimeError):
    """The server could not be reached, refused a request or broke off; one line says which."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where an OpenAI-compatible server answers: everything in front of ``/v1``."""

    url: SplitResult

    @property
    def port(self) -> int:
        """The port of the URL, or that of its scheme."""
        return self.url.port or (443 if self.url.scheme == "https" else 80)

    async def json(self, path: str) -> dict:
        """What GET ``path`` answers. Raises ``ServerError``."""
        async with self._request("GET", path, b"") as lines:
            return json.loads("".join([line async for line in lines]) or "{}")

    async def events(self, path: str, body: dict) -> AsyncIterator[dict]:
        """The data of each server-sent event that POST ``path`` answers with. Raises ``ServerError``."""
        async with self._request("POST", path, json.dumps(body).encode()) as lines:
            async for line in lines:
                data = line.removeprefix("data:").strip()
                if not line.startswith("data:") or data == "[DONE]":
                    continue
                event = json.loads(data)
                if "error" in event:
                    raise ServerError(_message(event))
                yield event

    @asynccontextmanager
    async def _request(self, method: str, path: str, body: bytes) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of the answer to one request, which has a connection of its own."""
        reader, writer = await self._connect()
        try:
            writer.write(self._head(method, path, body) + body)
            await writer.drain()
            status, headers = await _read_head(reader)
            lines = _lines(reader, headers.get("transfer-encoding", "").lower() == "chunked")
            if status != 200:
                text = "".join([line async for line in lines])
                raise ServerError(f"{method} {path}: status {status}: {_message(_parsed(text))}")
            yield lines
        except (ConnectionError, asyncio.IncompleteReadError, ValueError) as error:
            raise ServerError(f"{method} {path}: the server broke off ({type(error).__name__}: {error})") from error
        finally:
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context() if self.url.scheme == "https" else None
        opening = asyncio.open_connection(self.url.hostname, self.port, ssl=context, limit=LONGEST_LINE)
        try:
            return await asyncio.wait_for(opening, CONNECT_S)
        except (OSError, TimeoutError) as error:
            raise ServerError(f"nothing answers at {self.url.geturl()} ({error or 'no answer in time'})") from error

    def _head(self, method: str, path: str, body: bytes) -> bytes:
        lines = [f"{method} {self.url.path}{path} HTTP/1.1", f"Host: {self.url.netloc}", "Connection: close"]
        lines += ["Accept: */*", "Content-Type: application/json", f"Content-Length: {len(body)}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def server_at(url: str, remote: bool = False) -> Server:
    """The server of a URL such as ``http://127.0.0.1:8000`` (with or without ``/v1``).

    Args:
        remote: whether the user asked for a machine other than this one.

    Raises:
        InvalidRequest: not such a URL, or another machine without ``remote``.
    """
    parts = urlsplit(url.rstrip("/").removesuffix("/v1"))
    try:
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port)
    except ValueError:
        usable = False
    if not usable:
        raise InvalidRequest("url", "http://HOST:PORT of an OpenAI-compatible server", url)
    if parts.hostname not in LOOPBACK and not remote:
        raise InvalidRequest("url", "a server on this machine, or another one together with --remote", url)
    return Server(parts)


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Status and headers (names in lower case)."""
    first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    if not first.startswith("HTTP/1."):
        raise ValueError(f"not an HTTP answer: {first[:40]!r}")
    pairs = (line.partition(":") for line in rest if line)
    return int(first.split()[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _lines(reader: asyncio.StreamReader, chunked: bool) -> AsyncIterator[str]:
    """The lines of a body that ends with the connection or with an empty chunk."""
    rest = b""
    async for piece in _chunks(reader) if chunked else _pieces(reader):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.decode()
    if rest:
        yield rest.decode()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)


async def _pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while piece := await reader.read(2**16):
        yield piece


def _parsed(text: str) -> dict:
    try:
        found = json.loads(text)
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def _message(body: dict) -> str:
    """The words of an error in OpenAI's shape, or in that of servers which deviate from it."""
    error = body.get("error", body)
    return str(error.get("message") or error.get("detail") or error) if isinstance(error, dict) else str(error)
