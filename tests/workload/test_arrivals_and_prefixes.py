"""Arrivals, shared prefixes and workload files: the acceptance numbers of each generator."""

import json
import statistics

import pytest

from engine.errors import InvalidRequest
from engine.workload import lengths
from engine.workload.arrivals import gamma_arrivals, on_off, paced
from engine.workload.items import Item, Workload
from engine.workload.mooncake import load_jsonl, save_jsonl
from engine.workload.named import by_name
from engine.workload.prefixes import BlockNames, prefix_ratio
from engine.workload.sessions import clients, sessions, with_shared_prefix


def gaps(times):
    return [late - early for early, late in zip([0.0, *times], times)]


@pytest.mark.parametrize("cv", [1.0, 2.0, 5.0])
def test_bursts_have_the_variation_asked_for(cv):
    """Guards the acceptance number: CV within 10 %, at every burstiness that public traces show."""
    found = gaps(gamma_arrivals(60_000, 8.0, cv, seed=2))
    assert statistics.pstdev(found) / statistics.mean(found) == pytest.approx(cv, rel=0.1)


def test_pauses_keep_the_rate_and_raise_the_variation_of_counts():
    """Guards the on/off rate: as many requests per second as before, in clumps; and never out of order."""
    steady = gamma_arrivals(40_000, 10.0, 1.0, seed=0)
    spread = on_off(steady, on_s=2.0, off_s=6.0, seed=1)
    assert spread == sorted(spread) and spread[-1] == pytest.approx(steady[-1], rel=0.1)
    assert _clumping(steady) < 1.5 < 5 < _clumping(spread)


def _clumping(times, window=10.0):
    """Variance over mean of the counts per ``window`` seconds: 1 for Poisson."""
    counts = [0] * (int(times[-1] / window) + 1)
    for time in times:
        counts[int(time / window)] += 1
    return statistics.pvariance(counts) / statistics.mean(counts)


def test_pacing_is_said():
    """Guards honesty: a workload with other arrivals is another workload, and its description says so."""
    workload = paced(lengths.race(10, 1.0, 0, 100), 4.0, 2.0, (1.0, 2.0))
    assert workload.notes[-2:] == ("4 arrivals a second, CV 2", "1 s on, 2 s off")


@pytest.mark.parametrize("ratio", [0.4, 0.6, 0.9])
def test_sessions_share_the_prefix_asked_for(ratio):
    """Guards the acceptance number: prefix ratio within 2 points, counted in blocks as a cache counts them."""
    shape = {"turns": 1, "question": (400, 1200)} if ratio < 0.5 else {}
    made = sessions(400, seed=3, prefix_ratio=ratio, **shape)
    assert len(made.items) == 400 and prefix_ratio(made.items) == pytest.approx(ratio, abs=0.02)


def test_a_ratio_that_turns_cannot_give_is_refused():
    """Guards the solution of the length: a negative or endless system prompt must be an error with the range."""
    with pytest.raises(InvalidRequest, match=r"prefix_ratio: 0\.\d\d to 0\.7\d for 4 requests"):
        sessions(4, 0, prefix_ratio=0.8)
    with pytest.raises(InvalidRequest, match=r"prefix_ratio: 0\.[67]"):
        sessions(400, 0, prefix_ratio=0.2, turns=6)


def test_a_turn_continues_its_own_session():
    """Guards the growth: each prompt begins with the whole prompt of the turn before, of the same session."""
    items = sessions(12, 0, 0.6, turns=3).items
    for place in range(4, 12):
        before = items[place - 4].prompt_ids
        assert items[place].prompt_ids[: len(before)] == before


def test_a_shared_prefix_changes_no_length():
    """Guards comparisons of hit rates: the same lengths, other token ids."""
    plain = lengths.fixed(20, 0, 100, 5)
    made = with_shared_prefix(plain, 0.9)
    assert [len(item.prompt_ids) for item in made.items] == [100] * 20
    assert prefix_ratio(made.items, 1) == pytest.approx(0.9 * 19 / 20, abs=0.01) and prefix_ratio(plain.items) == 0
    with pytest.raises(InvalidRequest, match="prefix_ratio: less than 1"):
        with_shared_prefix(plain, 1.0)


def test_few_clients_dominate():
    """Guards the Zipf rates: the first client sends far more than the last, all in order of time."""
    items = clients(2000, 1, rate=10.0, count=6).items
    firsts = [tuple(item.prompt_ids[:16]) for item in items]
    counts = sorted(map(firsts.count, set(firsts)), reverse=True)
    assert len(counts) == 6 and counts[0] > 5 * counts[-1]
    times = [item.arrival_s for item in items]
    assert times == sorted(times) and 2000 / times[-1] == pytest.approx(10.0, rel=0.15)


# ---- files


def test_a_workload_comes_back_from_its_file(tmp_path):
    """Guards export and import: times, lengths and the structure of shared prefixes survive, token ids need not."""
    made = paced(sessions(40, 5, 0.6), 3.0, 1.0)
    long = Workload("long", [Item(i.prompt_ids * 4, i.max_tokens, i.max_tokens, i.arrival_s) for i in made.items], 0)
    save_jsonl(tmp_path / "w.jsonl", long)
    again = by_name(str(tmp_path / "w.jsonl"), None, 0)
    first = long.items[0].arrival_s
    assert [(len(i.prompt_ids), i.output_length) for i in again.items] == [
        (len(i.prompt_ids), i.output_length) for i in long.items
    ]
    assert [i.arrival_s for i in again.items] == pytest.approx([i.arrival_s - first for i in long.items], abs=1e-3)
    assert _structure(again) == _structure(long)
    assert len(by_name(str(tmp_path / "w.jsonl"), 7, 0).items) == 7


def _structure(workload):
    names = BlockNames(512)
    return [names.of(item.prompt_ids) for item in workload.items]


def test_equal_hash_ids_are_equal_tokens(tmp_path):
    """Guards the meaning of a hash id: the same id gives the same tokens, a part of a block is its beginning."""
    lines = [
        {"timestamp": 3000, "input_length": 1024, "output_length": 5, "hash_ids": [7, 8]},
        {"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [7, 9]},
    ]
    path = tmp_path / "two.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    early, late = load_jsonl(path).items
    assert (early.arrival_s, late.arrival_s, early.output_length) == (0.0, 3.0, 3)
    assert early.prompt_ids[:512] == late.prompt_ids[:512] and early.prompt_ids[512:] != late.prompt_ids[512:600]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "workload: JSON lines .line 1 of"),
        ("[1]", "workload: a JSON object on each line"),
        ('{"output_length": 3}', "input_length: a whole number of at least 1 .line 1"),
        ('{"input_length": 3, "output_length": 0}', "output_length: a whole number"),
        ('{"input_length": 3, "output_length": 1, "timestamp": -1}', "timestamp: milliseconds"),
        ('{"input_length": 513, "output_length": 1, "hash_ids": [1]}', "hash_ids: 2 whole numbers"),
        ("", "workload: a file with at least one request"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, words):
    """Guards the errors: file, line, field and what it accepts, on one line."""
    path = tmp_path / "bad.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InvalidRequest, match=words):
        load_jsonl(path)
