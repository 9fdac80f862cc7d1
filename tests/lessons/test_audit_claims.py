"""``claims.yaml`` and its experiments: every row is there in both languages, and has an answer or an honest reason."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from lessons.audit import registry, report, store
from lessons.audit.finding import quantity
from lessons.audit.measure.catalogue import ALL
from lessons.audit.registry import Source, all_experiments
from lessons.audit.rows import ARTICLES, LANGUAGES, VERDICTS, Claim, articles, claims
from lessons.audit.words import say, sentences
from tests.lessons.sample_audit import documents, race
from tests.pages.sample_kernels import sample_run

FIELD = re.compile(r"\{(\w+)\}")
CHINESE = re.compile(r"[一-鿿]")
NEEDED = set(ALL) | {"kernels"}


def _sources() -> dict[str, Source]:
    found = {name: Source(document, "Measured", "INVENTED") for name, document in documents().items()}
    return found | {"kernels": Source(sample_run(), "Recorded", "INVENTED GPU")}


def test_184_claims_each_once() -> None:
    """Guards a row that was lost or doubled: 71 + 38 + 37 + 38 of them, numbered without a gap."""
    count = Counter(claim.article for claim in claims().values())
    assert count == {"S0": 71, "S1": 38, "S2": 37, "S4": 38} and tuple(count) == ARTICLES == tuple(articles())
    for article, number in count.items():
        assert [f"{article}-{i:02}" for i in range(1, number + 1)] == [n for n in claims() if n.startswith(article)]


def test_every_claim_is_said_in_both_languages() -> None:
    """Guards a missing or copied translation."""
    for claim in claims().values():
        assert claim.verdict in VERDICTS
        for text in (claim.claim, claim.note, *([claim.missing] if claim.missing else [])):
            assert set(text) == set(LANGUAGES) and CHINESE.search(text["zh"]) and not CHINESE.search(text["en"]), (
                claim.id
            )


def test_every_experiment_exists_and_is_used() -> None:
    """Guards a renamed experiment, one that answers no claim, and one that needs what nobody measures."""
    used = {claim.experiment for claim in claims().values() if claim.experiment}
    assert used == all_experiments().keys()
    assert all(set(each.needs) <= NEEDED for each in all_experiments().values())
    assert all(each.formula for each in all_experiments().values())


def test_a_claim_has_an_experiment_or_says_what_is_missing() -> None:
    """Guards silence: no claim without an answer, a way to one, or a reason; and at least 60 without any GPU."""
    assert all((claim.experiment is None) != (claim.missing is None) for claim in claims().values())
    states = Counter(entry.state for entry in report.entries({}))
    assert states["answered"] >= 60 and states["answered"] + states["unmeasured"] >= 140


def test_a_broken_row_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the reader of the file: one line with the row, not a traceback on the page."""
    from lessons.audit import rows

    row = {"id": "S0-01", "verdict": "MAYBE", "lesson": "", "claim": {}, "note": {}, "experiment": "bubble"}
    for changed in ({}, {"verdict": "OK", "missing": "reading"}, {"verdict": "OK"}):
        with pytest.raises(ValueError, match="S0-01"):
            rows._claim(row | changed, {"reading": {}})
    assert isinstance(rows.claims()["S0-01"], Claim)


@pytest.mark.parametrize("name", sorted(all_experiments()))
def test_every_experiment_answers(name: str) -> None:
    """Guards an experiment that fails on a document, and a sentence that names a number which is not there."""
    found = registry.run(name, _sources())
    assert found is not None and found.outcome in ("holds", "fails", "partly", "silent")
    both = sentences()[found.sentence]
    assert len(both) == len(LANGUAGES) and CHINESE.search(both[1])
    assert set(FIELD.findall(both[0])) == set(FIELD.findall(both[1])) <= found.numbers.keys()
    assert all("–" not in say(found, language).replace(" – ", "") for language in LANGUAGES)


def test_no_sentence_is_left_over() -> None:
    """Guards words that nobody says."""
    assert sentences().keys() - all_experiments().keys() == {"references", "no_fusion", "tokens_differ"}


def test_a_run_of_references_decides_nothing() -> None:
    """Guards a CPU run of the kernels that would pass for fused ones."""
    run = sample_run()
    ceilings = run["meta"]["config"]["ceilings"] | {"launch_graph_s": 0.0}
    run["meta"]["config"] = {"ceilings": ceilings}
    known = {"kernels": Source(run, "Measured", "")} | {"race": _sources()["race"]}
    for name in ("norm_ratio", "residual_fusion", "fusion_share", "two_pillars"):
        assert registry.run(name, known).outcome == "silent"


