"""What a race says: the same requests through four schedulers, of mixed lengths or of equal ones."""

import statistics
from collections.abc import Mapping, Sequence

from engine.config import SchedulingConfig
from engine.trace.step_cost import StepCost
from engine.workload.items import Item
from engine.workload.kernel_ledger import of_references
from engine.workload.simulate import simulate_steps
from engine.workload.verdict import P99_SAMPLES, shares
from lessons.audit.estimators import OCCUPANCY
from lessons.audit.experiments.kernels import fusion_share
from lessons.audit.finding import Found, Number, found
from lessons.audit.registry import experiment
from lessons.audit.shapes import LLAMA_13B

NOISE = 0.1  # of a gain, between two races on a machine that does other things
SLO_S = 0.5
EVEN = StepCost(1e-3, 0.0, 0.0)  # every step takes the same: row-steps do not depend on it
GAIN = "wall time of static / wall time of in-flight, same requests, fastest laps"


def _both(race: Mapping) -> tuple[dict, dict]:
    return race["schedulers"]["static"], race["schedulers"]["in_flight"]


def _between(race: Mapping, low: float, high: float, **more: Number) -> Found:
    """Whether the own gain lies where an article puts it."""
    static, in_flight = _both(race)
    tail = (in_flight["p99_e2el_ms"] - static["p99_e2el_ms"]) / 1e3
    numbers = {"gain": (race["gain"], "x"), "bound": (race["bound"], "x"), "p99_change": (tail, "s")}
    return found(low <= race["gain"] <= high, **numbers, **more)


@experiment(GAIN + "; KV of 13B: 2 * layers * kv_heads * head_dim * 2", "race")
def gain_3_to_5(race: Mapping) -> Found:
    """S0-07."""
    return _between(race, 3, 5, kv_per_token_of_13b=(LLAMA_13B.kv_bytes, "B"))


@experiment(GAIN, "race")
def gain_5_to_8(race: Mapping) -> Found:
    """S0-71; the baseline here is the same engine with static batches."""
    return _between(race, 5, 8)


@experiment(GAIN, "race")
def gain_2_to_5(race: Mapping) -> Found:
    """S2-36."""
    return _between(race, 2, 5)


@experiment(GAIN + "; equal lengths; range over all pairs of laps", "equal")
def gain_equal(equal: Mapping) -> Found:
    """S1-19. On a machine that does other things the laps spread; a range that holds 1 then decides nothing."""
    static, in_flight = (run["repeats_s"] for run in _both(equal))
    low, high = min(static) / max(in_flight), max(static) / min(in_flight)
    near = abs(equal["gain"] - 1) < NOISE
    judged = "holds" if near else "silent" if low <= 1 <= high else "fails"
    numbers = {"gain": equal["gain"], "low": low, "high": high, "bound": equal["bound"]}
    return found(judged, **{name: (value, "x") for name, value in numbers.items()})


@experiment(GAIN, "race", "equal")
def gain_by_spread(race: Mapping, equal: Mapping) -> Found:
    """S1-16."""
    return found(race["gain"] > equal["gain"] + NOISE, mixed=(race["gain"], "x"), equal=(equal["gain"], "x"))


@experiment("padded row-steps / all row-steps of static", "race")
def static_padding(race: Mapping) -> Found:
    """S1-13."""
    padded = shares(_both(race)[0])["padded"]
    return found(padded > 0.05, padded=(padded, "share"))


@experiment("useful and idle row-steps / all row-steps of in-flight", "race")
def inflight_useful(race: Mapping) -> Found:
    """S1-14, S4-16."""
    parts = shares(_both(race)[1])
    judged = "partly" if parts["idle"] > 0.01 else "holds"
    return found(judged, **{name: (value, "share") for name, value in parts.items()})


@experiment("idle row-steps / all row-steps", "race")
def row_steps(race: Mapping) -> Found:
    """S0-30."""
    static, in_flight = (shares(run)["idle"] for run in _both(race))
    return found(True, static=(static, "share"), in_flight=(in_flight, "share"))


