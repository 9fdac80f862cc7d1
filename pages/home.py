"""Home: a recorded race that plays, the device, the model to run on it, and the way to the other pages."""

from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.errors import EngineStopped
from pages.parts.arena import board
from pages.parts.arena.component import draw
from pages.parts.arena.sources import device_word, recorded
from pages.parts.desk import desk
from pages.parts.device_card import device_card
from pages.parts.engine_words import said
from pages.parts.memory_bar import memory_bar
from pages.parts.model_picker import pick
from pages.parts.page import tab
from pages.parts.session import Status, session
from pages.parts.words import t

PAGES = Path(__file__).parent


def main() -> None:
    """Draw the page."""
    with st.container(border=True, key="home_hero"):
        race = _hero()
    left, right = st.columns([2, 3], gap="small")
    with left, st.container(border=True, height="stretch", key="home_device"):
        st.subheader(t("device.title"), anchor=False)
        device_card()
    with right, st.container(border=True, height="stretch", key="home_engine"):
        st.subheader(t("engine.title"), anchor=False)
        now = st.container()  # above the choices: on a small screen they reach beyond the fold
        config = pick()
        with now:
            _engine_now(config)
    with st.container(key="home_memory"):
        _memory_now()
    with race:
        _race()  # last: reading the recording takes a second or two the first time


def _hero() -> DeltaGenerator:
    """What this is and the two ways on; returns the place of the recorded race beside them."""
    words, race = st.columns([3, 10], gap="medium", vertical_alignment="center")
    with words:
        st.title(t("home.title"), anchor=False)
        st.write(t("home.what"))
        if st.button(t("home.open_theatre"), key="open_theatre", type="primary", width="stretch"):
            st.switch_page(PAGES / "theatre.py")
        st.caption(t("home.open_theatre_why"))
        if st.button(t("home.open_arena", device=device_word()), key="open_arena", width="stretch"):
            st.switch_page(PAGES / "arena.py")
        st.caption(t("home.open_arena_why"))
    return race


def _race() -> None:
    found = recorded()
    if isinstance(found, str):
        st.info(found)
    else:
        where = f"{found.info.get('device', '')} · {found.info.get('date', '')[:10]}"
        draw(board.preview(found.results, found.name, where), key="home_race")


@st.fragment(run_every="1s")
def _engine_now(config: object) -> None:
    """Start, stop, and how the engine is, said again every second."""
    status = session().status()
    start, stop, words = st.columns([2, 4, 6], vertical_alignment="center", gap="small")
    same = status.phase in ("starting", "ready") and config == session().config
    label = t("engine.change") if status.phase in ("starting", "ready") and not same else t("engine.start")
    if start.button(label, key="engine_start", type="primary", disabled=config is None or same, width="stretch"):
        _tell(*desk().start(tab(), config))
        st.rerun(scope="fragment")
    running = status.phase in ("starting", "ready")
    if stop.button(t("engine.stop"), key="engine_stop", disabled=not running, width="stretch"):
        _tell(*desk().command({"command": "stop", "tab": tab()}))
        st.rerun(scope="fragment")
    words.markdown(t("engine.need_name") if config is None else _words(status))
    if status.phase == "starting":
        st.progress(min(1.0, status.progress), text=said(status.words))


@st.fragment(run_every="1s")
def _memory_now() -> None:
    """The newest numbers of the engine, and its memory map once it is known."""
    if session().status().phase != "ready":
        return
    with st.container(border=True):
        _numbers()
        _memory()


def _numbers() -> None:
    """The newest frame in six numbers."""
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
        return t("engine.starting", what=said(status.words), s=f"{status.since_s:.0f}")
    if status.phase == "dead":
        return t("engine.stopped_why", why=said(status.words))
    if status.phase == "off":
        return t("engine.off")
    worker = session().config.worker
    model = f"{worker.random_weights} {t('engine.random_note')}" if worker.random_weights else worker.model
    return t("engine.paused" if status.paused else "engine.ready", model=model, device=_device())


def _device() -> str:
    """The device, and which of the two ways its kernels run (without Triton: slowly, and it says so)."""
    try:
        info = session().driver().info
    except EngineStopped:
        return ""
    kernels = t(f"engine.kernels_{info['backend']}")
    return f"{info['device']} ({kernels})"


def _tell(status: int, answer: dict) -> None:
    if status != 200:
        st.error(t(answer["error"], detail=answer.get("detail", "")), icon=":material/error:")


main()