def test_one_recorded_source_makes_a_finding_recorded() -> None:
    """Guards honesty: a number with a recorded part is not called Measured."""
    assert registry.run("two_pillars", _sources()).provenance == "Recorded"
    assert registry.run("gain_equal", _sources()).provenance == "Measured"
    assert registry.run("routing", {}).provenance == "Simulated"
    assert registry.run("gain_equal", {}) is None


def test_the_null_result_is_told_as_one() -> None:
    """Guards acceptance test 8: equal lengths hold the claim that there is nothing to gain, a fake win does not."""
    assert registry.run("gain_equal", _sources()).outcome == "holds"
    faked = {"equal": Source(race(gain=1.6, bound=1.0), "Measured", "")}
    assert registry.run("gain_equal", faked).outcome == "fails"


def test_the_articles_numbers_are_reproduced() -> None:
    """Guards the recomputed figures of the list: KV of 70B and 13B, activations, floors, shares, Little."""

    def numbers(name: str) -> dict[str, float]:
        return {key: value for key, (value, _) in registry.run(name, _sources()).numbers.items()}

    assert numbers("weights_70b")["kv_per_token"] == 320 * 1024
    assert numbers("gain_3_to_5")["kv_per_token_of_13b"] == 800 * 1024
    assert numbers("activation_131072") == {"hidden": 2 * 2**30, "intermediate": 7 * 2**30}
    assert numbers("a100_70b")["cards"] == 2 and numbers("a100_70b")["step"] == pytest.approx(8.6e-3, rel=0.02)
    assert numbers("a100_70b")["in_system_after"] == pytest.approx(25.8, abs=0.1)
    shares = numbers("allreduce_slope")
    assert shares["slope"] == pytest.approx(1)
    assert [round(100 * shares[f"share_{hidden}"]) for hidden in (4096, 8192, 16_384)] == [19, 11, 6]
    assert numbers("allreduce_share")["one_token_with_latency"] == pytest.approx(0.09, abs=0.005)
    assert numbers("bubble_32")["ideal"] == pytest.approx(32 / 35)
    assert numbers("little_table")["before"] == pytest.approx(20.8)
    assert numbers("kv_int8")["room"] == pytest.approx(1 / 0.508, rel=1e-3)


def test_quantities_are_readable() -> None:
    """Guards prefixes: bytes in powers of two, rates in powers of ten, times down to nanoseconds."""
    assert quantity(2**31, "B") == "2 GiB" and quantity(4.2e12, "B/s") == "4.2 TB/s"
    assert quantity(8.52e-3, "s") == "8.52 ms" and quantity(0, "s") == "0 ns" and quantity(-1.5, "s") == "-1.5 s"
    assert (
        quantity(0.125, "share") == "12.5 %" and quantity(1.8, "x") == "1.80x" and quantity(1234567, "") == "1,234,567"
    )


def test_exports_hold_every_claim_and_number() -> None:
    """Guards acceptance test 10: JSON and CSV have all rows, in both languages, with the numbers of the page."""
    known = _sources()
    document = json.loads(report.as_json(known, "zh"))
    assert len(document["claims"]) == 184
    line = next(line for line in document["claims"] if line["id"] == "S1-19")
    assert line["numbers"]["gain"]["value"] == documents()["equal"]["gain"] and CHINESE.search(line["finding"])
    assert len(report.as_csv(known, "en").splitlines()) == 185


def test_documents_are_kept_by_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the store: the user's data folder, one file per device, a broken file is no file, the newest stays."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = store.own_path("Card / 3000 (TM)")
    assert path == tmp_path / "flightdeck" / "claims" / "Card-3000-TM.json"
    text = json.dumps(
        {"meta": {"device": "X", "date": "2026-01-02T03:04", "commit": "0123456789"}, "results": {"a": 1}}
    )
    store.keep(path, "host", text)
    store.keep(path, "keys", text.replace("1}", "2}"))
    known = store.sources(path, "Measured")
    assert {name: dict(source.document) for name, source in known.items()} == {"host": {"a": 1}, "keys": {"a": 2}}
    assert known["host"].where == "X · 2026-01-02 · 0123456"
    with pytest.raises(ValueError):
        store.keep(path, "host", "[]")
    path.write_text("{", encoding="utf-8")
    assert store.sources(path, "Measured") == {}
