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

# %% seats [markdown]
# ## Eight seats and a queue
#
# A decode step reads every weight of the model once and then hands one token to each request that sits in the batch.
# The weights are most of the bytes, so a step with eight requests costs hardly more than a step with one. That is why
# an engine batches at all: **seats are nearly free, steps are not.**
#
# A seat is called a *row*. One row during one step is a *row-step*, and a row-step can end in three ways:
#
# - **useful**: it produced a token that somebody will read;
# - **padded**: it computed, but the answer in that row had already ended, so the token is thrown away;
# - **idle**: nobody sat there.
#
# This lesson is about who decides when a guest may sit down and when a guest has to get up. Four schedulers answer
# differently. They run the same kernels, the same model and the same requests:
#
# | scheduler | who may enter | when a finished row leaves |
# | --- | --- | --- |
# | static, padded | a whole group, once nobody is left | when its whole group has finished |
# | static, shrinking | a whole group, once nobody is left | at once, and its seat stays empty |
# | dynamic | a group collected in a time window | when its whole group has finished |
# | in-flight | anybody, at each step, as soon as a seat is free | at once, and the next one sits down |
#
# *In-flight* batching is elsewhere called continuous or iteration-level batching. It is not what Triton's "dynamic
# batcher" does, although articles use that name for both; here, *dynamic* always means the time window.

# %%
import math

from engine.trace.gain import bound
from engine.workload.items import quantiles
from engine.workload.race_spec import RaceSpec
from engine.workload.verdict import P99_SAMPLES, verdict
from lessons import kit
from lessons.figures.factors import FACTORS
from lessons.figures.lanes import LANES
from lessons.figures.latency import LATENCY
from lessons.kit import say

kit.begin("L8")

# %% equal_question [markdown] kind="question"
# ## Everybody orders the same
#
# Begin with the easiest kitchen: every answer has exactly 48 tokens. We send the same requests through *static, padded*
# and through *in-flight*, eight rows each, and divide the two durations. A ratio of 2 would mean that in-flight needs
# half the time.
#
# Follow one group of eight through its 48 steps before you answer. In which of its row-steps is a token thrown away?

# %%
kit.predict(
    "equal",
    say("equal.question", "**All answers have the same length.** In-flight is this many times as fast as static:"),
    kit.Number(0.5, 4.0, 0.05, start=2.0, unit="x"),
    hints=(say("equal.hint", "Write down the length of the longest answer of a group, and the mean length."),),
)

# %% equal_run [markdown] kind="experiment"
# ## Run it
#
# Real steps of the real engine, on this machine. Each scheduler warms up first, then answers the same requests; the
# fastest of its runs counts.


# %%
def race_equal(report: kit.Report, requests: int, repeats: int) -> dict:
    """Static against in-flight with answers of one length."""
    spec = RaceSpec(requests, spread=0.0, seed=kit.seed(), repeats=repeats, schedulers=("static", "in_flight"))
    return kit.race(spec, report)


REQUESTS, REPEATS = say("control.requests", "Requests"), say("control.repeats", "Runs of each scheduler")
equal = kit.measure(
    "equal",
    say("equal.title", "Equal lengths: static, padded against in-flight"),
    race_equal,
    controls=(
        kit.Control("requests", REQUESTS, (16, 24, 48), default=24, small=8),
        kit.Control("repeats", REPEATS, (1, 2, 3), default=2, small=1, aside=True),
    ),
)

# %% equal_compare [markdown] kind="reconcile"
# ## Theory against the clock
#
# A good explanation also says when the effect must *not* appear. With equal lengths every row of a group ends in the
# same step: nobody waits for a neighbour, nothing is padded, and there is no empty seat for a newcomer. The theory says
# exactly 1, and the difference that you see is the noise of this machine plus what in-flight pays for deciding at
# each step.

