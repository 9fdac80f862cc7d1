"""bug_reports.md, kind (g): benchmarks that flatter. Each test carries the id of its report."""

import time

import pytest

from engine.trace.events import Apply, Arrive, Cause, Leave, Record, Step
from engine.trace.metrics import summary
from engine.trace.timeline import Timeline
from engine.workload.bench import throughput
from engine.workload.drive import drive
from engine.workload.items import Item, Workload
from engine.workload.peers import static_answers
from engine.workload.race import race

PROMPTS = [[5, 9], [7, 1, 3, 2, 8], [4, 4, 1, 6, 2, 9, 9, 3, 5]]


def test_G_01_a_second_run_gains_nothing_from_the_first(loaded):
    """G-01: same prompts twice; cached prompt tokens must be 0 both times, even on a model whose prefix cache is on."""
    workload = Workload("same prompts", [Item(list(range(64)), 3, 3) for _ in range(4)], 0)
    for _ in range(2):
        result = throughput(loaded.new_engine, workload, repeats=2).results
        assert result["cached_tokens"] == 0 and result["warm_up_s"] > 0


def test_G_02_throughput_counts_what_was_produced(loaded):
    """G-02: 8 requests ask for 64 tokens and get 5; the numerator is 8 x 5, prompt tokens stand apart."""
    items = [Item([index] * 100, max_tokens=64, forced_output_length=5) for index in range(8)]
    result = throughput(loaded.new_engine, Workload("early end", items, 0), repeats=1).results
    assert (result["total_output_tokens"], result["total_input_tokens"]) == (40, 800)
    assert result["output_throughput"] == pytest.approx(40 / result["duration_s"])


def test_G_03_padding_of_a_static_batch_is_invisible(loaded):
    """G-03: left-padded rows of the transformers baseline equal their solo runs (GPT-2 has absolute positions)."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=2)).eval()
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64}
    llama = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, **sizes)).eval()
    for model in (gpt2, llama):
        solo = [static_answers(model, [prompt], 8)[0] for prompt in PROMPTS]
        assert static_answers(model, PROMPTS, 8) == solo


def test_G_03_our_static_batch_equals_solo_and_in_flight(loaded):
    """G-03: our own static baseline pads no prompt; each row equals its solo run and the in-flight result."""
    items = [Item(prompt, 8, 8) for prompt in PROMPTS]
    solo = [drive(loaded.new_engine({}, ()), [item]).outputs[0] for item in items]
    for batching in ("static", "in-flight"):
        assert drive(loaded.new_engine({"batching": batching}, ()), items).outputs == solo


def test_G_04_the_first_token_is_no_gap():
    """G-04: submit at 0.0 s, tokens at 1.0, 1.1, 1.3: TTFT 1.0, gaps 0.1 and 0.2, TPOT 0.15."""
    sizes = {"budget": 8, "used": 1, "free": 0, "reclaimable": 0, "waiting": 0}
    first = Step(**sizes, chunk_rows=[0], chunk_starts=[0], chunk_tokens=[2], chunk_lasts=[1])
    from engine.trace.events import Admit

    timed = [(0.0, Arrive(0, 3, 0, 0, b"a", [1, 2])), (0.0, Admit(0, 0, 0, 0, 0, [])), (0.0, first)]
    timed += [(1.0, Apply(1, [0], [5])), (1.0, Step(**sizes, joined=[0])), (1.1, Apply(2, [0], [5]))]
    timed += [(1.1, Step(**sizes)), (1.3, Apply(3, [0], [5])), (1.3, Leave(0, 0, 1, Cause.LENGTH))]
    timeline, step = Timeline(), 0
    for seq, (at_s, event) in enumerate(timed):
        step += isinstance(event, Step)
        timeline.append(Record(seq, round(at_s * 1e9), step, event))
    values = summary(timeline)
    assert values["mean_ttft_ms"] == pytest.approx(1000)
    assert (values["mean_itl_ms"], values["samples"]["itl"]) == (pytest.approx(150), 2)
    assert values["mean_tpot_ms"] == pytest.approx(150)


@pytest.mark.parametrize("order", [("static", "in_flight"), ("in_flight", "static")])
def test_G_05_who_runs_first_pays_nothing(loaded, order, monkeypatch):
    """G-05: the first kernel call is stubbed with a sleep; it must fall into a warm-up, outside every timed lap."""
    launch, slept_at = loaded.worker.launch, []

    def slow_once(step):
        if not slept_at:
            slept_at.append(time.perf_counter())
            time.sleep(0.3)
        launch(step)

    monkeypatch.setattr(type(loaded.worker), "launch", lambda worker, step: slow_once(step))
    made = []

    def make(overrides, sinks):
        made.append((time.perf_counter(), bool(sinks)))
        return loaded.new_engine(overrides, sinks)

    results = race(make, [Item([1, 2, 3], 4, 4) for _ in range(6)], order, repeats=1)
    first_timed = next(at for at, is_timed in made if is_timed)
    assert slept_at[0] + 0.3 < first_timed
    assert results["schedulers"][order[0]]["warm_up_s"] >= 0.3
