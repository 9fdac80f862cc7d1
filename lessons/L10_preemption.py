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
# %% promises [markdown]
# ## What is promised at the door
#
# A request comes in with a known prompt and an answer of unknown length. Its KV grows by one token a step, and the pool of
# blocks does not grow at all. So whoever lets it in has to decide what to promise. Two *capacity policies*, with the names
# that TensorRT-LLM gave them:
#
# | policy | lets a request in when there is room for | later |
# | --- | --- | --- |
# | **GUARANTEED_NO_EVICT** | its prompt and the longest answer that it **declares** (`max_tokens`) | nobody ever loses a block |
# | **MAX_UTILIZATION** | its prompt, and one block to spare | when a running request finds no block, somebody is *preempted* |
#
# A *preempted* request loses all its blocks and goes to the front of the queue. What it has written is kept, because token
# ids are small. Its keys and values are gone: when it comes back, prompt and answer so far are **computed again**.
#
# Whether this matters is a question of *pressure*: the blocks that eight full rows would hold at the end of their answers,
# divided by the blocks there are. Below 1 both policies do the same. Above it, one of them wastes memory and the other
# wastes work.

# %%
import itertools

from engine.workload.pressure import POLICIES, close_look, compare_policies
from engine.workload.toy_preemption import careful, play, published
from lessons import kit
from lessons.figures.itl_gap import ITL_GAP
from lessons.figures.preempt_line import PREEMPT_LINE
from lessons.figures.pressure_curve import PRESSURE
from lessons.kit import say

kit.begin("L10")

# %% faster_question [markdown] kind="question"
# ## Half as much again
#
# Chats with prompts of 16 to 96 tokens, answers of 64 tokens on average and up to 200, eight rows. All requests wait at
# $t = 0$, and each declares exactly the length that its answer will have: the best case for guarantees. The pool is
# too small by a half: **pressure 1.5**.

# %%
kit.predict(
    "gain",
    say(
        "gain.question", "**Tokens per second of MAX_UTILIZATION over those of GUARANTEED_NO_EVICT, at pressure 1.5:**"
    ),
    kit.Number(0.3, 3.0, 0.05, start=0.3, unit="x"),
    hints=(
        say("gain.hint1", "Which of the two lets more requests run in the same step?"),
        say("gain.hint2", "And what does it pay for that? A preempted request is prefilled again."),
    ),
)
kit.predict(
    "twice",
    say(
        "twice.question",
        "**Tokens that MAX_UTILIZATION computes a second time,** in percent of all prompt and answer tokens:",
    ),
    kit.Number(0, 100, 1, start=0, unit=" %"),
)

# %% policies_run [markdown] kind="experiment"
# ## Both policies, four pressures
#
# The same requests each time, greedy and with forced lengths, on pools of different size. Only the number of blocks and
# the policy differ. The engine's tokens are compared afterwards, all runs with each other.

# %%
PRESSURES = (0.7, 1.0, 1.5, 2.0)
FEW = (0.7, 1.5)
VICTIMS = {
    "lifo": say("victim.lifo", "the newest (LIFO)"),
    "lowest-priority": say("victim.priority", "the least important"),
    "cheapest": say("victim.cheapest", "the cheapest to compute again"),
}
VICTIM, REQUESTS = say("control.victim", "Who is preempted"), say("control.requests", "Requests")


def run_policies(
    report: kit.Report, kind: str, declared: float, victim: str, requests: int, repeats: int, pressures: int
) -> dict:
    """Both policies over the pressures."""

    def heard(what: str, done: float) -> None:
        report(say("policies.busy", "the same requests, pressure after pressure"), done)

    chosen = PRESSURES if pressures == len(PRESSURES) else FEW
    with kit.alone("comparing policies"):
        return compare_policies(kind, requests, declared, victim, chosen, repeats, kit.seed(), heard)