# %%
found = verdict(equal.results)
kit.reconcile(
    "equal",
    (
        kit.Row(
            say("equal.row", "gain, equal lengths"), equal.results["bound"], equal.results["gain"], "x", "equal", 0.07
        ),
    ),
    observed=equal.origin,
    theory=kit.Origin("Computed", "E[max] / E[length]"),
)
QUIET = 1.07  # a gain within 7 % of 1 is noise
if kit.miss(found.gain, 1.0).factor <= QUIET:
    kit.note(
        say(
            "equal.note",
            "No gain: **{gain:.2f}x**, and over all pairs of runs between {low:.2f}x and {high:.2f}x. Whoever reports a "
            "win of in-flight batching on equal lengths has compared something else than batching.",
            gain=found.gain,
            low=found.low,
            high=found.high,
        ),
        "info",
    )
else:
    kit.note(
        say(
            "equal.disturbed",
            "The theory says 1 and this machine says {gain:.2f}x: something else used it during one of the two runs. Go "
            "back, run it again, and trust neither number until they agree.",
            gain=found.gain,
        ),
        "careful",
    )

# %% lengths [markdown]
# ## Now the orders differ
#
# Real answers differ in length, and nobody knows a length in advance. The workload of the next race is drawn once, from
# the seed: prompts of 16 to 64 tokens and answers of 48 tokens on average, exponentially distributed and cut to
# 4 to 160. Many short answers, a few very long ones.
#
# A padded group of eight lives as long as its **longest** member. So the steps that static batching needs are governed
# by $E[\max \text{ of } 8]$, while the work that is worth anything is governed by the mean, $E[\text{length}]$. If
# in-flight could keep every seat filled until the very end, it would need only the steps of the mean. Hence the bound
# that the lengths alone allow:
#
# $$
# \text{bound} = \frac{E[\max \text{ of a group}]}{E[\text{length}]}
# $$
#
# Nobody reaches a bound. Something keeps the measured gain below it, and the second half of this lesson takes that
# something apart.

# %% mixed_question [markdown] kind="question"
# ## What will it be worth?
#
# One published article offers an estimator. It takes the mean and the longest length, the number of rows and the
# seconds of a step, and works like this:
#
#     static    = mean / longest
#     in_flight = min(1, 1.8 * static)
#     gain      = in_flight / static
#
# For a mean of 256 and a longest answer of 1,024 it prints 1.8.

# %%
kit.predict(
    "mixed",
    say("mixed.question", "**Mixed lengths, eight rows, all requests at t = 0.** In-flight over static, padded:"),
    kit.Number(0.5, 5.0, 0.1, start=1.0, unit="x"),
    hints=(say("mixed.hint", "Imagine eight draws with a mean of 48. How long is the longest of them, roughly?"),),
)
kit.predict(
    "estimator",
    say(
        "estimator.question",
        "**The article's estimator.** Double the rows and halve the step time: what does it print?",
    ),
    kit.Choice(
        {
            "more": say("estimator.more", "more than 1.8: more rows, more waste to save"),
            "same": say("estimator.same", "1.8 again"),
            "less": say("estimator.less", "less than 1.8: shorter steps, less to save"),
        }
    ),
)

# %% mixed_run [markdown] kind="experiment"
# ## The race
#
# The same requests through all four schedulers. Greedy decoding and forced lengths make the four runs do exactly the
# same work, and the engine checks afterwards that they produced the same tokens.


# %%
def race_mixed(report: kit.Report, spread: float, requests: int, arrivals: float, rows: int, repeats: int) -> dict:
    """All four schedulers over one workload. ``arrivals``: requests a second, 0: all at t = 0."""
    spec = RaceSpec(requests, rows, spread, kit.seed(), repeats, arrivals or None)
    return kit.race(spec, report)