@experiment(
    "min(1, 1.8 * static) beside useful / all row-steps of in-flight; ten times the requests: simulated", "race"
)
def inflight_occupancy(race: Mapping) -> Found:
    """S1-33. One agreement would prove nothing: the formula must also hold when there is more to do."""
    static, in_flight = (shares(run)["useful"] for run in _both(race))
    said, more = min(1.0, OCCUPANCY * static), _busy_with(10, _both(race)[1]["requests"])
    numbers = {"static": static, "by_the_formula": said, "measured": in_flight, "ten_times_the_requests": more}
    wrong = max(abs(said - in_flight), abs(said - more)) > 0.05
    return found(not wrong, **{name: (value, "share") for name, value in numbers.items()})


def _busy_with(times: int, requests: Sequence[Mapping]) -> float:
    """Useful row-steps of 8 rows over all, in-flight, when the lengths of ``requests`` come ``times`` over."""
    rows, lengths = 8, [(each["prompt_tokens"], each["output_tokens"]) for each in requests] * times
    config = SchedulingConfig(100_000, max_num_seqs=rows, token_budget=64 * rows, prefix_cache=False)
    steps, _ = simulate_steps([Item([0] * prompt, output, output) for prompt, output in lengths], config, EVEN)
    return sum(facts.useful + facts.chunks for facts in steps) / (rows * len(steps))


@experiment("mean / longest of the run; 1 / (E[longest of a batch] / E[length]); useful row-steps of static", "race")
def static_util(race: Mapping) -> Found:
    """S1-32."""
    lengths = [request["output_tokens"] for request in _both(race)[0]["requests"]]
    published, corrected = statistics.mean(lengths) / max(lengths), 1 / race["bound"]
    useful = shares(_both(race)[0])["useful"]
    near = abs(corrected - useful) < abs(published - useful)
    return found(
        "partly" if near else "silent",
        published=(published, "share"),
        corrected=(corrected, "share"),
        measured=(useful, "share"),
    )


@experiment("useful row-steps / all row-steps of static", "race")
def static_useful(race: Mapping) -> Found:
    """S4-02."""
    useful = shares(_both(race)[0])["useful"]
    return found(0.35 <= useful <= 0.45, useful=(useful, "share"))


@experiment("78 / 42 - 1; useful row-steps of in-flight / of static - 1", "race")
def useful_change(race: Mapping) -> Found:
    """S4-19."""
    static, in_flight = (shares(run)["useful"] for run in _both(race))
    numbers = {"published": 78 / 42 - 1, "static": static, "in_flight": in_flight, "own": in_flight / static - 1}
    return found("partly", **{name: (value, "share") for name, value in numbers.items()})


@experiment("1 - 220 / 650; 1 - mean e2el of in-flight / of static", "race")
def latency_cut(race: Mapping) -> Found:
    """S4-20."""
    static, in_flight = _both(race)
    own = 1 - in_flight["mean_e2el_ms"] / static["mean_e2el_ms"]
    return found(own > 0, published=(1 - 220 / 650, "share"), own=(own, "share"))


@experiment("median of first token - arrival", "race")
def queueing(race: Mapping) -> Found:
    """S4-04."""
    static, in_flight = (run["median_ttft_ms"] / 1e3 for run in _both(race))
    return found(static > in_flight, static=(static, "s"), in_flight=(in_flight, "s"))


@experiment("requests with a first token within 500 ms, and with the whole answer within 500 ms, in-flight", "race")
def slo_500(race: Mapping) -> Found:
    """S4-03."""
    requests = _both(race)[1]["requests"]
    first = statistics.mean(request["ttft_ms"] < SLO_S * 1e3 for request in requests)
    whole = statistics.mean(request["e2el_ms"] < SLO_S * 1e3 for request in requests)
    return found("partly" if first > whole else "silent", first_token=(first, "share"), whole_answer=(whole, "share"))


