"""The two numbers that decide whether content comes back from the host: measured where they are asked for."""

from dataclasses import replace

import pytest

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.loading import LoadedModel, load_model
from engine.request import SamplingParams
from engine.trace.events import KV, Op
from engine.trace.recorder import ListSink
from engine.trace.timeline import split_runs
from engine.workload import swap_cost

LIMITS = SchedulingConfig(max_num_seqs=4, token_budget=32, max_model_len=128, host_blocks=40)


def load(sinks: tuple = (), **changes: object) -> LoadedModel:
    config = EngineConfig(replace(LIMITS, **changes), WorkerConfig(random_weights="tiny", device="cpu"), pool_blocks=9)
    return load_model(config, sinks)


def test_costs_are_measured_at_load():
    """The concrete configuration has both, no record of the measuring is left in the trace, and engines that follow
    bring prompts back: computing them takes longer than copying them, even here."""
    sink = ListSink()
    model = load((sink,))
    scheduling = model.config.scheduling
    assert scheduling.prefill_us_per_token > scheduling.swap_us_per_token > 0 and not sink.records
    engine = model.new_engine()
    answers = []
    for prompt in ([1] * 80, [2] * 90, [1] * 80):
        request = engine.submit(prompt, SamplingParams(max_tokens=4, temperature=0, ignore_eos=True))
        engine.run()
        answers.append(request.output_ids)
    assert answers[0] == answers[2]
    assert any(isinstance(r.event, KV) and r.event.op == Op.SWAP_IN for r in sink.records)
    run = split_runs(sink.records)[-1]
    assert run.state_at(run.last_seq).limit("swap_us_per_token", 0.0) == scheduling.swap_us_per_token
    model.close()


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({}, True),
        ({"host_blocks": 0}, False),
        ({"swap": "always"}, False),
        ({"prefill_us_per_token": 3.0}, False),
    ],
)
def test_costs_are_measured_only_when_needed(changes, needed):
    """Loading takes no longer without host blocks, and figures that somebody gave are kept."""
    assert swap_cost.is_needed(replace(LIMITS, **changes)) == needed
