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

# %% three [markdown]
# ## Three things a computer can wait for
#
# Whatever a kernel computes, at each moment it waits for one of three things:
#
# - **a launch**: somebody has to start it, and starting costs the same for one number as for a million;
# - **bytes**: operands come from memory, at no more than the *bandwidth*;
# - **operations**: the units that multiply and add have a peak.
#
# The time of a kernel is at least the largest of the three, each of which is a division:
#
# $$t \ge \max\left(t_{\text{launch}},\; \frac{\text{bytes}}{\text{bandwidth}},\; \frac{\text{operations}}{\text{peak}}\right)$$
#
# That is the whole *roofline* model. It says nothing about how clever a kernel is, and for that very reason it cannot be
# argued with: what it calls a floor, no code goes below.
#
# One number of your machine decides between the last two: how many operations it can do in the time one byte
# takes to arrive. It is called the **ridge**, peak / bandwidth. An operation that does less per byte than the ridge waits
# for memory; one that does more waits for arithmetic.

# %%
import itertools
import math

from engine.workload.calibrate import calibrate
from engine.workload.sweeps import decode_sweep, product_sweep, six_operations
from lessons import kit
from lessons.figures.bend import BEND
from lessons.figures.ceilings import CEILINGS, binds
from lessons.kit import say

kit.begin("L3")

# %% machine [markdown] kind="experiment"
# ## Your three numbers
#
# Measure them again, here and now: figures of another day, another clock rate or another driver make dishonest floors.
# Copies and reads of large arrays give the bandwidth, a square matrix product the peak, a thousand tiny calls in a row
# the launch.

# %%
DTYPE = "bfloat16" if kit.on_gpu() else "float32"
ITEM = 2 if kit.on_gpu() else 4  # bytes of a number


def measure_machine(report: kit.Report) -> dict:
    """The three ceilings in the number format of this lesson."""
    with kit.alone("measuring the machine"):
        report(say("machine.busy", "copies, reads, products, launches"), 0.1)
        found = calibrate(kit.device(), DTYPE)
    launch = found.launch_graph_s or found.launch_eager_s
    return {
        "bandwidth": found.machine.bandwidth,
        "flops": found.machine.flops,
        "launch_s": launch,
        "eager_s": found.launch_eager_s,
    }


ceilings = kit.measure("machine", say("machine.title", "Bandwidth, peak and launch of this machine"), measure_machine)
machine = ceilings.results
ridge = machine["flops"] / machine["bandwidth"]
kit.note(
    say(
        "machine.note",
        "**{bandwidth:,.0f} GB/s** and **{peak:,.2f} TFLOP/s**: the ridge of this machine stands at **{ridge:,.0f} operations "
        "per byte**. A launch costs {launch:.1f} µs; in that time {kilobytes:,.0f} KB could have been read.",
        bandwidth=machine["bandwidth"] / 1e9,
        peak=machine["flops"] / 1e12,
        ridge=ridge,
        launch=machine["launch_s"] * 1e6,
        kilobytes=machine["launch_s"] * machine["bandwidth"] / 1e3,
    ),
    "info",
)

# %% layer_question [markdown] kind="question"
# ## One layer, more and more rows
#
# Take a linear layer with a weight of 4096 x 4096 and let $B$ rows pass through it at once, as a batch of $B$ requests
# does in a decode step. It reads the weight once, whatever $B$ is, and does $2 \cdot B \cdot 4096 \cdot 4096$
# operations. So at small $B$ the bytes of the weight are all that counts, and rows are free. At some $B$ the
# operations take as long as the bytes. From there on, twice the rows are twice the time.
#
# You have the two numbers that decide where this happens.

# %%
kit.predict(
    "double",
    say("double.question", "**At how many rows does the layer take twice as long as with one row?**"),
    kit.Number(2, 1024, 1, start=2, unit=" rows"),
    hints=(
        say("double.hint1", "Bytes: 4096 x 4096 x {item}. Operations for one row: 2 x 4096 x 4096.", item=ITEM),
        say(
            "double.hint2",
            "Operations per byte of the weight are {share:g} x rows. Where do they reach the ridge?",
            share=2 / ITEM,
        ),
    ),
)

# %% layer_run [markdown] kind="experiment"
# ## The sweep
#
# Several weights take turns, together larger than any cache, so that each call really reads its weight from memory. On a
# GPU the calls stand in one CUDA graph: nobody waits for Python.


