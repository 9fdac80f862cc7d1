"""Where the auditor's numbers come from: what was measured on this machine, else what was recorded in this tree."""

from engine.workload.kernel_ledger import of_references
from lessons.audit import store
from lessons.audit.registry import Source, Sources
from pages.parts.arena import prediction
from pages.parts.arena.job import race_desk
from pages.parts.arena.sources import source_words
from pages.parts.kernel_lab import runs

ROWS = 8  # of a race that an experiment may read


def sources() -> Sources:
    """Every document there is, by name; the reader's own before a recorded one."""
    found = store.sources(store.RECORDED, "Recorded")
    if (recorded := runs.KERNELS.recorded()) is not None:
        found["kernels"] = _kernels(recorded)
    if (own := runs.KERNELS.own()) is not None and not of_references(own.document):
        found["kernels"] = _kernels(own)
    return found | store.sources(store.own_path(runs.device_name()), "Measured") | _arena()


def is_own(name: str, known: Sources) -> bool:
    """Whether the document was measured on this machine."""
    return name in known and known[name].provenance == "Measured"


def _kernels(run: runs.Run) -> Source:
    return Source(run.document, run.provenance, run.source)


def _arena() -> dict[str, Source]:
    """The newest race of the Arena, once its question is settled in this tab: before that it would tell the answer."""
    race = race_desk().race
    if race is None or race.results is None or prediction.of(race.spec) is None:
        return {}
    spec = race.spec
    name = {1.0: "race", 0.0: "equal"}.get(spec.spread)
    if name is None or spec.rows != ROWS or spec.arrival_rate is not None:
        return {}
    return {name: Source(race.results, "Measured", source_words(race.info))}
