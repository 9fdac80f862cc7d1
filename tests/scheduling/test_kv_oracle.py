"""Every answer under every policy is the one that the request gets alone, and every read of the KV cache is right.

Number of random workloads: environment variable ``FLIGHTDECK_ORACLE_RUNS`` (2,400 unless set, about 12 s; 15,552 meet
every combination of policies once).
"""

import os
from collections.abc import Callable

import pytest

from engine.request import Request
from engine.scheduling import kv_cache_manager
from engine.scheduling.block_pool import BlockPool
from engine.scheduling.kv_cache_manager import KVCacheManager
from engine.trace.events import KV, Admit, Cause, Leave, Reason, Step
from tests.scheduling.oracle import Mismatch
from tests.scheduling.workloads import POLICIES, run, seeded_workload

RUNS = int(os.environ.get("FLIGHTDECK_ORACLE_RUNS", "2400"))


@pytest.mark.parametrize("policy", range(len(POLICIES)), ids=lambda policy: "-".join(map(str, POLICIES[policy])))
def test_random_workloads(policy):
    """Guards against any wrong block, table, hit, chunk, preemption, late result or order of records. The fold of the
    trace must equal the scheduler's state after every STEP, APPLY and LEAVE; every request must end."""
    for seed in range(policy, RUNS, len(POLICIES)):
        try:
            run(seeded_workload(seed))
        except Exception as error:
            error.add_note(f"seeded_workload({seed})")
            raise


def test_workloads_reach_everything():
    """Guards the test above against becoming harmless: preemptions (not of the newest only), resumes with hits, late
    stops, evictions, padded rows, waits for a prefix and every other reason of the head must occur among them."""
    sims = [run(seeded_workload(seed), checks=False) for seed in range(960)]
    leaves = [leave for sim in sims for leave in sim.of(Leave)]
    reasons = {Reason(step.head_reason) for sim in sims for step in sim.of(Step)}
    admits = [admit for sim in sims for admit in sim.of(Admit)]
    assert {Cause(leave.cause) for leave in leaves} == set(Cause)
    assert reasons == set(list(Reason)[: Reason.PRIORITY + 1]) | {Reason.RESULT_PENDING}
    assert sum(leave.cause == Cause.PREEMPT for leave in leaves) > 50
    assert sum(leave.late for leave in leaves) > 500 and sum(leave.keeps_row for leave in leaves) > 200
    assert sum(bool(admit.hit_blocks) for admit in admits) > 100
    assert any(admit.resumed and admit.hit_blocks for admit in admits)
    assert sum(len(record.blocks) for sim in sims for record in sim.of(KV)) > 1000
    assert any(step.sat_out for sim in sims for step in sim.of(Step))


def keep_hash_of_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockPool, "_evict", lambda pool, block: None)


def hash_without_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = kv_cache_manager.block_hash
    monkeypatch.setattr(kv_cache_manager, "block_hash", lambda parent, ids: honest(b"", ids))


def hit_without_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockPool, "retain", lambda pool, block: None)


def hash_before_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = KVCacheManager.hash_full_blocks

    def early(kv: KVCacheManager, request: Request, num_written: int) -> bool:
        return honest(kv, request, len(request.blocks) * kv.block_size)

    monkeypatch.setattr(KVCacheManager, "hash_full_blocks", early)


def one_block_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KVCacheManager, "blocks_for", lambda kv, tokens: max(1, tokens // kv.block_size))


def free_while_running(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = KVCacheManager.grow

    def leaky(kv: KVCacheManager, request: Request, num_tokens: int) -> list[int]:
        blocks = honest(kv, request, num_tokens)
        kv.pool.release(blocks[:1])
        return blocks

    monkeypatch.setattr(KVCacheManager, "grow", leaky)


FAULTS = [
    keep_hash_of_evicted,
    hash_without_parent,
    hit_without_reference,
    hash_before_the_write,
    one_block_too_few,
    free_while_running,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_oracle_sees(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch):
    """Guards against a blind oracle: each classic block-manager fault, planted on purpose, must end in a mismatch
    that names step and request, with all other checks switched off."""
    fault(monkeypatch)
    with pytest.raises(Mismatch, match=r"step \d+: request \d+ "):
        for seed in range(2000):
            run(seeded_workload(seed), checks=False)
