"""The Claim Auditor without a browser: filters, links, cards, the estimators, and a measurement that comes in."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from streamlit.testing.v1 import AppTest

from lessons.audit import store
from lessons.audit.estimators import KINDS
from lessons.audit.finding import Outcome
from lessons.audit.measure.catalogue import ALL
from lessons.audit.rows import VERDICTS
from lessons.figures import estimators as figures
from pages.parts.claims import cards
from pages.parts.claims.chips import OUTCOME_GLYPHS, VERDICT_GLYPHS
from pages.parts.claims.filters import STATES
from pages.parts.claims.queue import queue
from pages.parts.kernel_lab import runs
from pages.parts.kernel_lab.jobs import jobs
from pages.parts.session import session
from pages.parts.words import catalogue
from tests.lessons.sample_audit import documents
from tests.pages.sample_kernels import sample_run

PAGES = Path(__file__).resolve().parents[2] / "pages"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader who measured nothing, and a tree without recordings."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(runs, "RECORDINGS", tmp_path)
    monkeypatch.setattr(store, "RECORDED", tmp_path / "claims.json")
    return tmp_path


@pytest.fixture
def app(home: Path) -> Iterator[AppTest]:
    """The app on its first page; a test opens the auditor."""
    yield AppTest.from_file(str(PAGES / "main.py"), default_timeout=60).run()
    queue().stop()
    jobs().forget()
    session().stop()


def _open(app: AppTest, **address: str) -> AppTest:
    for name, value in address.items():
        app.query_params[name] = value
    app.switch_page(str(PAGES / "claims.py")).run()
    assert not app.exception, app.exception
    return app


def _run(app: AppTest) -> AppTest:
    app.run()
    assert not app.exception, app.exception
    return app


def _html(app: AppTest) -> str:
    return " ".join(each.proto.body for each in app.get("html"))


def _cards(app: AppTest) -> list[str]:
    return [each.proto.body for each in app.get("html") if 'class="ca"' in each.proto.body]


def _measured(name: str) -> None:
    """The reader measured ``name`` already."""
    meta = {"device": runs.device_name(), "date": "2026-01-02T03:04:05+00:00", "commit": "0123456789"}
    document = json.dumps({"meta": meta, "results": documents()[name]})
    store.keep(store.own_path(runs.device_name()), name, document)


@pytest.mark.parametrize("part", ["claims", "estimators"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_both_parts_open_without_any_measurement(app: AppTest, part: str, language: str) -> None:
    """Guards a page that needs a GPU, a recording, or English."""
    page = _open(app, part=part, lang=language)
    assert "说法审计" in _html(page) if language == "zh" else "Claim Auditor" in _html(page)


def test_only_one_page_of_cards_is_drawn(app: AppTest) -> None:
    """Guards the first paint: 184 cards at once take seconds."""
    page = _open(app)
    assert len(_cards(page)) == cards.PER_PAGE and "S0-01" in _cards(page)[0]
    page.button(key="claims_after").click()
    assert "S0-13" in _cards(_run(page))[0]
    page.button(key="claims_before").click()
    assert "S0-01" in _cards(_run(page))[0]


def test_a_link_opens_one_claim(app: AppTest) -> None:
    """Guards ``?claim=``: that card alone; and the way back to all of them."""
    page = _open(app, claim="S1-33")
    assert len(_cards(page)) == 1 and "S1-33" in _cards(page)[0]
    page.button(key="claims_clear").click()
    assert len(_cards(_run(page))) == cards.PER_PAGE


def test_filters_narrow_together(app: AppTest) -> None:
    """Guards article, verdict, lesson, state and words, each and all at once."""
    page = _open(app)
    page.session_state["claims_article"] = ["S1"]
    page.session_state["claims_verdict"] = ["WRONG"]
    assert all("S1-" in card and "ca-WRONG" in card for card in _cards(_run(page)))
    page.session_state["claims_lesson"] = "L8"
    page.session_state["claims_text"] = "invented FACTOR"
    assert [card.count("S1-33") > 0 for card in _cards(_run(page))] == [True]
    page.session_state["claims_text"] = "nothing says this"
    assert not _cards(_run(page)) and "No claim" in page.info[0].value


def test_a_filter_begins_with_the_first_page(app: AppTest) -> None:
    """Guards an empty look at page 9 of what has one page."""
    page = _open(app)
    page.button(key="claims_after").click()
    page.run()
    page.selectbox(key="claims_lesson").set_value("L8")
    assert "S0-03" in _cards(_run(page))[0]


def test_a_verdict_is_colour_glyph_and_word(app: AppTest) -> None:
    """Guards a signal that is a colour alone, and provenance beside every number."""
    card = _cards(_open(app, claim="S0-17"))[0]
    assert "ca-WRONG" in card and "✗" in card and "wrong" in card and "Computed" in card
    assert "does not hold by these numbers" in card and "share_8192" in card


def test_what_cannot_be_checked_says_why(app: AppTest) -> None:
    """Guards silence: a reason where there is no experiment, a button where there is one, no button without a GPU."""
    assert "Not checked here" in _cards(_open(app, claim="S2-14"))[0]
    page = _open(app, claim="S1-19")
    assert "Not measured yet" in _cards(page)[0] and page.button(key="claims_run_S1-19").label.endswith("equal lengths")
    if not runs.has_gpu():
        page = _open(app, claim="S0-11")
        assert any("needs a GPU" in each.value for each in page.caption)


def test_own_numbers_come_first_and_are_called_measured(app: AppTest) -> None:
    """Guards provenance: a recording is Recorded, the reader's own document replaces it."""
    meta = {"device": "OTHER CARD", "date": "2026-01-01", "commit": "abc"}
    known = {"equal": {"meta": meta, "results": documents()["equal"]}}
    store.RECORDED.write_text(store.file_text(known), encoding="utf-8")
    card = _cards(_open(app, claim="S1-19"))[0]
    assert "Recorded" in card and "OTHER CARD" in card
    _measured("equal")
    card = _cards(_run(app))[0]
    assert "Measured" in card and "OTHER CARD" not in card and "2026-01-02" in card


