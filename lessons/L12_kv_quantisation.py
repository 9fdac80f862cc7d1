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
# ## Three questions, not one
#
# Every token of every request leaves its keys and values behind. With long contexts and many requests this cache outgrows
# the model itself. *KV quantisation* keeps its numbers in 8 bits instead of 16.
#
# What is that worth? Ask around and the answers clash. An article promises 40 % more throughput. In the tracker of one
# engine, users report that int8 made their steps **slower**. In that of another, somebody got exactly what he paid for,
# 779,760 tokens in the place of 389,872, and his benchmark ran 1.02 times as fast.
#
# All of them may be right, because they answer different questions:
#
# | axis | question | what answers it |
# | --- | --- | --- |
# | **capacity** | how many more tokens fit? | arithmetic, before anything runs |
# | **speed** | is a step shorter? | a clock, and it depends on the contexts |
# | **error** | is it still the same model? | a comparison, and only with weights that mean something |
#
# We take them one at a time. This engine stores a head of a token, say 64 numbers $x$, as whole numbers from -127 to 127
# and one 16-bit scale $s$:
#
# $$
# s = \frac{\max |x|}{127}, \qquad \text{stored} = \text{round}(x / s), \qquad x \approx \text{stored} \cdot s
# $$

# %%
import numpy as np

from engine.workload.kv_capacity import head_bytes, kv_capacity
from engine.workload.kv_drift import kv_drift
from engine.workload.kv_rounding import GRAINS, kv_rounding
from engine.workload.kv_sweep import break_even, byte_lines, kv_sweep, quantised_dtypes
from lessons import kit
from lessons.figures.capacity import CAPACITY
from lessons.figures.channels import CHANNELS
from lessons.figures.drift import DRIFT
from lessons.figures.grain_map import GRAIN_MAP
from lessons.figures.kv_lines import KV_LINES
from lessons.figures.three_axes import THREE_AXES
from lessons.kit import say

kit.begin("L12")

# %% capacity_question [markdown] kind="question"
# ## First axis: what fits
#
# Take the bundled model. Its heads have 64 numbers. A head of a token is kept twice, once as a key and once as a value,
# and each of the two has a scale of its own.
#
# The pool has a fixed size. How many times as many tokens does it hold with int8 as with 16-bit numbers?

# %%
kit.predict(
    "capacity",
    say("capacity.question", "**int8 against 16 bits, heads of 64.** The same pool holds this many times the tokens:"),
    kit.Number(1.0, 4.0, 0.01, start=1.0, unit="x"),
    hints=(
        say("capacity.hint1", "Bytes of one head in 16 bits: 64 numbers of two bytes."),
        say("capacity.hint2", "Bytes of one head in int8: 64 numbers of one byte, and something else."),
    ),
)

# %% capacity_run [markdown] kind="experiment"
# ## Count the bytes
#
# No clock is needed. Pools are allocated in each format and their tensors counted. For int4 the engine has no kernels
# yet: its bar is computed and says so.

# %%
COUNTED = ("fp32", "bf16", "int8", "fp8")


def count_pools(report: kit.Report) -> dict:
    """Bytes of a token in each format."""

    def heard(what: str, done: float) -> None:
        report(say("pools.busy", "pools in each format"), done)

    with kit.alone("allocating pools"):
        return kv_capacity(COUNTED, heard)


pools = kit.measure("pools", say("pools.title", "One pool in each format"), count_pools)
counted = pools.results
DIM, HEADS, BYTES = counted["head_dim"], counted["heads"], counted["token_bytes"]
bars = []
for kind in (*COUNTED, "int4"):
    numbers, scale = head_bytes(kind, DIM)
    held = BYTES.get(kind, HEADS * (numbers + scale))
    bars.append({"name": kind, "numbers": held - HEADS * scale, "scales": HEADS * scale, "computed": kind == "int4"})
