"""What the board in the browser is told: the lanes of each scheduler, and all texts and numbers beside them.

The browser draws and plays; it knows no sentence and computes no metric. What the learner may not see yet is not sent.
"""

from engine.config import SchedulingConfig
from engine.trace.checks import Check
from engine.workload.items import quantiles
from engine.workload.race import SCHEDULERS
from engine.workload.verdict import shares, verdict
from pages.parts.arena import story
from pages.parts.arena.checking import chips
from pages.parts.arena.job import Race
from pages.parts.arena.numbers import percent, seconds
from pages.parts.arena.tables import factor_table, latency_table, run_table
from pages.parts.words import t

WINDOW_MS = SchedulingConfig().window_ms  # of the dynamic gate, where a run does not say
METRICS = ("ttft_ms", "e2el_ms")


def finished(
    results: dict,
    name: str,
    kind: str,
    source: str,
    window_ms: float = WINDOW_MS,
    checks: dict[str, list[Check]] | None = None,
) -> dict:
    """The board of a race that ended.

    Args:
        results: of ``engine.workload.race``, with ``lanes`` and ``ticks`` for each scheduler.
        name: changes when another race is shown: the browser then plays from the start.
        kind: "Measured" or "Recorded"; it stands on every number that was not computed.
        source: device, date and versions, beside the badge.
        window_ms: of the dynamic gate in these runs.
        checks: self-checks of each scheduler's run.
    """
    runs = [_run(each, results["schedulers"][each], window_ms) for each in _names(results)]
    found = verdict(results)
    facts = t("arena.facts", n=runs[0]["requests"], rows=runs[0]["rows"])
    return _frame(name, kind, " · ".join(filter(None, (facts, source)))) | {
        "mode": "play",
        "runs": runs,
        "axis_s": max(run["end_s"] for run in runs),
        "hero": story.hero(results, found, kind),
        "sense": story.sense(found),
        "is_null": found is not None and found.is_null,
        "factors": story.factors(results, found, kind),
        "latency": [_latency(results, metric) for metric in METRICS],
        "tables": [run_table(results), factor_table(results), latency_table(results)],
        "notes": story.notes(results),
        "checks": chips(checks or {}),
    }


def preview(results: dict, name: str, source: str) -> dict:
    """A recorded race in little: padded static and in-flight only, their numbers, and no more."""
    whole = finished(results, name, "Recorded", source)
    runs = [run for run in whole["runs"] if run["name"] in ("static", "in_flight")]
    shown = {item: whole[item] for item in ("id", "badge", "mode", "axis_s", "is_null", "tables", "notes")}
    hero = [item for item in whole["hero"] if item["name"] != "bound"]
    return shown | {"compact": True, "runs": runs, "hero": hero, "sense": "", "axis_s": max(r["end_s"] for r in runs)}


def live(race: Race, laps: dict[str, dict], words: str, open_question: bool) -> dict:
    """The board while a race runs. With an open question only padded static is sent: the rest is the answer."""
    shown = {name: lap for name, lap in laps.items() if name == "static" or not open_question}
    runs = []
    for name in race.spec.schedulers:
        run = _label(name, race.spec.rows, race.window_ms)
        if name in shown:
            run |= shown[name] | {
                "end_s": _end(shown[name]),
                "state": "live" if race.stage.scheduler == name else "lap",
            }
        else:
            run |= {"state": "hidden" if open_question and name != "static" else "waiting"}
        runs.append(run)
    ends = [run["end_s"] for run in runs if "end_s" in run]
    progress = {"words": words, "done": race.stage.done}
    return _frame(f"live-{race.number}", "Measured", "") | {
        "mode": "live",
        "runs": runs,
        "axis_s": max([*ends, 1e-3]),
        "progress": progress,
        "requests": race.spec.requests,
    }


def withheld(race: Race) -> dict:
    """The board of a race that ended while its question is open: names, and nothing that tells the answer."""
    runs = [_label(name, race.spec.rows, race.window_ms) | {"state": "hidden"} for name in race.spec.schedulers]
    return _frame(f"withheld-{race.number}", "Measured", "") | {"mode": "live", "runs": runs, "axis_s": 1.0}


def _frame(name: str, kind: str, source: str) -> dict:
    return {"id": name, "badge": {"kind": kind, "word": t(f"badge.{kind}"), "detail": source}}


def window_of(info: dict) -> float:
    """The window of the dynamic gate, from the facts of a RUN record."""
    return info.get("config", {}).get("scheduling", {}).get("window_ms", WINDOW_MS)


def _names(results: dict) -> list[str]:
    return [name for name in SCHEDULERS if name in results["schedulers"]]


def _label(name: str, rows: int, window_ms: float) -> dict:
    return {
        "name": name,
        "title": t(f"arena.name.{name}"),
        "words": t(f"arena.words.{name}", ms=f"{window_ms:g}"),
        "rows": rows,
    }


def _run(name: str, run: dict, window_ms: float) -> dict:
    part = shares(run)
    return _label(name, len(run["lanes"]), window_ms) | {
        "state": "done",
        "lanes": [[[kind, round(a, 5), round(b, 5), request] for kind, a, b, request in lane] for lane in run["lanes"]],
        "ticks": run["ticks"],
        "end_s": run["duration_s"],
        "tps": f"{run['output_throughput']:,.0f}",
        "share": percent(part["useful"]),
        "requests": run["completed"],
        "summary": story.lane_words(name, run),
    }


def _end(lap: dict) -> float:
    return max((lane[-1][2] for lane in lap["lanes"] if lane), default=0.0)


def _latency(results: dict, metric: str) -> dict:
    lines = []
    for name in _names(results):
        requests = results["schedulers"][name]["requests"]
        values = [request[metric] / 1e3 for request in requests]
        shown_at = [round((request["arrived_s"] or 0.0) + value, 5) for request, value in zip(requests, values)]
        ranks = quantiles(values)
        lines.append(
            {
                "title": t(f"arena.name.{name}"),
                "dots": [round(value, 5) for value in values],
                "shown_at": shown_at,
                "p50": ranks["p50"],
                "p90": ranks["p90"],
                "text": t("arena.p50p90", p50=seconds(ranks["p50"]), p90=seconds(ranks["p90"])),
                "words": t(
                    "arena.latency_part",
                    name=t(f"arena.name.{name}"),
                    p50=seconds(ranks["p50"]),
                    p90=seconds(ranks["p90"]),
                ),
            }
        )
    return {"name": metric, "long": t(f"arena.metric.{metric}.long"), "lines": lines}
