"""Typed errors. Each one carries what a caller needs to act; the message is one line that a person can read."""

from collections.abc import Iterable


class FlightdeckError(Exception):
    """Base of every error that the engine raises on purpose."""


class InvalidRequest(FlightdeckError, ValueError):
    """Bad input, raised in the caller's thread before any work starts.

    Args:
        field: name of the offending field, e.g. ``"top_p"``.
        allowed: what would be accepted, e.g. ``"0 < top_p <= 1"``.
        got: the rejected value.
    """

    def __init__(self, field: str, allowed: str, got: object = None) -> None:
        self.field, self.allowed, self.got = field, allowed, got
        super().__init__(f"{field}: {allowed}" if got is None else f"{field}: {allowed}; got {got!r}")

    def __reduce__(self) -> tuple:
        return type(self), (self.field, self.allowed, self.got)


class RequestRefused(FlightdeckError):
    """A well-formed request that this engine can never run, e.g. longer than the whole KV pool.

    Args:
        reason: a code of ``engine.trace.events.Reason`` in lower case, e.g. ``"no_free_blocks"``.
        need: how much the request needs (blocks or tokens, as the reason says).
        have: how much there is at most.
    """

    def __init__(self, reason: str, need: int, have: int) -> None:
        self.reason, self.need, self.have = reason, need, have
        super().__init__(f"request refused ({reason}): needs {need}, at most {have} available")

    def __reduce__(self) -> tuple:
        return type(self), (self.reason, self.need, self.have)


class UnsupportedModel(FlightdeckError):
    """The checkpoint cannot be served; the message names what is supported."""

    def __init__(self, what: str, supported: Iterable[str] = ()) -> None:
        self.what, self.supported = what, tuple(supported)
        tail = f"; supported: {', '.join(self.supported)}" if self.supported else ""
        super().__init__(what + tail)

    def __reduce__(self) -> tuple:
        return type(self), (self.what, self.supported)


class OutOfMemory(FlightdeckError):
    """The device has too little memory.

    Args:
        lower: the field to lower, e.g. ``"pool_blocks"``.
        by: by how much, in words with a unit, e.g. ``"at least 3.2 GiB"``.
    """

    def __init__(self, lower: str, by: str) -> None:
        self.lower, self.by = lower, by
        super().__init__(f"out of memory: lower {lower} by {by}")

    def __reduce__(self) -> tuple:
        return type(self), (self.lower, self.by)


class EngineStopped(FlightdeckError):
    """The engine process ended (crash, kill, or unload) while somebody waited for it."""