mixed = kit.measure(
    "mixed",
    say("mixed.title", "Four schedulers, one workload"),
    race_mixed,
    controls=(
        kit.Control(
            "spread",
            say("control.spread", "Lengths"),
            (0.0, 0.5, 1.0),
            default=1.0,
            names={
                0.0: say("spread.none", "all equal"),
                0.5: say("spread.some", "mild"),
                1.0: say("spread.full", "mixed"),
            },
        ),
        kit.Control("requests", REQUESTS, (24, 64, 128), default=64, small=12),
        kit.Control(
            "arrivals",
            say("control.arrivals", "Arrivals"),
            (0, 40, 10),
            default=0,
            names={
                0: say("arrivals.none", "all at t = 0"),
                40: say("arrivals.many", "40 a second"),
                10: say("arrivals.few", "10 a second"),
            },
        ),
        kit.Control("rows", say("control.rows", "Rows"), (4, 8, 16), default=8, small=4, aside=True),
        kit.Control("repeats", REPEATS, (1, 2, 3), default=1, small=1, aside=True),
    ),
)
found = verdict(mixed.results)
rows = len(mixed.results["schedulers"]["in_flight"]["lanes"])
requests = sorted(mixed.results["schedulers"]["static"]["requests"], key=lambda request: request["id"])
lengths = [request["output_tokens"] for request in requests]
shows = kit.guard(
    not found.is_null,
    say(
        "mixed.guard",
        "With these lengths the bound is {bound:.2f}x: the effect cannot show. Read on for the null result, or choose "
        "mixed lengths and run again.",
        bound=found.bound,
    ),
)

# %% lanes [markdown] kind="figures"
# ## Where every row-step went
#
# Each band is one scheduler on the same clock, each line of it one row. Look at three places.
#
# 1. In *static, padded*, follow a short answer to its end: behind it the hatched stretch is work for nobody, until the
#    longest answer of the group is done.
# 2. In *static, shrinking*, the same stretch is empty. Less is computed, yet the group does not end earlier: **the steps
#    are the same, only thinner.** Leaving at once without letting others in gains little.
# 3. In *in-flight*, the next answer begins where the last one ended. Only at the far right does the band fray: nobody is
#    waiting any more, and the last long answers finish alone. That is the *drain*.

# %%
kit.show("lanes", LANES, mixed.results, mixed.origin)

# %% latency [markdown] kind="figures"
# ## The same race, seen by a user
#
# Throughput is the operator's number. A user sees two others: the time to the first token (TTFT), which includes the
# wait for a seat, and the time to the last token. Every dot is one request; the thick mark is the median, the thin
# one the 90th percentile.
#
# In a static batch even a three-word answer waits for the group in front of it. In-flight moves the whole cloud to the
# left, and the short answers gain the most.

# %%
kit.show("e2el", LATENCY, mixed.results, mixed.origin, metric="e2el_ms")
kit.show("ttft", LATENCY, mixed.results, mixed.origin, metric="ttft_ms")
p90 = {
    name: quantiles([request["ttft_ms"] for request in run["requests"]])["p90"]
    for name, run in mixed.results["schedulers"].items()
}
kit.note(
    say(
        "latency.note",
        "TTFT at p90: **{static:,.0f} ms** static, **{in_flight:,.0f} ms** in-flight. A p99 is left out on purpose: of "
        "{n} requests it would be the slowest one or two, and a percentile needs at least {needed}.",
        static=p90["static"],
        in_flight=p90["in_flight"],
        n=len(lengths),
        needed=P99_SAMPLES,
    )
)

# %% gain [markdown] kind="reconcile"
# ## Three theories and one measurement
#
# The first line uses the lengths alone. The second replays the schedule step by step with a fitted cost of a step,
# without having run in-flight. The third is the article's estimator, fed with the mean and the longest length of
# your run.


# %%
def published_gain(mean: float, longest: float) -> float:
    """The article's estimator; its other two arguments, rows and step time, change nothing."""
    static = mean / longest
    return min(1.0, 1.8 * static) / static


kit.reveal("estimator", "same")
gain, cost_model = mixed.results["gain"], math.prod(mixed.results["predicted_factors"].values())
published = published_gain(sum(lengths) / len(lengths), max(lengths))
kit.reconcile(
    "gain",
    (
        kit.Row(say("gain.bound", "the lengths alone: E[max] / E[length]"), found.bound, gain, "x", "mixed"),
        kit.Row(say("gain.model", "cost model: simulated steps, fitted step time"), cost_model, gain, within=0.15),
        kit.Row(say("gain.published", "the article's estimator"), published, gain),
    ),
    observed=mixed.origin,
    theory=kit.Origin("Computed"),
)
if found.is_disturbed:
    kit.note(
        say(
            "gain.disturbed",
            "The measured {gain:.2f}x and the cost model's {model:.2f}x are far apart: something else used this device "
            "during the race. Run it again before you believe either.",
            gain=gain,
            model=cost_model,
        ),
        "careful",
    )
