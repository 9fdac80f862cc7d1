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

# %% one_token [markdown]
# ## One token at a time
#
# A language model maps a sequence of tokens to a guess of the next one. To write an answer it is called again and again:
# guess a token, append it, guess the next. Nothing in the model changes meanwhile. Only the sequence grows by one.
#
# That makes two very different kinds of work:
#
# - **prefill**: the prompt. All its tokens are known, so they pass through the model **together**, hundreds of rows at once.
# - **decode**: the answer. A token cannot start before the one in front of it is known, so each passes through the model
#   **alone**.
#
# Look at what a token needs from the others: only in *attention* do tokens meet. There the newest token compares its query
# with the **key** of every earlier token and mixes their **values**. Keys and values of earlier tokens never change again.

# %%
from engine.workload.cache_worth import cache_worth
from engine.workload.sweeps import decode_sweep
from lessons import kit
from lessons.figures.positions import POSITIONS
from lessons.figures.token_strip import TOKEN_STRIP
from lessons.kit import say

kit.begin("L2")

# %% cache_question [markdown] kind="question"
# ## Keep them, or compute them again
#
# Without any memory of earlier steps, each new token means computing the **whole** sequence again, only to read one guess
# off its end. With a *KV cache* the keys and values of every token are kept, and a step computes one token.
#
# The prompt has 256 tokens, the answer 64.

# %%
kit.predict(
    "cache",
    say("cache.question", "**Without the cache, the whole answer takes this many times as long:**"),
    kit.Number(1, 64, 0.5, start=1, unit="x"),
    hints=(
        say("cache.hint1", "Tokens computed with the cache: 256 + 63. Without: 256 + 257 + 258 + ..."),
        say("cache.hint2", "But are 256 tokens together as slow as 256 tokens one after the other?"),
    ),
)
kit.predict(
    "context",
    say(
        "context.question",
        "**With the cache: one decode step at a context of 1,900 tokens over one at 128.** Fifteen times the context makes a "
        "step this many times as long:",
    ),
    kit.Number(1, 15, 0.1, start=15, unit="x"),
    hints=(say("context.hint", "Which part of a step grows with the context, and which part does not?"),),
)

# %% cache_run [markdown] kind="experiment"
# ## Both ways
#
# The same prompt, the same greedy answer. First as the engine does it. Then the whole sequence is sent again for every single
# token, and all that was computed is forgotten.


# %%
SHAPES = ("bundled", "qwen3-0.6b") if kit.on_gpu() else ("bundled",)


def run_both(report: kit.Report, shape: str, prompt: int, tokens: int) -> dict:
    """One answer with the cache and without."""

    def heard(what: str, done: float) -> None:
        report(say("both.busy", "one answer, with the cache and without"), done)

    with kit.alone("timing an answer"):
        return cache_worth(None if shape == "bundled" else shape, prompt, tokens, heard)


MODEL = say("control.shape", "Model")
both = kit.measure(
    "both",
    say("both.title", "One answer, with the KV cache and without"),
    run_both,
    controls=(
        kit.Control("prompt", say("control.prompt", "Prompt tokens"), (64, 256, 1024), default=256, small=64),
        kit.Control("tokens", say("control.tokens", "Answer tokens"), (16, 64, 128), default=64, small=16),
        kit.Control("shape", MODEL, SHAPES, default=SHAPES[-1], small="bundled"),
    ),
)
found, model = both.results, both.results["model"]
prompt, tokens = both.values["prompt"], both.values["tokens"]
kit.show("positions", POSITIONS, found, both.origin)

# %% strip [markdown] kind="figures"
# ## The answer on a clock
#
# The time to the first token (**TTFT**) is the prefill. From there on tokens drip in at the **inter-token latency** (ITL).
# Below, the price: every token leaves its keys and values behind, in every layer, until the answer is done.

# %%
kit.show("strip", TOKEN_STRIP, found | {"prompt": prompt, "kv_bytes": model["kv_bytes"]}, both.origin)

# %% cache_compare [markdown] kind="reconcile"
# ## What the cache saves
#
# Count the tokens that pass through the model: with the cache $P + N - 1$, without it
# $P + (P+1) + \dots + (P+N-1)$. If every token cost the same, the ratio of the two would be the answer.

