"""An experiment: its controls, Run, the bar while it runs, and which results are shown."""

from collections.abc import Mapping

import streamlit as st

from lessons.kit.forms import Control
from lessons.kit.items import Experiment
from lessons.kit.say import Say
from lessons.kit.shelf import Kept, recordings
from pages.parts.arena.sources import device_word
from pages.parts.badge import badge
from pages.parts.desk import desk
from pages.parts.engine_words import said
from pages.parts.lessons.visit import Visit
from pages.parts.lessons.work import Work
from pages.parts.page import tab
from pages.parts.session import session
from pages.parts.words import t

EVERY_S = 0.5  # between two looks at an experiment that runs
IN_SIGHT = 3  # controls


def draw(here: Visit, experiment: Experiment) -> None:
    """The experiment."""
    kept = here.stage.kept.get(experiment.id)
    work = here.stage.work if here.stage.work and here.stage.work.experiment.id == experiment.id else None
    with st.container(border=True, key=f"lesson_experiment_{experiment.id}"):
        st.markdown(f"**{here.stage.text(experiment.title)}**")
        values = _controls(here, experiment, work is not None and work.running)
        if work is not None and work.running:
            st.fragment(_progress, run_every=EVERY_S)(here, work)
        else:
            if work is not None:
                _failed(work)
            _buttons(here, experiment, values, kept)
        if kept is not None:
            _which(here, experiment, kept)


def _controls(here: Visit, experiment: Experiment, running: bool) -> dict[str, object]:
    """The values of the controls; those that are put away stand behind "more"."""
    values = {}
    near = [control for control in experiment.controls if not control.aside][:IN_SIGHT]
    far = [control for control in experiment.controls if control not in near]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        for control in near:
            values[control.name] = _control(here, experiment, control, running)
        if far:
            with st.popover(t("lessons.more_controls"), icon=":material/tune:"):
                for control in far:
                    values[control.name] = _control(here, experiment, control, running)
    return values


def _control(here: Visit, experiment: Experiment, control: Control, running: bool) -> object:
    def name(value: object) -> str:
        words = control.names.get(value)
        return here.stage.text(words) if words else f"{value:g}" if isinstance(value, float) else str(value)

    kept = here.stage.kept.get(experiment.id)
    start = kept.values.get(control.name, control.default) if kept else control.default
    return st.segmented_control(
        here.stage.text(control.label),
        list(control.options),
        default=start if start in control.options else control.default,
        key=f"lesson_c_{here.stage.key}_{experiment.id}_{control.name}",
        format_func=name,
        required=True,
        disabled=running,
    )


def _buttons(here: Visit, experiment: Experiment, values: Mapping[str, object], kept: Kept | None) -> None:
    busy = here.stage.work is not None and here.stage.work.running
    shipped = recordings().get(here.stage.lesson, experiment.id)
    with st.container(horizontal=True, vertical_alignment="center"):
        label = t("lessons.again" if kept else "lessons.run", device=device_word())
        shortcut = None if kept else "Enter"
        options = {"type": "secondary" if kept else "primary", "disabled": busy, "shortcut": shortcut}
        name = f"lesson_run_{experiment.id}"
        if st.button(label, key=name, icon=":material/play_arrow:", help=t("lessons.run_help"), **options):
            _start(here, experiment, values)
        if shipped is not None and (kept is None or kept.kind != "Recorded"):
            label = t("lessons.use_recording", device=shipped.machine.get("device", ""))
            use = (here, experiment, shipped)
            st.button(label, key=f"lesson_recording_{experiment.id}", on_click=_use, args=use, disabled=busy)


def _start(here: Visit, experiment: Experiment, values: Mapping[str, object]) -> None:
    """Start it, unless another tab drives the engine or other work has it."""
    if not desk().seat.take(tab()):
        st.error(t("notice.other_tab"))
    elif waits_for := session().status().busy:
        st.error(t("notice.busy", detail=said(waits_for)))
    else:
        here.stage.begin_work(experiment, values)
        st.rerun()


def _use(here: Visit, experiment: Experiment, shipped: Kept) -> None:
    here.stage.keep(experiment, shipped)
    here.again(experiment)


def _progress(here: Visit, work: Work) -> None:
    """How far it is, twice a second; the page is drawn again once it has ended."""
    if not work.running:
        st.rerun()
    desk().seat.heartbeat(tab())
    words = here.stage.text(work.words) if isinstance(work.words, Say) else said(work.words)
    what = words or t("lessons.preparing")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(0.99, work.done), text=t("lessons.running", what=what, s=f"{work.seconds:.0f}"))
        if st.button(t("lessons.cancel"), key="lesson_cancel", icon=":material/close:"):
            work.cancelled = True


def _failed(work: Work) -> None:
    """Why there is no result."""
    if work.cancelled:
        st.info(t("lessons.cancelled"), icon=":material/close:")
    else:
        st.error(t("lessons.failed", why=said(work.error)), icon=":material/error:")


def _which(here: Visit, experiment: Experiment, kept: Kept) -> None:
    """The badge of the results, and the controls that they were got with."""
    badge(kept.kind, kept.origin.detail)
    names = {control.name: control for control in experiment.controls}
    shown = [
        f"{here.stage.text(names[name].label)} {_value(here, names[name], value)}"
        for name, value in kept.values.items()
        if name in names
    ]
    if shown:
        st.caption(t("lessons.ran_with", values=", ".join(shown)))


def _value(here: Visit, control: Control, value: object) -> str:
    words = control.names.get(value)
    return here.stage.text(words) if words else str(value)
