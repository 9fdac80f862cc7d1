"""The Arena: one seeded workload through four schedulers, side by side on one clock, and why the gain is what it is.

A recorded race plays on the first visit; one button runs the same race on this machine. The gain of that run is not in
the page before the learner has locked a prediction, or asked to see it anyway.
"""

import streamlit as st

from engine.workload.race_spec import RaceSpec
from engine.workload.verdict import miss
from pages.parts.arena import board, contestants, prediction
from pages.parts.arena.component import draw
from pages.parts.arena.job import Race, race_desk
from pages.parts.arena.numbers import roughly, times
from pages.parts.arena.sources import device_word, recorded, recorded_checks, source_words
from pages.parts.desk import desk
from pages.parts.engine_words import said
from pages.parts.page import kept, tab
from pages.parts.words import t

SPREADS = (0.0, 0.5, 1.0)
SIZES = (24, 64, 128)
REPEATS = {"GPU": 3, "CPU": 1}  # a race should not take a minute
EVERY_S = 0.5  # between two looks at a race that runs
RIGHT = 1.05  # a prediction within this factor is called right


def main() -> None:
    """Draw the page."""
    spec = _head()
    race = race_desk().race
    if race is not None and race.error:
        _failed(race)
        race = None
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        mine = race is not None and (race.running or _shows_mine())
        _question(race if mine else None, race.spec if mine else spec)
    _stage(mine)
    contestants.draw(spec)


def _head() -> RaceSpec:
    """Title, the three controls and the button; returns what they ask for."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        title = st.container(width="stretch")
        spread = st.segmented_control(
            t("arena.lengths"),
            SPREADS,
            key=_kept("arena_spread", 1.0),
            format_func=lambda value: t(f"arena.lengths.{value:g}"),
            required=True,
        )
        requests = st.segmented_control(t("arena.requests"), SIZES, key=_kept("arena_requests", 64), required=True)
        seed, rows, repeats = _more()
        spec = RaceSpec(requests=requests, rows=rows, spread=spread, seed=seed, repeats=repeats)
        running = race_desk().race is not None and race_desk().race.running
        label = t("arena.run", device=device_word())
        if running:
            if st.button(t("arena.cancel"), key="arena_cancel", help=t("arena.cancel_help"), icon=":material/close:"):
                race_desk().cancel()
        elif st.button(label, key="arena_run", type="primary", help=t("arena.run_help")):
            _start(spec)
    title.html(f"<h1 style='font-size:22px;padding:0;margin:0'>{t('arena.title')}</h1><div>{t('arena.sub')}</div>")
    return spec


def _failed(race: Race) -> None:
    """Why there is no result."""
    if race.cancelled:
        st.info(t("arena.cancelled"), icon=":material/close:")
    else:
        st.error(t("arena.failed", why=said(race.error)), icon=":material/error:")


def _more() -> tuple[int, int, int]:
    """Seed, rows and repeats, put away with their values on the lid."""
    values = {
        name: kept(f"arena_{name}", value)
        for name, value in (("seed", 0), ("rows", 8), ("repeats", REPEATS[device_word()]))
    }
    with st.popover(t("arena.more", **values)):
        seed = st.number_input(t("arena.seed"), 0, 10_000, key="arena_seed")
        rows = st.select_slider(t("arena.rows"), (2, 4, 8, 16, 32), key="arena_rows")
        repeats = st.select_slider(t("arena.repeats_label"), (1, 2, 3, 5), key="arena_repeats")
    return seed, rows, repeats


def _start(spec: RaceSpec) -> None:
    """Start the race, unless another tab drives the engine."""
    if not desk().seat.take(tab()):
        st.error(t("notice.other_tab"))
        return
    race_desk().start(spec)
    st.session_state["arena_view"] = "mine"
    st.rerun()


def _shows_mine() -> bool:
    """Whether the own race is shown, or the recording: a choice once there is one."""
    labels = {"mine": t("arena.show.mine"), "recording": t("arena.show.recording")}
    return (
        st.segmented_control(
            t("arena.show"),
            labels,
            key=_kept("arena_view", "mine"),
            format_func=labels.get,
            required=True,
            label_visibility="collapsed",
        )
        == "mine"
    )


def _question(race: Race | None, spec: RaceSpec) -> None:
    """The prediction of the gain: open with a slider, or settled."""
    settled = prediction.of(spec)
    if settled is not None:
        st.markdown(_settled_words(settled, race))
        return
    words = t("arena.question", device=device_word())
    st.markdown(words, width="content")
    value = st.slider(
        words, 0.5, 4.0, 1.0, 0.1, format="%.1fx", key="arena_slider", width=300, label_visibility="collapsed"
    )
    if st.button(t("arena.lock", x=roughly(value)), key="arena_lock", icon=":material/lock:"):
        prediction.settle(spec, value)
        st.rerun()
    if st.button(t("arena.anyway"), key="arena_anyway", type="tertiary"):
        prediction.settle(spec, None)
        st.rerun()


def _settled_words(settled: prediction.Prediction, race: Race | None) -> str:
    if settled.skipped:
        return t("arena.skipped")
    if race is None or race.results is None:
        return t("arena.locked", x=roughly(settled.value))
    gain = race.results["gain"]
    off = miss(settled.value, gain)
    words = {"x": roughly(settled.value), "gain": times(gain)}
    if off <= RIGHT:
        return t("arena.spot_on", **words)
    return t(
        "arena.scored",
        miss=f"{off:.2f}",
        side=t("arena.too_high" if settled.value > gain else "arena.too_low"),
        **words,
    )


def _stage(mine: bool) -> None:
    """The board; looked at twice a second while a race runs."""
    race = race_desk().race
    running = mine and race.running
    st.fragment(_draw_board, run_every=EVERY_S if running else None)(mine, running)


def _draw_board(mine: bool, was_running: bool) -> None:
    race = race_desk().race
    if was_running and not race.running:
        st.rerun()
    if not mine:
        _draw_recorded()
    elif race.running:
        draw(board.live(race, race_desk().laps(), _words(race), prediction.of(race.spec) is None))
    elif prediction.of(race.spec) is None:
        draw(board.withheld(race))
    else:
        shown = board.finished(
            *(race.results, f"race-{race.number}", "Measured", source_words(race.info)), race.window_ms, race.checks
        )
        draw(shown)


def _draw_recorded() -> None:
    found = recorded()
    if isinstance(found, str):
        st.info(found)
    else:
        window_ms = board.window_of(found.info)
        words = source_words(found.info)
        draw(board.finished(found.results, found.name, "Recorded", words, window_ms, recorded_checks(found.name)))


def _words(race: Race) -> str:
    """What the race does, or what it waits for."""
    stage = race.stage
    if not stage.scheduler:
        return t("arena.waits_engine", what=said(race_desk().waiting_for()) or t("arena.preparing"))
    what = stage.words
    if what == "warm-up":
        what = t("arena.warm_up")
    elif what.startswith("repeat "):
        what = t("arena.repeat", i=what.removeprefix("repeat "))
    return t("arena.running", name=t(f"arena.name.{stage.scheduler}"), what=what)


def _kept(key: str, default: object) -> str:
    kept(key, default)
    return key


main()
