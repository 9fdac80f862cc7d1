# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% instrument [markdown]
# ## Your own measuring instrument
#
# Every lesson of this course asks you to predict a number and then measures it, on the machine in front of you. A data sheet
# does not help with that: it lists what a device could do under conditions that nobody has. So we begin by measuring what
# yours *does*. Four numbers are enough to predict most of what follows:
#
# 1. how fast it reads memory (the **bandwidth**, bytes per second),
# 2. how fast it multiplies (the **peak**, operations per second),
# 3. what it costs to start anything at all (the **launch**),
# 4. how much memory it has.
#
# They go into your *ledger*. Later lessons take them from there.
#
# A GPU is not required: without one, everything here measures the processor and its memory, in the same way.

# %%
from engine.workload.calibrate import calibrate
from engine.workload.device_sweeps import features, product_rates, read_sweep, tiny_loop
from lessons import kit
from lessons.figures.activity import ACTIVITY
from lessons.figures.rates import RATES
from lessons.kit import say

kit.begin("L0")
GPU = kit.on_gpu()
DTYPE = "bfloat16" if GPU else "float32"

# %% read_question [markdown] kind="question"
# ## A gigabyte
#
# The weights of a small language model fill a gigabyte or so. To write one token, a model reads all of its weights once. So
# the time to read a gigabyte is, roughly, the time of a token.

# %%
kit.predict(
    "gigabyte",
    say("gigabyte.question", "**Reading 1 GB from the memory of this device takes**"),
    kit.Number(0.05, 10, 0.05, start=10, unit=" ms") if GPU else kit.Number(1, 1000, 1, start=1000, unit=" ms"),
    hints=(
        say(
            "gigabyte.hint1",
            "The memory of a desktop moves some tens of gigabytes a second; that of a large GPU, thousands.",
        ),
        say("gigabyte.hint2", "1 GB / (1,000 GB/s) = 1 ms."),
    ),
)

# %% read_run [markdown] kind="experiment"
# ## Read, from small to large
#
# An array is read again and again, then a larger one, and so on. Watch what happens when the array no longer fits into the
# cache.


# %%
def run_reads(report: kit.Report) -> dict:
    """Reading arrays of growing size."""

    def heard(what: str, done: float) -> None:
        report(say("reads.busy", "reading larger and larger arrays"), done)

    with kit.alone("reading memory"):
        return {"entries": read_sweep(kit.device(), heard)}


reads = kit.measure("reads", say("reads.title", "Reading arrays of growing size"), run_reads)
points = [[entry["bytes"], entry["gb_s"]] for entry in reads.results["entries"]]
kit.show("reads", RATES, {"kind": "bytes", "series": {"read": points}}, reads.origin)

# %% read_shape [markdown]
# ## Three regions of one curve
#
# - **Left, rising.** Small arrays: the time is what it takes to start a call. Whether a call reads 16 KB or 64 KB, it costs
#   the same, so the rate rises with the size.
# - **The hill.** The array fits into a cache, and is read from there. Nice to have; but a model does not fit.
# - **The plain to the right.** Now every byte comes from memory. This is the bandwidth, and the number that counts: weights
#   and KV caches are far larger than any cache.

# %%
last = reads.results["entries"][-1]
best = max(entry["gb_s"] for entry in reads.results["entries"])
kit.note(
    say(
        "read.note",
        "At {size:,.0f} MB this device reads **{rate:,.0f} GB/s**; the top of the hill is {times:.1f} times as high.",
        size=last["bytes"] / 2**20,
        rate=last["gb_s"],
        times=best / last["gb_s"],
    ),
    "info",
)

# %% ceilings_run [markdown] kind="experiment"
# ## Products and launches
#
# Now the other two: square matrix products in each number format that counts here, and a thousand tiny calls in a row.

# %%
SIDES = (512, 1024, 2048, 4096, 8192) if GPU else (128, 256, 512, 1024)