elif shows:
    kit.note(
        say(
            "gain.note",
            "In-flight realised **{kept:.0f} %** of what the lengths allow. The estimator prints the same {published:.2f} "
            "whatever the rows and the step time are: both arguments cancel. It is its constant 1.8 that you read, not a "
            "property of your workload; when it comes close, it is by luck.",
            kept=100 * found.kept,
            published=published,
        ),
        "info",
    )
else:
    kit.note(
        say(
            "gain.null",
            "The lengths leave nothing to gain ({bound:.2f}x), and {gain:.2f}x was measured: none, within the noise of "
            "these runs. Here even the estimator agrees, with {published:.2f}: its mean is its longest.",
            bound=found.bound,
            gain=gain,
            published=published,
        ),
        "info",
    )

# %% factors_question [markdown] kind="question"
# ## Take the gain apart
#
# The ratio of the two durations is a product of five factors, exactly:
#
# $$
# \frac{T_s}{T_f} = \underbrace{\frac{N_s}{N^*}}_{\text{ideal}} \cdot \underbrace{\frac{N^*}{N_f}}_{\text{drain}}
# \cdot \underbrace{\frac{d_s}{d_f}}_{\text{step shape}}
# \cdot \underbrace{\frac{(1 + P/D)_s}{(1 + P/D)_f}}_{\text{prefill}}
# \cdot \underbrace{\frac{(T/(D+P))_s}{(T/(D+P))_f}}_{\text{idle}}
# $$
#
# Here $s$ is static and $f$ in-flight; $N$ counts decode steps and $N^*$ is the fewest that full rows would need; $D$ is
# the time spent decoding, $d = D/N$ the mean decode step, $P$ the time of prefills, $T$ everything. A factor above 1
# speaks for in-flight, one below 1 takes something back. You have seen the first one: it is the bound (over decode
# steps). Three of the others are yours to guess.

# %%
FACTOR = kit.Number(0.5, 1.5, 0.01, start=1.0, unit="x")
kit.predict(
    "drain",
    say(
        "drain.question",
        "**Drain.** At the end nobody waits and rows stay empty, so in-flight needs more steps than the fewest:",
    ),
    FACTOR,
    hints=(say("drain.hint", "How long is the last answer alone, compared with the whole run of in-flight?"),),
)
kit.predict(
    "step_shape",
    say("step_shape.question", "**Step shape.** Mean seconds of a static decode step over those of an in-flight one:"),
    FACTOR,
    hints=(say("step_shape.hint", "A padded row goes on computing, and its context goes on growing."),),
)
kit.predict(
    "prefill",
    say(
        "prefill.question",
        "**Prefill.** Static prefills a group in one step; in-flight prefills newcomers one or two at a time:",
    ),
    FACTOR,
    hints=(say("prefill.hint", "Which of the two has more steps that carry a prefill, each with its fixed cost?"),),
)

# %% factors [markdown] kind="reconcile"
# ## Factor by factor
#
# That five factors multiply to the gain proves nothing: they telescope, they always do. What makes the picture worth
# anything is that each factor stands beside a prediction that was made **without** it: the lengths give *ideal*, a
# simulation of the scheduler gives *drain*, a fitted step time $a + b \cdot \text{rows} + c \cdot \text{context}$ gives
# *step shape* and *prefill*.

