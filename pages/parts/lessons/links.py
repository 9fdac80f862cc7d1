"""Links that open a lesson at a step with a seed: one builder, one reader. A link carries configuration, no results."""

from dataclasses import dataclass, replace
from urllib.parse import urlencode

import streamlit as st

from lessons.book import Lesson, lesson, plans
from pages.parts.words import language

SEEDS = range(0, 10_000)
USUAL = {"seed": "0", "lang": "en"}  # what an address need not say


@dataclass(frozen=True, slots=True)
class Link:
    """Where a learner is, or is sent. ``lesson`` empty: the list of lessons; ``cell``: number of a step, or its id."""

    lesson: str = ""
    cell: str = "1"
    seed: int = 0
    lang: str = "en"
    present: bool = False

    def query(self) -> dict[str, str]:
        """The parameters of the address, without those that say nothing."""
        fields = {"lesson": self.lesson, "cell": self.cell, "seed": str(self.seed), "lang": self.lang}
        fields["present"] = "1" if self.present else ""
        if not self.lesson:
            fields = {"lang": self.lang}
        return {name: value for name, value in fields.items() if value not in ("", USUAL.get(name))}

    def address(self) -> str:
        """Relative to the app: ``lessons?lesson=L8&cell=4``."""
        query = urlencode(self.query())
        return f"lessons?{query}" if query else "lessons"

    def at(self, step: int) -> "Link":
        """The same lesson at a step (from 0)."""
        return replace(self, cell=str(step + 1))

    def opened(self) -> Lesson | None:
        """The lesson it names; None for the list, or when it is not written."""
        try:
            return lesson(self.lesson) if self.lesson else None
        except KeyError:
            return None


def read() -> Link:
    """The link in the address; what makes no sense in it is left out."""
    asked = st.query_params
    known = {plan.id for plan in plans()}
    name, seed = asked.get("lesson", "").upper(), asked.get("seed", "")
    return Link(
        name if name in known else "",
        asked.get("cell", "1"),
        int(seed) if seed.isdigit() and int(seed) in SEEDS else 0,
        language(),
        asked.get("present") == "1",
    )


def write(link: Link) -> None:
    """Put a link into the address, so that reloading and copying it lead back here."""
    if dict(st.query_params) != link.query():
        st.query_params.from_dict(link.query())
