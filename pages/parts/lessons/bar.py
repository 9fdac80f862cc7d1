"""The bar above a lesson: its title, Back, Next, what else can be done with it, and the address of where it is."""

from dataclasses import replace

import streamlit as st

from pages.parts.lessons import links, more
from pages.parts.lessons.visit import Visit
from pages.parts.words import language, t


def draw(here: Visit) -> None:
    """The bar."""
    with st.container(key="lesson_bar", horizontal=True, vertical_alignment="center", gap="small"):
        title = f"{here.lesson.id} · {here.lesson.plan.name(language())}"
        st.html(f"<h1>{title}</h1>", width="stretch")
        count = t("lessons.count", at=here.step + 1, of=here.last + 1)
        st.html(f'<span class="ls-count">{count}</span>', width="content")
        _turn(here, "back", here.step - 1, here.step > 0, "Left")
        _turn(here, "next", here.step + 1, here.step < here.last, "Right")
        more.draw(here)


def _turn(here: Visit, name: str, to: int, possible: bool, key: str) -> None:
    kind = "primary" if name == "next" and here.run.open_step(here.step + 1) is None else "secondary"
    options = {"disabled": not possible, "shortcut": key, "on_click": here.go, "args": (to,), "type": kind}
    st.button(t(f"lessons.{name}"), key=f"lesson_{name}", **options)


def take_work(here: Visit) -> None:
    """Use the results of an experiment that has just ended: its cell and all behind it run again."""
    ended = here.stage.take_work()
    if ended is not None and ended.kept is not None:
        here.run.again(_place(here, ended.experiment.id))


def _place(here: Visit, experiment: str) -> int:
    """The position of the cell of an experiment; the first where no cell shows it now."""
    shown = enumerate(here.run.cells)
    return next((at for at, run in shown if any(getattr(item, "id", "") == experiment for item in run.items)), 0)


def write_address(here: Visit) -> None:
    """The address says where the learner is."""
    here.link = replace(here.link.at(here.step), lang=language())
    links.write(here.link)