# %%
measured, predicted = mixed.results["factors"], mixed.results["predicted_factors"]
NAMES = {
    "ideal": say("factor.ideal", "ideal: static's steps over the fewest"),
    "drain": say("factor.drain", "drain: the last answers finish alone"),
    "step_shape": say("factor.step_shape", "step shape: what a step costs"),
    "prefill": say("factor.prefill", "prefill between decodes"),
    "idle": say("factor.idle", "idle: no step runs"),
}
asked = ("drain", "step_shape", "prefill")
kit.show("factors", FACTORS, mixed.results, mixed.origin)
kit.reconcile(
    "factors",
    [
        kit.Row(words, predicted[name], measured[name], "x", name if name in asked else "")
        for name, words in NAMES.items()
    ],
    observed=mixed.origin,
    theory=kit.Origin("Computed", "lengths · simulated steps · fitted step time"),
)
biggest = min(measured, key=lambda name: measured[name])
kit.note(
    say(
        "factors.note",
        "What takes most away here is **{name}** ({value:.2f}x). With more requests behind each seat the drain shrinks, "
        "because the end comes only once; with longer prompts the prefill factor grows. Change *Requests* in the race "
        "and see which factors move and which stay.",
        name=NAMES[biggest],
        value=measured[biggest],
    )
)

# %% sample [markdown] kind="exercise"
# ## Exercise 1: the bound by hand
#
# Below are the first eight answer lengths of *your* race, in the order of their arrival, as two groups of four.

# %%
SAMPLE, SEATS = lengths[:8], 4
GROUPS = [SAMPLE[:SEATS], SAMPLE[SEATS:]]


def grade_sample(answer: float) -> kit.Verdict:
    """The bound of the sample; the usual slips are recognised."""
    longest, total = [max(group) for group in GROUPS], sum(SAMPLE)
    right = SEATS * sum(longest) / total
    if kit.miss(answer, right).share < 0.01:
        return kit.right(
            say(
                "sample.right",
                "Right: the groups take {steps} steps of {seats} rows, the answers need {total} row-steps.",
                steps=sum(longest),
                seats=SEATS,
                total=total,
            )
        )
    slips = {
        len(SAMPLE) * max(SAMPLE) / total: say(
            "sample.global", "That takes the longest of all eight. Each group waits only for its own longest answer."
        ),
        1 / right: say("sample.inverse", "That is the other way round: the share of row-steps that are useful."),
        sum(longest) / total: say(
            "sample.rows", "A step of a group occupies all its rows. Count row-steps on both sides, not steps on one."
        ),
        sum(SEATS * max(group) / sum(group) for group in GROUPS) / len(GROUPS): say(
            "sample.mean_of_ratios",
            "That is the mean of the two groups' ratios. Add up first, then divide: long groups count for more.",
        ),
        right - 1: say("sample.minus_one", "That is the improvement. The bound itself is 1 higher."),
    }
    for slip, why in slips.items():
        if kit.miss(answer, slip).share < 0.01:
            return kit.wrong(why)
    return kit.wrong(
        say("sample.wrong", "Not yet. How many steps does each group take, and how many row-steps are useful in all?")
    )


kit.exercise(
    "sample",
    say(
        "sample.task",
        "Group 1: **{first}** · Group 2: **{second}**. What is $E[\\max]/E[\\text{{length}}]$ of this sample? "
        "Two decimals are enough.",
        first=", ".join(map(str, GROUPS[0])),
        second=", ".join(map(str, GROUPS[1])),
    ),
    kit.Number(0.0, 20.0, 0.01, start=0.0, unit="x"),
    grade_sample,
    hints=(
        say("sample.hint1", "A group lasts as many steps as its longest answer has tokens."),
        say(
            "sample.hint2",
            "Row-steps that static pays for: 4 times the sum of the two maxima. Useful ones: the sum of all eight.",
        ),
    ),
)

# %% code [markdown] kind="exercise"
# ## Exercise 2: the bound of your race
#
# Now for any workload. Static batching forms its groups in the order of arrival, and the last group may be smaller than
# the others; its empty rows are paid for like all others. Your function is run on the lengths of your own race and on
# some that you do not see.