# %%
def sweep_layer(report: kit.Report, most: int) -> dict:
    """One linear layer for 1, 2, 4, ... rows."""
    rows = [2**power for power in range(int(math.log2(most)) + 1)]

    def heard(what: str, done: float) -> None:
        report(say("layer.busy", "the layer, row after row"), done)

    with kit.alone("timing a layer"):
        return {"entries": product_sweep(kit.device(), DTYPE, 4096, 4096, rows, heard)}


layer = kit.measure(
    "layer",
    say("layer.title", "A 4096 x 4096 layer, from one row up"),
    sweep_layer,
    controls=(
        kit.Control(
            "most",
            say("control.most", "Most rows"),
            (64, 256, 1024),
            default=1024 if kit.on_gpu() else 256,
            small=64,
        ),
    ),
)
entries = layer.results["entries"]

# %% layer_bend [markdown] kind="figures"
# ## Where it bends
#
# Three straight lines, and the measured dots above them. To the left the dots lie on the flat line of the bytes: 8 rows
# cost what one costs. To the right they climb along the line of the operations. Between the two, the dots keep some
# distance: a real kernel does not overlap everything, and few rows fill the arithmetic units badly.

# %%
bend = ridge * ITEM / 2
floors = {
    "launch": [machine["launch_s"] * 1e6 for _ in entries],
    "bandwidth": [entry["bytes"] / machine["bandwidth"] * 1e6 for entry in entries],
    "compute": [entry["flops"] / machine["flops"] * 1e6 for entry in entries],
}
curve = {"rows": [entry["rows"] for entry in entries], "us": [entry["us"] for entry in entries], "bend": bend}
kit.show("bend", BEND, curve | floors, layer.origin)

# %% layer_roof [markdown] kind="figures"
# ## The same dots on the roofline
#
# The classic picture shows the same thing in other coordinates: to the right, operations per byte; upwards, operations per
# second. More rows push the same layer along the slope, until it arrives at the flat roof. Nothing about the layer
# has changed; it only got more company.

# %%
dots = [entry | {"name": "layer"} for entry in entries]
kit.show("roof", CEILINGS, {"machine": machine, "dots": dots}, layer.origin)

# %% layer_compare [markdown] kind="reconcile"
# ## Prediction, theory, measurement
#
# Theory: the time has doubled where the operations take twice as long as the bytes of the weight,
# $B = \text{ridge} \cdot \text{bytes per number}$.


# %%
def doubling(found: list[dict]) -> float:
    """Rows at which the time is twice that of one row: on a straight line between the dots, both axes in logarithms."""
    double = 2 * found[0]["us"]
    for before, after in itertools.pairwise(found):
        if after["us"] >= double:
            share = math.log(max(double / before["us"], 1)) / math.log(max(after["us"] / before["us"], 1.0001))
            return before["rows"] * (after["rows"] / before["rows"]) ** min(1.0, share)
    return float(found[-1]["rows"])


seen = doubling(entries)
kit.reconcile(
    "double",
    (kit.Row(say("double.row", "rows at which the time has doubled"), 2 * bend, seen, "", "double", within=0.3),),
    observed=layer.origin,
    theory=kit.Origin("Computed", "peak / bandwidth"),
)
if kit.miss(2 * bend, seen).share <= 0.3:
    kit.note(say("double.near", "Within 30 %: two divisions foresaw what this layer does."), "good")
elif seen < 2 * bend:
    kit.note(
        say(
            "double.early",
            "It doubled earlier than the floors say. The floors suppose perfect arithmetic, and few rows fill the arithmetic "
            "units badly: at the bend this layer reaches {share:.0f} % of the peak that a large square product reached.",
            share=100 * max(floor / entry["us"] for floor, entry in zip(floors["compute"], entries)),
        ),
        "info",
    )
else:
    kit.note(
        say(
            "double.late",
            "It doubled later than the floors say, so one row already costs more than its bytes: {share:.0f} % of the "
            "bandwidth. A kernel for a single row has a hard time keeping all of memory busy.",
            share=100 * floors["bandwidth"][0] / entries[0]["us"],
        ),
        "info",
    )

# %% step_question [markdown] kind="question"
# ## From one layer to a whole step
#
# A decode step is a few hundred such calls: for each layer four products, two norms, the rotation of queries and
# keys, attention, an activation. Its bytes are the weights, once, and the KV cache of every row.

# %%
kit.predict(
    "binder",
    say("binder.question", "**What does a decode step of the model below wait for, with a single row?**"),
    kit.Choice(
        {
            "launch": say("binder.launch", "launches: it is made of many small calls"),
            "bandwidth": say("binder.bandwidth", "bytes: the weights have to be read"),
            "compute": say("binder.compute", "operations: it is a large model"),
        }
    ),
    hints=(say("binder.hint", "How long do the bytes of the weights take? Compare with some hundred launches."),),
)
kit.predict(
    "eight",
    say("eight.question", "**And how much longer does a step with eight rows take than one with a single row?**"),
    kit.Number(1, 8, 0.1, start=8, unit="x"),
)

