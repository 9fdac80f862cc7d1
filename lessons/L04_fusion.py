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

# %% trips [markdown]
# ## A trip to memory for every operation
#
# Between two matrix products a decoder does small things: it adds the residual, normalises, rotates, applies an
# activation. Written one after the other, each of them reads its operands from memory and writes its answer back, where
# the next one reads it again.
#
# Take *add the residual, then RMSNorm*, the way a framework executes it line by line:
#
#     residual = residual + x          reads 2, writes 1
#     squares  = residual ** 2         reads 1, writes 1
#     mean     = squares.mean(-1)      reads 1
#     scaled   = residual * rsqrt(mean)   reads 1, writes 1
#     y        = scaled * weight       reads 1, writes 1
#
# Ten trips with a whole tensor. What has to travel is much less: `x` and `residual` have to come in, the new `residual`
# and `y` have to go out. **Four.** A kernel that keeps a row in registers from the first line to the last makes exactly
# these four. That is all that *fusion* means.

# %%
from engine.workload.fusing import Sizes, layer_parts, norm_chain, swiglu_chain
from lessons import kit
from lessons.figures.fusion import FUSION
from lessons.figures.gains import GAINS
from lessons.figures.parts import PARTS, totals
from lessons.kit import say

kit.begin("L4")
DTYPE = "bfloat16" if kit.on_gpu() else "float32"

# %% ledger [markdown] kind="figures"
# ## The ledger of reads and writes
#
# Three fusions of this engine, each as two bars: every piece is one tensor that one kernel reads or writes. The bars here
# already suppose a norm that is a single kernel of its own, which reads its input twice; the chain above is longer still.

# %%
kit.show("ledger", FUSION, None, kit.Origin("Computed", "bytes of each tensor"))

# %% ratio_question [markdown] kind="question"
# ## How much faster?
#
# Bytes decide as long as memory is what everybody waits for. Then the ratio of the times is the ratio of the trips.

# %%
kit.predict(
    "norm",
    say(
        "norm.question",
        "**Add and norm, the five operations above, over one pass**, thousands of rows of 4,096 numbers:",
    ),
    kit.Number(1, 6, 0.1, start=1, unit="x"),
    hints=(say("norm.hint", "Count the trips in the listing, and those that no kernel can avoid."),),
)
kit.predict(
    "few",
    say("few.question", "**And for a single row, as in the decode step of one request?**"),
    kit.Choice(
        {
            "same": say("few.same", "the same ratio: every row saves the same trips"),
            "launches": say("few.launches", "another ratio: so few bytes take no time, other costs decide"),
            "none": say("few.none", "no difference at all"),
        }
    ),
    hints=(say("few.hint", "One row of 4,096 numbers: how long do its bytes take at your bandwidth?"),),
)

# %% ratio_run [markdown] kind="experiment"
# ## Measured
#
# On a GPU one pass is the engine's fused Triton kernel, and all calls stand in a CUDA graph. On a CPU there is no
# fused kernel; there the five operations run over a few rows at a time, so that the operands of the chain stay in the cache
# and each tensor makes its trip to memory only once. The trick is older than GPUs, and has the same name in the books:
# *loop fusion by blocking*.


# %%
def run_chain(report: kit.Report, hidden: int, most: int) -> dict:
    """Both chains over a range of rows."""
    rows = [count for count in (1, 16, 64, 256, 1024, 4096, 8192) if count <= most]

    def heard(what: str, done: float) -> None:
        report(say("chain.busy", "the chain, row count after row count"), done)

    with kit.alone("timing chains of operations"):
        found = norm_chain(kit.device(), DTYPE, hidden, rows, lambda what, done: heard(what, done / 2))
        gates = swiglu_chain(kit.device(), DTYPE, hidden, rows, lambda what, done: heard(what, 0.5 + done / 2))
    return {"norm": found, "swiglu": gates}


chain = kit.measure(
    "chain",
    say("chain.title", "Separate operations against one pass"),
    run_chain,
    controls=(
        kit.Control("hidden", say("control.hidden", "Numbers in a row"), (1024, 4096), default=4096, small=1024),
        kit.Control("most", say("control.most", "Most rows"), (256, 4096, 8192), default=4096, small=1024),
    ),
)
BY_BYTES = {"norm": 10 / 4, "swiglu": 5 / 3}
kit.show("norm", GAINS, {"entries": chain.results["norm"], "predicted": BY_BYTES["norm"]}, chain.origin)

