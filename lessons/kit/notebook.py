"""The stage of a notebook: asks by ``input``, shows with IPython where there is one, runs experiments at once."""

import atexit
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache

from engine.config import EngineConfig
from engine.driver import Driver
from lessons.book import lesson as find
from lessons.kit.forms import Code, Form, Number
from lessons.kit.items import Exercise, Experiment, Figure, Item, Note, Printed, Question, Reconciled, Takeaway
from lessons.kit.perform import perform
from lessons.kit.progress import own_progress
from lessons.kit.say import Say, twin
from lessons.kit.shelf import Kept, own_results
from lessons.kit.stage import Stage


class NotebookStage(Stage):
    """Jupyter, VS Code, or plain Python."""

    def __init__(self) -> None:
        super().__init__(own_progress(), "", "")

    def begin(self, lesson: str, language: str) -> None:
        """The notebook says which lesson it is, and in which language."""
        self.lesson, self.stem, self.language = lesson, find(lesson).stem, language

    def show(self, item: Item) -> None:
        """Show an item as well as the surroundings can."""
        if isinstance(item, Question):
            self._ask(item)
        elif isinstance(item, Figure):
            words = item.picture.words | twin(f"figures/{item.picture.name}", self.language)
            origin = {"provenance": item.origin.kind, "source": item.origin.detail}
            _display(item.picture.draw(item.data, **origin, words=words, **item.options))
            _markdown(item.picture.summary(item.data, words=words, **item.options))
        elif isinstance(item, Reconciled):
            _markdown(_lines(item, self))
        elif isinstance(item, Note | Takeaway):
            _markdown(self.text(item.text))
        elif isinstance(item, Printed):
            print(item.text)
        elif isinstance(item, Exercise):
            _markdown("\n\n".join([self.text(item.task), self._form(item.form)]))
        else:
            _markdown(self.text(item.title))

    def results(self, experiment: Experiment) -> Kept:
        """Run it now, with the progress in a line."""
        kept = perform(self, experiment, self.choose(experiment), _line)
        own_results().put(self.key, experiment.id, kept)
        return kept

    def driver(self) -> Driver:
        """An engine with the bundled model, started once."""
        return own_driver()

    def alone(self, what: str) -> AbstractContextManager:
        """The engine of this notebook stands still meanwhile, if there is one."""
        return own_driver().exclusive(what) if own_driver.cache_info().currsize else nullcontext()

    def _ask(self, question: Question) -> None:
        _markdown("\n\n".join([self.text(question.text), self._form(question.form)]))
        if self.answer(question) is None:
            self.progress.settle(self.key, question.id, _answer(question))

    def _form(self, form: Form) -> str:
        """What may be answered, in Markdown."""
        if isinstance(form, Code):
            return f"```python\n{form.starter}```"
        if isinstance(form, Number):
            return f"{form.low:g} – {form.high:g} {form.unit}"
        return "\n".join(f"- `{key}`: {self.text(words)}" for key, words in form.options.items())


@cache
def own_driver() -> Driver:
    """The engine of this process, ready; it ends with it."""
    driver = Driver(EngineConfig())
    driver.start()
    atexit.register(driver.stop)
    driver.wait_ready(600)
    return driver


@cache
def notebook_stage() -> NotebookStage:
    """The one of this process."""
    return NotebookStage()


def _answer(question: Question) -> object:
    """What the learner types; None (skipped) for an empty line, or where nobody can type."""
    while True:
        try:
            typed = input("your prediction (empty: show anyway) > ").strip()
        except Exception:  # no terminal, or a kernel without input: what it raises depends on the kernel
            return None
        if not typed:
            return None
        try:
            return question.form.clean(typed)
        except ValueError as error:
            print(error)


def _lines(item: Reconciled, stage: Stage) -> str:
    """A reconciliation as a Markdown table."""
    heads = f"| | theory ({item.theory.kind}) | you | observed ({item.observed.kind}) |\n| --- | --- | --- | --- |"
    lines = []
    for row in item.rows:
        known = stage.progress.answer(stage.key, row.question) if row.question else None
        you = "" if known is None else "skipped" if known.skipped else f"{known.value:g}"
        theory = "" if row.theory is None else f"{row.theory:.3g}"
        lines.append(f"| {stage.text(row.label)} | {theory} | {you} | {row.observed:.3g} {row.unit} |")
    return "\n".join([heads, *lines])


def _markdown(text: str) -> None:
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        from IPython.display import Markdown, display

        display(Markdown(text))
    else:
        print(text)


def _display(figure: object) -> None:
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        from IPython.display import display

        display(figure)


def _line(what: str | Say, done: float) -> None:
    text = what.said({}) if isinstance(what, Say) else what
    print(f"\r{text} {100 * done:3.0f} %", end="", file=sys.stderr, flush=True)
