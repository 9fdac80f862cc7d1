"""What to run: the model, the pool and how to schedule. The knobs beyond that are folded, with their defaults."""

from typing import get_args

import streamlit as st

from engine.config import Batching, Capacity, EngineConfig, SchedulingConfig, Shape, WorkerConfig
from pages.parts.gpu import NoGPU, read_card
from pages.parts.page import kept
from pages.parts.words import t

SOURCES = ("bundled", "folder", "hub", "random")
DEVICES = ("auto", "cpu", "cuda")
CLASSROOM_BLOCKS = 64
DEFAULTS = SchedulingConfig()


def pick() -> EngineConfig | None:
    """Draw the choices. Returns the configuration, None while a name is missing."""
    worker = _model()
    classroom = _choice("pool", ("classroom", "auto"), "engine.pool") == "classroom"
    scheduling = _scheduling(classroom)
    if worker is None:
        return None
    return EngineConfig(scheduling, worker, CLASSROOM_BLOCKS if classroom else None)


def _model() -> WorkerConfig | None:
    source = _choice("source", SOURCES, "engine.source")
    kept("device", "auto")
    if source == "random":
        kept("shape", "tiny")
        shape = st.selectbox(t("engine.shape"), get_args(Shape), key="shape")
        return WorkerConfig(random_weights=shape, device=st.session_state["device"])
    name = "bundled"
    if source != "bundled":
        kept(source, "")
        name = st.text_input(t(f"engine.{source}"), key=source).strip()
    return WorkerConfig(model=name, device=st.session_state["device"]) if name else None


def _scheduling(classroom: bool) -> SchedulingConfig:
    rows, budget, in_flight = sizes(classroom, _has_gpu())
    with st.expander(t("engine.more")):
        left, right = st.columns(2)
        with left:
            batching = _select("batching", get_args(Batching), "engine.batching")
            capacity = _select("capacity", get_args(Capacity), "engine.capacity")
            _select("device", DEVICES, "engine.device")
        with right:
            size = _number("block_size", DEFAULTS.block_size, "engine.block_size", 1, 256)
            rows = _number(f"rows_{rows}", rows, "engine.rows", 1, 1024)
            budget = _number(f"budget_{budget}", budget, "engine.budget", 1, 65_536)
    return SchedulingConfig(
        block_size=size,
        max_num_seqs=rows,
        token_budget=max(rows, budget),
        batching=batching,
        capacity=capacity,
        steps_in_flight=in_flight,
    )


def sizes(classroom: bool, gpu: bool) -> tuple[int, int, int]:
    """Rows, token budget and steps in flight to begin with (design: Defaults)."""
    return (DEFAULTS.max_num_seqs, DEFAULTS.token_budget, 0) if classroom or not gpu else (256, 8192, 1)


def _has_gpu() -> bool:
    try:
        return read_card() is not None
    except NoGPU:
        return False


def _choice(key: str, options: tuple, words: str) -> str:
    """A choice whose options each say what they mean and cost."""
    kept(key, options[0])
    costs = [t(f"{words}_{one}_is") for one in options]
    names = {one: t(f"{words}_{one}") for one in options}
    return st.radio(t(words), options, key=key, format_func=names.get, captions=costs, horizontal=True)


def _select(key: str, options: tuple, words: str) -> str:
    kept(key, options[0])
    return st.selectbox(t(words), options, key=key)


def _number(key: str, default: int, words: str, low: int, high: int) -> int:
    kept(key, default)
    return int(st.number_input(t(words), low, high, key=key, step=1))
