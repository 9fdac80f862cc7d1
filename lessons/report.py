"""A learner's report of one lesson: self-contained HTML that a teacher can grade without running anything."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from lessons.book import Lesson
from lessons.kit.cells import miss
from lessons.kit.items import Exercise, Item, Question
from lessons.kit.progress import Answer, today
from lessons.kit.say import say
from lessons.kit.shelf import Kept
from lessons.kit.stage import Stage

_STYLE = """body { font: 16px/1.5 system-ui, "Noto Sans CJK SC", sans-serif; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; color: #1c2330; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: 0.35rem 0.6rem;
  border-bottom: 1px solid #d6dae2; vertical-align: top; } td.n { text-align: right; white-space: nowrap; }
pre { background: #f0f2f6; padding: 0.6rem; overflow-x: auto; } .dim { color: #5b6474; }"""
_WORDS = {
    "title": say("report.title", "Report"),
    "made": say("report.made", "made {date}"),
    "predictions": say("report.predictions", "Predictions"),
    "calibration": say(
        "report.calibration", "Scored for calibration, never pass or fail: the factor between prediction and outcome."
    ),
    "mean": say("report.mean", "Typical miss over {n} predictions: a factor of {miss:.2f} (geometric mean)."),
    "question": say("report.question", "question"),
    "predicted": say("report.predicted", "predicted"),
    "theory": say("report.theory", "theory"),
    "observed": say("report.observed", "observed"),
    "miss": say("report.miss", "off by a factor"),
    "skipped": say("report.skipped", "skipped"),
    "open": say("report.open", "open"),
    "exercises": say("report.exercises", "Exercises"),
    "passed": say("report.passed", "passed"),
    "not_passed": say("report.not_passed", "not passed"),
    "not_tried": say("report.not_tried", "not tried"),
    "tries": say("report.tries", "tries: {n}"),
    "machines": say("report.machines", "Measured on"),
    "ledger": say("report.ledger", "Ledger"),
    "complete": say("report.complete", "finished"),
    "incomplete": say("report.incomplete", "not finished"),
}


class Report:
    """Builds the report of one stage.

    Args:
        lesson: of it.
        stage: with the learner's progress and language.
        items: all that the cells have shown so far.
        kept: results by experiment.
    """

    def __init__(self, lesson: Lesson, stage: Stage, items: Iterable[Item], kept: dict[str, Kept]) -> None:
        self._lesson, self._stage, self._items, self._kept = lesson, stage, list(items), kept

    def html(self) -> str:
        """The whole document; nothing in it asks another host for anything."""
        title = escape(f"{self._lesson.id} · {self._lesson.plan.name(self._stage.language)}")
        state = "complete" if self._stage.progress.finished(self._stage.key) else "incomplete"
        made = escape(self._word("made", date=today()[:16].replace("T", " ")))
        parts = [
            f'<h1>{title}</h1><p class="dim">{self._word("title")} · {self._word(state)} · {made}</p>',
            self._predictions(),
            self._exercises(),
            self._machines(),
            self._ledger(),
        ]
        head = f'<head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head>'
        return f'<!doctype html><html lang="{self._stage.language}">{head}<body>{"".join(parts)}</body></html>'

    def _predictions(self) -> str:
        lines, misses = [], []
        for item in self._of(Question):
            answer = self._stage.answer(item)
            lines.append(self._prediction(item, answer))
            if answer is not None and _is_number(answer.value) and _is_number(answer.observed):
                misses.append(math.log(miss(answer.value, answer.observed).factor))
        heads = [self._word(name) for name in ("question", "predicted", "theory", "observed", "miss")]
        mean = self._word("mean", n=len(misses), miss=math.exp(sum(misses) / len(misses))) if misses else ""
        note = f'<p class="dim">{self._word("calibration")} {mean}</p>'
        return f"<h2>{self._word('predictions')}</h2>{note}{_table(heads, lines)}"

    def _prediction(self, item: Question, answer: Answer | None) -> list[str]:
        question = escape(self._stage.text(item.text))
        if answer is None:
            return [question, self._word("open"), "", "", ""]
        predicted = self._word("skipped") if answer.skipped else self._value(item, answer.value)
        theory = "" if answer.theory is None else self._value(item, answer.theory)
        observed = "" if answer.observed is None else self._value(item, answer.observed)
        known = _is_number(answer.value) and _is_number(answer.observed)
        off = f"{miss(answer.value, answer.observed).factor:.2f}" if known else ""
        return [question, predicted, theory, observed, off]

    def _value(self, item: Question, value: float | str) -> str:
        options = getattr(item.form, "options", {})
        return escape(self._stage.text(options[value]) if value in options else f"{value:.4g} {item.form.unit}")

    def _exercises(self) -> str:
        parts = [f"<h2>{self._word('exercises')}</h2>"]
        for item in self._of(Exercise):
            known = self._stage.progress.attempt(self._stage.key, item.id)
            state = "not_tried" if known is None else "passed" if known.passed else "not_passed"
            tries = f" · {self._word('tries', n=known.tries)}" if known else ""
            parts.append(f"<p>{escape(self._stage.text(item.task))}<br><b>{self._word(state)}</b>{tries}</p>")
            if known is not None:
                said = f'<p class="dim">{escape(known.said)}</p>' if known.said else ""
                parts.append(f"<pre>{escape(self._answer(item, known.answer))}</pre>{said}")
        return "".join(parts)

    def _answer(self, item: Exercise, answer: object) -> str:
        options = getattr(item.form, "options", {})
        picked = answer if isinstance(answer, list) else [answer]
        return "\n".join(self._stage.text(options[each]) if each in options else str(each) for each in picked)

    def _machines(self) -> str:
        lines = []
        for name, kept in self._kept.items():
            machine = kept.machine
            versions = ", ".join(f"{package} {version}" for package, version in machine.get("versions", {}).items())
            facts = [name, kept.kind, machine.get("device", ""), machine.get("driver", ""), versions]
            facts += [str(machine.get("commit", ""))[:12], str(machine.get("date", "")), str(dict(kept.values))]
            lines.append([escape(str(fact)) for fact in facts])
        return f"<h2>{self._word('machines')}</h2>{_table((), lines)}" if lines else ""

    def _ledger(self) -> str:
        own = {name: each for name, each in self._stage.progress.ledger.items() if each.lesson == self._lesson.id}
        lines = [
            [escape(name), f"{each.value:.4g} {escape(each.unit)}", escape(each.how), escape(each.device)]
            for name, each in own.items()
        ]
        return f"<h2>{self._word('ledger')}</h2>{_table((), lines)}" if lines else ""

    def _of(self, kind: type) -> list:
        return [item for item in self._items if isinstance(item, kind)]

    def _word(self, name: str, **values: object) -> str:
        words = _WORDS[name]
        return self._stage.text(type(words)(words.id, words.english, values))


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{each}</th>" for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
