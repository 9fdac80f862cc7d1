"""Makes the recordings of the lessons: ``python -m lessons.record [L8 ...]`` runs each from its first cell to its last
and keeps what its experiments returned, with device, driver, versions and commit inside.

Those without a GPU then see these numbers, badge Recorded.
"""

import argparse
import sys
from pathlib import Path

from lessons.book import Lesson, lesson, plans, written
from lessons.headless import HeadlessStage, run_through
from lessons.kit.perform import usual
from lessons.kit.say import Say
from lessons.kit.shelf import RECORDINGS, Shelf


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m lessons.record", description=__doc__.partition(":")[0])
    parser.add_argument("lessons", nargs="*", metavar="ID", help="L0 to L18; all that are written without any")
    parser.add_argument("--into", type=Path, default=RECORDINGS, help="folder (default: lessons/recordings)")
    asked = parser.parse_args(arguments)
    known = {plan.id for plan in plans() if plan.path is not None}
    unknown = [name for name in asked.lessons if name not in known]
    if unknown:
        print(f"lessons: some of {', '.join(sorted(known))}, not {unknown[0]!r}", file=sys.stderr)
        return 2
    shelf = Shelf(asked.into, recorded=True)
    for each in [lesson(name) for name in asked.lessons] or written():
        print(each.id, file=sys.stderr)
        for path in record(each, HeadlessStage(each, choose=usual, report=_line), shelf):
            print(path)
    return 0


def record(each: Lesson, stage: HeadlessStage, shelf: Shelf) -> list[Path]:
    """Run one lesson and keep the results of its experiments. Raises ``RuntimeError`` when a cell fails."""
    run_through(each, stage)
    return [shelf.put(each.id, name, kept) for name, kept in stage.kept.items()]


def _line(what: str | Say, done: float) -> None:
    text = what.said({}) if isinstance(what, Say) else what
    print(f"\r{text[:60]:60} {100 * done:3.0f} %", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