ratio = BYTES["int8"] / BYTES["bf16"]
kit.show("capacity", CAPACITY, bars, pools.origin)
kit.reconcile(
    "capacity",
    (
        kit.Row(
            say("capacity.row", "tokens in the same memory, int8 over 16 bits"),
            2 * DIM / (DIM + 2),
            1 / ratio,
            "x",
            "capacity",
        ),
    ),
    observed=pools.origin,
    theory=kit.Origin("Computed", "2 D / (D + 2)"),
)
kit.note(
    say(
        "capacity.note",
        "A token takes **{here:.1f} %** of its 16-bit bytes, and with heads of 128 it takes {wide:.1f} %. Never 50: the scale "
        "has to be kept as well, and the smaller the head, the more it weighs. On this axis nothing can surprise you. "
        "One published example speaks of 140 GB that become 70 by quantising the KV cache of a model with 70 billion weights: "
        "those 140 GB are the **weights** in 16 bits. Count before you believe.",
        here=100 * ratio,
        wide=100 * 130 / 256,
    ),
    "info",
)

# %% speed_question [markdown] kind="question"
# ## Second axis: is it faster?
#
# L3 described a decode step as $t = a + c \cdot x$: $a$ holds the weights and the overhead, $x$ counts the tokens of
# context of all rows together, and $c$ is what reading the KV of one token costs. Quantising leaves $a$ alone and shrinks
# $c$. So everything hangs on how large $c \cdot x$ is beside $a$.
#
# There is a mark to steer by: the context at which the KV cache weighs as much as the weights,
#
# $$
# N^* = \frac{\text{bytes of the weights}}{\text{KV bytes of a token}}
# $$
#
# Far below $N^*$ a step reads weights and little else. A smaller cache cannot save what is not spent.

# %%
FASTER = 1.05  # 5 %: what a clock can tell from noise
SHAPES = ("bundled", "qwen3-0.6b", "llama-3.1-8b") if kit.on_gpu() else ("bundled",)
SHAPE = SHAPES[min(1, len(SHAPES) - 1)]
ROWS = 8 if kit.on_gpu() else 4
LONGEST = 8192 if kit.on_gpu() else 512
own_type = counted["plain"]
expected = {"weight_bytes": counted["weight_bytes"], "kv": BYTES[own_type]}
if SHAPE != "bundled":
    facts = counted["shapes"][SHAPE]
    expected = {"weight_bytes": facts["weight_bytes"], "kv": facts["heads"] * facts["head_dim"] * 2}
kit.note(
    say(
        "speed.facts",
        "The run below is set to **{shape}**: {weights:,.0f} MB of weights, {kv:,.0f} bytes of KV a token, "
        "so N* = **{weigh:,.0f} tokens** over all rows. It goes up to {rows} rows of {longest:,} tokens: {tokens:,} in all.",
        shape=SHAPE,
        weights=expected["weight_bytes"] / 1e6,
        kv=expected["kv"],
        weigh=expected["weight_bytes"] / expected["kv"],
        rows=ROWS,
        longest=LONGEST,
        tokens=ROWS * LONGEST,
    )
)
known = {name: kit.recall(name) for name in ("step_base_ms", "step_per_row_us", "step_per_token_ns")}
if all(known.values()):
    kit.note(
        say(
            "speed.ledger",
            "From your ledger (L3, {device}): a = {base:.3f} ms, {row:.1f} µs a row, c = {token:.2f} ns a token.",
            device=known["step_base_ms"].device,
            base=known["step_base_ms"].value,
            row=known["step_per_row_us"].value,
            token=known["step_per_token_ns"].value,
        ),
        "info",
    )
kit.predict(
    "even",
    say("even.question", "**From which context on is a step with int8 at least 5 % faster?**"),
    kit.Choice(
        {
            "early": say("even.early", "long before N*: a quarter of it or less"),
            "middle": say("even.middle", "between a quarter of N* and N*"),
            "late": say("even.late", "only beyond N*"),
            "never": say("even.never", "at no context of this run"),
        }
    ),
    hints=(say("even.hint", "Solve a + c x = 1.05 (a + r c x), where r is the share of bytes you have just seen."),),
)
kit.predict(
    "gain",
    say("gain.question", "**At the longest context a step with int8 is this many times as fast:**"),
    kit.Number(0.2, 4.0, 0.05, start=1.0, unit="x"),
    hints=(
        say("gain.hint1", "Weights + x KV bytes, over weights + x times the smaller KV bytes."),
        say("gain.hint2", "That counts bytes. Does this machine have a kernel that reads 8-bit numbers?"),
    ),
)

