"""What else can be done with a lesson: projector, link, notebook, report, reset."""

from dataclasses import replace

import streamlit as st

from lessons.export import notebook
from lessons.kit.shelf import own_results
from lessons.report import Report
from pages.parts.lessons import links
from pages.parts.lessons.visit import Visit, forget
from pages.parts.words import language, t


def draw(here: Visit) -> None:
    """The menu."""
    with st.popover(t("lessons.more"), icon=":material/more_horiz:"):
        label = t("lessons.present_off" if here.link.present else "lessons.present_on")
        st.button(label, key="lesson_present", icon=":material/present_to_all:", on_click=_present, args=(here,))
        _link(here)
        stem, name = here.lesson.stem, {"en": "", "zh": ".zh"}[language()]
        st.download_button(
            t("lessons.notebook"),
            lambda: notebook(here.lesson, language()),
            f"{stem}{name}.ipynb",
            "application/x-ipynb+json",
            key="lesson_notebook",
            icon=":material/download:",
            help=t("lessons.notebook_help"),
        )
        st.download_button(
            t("lessons.report"),
            lambda: report(here),
            f"{here.stage.key.replace('@', '_seed')}_report.html",
            "text/html",
            key="lesson_report",
            icon=":material/assignment:",
            help=t("lessons.report_help"),
        )
        _reset(here)


def report(here: Visit) -> str:
    """The report of this visit."""
    items = [item for run in here.run.cells for item in run.items]
    return Report(here.lesson, here.stage, items, here.stage.kept).html()


def _present(here: Visit) -> None:
    here.link = replace(here.link, present=not here.link.present)
    links.write(here.link)


def _link(here: Visit) -> None:
    """A link to this step, with a seed for the class."""
    st.markdown(f"**{t('lessons.link')}**")
    seed = st.number_input(
        t("lessons.seed"), links.SEEDS.start, links.SEEDS.stop - 1, here.link.seed, key="lesson_seed"
    )
    made = replace(here.link.at(here.step), seed=int(seed), lang=language())
    st.code(made.address(), language=None, wrap_lines=True)
    st.caption(t("lessons.link_help"))


def _reset(here: Visit) -> None:
    st.button(
        t("lessons.reset"),
        key="lesson_reset",
        icon=":material/restart_alt:",
        help=t("lessons.reset_help"),
        on_click=_forget,
        args=(here,),
    )


def _forget(here: Visit) -> None:
    """Predictions, attempts and own results of this lesson are gone; the ledger stays."""
    here.stage.progress.reset(here.stage.key)
    own_results().drop(here.stage.key)
    forget()
    for name in [name for name in st.session_state if str(name).startswith("lesson_")]:
        del st.session_state[name]
    links.write(replace(here.link, cell="1"))
