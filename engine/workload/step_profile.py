"""Which kernels a decode step spends its time in: one step under the profiler of PyTorch. CUDA only.

Kernels of a graph overlap a little (a kernel may start while the one before ends), so a kernel counts from the end of
the one before, or from its own start when that is later; what lies between two kernels is a gap.
"""

from collections.abc import Iterable, Sequence
from statistics import mean

from engine.engine import Engine
from engine.workload.drive import FAIR, MakeEngine
from engine.workload.lengths import fixed
from engine.workload.waterfall import CLASSES

# The first class of which a word stands in the kernel's name has it. cuBLAS calls its products nvjet, cutlass or gemm.
WORDS: dict[str, tuple[str, ...]] = {
    "attention": ("decode", "prefill", "attention", "attend", "combine"),
    "products": ("linear", "gemm", "gemv", "nvjet", "cutlass", "splitk", "product", "head", "dequant"),
    "sampling": ("sample", "member", "pivots", "penalties", "argmax"),
}
WARM_STEPS, PROFILES = 4, 3
STEPS = WARM_STEPS + PROFILES + 9  # of the requests that decode meanwhile

Span = tuple[str, float, float]  # kernel, start, end; us


def decode_shares(make_engine: MakeEngine, rows: int, context: int) -> dict[str, float] | None:
    """Share of each of ``CLASSES`` in a decode step of ``rows`` rows with ``context`` tokens each; they add up to 1.

    ``rows`` and ``context`` stand beside them. None when the profiler sees no kernel.
    """
    engine = make_engine(FAIR, ())
    limits = engine.config.scheduling
    room = STEPS + 2 * (rows * context // limits.token_budget + 1)  # the first to be prefilled must decode to the end
    context = max(1, min(context, limits.max_model_len - room))
    for item in fixed(rows, 0, context, room).items:
        engine.submit([token % engine.limits.vocab_size for token in item.prompt_ids], item.sampling())
    while engine.scheduler.roster.waiting or engine.scheduler.roster.prefilling:
        engine.step()
    for _ in range(WARM_STEPS):
        engine.step()
    steps = [_profiled_step(engine) for _ in range(1 + PROFILES)][1:]  # the first one starts the profiler
    engine.abort_all("profiled")
    engine.drain()
    if not all(steps):
        return None
    found = [shares(spans) for spans in steps]
    return {name: mean(each[name] for each in found) for name in CLASSES} | {"rows": rows, "context": context}


def shares(spans: Sequence[Span]) -> dict[str, float]:
    """Share of each of ``CLASSES`` in the time from the first kernel's start to the last one's end."""
    spent = dict.fromkeys(CLASSES, 0.0)
    ordered = sorted(spans, key=lambda span: span[1])
    busy_until = begin = ordered[0][1]
    for name, start, end in ordered:
        spent["gaps in a step"] += max(0.0, start - busy_until)
        spent[class_of(name)] += max(0.0, end - max(start, busy_until))
        busy_until = max(busy_until, end)
    return {name: us / (busy_until - begin) for name, us in spent.items()}


def class_of(kernel: str) -> str:
    """The class of a kernel, by its name."""
    low = kernel.lower()
    return next((name for name, words in WORDS.items() if any(word in low for word in words)), "other kernels")


def _profiled_step(engine: Engine) -> list[Span]:
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as run:
        engine.step()
        torch.cuda.synchronize()
    return list(_kernels(run.events()))


def _kernels(events: Iterable) -> Iterable[Span]:
    """Kernels of the step; copies run on a stream of their own, beside them."""
    for event in events:
        if "CUDA" in str(event.device_type) and not event.name.lower().startswith("mem"):
            yield event.name, event.time_range.start, event.time_range.end
