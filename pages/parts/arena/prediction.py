"""A learner predicts before seeing: the answer to a question is given out only once it is settled.

Settled means locked with a number, or shown anyway (recorded as skipped). Each race is a question of its own.
"""

from dataclasses import dataclass

import streamlit as st

from engine.workload.race_spec import RaceSpec


@dataclass(frozen=True, slots=True)
class Prediction:
    """A settled question. ``value``: the predicted gain; None: shown without a prediction."""

    value: float | None

    @property
    def skipped(self) -> bool:
        """True when the answer was asked for without a prediction."""
        return self.value is None


def of(spec: RaceSpec) -> Prediction | None:
    """The prediction of this tab for a race, None while its question is open."""
    return _settled().get(spec)


def settle(spec: RaceSpec, value: float | None) -> None:
    """Lock a value, or None for "show anyway". The first answer stays."""
    _settled().setdefault(spec, Prediction(value))


def _settled() -> dict[RaceSpec, Prediction]:
    return st.session_state.setdefault("arena_predictions", {})
