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

# %% two [markdown]
# ## Two questions, every step
#
# In-flight batching decides anew at each step. It comes down to two questions:
#
# 1. **Who may hold KV?** Somebody leaves the queue and gets a row and blocks, or nobody does. This is the *capacity*
#    question.
# 2. **Which tokens run now?** Every running request wants a token, every new prompt hundreds. Together they share a *token
#    budget*. This is the *micro-batch* question.
#
# A scheduler that answers "no" has a reason, and the reason is a comparison of two numbers: needed so much, there was so
# much. This engine writes the reason into its trace at the very line where it decides. Other engines decide just the same, and
# keep silent about it.

# %%
from random import Random

from engine.config import SchedulingConfig
from engine.workload.items import Item
from engine.workload.watched import admitted_by_rule, watched
from lessons import kit
from lessons.figures.decisions import DECISIONS
from lessons.figures.queue import QUEUE
from lessons.kit import say

kit.begin("L9")

# %% three [markdown]
# ## Three things can run out
#
# | what | how many are needed | limit |
# | --- | --- | --- |
# | rows | one per request, from its admission to its end | `max_num_seqs` |
# | blocks | the prompt's tokens, divided by the block size and rounded up; one more whenever the answer fills one | the pool |
# | tokens of a step | one per decoding row, as many as there is room for per prompt | `token_budget` |
#
# The queue is served strictly from its head. Whoever stands behind a request that does not fit waits too, even if he would
# fit himself. That looks wasteful, and there is a reason for it, to which we come back.
#
# Two details keep a scheduler out of trouble. A **watermark** of blocks stays free for the growth of those who already run.
# And after a *preemption* nobody is admitted in the same step, or the blocks just won would be gone at once.

# %% run [markdown] kind="experiment"
# ## A real run to read
#
# Fourteen requests of unequal length arrive together. Choose what shall be scarce. The real engine takes real steps with the
# bundled model; what you will look at is what it wrote down.

# %%
SCARCE = {
    "rows": {"max_num_seqs": 4, "token_budget": 64, "pool_blocks": 48},
    "tokens": {"max_num_seqs": 8, "token_budget": 24, "pool_blocks": 64},
    "blocks": {"max_num_seqs": 8, "token_budget": 64, "pool_blocks": 20},
}


def run_watched(report: kit.Report, scarce: str, requests: int) -> dict:
    """Fourteen requests, one step after the other."""
    draw = Random(kit.seed())
    lengths = [(draw.choice((12, 24, 48, 90)), draw.choice((8, 20, 40))) for _ in range(requests)]
    items = [Item([draw.randrange(4000) for _ in range(prompt)], answer, answer) for prompt, answer in lengths]

    def heard(what: str, done: float) -> None:
        report(say("run.busy", "the engine takes its steps"), done)

    limits = SchedulingConfig(max_model_len=256, watermark=0.01, prefix_cache=False, **SCARCE[scarce])
    with kit.alone("a run to read"):
        return watched(items, limits, heard)


run = kit.measure(
    "run",
    say("run.title", "Fourteen requests, one step after the other"),
    run_watched,
    controls=(
        kit.Control(
            "scarce",
            say("control.scarce", "Scarce"),
            ("blocks", "rows", "tokens"),
            default="blocks",
            names={
                "blocks": say("scarce.blocks", "blocks"),
                "rows": say("scarce.rows", "rows"),
                "tokens": say("scarce.tokens", "tokens of a step"),
            },
        ),
        kit.Control("requests", say("control.requests", "Requests"), (10, 14, 20), default=14, small=10, aside=True),
    ),
)
steps = run.results["steps"]
size, watermark = run.results["block_size"], run.results["watermark"]


def facing(step: dict) -> dict:
    """A step with what the picture of its queue needs."""
    return step | {"block_size": size, "watermark": watermark}


