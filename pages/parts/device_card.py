"""The device card of the Home page, read again every two seconds."""

import os
import platform
from functools import cache
from html import escape
from pathlib import Path

import streamlit as st

from pages.parts.badge import badge_html
from pages.parts.gpu import Card, NoGPU, read_card
from pages.parts.words import t

_FIELD = (
    '<div style="min-width:8.2em"><div style="font-size:1.25rem;font-weight:650">{value}</div><div>{name}</div></div>'
)


@st.fragment(run_every="2s")
def device_card() -> None:
    """The GPU with what NVML offers, or the CPU and why there is no GPU."""
    try:
        card = read_card()
    except NoGPU as error:
        st.html(_head(t("device.cpu", name=cpu_name(), cores=os.cpu_count())))
        st.caption(t("device.none", why=str(error)) + " " + t("device.again"))
        return
    st.html(_head(card.name or "GPU") + _grid(fields(card)))
    memory = {"used": _gib(card.memory_used), "total": _gib(card.memory_total)}
    st.caption(t("device.summary", name=card.name or "GPU", driver=card.driver or t("device.na"), **memory))


def fields(card: Card) -> dict[str, str]:
    """What the card shows: words -> value, ``N/A`` where the driver offers none (never a zero in its place)."""
    watts = (
        None if card.power is None else f"{card.power:.0f}" + (f" / {card.power_limit:.0f}" if card.power_limit else "")
    )
    return {
        t("device.memory"): f"{_gib(card.memory_used)} / {_gib(card.memory_total)}",
        t("device.utilisation"): _with(card.utilisation, " %"),
        t("device.power"): _with(watts, " W"),
        t("device.temperature"): _with(card.temperature, " °C"),
        t("device.clock"): _with(card.clock, " MHz"),
        t("device.fan"): _with(card.fan, " %"),
        t("device.shared"): _with(card.shared_with, ""),
        t("device.driver"): _with(card.driver, ""),
    }


@cache
def cpu_name() -> str:
    """The processor in words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _head(name: str) -> str:
    return f'<div style="font-size:1.05rem;font-weight:650">{escape(name)} &nbsp;{badge_html("Measured")}</div>'


def _grid(values: dict[str, str]) -> str:
    cells = "".join(_FIELD.format(name=escape(name), value=escape(value)) for name, value in values.items())
    return f'<div style="display:flex;flex-wrap:wrap;gap:0.7rem 1.4rem;font-size:0.82rem">{cells}</div>'


def _gib(mib: float | None) -> str:
    return t("device.na") if mib is None else f"{mib / 1024:.1f} GiB"


def _with(value: object, unit: str) -> str:
    return t("device.na") if value is None else f"{value}{unit}"
