"""Invented documents of every measurement, with the shapes of real ones. No number in them was measured."""

from collections.abc import Mapping
from random import Random


def documents() -> dict[str, dict]:
    """Name of the measurement -> its results."""
    return {
        "race": race(gain=2.1, bound=2.6),
        "equal": race(gain=1.0, bound=1.0),
        "pressure": _pressure(),
        "prefix": {
            "off": {"cached_tokens": 0, "prefill_s": 0.07},
            "on": {"cached_tokens": 80, "prefill_s": 0.01},
            "prompt_tokens": 100,
        },
        "blocks": {
            "sizes": [
                {"block_size": size, "waste": size / 300, "table": 128 // size, "seconds": 1.0}
                for size in (8, 16, 64, 128)
            ]
        },
        "chunks": {"budgets": [_budget(budget) for budget in (32, 64, 128, 512)], "long": 448, "chats": 4},
        "steps": {
            "entries": [_step(1, 4.0), _step(8, 6.0)],
            "streamed_bytes": 28e6,
            "kv_bytes": 8192,
        },
        "sampling": {"requests": 4, "same": 4, "unlike_greedy": 3},
        "start": {
            "first_s": 3.0,
            "second_s": 0.5,
        },
        "weights": {
            "memory_map": {
                "weights": 28e6,
                "kv_pool": 34e6,
                "activations": 6e6,
                "graphs": 0,
                "context": 0,
                "free": 1e9,
            },
            "stacked": {"qkv": 3, "o": 1, "gate_up": 2, "down": 1},
            "largest_difference": 0.0,
            "families": ["llama", "qwen2", "qwen3"],
        },
        "keys": {
            "errors": {"tensor": 0.014, "head": 0.012, "channel": 0.006, "token_head": 0.008},
            "stale": 0.2,
            "outlier": 6.5,
            "layers": 8,
        },
        "host": {"rows": 8, "step_us": 16.0, "tokenizer": {"encode_s": 1e-4, "tokens": 177}},
        "copies": {"pageable": 9e9, "pinned": 5e10, "one_stream_s": 0.01, "two_streams_s": 0.006, "bytes": 2**28},
        "graphs": {
            "entries": [
                {"rows": 1, "graph_s": 1e-4, "eager_s": 8e-4},
                {"rows": 64, "graph_s": 3e-4, "eager_s": 9e-4},
            ],
            "graphs": 20,
            "capture_s": 2.0,
            "capture_mb": 60.0,
            "hits": 90,
            "eager_steps": 3,
        },
        "utilisation": {"utilisation": 1.0, "of_bandwidth": 2e-6, "launches_s": 9e5},
        "formats": {"capability": [9, 0], "formats": {"fp16": True, "bf16": True, "fp8": True}},
    }


def race(gain: float, bound: float) -> dict:
    """Results of a race without its pictures."""
    static, in_flight = (
        _run(useful=400, padded=500, idle=100, slow=gain),
        _run(useful=400, padded=0, idle=140, slow=1.0),
    )
    runs = {"static": static, "static_shrinking": static, "dynamic": static, "in_flight": in_flight}
    return {"schedulers": runs, "gain": gain, "bound": bound, "tokens_identical": True}


def _run(useful: int, padded: int, idle: int, slow: float) -> dict:
    requests = [_request(index, slow) for index in range(16)]
    latencies = {
        f"{rank}_{name}_ms": 300.0 * slow for rank in ("mean", "median", "p90", "p99") for name in ("ttft", "e2el")
    }
    return latencies | {
        "row_steps": {"useful": useful, "padded": padded, "idle": idle, "late": 0},
        "output_throughput": 800 / slow,
        "completed": len(requests),
        "repeats_s": [slow, 1.02 * slow],
        "samples": {"ttft": len(requests)},
        "requests": requests,
    }


def _request(index: int, slow: float) -> dict:
    tokens = Random(index).randint(4, 160)
    times = {"queue_ms": 90 * slow, "ttft_ms": 100 * slow, "e2el_ms": (100 + 5 * tokens) * slow}
    return {"prompt_tokens": 16 + index, "output_tokens": tokens} | times


def _pressure() -> dict:
    shares, ways = (0.5, 0.7, 1.0, 1.3), ("max-utilization", "guaranteed-no-evict")
    return {"runs": [_tight(share, way) for share in shares for way in ways], "identical": True}


def _tight(share: float, capacity: str) -> Mapping:
    preemptions = 5 if capacity == "max-utilization" and share < 1 else 0
    return {
        "share": share,
        "capacity": capacity,
        "demand": 72,
        "output_throughput": 600 + 200 * share,
        "preemptions": preemptions,
        "recomputed_tokens": 70 * preemptions,
        "total_output_tokens": 1152,
        "completed": 12,
        "p99_itl_ms": 20.0,
        "pool_blocks": round(72 * share),
        "peak_blocks": round(72 * share),
        "mean_blocks": 50 * share,
        "steps": 200,
        "waiting_steps": 90,
        "reasons": {"no_free_blocks": 60, "max_num_seqs": 30},
        "kinds": {"mixed": 1, "prefill": 2, "decode": 190},
    }


def _budget(budget: int) -> dict:
    return {
        "budget": budget,
        "chunked": budget < 448,
        "first_token_ms": 200 - budget / 5,
        "usual_step_ms": 6.0,
        "longest_step_ms": 10 + budget / 5,
        "mixed_steps": 512 // budget,
        "steps": 120,
        "most_tokens": budget,
    }


def _step(rows: int, ms: float) -> dict:
    return {"rows": rows, "context": 48.0, "ms_per_step": ms, "tokens_per_s": rows / ms * 1e3}