@experiment("median of (first token - arrival) / (last token - arrival), in-flight", "race")
def first_byte(race: Mapping) -> Found:
    """S4-22."""
    requests = [each for each in _both(race)[1]["requests"] if each["output_tokens"] > 1]
    at = statistics.median(each["ttft_ms"] / each["e2el_ms"] for each in requests)
    return found(at < 1, first_token_at=(at, "share"))


@experiment("median e2el of the quarter with the shortest answers", "race")
def short_requests(race: Mapping) -> Found:
    """S4-23."""
    static, in_flight = (_shortest(run) for run in _both(race))
    return found("partly" if in_flight < static else "silent", static=(static, "s"), in_flight=(in_flight, "s"))


def _shortest(run: Mapping) -> float:
    requests = sorted(run["requests"], key=lambda each: each["output_tokens"])
    return statistics.median(each["e2el_ms"] for each in requests[: max(1, len(requests) // 4)]) / 1e3


@experiment("mean of admitted - arrived, first token - admitted, last - first token; in-flight", "race")
def stages(race: Mapping) -> Found:
    """S0-02, S0-08."""
    requests = _both(race)[1]["requests"]
    queue, ttft, whole = (
        statistics.mean(each[name] for each in requests) for name in ("queue_ms", "ttft_ms", "e2el_ms")
    )
    parts = {"queue": queue, "prefill": ttft - queue, "decode": whole - ttft}
    return found(True, **{name: (ms / 1e3, "s") for name, ms in parts.items()})


@experiment("output tokens / duration and median first token, dynamic beside in-flight", "race")
def dynamic_naming(race: Mapping) -> Found:
    """S4-18."""
    dynamic, in_flight = race["schedulers"]["dynamic"], race["schedulers"]["in_flight"]
    numbers = {}
    for name, run in (("dynamic", dynamic), ("in_flight", in_flight)):
        numbers[f"{name}_speed"] = run["output_throughput"], "tok/s"
        numbers[f"{name}_first_token"] = run["median_ttft_ms"] / 1e3, "s"
    same = abs(dynamic["output_throughput"] / in_flight["output_throughput"] - 1) < 0.05
    return found(same, **numbers)


@experiment("greedy tokens of all schedulers and laps, compared one by one", "race")
def tokens_identical(race: Mapping) -> Found:
    """S2-35."""
    same = race["tokens_identical"]
    return found(
        "holds" if same else "partly",
        "" if same else "tokens_differ",
        schedulers=len(race["schedulers"]),
        requests=_both(race)[1]["completed"],
    )


@experiment("definitions of vllm bench; in-flight", "race")
def metrics(race: Mapping) -> Found:
    """S0-68, S2-33."""
    run = _both(race)[1]
    samples = run["samples"]["ttft"]
    ranks = {f"{name}_ttft": (run[f"{name}_ttft_ms"] / 1e3, "s") for name in ("median", "p90", "p99")}
    judged = "holds" if samples >= P99_SAMPLES else "partly"
    return found(judged, speed=(run["output_throughput"], "tok/s"), samples=samples, needed=P99_SAMPLES, **ranks)


@experiment(GAIN + "; Amdahl by time over the fusions", "race", "kernels")
def two_pillars(race: Mapping, kernels: Mapping) -> Found:
    """S1-04, S1-20."""
    fusing = fusion_share(kernels)
    batching = {"batching": (race["gain"], "x")}
    if of_references(kernels) or "all_fused" not in fusing.numbers:
        return found("silent", "no_fusion", **batching)
    both = race["gain"] * fusing.numbers["all_fused"][0]
    return found(both > 2, fusion=fusing.numbers["all_fused"], product=(both, "x"), **batching)


@experiment(GAIN + "; prompt tokens found in the cache / all prompt tokens", "race", "prefix")
def ablation(race: Mapping, prefix: Mapping) -> Found:
    """S4-38."""
    hit = prefix["on"]["cached_tokens"] / prefix["prompt_tokens"]
    faster = prefix["off"]["prefill_s"] / prefix["on"]["prefill_s"]
    return found("partly", batching=(race["gain"], "x"), kv_reuse=(faster, "x"), hit=(hit, "share"))
