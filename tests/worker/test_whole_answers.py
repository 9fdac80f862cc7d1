"""Scheduler and worker together: whatever the scheduler does to a request, its tokens are those of ``generate``."""

from dataclasses import replace

import pytest
import torch

from engine.request import SamplingParams
from engine.trace.events import Cause, Kind, Op
from tests.worker.checkpoints import build, save, worker_for
from tests.worker.loop import Loop, serve
from tests.worker.test_sampling_rows import with_bias

GREEDY = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
SAMPLED = SamplingParams(temperature=0.9, top_p=0.9, frequency_penalty=0.4, max_tokens=12)
LENGTHS = (5, 23, 1, 40, 16, 9, 33, 7)


def prompts_of(lengths=LENGTHS, seed=2) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 512, (length,), generator=generator).tolist() for length in lengths]


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3"])
def pair(request, tmp_path_factory):
    """A transformers model and a worker on the same checkpoint."""
    model = build(request.param, seed=4)
    return model, worker_for(save(model, tmp_path_factory.mktemp(request.param)))


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    return worker_for(save(build("llama", seed=6), tmp_path_factory.mktemp("llama")))


@pytest.fixture(scope="module")
def alone(worker):
    """The answer of each prompt when nobody else is there and nothing is in flight."""
    return {
        params: [serve(worker, [prompt], params).token_ids[0] for prompt in prompts_of()]
        for params in (GREEDY, SAMPLED)
    }


def generated(model, prompt: list[int], count: int) -> list[int]:
    out = model.generate(torch.tensor([prompt]), max_new_tokens=count, do_sample=False)
    return out[0, len(prompt) :].tolist()


PRESSURES = {
    "plenty": {},
    "chunked prefill": {"token_budget": 6, "max_num_seqs": 4},
    "equal chunks": {"token_budget": 9, "chunking": "equal"},
    "preemption": {"pool_blocks": 16, "prefix_cache": False},
    "preemption and own prefix": {"pool_blocks": 16},
    "preemption and a small host": {"pool_blocks": 16, "host_blocks": 3, "swap": "always"},
    "preemption and a host": {"pool_blocks": 16, "host_blocks": 60, "swap": "always"},
    "no evict": {"pool_blocks": 20, "capacity": "guaranteed-no-evict"},
    "block of one": {"block_size": 1, "pool_blocks": 200},
    "static": {"batching": "static"},
    "static shrinking": {"batching": "static-shrinking"},
}


@pytest.mark.parametrize("in_flight", [0, 1, 2])
def test_greedy_equals_generate(pair, in_flight):
    """Every family: eight requests over four rows, with results 0, 1 and 2 steps late."""
    model, worker = pair
    prompts = prompts_of()
    served = serve(worker, prompts, GREEDY, steps_in_flight=in_flight)
    assert served.token_ids == [generated(model, prompt, 12) for prompt in prompts]
    assert served.causes == [Cause.LENGTH] * len(prompts)


@pytest.mark.parametrize("in_flight", [0, 1])
@pytest.mark.parametrize("pressure", PRESSURES)
@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_pressure_does_not_change_tokens(worker, alone, pressure, params, in_flight):
    """Chunks, preemption, resumes from the own cached prefix, batching and late results leave tokens alone."""
    loop = Loop(worker, steps_in_flight=in_flight, **PRESSURES[pressure])
    for prompt in prompts_of():
        loop.add(prompt, params)
    pressed = loop.run()
    assert pressed.token_ids == alone[params]
    if "preemption" in pressure:
        assert pressed.count(Kind.LEAVE, cause=int(Cause.PREEMPT)) > 0
    if "a host" in pressure:
        assert pressed.count(Kind.KV, op=int(Op.SWAP_IN)) > 0


def test_prefix_hits_do_not_change_tokens(worker):
    """A later request that starts with an earlier prompt reads its blocks and answers the same."""
    first, second = prompts_of((32, 11))
    loop = Loop(worker)
    loop.add(first, GREEDY)
    loop.run()
    loop.add(first, GREEDY)
    loop.add(first + second, GREEDY)
    served = loop.run()
    assert served.cached == [0, 28, 32]
    assert served.token_ids[1] == served.token_ids[0]
    assert served.token_ids[2] == serve(worker, [first + second], GREEDY, prefix_cache=False).token_ids[0]


def test_A_07_reset_forgets_the_cache(worker):
    """A new run on the same weights starts with an empty cache, so nothing computed under other settings is reused."""
    prompt = prompts_of((9,))[0]
    first = serve(worker, [prompt], GREEDY)
    again = serve(worker, [prompt], GREEDY)
    assert again.cached == [0] and again.token_ids == first.token_ids


def test_G_03_static_batch_equals_solo_runs(pair):
    """Prompts of 2, 5 and 9 ids without a pad token: no left padding, so positions and masks cannot go wrong."""
    model, worker = pair
    prompts = prompts_of((2, 5, 9))
    expected = [generated(model, prompt, 12) for prompt in prompts]
    for batching in ("static", "static-shrinking", "in-flight"):
        assert serve(worker, prompts, GREEDY, batching=batching).token_ids == expected


@pytest.mark.parametrize("generation", [[2, 5], 5])
@pytest.mark.parametrize("in_flight", [0, 1])
def test_E_06_answer_stops_at_the_generation_configs_end(tmp_path, generation, in_flight):
    """The end-of-turn id stands only in the generation config: the answer stops there, with one token."""
    worker = with_bias(tmp_path, token=5, size={}, eos=2, generation_eos=generation)
    served = serve(worker, [[1, 2, 3], [4]], SamplingParams(temperature=0, max_tokens=9), steps_in_flight=in_flight)
    assert served.token_ids == [[5], [5]] and served.causes == [Cause.EOS] * 2


def test_E_06_without_a_generation_config(tmp_path):
    """The model's own end id still ends an answer, and ignore_eos goes past it."""
    worker = with_bias(tmp_path, token=2, size={}, eos=2)
    assert not (tmp_path / "generation_config.json").exists()
    params = SamplingParams(temperature=0, max_tokens=4)
    assert serve(worker, [[1, 3]], params).token_ids == [[2]]
    assert serve(worker, [[1, 3]], replace(params, ignore_eos=True)).token_ids == [[2, 2, 2, 2]]
    assert serve(worker, [[1, 3]], replace(params, min_tokens=2)).token_ids[0][2] == 2


def test_late_stop_drops_the_step_in_flight(tmp_path):
    """A stop found one step late: the row's next result is dropped, and its seat serves the next request unharmed."""
    worker = with_bias(tmp_path, token=5, size={}, eos=5)
    loop = Loop(worker, steps_in_flight=1, max_num_seqs=1, token_budget=8)
    params = SamplingParams(temperature=0, max_tokens=9)
    loop.add([1, 2, 3], params)
    loop.add([9, 8], replace(params, stop_token_ids=(7,), min_tokens=3))
    served = loop.run()
    assert served.token_ids[0] == [5] and served.token_ids[1][3:] == [5]
    assert sum(len(e.dropped) for e in served.events if e.KIND == Kind.APPLY) >= 1