# %% step_run [markdown] kind="experiment"
# ## The engine's own steps
#
# A model is loaded beside the running engine, decodes with more and more rows at two context lengths, and leaves. On
# a GPU you may choose a shape with random weights: the time of a step does not depend on what the weights say. There,
# each step runs once as a CUDA graph and once launched from Python.

# %%
SHAPES = ("bundled", "qwen3-0.6b") if kit.on_gpu() else ("bundled",)


def sweep_steps(report: kit.Report, shape: str, rows: int, context: int) -> dict:
    """Decode steps over rows and two contexts."""
    counts = [2**power for power in range(int(math.log2(rows)) + 1)]

    def heard(what: str, done: float) -> None:
        report(say("step.busy", "decode steps at {context} tokens and less", context=context), done)

    with kit.alone("timing decode steps"):
        return decode_sweep(None if shape == "bundled" else shape, counts, (context // 4, context), heard)


steps = kit.measure(
    "steps",
    say("steps.title", "A decode step against its rows"),
    sweep_steps,
    controls=(
        kit.Control("shape", say("control.shape", "Model"), SHAPES, default=SHAPES[-1], small="bundled"),
        kit.Control(
            "rows",
            say("control.rows", "Most rows"),
            (8, 16, 64, 256),
            default=64 if kit.on_gpu() else 8,
            small=8,
        ),
        kit.Control("context", say("control.context", "Context"), (128, 512, 1024), default=512, small=128),
    ),
)
found, own = steps.results["entries"], steps.results["machine"]
short = [entry for entry in found if entry["context"] == found[0]["context"]]
far = found[len(short) :]
launches_ms = own["launch_s"] * 1e3 * 9 * steps.results["model"]["layers"]
weights_ms = short[0]["weights_ms"]
bound = kit.guard(
    short[0]["ms_per_step"] < 3 * short[0]["floor_ms"],
    say(
        "step.guard",
        "A step with one row takes {ms:.2f} ms, and its bytes need {floor:.2f} ms of that. The rest is starting small calls "
        "and waiting for them: on this machine this model is **bound by overhead**, and reading less would not help. "
        "Rows are free for another reason than the theory's: they share the launches.",
        ms=short[0]["ms_per_step"],
        floor=short[0]["floor_ms"],
    ),
)

# %% step_bend [markdown] kind="figures"
# ## The step, and its floors
#
# The flat floor is now the weights of all layers, read once. The sloped one is no longer arithmetic alone: each row brings
# its own KV cache, and these bytes grow with the rows. Batching shares the weights; **nobody shares a KV cache**.

# %%
eager = [entry["eager_ms"] for entry in far]
step_curve = {
    "rows": [entry["rows"] for entry in far],
    "us": [1e3 * entry["ms_per_step"] for entry in far],
    "eager_us": None if None in eager else [1e3 * ms for ms in eager],
    "launch": [1e3 * launches_ms for _ in far],
    "bandwidth": [1e3 * entry["weights_ms"] for entry in far],
    "compute": [1e3 * entry["kv_ms"] for entry in far],
    "bend": far[0]["weights_ms"] / far[0]["kv_ms"],
}
kit.show("steps", BEND, step_curve, steps.origin)
kit.note(
    say(
        "step.lines",
        "Here the dotted line is nine launches for each layer, the dashed one the weights, and the solid one the KV cache of "
        "{context:,.0f} tokens a row. Weights and KV weigh the same at {bend:,.0f} rows.",
        context=far[0]["context"],
        bend=step_curve["bend"],
    )
)

# %% step_compare [markdown] kind="reconcile"
# ## What eight rows cost
#
# The theory adds up the floors: weights once, KV eight times.

# %%
kit.reveal("binder", "bandwidth" if bound else "launch")
one, eight = short[0], next(entry for entry in short if entry["rows"] == 8)
kit.reconcile(
    "eight",
    (
        kit.Row(
            say("eight.row", "a step of eight rows over a step of one"),
            eight["floor_ms"] / one["floor_ms"],
            eight["ms_per_step"] / one["ms_per_step"],
            "x",
            "eight",
        ),
    ),
    observed=steps.origin,
    theory=kit.Origin("Computed", "(weights + rows x KV) / bandwidth"),
)


# %% fit [markdown]
# ## Three coefficients that you will use again
#
# For a given model, a decode step is described well by
#
# $$t = a + b \cdot \text{rows} + c \cdot \text{context tokens of all rows}$$
#
# where $a$ is the weights and the overhead, $b$ what each row costs whatever its context, and $c$ the bytes of one
# token's KV. Your sweep over rows and two contexts is enough to fit all three. They go into your ledger: later lessons
# predict schedules with them.


# %%
def fit(points: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Least squares of ``ms`` over (1, rows, tokens), each point weighted by 1 / ms; a negative coefficient counts as 0."""
    import numpy as np

    ms = np.array([point[2] for point in points])
    columns = np.array([[1.0, rows, tokens] for rows, tokens, _ in points])
    kept = [0, 1, 2]
    while True:
        solved = np.linalg.lstsq(columns[:, kept] / ms[:, None], np.ones(len(ms)), rcond=None)[0]
        if (solved >= 0).all() or len(kept) == 1:
            full = dict(zip(kept, np.maximum(solved, 0).tolist()))
            return full.get(0, 0.0), full.get(1, 0.0), full.get(2, 0.0)
        kept.pop(int(solved.argmin()))


base, per_row, per_token = fit([(e["rows"], e["rows"] * e["context"], e["ms_per_step"]) for e in found])
kit.note(
    say(
        "fit.note",
        "a = **{base:.3f} ms**, b = **{per_row:.1f} µs** a row, c = **{per_token:.2f} ns** a token of context. The bytes of a "
        "token's KV alone would take {kv:.2f} ns.",
        base=base,
        per_row=1e3 * per_row,
        per_token=1e6 * per_token,
        kv=steps.results["model"]["kv_bytes"] / own["bandwidth"] * 1e9,
    ),
    "info",
)

# %% code_task [markdown] kind="exercise"
# ## Exercise 1: the model in three lines
#
# Write the roofline model as a function. It is given the operations and the bytes of a call and the three numbers of a
# machine, and says what binds: `"launch"`, `"bandwidth"` or `"compute"`.

# %%
STARTER = '''def binds(flops, bytes, bandwidth, peak, launch_s):
    """What a call waits for: "launch", "bandwidth" or "compute"."""
    ...
'''
SOLUTION = """def binds(flops, bytes, bandwidth, peak, launch_s):
    floors = {"launch": launch_s, "bandwidth": bytes / bandwidth, "compute": flops / peak}
    return max(floors, key=floors.get)
"""
OWN = (machine["bandwidth"], machine["flops"], machine["launch_s"])
HIDDEN = [(10.0 ** (kit.seed(n) % 9 + 2), 10.0 ** (kit.seed(n + 20) % 7 + 3), 1e12, 1e14, 2e-6) for n in range(1, 13)]
CASES = [(entry["flops"], entry["bytes"], *OWN) for entry in entries] + [(2, 8, *OWN), (1e9, 4e9, *OWN), *HIDDEN]


def answer_of(flops: float, moved: float, bandwidth: float, peak: float, launch_s: float) -> str:
    """What binds a case."""
    own_machine = {"bandwidth": bandwidth, "flops": peak, "launch_s": launch_s}
    return binds({"flops": flops, "bytes": moved}, own_machine)


def grade_code(outputs: list, cases: list[tuple]) -> kit.Verdict:
    """All cases; the first wrong one is named, each plausible mistake in its own words."""
    expected = [answer_of(*case) for case in cases]
    if list(outputs) == expected:
        return kit.right(say("code.right", "All {n} cases are right, your own layer among them.", n=len(cases)))
    if not all(output in ("launch", "bandwidth", "compute") for output in outputs):
        return kit.wrong(say("code.word", 'Return one of the three words "launch", "bandwidth", "compute".'))
    if "launch" not in outputs:
        return kit.wrong(
            say("code.launch", "You never answer launch. A call on two numbers is not waiting for memory.")
        )
    by_ridge = ["compute" if case[0] / case[1] > case[3] / case[2] else "bandwidth" for case in cases]
    if all(output in (ridge_says, "launch") for output, ridge_says in zip(outputs, by_ridge)):
        return kit.wrong(
            say(
                "code.floor",
                "Bytes and operations are judged rightly. A launch binds when it is longer than **both** others.",
            )
        )
    swapped = {"bandwidth": "compute", "compute": "bandwidth", "launch": "launch"}
    if [swapped[output] for output in outputs] == expected:
        return kit.wrong(say("code.swapped", "You have the two sides of the ridge the wrong way round."))
    place = next(n for n, (output, right) in enumerate(zip(outputs, expected)) if output != right)
    return kit.wrong(
        say(
            "code.wrong",
            "Case {n}: {flops:,.0f} operations and {moved:,.0f} bytes. You say {output}.",
            n=place + 1,
            flops=cases[place][0],
            moved=cases[place][1],
            output=outputs[place],
        )
    )


kit.exercise(
    "code",
    say("code.task", "Complete `binds`."),
    kit.Code("binds", STARTER, CASES),
    grade_code,
    hints=(
        say("code.hint1", "Compute three times in seconds. The largest one is the answer."),
        say("code.hint2", "`max(d, key=d.get)` gives the key of the largest value of a dict."),
    ),
    solution=SOLUTION,
)

# %% six_task [markdown] kind="exercise"
# ## Exercise 2: six operations
#
# Six operations that occur in any language model. Sort them before you measure them.


# %%
def grade_six(answer: list[str]) -> kit.Verdict:
    """The product of many rows, and the scores; each other pick has a word of its own."""
    no = {
        "add_one": say(
            "six.no_add_one", "One addition takes a fraction of a nanosecond. Starting it takes far longer."
        ),
        "norm": say("six.no_norm", "Some ten thousand operations: done before the launch is over."),
        "copy": say("six.no_copy", "A copy computes nothing at all. It is the purest case of waiting for memory."),
        "product_1": say(
            "six.no_product_1", "Two operations for each number of the weight, and then the number is dropped again."
        ),
    }
    for pick in answer:
        if pick in no:
            return kit.wrong(no[pick])
    return kit.right(
        say(
            "six.right",
            "Right: both use what they read hundreds of times. Now measure all six.",
        )
    )


kit.exercise(
    "six",
    say("six.task", "Which **two** of these wait for arithmetic on your machine?"),
    kit.Choices(
        {
            "add_one": say("six.add_one", "add 1 to a single number"),
            "norm": say("six.norm", "RMSNorm of one row of 4,096 numbers"),
            "copy": say("six.copy", "copy a 4096 x 4096 matrix"),
            "product_1": say("six.product_1", "a 4096 x 4096 layer for one row"),
            "product_many": say("six.product_many", "the same layer for 512 rows"),
            "scores": say("six.scores", "attention scores of a prompt of 1,024 tokens, 16 heads of 128"),
        },
        count=2,
    ),
    grade_six,
    hints=(say("six.hint", "Which of them uses each byte that it reads many times?"),),
)

# %% six_run [markdown] kind="experiment"
# ## Measured
#
# The floors judge; the clock decides.


# %%
def time_six(report: kit.Report) -> dict:
    """All six operations."""

    def heard(what: str, done: float) -> None:
        report(say("six.busy", "six operations, one after the other"), done)

    with kit.alone("timing six operations"):
        return {"entries": six_operations(kit.device(), DTYPE, heard)}


six = kit.measure("six", say("six.title", "Six operations on this machine"), time_six)
kit.show("six", CEILINGS, {"machine": machine, "dots": six.results["entries"]}, six.origin)
waits = {entry["name"]: binds(entry, machine) for entry in six.results["entries"]}
kit.note(
    say(
        "six.note",
        "By their floors {launch} of the six wait for a launch, {bandwidth} for memory and {compute} for arithmetic. A dot far "
        "below its roof is a kernel that could be better; a dot on the roof is done.",
        launch=sum(kind == "launch" for kind in waits.values()),
        bandwidth=sum(kind == "bandwidth" for kind in waits.values()),
        compute=sum(kind == "compute" for kind in waits.values()),
    )
)

# %% takeaway [markdown] kind="takeaway"
# ## What to keep
#
# The ridge, and the three coefficients of your decode step, go into the ledger. L8 explains a race with them, L12 judges
# with $c$ what a smaller KV cache is worth, and L14 buys the launches off.

# %%
kit.enter("ridge_flop_per_byte", ridge, "FLOP/byte", "matmul peak / bandwidth", ceilings.origin)
kit.enter("step_base_ms", base, "ms", "decode step: a of a + b rows + c context", steps.origin)
kit.enter("step_per_row_us", 1e3 * per_row, "µs", "decode step: b of a + b rows + c context", steps.origin)
kit.enter("step_per_token_ns", 1e6 * per_token, "ns", "decode step: c of a + b rows + c context", steps.origin)
kit.takeaway(
    say(
        "takeaway.line",
        "Three divisions foretell what a kernel waits for. On this machine {ridge:,.0f} operations per byte separate memory "
        "from arithmetic; a decode step with few rows stands far to the left of that, which is why rows are cheap.",
        ridge=ridge,
    ),
    carried=("ridge_flop_per_byte", "step_base_ms", "step_per_row_us", "step_per_token_ns"),
)