policies = kit.measure(
    "policies",
    say("policies.title", "Two capacity policies under pressure"),
    run_policies,
    controls=(
        kit.Control(
            "kind",
            say("control.kind", "Requests are"),
            ("chats", "documents"),
            default="chats",
            names={
                "chats": say("kind.chats", "chats: short prompts, long answers"),
                "documents": say("kind.documents", "documents: long prompts, short answers"),
            },
        ),
        kit.Control(
            "declared",
            say("control.declared", "Declared length"),
            (1.0, 2.0),
            default=1.0,
            names={
                1.0: say("declared.exact", "exactly the answer's"),
                2.0: say("declared.double", "twice the answer's"),
            },
        ),
        kit.Control("victim", VICTIM, tuple(VICTIMS), default="lifo", names=VICTIMS),
        kit.Control("requests", REQUESTS, (16, 24, 48), default=48 if kit.on_gpu() else 24, small=16, aside=True),
        kit.Control(
            "repeats",
            say("control.repeats", "Runs of each"),
            (1, 2, 3),
            default=2 if kit.on_gpu() else 1,
            small=1,
            aside=True,
        ),
        kit.Control("pressures", say("control.pressures", "Pressures"), (2, 4), default=4, small=2, aside=True),
    ),
)
entries = {(entry["pressure"], entry["policy"]): entry for entry in policies.results["entries"]}
MOST, SAFE = POLICIES
most, safe = entries[1.5, MOST], entries[1.5, SAFE]
pressed = kit.guard(
    most["preemptions"] > 0,
    say(
        "policies.guard",
        "At pressure 1.5 nobody was preempted here: the growth of these requests found room. What follows is the null result "
        "for MAX_UTILIZATION's price; with longer answers or more requests it appears.",
    ),
)

# %% pressure [markdown] kind="figures"
# ## Throughput against pressure
#
# At 0.7 the two lines meet: where everything fits, there is nothing to decide. To the right both fall, for different
# reasons. Guarantees leave rows empty, because blocks are set aside for tokens that come much later. MAX_UTILIZATION
# fills its rows and then computes some tokens twice; that is the lower plot. The slim diamonds were not measured: they come
# from the scheduler alone, on a virtual clock, with the cost of a step as fitted at the lowest pressure.

# %%
kit.show("pressure", PRESSURE, policies.results, policies.origin)

# %% pressure_compare [markdown] kind="reconcile"
# ## Memory or work
#
# A guarantee costs **steps**: with fewer rows filled, the same tokens need more of them. A preemption costs **prefill
# tokens**. Which is dearer is for the device to say: a step of a small model costs about the same with four rows as with
# eight, so empty rows are expensive; a long prompt that is computed twice is expensive as well.

# %%
gain = most["tok_s"] / safe["tok_s"]
modelled = most["predicted_tok_s"] / safe["predicted_tok_s"]
twice = 100 * most["recomputed"] / most["useful"]
calm = entries[0.7, MOST]["tok_s"] / entries[0.7, SAFE]["tok_s"]
kit.reconcile(
    "gain",
    (
        kit.Row(say("gain.row", "MAX_UTILIZATION over GUARANTEED_NO_EVICT at 1.5"), modelled, gain, "x", "gain", 0.15),
        kit.Row(say("gain.calm", "the same at 0.7, where all fits"), 1.0, calm, "x", "", 0.1),
        kit.Row(
            say("gain.steps", "steps of the guarantee over the other's, at 1.5"), None, safe["steps"] / most["steps"]
        ),
    ),
    observed=policies.origin,
    theory=kit.Origin("Computed", "the scheduler on a virtual clock"),
)
kit.reconcile(
    "twice",
    (kit.Row(say("twice.row", "computed twice at 1.5"), None, twice, " %", "twice"),),
    observed=policies.origin,
    theory=kit.Origin("Computed"),
)
FACTS = {"gain": gain, "steps": safe["steps"], "fewer": most["steps"], "twice": twice, "n": most["preemptions"]}
if kit.miss(gain, modelled).share > 0.25 or kit.miss(calm, 1.0).share > 0.15:
    kit.note(
        say(
            "gain.disturbed",
            "At pressure 0.7, where both policies take the same steps, the clock says {calm:.2f}x in place of 1; at 1.5 it says "
            "{gain:.2f}x and the model {modelled:.2f}x. Something else used this machine. The steps are certain: {steps} against "
            "{fewer}. Run it again before you believe the seconds.",
            calm=calm,
            modelled=modelled,
            **FACTS,
        ),
        "careful",
    )