# %%
STARTER = '''def bound(lengths, rows):
    """E[max of a group] / E[length] for groups of `rows` in the order of arrival."""
    ...
'''
SOLUTION = """def bound(lengths, rows):
    longest = [max(lengths[at : at + rows]) for at in range(0, len(lengths), rows)]
    return rows * sum(longest) / sum(lengths)
"""
SHORT_GROUP = [40, 8, 8, 100, 4]  # the last group has one member
HIDDEN = [[(kit.seed(place + 1) // 7**digit) % 150 + 4 for digit in range(13)] for place in range(3)]
CASES = [(lengths, rows), (SHORT_GROUP, 2), ([48] * 16, 8), *((drawn, 4) for drawn in HIDDEN)]


def grade_code(outputs: list, cases: list[tuple]) -> kit.Verdict:
    """Every case, own lengths first; each plausible mistake has a word of its own."""
    for place, (output, (given, seats)) in enumerate(zip(outputs, cases)):
        if not isinstance(output, int | float) or isinstance(output, bool):
            return kit.wrong(
                say("code.type", "`bound` should return a number, and returned {output!r}.", output=output)
            )
        if kit.miss(output, bound(given, seats)).share > 1e-6:
            return kit.wrong(code_slip(output, given, seats, place))
    return kit.right(
        say(
            "code.right",
            "All {n} cases are right, your own race among them: **{bound:.3f}x**.",
            n=len(cases),
            bound=outputs[0],
        )
    )


def code_slip(output: float, given: list[int], seats: int, place: int) -> kit.Say:
    """Why an output may be wrong."""
    groups = [given[at : at + seats] for at in range(0, len(given), seats)]
    padded = sum(len(group) * max(group) for group in groups) / sum(given)
    in_order = sorted(given, reverse=True)
    if kit.miss(output, max(given) * len(given) / sum(given)).share < 1e-6:
        return say("code.global", "You divide by the longest answer of all. Each group waits for its own longest only.")
    if kit.miss(output, padded).share < 1e-6:
        return say("code.last", "The last group is smaller, but all rows of a step are paid for, empty ones too.")
    if kit.miss(output, bound(in_order, seats)).share < 1e-6:
        return say(
            "code.sorted", "You sorted the answers first. Nobody knows a length in advance: keep the order of arrival."
        )
    if kit.miss(output, 1 / bound(given, seats)).share < 1e-6:
        return say("code.inverse", "That is the share of useful row-steps, the inverse of the bound.")
    if kit.miss(output, bound(given, seats) / seats).share < 1e-6:
        return say("code.rows", "A step occupies all its rows: count row-steps, {rows} to a step.", rows=seats)
    name = say("code.own", "your own race") if place == 0 else say("code.hidden", "case {n}", n=place + 1)
    return say(
        "code.wrong",
        "Not right on {name}: {n} lengths in groups of {rows} gave {output:.3f}.",
        name=name,
        n=len(given),
        rows=seats,
        output=output,
    )


kit.exercise(
    "code",
    say("code.task", "Complete `bound(lengths, rows)`."),
    kit.Code("bound", STARTER, CASES),
    grade_code,
    hints=(
        say("code.hint1", "`range(0, len(lengths), rows)` gives the beginnings of the groups."),
        say("code.hint2", "Count the row-steps that are paid for, then divide by those that are useful."),
    ),
    solution=SOLUTION,
)

# %% drain_task [markdown] kind="exercise"
# ## Exercise 3: the frayed end
#
# Look at the right end of the in-flight band once more.

# %%
DRAIN = {
    "queue": kit.right(
        say(
            "drain_why.right",
            "Right. And it happens once per run: under a steady stream of requests the drain disappears, which is why "
            "it belongs to the benchmark more than to the server.",
        )
    ),
    "late": kit.wrong(
        say(
            "drain_why.no_late",
            "Late row-steps are counted apart, and in this race there are none: lengths are known to the step.",
        )
    ),
    "prefill": kit.wrong(say("drain_why.no_prefill", "That costs time, not decode steps. It is the factor prefill.")),
    "memory": kit.wrong(
        say("drain_why.no_memory", "The pool of this race is large enough for all rows; nothing is ever preempted.")
    ),
    "padded": kit.wrong(
        say(
            "drain_why.no_padded",
            "Look at the band: in-flight has no hatched stretch. Its finished rows leave at once.",
        )
    ),
    "slow": kit.wrong(
        say("drain_why.no_slow", "Drain counts steps, not seconds. And a step with fewer rows is faster, if anything.")
    ),
}
kit.exercise(
    "drain_why",
    say("drain_why.task", "Why does in-flight need more steps than $N^*$, even with a perfect scheduler?"),
    kit.Choice(
        {
            "queue": say(
                "drain_why.queue",
                "because the queue is empty before the last long answers are done: rows stay without work",
            ),
            "late": say("drain_why.late", "because it notices finished rows one step too late"),
            "prefill": say("drain_why.prefill", "because prefilling newcomers stops the decoding of the others"),
            "memory": say("drain_why.memory", "because the KV cache is full towards the end"),
            "padded": say("drain_why.padded", "because finished rows go on computing until the run ends"),
            "slow": say("drain_why.slow", "because the last steps are slower than the others"),
        }
    ),
    DRAIN.get,
    hints=(say("drain_why.hint", "N* supposes that all rows are full until the very last step."),),
)

# %% facts_task [markdown] kind="exercise"
# ## Exercise 4: what the estimator does not know
#
# The article's estimator knows the mean length, the longest length, and a constant.

# %%
steps = mixed.results["schedulers"]["in_flight"]["row_steps"]
useful = 100 * steps["useful"] / max(1, sum(steps[kind] for kind in ("useful", "padded", "late", "idle")))


def grade_facts(answer: list[str]) -> kit.Verdict:
    """Groups and drain; every other pick has a word of its own."""
    no = {
        "clock": say("facts.no_clock", "A faster clock shortens both runs: it cancels in the ratio."),
        "vocabulary": say(
            "facts.no_vocabulary", "The vocabulary makes every step a little longer, in both runs alike."
        ),
        "mean": say("facts.no_mean", "The mean is the one thing that the formula does use."),
        "sampling": say("facts.no_sampling", "How a token is chosen does not change how many steps there are."),
    }
    for pick in answer:
        if pick in no:
            return kit.wrong(no[pick])
    return kit.right(
        say(
            "facts.right",
            "Right. It assumes that every group contains the longest answer of all ({longest} tokens here), and it "
            "replaces the occupancy of in-flight by a constant. Your groups' longest answers have {mean:.0f} tokens on "
            "average, and in-flight kept {useful:.0f} % of its row-steps useful.",
            longest=max(lengths),
            mean=found.bound * sum(lengths) / len(lengths),
            useful=useful,
        )
    )


kit.exercise(
    "facts",
    say("facts.task", "Which **two** facts decide the real gain and are missing from its formula?"),
    kit.Choices(
        {
            "groups": say(
                "facts.groups",
                "how long the longest answer of each group is: it depends on the distribution and on the rows",
            ),
            "drain": say("facts.drain", "how many row-steps in-flight itself wastes, at the end or while nobody waits"),
            "clock": say("facts.clock", "the clock rate of the device"),
            "vocabulary": say("facts.vocabulary", "the size of the vocabulary"),
            "mean": say("facts.mean", "the mean length of the answers"),
            "sampling": say("facts.sampling", "whether decoding is greedy"),
        },
        count=2,
    ),
    grade_facts,
    hints=(
        say(
            "facts.hint",
            "Which two of the five factors did you have to look up in the trace, because no mean could tell you?",
        ),
    ),
)

# %% takeaway [markdown] kind="takeaway"
# ## What to keep
#
# Two numbers go into your ledger. L9 asks why a seat stays empty although somebody waits, L11 what the prefills cost the
# others, and L18 sizes a server from what you have measured.

# %%
kit.enter("batching_gain", gain, "x", "in-flight over static, padded; mixed lengths", mixed.origin)
kit.enter("batching_bound", found.bound, "x", "E[max of a group] / E[length] of the same run", mixed.origin)
kit.takeaway(
    say(
        "takeaway.line",
        "In-flight batching pays for **unequal** lengths: at most E[max]/E[length], here {bound:.2f}x. The drain, the "
        "dearer steps and the prefills decide how much of it arrives, here {gain:.2f}x. On equal lengths it is worth "
        "nothing.",
        bound=found.bound,
        gain=gain,
    ),
    carried=("batching_gain", "batching_bound"),
)
