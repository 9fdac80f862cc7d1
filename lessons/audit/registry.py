"""All experiments by id. An experiment reads measured documents, or none, and answers with numbers and an outcome."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from lessons.audit import experiments
from lessons.audit.finding import Finding, Found, Provenance


@dataclass(frozen=True, slots=True)
class Source:
    """A measured document: what was measured, whether on this machine, and where and when."""

    document: Mapping
    provenance: Provenance  # Measured or Recorded
    where: str


Sources = Mapping[str, Source]  # name of the measurement -> what there is of it


@dataclass(frozen=True, slots=True)
class Experiment:
    """``work`` takes the documents of ``needs`` in this order. ``formula`` says how its numbers come about."""

    id: str
    needs: tuple[str, ...]
    formula: str
    provenance: Provenance  # of an experiment that needs no document
    work: Callable[..., Found]


_ALL: dict[str, Experiment] = {}


def experiment(formula: str, *needs: str, simulated: bool = False) -> Callable[[Callable[..., Found]], Callable]:
    """Register the function below under its own name."""

    def register(work: Callable[..., Found]) -> Callable[..., Found]:
        kind = "Simulated" if simulated else "Computed"
        _ALL[work.__name__] = Experiment(work.__name__, needs, formula, kind, work)
        return work

    return register


@cache
def all_experiments() -> Mapping[str, Experiment]:
    """Every experiment of ``lessons/audit/experiments``."""
    for module in pkgutil.iter_modules(experiments.__path__):
        importlib.import_module(f"{experiments.__name__}.{module.name}")
    return _ALL


def lacking(name: str, sources: Sources) -> list[str]:
    """Measurements that the experiment needs and that are not there."""
    return [need for need in all_experiments()[name].needs if need not in sources]


def origin(name: str, sources: Sources) -> Provenance:
    """Where the numbers of an experiment come from: one recorded document makes the finding Recorded. Its measurements
    must be there."""
    each = all_experiments()[name]
    kinds = {sources[need].provenance for need in each.needs} or {each.provenance}
    return "Recorded" if "Recorded" in kinds else kinds.pop()


def run(name: str, sources: Sources) -> Finding | None:
    """The finding of an experiment; None while a measurement is lacking."""
    each = all_experiments()[name]
    if lacking(name, sources):
        return None
    used = [sources[need] for need in each.needs]
    answer = each.work(*(source.document for source in used))
    where, words = "; ".join(dict.fromkeys(source.where for source in used)), answer.sentence or name
    return Finding(name, answer.outcome, answer.numbers, words, origin(name, sources), each.formula, where)
