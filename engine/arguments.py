"""Types of command line arguments: each says in its error what it accepts."""

import argparse
from collections.abc import Callable


def whole(low: int) -> Callable[[str], int]:
    """An argparse type: a whole number of at least ``low``."""

    def parse(text: str) -> int:
        if not text.lstrip("-").isdigit() or int(text) < low:
            raise argparse.ArgumentTypeError(f"a whole number of at least {low}; got {text!r}")
        return int(text)

    return parse


def between(low: float, high: float) -> Callable[[str], float]:
    """An argparse type: a number in ``low..high``."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"a number in {low:g}..{high:g}; got {text!r}")
        return value

    return parse