def run_ceilings(report: kit.Report) -> dict:
    """Products by format, and the calibration that later lessons divide by."""

    def heard(what: str, done: float) -> None:
        report(say("ceilings.busy", "square products, larger and larger"), 0.7 * done)

    with kit.alone("measuring products and launches"):
        rates = product_rates(kit.device(), SIDES, heard)
        report(say("ceilings.launches", "copies, reads, launches"), 0.8)
        found = calibrate(kit.device(), DTYPE)
        offers = features(kit.device())
    return {"rates": rates, "ceilings": found.to_dict(), "features": offers}


measured = kit.measure("ceilings", say("ceilings.title", "Matrix products and launches"), run_ceilings)
ceilings, rates = measured.results["ceilings"], measured.results["rates"]
series = {name: [[entry["side"], entry["tflop_s"]] for entry in entries] for name, entries in rates.items()}
kit.show("products", RATES, {"kind": "side", "series": series}, measured.origin)
bandwidth = max(ceilings["copy_bandwidth"], ceilings["read_bandwidth"])
launch = ceilings["launch_graph_s"] or ceilings["launch_eager_s"]
peaks = {name: max(entry["tflop_s"] for entry in entries) for name, entries in rates.items()}
peak = max(peaks[DTYPE], ceilings["matmul_flops"] / 1e12)

# %% read_compare [markdown] kind="reconcile"
# ## The gigabyte, again
#
# The calibration reads and copies with the largest arrays that are reasonable here; what later lessons call *the bandwidth* is
# the larger of the two.

# %%
kit.reconcile(
    "gigabyte",
    (kit.Row(say("gigabyte.row", "reading 1 GB"), 1e9 / bandwidth * 1e3, 1 / last["gb_s"] * 1e3, " ms", "gigabyte"),),
    observed=reads.origin,
    theory=kit.Origin("Computed", "1 GB / bandwidth"),
)
kit.note(
    say(
        "launch.note",
        "One launch costs **{launch:.2f} µs** ({eager:.2f} µs when Python starts it). In the time of one launch "
        "{kilobytes:,.0f} KB could be read, or {million:,.2f} million operations done. That is how little work a kernel may "
        "have before starting it is all that it does.",
        launch=launch * 1e6,
        eager=ceilings["launch_eager_s"] * 1e6,
        kilobytes=launch * bandwidth / 1e3,
        million=launch * peak * 1e6,
    ),
    "info",
)

# %% busy_question [markdown] kind="question"
# ## 100 % busy
#
# A loop adds 1 to **a single number**, over and over: eight bytes in and out, one operation a call. Meanwhile we ask the device
# how busy it is: on a GPU, NVML, the figure that `nvidia-smi` shows as *GPU-Util*; on a CPU, the share of the time in which
# this process computed.

# %%
kit.predict(
    "busy",
    say("busy.question", "**What will the utilisation be?**"),
    kit.Choice(
        {
            "low": say("busy.low", "near 0 %: hardly anything happens"),
            "half": say("busy.half", "about one half"),
            "high": say("busy.high", "near 100 %"),
        }
    ),
    hints=(say("busy.hint", "What would a device have to know to tell a tiny kernel from a large one?"),),
)

# %% busy_run [markdown] kind="experiment"
# ## The loop
#
# Two seconds of adding 1.


# %%
def run_loop(report: kit.Report, seconds: float) -> dict:
    """The loop on one number."""

    def heard(what: str, done: float) -> None:
        report(say("loop.busy", "adding 1 to a single number"), done)

    with kit.alone("a loop on a single number"):
        return tiny_loop(kit.device(), seconds, heard)


loop = kit.measure(
    "loop",
    say("loop.title", "Adding 1, over and over"),
    run_loop,
    controls=(kit.Control("seconds", say("control.seconds", "Seconds"), (1, 2, 4), default=2, small=1),),
)
shares = {
    "utilisation": loop.results["utilisation"],
    "bandwidth": loop.results["bytes_s"] / bandwidth,
    "peak": loop.results["flops_s"] / (peak * 1e12),
}
kit.show("busy", ACTIVITY, shares, loop.origin)

