"""What runs under memory pressure say: both capacity policies, a shared prefix, and sizes of a block."""

from collections.abc import Mapping

from lessons.audit.finding import Found, found
from lessons.audit.registry import experiment

TIGHT = 0.7  # of the demand: the pool at which policies are compared
AGGRESSIVE, CAUTIOUS = "max-utilization", "guaranteed-no-evict"


def _run(pressure: Mapping, capacity: str, share: float = TIGHT) -> dict:
    return next(run for run in pressure["runs"] if run["capacity"] == capacity and run["share"] == share)


@experiment("output tokens / duration of both policies, pools of 70 % and 50 % of the demand; preemptions", "pressure")
def capacity_policies(pressure: Mapping) -> Found:
    """S0-37."""
    tight, tightest = (_ratio(pressure, share) for share in (TIGHT, 0.5))
    cautious = _run(pressure, CAUTIOUS)
    idle = 1 - cautious["mean_blocks"] / cautious["pool_blocks"]
    return found(
        "holds" if min(tight, tightest) > 1 else "partly",
        aggressive_over_cautious=(tight, "x"),
        with_half_the_pool=(tightest, "x"),
        preemptions_aggressive=_run(pressure, AGGRESSIVE)["preemptions"],
        preemptions_cautious=cautious["preemptions"],
        reserved_and_unused=(idle, "share"),
    )


@experiment("blocks that all rows need at once / blocks of the pool; requests that finished, preemptions", "pressure")
def oversubscription(pressure: Mapping) -> Found:
    """S0-32."""
    run, other = _run(pressure, AGGRESSIVE, 0.5), _run(pressure, CAUTIOUS, 0.5)
    return found(
        "partly" if run["preemptions"] > other["preemptions"] else "silent",
        demand=(run["demand"] / run["pool_blocks"], "x"),
        finished=run["completed"],
        preemptions=run["preemptions"],
        preemptions_cautious=other["preemptions"],
    )


@experiment("requests that finished and preemptions of GUARANTEED_NO_EVICT; mean blocks / pool", "pressure")
def cautious_guarantee(pressure: Mapping) -> Found:
    """S0-36."""
    run = _run(pressure, CAUTIOUS)
    done = {"finished": run["completed"], "preemptions": run["preemptions"]}
    return found(run["preemptions"] == 0, unused=(1 - run["mean_blocks"] / run["pool_blocks"], "share"), **done)


def _ratio(pressure: Mapping, share: float) -> float:
    aggressive, cautious = (_run(pressure, way, share)["output_throughput"] for way in (AGGRESSIVE, CAUTIOUS))
    return aggressive / cautious


@experiment(
    "tokens computed again / tokens of the answers; answers compared with those of a pool without pressure", "pressure"
)
def preemption_cost(pressure: Mapping) -> Found:
    """S0-40."""
    run = _run(pressure, AGGRESSIVE, 0.5)
    again = run["recomputed_tokens"] / run["total_output_tokens"]
    return found(
        "holds" if run["preemptions"] and pressure["identical"] else "silent",
        preemptions=run["preemptions"],
        computed_again=(run["recomputed_tokens"], "tok"),
        of_the_answers=(again, "share"),
        longest_gap=(run["p99_itl_ms"] / 1e3, "s"),
    )


@experiment("states that requests went through, counted from the records", "pressure")
def life_cycle(pressure: Mapping) -> Found:
    """S0-12."""
    run = _run(pressure, AGGRESSIVE, 0.5)
    waited = run["waiting_steps"]
    return found(
        "partly" if run["preemptions"] else "holds",
        finished=run["completed"],
        steps_with_someone_waiting=waited,
        times_preempted=run["preemptions"],
    )


@experiment("most and mean blocks in use / blocks of the pool", "pressure")
def pool_in_use(pressure: Mapping) -> Found:
    """S0-13."""
    run = _run(pressure, AGGRESSIVE)
    peak, mean = (run[name] / run["pool_blocks"] for name in ("peak_blocks", "mean_blocks"))
    return found(peak <= 1, pool=run["pool_blocks"], peak=(peak, "share"), mean=(mean, "share"))


@experiment("steps by the reason of the head of the queue", "pressure")
def admission(pressure: Mapping) -> Found:
    """S0-35."""
    reasons = [_run(pressure, way)["reasons"] for way in (AGGRESSIVE, CAUTIOUS)]
    blocks = sum(
        each.get(name, 0) for each in reasons for name in ("no_free_blocks", "watermark", "reserved_for_running")
    )
    rows = sum(each.get("max_num_seqs", 0) for each in reasons)
    return found(blocks > 0, waits_for_blocks=blocks, waits_for_a_row=rows)


@experiment("steps by what they held", "pressure", "chunks")
def step_kinds(pressure: Mapping, chunks: Mapping) -> Found:
    """S0-38."""
    kinds = _run(pressure, AGGRESSIVE)["kinds"]
    chunked = chunks["budgets"][0]["mixed_steps"]
    return found(True, prompts=kinds["prefill"], decodes=kinds["decode"], chunk_and_decodes=chunked)


@experiment("output tokens / duration against the pool, MAX_UTILIZATION", "pressure")
def pool_sweep(pressure: Mapping) -> Found:
    """S2-32."""
    runs = [run for run in pressure["runs"] if run["capacity"] == AGGRESSIVE]
    speeds = {f"pool_{round(100 * run['share'])}_percent": (run["output_throughput"], "tok/s") for run in runs}
    slow, fast = runs[0]["output_throughput"], runs[-1]["output_throughput"]
    return found(slow < fast, **speeds)


@experiment("cached tokens / prompt tokens; median seconds from admission to the first token, without / with", "prefix")
def prefix_hit(prefix: Mapping) -> Found:
    """S0-50, S4-28."""
    hit = prefix["on"]["cached_tokens"] / prefix["prompt_tokens"]
    before, after = prefix["off"]["prefill_s"], prefix["on"]["prefill_s"]
    return found(hit > 0 and after < before, hit=(hit, "share"), without=(before, "s"), with_reuse=(after, "s"))


@experiment("1 - tokens / (blocks held * block size) at the end of the answers; entries of the longest table", "blocks")
def block_waste(blocks: Mapping) -> Found:
    """S0-27, S1-27: the only waste is the tail of the last block."""
    numbers = {f"waste_{each['block_size']}": (each["waste"], "share") for each in blocks["sizes"]}
    small, large = blocks["sizes"][0], blocks["sizes"][-1]
    numbers |= {f"table_{each['block_size']}": (each["table"], "") for each in (small, large)}
    return found("partly" if small["waste"] < large["waste"] else "silent", **numbers)
