"""The worker on CUDA: fused kernels and graphs against transformers on the CPU, and a real shape."""

from dataclasses import replace

import pytest
import torch

from engine.config import SchedulingConfig, WorkerConfig
from engine.request import SamplingParams
from engine.worker.runner import TorchWorker
from kernels.quantise import FORMATS
from tests.worker.checkpoints import build, save, worker_for
from tests.worker.drive import HandDriver, answer
from tests.worker.loop import serve
from tests.worker.test_parity import VARIANTS, reference, tokens
from tests.worker.test_sampling_rows import A, B, C
from tests.worker.test_whole_answers import GREEDY, generated, prompts_of

pytestmark = pytest.mark.gpu
LIMITS = {"block_size": 16, "pool_blocks": 64}  # Triton kernels start at blocks of 8


def climb(worker) -> None:
    """Capture every graph; none may fail."""
    while worker.prepare():
        pass
    ladder = worker.steps.ladder
    assert not ladder.failed and set(ladder.captured) == set(ladder.shapes.all())


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_equal_transformers_in_fp32(tmp_path, variant):
    """Every family and option through the Triton kernels; TF32 anywhere would show at 1e-3."""
    family, overrides = VARIANTS[variant]
    model = build(family, **overrides)
    ours = worker_for(save(model, tmp_path), device="cuda", **LIMITS).logits(tokens(150)).cpu()
    torch.testing.assert_close(ours, reference(model, tokens(150)), atol=5e-4, rtol=0)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_logit_gap_in_bf16_is_rounding(tmp_path, family):
    """bf16 keeps 8 bits: the gap to fp32 stays in proportion to the spread of the logits, and greedy mostly agrees."""
    model = build(family)
    ours = worker_for(save(model, tmp_path), device="cuda", dtype="bf16", **LIMITS).logits(tokens(150)).cpu()
    expected = reference(model, tokens(150))
    assert (ours - expected).abs().mean() < 0.03 * expected.std()
    assert (ours.argmax(-1) == expected.argmax(-1)).float().mean() > 0.9


@pytest.mark.parametrize("form", FORMATS)
def test_quantised_weights_in_graphs(tmp_path, form):
    """bf16 on quantised weights: prefill (tiles) is as near to the fp32 reference as rounding allows, and decode in
    graphs (one row: other kernels) mostly chooses what the same prefill would."""
    folder = save(build("qwen3"), tmp_path)
    expected = worker_for(folder, quantize=form).logits(tokens(150))
    worker = worker_for(folder, device="cuda", dtype="bf16", quantize=form, **LIMITS)
    worker.warm_up()
    climb(worker)
    ours = worker.logits(tokens(150)).cpu()
    assert (ours - expected).abs().mean() < 0.03 * expected.std()
    prompt = tokens(20)
    found = answer(worker, [prompt], max_tokens=32)[0]
    chosen = worker.logits(prompt + found[:-1], first=len(prompt) - 1).argmax(-1).tolist()
    assert sum(a == b for a, b in zip(found, chosen)) >= 28


@pytest.mark.parametrize("graphs", [False, True], ids=["eager", "graphs"])
@pytest.mark.parametrize("in_flight", [0, 1])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_greedy_equals_generate(tmp_path, family, in_flight, graphs):
    """Chunks, late results and decode graphs leave greedy tokens as transformers' (fp32)."""
    model = build(family, seed=4)
    worker = worker_for(save(model, tmp_path), device="cuda", steps_in_flight=in_flight, **LIMITS)
    if graphs:
        worker.warm_up()
        climb(worker)
    served = serve(worker, prompts_of(), GREEDY, steps_in_flight=in_flight, **LIMITS)
    assert (worker.steps.ladder is not None) == graphs
    assert served.token_ids == [generated(model, prompt, 12) for prompt in prompts_of()]


def test_F_02_graphs_equal_eager_for_every_batch(tmp_path):
    """F-02: batches of 1 to 5 rows, padded to 1, 2, 4 and 8: sampling parameters included."""
    worker = worker_for(save(build("llama"), tmp_path), device="cuda", max_num_seqs=5, token_budget=64, **LIMITS)
    params = [SamplingParams(temperature=0.8, top_p=0.9), SamplingParams(temperature=0, frequency_penalty=0.5)] * 3
    prompts = [A, B, C, A + C, B + A]
    eager = [answer(worker, prompts[:n], params[:n]) for n in range(1, 6)]
    worker.warm_up()
    climb(worker)
    assert [answer(worker, prompts[:n], params[:n]) for n in range(1, 6)] == eager


def test_F_01_padding_writes_no_slot(tmp_path):
    """Three live decodes in a graph of four: only their slots change in the whole pool."""
    worker = worker_for(save(build("llama"), tmp_path), device="cuda", **LIMITS)
    worker.warm_up()
    driver = HandDriver(worker, [A, B, C], [GREEDY] * 3, [1, 2, 3])
    driver.run(1)
    worker.cache.data.fill_(7.5)
    worker.launch(driver._step(1, [len(A), len(B), len(C)], [1, 1, 1]))
    worker.poll()
    touched = (worker.cache.data != 7.5).any(-1).any(0).any(0).any(1).nonzero().tolist()
    assert touched == [[1 + row * driver.per_row, len(prompt)] for row, prompt in enumerate((A, B, C))]


def test_real_shape_runs_on_what_is_free():
    """Random Qwen3-0.6B in the default dtype: automatic pool, graphs, 24 sampled requests, memory accounted for."""
    limits = SchedulingConfig(max_num_seqs=16, token_budget=2048, max_model_len=4096, steps_in_flight=1)
    worker = TorchWorker(WorkerConfig(random_weights="qwen3-0.6b", device="cuda"), limits, None)
    worker.warm_up()
    climb(worker)
    prompts = prompts_of([100 + 13 * i for i in range(24)])
    params = SamplingParams(temperature=0.6, max_tokens=40)
    limits = {name: getattr(worker.scheduling, name) for name in ("pool_blocks", "block_size", "max_num_seqs")}
    limits |= {"token_budget": 2048, "max_model_len": 4096, "steps_in_flight": 1}
    served = serve(worker, prompts, params, **limits)
    assert [len(ids) for ids in served.token_ids] == [40] * 24
    total = torch.cuda.mem_get_info()[1]
    assert sum(worker.memory_map.values()) == pytest.approx(total, rel=0.02)
    assert worker.scheduling.pool_blocks > 1000


def test_F_04_graphs_are_part_of_the_budget(tmp_path):
    """Half of what is free: weights, pool, activations and every graph together stay within it (and a GiB for what
    CUDA itself loads), and the graphs are told apart."""
    folder, free = save(build("llama"), tmp_path), torch.cuda.mem_get_info()[0]
    limits = SchedulingConfig(max_num_seqs=64, token_budget=2048, max_model_len=1024)
    worker = TorchWorker(WorkerConfig(str(folder), device="cuda", memory_fraction=0.5), limits, None)
    worker.warm_up()
    climb(worker)
    assert worker.memory_map["graphs"] > 0
    assert free - torch.cuda.mem_get_info()[0] <= free // 2 + 2**30
    worker.close()


def test_F_06_weights_leave_the_card_on_close(tmp_path):
    """F-06 on the device: allocated bytes return to where they were."""
    before = torch.cuda.memory_allocated()
    worker = worker_for(save(build("llama"), tmp_path), device="cuda", **LIMITS)
    worker.warm_up()
    answer(worker, [A], replace(GREEDY, repetition_penalty=1.2))
    worker.close()
    assert torch.cuda.memory_allocated() - before < 2**20 * 64  # cuBLAS keeps a workspace