# %% ratio_compare [markdown] kind="reconcile"
# ## Theory and measurement
#
# The theory counts trips and nothing else. The last line of the table is where it must hold best: many rows, more bytes
# than any cache takes.

# %%
last = chain.results["norm"][-1]
first = chain.results["norm"][0]
seen = last["separate_us"] / last["fused_us"]
gate = chain.results["swiglu"][-1]
kit.reconcile(
    "norm",
    (
        kit.Row(say("norm.row", "add and norm, most rows"), BY_BYTES["norm"], seen, "x", "norm", within=0.25),
        kit.Row(
            say("swiglu.row", "SwiGLU, most rows"), BY_BYTES["swiglu"], gate["separate_us"] / gate["fused_us"], "x"
        ),
    ),
    observed=chain.origin,
    theory=kit.Origin("Computed", "trips to memory"),
)
kit.reveal("few", "launches")
memory_bound = kit.guard(
    seen > 1.15 and kit.miss(BY_BYTES["norm"], seen).share < 0.4,
    say(
        "norm.guard",
        "Bytes foresaw {theory:.1f}x and {seen:.2f}x was measured: on this device these operations do not wait for memory "
        "alone. A processor core that goes over a cached row five times is busy with going over it; the trips that it saves "
        "were largely hidden behind that. Where arithmetic is plentiful, as on a GPU, the bytes decide.",
        theory=BY_BYTES["norm"],
        seen=seen,
    ),
)
if memory_bound:
    kit.note(say("norm.near", "Counting trips was enough: nobody had to look into the kernel."), "good")
kit.note(
    say(
        "few.note",
        "A single row: {separate:.1f} µs apart, {fused:.1f} µs in one pass. Its bytes would take a few nanoseconds. What is "
        "compared there is five starts with one (on a GPU), or five calls with the work of cutting into blocks (on a CPU).",
        separate=first["separate_us"],
        fused=first["fused_us"],
    ),
    "info",
)

# %% whole_question [markdown] kind="question"
# ## From a kernel to a layer
#
# A published article estimates what fusion is worth for a whole model: it **counts operations**. Of 20 operations 15 are
# bound by memory; fusion takes away 60 % of their cost; 80 % of them can be fused. The estimate is 1.61x.
#
# But fifteen small operations need not take three quarters of the time.

# %%
kit.predict(
    "layer",
    say(
        "layer.question",
        "**One decoder layer with {rows} rows**: separate operations for both norms and SwiGLU, over fused ones:",
        rows=32,
    ),
    kit.Number(1, 3, 0.01, start=1, unit="x"),
    hints=(
        say(
            "layer.hint",
            "The layer reads {weights:.0f} million weights. Its rows are {numbers:,} numbers each.",
            weights=15.7,
            numbers=Sizes().hidden,
        ),
    ),
)

# %% whole_run [markdown] kind="experiment"
# ## The time of each part
#
# One layer of the shape of Qwen3-0.6B, with random weights: its products, its attention over a cache of the chosen context,
# its norms and its activation, each timed alone.


# %%
def time_parts(report: kit.Report, rows: int, context: int) -> dict:
    """The parts of a layer."""
    with kit.alone("timing a decoder layer"):
        report(say("parts.busy", "norms, activation, attention, products"), 0.2)
        return {"parts": layer_parts(kit.device(), DTYPE, rows, context)}


layer = kit.measure(
    "parts",
    say("parts.title", "One decoder layer, part by part"),
    time_parts,
    controls=(
        kit.Control("rows", say("control.rows", "Rows"), (1, 32, 256), default=32, small=8),
        kit.Control("context", say("control.context", "Context"), (128, 1024), default=128, small=128),
    ),
)
separate, fused, share = totals(layer.results)
kit.show("parts", PARTS, layer.results, layer.origin)

# %% whole_compare [markdown] kind="reconcile"
# ## Amdahl, by time
#
# If a share $p$ of the time becomes $s$ times as fast, the whole becomes
#
# $$\frac{1}{1 - p + p / s}$$
#
# times as fast. The article puts the share of the *operations* for $p$. The clock asks for the share of the *time*.


