"""The requests of a run and when their results came: what every metric is computed from."""

from dataclasses import dataclass, field

from engine.trace import views
from engine.trace.events import Apply, Arrive
from engine.trace.timeline import Timeline
from engine.trace.views import RequestView, Totals


@dataclass(slots=True)
class Answer:
    """One request and when its results came (engine ns, one entry per APPLY that brought it tokens)."""

    view: RequestView
    result_ns: list[int] = field(default_factory=list)

    @property
    def completed(self) -> bool:
        """True when its answer ended by itself."""
        return self.view.state == views.FINISHED

    @property
    def ttft_ms(self) -> float | None:
        """Arrival to first token; None before."""
        return (self.result_ns[0] - self.view.arrived_ns) / 1e6 if self.result_ns else None

    @property
    def e2el_ms(self) -> float | None:
        """Arrival to last token; None before the first."""
        return (self.result_ns[-1] - self.view.arrived_ns) / 1e6 if self.result_ns else None

    @property
    def tpot_ms(self) -> float | None:
        """Mean time per token after the first; None with fewer than two tokens."""
        if self.view.num_output < 2:
            return None
        return (self.result_ns[-1] - self.result_ns[0]) / 1e6 / (self.view.num_output - 1)

    @property
    def gaps_ms(self) -> list[float]:
        """Between consecutive results."""
        return [(late - early) / 1e6 for early, late in zip(self.result_ns, self.result_ns[1:])]


def answers(timeline: Timeline) -> tuple[list[Answer], Totals]:
    """The requests that arrived within the kept records of a run, in order of arrival, and the totals of these records.

    A request that was under way when the oldest kept record was written is left out: its times are not all known.
    """
    found: dict[int, Answer] = {}
    state = timeline.base_state()
    before = state.copy().totals
    for record in timeline:
        event = record.event
        state.apply(record)
        if isinstance(event, Arrive):
            found[event.request] = Answer(state.own(event.request))
        elif isinstance(event, Apply):
            for request in dict.fromkeys(state.rows[row] for row in event.rows):
                if request in found:
                    found[request].result_ns.append(record.t_ns)
    return list(found.values()), state.totals.since(before)


def duration_s(timeline: Timeline) -> float:
    """Seconds of engine time from the first ARRIVE to the last APPLY."""
    first, last = None, None
    for record in timeline:
        if first is None and isinstance(record.event, Arrive):
            first = record.t_ns
        elif isinstance(record.event, Apply):
            last = record.t_ns
    return (last - first) / 1e9 if first is not None and last is not None else 0.0
