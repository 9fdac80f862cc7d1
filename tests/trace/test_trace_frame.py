"""Frames and words: what the Theatre draws, and why a request stands where it stands."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.trace.events import KV, Admit, Apply, Cause, Cmd, Leave, Op, Reason, Refuse
from engine.trace.explain import explain
from engine.trace.forecast import next_free
from engine.trace.frame import frame
from engine.trace.views import label
from tests.trace.trace_runs import Played, Scenario
from tests.trace.trace_script import Script, admit, arrive, prefill, step

KEYS = {
    "": "seq step t_s live_seq live_step first_step behind_steps run paused numbers waiting waiting_total running "
    "finished finished_total tokens pool history events marks selected",
    "run": "model device batching capacity preemption eviction queue_order pool_blocks block_size token_budget "
    "max_num_seqs classroom provenance",
    "numbers": "tokens_per_s blocks_used blocks_total blocks_cached preemptions evictions finished waiting running "
    "step_ms",
    "waiting": "id name label state prompt num_tokens computed_lost max_tokens reason need have text",
    "running": "id name label row prompt output max_tokens computed num_tokens phase start tokens blocks progress",
    "finished": "id label cause output",
    "tokens": "budget used rows",
    "pool": "owner state refs lru",
    "events": "step kind id label text need have",
    "selected": "id label state table num_computed text prompt_text explain next_free row epoch cached preemptions",
}


def waiting_behind(reason: Reason, need: int, have: int, **limits: object) -> Script:
    """A decodes in row 0 with 3 blocks and at most 7 more tokens; B and C wait, B for ``reason``."""
    script = Script(**limits).at(
        0, arrive(0, 9, max_tokens=8), admit(0, 0), prefill(0, 9, [1, 2, 3]), Apply(1, [0], [9])
    )
    head = {"head": 1, "head_reason": reason, "head_need": need, "head_have": have, "waiting": 2}
    return script.at(1, arrive(1), arrive(2), step(joined=[0], **head)).at(2, Apply(2, [0], [9]))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_frame_has_the_schema_of_the_canvas_at_every_step(seed):
    """The page reads these keys; values must be JSON, counts must agree with lists, blocks with the pool."""
    played = Played(Scenario.draw(seed), seed=seed)
    run = played.timeline
    for number in range(run.step_count + 1):
        made = frame(run, run.seq_of_step(number), "auto")
        assert json.loads(json.dumps(made))["step"] == number
        for part, keys in KEYS.items():
            value = made if part == "" else made[part]
            for entry in value if isinstance(value, list) else [value]:
                assert entry is None or set(keys.split()) <= set(entry), part
        check_agreement(made)


def check_agreement(made: dict) -> None:
    """Counts, lists and pictures of one frame say the same."""
    numbers, pool = made["numbers"], made["pool"]
    states = pool["state"]
    assert numbers["blocks_used"] == states.count(1) + states.count(3) == sum(ref > 0 for ref in pool["refs"])
    assert numbers["blocks_cached"] == states.count(2)
    assert len(states) == len(pool["owner"]) == numbers["blocks_total"]
    assert all((owner < 0) == (state == 0) for owner, state in zip(pool["owner"], states))
    assert made["tokens"]["used"] == sum(row["count"] for row in made["tokens"]["rows"]) <= made["tokens"]["budget"]
    assert made["waiting_total"] >= len(made["waiting"]) and len(made["running"]) == numbers["running"]
    assert all(0 <= request["progress"] <= 1 for request in made["running"])
    assert made["behind_steps"] == made["live_step"] - made["step"]
    assert len(made["finished"]) <= 8 and len(made["events"]) <= 30 and len(made["history"]) <= 120


@pytest.mark.parametrize(
    ("reason", "need", "have", "words"),
    [
        (Reason.NO_FREE_BLOCKS, 5, 2, "needs 5 blocks, 2 are available (watermark 1)"),
        (Reason.WATERMARK, 5, 4, "needs 5 blocks with the watermark, 4 are available"),
        (Reason.RESERVED_FOR_RUNNING, 1, 0, "needs 1 block, 0 are not promised to running requests"),
        (Reason.MAX_NUM_SEQS, 3, 2, "needs a row, all 2 are taken"),
        (Reason.TOKEN_BUDGET, 1200, 1, "needs 1,200 tokens, 1 is left of the budget"),
        (Reason.GATE_CLOSED, 0, 1, "the gate is closed until 1 row of the batch is given back"),
        (Reason.GATE_CLOSED, 2500, 3, "the gate is closed for 2.5 ms more, 3 requests collected"),
        (Reason.PREEMPTED_THIS_STEP, 1, 0, "nobody is admitted in a step that preempted"),
        (Reason.RESULT_PENDING, 1, 2, "1 row waited for a result, 2 steps in flight must be applied first"),
    ],
)
def test_why_the_head_waits(reason, need, have, words):
    """The sentence beside a waiting request: words with the numbers that the scheduler compared."""
    run = waiting_behind(reason, need, have, watermark=0.1).timeline
    assert explain(run.state_at(run.last_seq), 1) == f"Not admitted: {words}."
    made = frame(run, run.last_seq, 1)
    assert [entry["text"] for entry in made["waiting"]] == [words, "behind B"]
    assert [entry["reason"] for entry in made["waiting"]] == [reason.name.lower(), "behind_head"]


def test_every_reason_has_words():
    """A new reason must not be shown as its number or as "waits"."""
    for reason in Reason:
        run = waiting_behind(reason, 3, 2).timeline
        assert frame(run, run.last_seq)["waiting"][0]["text"] != "waits"


def test_the_next_change_is_forecast_from_known_lengths():
    """Who can free blocks first, how many, and after how many steps at most: a bound that holds."""
    state = waiting_behind(Reason.NO_FREE_BLOCKS, 5, 2).timeline.state_at(99)
    assert (
        next_free(state, 1) == next_free(state, 2) == "Next change expected when A finishes: 3 blocks, at most 6 steps."
    )
    assert next_free(state, 0) == ""
    group = waiting_behind(Reason.GATE_CLOSED, 0, 1, batching="static").timeline.state_at(99)
    assert next_free(group, 1) == "Next change expected when A ends the batch: 3 blocks, at most 6 steps."
    window = waiting_behind(Reason.GATE_CLOSED, 2500, 3, batching="dynamic").timeline.state_at(99)
    assert next_free(window, 1) == "The gate opens in at most 2.5 ms, with 3 collected so far."


def test_a_forecast_counts_shared_blocks_as_kept():
    """A block that another request holds does not become available when one of both leaves."""
    script = waiting_behind(Reason.NO_FREE_BLOCKS, 5, 2)
    script.at(3, Admit(1, 1, 0, 0, 4, [1]), step(head=2, head_reason=Reason.NO_FREE_BLOCKS, head_need=5, head_have=2))
    assert "A finishes: 2 blocks" in next_free(script.timeline.state_at(99), 2)


def test_states_in_words():
    """Running, preempted, ended, padded, refused, unknown: each says what it is."""
    script = Script().at(0, arrive(0, 8, max_tokens=8), arrive(1, 99), Refuse(1, Reason.NEVER_FITS, 25, 8), admit(0, 0))
    chunk = step(
        chunk_rows=[0], chunk_starts=[0], chunk_tokens=[4], chunk_lasts=[0], block_rows=[0, 0], block_ids=[1, 2]
    )
    seen = [script.at(1, chunk)]
    texts = [explain(seen[0].timeline.state_at(99), request) for request in (0, 1, 7)]
    assert texts == [
        "Prefill in row 0: tokens 0 to 3 of 8 in this step.",
        "Refused on arrival: it could never run.",
        "This request is not known at this step.",
    ]
    script.at(2, Apply(1), Leave(0, 0, 1, Cause.PREEMPT, for_request=2, lost_tokens=4, need=1, have=0))
    assert explain(script.timeline.state_at(99), 0) == "First in the queue: it may enter with the next step."
    assert frame(script.timeline, 99)["waiting"][0]["computed_lost"] == 4
    script.at(3, admit(0, 0, 1, 1), prefill(0, 8, [1, 2]), Apply(2, [0], [9]), step(joined=[0]), Apply(3, [0], [9]))
    assert explain(script.timeline.state_at(99), 0) == "Decodes in row 0: 2 of at most 8 tokens, 2 blocks."
    script.at(4, Leave(0, 0, 2, Cause.EOS, keeps_row=1))
    ended = "Ended after 2 tokens: end of sequence. Its row goes on until the group has finished."
    assert explain(script.timeline.state_at(99), 0) == ended


def test_what_happened_is_told_with_numbers():
    """Each line of the list: who, why, how much; decisions belong to the step they were taken for."""
    script = Script().at(0, arrive(0, 8), arrive(1, 8), admit(0, 0), prefill(0, 8, [1, 2]), Apply(1, [0], [9]))
    script.at(1, KV(Op.EVICT, [3]), Leave(0, 0, 1, Cause.PREEMPT, for_request=1, lost_tokens=8, need=2, have=1))
    rest = step(
        used=4, chunk_rows=[0], chunk_starts=[4], chunk_tokens=[4], chunk_lasts=[1], block_rows=[0], block_ids=[4]
    )
    script.at(1, Admit(1, 0, 0, 0, 4, [1]), rest, Apply(2, [0], [9]), Cmd(Op.PAUSE))
    script.at(2, Leave(1, 0, 1, Cause.ABORT), Cmd(Op.RESUME))
    made = frame(script.timeline, 99)
    assert [(event["step"], event["kind"], event["text"]) for event in made["events"]] == [
        (1, "admit", "admitted A"),
        (2, "evict", "evicted 1 cached block"),
        (2, "preempt", "preempted A for B: 2 blocks needed, 1 available; 2 blocks freed, 8 tokens to recompute"),
        (2, "admit", "admitted B"),
        (2, "hit", "B found 4 tokens in the cache (1 block)"),
        (2, "pause", "paused"),
        (2, "abort", "B ended after 1 token (abort)"),
        (2, "resume_cmd", "resumed"),
    ]
    assert made["marks"] == [[2, "evict"], [2, "preempt"]]
    assert made["preemption"] | {"text": ""} == {
        "step": 2, "kind": "preempt", "id": 0, "label": "A", "text": "", "need": 2, "have": 1, "for": "B", "lost": 8,
        "freed": 2,
    }  # fmt: skip
    assert made["history"][-1][:5] == [2, 0, 4, 0, 1]


def test_each_bar_says_what_stopped_the_head_then():
    """The band under the bars must keep the reason of each step, not show the last one for all."""
    script = waiting_behind(Reason.NO_FREE_BLOCKS, 5, 2).at(3, step(), Apply(3, [0], [9]))
    script.at(4, step(head=1, head_reason=Reason.MAX_NUM_SEQS, head_need=1, head_have=2), Apply(4, [0], [9]))
    told = [bar[6:] for bar in frame(script.timeline, 99)["history"]]
    assert told == [["", "none", 0, 0], ["B", "no_free_blocks", 5, 2], ["", "none", 0, 0], ["B", "max_num_seqs", 1, 2]]


def test_labels():
    """A..Z, then A1: what colours and letters are keyed by."""
    assert [label(i) for i in (0, 25, 26, 53, -1)] == ["A", "Z", "A1", "B2", ""]


def test_a_frame_before_anything_happened():
    """The page opens while the engine is still loading."""
    made = frame(Script().timeline, 0, "auto")
    assert (made["step"], made["waiting"], made["selected"], made["numbers"]["tokens_per_s"]) == (0, [], None, 0.0)


def test_a_large_pool_is_thinned_to_cells():
    """A frame goes over the wire ten times a second: it must not carry 70,000 blocks."""
    made = frame(Script(pool_blocks=70_000).timeline, 0)
    assert made["pool"]["per_cell"] == 18
    assert len(made["pool"]["state"]) == len(made["pool"]["owner"]) == 3_889
    assert len(json.dumps(made)) < 60_000