# %%
def by_count(memory: int, compute: int, coverage: float) -> float:
    """The article's estimator: fusion removes 60 % of memory-bound and 10 % of compute-bound cost, by count."""
    whole = memory + compute
    saved = (memory * 0.6 + compute * 0.1) * coverage
    return whole / (whole - saved)


touched = [part for part in layer.results["parts"] if part["name"] in ("norm", "swiglu")]
before = sum(part["calls"] * part["separate_us"] for part in touched)
after = sum(part["calls"] * part["fused_us"] for part in touched)
amdahl = 1 / (1 - share + share * after / before)
kit.reconcile(
    "layer",
    (
        kit.Row(say("layer.time", "Amdahl with the share of the time"), amdahl, separate / fused, "x", "layer"),
        kit.Row(say("layer.count", "the article's estimator, by count"), by_count(15, 5, 0.8), separate / fused, "x"),
    ),
    observed=layer.origin,
    theory=kit.Origin("Computed", "1 / (1 - p + p / s)"),
)
matters = kit.guard(
    share > 0.2,
    say(
        "layer.guard",
        "What these two fusions touch takes **{share:.1f} %** of this layer. Even if it took no time at all, the layer would "
        "become {most:.3f}x as fast: that is Amdahl's bound, to be looked at before anybody writes a kernel.",
        share=100 * share,
        most=1 / (1 - share),
    ),
)
if matters:
    kit.note(
        say(
            "layer.note",
            "{share:.0f} % of the time is touched: with few rows on a fast device, the small operations are most of the layer, "
            "and a kernel saved is a launch saved.",
            share=100 * share,
        ),
        "info",
    )

# %% code_task [markdown] kind="exercise"
# ## Exercise 1: the trips of a fused kernel
#
# Write a function that counts, for any chain of operations, how many numbers travel when all of them become one kernel.
#
# Each operation is a pair: the names that it reads, and the names that it writes. `sizes` says how many numbers a name
# stands for. `kept` are the names that somebody needs afterwards. Inside one kernel each tensor comes in at most once; what
# was written inside need not come in at all; and what nobody needs afterwards need not go out.

# %%
STARTER = '''def fused_trips(operations, sizes, kept):
    """Numbers read and written by one kernel that does all of `operations`."""
    ...
'''
SOLUTION = """def fused_trips(operations, sizes, kept):
    inside, read = set(), set()
    for reads, writes in operations:
        read |= set(reads) - inside
        inside |= set(writes)
    return sum(sizes[name] for name in read) + sum(sizes[name] for name in inside & set(kept))
"""
NORM = [[["x", "r"], ["r2"]], [["r2"], ["sq"]], [["sq"], ["m"]], [["r2", "m"], ["s"]], [["s", "w"], ["y"]]]
GATE = [[["gate"], ["a"]], [["a", "up"], ["y"]]]
N = 1000 + kit.seed(1) % 9000
CASES = [
    (NORM, {"x": N, "r": N, "r2": N, "sq": N, "m": 1, "s": N, "w": 64, "y": N}, ["r2", "y"]),
    (GATE, {"gate": N, "up": N, "a": N, "y": N}, ["y"]),
    (
        [[["a", "b"], ["c"]], [["a", "c"], ["d"]], [["d", "b"], ["e"]]],
        {"a": 5, "b": 7, "c": 11, "d": 13, "e": 17},
        ["e"],
    ),
    ([[["a"], ["b"]], [["b"], ["c"]]], {"a": N, "b": 3, "c": N}, ["b", "c"]),
]


def trips(operations: list, sizes: dict, kept: list, once: bool = True, inside_free: bool = True) -> int:
    """The right count; with a flag off, that of a plausible mistake."""
    inside: set[str] = set()
    read: list[str] = []
    for reads, writes in operations:
        read += [name for name in reads if name not in inside or not inside_free]
        inside |= set(writes)
    coming = set(read) if once else read
    return sum(sizes[name] for name in coming) + sum(sizes[name] for name in inside & set(kept))