# %% speed_run [markdown] kind="experiment"
# ## The clock
#
# The same model is loaded once for each format and decodes at four contexts. For time alone, random weights would do:
# a step lasts as long whatever the numbers mean.

# %%
FORMATS = quantised_dtypes(kit.device())  # fp8 from compute capability 8.9 on


def time_formats(report: kit.Report, shape: str, formats: str, longest: int) -> dict:
    """Decode steps against context, one format after the other."""
    longest = min(longest, 1900) if shape == "bundled" else longest
    contexts = [max(16, longest // part) for part in (64, 16, 4, 1)]

    def heard(what: str, done: float) -> None:
        report(say("speed.busy", "decode steps, format after format"), done)

    with kit.alone("timing decode steps"):
        asked = FORMATS if formats == "all" else ["int8"]
        return kv_sweep(None if shape == "bundled" else shape, asked, ROWS, contexts, heard)


speed = kit.measure(
    "speed",
    say("speed.title", "A decode step against its context, in each format"),
    time_formats,
    controls=(
        kit.Control("shape", say("control.shape", "Model"), SHAPES, default=SHAPE, small="bundled"),
        kit.Control(
            "formats",
            say("control.formats", "Formats"),
            ("int8", "all"),
            default="all" if kit.on_gpu() else "int8",
            small="int8",
            names={
                "int8": say("control.int8", "the model's own and int8"),
                "all": say("control.all", "all that this device runs"),
            },
        ),
        kit.Control(
            "longest",
            say("control.longest", "Longest context"),
            (128, 512, 1024, 8192),
            default=LONGEST,
            small=128,
        ),
    ),
)

# %% speed_compare [markdown] kind="reconcile"
# ## Two lines
#
# Each format is a straight line: it starts at $a$, and $c$ is how steep it is. Look at the starts first. No format touches
# the weights, so they should lie close together; what keeps them apart is the work of converting. Then compare the slopes
# with the bytes.

# %%
swept = speed.results
lines, plain, rows = swept["lines"], swept["plain"], swept["rows"]
own, int8 = lines[plain], lines["int8"]
longest = own["tokens"][-1]
share = int8["kv_bytes"] / own["kv_bytes"]
weigh = swept["weight_bytes"] / own["kv_bytes"]
even = break_even((own["base_ms"], own["per_token_ms"]), (int8["base_ms"], int8["per_token_ms"]), FASTER)
gain = own["ms"][-1] / int8["ms"][-1]

by_bytes = byte_lines(swept["weight_bytes"], own["kv_bytes"], share)
here, kv_known = speed.origin.detail.partition(" · ")[0], kit.recall("kv_bytes_per_token")
fits = (
    all(known.values())
    and kv_known is not None
    and kv_known.value == own["kv_bytes"]
    and {entry.device for entry in known.values()} == {here}
    and known["step_per_token_ns"].value > 0
)
if fits:
    start = known["step_base_ms"].value + rows * known["step_per_row_us"].value / 1e3
    slope = known["step_per_token_ns"].value / 1e6
    theory, how = ((start, slope), (start, share * slope)), "ledger: a, c; r from bytes"
else:
    theory, how = by_bytes, "(weights + x KV) / (weights + x r KV)"


def at(line: tuple[float, float], tokens: float) -> float:
    """Milliseconds of a line at a context."""
    return line[0] + line[1] * tokens


kit.show("lines", KV_LINES, {"lines": lines, "weigh": weigh, "even": even}, speed.origin)
compared = [
    kit.Row(
        say("gain.row", "int8 over {plain} at {tokens:,.0f} tokens", plain=plain, tokens=longest),
        at(theory[0], longest) / at(theory[1], longest),
        gain,
        "x",
        "gain",
        within=0.2,
    )
]
foreseen = break_even(*theory, FASTER)
if even is not None and 1 <= even <= longest:
    compared.append(
        kit.Row(say("even.row", "tokens from which on int8 is 5 % faster"), foreseen, even, "", within=1.0),
    )
kit.reconcile("speed", compared, observed=speed.origin, theory=kit.Origin("Computed", how))
if even is None or even > longest:
    kit.reveal("even", "never")
else:
    kit.reveal("even", "early" if even <= weigh / 4 else "middle" if even <= weigh else "late")
in_registers = kit.guard(
    swept["backend"] == "triton",
    say(
        "speed.reference",
        "**No gain to be had here: {gain:.2f}x.** On this machine attention runs as plain PyTorch. It first turns the 8-bit numbers "
        "back into {plain} in memory and then reads those: more bytes than before, not fewer. int8 pays only where a kernel "
        "takes the numbers apart **in registers**, on their way from memory to arithmetic. The theory above counts what such "
        "a kernel would read. The recording of an H200 shows one.",
        gain=gain,
        plain=plain,
    ),
)
heavy = kit.guard(
    longest >= weigh / 2,
    say(
        "speed.light",
        "The run ends at {tokens:,.0f} tokens, {part:.0f} % of N* = {weigh:,.0f}. So far down, the weights are nearly all that "
        "a step reads, and no KV format can matter. Choose a longer context, or believe the null result.",
        tokens=longest,
        part=100 * longest / weigh,
        weigh=weigh,
    ),
)
bound = not in_registers or kit.guard(
    own["ms"][-1] < 3 * own["floor_ms"][-1],
    say(
        "speed.overhead",
        "A step takes {ms:.2f} ms at the longest context and its bytes need {floor:.2f} ms: this model waits for launches, not "
        "for memory, and cannot gain from fewer bytes. Choose a larger model.",
        ms=own["ms"][-1],
        floor=own["floor_ms"][-1],
    ),
)
shows = in_registers and heavy and bound
if shows:
    kit.note(
        say(
            "speed.note",
            "Here the run reaches **{times:.1f} N\\***, and int8 is **{gain:.2f}x** as fast at its end. The slope fell to "
            "{slope:.0f} % and the bytes to {share:.0f} %. At short contexts the two lines are hard to tell apart: a benchmark "
            "with short prompts reports no gain, one with long ones nearly {most:.1f}x, and both are honest.",
            times=longest / weigh,
            gain=gain,
            slope=100 * int8["per_token_ms"] / max(own["per_token_ms"], 1e-12),
            share=100 * share,
            most=1 / share,
        ),
        "good" if gain >= FASTER else "info",
    )

# %% grain_question [markdown] kind="question"
# ## Third axis: what shares a scale?
#
# Rounding to whole numbers makes an error of up to half a scale. A scale is as large as the largest number that shares it.
# So one large number spoils all that share a scale with it, and the question is who should:
#
# - **tensor**: all keys of a layer share one;
# - **head**: all tokens of a head share one. (One article calls this "per channel". It is not: a head has 64 channels.)
# - **channel**: one of the 64 numbers of a head, at all tokens;
# - **token and head**: the 64 numbers of one head of one token, as this engine does it.

# %%
GRAIN = {
    "tensor": say("grain.tensor", "the whole tensor of a layer"),
    "head": say("grain.head", "a head, all its tokens"),
    "channel": say("grain.channel", "a channel, all its tokens"),
    "token_head": say("grain.token_head", "a token and head"),
}
kit.predict(
    "grain",
    say("grain.question", "**Keys of the bundled model, int8.** A scale for each of what makes the smallest error?"),
    kit.Choice(GRAIN),
    hints=(say("grain.hint", "Are large keys found at certain tokens, or always in the same places of a head?"),),
)

# %% grain_run [markdown] kind="experiment"
# ## Real keys
#
# The bundled model writes a text, and we look at the keys and values that it leaves behind. Random weights would be no
# use here: their keys have no structure to find.


# %%
def round_keys(report: kit.Report, format: str, tokens: int, layer: int) -> dict:
    """Rounding errors by what shares a scale, and one layer channel by channel."""

    def heard(what: str, done: float) -> None:
        report(say("grain.busy", "keys and values of a text"), done)

    with kit.alone("looking at keys"):
        return kv_rounding(tokens, layer, heard)


grain = kit.measure(
    "grain",
    say("grain.title", "Keys and values, rounded"),
    round_keys,
    controls=(
        kit.Control(
            "format",
            say("control.format", "Format"),
            ("int8", "fp8", "int4"),
            default="int8",
            names={"int4": say("control.int4", "int4, computed")},
        ),
        kit.Control("tokens", say("control.tokens", "Tokens of the text"), (64, 256, 1024), default=256, small=64),
        kit.Control("layer", say("control.layer", "Layer of the histogram"), tuple(range(8)), default=7),
    ),
)
errors, shown = grain.results, grain.values["format"]
kit.show("channels", CHANNELS, errors["channels"] | {"layer": grain.values["layer"]}, grain.origin)
kit.show(
    "grain",
    GRAIN_MAP,
    {"format": shown, "keys": errors["keys"][shown], "values": errors["values"][shown]},
    grain.origin if shown != "int4" else kit.Origin("Computed", "round(x / s) s"),
)
means = {
    part: {name: sum(errors[part]["int8"][name]) / errors["layers"] for name in GRAINS} for part in ("keys", "values")
}
best = min(means["keys"], key=means["keys"].get)
kit.reveal("grain", best)
kit.note(
    say(
        "grain.stripes",
        "Look at the histogram. Each column is a channel, and most of them keep close to zero. A few stand far out, on the same "
        "side at **every** token: what is large in a key sits in certain channels. In values there is no such order. A scale for "
        "each channel therefore suits keys best. But it has to be known before the tokens come whose numbers it will hold: "
        "somebody must measure it beforehand, and a text that behaves otherwise is cut off. A scale for each token and head is "
        "known the moment the token is there. It needs nobody's calibration, it never goes stale, and what is stored depends on "
        "that token alone. That is why this engine takes it.",
    )
)
kit.note(
    say(
        "grain.note",
        "int8, mean of the layers. Keys: channel {key_channel:.2f} %, token and head {key_token:.2f} %, head {key_head:.2f} %, "
        "tensor {key_tensor:.2f} %. Values: {value_channel:.2f}, **{value_token:.2f}**, {value_head:.2f} and {value_tensor:.2f} %. "
        "For keys the least is made by **{best}**; token and head costs {worse:.1f} times that.",
        key_channel=means["keys"]["channel"],
        key_token=means["keys"]["token_head"],
        key_head=means["keys"]["head"],
        key_tensor=means["keys"]["tensor"],
        value_channel=means["values"]["channel"],
        value_token=means["values"]["token_head"],
        value_head=means["values"]["head"],
        value_tensor=means["values"]["tensor"],
        best=GRAIN[best],
        worse=means["keys"]["token_head"] / means["keys"][best],
    ),
    "info",
)
spread = [sum(errors["keys"]["fp8"][name]) / errors["layers"] for name in GRAINS]
kit.note(
    say(
        "grain.fp8",
        "Now fp8: between {low:.1f} % and {high:.1f} %, whoever shares the scale. It has an exponent of its own in every number, "
        "so small ones stay precise beside large ones, but only 3 bits of digits. With a scale for each token, int8 is the more "
        "accurate of the two. And int4 has 15 steps in all: here the grain decides whether it is usable. Choose it above.",
        low=min(spread),
        high=max(spread),
    )
)

# %% drift_question [markdown] kind="question"
# ## Does anybody notice?
#
# An error of keys is nothing that a reader sees. What counts is the next token. Each answer below is written greedily with
# the model's own KV cache. Then the same text is computed again with an int8 cache, and at each token we compare the two
# distributions and their best token. From the first place where the best token differs, the two would write different texts.

# %%
TOKENS = 256
kit.predict(
    "drift",
    say(
        "drift.question",
        "**Eight greedy answers of {tokens} tokens.** On average, how many tokens are the same before int8 first picks another "
        "one? ({tokens}: it never does)",
        tokens=TOKENS,
    ),
    kit.Number(0, TOKENS, 1, start=0, unit=" tokens"),
    hints=(
        say("drift.hint1", "Errors of the layers add up, but a token changes only where two were nearly tied."),
        say("drift.hint2", "If one place in 500 changes, how long is a run of 256 without any?"),
    ),
)

# %% drift_run [markdown] kind="experiment"
# ## Place by place
#
# KL divergence says how different two distributions are: 0 if they are the same, in nats. Markers stand where an answer
# parts from the plain one.


# %%
def drift_texts(report: kit.Report, texts: int, tokens: int) -> dict:
    """Divergence of each quantised format."""

    def heard(what: str, done: float) -> None:
        report(say("drift.busy", "the same answers with each KV cache"), done)

    with kit.alone("comparing KV formats"):
        return kv_drift(FORMATS, texts, tokens, kit.seed(), heard)


drift = kit.measure(
    "drift",
    say("drift.title", "The same answers with a quantised KV cache"),
    drift_texts,
    controls=(
        kit.Control("texts", say("control.texts", "Answers"), (4, 8), default=8, small=4),
        kit.Control(
            "tokens", say("control.length", "Tokens of each"), (48, 128, TOKENS, 512), default=TOKENS, small=48
        ),
    ),
)
found = drift.results["formats"]
kit.show("drift", DRIFT, drift.results, drift.origin)


def same_run(agreement: float, tokens: int) -> float:
    """Tokens before the first that differs, at most ``tokens``, if each agrees with this probability on its own."""
    return sum(agreement**place for place in range(1, tokens + 1))


eight = found["int8"]
kit.reconcile(
    "drift",
    (
        kit.Row(
            say("drift.row", "equal tokens before the first other one, int8"),
            same_run(eight["greedy_agreement"], drift.results["tokens"]),
            eight["same_until"],
            "",
            "drift",
        ),
    ),
    observed=drift.origin,
    theory=kit.Origin("Computed", "q + q² + ... , q: agreement"),
)
kit.note(
    say(
        "drift.note",
        "int8: KL **{kl:.1e}** nats, the best token agrees at **{agree:.2f} %** of the places, and {parted} of {texts} answers "
        "part somewhere. Both are true at once: nearly all tokens agree, and many answers differ, because one other token is "
        "enough for another text. Divergence of greedy texts sounds alarming and measures how often two tokens were nearly "
        "tied. Judge a format by KL, and by tasks that you care about.",
        kl=eight["kl"],
        agree=100 * eight["greedy_agreement"],
        parted=sum(place is not None for place in eight["first_divergence"]),
        texts=eight["texts"],
    ),
    "info",
)

# %% verdict [markdown] kind="figures"
# ## The verdict has three lines
#
# A format that wins on one axis may lose on another. "KV quantisation is worth 40 %" has no meaning without the axis and
# without the context. Capacity is given against 16 bits, speed against the model's own format at the longest context of
# your run.

# %%
verdict = {}
for kind in ("int8", "fp8", "int4"):
    numbers, scale = head_bytes(kind, DIM)
    verdict[kind] = {
        "capacity": 2 * DIM / (numbers + scale),
        "speed": own["ms"][-1] / lines[kind]["ms"][-1] if kind in lines else None,
        "error": sum(errors["keys"][kind]["token_head"]) / errors["layers"],
        "kl": found[kind]["kl"] if kind in found else None,
    }
kit.show("verdict", THREE_AXES, verdict, kit.Origin(drift.origin.kind, f"{drift.origin.detail} · int4: Computed"))
kit.note(
    say(
        "verdict.note",
        "When does that help a server? If requests wait for blocks, capacity alone already is throughput: more of them run at "
        "once. If contexts are long, steps get shorter too. With short contexts and a pool that is never full, int8 buys "
        "nothing, and you still pay the error.",
    )
)

# %% capacity_task [markdown] kind="exercise"
# ## Exercise 1: a pool of your own
#
# A model with 32 layers and 8 key-value heads of 128 numbers. Its pool is kept in int8, with one fp16 scale for each token and
# head, of keys and of values.

# %%
POOL = 8 + kit.seed(5) % 25  # GiB
LAYERS, KV_HEADS, WIDE = 32, 8, 128
MEMORY = POOL * 2**30
TOKEN = 2 * LAYERS * KV_HEADS * (WIDE + 2)
RIGHT = MEMORY // TOKEN


def grade_capacity(answer: float) -> kit.Verdict:
    """Tokens in the pool; the usual mistakes have words of their own."""
    if kit.miss(max(answer, 1), RIGHT).share < 0.0005:
        return kit.right(
            say(
                "pool.right",
                "Right: {token:,} bytes a token, {right:,} tokens. In bf16 it would be {plain:,}.",
                token=TOKEN,
                right=RIGHT,
                plain=MEMORY // (4 * LAYERS * KV_HEADS * WIDE),
            )
        )
    slips = {
        2 * LAYERS * KV_HEADS * WIDE: say("pool.scale", "Close, but the scales have to be kept too."),
        2 * LAYERS * (KV_HEADS * WIDE + 2): say(
            "pool.one_scale", "That is one scale for all heads of a token. Each head has its own."
        ),
        LAYERS * KV_HEADS * (WIDE + 2): say("pool.keys", "Keys **and** values, each with its scale."),
        2 * LAYERS * KV_HEADS * (WIDE + 4): say("pool.wide_scale", "An fp16 scale has two bytes, not four."),
        4 * LAYERS * KV_HEADS * WIDE: say("pool.plain", "That is the pool in 16 bits."),
        2 * KV_HEADS * (WIDE + 2): say(
            "pool.layer", "That is one layer. Every layer keeps keys and values of its own."
        ),
    }
    for token, why in slips.items():
        if kit.miss(max(answer, 1), MEMORY / token).share < 0.0005:
            return kit.wrong(why)
    if kit.miss(max(answer, 1), POOL * 1e9 / TOKEN).share < 0.0005:
        return kit.wrong(
            say("pool.gib", "Right bytes a token, but a GiB has 2 to the power of 30 bytes, not a billion.")
        )
    return kit.wrong(
        say("pool.wrong", "Not yet. How many bytes does one head of one token take, and how many are there?")
    )


kit.exercise(
    "pool",
    say("pool.task", "How many whole **tokens** fit into **{pool} GiB**?", pool=POOL),
    kit.Number(0, 100_000_000, 1, start=0, unit=" tokens"),
    grade_capacity,
    hints=(
        say("pool.hint1", "One head of one token: 128 numbers of one byte, and its scale."),
        say("pool.hint2", "Times 8 heads, times 32 layers, times 2 for keys and values."),
    ),
)

# %% code_task [markdown] kind="exercise"
# ## Exercise 2: quantise, and come back
#
# Write what the engine's kernel does to a head: quantise each row of `x`, shape (tokens, numbers), to int8 with a scale of its
# own, and turn it back. Your function sees keys of *your* model, and some rows that are less friendly: a row of zeros, a row
# with one huge number.
#
# No number may come back further away than half a scale of **its own row**, and no scale may be 0.

# %%
STARTER = '''import numpy as np


def through_int8(x):
    """Give `stored` (int8, like x), `scale` (one for each row) and `restored` (like x)."""
    stored, scale, restored = x, np.ones(len(x)), x
    return stored, scale, restored
'''
SOLUTION = """import numpy as np


def through_int8(x):
    scale = np.maximum(np.abs(x).max(axis=1) / 127, 2.0**-24)
    stored = np.clip(np.round(x / scale[:, None]), -127, 127).astype(np.int8)
    return stored, scale, stored * scale[:, None]
"""
SLACK = 0.1  # of a scale, beyond the half: an fp16 scale is not exact


def hidden_cases() -> list[tuple]:
    """Own keys first, then rows of every size, a huge number, zeros, and one row alone."""
    draw = np.random.default_rng(kit.seed(12))
    sizes = draw.normal(size=(12, 64)) * 10.0 ** draw.uniform(-3, 2, size=(12, 1))
    huge, zeros = draw.normal(size=(8, 32)), draw.normal(size=(5, 16))
    huge[3, 7], zeros[2] = 500.0, 0.0
    arrays = [np.array(errors["sample"]), sizes, huge, zeros, -np.abs(draw.normal(size=(1, 48)))]
    return [(array.astype(np.float32),) for array in arrays]


CASES = hidden_cases()


def grade_code(outputs: list, cases: list[tuple]) -> kit.Verdict:
    """Every case; each plausible mistake has a word of its own."""
    for place, (output, (x,)) in enumerate(zip(outputs, cases)):
        why = code_slip(output, x, place)
        if why is not None:
            return kit.wrong(why)
    worst = max(float(np.abs(output[2] - x).max() / np.abs(x).max()) for output, (x,) in zip(outputs, cases))
    return kit.right(
        say(
            "code.right",
            "All {n} arrays came back, your own keys among them, and nothing is off by more than {worst:.2f} % of the largest "
            "number of its array.",
            n=len(cases),
            worst=100 * worst,
        )
    )


def code_slip(output: object, x: np.ndarray, place: int) -> kit.Say | None:
    """What is wrong with one output; None when nothing is."""
    if not isinstance(output, list | tuple) or len(output) != 3:
        return say("code.three", "Return three things: `stored`, `scale`, `restored`.")
    stored, scale, restored = (np.asarray(each) for each in output)
    if stored.dtype != np.int8 or stored.shape != x.shape:
        return say(
            "code.int8", "`stored` should be an int8 array of the shape of `x`: `.astype(np.int8)`, after rounding."
        )
    if scale.size == 1 and len(x) > 1:
        return say("code.tensor", "One scale for all rows: a small row beside a large one loses all its digits.")
    if scale.size != len(x) or restored.shape != x.shape:
        return say("code.shapes", "`scale` has one number for each row, and `restored` the shape of `x`.")
    scale = scale.reshape(-1, 1).astype(float)
    if not (np.isfinite(scale) & (scale > 0)).all() or not np.isfinite(restored).all():
        return say(
            "code.zero",
            "A row of zeros has 0 as its largest number, and you divide by it. Give the scale a least value.",
        )
    least = np.maximum(np.abs(x).max(axis=1, keepdims=True) / 127, 2.0**-24)
    if (np.abs(restored - x) <= (0.5 + SLACK) * least).all():
        return None
    return far_off(stored.astype(float), scale, restored, x, least, place)


def far_off(
    stored: np.ndarray, scale: np.ndarray, restored: np.ndarray, x: np.ndarray, least: np.ndarray, place: int
) -> kit.Say:
    """Why numbers came back too far away."""
    if np.array_equal(restored, stored):
        return say("code.forgot", "`restored` is still whole numbers. Multiply them by the scale of their row.")
    if np.ptp(scale) < 1e-9 * scale.max() and len(x) > 1:
        return say("code.tensor", "One scale for all rows: a small row beside a large one loses all its digits.")
    if np.allclose(scale * 128, least * 127, rtol=1e-3):
        return say(
            "code.largest",
            "int8 goes from -128 to **127**. With 128 as the divisor, the largest number of a row does not fit and is cut off "
            "or turns negative.",
        )
    if (np.trunc(x / scale) == stored).mean() > 0.95:
        return say("code.truncated", "`astype` cuts digits off, towards zero. Round to the nearest number first.")
    return say(
        "code.wrong",
        "In array {n} a number came back {times:.1f} scales of its row away. Half a scale is allowed.",
        n=place + 1,
        times=float((np.abs(restored - x) / least).max()),
    )


kit.exercise(
    "code",
    say("code.task", "Complete `through_int8`."),
    kit.Code("through_int8", STARTER, CASES),
    grade_code,
    hints=(
        say(
            "code.hint1",
            "`np.abs(x).max(axis=1)` is the largest number of each row; `scale[:, None]` makes it a column.",
        ),
        say("code.hint2", "Divide, round, keep within -127 and 127, make it int8. Then multiply back."),
    ),
    solution=SOLUTION,
)

# %% takeaway [markdown] kind="takeaway"
# ## What to keep
#
# Two numbers go into your ledger. The ratio tells L18 how many requests a pool holds; the break-even tells it from which context
# on an 8-bit cache is faster too.

# %%
if shows and even is not None and even <= longest:
    kit.enter("kv_break_even_tokens", even, "tokens", "context of all rows from which int8 is 5 % faster", speed.origin)
else:
    computed = kit.Origin("Computed", here)
    kit.enter(
        "kv_break_even_tokens",
        foreseen,
        "tokens",
        "context from which int8 would be 5 % faster; not seen in this run",
        computed,
    )
kit.enter("kv_ratio", ratio, "x", "bytes of a token, int8 with its scales over 16 bits", pools.origin)
kit.takeaway(
    say(
        "takeaway.line",
        "Quantising the KV cache is three decisions: **{capacity:.2f}x** the tokens for certain, **{gain:.2f}x** the speed here "
        "at {times:.1f} N\\*, and a KL of **{kl:.0e}** nats. Name the axis before you name the number.",
        capacity=1 / ratio,
        gain=gain,
        times=longest / weigh,
        kl=eight["kl"],
    ),
    carried=("kv_ratio", "kv_break_even_tokens"),
)