# %% busy_compare [markdown] kind="reconcile"
# ## What utilisation means
#
# NVML's utilisation is **the share of the time in which at least one kernel was running**. It does not ask how large the
# kernel was, how many of the multiprocessors it used, or what they did. A loop over one number keeps it near 100 %. So does
# a decode loop that reads memory at a tenth of its bandwidth.
#
# If somebody tells you that in-flight batching took a GPU "from 30 % to 80 % utilisation", you now know what was measured:
# gaps.

# %%
known = kit.guard(
    shares["utilisation"] is not None,
    say(
        "busy.guard",
        "NVML cannot be asked on this machine, so this part stays a description. On machines where it can, the loop shows nearly "
        "100 %, while it moves a few millionths of what the memory could.",
    ),
)
busy = shares["utilisation"] if known else 1.0
kit.reveal("busy", "high" if busy > 0.7 else "half" if busy > 0.25 else "low")
if known:
    kit.note(
        say(
            "busy.note",
            "Utilisation **{utilisation:.0f} %**; of the bandwidth {bandwidth:.2g} %, of the peak {peak:.2g} %. {calls:,.0f} calls a "
            "second, and nothing to show for it.",
            utilisation=100 * busy,
            bandwidth=100 * shares["bandwidth"],
            peak=100 * shares["peak"],
            calls=loop.results["calls_s"],
        ),
        "info",
    )

# %% memory [markdown]
# ## Memory, and what the device offers
#
# Memory decides how large a model may be, and how many requests it can serve at once: what the weights leave over becomes the
# KV cache.

# %%
offers = measured.results["features"]
if offers["capability"]:
    kit.note(
        say(
            "memory.gpu",
            "**{memory:,.0f} GB**, of which {free:,.0f} GB were free. Compute capability {capability}: bf16 {bf16}, fp8 {fp8}.",
            memory=offers["memory_gb"],
            free=offers["free_gb"],
            capability=offers["capability"],
            bf16=say("memory.yes", "yes") if offers["bf16"] else say("memory.no", "no"),
            fp8=say("memory.yes", "yes") if offers["fp8"] else say("memory.no", "no"),
        )
    )
elif offers["memory_gb"]:
    kit.note(
        say(
            "memory.cpu",
            "No CUDA device: kernels run as their plain PyTorch references on the processor, in fp32, with **{memory:,.0f} GB** of "
            "memory ({free:,.0f} GB free).",
            memory=offers["memory_gb"],
            free=offers["free_gb"],
        )
    )

# %% ridge_task [markdown] kind="exercise"
# ## Exercise 1: the ridge
#
# How many operations can your device do in the time in which **one byte** arrives? This number is called the *ridge*. It
# decides, for every kernel, whether it waits for memory or for arithmetic.

# %%
RIDGE = peak * 1e12 / bandwidth


def grade_ridge(answer: float) -> kit.Verdict:
    """Within 10 % of peak over bandwidth; the usual slips have words of their own."""
    if answer > 0 and kit.miss(answer, RIDGE).share <= 0.1:
        return kit.right(
            say("ridge.right", "Right: **{ridge:,.1f} operations per byte**. L3 is built on this number.", ridge=RIDGE)
        )
    slips = {
        1 / RIDGE: say("ridge.inverse", "That is bytes per operation. Turn it round."),
        RIDGE * 1e3: say("ridge.giga", "A factor of a thousand: GB/s are $10^9$, TFLOP/s are $10^{12}$."),
        RIDGE / 1e3: say("ridge.tera", "A factor of a thousand too little: TFLOP/s are $10^{12}$, GB/s are $10^9$."),
        RIDGE * 2: say("ridge.double", "Twice too much: one multiply-add counts as two operations already."),
        RIDGE / 2: say("ridge.half", "Half of it. Operations per byte, not per two-byte number."),
    }
    for wrong, why in slips.items():
        if answer > 0 and kit.miss(answer, wrong).share <= 0.1:
            return kit.wrong(why)
    return kit.wrong(say("ridge.wrong", "Divide operations per second by bytes per second."))