def grade_code(outputs: list, cases: list[tuple]) -> kit.Verdict:
    """All cases; each plausible mistake has a word of its own."""
    for place, (output, case) in enumerate(zip(outputs, cases)):
        if not isinstance(output, int | float) or isinstance(output, bool):
            return kit.wrong(
                say("code.type", "`fused_trips` should return a number, and returned {output!r}.", output=output)
            )
        if output != trips(*case):
            return kit.wrong(code_slip(output, case, place))
    return kit.right(say("code.right", "All {n} chains are right. SwiGLU: five trips become three.", n=len(cases)))


def code_slip(output: float, case: tuple, place: int) -> kit.Say:
    """Why an output may be wrong."""
    operations, sizes, _ = case
    all_reads = sum(sizes[name] for reads, _ in operations for name in reads)
    all_writes = sum(sizes[name] for _, writes in operations for name in writes)
    if output == all_reads + all_writes:
        return say("code.separate", "That is the count of separate kernels: you added up every read and every write.")
    if output == trips(*case, once=False):
        return say(
            "code.twice",
            "A tensor that two operations read comes in twice in your count. In registers it is still there.",
        )
    if output == trips(*case, inside_free=False):
        return say("code.inside", "You read back what the kernel itself has just written.")
    if output == trips(operations, sizes, [name for _, writes in operations for name in writes]):
        return say("code.kept", "You write out every intermediate. Only what somebody needs afterwards has to go out.")
    if output == trips(operations, sizes, []):
        return say("code.writes", "You count what comes in, and forget what goes out.")
    return say("code.wrong", "Not right on chain {n}: you say {output:,.0f}.", n=place + 1, output=output)


kit.exercise(
    "code",
    say("code.task", "Complete `fused_trips`."),
    kit.Code("fused_trips", STARTER, CASES),
    grade_code,
    hints=(
        say("code.hint1", "Walk along the operations and remember what has been written inside so far."),
        say("code.hint2", "Two sets at the end: what came from outside, and what was written inside and is kept."),
    ),
    solution=SOLUTION,
)

# %% limit_task [markdown] kind="exercise"
# ## Exercise 2: where it stops
#
# Why not fuse everything? The large product that follows a norm would save one more trip.

# %%
LIMITS = {
    "rows": kit.right(
        say(
            "limit.right",
            "Right. A product cuts its outputs into tiles, many programs share a row, and each of them would have to go over "
            "the whole row for the norm first. With few rows that is cheap and this engine does it; with many it is not.",
        )
    ),
    "types": kit.wrong(say("limit.no_types", "Both work on the same numbers in the same format.")),
    "math": kit.wrong(
        say("limit.no_math", "The result would be the same: the norm only scales what the product reads.")
    ),
    "memory": kit.wrong(say("limit.no_memory", "Fusion needs less memory, not more: an intermediate is never stored.")),
    "library": kit.wrong(
        say(
            "limit.no_library",
            "Some libraries do offer such epilogues. The question is why it seldom pays in the prologue.",
        )
    ),
    "gradient": kit.wrong(say("limit.no_gradient", "There are no gradients when a model only answers.")),
}
kit.exercise(
    "limit",
    say("limit.task", "What speaks against fusing a norm into the product **behind** it when there are many rows?"),
    kit.Choice(
        {
            "types": say("limit.types", "the two need different number formats"),
            "rows": say(
                "limit.rows", "every tile of the product would have to compute the norm of the whole row again"
            ),
            "math": say("limit.math", "the result would no longer be exact"),
            "memory": say("limit.memory", "it would need more memory"),
            "library": say("limit.library", "libraries for products cannot be changed"),
            "gradient": say("limit.gradient", "the gradient of the norm would be lost"),
        }
    ),
    LIMITS.get,
    hints=(say("limit.hint", "How many programs of a tiled product read one row of its input?"),),
)

# %% takeaway [markdown] kind="takeaway"
# ## What to keep
#
# Count trips first, then ask what share of the time they are. Kernel Lab shows the same ledger with the source of each
# kernel beside it.

# %%
kit.enter("fusion_ratio", seen, "x", "add and norm, separate over one pass, most rows", chain.origin)
kit.takeaway(
    say(
        "takeaway.line",
        "Fusion saves trips, and the trips can be counted beforehand: {theory:.1f}x for add and norm, {seen:.2f}x here. What it "
        "does for a model is that ratio times the share of the *time*, never of the operations.",
        theory=BY_BYTES["norm"],
        seen=seen,
    ),
    carried=("fusion_ratio",),
)
