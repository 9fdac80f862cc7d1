"""In which order requests wait. A policy is one number per request: the lower one stands in front.

The number never changes while a request waits, so a place in the queue is found by bisection and nothing is ever
sorted again. That holds for aging too: with one level gained per ``aging`` of waiting, a request stands in front of
another one when ``priority - (now - arrived) / aging`` is lower, and ``now`` is the same on both sides.
"""

from typing import Protocol

from engine.config import SchedulingConfig
from engine.request import Request


class QueueOrder(Protocol):
    """Compares waiting requests. Equal ones stand as they arrived, a preempted one in front of its equals."""

    def key(self, request: Request) -> int:
        """The number of ``request``; the lowest is admitted first."""


class ByPriority(QueueOrder):
    """By priority alone (lower first): while more important requests keep coming, the others wait for ever."""

    def key(self, request: Request) -> int:
        return request.priority


class ByTime(QueueOrder):
    """By arrival plus ``ns_per_priority`` for each unit of priority.

    Aging: a unit is a level, and no request is overtaken by one that came later than its lead in levels is worth.
    Earliest deadline first: a unit is a millisecond, and the priority of a request says how long it may wait.
    """

    def __init__(self, ns_per_priority: int) -> None:
        self.ns_per_priority = ns_per_priority

    def key(self, request: Request) -> int:
        return request.arrived_ns + request.priority * self.ns_per_priority


def policy(config: SchedulingConfig) -> QueueOrder:
    """The queue order of a configuration."""
    if config.queue_order == "deadline":
        return ByTime(1_000_000)
    return ByTime(round(config.aging_s * 1e9)) if config.aging_s else ByPriority()
