"""Numbers of a run, with the definitions of ``vllm bench serve``: a fold over its records.

TTFT starts when ARRIVE is written, so it includes waiting. A token's time is the time of the APPLY that brought it.
"""

from collections.abc import Sequence

import numpy as np

from engine.trace.answers import Answer, answers, duration_s
from engine.trace.tables import request_table, step_table
from engine.trace.timeline import Timeline
from engine.trace.views import Totals

__all__ = ["FORMULAS", "request_table", "step_table", "summary"]

FORMULAS: dict[str, str] = {
    "completed": "requests whose answer ended by length, end of sequence or stop",
    "failed": "requests that were aborted, refused or ended by an error",
    "duration_s": "last APPLY - first ARRIVE",
    "total_input_tokens": "sum of prompt tokens of completed requests",
    "total_output_tokens": "sum of generated tokens of completed requests",
    "request_throughput": "completed / duration_s",
    "output_throughput": "total_output_tokens / duration_s",
    "total_token_throughput": "(total_input_tokens + total_output_tokens) / duration_s",
    "ttft_ms": "first token - arrival, waiting included; one sample per completed request",
    "tpot_ms": "(e2el - ttft) / (output tokens - 1); one sample per completed request with 2 tokens or more",
    "itl_ms": "gap between two results of a request, the first token is no gap; all completed requests pooled",
    "e2el_ms": "last token - arrival; one sample per completed request",
    "row_steps": "rows x steps = useful (decode + prefill) + padded + late (answer had ended, result dropped) + idle",
    "prefill_tokens": "prompt tokens computed for the first time",
    "recomputed_tokens": "tokens computed again after a preemption",
    "cached_tokens": "tokens not computed thanks to a prefix hit",
    "preemptions": "times that a running request lost its blocks",
    "evictions": "reclaimable blocks that lost their content",
    "swapped_out": "evicted blocks copied to the host",
    "swapped_in": "blocks copied back from the host for a prefix hit",
    "samples": "values behind each latency",
}
_LATENCIES = ("ttft", "tpot", "itl", "e2el")


def summary(timeline: Timeline) -> dict:
    """The keys of ``FORMULAS``; each latency as mean, median, std, p90 and p99 (0.0 without a sample, as vLLM's).

    ``samples`` says how many values stand behind each latency.
    """
    all_answers, totals = answers(timeline)
    done = [answer for answer in all_answers if answer.completed]
    duration = duration_s(timeline)
    input_tokens = sum(answer.view.prompt_length for answer in done)
    output_tokens = sum(answer.view.num_output for answer in done)
    rate = 1 / duration if duration else 0.0
    return {
        "completed": len(done),
        "failed": totals.aborted + totals.refused,
        "duration_s": duration,
        "total_input_tokens": input_tokens,
        "total_output_tokens": output_tokens,
        "request_throughput": len(done) * rate,
        "output_throughput": output_tokens * rate,
        "total_token_throughput": (input_tokens + output_tokens) * rate,
        **_latencies(done),
        **_totals(totals),
    }


def _latencies(done: Sequence[Answer]) -> dict:
    samples = {
        "ttft": [answer.ttft_ms for answer in done],
        "tpot": [answer.tpot_ms for answer in done if answer.tpot_ms is not None],
        "itl": [gap for answer in done for gap in answer.gaps_ms],
        "e2el": [answer.e2el_ms for answer in done],
    }
    values = {}
    for name in _LATENCIES:
        values |= {f"{rank}_{name}_ms": value for rank, value in ranks(samples[name]).items()}
    return values | {"samples": {name: len(samples[name]) for name in _LATENCIES}}


def ranks(samples: Sequence[float]) -> dict[str, float]:
    """Mean, median, standard deviation, p90 and p99; 0.0 without a sample."""
    values = np.array(samples if len(samples) else [0.0])
    found = {"mean": values.mean(), "median": np.median(values), "std": values.std()}
    found |= {"p90": np.percentile(values, 90), "p99": np.percentile(values, 99)}
    return {name: float(value) for name, value in found.items()}


def _totals(totals: Totals) -> dict:
    return {
        "row_steps": {
            "useful": totals.decode + totals.prefill,
            "padded": totals.padded,
            "idle": totals.idle,
            "late": totals.late,
            "decode": totals.decode,
            "prefill": totals.prefill,
        },
        "prefill_tokens": totals.prefill_tokens,
        "recomputed_tokens": totals.recomputed_tokens,
        "cached_tokens": totals.cached_tokens,
        "preemptions": totals.preemptions,
        "evictions": totals.evictions,
        "swapped_out": totals.swapped_out,
        "swapped_in": totals.swapped_in,
    }