# %%
counted = sum(prompt + place for place in range(tokens)) / (prompt + tokens - 1)
seen = sum(found["uncached_ms"]) / sum(found["cached_ms"])
kit.reconcile(
    "cache",
    (kit.Row(say("cache.row", "without the cache, over with it"), counted, seen, "x", "cache"),),
    observed=both.origin,
    theory=kit.Origin("Computed", "tokens computed"),
)
decode_ms = sorted(found["cached_ms"][1:])[(tokens - 1) // 2]
prefill_ms = found["cached_ms"][0]
kit.note(
    say(
        "cache.note",
        "Counting tokens says {counted:.0f}x, the clock says **{seen:.1f}x**. Tokens do not all cost the same: {prompt} of them "
        "together took {prefill:.1f} ms, one alone {decode:.2f} ms. A token in a crowd is {cheap:.0f} times as cheap as a token "
        "alone, because the crowd shares the reading of the weights. The rest of this course is about that one fact.",
        counted=counted,
        seen=seen,
        prompt=prompt,
        prefill=prefill_ms,
        decode=decode_ms,
        cheap=decode_ms / (prefill_ms / prompt),
    ),
    "info",
)

# %% context_run [markdown] kind="experiment"
# ## A step, and the context behind it
#
# Now with the cache only: one row decodes behind contexts of different length.


# %%
def run_contexts(report: kit.Report, shape: str, longest: int) -> dict:
    """A decode step of one row at growing contexts."""
    contexts = [length for length in (128, 256, 512, 1024, 1900) if length <= longest]

    def heard(what: str, done: float) -> None:
        report(say("contexts.busy", "decode steps, context after context"), done)

    with kit.alone("timing decode steps"):
        return decode_sweep(None if shape == "bundled" else shape, (1,), contexts, heard)


contexts = kit.measure(
    "contexts",
    say("contexts.title", "One decode step against its context"),
    run_contexts,
    controls=(
        kit.Control("shape", MODEL, SHAPES, default=SHAPES[-1], small="bundled"),
        kit.Control("longest", say("control.longest", "Longest context"), (512, 1900), default=1900, small=512),
    ),
)
steps = contexts.results["entries"]

# %% context_compare [markdown] kind="reconcile"
# ## What grows, and what does not
#
# A step reads the weights, whatever the context. It reads the keys and values of every earlier token. And it starts a few
# hundred kernels. Only the second of these grows.

# %%
near, far = steps[0], steps[-1]
kit.reconcile(
    "context",
    (
        kit.Row(
            say(
                "context.row",
                "a step at {far:,.0f} tokens over one at {near:,.0f}",
                far=far["context"],
                near=near["context"],
            ),
            far["floor_ms"] / near["floor_ms"],
            far["ms_per_step"] / near["ms_per_step"],
            "x",
            "context",
        ),
    ),
    observed=contexts.origin,
    theory=kit.Origin("Computed", "(weights + context x KV) / bandwidth"),
)
kit.guard(
    near["ms_per_step"] < 3 * near["floor_ms"],
    say(
        "context.guard",
        "A step takes {ms:.2f} ms here and its bytes would need only {floor:.2f} ms: starting kernels is most of it, for this model "
        "on this machine. So the theory, which knows bytes only, is too steep or too flat. L3 takes that apart.",
        ms=near["ms_per_step"],
        floor=near["floor_ms"],
    ),
)

# %% bytes_task [markdown] kind="exercise"
# ## Exercise 1: the bytes of a token
#
# The configuration of the model that you have just measured:
#
# - layers, hidden size, query heads, **key-value heads**, size of a head, bytes of a number: they stand in the task.
#
# In *grouped-query attention* several query heads share one key and one value head. What is kept are keys and values.

# %%
RIGHT = 2 * model["layers"] * model["kv_heads"] * model["head_dim"] * model["item_bytes"]


def grade_bytes(answer: float) -> kit.Verdict:
    """2 x layers x KV heads x head size x bytes; the usual mistakes have words of their own."""
    if kit.miss(max(answer, 1), RIGHT).share < 0.005:
        return kit.right(
            say(
                "bytes.right",
                "Right: {right:,} bytes. A context of {prompt} tokens takes {kilobytes:,.0f} KB, for this one request.",
                right=RIGHT,
                prompt=prompt,
                kilobytes=prompt * RIGHT / 1e3,
            )
        )
    slips = {
        2 * model["layers"] * model["query_heads"] * model["head_dim"] * model["item_bytes"]: say(
            "bytes.query", "Queries are not kept. Count the key-value heads."
        ),
        2 * model["layers"] * model["hidden"] * model["item_bytes"]: say(
            "bytes.hidden",
            "That is the formula with the hidden size: right for models without grouped heads, too much here.",
        ),
        RIGHT // 2: say("bytes.half", "Keys **and** values."),
        RIGHT // model["layers"]: say("bytes.layer", "That is one layer. Every layer has keys and values of its own."),
        RIGHT // model["item_bytes"]: say("bytes.numbers", "That many numbers. How many bytes is each?"),
    }
    for wrong, why in slips.items():
        if kit.miss(max(answer, 1), wrong).share < 0.005:
            return kit.wrong(why)
    return kit.wrong(say("bytes.wrong", "Not quite. Two tensors, in each layer, for each key-value head."))


kit.exercise(
    "bytes",
    say(
        "bytes.task",
        "{layers} layers, hidden size {hidden}, {query} query heads, {kv} key-value heads of {dim}, {item} bytes a number. "
        "How many **bytes** does one token leave in the KV cache?",
        layers=model["layers"],
        hidden=model["hidden"],
        query=model["query_heads"],
        kv=model["kv_heads"],
        dim=model["head_dim"],
        item=model["item_bytes"],
    ),
    kit.Number(0, 1_000_000, 1, start=0, unit=" bytes"),
    grade_bytes,
    hints=(say("bytes.hint", "Keys and values; layers; key-value heads; numbers in a head; bytes in a number."),),
)

# %% code_task [markdown] kind="exercise"
# ## Exercise 2: count the tokens
#
# Write the count that the theory above used, for any prompt and any answer.

# %%
STARTER = '''def tokens_computed(prompt, output, cached):
    """Tokens that pass through the model until `output` tokens are written."""
    ...
'''
SOLUTION = """def tokens_computed(prompt, output, cached):
    if cached:
        return prompt + output - 1
    return sum(prompt + done for done in range(output))
"""
CASES = [
    (prompt, tokens, True),
    (prompt, tokens, False),
    (1, 1, True),
    (1, 1, False),
    (kit.seed(1) % 500 + 2, kit.seed(2) % 90 + 3, False),
    (kit.seed(3) % 500 + 2, kit.seed(4) % 90 + 3, True),
]


def right_count(length: int, output: int, cached: bool) -> int:
    """What a case should give."""
    return length + output - 1 if cached else sum(length + done for done in range(output))


def grade_code(outputs: list, cases: list[tuple]) -> kit.Verdict:
    """All cases; each plausible mistake has a word of its own."""
    for output, case in zip(outputs, cases):
        if not isinstance(output, int | float) or isinstance(output, bool):
            return kit.wrong(
                say("code.type", "`tokens_computed` should return a number, and returned {output!r}.", output=output)
            )
        if output != right_count(*case):
            return kit.wrong(code_slip(output, *case))
    return kit.right(
        say(
            "code.right",
            "Right. Your own answer: {few:,} tokens with the cache, {many:,} without.",
            few=outputs[0],
            many=outputs[1],
        )
    )


def code_slip(output: float, length: int, answer: int, cached: bool) -> kit.Say:
    """Why an output may be wrong."""
    if cached and output == length + answer:
        return say("code.last", "Nobody computes anything for the last token: it is the answer, not an input any more.")
    if cached and output == answer:
        return say("code.prompt", "The prompt passes through the model too, once.")
    if not cached and output == length * answer:
        return say("code.growing", "The sequence grows: each token of the answer is computed again in all later steps.")
    if not cached and output == sum(length + done for done in range(answer + 1)):
        return say("code.extra", "One step too many: the prompt alone already gives the first token.")
    if not cached and output == length + answer - 1:
        return say("code.same", "That is the count with a cache. Without one, everything is computed for every token.")
    return say(
        "code.wrong",
        "Not right for a prompt of {length} and an answer of {answer}: you say {output:,.0f}.",
        length=length,
        answer=answer,
        output=output,
    )


kit.exercise(
    "code",
    say("code.task", "Complete `tokens_computed`."),
    kit.Code("tokens_computed", STARTER, CASES),
    grade_code,
    hints=(say("code.hint", "The first token of the answer comes out of the prompt. How many steps follow?"),),
    solution=SOLUTION,
)

# %% takeaway [markdown] kind="takeaway"
# ## What to keep
#
# Three numbers of this model on this machine go into your ledger. L6 multiplies the first by the requests that you want to
# serve, and finds out what happens when it does not fit.

# %%
kit.enter("kv_bytes_per_token", model["kv_bytes"], "B", "keys and values of a token in all layers", both.origin)
kit.enter(
    "prefill_tok_s", prompt / prefill_ms * 1e3, "tok/s", "prompt tokens over the time of their prefill", both.origin
)
kit.enter("decode_step_ms", decode_ms, "ms", "median decode step of one row", both.origin)
kit.takeaway(
    say(
        "takeaway.line",
        "Prefill is a crowd, decode is a queue. The KV cache turns {counted:.0f} times the work into one token a step, at "
        "{kv:,} bytes of memory for every token.",
        counted=counted,
        kv=model["kv_bytes"],
    ),
    carried=("kv_bytes_per_token", "prefill_tok_s", "decode_step_ms"),
)
