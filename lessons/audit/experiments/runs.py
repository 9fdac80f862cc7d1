"""What runs of the bundled model say: steps, chunks, sampling, starting, keys, and the host."""

from collections.abc import Mapping

from lessons.audit.finding import Found, found
from lessons.audit.registry import experiment

USUAL_BUILD_S = 600  # the article: tens of minutes at least


@experiment("weight bytes of a step / rows; ms per decode step of the run", "steps")
def weights_shared(steps: Mapping) -> Found:
    """S0-04."""
    first, last = steps["entries"][0], steps["entries"][-1]
    per_row = last["ms_per_step"] / last["rows"] / first["ms_per_step"]
    return found(
        "partly" if per_row < 0.8 else "silent",
        rows=last["rows"],
        weights_per_token_alone=(steps["streamed_bytes"], "B"),
        weights_per_token_batched=(steps["streamed_bytes"] / last["rows"], "B"),
        time_per_token=(per_row, "x"),
    )


@experiment("ms per decode step and rows / ms", "steps")
def latency_throughput(steps: Mapping) -> Found:
    """S1-02."""
    first, last = steps["entries"][0], steps["entries"][-1]
    conflict = last["ms_per_step"] > first["ms_per_step"] and last["tokens_per_s"] > first["tokens_per_s"]
    return found(
        "partly" if conflict else "silent",
        step_of_one_row=(first["ms_per_step"] / 1e3, "s"),
        step_of_all_rows=(last["ms_per_step"] / 1e3, "s"),
        speed_of_one_row=(first["tokens_per_s"], "tok/s"),
        speed_of_all_rows=(last["tokens_per_s"], "tok/s"),
    )


@experiment("steps that held a chunk of a prompt and decodes", "chunks")
def mixed_steps(chunks: Mapping) -> Found:
    """S0-26, S0-43."""
    small = chunks["budgets"][0]
    return found("partly" if small["mixed_steps"] else "silent", mixed=small["mixed_steps"], steps=small["steps"])


@experiment("first token of the long prompt and longest step of the others, by token budget", "chunks")
def chunk_table(chunks: Mapping) -> Found:
    """S0-41, S0-42, S4-13. Alternating chunks and decodes is not offered by this engine."""
    numbers = {}
    for each in chunks["budgets"]:
        numbers[f"first_token_{each['budget']}"] = each["first_token_ms"] / 1e3, "s"
        numbers[f"longest_step_{each['budget']}"] = each["longest_step_ms"] / 1e3, "s"
    smallest, whole = chunks["budgets"][0], chunks["budgets"][-1]
    return found(smallest["longest_step_ms"] < whole["longest_step_ms"], **numbers)


@experiment("longest step that held the long prompt / usual decode step, prompt not cut", "chunks")
def jitter(chunks: Mapping) -> Found:
    """S4-35."""
    whole = chunks["budgets"][-1]
    ratio = whole["longest_step_ms"] / whole["usual_step_ms"]
    return found(
        "partly" if ratio > 2 else "silent", stall=(whole["longest_step_ms"] / 1e3, "s"), of_usual=(ratio, "x")
    )


@experiment("answers of four requests with settings of their own, alone and in one batch", "sampling")
def sampling_mix(sampling: Mapping) -> Found:
    """S0-28."""
    same, requests = sampling["same"], sampling["requests"]
    return found(same == requests, requests=requests, same=same, unlike_greedy=sampling["unlike_greedy"])


@experiment("seconds until the model is ready, twice in one process", "start")
def start_seconds(start: Mapping) -> Found:
    """S1-22, S2-18."""
    first, second = start["first_s"], start["second_s"]
    return found("partly", first=(first, "s"), second=(second, "s"), ratio=(first / second, "x"))


@experiment("bytes by purpose, of the engine's own process", "weights")
def memory_map(weights: Mapping) -> Found:
    """S2-08, S2-23."""
    parts = {name: (weights["memory_map"][name], "B") for name in ("weights", "kv_pool", "activations", "graphs")}
    return found("partly", **parts)


@experiment("largest |tensor of the checkpoint - its part of the stacked weight|", "weights")
def weight_map(weights: Mapping) -> Found:
    """S2-10."""
    off, stacked = weights["largest_difference"], weights["stacked"]
    return found(off == 0, largest_difference=off, qkv=stacked["qkv"], gate_up=stacked["gate_up"])


@experiment("families of the loader: Llama, Qwen2, Qwen3; switches: bias, norm of q and k, tied embeddings", "weights")
def families(weights: Mapping) -> Found:
    """S2-11."""
    return found(len(weights["families"]) >= 3, families=len(weights["families"]), switches=3)


@experiment("seconds to encode / tokens; ms per decode step of one row", "host", "steps")
def tokenizer(host: Mapping, steps: Mapping) -> Found:
    """S4-14."""
    text = host["tokenizer"]
    step_s = steps["entries"][0]["ms_per_step"] / 1e3
    share = text["encode_s"] / step_s
    return found(
        True,
        tokens=(text["tokens"], "tok"),
        encoding=(text["encode_s"], "s"),
        step=(step_s, "s"),
        of_a_step=(share, "x"),
    )


@experiment("|rounded - key| / |key| of the bundled model's keys, 8 bit, by what shares a scale", "keys")
def kv_scales(keys: Mapping) -> Found:
    """S0-54."""
    errors = {name: (value, "share") for name, value in keys["errors"].items()}
    worse = keys["errors"]["head"] > keys["errors"]["token_head"]
    judged = "fails" if worse and keys["errors"]["head"] > keys["errors"]["channel"] else "silent"
    return found(judged, **errors, stale_scale=(keys["stale"], "share"), outlier=(keys["outlier"], "x"))


@experiment("|rounded - key| / |key|, 8 bit: with a scale of other tokens at half their size; with its own", "keys")
def stale_scale(keys: Mapping) -> Found:
    """S0-55."""
    stale, fresh = keys["stale"], keys["errors"]["token_head"]
    return found("partly" if stale > fresh else "silent", stale=(stale, "share"), per_token=(fresh, "share"))


@experiment("us of the engine loop per step without a device / ms per decode step", "host", "steps")
def host_share(host: Mapping, steps: Mapping) -> Found:
    """S4-36."""
    step_s = steps["entries"][-1]["ms_per_step"] / 1e3
    share = host["step_us"] * 1e-6 / step_s
    return found(
        "holds" if share > 0.2 else "partly",
        host=(host["step_us"] * 1e-6, "s"),
        step=(step_s, "s"),
        share=(share, "share"),
    )
