"""Decides: which requests run in a step, how many tokens each, and where their KV lives. No torch."""

from engine.scheduling.results import Applied
from engine.scheduling.scheduler import Scheduler

__all__ = ["Applied", "Scheduler"]