kit.exercise(
    "ridge",
    say(
        "ridge.task",
        "Peak {peak:,.3f} TFLOP/s, bandwidth {bandwidth:,.1f} GB/s. The ridge, in operations per byte (within 10 %):",
        peak=peak,
        bandwidth=bandwidth / 1e9,
    ),
    kit.Number(0, 100_000, 0.01, start=0),
    grade_ridge,
    hints=(say("ridge.hint", "Both in their base units first: TFLOP/s x 10^12, GB/s x 10^9."),),
)

# %% meaning_task [markdown] kind="exercise"
# ## Exercise 2: read the gauge
#
# A server that decodes for a single user shows 98 % utilisation.

# %%
MEANING = {
    "running": kit.right(
        say(
            "meaning.right",
            "Right. For everything else one has to count bytes and operations, as this course does from here on.",
        )
    ),
    "full": kit.wrong(
        say("meaning.no_full", "The loop on one number showed nearly as much. It had room for millions of times more.")
    ),
    "bandwidth": kit.wrong(say("meaning.no_bandwidth", "NVML does not count bytes for this figure.")),
    "cores": kit.wrong(say("meaning.no_cores", "One program on one multiprocessor is enough to count as running.")),
    "memory": kit.wrong(say("meaning.no_memory", "Memory in use is another figure of NVML.")),
    "efficient": kit.wrong(say("meaning.no_efficient", "It says nothing about how well the work is done.")),
}
kit.exercise(
    "meaning",
    say("meaning.task", "What do you know?"),
    kit.Choice(
        {
            "full": say("meaning.full", "there is no room for a second user"),
            "running": say("meaning.running", "nearly all the time some kernel is running, and nothing more"),
            "bandwidth": say("meaning.bandwidth", "98 % of the memory bandwidth is used"),
            "cores": say("meaning.cores", "98 % of the cores are working"),
            "memory": say("meaning.memory", "98 % of the memory is full"),
            "efficient": say("meaning.efficient", "the kernels are efficient"),
        }
    ),
    MEANING.get,
    hints=(say("meaning.hint", "What did the loop on a single number show?"),),
)

# %% takeaway [markdown] kind="takeaway"
# ## What to keep
#
# Your ledger is no longer empty. L3 turns these numbers into floors that no kernel can go below.

# %%
kit.enter("bandwidth_gb_s", bandwidth / 1e9, "GB/s", "the larger of copy and read, large arrays", measured.origin)
kit.enter("matmul_tflop_s", peak, "TFLOP/s", f"square product, {DTYPE}", measured.origin)
SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
for name, rate in peaks.items():
    kit.enter(f"matmul_tflop_s_{SHORT[name]}", rate, "TFLOP/s", f"square product, {name}", measured.origin)
kit.enter(
    "launch_us", launch * 1e6, "µs", "a tiny call among a thousand, in a graph where there are graphs", measured.origin
)
kit.enter("launch_eager_us", ceilings["launch_eager_s"] * 1e6, "µs", "the same, started by Python", measured.origin)
kit.takeaway(
    say(
        "takeaway.line",
        "This device reads {bandwidth:,.0f} GB/s, multiplies at {peak:,.2f} TFLOP/s and needs {launch:.1f} µs to start anything. "
        "How busy it says it is tells you none of this.",
        bandwidth=bandwidth / 1e9,
        peak=peak,
        launch=launch * 1e6,
    ),
    carried=("bandwidth_gb_s", "matmul_tflop_s", "launch_us"),
)
