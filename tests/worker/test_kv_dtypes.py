"""Keys and values in 8 bits, from the configuration to the tokens."""

import pytest
import torch

from engine.config import SchedulingConfig, WorkerConfig
from engine.errors import InvalidRequest
from engine.request import SamplingParams
from engine.scheduling.kv_cache_manager import KVCacheManager
from engine.worker.checkpoint import resolve_kv_dtype
from engine.worker.kv_cache import automatic_cpu_blocks
from engine.worker.shapes import random_spec
from engine.workload.kv_accuracy import FORMULAS, kv_accuracy
from tests.scheduling.simulation import make_request
from tests.worker.checkpoints import build, save, worker_for
from tests.worker.loop import Loop, serve
from tests.worker.test_feature_matrix import MATRIX, SIZES, asked, check, limits_of, named, served
from tests.worker.test_whole_answers import prompts_of

KV_DTYPES = ("int8", "fp8")
PLAIN, EVERYTHING = MATRIX[0], MATRIX[-1]
FEATURES = [features for features in MATRIX if sum(features[name] != PLAIN[name] for name in PLAIN) == 1] + [EVERYTHING]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save(build("qwen3", seed=4), tmp_path_factory.mktemp("qwen3"))


@pytest.fixture(scope="module", params=KV_DTYPES)
def worker(request, checkpoint):
    return worker_for(checkpoint, kv_dtype=request.param, **SIZES)


@pytest.fixture(scope="module")
def alone(worker):
    """Each request alone, nothing chunked, cached or in flight, in the same 8-bit pool."""
    answers = []
    for seed, (prompt, params) in enumerate(asked()):
        loop = Loop(worker, **limits_of(PLAIN))
        loop.add(prompt, params, seed)
        answers += loop.run().token_ids
    return answers


@pytest.mark.parametrize("features", FEATURES, ids=named)
def test_features_do_not_change_tokens(worker, alone, features):
    """A scale per block, or one that grows while a block fills, would make tokens depend on chunks, on preemption and
    on who computed a prefix. A scale per token does not."""
    made = served(worker, limits_of(features))
    check(made, features)
    assert made.token_ids == alone


def test_8_bits_stay_close(worker, checkpoint):
    """Half of the memory costs a little of the logits, not the answers: the same texts in both pools."""
    prompts, greedy = prompts_of(), SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
    answers = serve(worker, prompts, greedy, **SIZES).token_ids

    def logits(prompt, answer, plain):
        kv_dtype = torch.float32 if plain else None
        return worker.logits(prompt + answer[:-1], first=len(prompt) - 1, kv_dtype=kv_dtype)

    found = kv_accuracy(list(zip(prompts, answers)), logits)
    assert set(found) == set(FORMULAS) and found["tokens"] == 24 * len(prompts)
    assert 0 < found["kl"] <= found["kl_worst"] < 0.05
    assert found["greedy_agreement"] > 0.9
    plain = serve(worker_for(checkpoint, **SIZES), prompts, greedy, **SIZES).token_ids
    for ours, theirs, first in zip(answers, plain, found["first_divergence"]):
        assert ours[:first] == theirs[:first]  # what greedy runs share is what the comparison says
        assert first is None or ours[first] != theirs[first]


def test_only_written_slots_get_scales(worker):
    """Of the whole scale pool only the slots of the request change; the reserved block stays as it was."""
    Loop(worker, **SIZES)
    worker.cache.scales.fill_(7)
    loop = Loop(worker, **SIZES)
    loop.add(prompts_of((11,))[0], SamplingParams(temperature=0, max_tokens=1))
    loop.run()
    touched = (worker.cache.scales != 7).all(3).all(1).all(0)  # [blocks, block_size]
    assert touched.sum() == 11 and not touched[0].any()
    assert (worker.cache.scales != 7).sum() == 11 * 2 * worker.spec.num_layers * worker.spec.num_kv_heads


@pytest.mark.parametrize(
    ("shape", "bf16", "eight_bits"), [("qwen3-0.6b", 114_688, 58_240), ("llama-3.1-8b", 131_072, 66_560)]
)
@pytest.mark.parametrize("kv_dtype", [torch.int8, torch.float8_e4m3fn], ids=KV_DTYPES)
def test_bytes_of_a_token(shape, bf16, eight_bits, kv_dtype):
    """What the pool is sized by: the scales of all layers included."""
    assert random_spec(shape, torch.bfloat16, torch.bfloat16, 2048).kv_bytes_per_token == bf16
    assert random_spec(shape, torch.bfloat16, kv_dtype, 2048).kv_bytes_per_token == eight_bits


def test_8_bits_hold_more_tokens_in_the_same_memory(worker, checkpoint):
    """The memory map counts what is there, and an automatic pool of the same size has more blocks."""
    assert worker.memory_map["kv_pool"] == (worker.scheduling.pool_blocks + 1) * 8 * worker.spec.kv_bytes_per_token
    held = worker.cache.data.nbytes + worker.cache.scales.nbytes
    assert worker.memory_map["kv_pool"] == held
    limits = {"max_num_seqs": 4096, "max_model_len": 1024}
    wide = [
        random_spec("llama-3.1-8b", torch.bfloat16, dtype, 8192) for dtype in (torch.bfloat16, worker.spec.kv_dtype)
    ]
    scheduling = worker.scheduling.__class__(**limits, token_budget=4096)
    before, after = (automatic_cpu_blocks(spec, scheduling) for spec in wide)
    assert after / before == pytest.approx(131_072 / 66_560, rel=0.01)


@pytest.mark.parametrize(("capability", "refused"), [((8, 0), True), ((8, 6), True), ((8, 9), False), ((9, 0), False)])
def test_fp8_needs_a_gpu_that_converts(monkeypatch, capability, refused):
    """Older GPUs are told so in one line that offers int8; int8 is never refused."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    cuda = torch.device("cuda")
    assert resolve_kv_dtype(WorkerConfig(kv_dtype="int8"), cuda) == torch.int8
    if not refused:
        assert resolve_kv_dtype(WorkerConfig(kv_dtype="fp8"), cuda) == torch.float8_e4m3fn
        return
    with pytest.raises(InvalidRequest, match=r"kv_dtype: .*8\.9.*int8") as raised:
        resolve_kv_dtype(WorkerConfig(kv_dtype="fp8"), cuda)
    assert "\n" not in str(raised.value)


def test_prefixes_of_other_kv_dtypes_are_other_prefixes(checkpoint):
    """Equal tokens in pools of another model or KV dtype have other hashes: a block moved between them cannot hit."""
    identities = {worker_for(checkpoint, kv_dtype=dtype).scheduling.kv_identity for dtype in ("auto", *KV_DTYPES)}
    assert len(identities) == 3
    hashes = set()
    for identity in identities:
        request = make_request(0, range(12), 1)
        config = SchedulingConfig(pool_blocks=4, block_size=4, kv_identity=identity)
        KVCacheManager(config).find_hits(request)
        hashes.add(request.block_hashes[0])
    assert len(hashes) == 3
