"""The attention stepper: one tile of keys at a time, forwards and back, and the real kernel on the same numbers."""

import json
from importlib.util import find_spec

import streamlit as st

from engine.workload import online_softmax
from engine.workload.online_softmax import TILES, Problem, Tile
from pages.parts.badge import badge
from pages.parts.kernel_lab import tile_tables
from pages.parts.kernel_lab.jobs import Job, jobs
from pages.parts.kernel_lab.show import EVERY_S, table
from pages.parts.page import kept
from pages.parts.words import t

SAME = 1e-4  # two orders of sums in fp32


def draw() -> None:
    """The section."""
    job = jobs().get(_job_name(kept("kernel_lab_seed", 1), kept("kernel_lab_keys", 4)))
    running = job is not None and job.running
    st.fragment(_section, run_every=EVERY_S if running else None)(running)


def _section(was_running: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        keys = _keys()
        seed = kept("kernel_lab_seed", 1)
        given = online_softmax.problem(seed)
        steps = online_softmax.tiles(given, keys)
        at = _transport(len(steps))
    job = jobs().get(_job_name(seed, keys))
    if was_running != (job is not None and job.running):
        st.rerun()
    with st.container(border=True):
        badge("Computed", t("kernel_lab.tiles.computed"))
        left, right = st.columns([2, 1], gap="medium")
        left.html(tile_tables.scores(given, steps, at) + tile_tables.state(steps, at))
        right.html(tile_tables.traffic())
        st.markdown(_sentence(given, steps, at))
    st.caption(t("kernel_lab.tiles.note"))
    _real(given, seed, keys, job)
    with st.expander(t("kernel_lab.tiles.table")):
        table(tile_tables.columns(steps), "kernel_lab_tiles_table")


def _keys() -> int:
    """Keys of a tile."""
    kept("kernel_lab_keys", 4)
    return st.segmented_control(
        t("kernel_lab.tiles.keys"), TILES, key="kernel_lab_keys", required=True, on_change=_rewind
    )


def _transport(count: int) -> int:
    """The buttons; returns how many tiles have been folded in."""
    at = min(st.session_state.setdefault("kernel_lab_at", 1), count)
    moves = (
        ("start", 0, at > 0, "Home"),
        ("back", at - 1, at > 0, "Left"),
        ("step", at + 1, at < count, "Right"),
        ("end", count, at < count, "End"),
    )
    for name, to, possible, key in moves:
        kind = "primary" if name == "step" else "secondary"
        options = {"type": kind, "disabled": not possible, "shortcut": key, "on_click": _go, "args": (to,)}
        st.button(t(f"kernel_lab.tiles.{name}"), key=f"kernel_lab_{name}", **options)
    st.button(t("kernel_lab.tiles.other"), key="kernel_lab_other", type="tertiary", on_click=_other)
    st.markdown(t("kernel_lab.tiles.at", at=at, count=count), width="content")
    return at


def _go(to: int) -> None:
    st.session_state["kernel_lab_at"] = to


def _rewind() -> None:
    st.session_state["kernel_lab_at"] = 1


def _other() -> None:
    st.session_state["kept"]["kernel_lab_seed"] = st.session_state["kernel_lab_seed"] = kept("kernel_lab_seed", 1) + 1
    _rewind()


def _sentence(given: Problem, steps: list[Tile], at: int) -> str:
    """What this step did, in words."""
    if at == 0:
        return t("kernel_lab.tiles.before")
    tile, rescaled = steps[at - 1], []
    for query in range(len(tile.best)):
        if tile.rescaled[query]:
            before, best = f"{tile.best_before[query]:.2f}", f"{tile.best[query]:.2f}"
            rescaled.append(f"**q{query}** {before} → {best} (× **{tile.shrink[query]:.3f}**)")
    if rescaled:
        words = [t("kernel_lab.tiles.rescaled", queries=", ".join(rescaled))]
    else:
        words = [t("kernel_lab.tiles.first" if at == 1 else "kernel_lab.tiles.quiet")]
    if at == len(steps):
        off = online_softmax.deviation(online_softmax.answer(steps), given)
        words.append(t("kernel_lab.tiles.done", off=f"{off:.1e}"))
    return " ".join(words)


def _real(given: Problem, seed: int, keys: int, job: Job | None) -> None:
    """The Triton kernel on the same numbers, in Triton's interpreter, in a process of its own."""
    if find_spec("triton") is None:
        st.info(t("kernel_lab.no_triton"), icon=":material/info:")
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        running = job is not None and job.running
        if st.button(t("kernel_lab.tiles.real"), key="kernel_lab_real", disabled=running):
            module = ("engine.workload.online_softmax", str(seed), str(keys))
            jobs().start(_job_name(seed, keys), module, {"TRITON_INTERPRET": "1"})
            st.rerun()
        if job is None:
            st.caption(t("kernel_lab.tiles.real_what"))
        elif running:
            what = job.words or t("kernel_lab.tiles.process")
            st.markdown(t("kernel_lab.running", what=what, s=f"{job.seconds:.0f}"), width="content")
        elif job.error:
            st.error(t("kernel_lab.failed", why=job.error), icon=":material/error:")
        else:
            _agreement(json.loads(job.output), given, job.seconds)


def _agreement(output: list, given: Problem, seconds: float) -> None:
    off = online_softmax.deviation(output, given)
    with st.container(width="content"):
        badge("Measured", t("kernel_lab.tiles.interpreted"))
    words = "kernel_lab.tiles.agrees" if off < SAME else "kernel_lab.tiles.differs"
    first = " ".join(f"{value:.3f}" for value in output[0][:4])
    st.markdown(t(words, off=f"{off:.1e}", first=first), width="content")


def _job_name(seed: int, keys: int) -> str:
    return f"tiles {seed} {keys}"