elif gain > 1.05:
    kit.note(
        say(
            "gain.pays",
            "Here recomputing pays: {n} preemptions and {twice:.0f} % of the tokens computed twice buy {fewer} steps in place "
            "of {steps}, and **{gain:.2f}x** the throughput. Choose *documents*, whose growth is small and whose prompts are "
            "dear to compute again, and see how much of that is left.",
            **FACTS,
        ),
        "info",
    )
elif gain >= 0.95:
    kit.note(
        say(
            "gain.even",
            "No difference worth a name: **{gain:.2f}x**. The steps that it saves ({fewer} against {steps}) and the {twice:.0f} % "
            "of the tokens that it computes twice balance each other on this machine. Declare twice the length, which makes "
            "promises dearer, and look again.",
            **FACTS,
        ),
        "info",
    )
else:
    kit.note(
        say(
            "gain.loses",
            "MAX_UTILIZATION is **slower** here, {gain:.2f}x: {n} preemptions and {twice:.0f} % of the tokens computed twice "
            "cost more than the steps that it saves ({fewer} against {steps}). It maximises occupancy, not throughput.",
            **FACTS,
        ),
        "info",
    )

# %% look_question [markdown] kind="question"
# ## From the victim's seat
#
# Averages hide who pays. Now one run at pressure 1.5 under MAX_UTILIZATION, with requests that come one after the other;
# every third of them is less important. Follow the one whose answer was interrupted the longest. Then the same run is done
# again with a tenth more blocks.

# %%
kit.predict(
    "same",
    say("same.question", "**Does a preemption change the answer,** decoding greedily?"),
    kit.Choice(
        {
            "no": say("same.no", "no: the same tokens are computed again, and it goes on from there"),
            "yes": say("same.yes", "yes: what it had written is lost, and the second try may differ"),
        }
    ),
)
kit.predict(
    "gap",
    say("gap.question", "**The victim's longest wait between two tokens,** in multiples of its usual one:"),
    kit.Number(1, 300, 1, start=1, unit="x"),
    hints=(say("gap.hint", "Recomputing takes about a step. But when does it get its blocks back?"),),
)
kit.predict(
    "remain",
    say("remain.question", "**A tenth more blocks:** how many percent of the preemptions remain?"),
    kit.Number(0, 100, 5, start=100, unit=" %"),
)

# %% look_run [markdown] kind="experiment"
# ## The close look
#
# Three runs with the same requests: the one that you choose, its counterfactual with a tenth more blocks, and one with room for
# all, against which the tokens are compared.


# %%
def look_closely(report: kit.Report, pressure: float, policy: str, victim: str, requests: int) -> dict:
    """One run under pressure, with more blocks, and with room."""

    def heard(what: str, done: float) -> None:
        report(say("look.busy", "one run, the same with more blocks, the same with room"), done)

    with kit.alone("looking at preemptions"):
        return close_look(requests, pressure, policy, victim, kit.seed(), heard)


