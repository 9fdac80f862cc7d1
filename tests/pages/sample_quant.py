"""Invented runs with 8-bit keys, values and weights, of the stages, and of a throughput. No number was measured."""

from engine.workload.stages import EIGHT_BIT, STAGES, beside
from engine.workload.waterfall import FORMULAS
from tests.pages.sample_kernels import sample_run

INTERCEPTS = {"decode": 5.0, "decode int8": 14.0, "decode fp8": 5.0}  # us
SLOPES = {"decode": 0.062, "decode int8": 0.033, "decode fp8": 0.033}  # us per token of context
CONTEXTS = (1024, 4096, 8192)
DENSE_US = {1: 52.0, 16: 54.0, 64: 60.0}
RATIOS = {"int8": (1.9, 1.8, 1.2), "fp8": (1.9, 1.7, 1.1), "int4": (3.2, 2.0, 0.9)}  # int4 crosses
META = {"device": "INVENTED GPU", "date": "2026-01-02T03:04:05+00:00", "driver": "999.1", "commit": "0123456789"}


def sample_quant_run() -> dict:
    """A document of ``bench kernels`` with what ``sample_run`` lacks."""
    run = sample_run()
    run["results"] = [entry for entry in run["results"] if entry["kernel"] != "decode"]
    for kernel, intercept in INTERCEPTS.items():
        for context in CONTEXTS:
            us = intercept + SLOPES[kernel] * context
            run["results"].append(_entry(kernel, f"64 rows x {context}, 16/8 heads", us, {}))
    for form, ratios in RATIOS.items():
        for (tokens, dense), ratio in zip(DENSE_US.items(), ratios, strict=True):
            run["results"].append(_entry(f"quant {form}", f"M={tokens}, 4096 -> 28672", dense / ratio, {"bf16": dense}))
    return run


def _entry(kernel: str, shape: str, us: float, peers: dict) -> dict:
    return {"kernel": kernel, "shape": shape, "us": us, "gb_s": 1.0, "peers": peers, "max_rel_err": 0.004}


def sample_stages() -> dict:
    """A document of ``bench stages``: every stage doubles the tokens/s, and the 8-bit pool loses a little."""
    names = ["transformers", *(stage.name for stage in STAGES), EIGHT_BIT.name]
    rates = [400.0 * 2**index for index in range(len(names) - 1)]
    entries = [
        {"stage": name, "output_throughput": rate, "agreed": 0.998 if index else None, "kl": 2e-4 if index else None}
        for index, (name, rate) in enumerate(zip(names, [*rates, 0.9 * rates[-1]], strict=True))
    ]
    return {"meta": META, "results": beside(entries)}


def sample_losses() -> dict:
    """A document of ``bench throughput``: a tenth of the limit for each line but one, which gains."""
    names = ("rows not full", "prefill", "padding", "attention", "products", "sampling", "other kernels", "host")
    lost = [2000.0, 1500.0, 900.0, 1200.0, -300.0, 400.0, 1100.0, 700.0]
    lines = [
        {"name": name, "seconds": rate / 1e4, "tokens_per_s": rate, "formula": FORMULAS[name]}
        for name, rate in zip(names, lost, strict=True)
    ]
    reached = 30_000.0 - sum(lost)
    waterfall = {"limit": 30_000.0, "floor_s": 1.0, "wall_s": 1.4, "output_throughput": reached, "lines": lines}
    return {"meta": META, "results": {"waterfall": waterfall}}


def sample_machine() -> dict:
    """A document of ``bench machine``."""
    rates = {"copy_bandwidth": 4.1e12, "read_bandwidth": 4.3e12, "launch_eager_s": 4e-6, "launch_graph_s": 1e-6}
    return {"meta": META, "results": rates | {"matmul_flops": {"float32": 4e13, "bfloat16": 7e14}}}
