"""The self-checks of a race: those of each scheduler's run, put together."""

from collections.abc import Iterable

from engine.trace.checks import Check, checks
from engine.trace.timeline import Timeline
from engine.workload.race import SCHEDULERS
from pages.parts.words import t

NAMES = {batching: name for name, batching in SCHEDULERS.items()}


def scheduler_of(run: Timeline) -> str | None:
    """The scheduler's name, from the facts of the RUN record."""
    return NAMES.get(run.info.get("config", {}).get("scheduling", {}).get("batching", ""))


def checked(runs: Iterable[Timeline]) -> dict[str, list[Check]]:
    """The self-checks of the newest run of each scheduler, by its name."""
    newest = {name: run for run in runs if run.last_step and (name := scheduler_of(run))}
    return {name: checks(run) for name, run in newest.items()}


def chips(found: dict[str, list[Check]]) -> list[dict]:
    """One entry for each check: whether it holds in all runs, and in which it does not."""
    lines = zip(*found.values(), strict=True) if found else ()
    return [_chip(list(found), list(line)) for line in lines]


def _chip(names: list[str], line: list[Check]) -> dict:
    judged = [check for check in line if check.ok is not None]
    bad = [t(f"arena.name.{name}") for name, check in zip(names, line, strict=True) if check.ok is False]
    if bad:
        note = t("check.not_in", names=", ".join(bad))
    elif line[0].id == "samples":
        note = t("check.samples_is", left=f"{line[0].left:,.0f}", right=f"{line[0].right:,.0f}")
    else:
        note = t("check.in_runs", n=len(judged), of=len(line)) if judged else t("check.open")
    return {
        "id": line[0].id,
        "ok": False if bad else True if judged else None,
        "words": t(f"check.{line[0].id}"),
        "note": note,
    }
