"""The right column: the figures of the step, else the newest one before it, and the glossary."""

import re
from html import escape

import plotly.graph_objects as go
import streamlit as st

from lessons.figures.style import BADGE, Picture
from lessons.kit.items import Figure
from lessons.kit.say import twin
from pages.parts.badge import badge_html
from pages.parts.kernel_lab.show import figure, table, theme
from pages.parts.lessons.visit import Visit
from pages.parts.words import language, t

GLOSSARY = (
    *("row", "row_step", "prefill", "decode", "static", "dynamic", "in_flight", "padded", "drain"),
    *("block", "block_table", "preemption", "throughput", "tail"),
)


def draw(here: Visit) -> None:
    """Figures and glossary."""
    own = figures(here, here.step)
    for item in own:
        _figure(here, item)
    if not own:
        before = [each for at in range(here.step) for each in figures(here, at)]
        if before:
            st.caption(t("lessons.pinned"))
            _figure(here, before[-1])
    drawn = bool(own) or any(figures(here, at) for at in range(here.step))
    with st.expander(t("lessons.glossary"), expanded=not drawn, icon=":material/dictionary:"):
        for name in GLOSSARY:
            st.markdown(t(f"lessons.word.{name}"))


def figures(here: Visit, step: int) -> list[Figure]:
    """The figures of a step that may be seen: none of a step behind something open."""
    if here.run.open_step(step) is not None:
        return []
    return [item for _, items in here.run.items(step) for item in items if isinstance(item, Figure)]


def words_of(picture: Picture) -> dict[str, str]:
    """The words of a picture in the reader's language."""
    return {**picture.words, **twin(f"figures/{picture.name}", language())}


def _figure(here: Visit, item: Figure) -> None:
    """Title and badge, picture, words, table."""
    words, picture = words_of(item.picture), item.picture
    options = dict(item.options)
    drawn = picture.draw(item.data, provenance=item.origin.kind, theme=theme(), source="", words=words, **options)
    said = picture.summary(item.data, words=words, **options)
    key = f"lesson_figure_{here.stage.key}_{item.id}"
    with st.container(border=True):
        title = escape(drawn.layout.title.text or "")
        st.html(f'<div class="ls-title"><b>{title}</b>{badge_html(item.origin.kind, item.origin.detail)}</div>')
        figure(_fitted(drawn, here.link.present), key, said)
        st.caption(said)
        with st.expander(t("lessons.table"), key=f"{key}_lid"):
            table(picture.table(item.data, words=words, **options), f"{key}_table")


def _fitted(drawn: go.Figure, present: bool) -> go.Figure:
    """Without the title and badge of its own, which stand above it here; larger for a projector."""
    notes = [note for note in drawn.layout.annotations if note.name != BADGE]
    drawn.layout.annotations = [_larger(note) for note in notes] if present else notes
    drawn.update_layout(title=None, margin_t=56 if drawn.layout.showlegend is not False else 16)
    drawn.update_yaxes(automargin=True)
    if present:
        drawn.update_layout(font_size=18, legend_font_size=16, height=1.3 * (drawn.layout.height or 450))
        drawn.update_traces(line_width=3, selector={"type": "scatter", "mode": "lines"})
    return drawn


def _larger(note: go.layout.Annotation) -> go.layout.Annotation:
    """A label whose small print is legible from the last row."""
    grown = re.sub(r"font-size:(\d+)px", lambda size: f"font-size:{round(1.4 * int(size[1]))}px", note.text)
    return note.update(text=grown)
