"""Every feature against every other: whatever is switched on, tokens are those of the plain fp32 path."""

from dataclasses import replace
from itertools import product

import pytest

from engine.request import SamplingParams
from engine.trace.events import Cause, Kind
from tests.worker.checkpoints import build, save, worker_for
from tests.worker.loop import ROOMY, Loop, Served
from tests.worker.test_padding import pad
from tests.worker.test_whole_answers import prompts_of

SIZES = {"block_size": 8, "max_num_seqs": 4}  # Triton kernels start at blocks of 8
FEATURES = {
    "in_flight": {0: {"steps_in_flight": 0}, 1: {"steps_in_flight": 1}},
    "prefill": {"whole": {"chunked_prefill": False, "token_budget": 64}, "chunked": {"token_budget": 11}},
    "pool": {"roomy": {"pool_blocks": 80}, "pressed": {"pool_blocks": 9}},
    "prefix": {"computed": {"prefix_cache": False}, "cached": {"prefix_cache": True}},
}
MATRIX = [dict(zip(FEATURES, names)) for names in product(*FEATURES.values())]
PARAMS = (
    SamplingParams(temperature=0, max_tokens=24, ignore_eos=True),
    SamplingParams(temperature=0.9, max_tokens=24),
    SamplingParams(temperature=0.9, top_p=0.9, frequency_penalty=0.4, max_tokens=24),
)


def named(features: dict) -> str:
    return "-".join(f"{name}-{value}" if name == "in_flight" else str(value) for name, value in features.items())


def asked() -> list[tuple[list[int], SamplingParams]]:
    """Nine requests of which four start with the same 16 tokens: greedy, by temperature, and with filters in turn."""
    shared, *others = prompts_of((16, 5, 23, 1, 40, 17, 9, 3, 12, 8))
    prompts = [shared + ids if index % 2 else ids for index, ids in enumerate(others)]
    return [(prompt[:40], PARAMS[index % len(PARAMS)]) for index, prompt in enumerate(prompts)]


def limits_of(features: dict) -> dict:
    """Fields of ``SchedulingConfig`` for one combination."""
    limits = dict(SIZES)
    for name, choice in features.items():
        limits |= FEATURES[name][choice]
    return limits


def served(worker, limits: dict) -> Served:
    """Half of the requests at once, the others while these decode, so that admissions meet every phase."""
    loop, requests = Loop(worker, **limits), asked()
    for seed, (prompt, params) in enumerate(requests):
        loop.add(prompt, params, seed)
        if seed >= len(requests) // 2:
            loop.step()
    return loop.run()


def check(made: Served, features: dict) -> None:
    """The features really were at work."""
    chunks = [tokens for event in made.events if event.KIND == Kind.STEP for tokens in event.chunk_tokens]
    assert (made.count(Kind.LEAVE, cause=int(Cause.PREEMPT)) > 0) == (features["pool"] == "pressed")
    assert any(made.cached) == (features["prefix"] == "cached")
    assert max(chunks) <= 11 if features["prefill"] == "chunked" else max(chunks) > 30


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save(build("qwen3", seed=4), tmp_path_factory.mktemp("qwen3"))


@pytest.fixture(scope="module")
def worker(checkpoint):
    return worker_for(checkpoint, **SIZES)


@pytest.fixture(scope="module")
def plain(worker) -> list[list[int]]:
    """Each request alone, its prompt in one step, nothing padded, cached or in flight, on the CPU in fp32."""
    answers = []
    for seed, (prompt, params) in enumerate(asked()):
        loop = Loop(worker, **limits_of(MATRIX[0]))
        loop.add(prompt, params, seed)
        answers += loop.run().token_ids
    return answers


@pytest.mark.parametrize("graphs", [None, False, True], ids=["exact", "padded", "graphs"])
@pytest.mark.parametrize("features", MATRIX, ids=named)
def test_features_do_not_change_tokens(worker, plain, features, graphs):
    """Two features that are right alone may be wrong together: each combination, with stand-ins for the graphs."""
    limits = limits_of(features)
    worker.steps.shapes = worker.steps.ladder = None
    worker.reset(replace(ROOMY, **limits))
    if graphs is not None:
        pad(worker, graphs)
    made = served(worker, limits)
    check(made, features)
    worker.steps.shapes = worker.steps.ladder = None
    assert made.token_ids == plain


@pytest.mark.gpu
@pytest.mark.parametrize("graphs", [False, True], ids=["eager", "graphs"])
@pytest.mark.parametrize("features", MATRIX, ids=named)
def test_features_do_not_change_tokens_on_cuda(checkpoint, plain, features, graphs):
    """The same with fused kernels, captured graphs and copies that are really on their way (fp32)."""
    limits = limits_of(features)
    worker = worker_for(checkpoint, device="cuda", **limits)
    if graphs:
        worker.warm_up()
        while worker.prepare():
            pass
        assert not worker.steps.ladder.failed
    made = served(worker, limits)
    check(made, features)
    assert made.token_ids == plain
    assert all(event.bucket for event in made.events if event.KIND == Kind.STEP) == graphs