look = kit.measure(
    "look",
    say("look.title", "One run under pressure, and two others beside it"),
    look_closely,
    controls=(
        kit.Control("pressure", say("control.pressure", "Pressure"), PRESSURES, default=1.5),
        kit.Control(
            "policy",
            say("control.policy", "Policy"),
            POLICIES,
            default=MOST,
            names={MOST: say("policy.most", "MAX_UTILIZATION"), SAFE: say("policy.safe", "GUARANTEED_NO_EVICT")},
        ),
        kit.Control("victim", VICTIM, tuple(VICTIMS), default="lifo", names=VICTIMS),
        kit.Control("requests", REQUESTS, (12, 24), default=24, small=12, aside=True),
    ),
)
runs = look.results["runs"]
chosen, more, roomy = runs["chosen"], runs["more"], runs["roomy"]
somebody = kit.guard(
    chosen["preemptions"] > 0,
    say(
        "look.guard",
        "Nobody lost a block in this run: with guarantees nobody ever does, and without pressure nobody has to. So the wait "
        "below is not a preemption's. Choose MAX_UTILIZATION and a pressure of 1.5 to see one.",
    ),
)

# %% timeline [markdown] kind="figures"
# ## Who ran, and who had to go
#
# A line is a request, a cross the moment it lost its blocks, a triangle its return. The area below is the pool. With *the
# newest* as the victim the crosses hit those who came **last**, and whoever came first gets through. That is no cruelty.
# If the oldest were taken, everybody would become the oldest one day and lose the most work of all.

# %%
kit.show("timeline", PREEMPT_LINE, chosen, look.origin)

# %% gap [markdown] kind="reconcile"
# ## What it cost the victim
#
# Each dot is the wait for one token. A preemption is one dot, far above the others: the request waits until somebody *ends*
# and sets blocks free, and only then is it computed again. To the operator it is a few percent of throughput, to
# this one reader an answer that stands still in the middle of a sentence.


# %%
def away(request: dict) -> int:
    """Steps from the last one with a row to the first one back, the longest time."""
    spans = request["spans"]
    return max((after[0] - before[1] for before, after in itertools.pairwise(spans)), default=1)


