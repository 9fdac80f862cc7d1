"""The rows of ``claims.yaml``, read once and checked: every claim has an experiment, or says what it lacks."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

FILE = Path(__file__).resolve().parents[1] / "claims.yaml"
LANGUAGES = ("en", "zh")
ARTICLES = ("S0", "S1", "S2", "S4")
VERDICTS = ("OK", "CTX", "VAGUE", "WRONG", "LEGACY", "LOST", "n/a")

Text = Mapping[str, str]  # language -> words


@dataclass(frozen=True, slots=True)
class Claim:
    """What an article states, and what is to be said about it. Exactly one of ``experiment`` and ``missing``."""

    id: str  # article and number: S1-33
    claim: Text
    verdict: str  # of VERDICTS
    note: Text  # the correction, or under which condition it is true
    lesson: str  # L0 ... L18, empty for none
    experiment: str | None  # id of an experiment
    missing: Text | None  # what it would take to check it

    @property
    def article(self) -> str:
        """S0, S1, S2 or S4."""
        return self.id.partition("-")[0]


@cache
def articles() -> dict[str, Text]:
    """Article -> its title."""
    return _document()["articles"]


@cache
def claims() -> dict[str, Claim]:
    """All claims by id, in the order of the file.

    Raises:
        ValueError: naming the row and what is wrong with it.
    """
    document, found = _document(), {}
    for row in document["claims"]:
        claim = _claim(row, document["missing"])
        if claim.id in found:
            raise ValueError(f"{FILE.name}: {claim.id} stands there twice")
        found[claim.id] = claim
    return found


def _claim(row: Mapping, reasons: Mapping[str, Text]) -> Claim:
    known, reason = row["verdict"] in VERDICTS, row.get("missing")
    if not known or row["id"].partition("-")[0] not in ARTICLES:
        raise ValueError(f"{FILE.name}: {row['id']}: verdict: one of {', '.join(VERDICTS)}; got {row['verdict']!r}")
    if (row.get("experiment") is None) == (reason is None) or (reason is not None and reason not in reasons):
        raise ValueError(f"{FILE.name}: {row['id']}: either an experiment, or missing: one of {', '.join(reasons)}")
    for name in ("claim", "note"):
        if set(row[name]) != set(LANGUAGES) or not all(row[name].values()):
            raise ValueError(f"{FILE.name}: {row['id']}: {name}: words in {' and '.join(LANGUAGES)}")
    lacks = reasons[reason] if reason else None
    return Claim(row["id"], row["claim"], row["verdict"], row["note"], row["lesson"], row.get("experiment"), lacks)


@cache
def _document() -> dict:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast where libyaml is built in
    return yaml.load(FILE.read_text(encoding="utf-8"), Loader=loader)
