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

WORKS = ("pages", "engine", "race", "kernels")
NEEDS_GPU = ("triton", "precision")


@st.fragment(run_every="2s")
def device_card() -> None:
    """The GPU with what NVML offers, or the CPU, what works on it, and why there is no GPU."""
    try:
        card = read_card()
    except NoGPU as error:
        _cpu(str(error))
        return
    st.html(_head(card.name or "GPU") + _meter(card) + _tiles(fields(card)))
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


def _cpu(why: str) -> None:
    works = "".join(_line("✓", t(f"device.works_{name}")) for name in WORKS)
    needs = "".join(_line("–", t(f"device.needs_{name}")) for name in NEEDS_GPU)
    tiles = {t("device.cores"): str(os.cpu_count()), t("device.ram"): _ram(), t("device.backend"): "PyTorch"}
    st.html(f'{_head(cpu_name())}{_tiles(tiles)}<div class="fd-works">{works}{needs}</div>')
    st.caption(t("device.none", why=why) + " " + t("device.again"))


def _line(glyph: str, words: str) -> str:
    return f'<span aria-hidden="true">{glyph}</span><span>{escape(words)}</span>'


def _ram() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (ValueError, OSError):  # a system that does not tell
        return t("device.na")


def _head(name: str) -> str:
    style = "font-size:1.05rem;font-weight:650;margin-bottom:0.5rem"
    return f'<div style="{style}">{escape(name)} &nbsp;{badge_html("Measured")}</div>'


def _meter(card: Card) -> str:
    """The share of the memory that is taken; nothing when the driver does not tell."""
    if card.memory_used is None or not card.memory_total:
        return ""
    share = 100 * card.memory_used / card.memory_total
    label = escape(f"{t('device.memory')}: {share:.0f} %")
    return f'<div class="fd-meter" role="img" aria-label="{label}"><i style="width:{share:.2f}%"></i></div>'


def _tiles(values: dict[str, str]) -> str:
    none = t("device.na")
    cells = "".join(
        f'<div class="fd-tile" data-none="{str(value == none).lower()}"><b>{escape(value)}</b>{escape(name)}</div>'
        for name, value in values.items()
    )
    return f'<div class="fd-tiles">{cells}</div>'


def _gib(mib: float | None) -> str:
    return t("device.na") if mib is None else f"{mib / 1024:.1f} GiB"


def _with(value: object, unit: str) -> str:
    return t("device.na") if value is None else f"{value}{unit}"