def test_every_value_has_its_words() -> None:
    """Guards sentences whose id is built from a value: a new measurement, verdict or outcome."""
    wanted = {f"claims.measure.{name}" for name in (*ALL, "kernels")} | {f"claims.verdict.{name}" for name in VERDICTS}
    wanted |= {f"claims.outcome.{name}" for name in get_args(Outcome)} | {f"claims.state.{name}" for name in STATES}
    wanted |= {f"claims.est.kind.{name}" for name in KINDS} | {f"claims.fig.{name}" for name in figures.WORDS}
    assert not wanted - catalogue().keys()
    assert VERDICT_GLYPHS.keys() == set(VERDICTS) and OUTCOME_GLYPHS.keys() == set(get_args(Outcome))
    assert all(catalogue()[f"claims.fig.{name}"][0] == words for name, words in figures.WORDS.items())


def test_a_measurement_comes_in(app: AppTest) -> None:
    """Guards the whole way: button, child process, the file, the finding on the card; a second start runs it once."""
    page = _open(app, claim="S0-28")
    page.button(key="claims_run_S0-28").click()
    page.run()
    queue().ask(["sampling"])
    end = time.monotonic() + 120
    while queue().running:
        assert time.monotonic() < end, queue().job and queue().job.words
        time.sleep(0.1)
    assert not queue().failures, queue().failures
    assert "Measured" in _cards(_run(page))[0]
    assert json.loads(store.own_path(runs.device_name()).read_text())["measurements"].keys() == {"sampling"}


def test_a_failure_says_why(app: AppTest) -> None:
    """Guards silence: the last words of the child stand on the page, and it can be tried again."""
    queue().failures["race"] = "the engine ran out of words"
    try:
        page = _open(app, claim="S1-33")
        assert "out of words" in page.error[0].value and not page.button(key="claims_run_S1-33").disabled
    finally:
        queue().failures.clear()


def test_the_estimators_follow_their_widgets(app: AppTest) -> None:
    """Guards live inputs: the published gain does not move with rows and step time, the corrected one does."""
    page = _open(app, part="estimators")

    def said() -> tuple[str, str]:
        return tuple(
            next(e.value for e in page.markdown if words in e.value) for words in ("`static_waste`", "E[longest")
        )

    assert "**1.8**" in said()[0] and "**384**" in said()[0] and "**3.61x**" in said()[1]
    page.number_input(key="claims_est_rows").set_value(8)
    page.number_input(key="claims_est_step_ms").set_value(5)
    _run(page)
    assert "**1.8**" in said()[0] and "**3.61x**" not in said()[1]
    page.selectbox(key="claims_est_kind").set_value("equal")
    _run(page)
    assert "**1.00x**" in said()[1]
    page.number_input(key="claims_est_longest").set_value(100)
    _run(page)
    assert page.number_input(key="claims_est_average").value == 100


def test_the_estimators_stand_beside_the_measured_truth(app: AppTest) -> None:
    """Guards the point of the cards: what was measured, with its badge, where there is something."""
    page = _open(app, part="estimators")
    assert sum("Not measured yet" in each.value for each in page.caption) == 2
    _measured("race")
    (runs.RECORDINGS / "kernels.json").write_text(json.dumps(sample_run()))
    page = _run(page)
    assert "Measured" in _html(page) and "INVENTED GPU" in _html(page)
    assert any("gains 2.10x over static" in each.value for each in page.markdown)
