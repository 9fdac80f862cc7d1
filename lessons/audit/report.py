"""The whole audit: for each claim its finding, or what is lacking; and the audit as a table to export."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Literal

from lessons.audit.finding import Finding, Provenance
from lessons.audit.registry import Sources, all_experiments, lacking, origin, run
from lessons.audit.rows import Claim, claims
from lessons.audit.words import say

State = Literal["answered", "unmeasured", "missing"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A claim and how far it is: where its answer comes from, or the measurements that its experiment still lacks."""

    claim: Claim
    state: State
    needs: tuple[str, ...] = ()
    provenance: Provenance | None = None


def entries(sources: Sources) -> list[Entry]:
    """Every claim in the order of the file. Runs no experiment."""
    return [_entry(claim, sources) for claim in claims().values()]


def _entry(claim: Claim, sources: Sources) -> Entry:
    if claim.experiment is None:
        return Entry(claim, "missing")
    needs = tuple(lacking(claim.experiment, sources))
    if needs:
        return Entry(claim, "unmeasured", needs)
    return Entry(claim, "answered", provenance=origin(claim.experiment, sources))


def needs_of(claim: Claim) -> tuple[str, ...]:
    """Measurements behind a claim, whether there already or not."""
    return all_experiments()[claim.experiment].needs if claim.experiment else ()


def finding(claim: Claim, sources: Sources) -> Finding | None:
    """What the experiment of a claim says; None without one, or while a measurement is lacking."""
    if claim.experiment is None:
        return None
    return _constant(claim.experiment) if not needs_of(claim) else run(claim.experiment, sources)


@cache
def _constant(experiment: str) -> Finding:
    """The finding of an experiment that needs nothing is always the same."""
    return run(experiment, {})


def table(sources: Sources, language: str) -> list[dict]:
    """One line per claim: what is said, the verdict on it, and the finding where there is one."""
    return [_line(entry, finding(entry.claim, sources), language) for entry in entries(sources)]


def _line(entry: Entry, found: Finding | None, language: str) -> dict:
    claim = entry.claim
    line = {"id": claim.id, "article": claim.article, "lesson": claim.lesson, "verdict": claim.verdict}
    line |= {"claim": claim.claim[language], "note": claim.note[language], "state": entry.state}
    line |= {"missing": claim.missing[language] if claim.missing else "", "needs": list(entry.needs)}
    line |= {"outcome": "", "finding": "", "provenance": "", "where": "", "formula": "", "numbers": {}}
    if found is not None:
        numbers = {name: {"value": value, "unit": unit} for name, (value, unit) in found.numbers.items()}
        line |= {"finding": say(found, language), "numbers": numbers}
        line |= {name: asdict(found)[name] for name in ("outcome", "provenance", "where", "formula")}
    return line


def as_json(sources: Sources, language: str) -> str:
    """The table as a JSON document."""
    return json.dumps({"schema": 1, "claims": table(sources, language)}, ensure_ascii=False, indent=1)


def as_csv(sources: Sources, language: str) -> str:
    """The table as CSV; numbers as ``name=value unit`` in one cell."""
    lines, out = table(sources, language), io.StringIO()
    writer = csv.DictWriter(out, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    for line in lines:
        writer.writerow(line | {"needs": " ".join(line["needs"]), "numbers": _cell(line["numbers"])})
    return out.getvalue()


def _cell(numbers: Mapping[str, Mapping]) -> str:
    return "; ".join(f"{name}={each['value']:.6g} {each['unit']}".rstrip() for name, each in numbers.items())
