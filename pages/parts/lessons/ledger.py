"""The learner's own things beside the list of lessons: the ledger, export and import, reset of everything."""

import streamlit as st

from lessons.kit.progress import Entry, Progress
from pages.parts.kernel_lab.show import table
from pages.parts.lessons.visit import forget
from pages.parts.words import t

MAX_UPLOAD = 2 * 2**20  # bytes


def draw(progress: Progress) -> None:
    """The card."""
    with st.container(border=True, key="lesson_ledger"):
        st.html(f"<b>{t('lessons.ledger')}</b>")
        entries(progress.ledger)
        st.download_button(
            t("lessons.export"),
            progress.export,
            "flightdeck-progress.json",
            "application/json",
            key="lesson_export",
            icon=":material/download:",
        )
        _import(progress)
        with st.popover(t("lessons.reset_all"), icon=":material/delete:"):
            st.markdown(t("lessons.reset_all_help"))
            if st.button(t("lessons.reset_all_yes"), key="lesson_reset_all", type="primary"):
                progress.reset_all()
                forget()
                st.rerun()


def entries(ledger: dict[str, Entry]) -> None:
    """The numbers, each with where it comes from."""
    if not ledger:
        st.caption(t("lessons.ledger_empty"))
        return
    heads = [t(f"lessons.ledger.{name}") for name in ("name", "value", "how", "lesson", "device", "date")]
    lines = [
        [name, f"{each.value:.4g} {each.unit}", each.how, each.lesson, each.device, each.date[:10]]
        for name, each in sorted(ledger.items())
    ]
    table(dict(zip(heads, map(list, zip(*lines)))), "lesson_ledger_table")


def _import(progress: Progress) -> None:
    """Take over what was exported elsewhere."""
    with st.popover(t("lessons.import"), icon=":material/upload:"):
        file = st.file_uploader(t("lessons.import_help"), "json", key="lesson_import")
        if file is None or not st.button(t("lessons.import_yes"), key="lesson_import_yes", type="primary"):
            return
        try:
            if file.size > MAX_UPLOAD:
                raise ValueError(f"a file of at most {MAX_UPLOAD // 2**20} MiB")
            progress.take(file.getvalue().decode("utf-8"))
        except ValueError as error:
            st.error(t("lessons.import_bad", why=str(error)))
            return
        forget()
        st.rerun()