HEAD_REASONS = ("token_budget", "max_num_seqs", "no_free_blocks", "watermark")
candidates = [
    step for step in steps[1:] if step["admitted"] and len(step["waiting"]) >= 3 and step["reason"] in HEAD_REASONS
]
chosen = candidates[len(candidates) // 3] if candidates else steps[0]

# %% state_question [markdown] kind="question"
# ## One step, from the inside
#
# This is what the scheduler saw before one of those steps. The hatched bar is the head of the queue. Above the bars stands
# what is free, after the running requests have taken what they need for this step.
#
# Take the requests from the head, one after the other. For each: is a row free? Is a token left? Do its blocks fit, above the
# watermark? The first "no" ends the round.

# %%
kit.show("before", QUEUE, facing(chosen), run.origin)
kit.predict(
    "who",
    say("who.question", "**Who is admitted in this step?**"),
    kit.Choice(
        {
            "0": say("who.none", "nobody"),
            "1": say("who.one", "the head only"),
            "2": say("who.two", "the first two"),
            "3": say("who.more", "the first three, or more"),
        }
    ),
    hints=(say("who.hint", "After each admission subtract: a row, its blocks, its tokens."),),
)
kit.predict(
    "why",
    say("why.question", "**And what stops the next one?**"),
    kit.Choice(
        {
            "max_num_seqs": say("why.rows", "no row is free"),
            "token_budget": say("why.tokens", "no token is left in the budget"),
            "no_free_blocks": say("why.blocks", "its blocks do not fit"),
            "watermark": say("why.watermark", "its blocks would fit, but not above the watermark"),
        }
    ),
)

# %% state_answer [markdown] kind="reconcile"
# ## What it did
#
# The engine's own record of this step.

# %%
kit.reveal("who", str(min(3, len(chosen["admitted"]))))
kit.reveal("why", chosen["reason"])
alike = sum(admitted_by_rule(step, size, watermark) == step["admitted"] for step in steps)
kit.reconcile(
    "rule",
    (
        kit.Row(
            say("rule.step", "requests admitted in this step"),
            len(admitted_by_rule(chosen, size, watermark)),
            len(chosen["admitted"]),
            "",
        ),
        kit.Row(say("rule.run", "steps of the run that the rule decides as the engine did"), len(steps), alike, ""),
    ),
    observed=run.origin,
    theory=kit.Origin("Computed", "first come, first served; rows, tokens, blocks above the watermark"),
)
WHY = {
    "max_num_seqs": say(
        "answer.rows", "a row: {need} would be needed, there are {have}", need=chosen["need"], have=chosen["have"]
    ),
    "token_budget": say(
        "answer.tokens", "tokens: {need} needed, {have} left of the budget", need=chosen["need"], have=chosen["have"]
    ),
    "no_free_blocks": say(
        "answer.blocks", "blocks: {need} needed, {have} available", need=chosen["need"], have=chosen["have"]
    ),
    "watermark": say(
        "answer.watermark",
        "the watermark: {need} blocks needed with it, {have} available",
        need=chosen["need"],
        have=chosen["have"],
    ),
}
if chosen["reason"] in WHY:
    kit.note(
        say(
            "answer.note",
            "Step {step}: admitted **{names}**. R{head} stays at the head for lack of {why}.",
            step=chosen["step"],
            names=", ".join(f"R{request}" for request in chosen["admitted"]) or say("answer.nobody", "nobody"),
            head=chosen["head"],
            why=WHY[chosen["reason"]],
        ),
        "info",
    )
else:
    kit.note(
        say(
            "answer.plenty",
            "In this run nothing ran out while three requests waited, so there is nothing to explain. Choose another scarcity "
            "and run again.",
        ),
        "careful",
    )

# %% whole [markdown] kind="figures"
# ## The whole run
#
# Above, the tokens of each step: one for each decoding row, and chunks of prompts up to the budget. A prompt that does not fit
# into what is left is **chunked**: a part of it runs now, the rest in the next step. Below, for each step, what stopped the
# request at the head.
#
# Watch how the reasons change over the run. First the budget, while prompts queue up. Then whatever is scarce. At the end
# nobody waits, and the last answers finish among themselves.

# %%
kit.show("whole", DECISIONS, run.results, run.origin)
stopped = [step["reason"] for step in steps if step["reason"] in HEAD_REASONS]
most = max(HEAD_REASONS, key=stopped.count)
scarce_is = {"rows": "max_num_seqs", "tokens": "token_budget", "blocks": "no_free_blocks"}[run.values["scarce"]]
kit.guard(
    most == scarce_is or not stopped,
    say(
        "whole.guard",
        "What you made scarce is not what stopped most steps here: with these lengths something else ran out first. A limit that "
        "is never reached costs nothing and explains nothing. Look at the reasons, not at the settings.",
    ),
)

# %% tokens_question [markdown] kind="question"
# ## The budget
#
# The token budget of this run is a number of tokens per step. Suppose it were halved.

# %%
kit.predict(
    "half",
    say(
        "half.question",
        "**Half the token budget: what happens to those who already decode, when a long prompt arrives?**",
    ),
    kit.Choice(
        {
            "better": say("half.better", "their steps get shorter: each carries less of the prompt"),
            "worse": say("half.worse", "their steps get longer"),
            "same": say("half.same", "nothing: decodes go first anyway"),
        }
    ),
    hints=(say("half.hint", "Decodes do go first. But a step is over when all of its tokens are done."),),
)

# %% half_run [markdown] kind="experiment"
# ## Both budgets
#
# The same requests, once with the budget of the run above and once with half of it.


# %%
def run_budgets(report: kit.Report, budget: int) -> dict:
    """The longest step, and the steps until the last prompt is done, with a budget and with half of it."""
    found = {}
    for place, tokens in enumerate((budget, budget // 2)):
        draw = Random(kit.seed(1))
        items = [Item([draw.randrange(4000) for _ in range(16)], 60, 60) for _ in range(4)]
        items.append(Item([draw.randrange(4000) for _ in range(190)], 4, 4))

        def heard(what: str, done: float, place: int = place) -> None:
            report(say("half.busy", "two budgets, one after the other"), (place + done) / 2)

        limits = SchedulingConfig(
            max_num_seqs=8, token_budget=tokens, pool_blocks=64, max_model_len=256, prefix_cache=False
        )
        with kit.alone("two token budgets"):
            result = watched(items, limits, heard)
        busy = [step for step in result["steps"] if step["decodes"] >= 1 and step["chunk_tokens"]]
        found |= {"device": result["device"]}
        found[str(place)] = {
            "budget": tokens,
            "largest": max(step["decodes"] + sum(step["chunk_tokens"]) for step in busy),
            "steps": len(busy),
        }
    return found


half = kit.measure(
    "half",
    say("half.title", "The same prompts under two budgets"),
    run_budgets,
    controls=(kit.Control("budget", say("control.budget", "Budget"), (64, 128), default=128, small=64),),
)
kit.reveal("half", "better")
full, halved = half.results["0"], half.results["1"]
kit.note(
    say(
        "half.note",
        "Budget {first}: the largest step that also decodes has {large} tokens, and {few} steps carry the prompts. Budget {second}: "
        "{small} tokens, {many} steps. Those who decode wait for smaller steps; whoever brings the prompt waits for more of them. "
        "L11 prices this trade.",
        first=full["budget"],
        large=full["largest"],
        few=full["steps"],
        second=halved["budget"],
        small=halved["largest"],
        many=halved["steps"],
    ),
    "info",
)

# %% code_task [markdown] kind="exercise"
# ## Exercise 1: be the scheduler
#
# Write the capacity question. Your function is given the queue as pairs (request, tokens to compute), what is free, and the
# watermark that applies once anything runs. It returns the requests that enter, in order. It is tried on ten steps of **your
# own run**, and must decide each as the engine did; then on steps that you do not see.
#
# A prompt may be chunked: one token of the budget is enough to enter, but its blocks must all fit.

# %%
STARTER = '''def admit(waiting, rows, blocks, tokens, block_size, watermark, anything_runs):
    """The requests that enter in this step, in order."""
    entered = []
    for request, length in waiting:
        ...
    return entered
'''
SOLUTION = """def admit(waiting, rows, blocks, tokens, block_size, watermark, anything_runs):
    entered = []
    for request, length in waiting:
        need = -(-length // block_size)
        margin = watermark if anything_runs else 0
        if rows < 1 or tokens < 1 or need + margin > blocks:
            break
        entered.append(request)
        rows, blocks, tokens, anything_runs = rows - 1, blocks - need, tokens - length, True
    return entered
"""


def case_of(step: dict, block_size: int, margin: int) -> tuple:
    """The arguments of ``admit`` for a step."""
    tokens = step["budget"] - step["decodes"] - sum(step["prefilling"])
    free = step["rows_free"], step["blocks"], tokens
    return step["waiting"], *free, block_size, margin, step["anything_runs"]


def hidden_step(salt: int) -> dict:
    """A step that the learner does not see."""
    draw = Random(kit.seed(salt))
    return {
        "waiting": [[n, draw.randint(1, 120)] for n in range(draw.randint(1, 7))],
        "rows_free": draw.randint(0, 5),
        "blocks": draw.randint(0, 24),
        "budget": draw.randint(1, 160),
        "decodes": 0,
        "prefilling": [],
        "anything_runs": draw.random() < 0.7,
        "preempted": 0,
    }


own = [step for step in steps if step["waiting"] and not step["preempted"]]
own = own[:: max(1, len(own) // 10)][:10]
drawn = [hidden_step(salt) for salt in range(20, 50)]
CASES = [case_of(step, size, watermark) for step in own] + [case_of(step, 16, 2) for step in drawn]
EXPECTED = [step["admitted"] for step in own] + [admitted_by_rule(step, 16, 2) for step in drawn]


def decide(case: tuple, skip: str = "") -> list[int]:
    """The engine's decision; with ``skip``, that of somebody who gets one thing wrong."""
    waiting, rows, blocks, tokens, block_size, margin, runs = case
    entered: list[int] = []
    for request, length in waiting:
        need = length // block_size if skip == "round" else -(-length // block_size)
        kept = 0 if skip == "watermark" else margin if runs or skip == "idle" else 0
        stops = (
            (skip != "rows" and rows < 1)
            or (skip != "tokens" and tokens < (length if skip == "chunk" else 1))
            or (skip != "blocks" and need + kept > blocks)
        )
        if stops and skip == "passed":
            continue
        if stops:
            break
        entered.append(request)
        rows, blocks, tokens, runs = rows - 1, blocks - need, tokens - length, True
    return entered


SLIPS = {
    "passed": say(
        "code.passed",
        "You let somebody pass the head of the queue. Whoever stands first and does not fit stops all others.",
    ),
    "rows": say("code.rows", "More requests entered than there were free rows."),
    "round": say("code.round", "Blocks are whole: 17 tokens need two blocks of 16."),
    "blocks": say("code.blocks", "The blocks of those who entered do not fit into what was free."),
    "tokens": say("code.tokens", "Somebody entered although the prompts before him had used up the budget."),
    "watermark": say("code.watermark", "The watermark was touched: once anything runs, that many blocks stay free."),
    "chunk": say(
        "code.chunk",
        "You kept somebody out because his whole prompt does not fit the budget. One token is enough to begin.",
    ),
    "idle": say(
        "code.idle",
        "Where nothing runs there is no growth to keep blocks for: the watermark does not apply to the first.",
    ),
}


def grade_code(outputs: list, cases: list[tuple]) -> kit.Verdict:
    """Every step as the engine decided it; each plausible mistake, made throughout, has a word of its own."""
    odd = next((output for output in outputs if not isinstance(output, list | tuple)), None)
    if odd is not None or None in outputs:
        return kit.wrong(
            say("code.type", "`admit` should return a list of requests, and returned {output!r}.", output=odd)
        )
    given = [list(output) for output in outputs]
    if given == EXPECTED:
        return kit.right(
            say(
                "code.right",
                "All {own} steps of your run decided as the engine did, and {more} others.",
                own=len(own),
                more=len(drawn),
            )
        )
    for slip, why in SLIPS.items():
        if given == [decide(case, slip) for case in cases]:
            return kit.wrong(why)
    place = next(place for place, output in enumerate(given) if output != EXPECTED[place])
    return kit.wrong(
        say(
            "code.wrong",
            "In one step you admit {output}, and the engine admitted {expected}.",
            output=given[place],
            expected=EXPECTED[place],
        )
    )


kit.exercise(
    "code",
    say("code.task", "Complete `admit`."),
    kit.Code("admit", STARTER, CASES),
    grade_code,
    hints=(
        say("code.hint1", "`break` at the first request that does not fit: nobody passes the head."),
        say(
            "code.hint2",
            "After each admission: one row less, its blocks less, its tokens less, and now something runs.",
        ),
    ),
    solution=SOLUTION,
)

# %% order_task [markdown] kind="exercise"
# ## Exercise 2: why nobody overtakes
#
# The head needs 6 blocks, 4 are free. Behind it somebody needs 2.

# %%
ORDER = {
    "starve": kit.right(
        say(
            "order.right",
            "Right. Blocks come back a few at a time. If small requests always took them, the large one might never see six at once. "
            "Serving the head first is what makes *every* request end; it is a promise, paid with a few idle blocks.",
        )
    ),
    "cannot": kit.wrong(say("order.no_cannot", "It could: the scheduler knows the whole queue.")),
    "hash": kit.wrong(say("order.no_hash", "The prefix cache does not care about the order of admission.")),
    "graph": kit.wrong(say("order.no_graph", "CUDA graphs are keyed by the number of tokens, whoever they belong to.")),
    "fair": kit.wrong(
        say("order.no_fair", "Politeness is not the point: think of what happens to the head over many steps.")
    ),
    "memory": kit.wrong(say("order.no_memory", "Two blocks are free, and remain free: no memory would be short.")),
}
kit.exercise(
    "order",
    say("order.task", "Why does this engine not admit the one behind?"),
    kit.Choice(
        {
            "cannot": say("order.cannot", "it can only look at the head"),
            "starve": say("order.starve", "a large request could wait for ever while small ones keep passing it"),
            "hash": say("order.hash", "the prefix cache would break"),
            "graph": say("order.graph", "the CUDA graph would no longer fit"),
            "fair": say("order.fair", "it would be impolite"),
            "memory": say("order.memory", "memory would run out"),
        }
    ),
    ORDER.get,
    hints=(say("order.hint", "Let two small requests arrive in every step, and follow the large one."),),
)

# %% takeaway [markdown] kind="takeaway"
# ## What to keep
#
# In the Theatre every waiting request tells you its reason, at every step, of any run. L10 asks what happens when those who
# already run need more than there is.

# %%
kit.takeaway(
    say(
        "takeaway.line",
        "Who, and how many tokens: two questions per step, and every no is a pair of numbers. In your run the head of the queue "
        "was stopped in {stopped} of {steps} steps.",
        stopped=len(stopped),
        steps=len(steps),
    )
)