hurt = [each for each in chosen["requests"] if each["lost"] and len(each["gaps_ms"]) > 1] or [
    each for each in chosen["requests"] if len(each["gaps_ms"]) > 1
]
victim = max(hurt, key=lambda each: max(each["gaps_ms"]))
beside = next(each for each in roomy["requests"] if each["id"] == victim["id"])
usual = sorted(victim["gaps_ms"])[len(victim["gaps_ms"]) // 2]
kit.show(
    "gap", ITL_GAP, {"name": victim["label"], "pressed": victim["gaps_ms"], "roomy": beside["gaps_ms"]}, look.origin
)
kit.reveal("same", "no" if look.results["identical"] else "yes")
remain = 100 * more["preemptions"] / chosen["preemptions"] if somebody else 0.0
kit.reconcile(
    "victim",
    (
        kit.Row(
            say("gap.row", "longest wait of {name} over its usual one", name=victim["label"]),
            away(victim),
            max(victim["gaps_ms"]) / usual,
            "x",
            "gap",
            0.3,
        ),
        kit.Row(say("remain.row", "preemptions that remain with a tenth more blocks"), None, remain, " %", "remain"),
    ),
    observed=look.origin,
    theory=kit.Origin("Computed", "steps without a row"),
)
if look.results["identical"]:
    kit.note(
        say(
            "same.identical",
            "The tokens of all requests are **the same** as with room for all, {n} preemptions or not. The written tokens were "
            "kept, and the same numbers were computed again behind them.",
            n=chosen["preemptions"],
        ),
        "good",
    )
else:
    kit.note(
        say(
            "same.differ",
            "The tokens differ from request {request} on, token {position}. Not because anything was lost: a recompute runs other "
            "batch shapes, and in a short number format the last bits of a sum depend on its order. Where two words are nearly "
            "equally likely, such a bit decides. In fp32 on a CPU the same runs agree.",
            request=look.results["divergence"]["request"],
            position=look.results["divergence"]["position"],
        ),
        "careful",
    )
speed = kit.recall("prefill_tok_s")
if somebody and speed:
    kit.note(
        say(
            "gap.price",
            "From your ledger: {lost} tokens to compute again, at {speed:,.0f} tokens/s of prefill (L2, {device}), are "
            "**{price:,.1f} ms**. The longest wait was {waited:,.0f} ms. The rest of it is no work at all: it is waiting for "
            "blocks.",
            lost=victim["lost"],
            speed=speed.value,
            device=speed.device,
            price=victim["lost"] / speed.value * 1e3,
            waited=max(victim["gaps_ms"]),
        )
    )
if somebody:
    kit.note(
        say(
            "remain.note",
            "A tenth more blocks, {more} in place of {pool}: preemptions go from {n} to {left}, tokens computed twice from "
            "{tokens} to {again}. They do not follow memory in proportion: they stop where the pool meets the peak.",
            more=more["pool"],
            pool=chosen["pool"],
            left=more["preemptions"],
            n=chosen["preemptions"],
            again=more["recomputed"],
            tokens=chosen["recomputed"],
        )
    )

# %% sketch [markdown] kind="figures"
# ## A sketch that never ends
#
# A published article sketches preemption in a few lines. This is what they do, in our words; `make_room` is called for the
# request at the head of the queue, and `need` is the number of its blocks.
#
#     1  def make_room(new, need):
#     2      while free_blocks() < need:
#     3          if not running:
#     4              raise OutOfMemory
#     5          victim = running.pop_back()
#     6          release_all_blocks(victim)
#     7          waiting.push_front(victim)
#     8      running.push_front(new)
#
# It is called *last in, first out*. Below it runs on a toy pool of five blocks: A and B need three blocks to begin and five in the
# end, C two and four, and each gets one block more at every step. Follow A and B.

# %%
TOYS, TOY_POOL, TOY_STEPS = [(3, 5), (3, 5), (2, 4)], 5, 16
toy = play(published, TOY_POOL, TOYS, TOY_STEPS)
kit.show("sketch", PREEMPT_LINE, toy, kit.Origin("Simulated", "5 blocks, 3 requests"))
kit.note(
    say(
        "sketch.note",
        "{steps} steps, {n} preemptions, **{done} requests ended**. Everybody is busy all the time and nobody gets anywhere: a "
        "*live-lock*.",
        steps=len(toy["used"]),
        n=toy["preemptions"],
        done=toy["done"],
    ),
    "careful",
)

# %% defects_task [markdown] kind="exercise"
# ## Exercise 1: three defects
#
# Three things in the sketch are wrong. Four others look odd and are right.


# %%
def grade_defects(answer: list[str]) -> kit.Verdict:
    """The three; every other pick has a word of its own."""
    no = {
        "loop": say("defects.no_loop", "One victim may hold too few blocks. Taking several is right."),
        "all": say(
            "defects.no_all", "Half a KV cache cannot be decoded from. Giving back all blocks is the engine's way too."
        ),
        "front": say(
            "defects.no_front",
            "A victim has waited before, and should be the first to come back. Its place is the front.",
        ),
        "empty": say("defects.no_empty", "Asking whether anybody runs is right. What it does then is another line."),
    }
    for pick in answer:
        if pick in no:
            return kit.wrong(no[pick])
    return kit.right(
        say(
            "defects.right",
            "Right. Who enters at the front and leaves from the back is the **oldest**: that is first in, first out. Running work "
            "is thrown away for work that has not begun, which is how A and B kill each other for ever. And a request that "
            "does not fit *now* is no error: it waits.",
        )
    )


kit.exercise(
    "defects",
    say("defects.task", "Choose the **three** defects."),
    kit.Choices(
        {
            "new": say("defects.new", "lines 1 and 2: running requests are preempted to make room for a waiting one"),
            "loop": say("defects.loop", "line 2: more than one victim may be taken"),
            "empty": say("defects.empty", "line 3: it asks whether anybody runs"),
            "raise": say("defects.raise", "line 4: it raises an error when there is nobody to preempt"),
            "order": say("defects.order", "lines 5 and 8: victims leave at the back, newcomers enter at the front"),
            "all": say("defects.all", "line 6: the victim loses all its blocks, not just enough of them"),
            "front": say("defects.front", "line 7: the victim goes to the front of the queue"),
        },
        count=3,
    ),
    grade_defects,
    hints=(
        say("defects.hint1", "Write down `running` after A and B have entered. Who stands at the back?"),
        say("defects.hint2", "In the timeline of the real run: was anybody ever preempted *for a waiting* request?"),
    ),
)

# %% mended [markdown] kind="figures"
# ## The same toy, mended
#
# Now newcomers enter at the back, victims are taken from the back, and only when somebody who *runs* needs a block.
# Whoever waits goes on waiting until there is room. The oldest is never a victim while others run, so it always ends;
# then the next one is the oldest. That is the whole proof that everybody ends.

# %%
mended = play(careful, TOY_POOL, TOYS, TOY_STEPS)
kit.show("mended", PREEMPT_LINE, mended, kit.Origin("Simulated", "5 blocks, 3 requests"))

# %% code_task [markdown] kind="exercise"
# ## Exercise 2: choose the victims
#
# Write the choice. `running` lists `[request, blocks]` in the order of admission, oldest first; `asker` needs `need` blocks
# and `free` are there, which is fewer. Return the requests to preempt, in the order in which they go: the newest first, just
# enough of them, the asker itself when its turn comes, and **nobody for an asker that does not run**.
#
# The small engine below calls it: on the requests of your own run, and on others. Its decisions are compared one by one,
# and every request must end.

# %%
STARTER = '''def victims(running, asker, need, free):
    """Who is preempted, so that `asker` finds `need` blocks."""
    ...


def play(pool, sizes, steps):  # leave this as it is: the grader calls it
    waiting, running, held, log = [], [], {}, []

    def make_room(asker, need):
        free = pool - sum(held.values())
        if free < need:
            now = [[who, held[who]] for who in running]
            chosen = victims([list(pair) for pair in now], asker, need, free)
            log.append([now, asker, need, free, chosen])
            for who in chosen or []:
                running.remove(who)
                del held[who]
                waiting.insert(0, who)
        return pool - sum(held.values()) >= need

    for step in range(steps):
        if step < len(sizes):
            waiting.append(step)
        for who in list(running):
            if held.get(who) == sizes[who][1]:
                running.remove(who)
                del held[who]
            elif who in held and make_room(who, 1) and who in held:
                held[who] += 1
        head = waiting[0] if waiting else None
        if head is not None and make_room(head, sizes[head][0]):
            waiting.remove(head)
            running.append(head)
            held[head] = sizes[head][0]
        if step >= len(sizes) and not waiting and not running:
            return [log, True]
    return [log, False]
'''
SOLUTION = STARTER.replace(
    """finds `need` blocks.\"\"\"
    ...""",
    """finds `need` blocks.\"\"\"
    chosen = []
    if asker not in [who for who, _ in running]:
        return chosen
    for who, blocks in reversed(running):
        if free >= need:
            break
        chosen.append(who)
        free += blocks
        if who == asker:
            break
    return chosen""",
)


def drawn_sizes(salt: int) -> list[list[int]]:
    """Six requests of random size, first and last blocks."""
    first = [kit.seed(salt + place) % 4 + 1 for place in range(6)]
    return [[blocks, blocks + kit.seed(salt + 50 + place) % 5 + 1] for place, blocks in enumerate(first)]


CASES = [
    (chosen["pool"], look.results["lengths"], 4000),
    (TOY_POOL, [list(pair) for pair in TOYS], 200),
    (9, [[2, 8], [3, 9], [1, 7], [2, 5]], 400),
    *((11, drawn_sizes(salt), 600) for salt in (100, 200, 300)),
]


def right_choice(running: list[list[int]], asker: int, need: int, free: int) -> list[int]:
    """The victims as the engine takes them."""
    chosen: list[int] = []
    if asker not in [who for who, _ in running]:
        return chosen
    for who, blocks in reversed(running):
        if free >= need or asker in chosen:
            break
        chosen.append(who)
        free += blocks
    return chosen


def grade_code(outputs: list, cases: list[tuple]) -> kit.Verdict:
    """The order of each decision, and that every request ends."""
    for log, ended in outputs:
        for running, asker, need, free, chosen in log:
            if chosen != right_choice(running, asker, need, free):
                return kit.wrong(code_slip(running, asker, need, free, chosen))
        if not ended:
            return kit.wrong(
                say("code.livelock", "Every choice was right, and yet requests are left over. Did you change `play`?")
            )
    return kit.right(
        say(
            "code.right",
            "All {n} decisions are right and every request ended, those of your own run among them.",
            n=sum(len(log) for log, _ in outputs),
        )
    )


def code_slip(running: list[list[int]], asker: int, need: int, free: int, chosen: object) -> kit.Say:
    """Why a choice is wrong."""
    right, names = right_choice(running, asker, need, free), [who for who, _ in running]
    facts = {"running": names, "asker": asker, "need": need, "free": free, "chosen": chosen}
    if not isinstance(chosen, list):
        return say("code.type", "`victims` should return a list, and returned {chosen!r}.", chosen=chosen)
    if asker not in names:
        return say(
            "code.newcomer",
            "Request {asker} is waiting, and {chosen} had to go for it. That is the live-lock: never for one that waits.",
            **facts,
        )
    if chosen and asker == names[-1] and chosen[0] == names[-2:][0] != asker:
        return say(
            "code.itself", "The asker {asker} is the newest itself: then it is the one to go, not {chosen}.", **facts
        )
    if chosen and chosen[0] == names[0] != names[-1]:
        return say(
            "code.oldest",
            "Running, oldest first: {running}. You took {chosen}: the oldest loses the most and would never get on.",
            **facts,
        )
    if chosen == right[: len(chosen)]:
        return say("code.few", "{need} blocks are needed, {free} are free: {chosen} do not set enough free.", **facts)
    if right == chosen[: len(right)]:
        return say("code.many", "{chosen} are more than needed ({need}, {free} free): their work is lost too.", **facts)
    return say("code.order", "Running, oldest first: {running}. {chosen} is not the newest first.", **facts)


kit.exercise(
    "code",
    say("code.task", "Complete `victims`."),
    kit.Code("play", STARTER, CASES),
    grade_code,
    hints=(
        say("code.hint1", "Begin with the asker that does not run: the answer is an empty list."),
        say("code.hint2", "Walk through `reversed(running)`, add the blocks to `free`, and stop when it is enough."),
        say("code.hint3", "When the asker itself has been taken, nobody needs the blocks any more: stop there too."),
    ),
    solution=SOLUTION,
)

# %% takeaway [markdown] kind="takeaway"
# ## What to keep
#
# One number goes into your ledger. L11 is about the other thing that holds a decode up, long prompts, and L18 chooses a
# policy for a whole server.

# %%
kit.enter("recompute_share", twice, "%", "tokens computed twice, MAX_UTILIZATION at pressure 1.5", policies.origin)
kit.takeaway(
    say(
        "takeaway.line",
        "Guarantees cost seats, preemptions cost work: at pressure 1.5 **{twice:.0f} %** computed twice gave {gain:.2f}x the "
        "throughput of promising. Take the newest, only for one that runs, and give the victim its tokens back.",
        twice=twice,
        gain=gain,
    ),
    carried=("recompute_share",),
)
