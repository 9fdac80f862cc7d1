"""The Arena in words: the numbers on top, why the gain is not the bound, and the summaries under the figures."""

from engine.trace.gain import FACTORS
from engine.workload.verdict import Verdict, shares
from pages.parts.arena.numbers import percent, roughly, seconds, times
from pages.parts.words import t


def hero(results: dict, found: Verdict | None, kind: str) -> list[dict]:
    """The numbers on top: each with what it is, a note, and its provenance."""
    if found is None:
        return []
    several = min(len(run["repeats_s"]) for run in results["schedulers"].values()) > 1
    span = t("arena.hero.gain_note", low=times(found.low), high=times(found.high))
    static, in_flight = results["schedulers"]["static"], results["schedulers"]["in_flight"]
    ttft = [run["p90_ttft_ms"] / 1e3 for run in (static, in_flight)]
    waste = [1 - shares(run)["useful"] for run in (static, in_flight)]
    speed = [f"{run['output_throughput']:,.0f}" for run in (static, in_flight)]
    return [
        _number("gain", times(found.gain), span if several else t("arena.hero.gain_note_one"), kind),
        _number("bound", times(found.bound), t("arena.hero.bound_note", x=times(found.predicted)), "Computed"),
        _number("tps", " → ".join(speed), t("arena.hero.tps_note"), kind),
        _number("ttft", f"{seconds(ttft[0])} → {seconds(ttft[1])} s", t("arena.hero.ttft_note"), kind),
        _number("waste", f"{percent(waste[0])} → {percent(waste[1])} %", t("arena.hero.waste_note"), kind),
    ]


def sense(found: Verdict | None) -> str:
    """What the gain means, in a sentence or two; the null result is explained, not celebrated."""
    if found is None:
        return ""
    gain, limit = times(found.gain), times(found.bound)
    if found.is_disturbed:
        return t("arena.disturbed", gain=gain, predicted=times(found.predicted))
    if found.is_null:
        name = "arena.null" if found.low <= 1.02 and found.high >= 0.98 else "arena.null_off"
        return t(name, gain=gain, low=times(found.low), high=times(found.high))
    if found.gain > found.bound:
        return t("arena.over", bound=limit, gain=gain)
    return t("arena.sense", bound=limit, gain=gain, kept=percent(found.kept))


def factors(results: dict, found: Verdict | None, kind: str) -> dict | None:
    """The factor card: a heading, one line for each factor with its sentence, and the whole in words."""
    if found is None:
        return None
    rows = len(results["schedulers"]["in_flight"]["lanes"])
    lines = [_factor(results, name, rows) for name in FACTORS]
    parts = ", ".join(
        t("arena.factor_part", name=line["label"], measured=line["measured_text"], predicted=line["predicted_text"])
        for line in lines
    )
    return {
        "title": _why(found),
        "lines": lines,
        "gain": found.gain,
        "gain_text": times(found.gain),
        "predicted_text": times(found.predicted),
        "kind": kind,
        "kind_word": t(f"badge.{kind}"),
        "computed_word": t("badge.Computed"),
        "bound_is": t("arena.bound_is", rows=rows),
        "summary": t("arena.factors_summary", gain=times(found.gain), bound=times(found.bound), parts=parts),
    }


def _why(found: Verdict) -> str:
    if found.is_null:
        return t("arena.why_null")
    if found.gain > found.bound:
        return t("arena.why_over", x=roughly(found.gain))
    return t("arena.why", x=roughly(found.bound))


def lane_words(name: str, run: dict) -> str:
    """One scheduler's lanes in words."""
    return t(
        "arena.lane_part",
        name=t(f"arena.name.{name}"),
        tps=f"{run['output_throughput']:,.0f}",
        useful=percent(shares(run)["useful"]),
        s=seconds(run["duration_s"]),
    )


def notes(results: dict) -> list[str]:
    """What is equal between the runs, and whether their tokens are."""
    return [t("arena.fair_text"), t("arena.same" if results["tokens_identical"] else "arena.not_same")]


def _number(name: str, value: str, note: str, kind: str) -> dict:
    return {
        "name": name,
        "label": t(f"arena.hero.{name}"),
        "value": value,
        "note": note,
        "kind": kind,
        "word": t(f"badge.{kind}"),
    }


def _factor(results: dict, name: str, rows: int) -> dict:
    measured, predicted = results["factors"][name], results["predicted_factors"][name]
    return {
        "name": name,
        "label": t(f"arena.factor.{name}"),
        "explain": t(f"arena.explain.{name}", rows=rows),
        "measured": measured,
        "predicted": predicted,
        "measured_text": times(measured),
        "predicted_text": times(predicted),
    }
