"""Home: the device, the model to run on it, and the way to the other pages."""

from pathlib import Path

import streamlit as st

from engine.errors import EngineStopped
from pages.parts.desk import desk
from pages.parts.device_card import device_card
from pages.parts.memory_bar import memory_bar
from pages.parts.model_picker import pick
from pages.parts.page import choose_language, tab
from pages.parts.session import Status, session
from pages.parts.words import t


def main() -> None:
    """Draw the page."""
    _head()
    left, right = st.columns([2, 3], gap="small")
    with left, st.container(border=True, height="stretch"):
        st.subheader(t("device.title"), anchor=False)
        device_card()
    with right, st.container(border=True, height="stretch"):
        st.subheader(t("engine.title"), anchor=False)
        config = pick()
        if st.button(t("engine.start"), key="engine_start", type="primary", disabled=config is None):
            _tell(*desk().start(tab(), config))
        if config is None:
            st.caption(t("engine.need_name"))
    with st.container(border=True):
        _engine_now()


def _head() -> None:
    title, way, language = st.columns([6, 2, 1], vertical_alignment="center")
    with title:
        st.title(t("home.title"), anchor=False)
        st.write(t("home.what"))
    with way:
        if st.button(t("home.open_theatre"), key="open_theatre", type="primary", help=t("home.open_theatre_why")):
            st.switch_page(Path(__file__).with_name("theatre.py"))
    with language:
        choose_language()


@st.fragment(run_every="1s")
def _engine_now() -> None:
    """How the engine is, said again every second; the memory map once it is known."""
    status = session().status()
    words, action = st.columns([4, 1], vertical_alignment="center")
    words.markdown(_words(status))
    if status.phase == "starting":
        st.progress(min(1.0, status.progress), text=status.words)
    if status.phase in ("starting", "ready") and action.button(t("engine.stop"), key="engine_stop"):
        _tell(*desk().command({"command": "stop", "tab": tab()}))
        st.rerun(scope="fragment")
    if status.phase == "ready":
        _numbers()
        _memory()


def _numbers() -> None:
    """The newest frame in five numbers."""
    run = session().run()
    made = desk().frame("none", seq=run.last_seq) if run else None
    if made is None:
        return
    numbers = made["numbers"]
    shown = {
        "top.speed": f"{numbers['tokens_per_s']:,.0f}",
        "top.blocks": f"{numbers['blocks_used']:,} / {numbers['blocks_total']:,}",
        "queue.running": f"{numbers['running']:,}",
        "queue.waiting": f"{numbers['waiting']:,}",
        "queue.finished": f"{made['finished_total']:,}",
        "top.preemptions": f"{numbers['preemptions']:,}",
    }
    for column, (name, value) in zip(st.columns(len(shown)), shown.items()):
        column.metric(t(name), value)


def _memory() -> None:
    driver = session().driver()
    try:
        scheduling, parts = driver.concrete_config.scheduling, driver.memory_map
    except EngineStopped:  # it ended between two looks; the next second says so
        return
    memory_bar(parts)
    blocks, size = scheduling.pool_blocks, scheduling.block_size
    st.caption(t("memory.pool", blocks=f"{blocks:,}", size=size, tokens=f"{blocks * size:,}"))


def _words(status: Status) -> str:
    if status.phase == "starting":
        return t("engine.starting", what=status.words, s=f"{status.since_s:.0f}")
    if status.phase == "dead":
        return t("engine.stopped_why", why=status.words)
    if status.phase == "off":
        return t("engine.off")
    worker = session().config.worker
    model = f"{worker.random_weights} (random weights)" if worker.random_weights else worker.model
    return t("engine.paused" if status.paused else "engine.ready", model=model, device=_device())


def _device() -> str:
    try:
        return str(session().driver().info.get("device", ""))
    except EngineStopped:
        return ""


def _tell(status: int, answer: dict) -> None:
    if status != 200:
        st.error(t(answer["error"], detail=answer.get("detail", "")), icon=":material/error:")


main()
