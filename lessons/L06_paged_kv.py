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
# %% rooms [markdown]
# ## Rooms for guests whose stay nobody knows
#
# While a request runs, every token of it keeps its keys and values in the *KV cache*. So a request needs room, the room
# must grow by one token a step, and nobody knows in advance when it stops growing. All requests share one pool of memory
# with a fixed number of **slots**, one token each. Three ways to hand out slots:
#
# | allocator | what a request gets | when it grows |
# | --- | --- | --- |
# | **reserve-max** | one run of slots for the longest text there can be | it is inside its reservation already |
# | **contiguous-grow** | one run of slots for what it knows now | it doubles, and moves when its neighbour is in the way |
# | **paged** | blocks of 16 slots, wherever they lie | it gets one more block |
#
# Memory can be lost in two ways. *Internal waste* lies inside what a request holds: slots set aside for tokens that
# do not come. *External waste* lies between the requests: slots are free, but in gaps too small for the next one. An
# operating system knows both, and its answer is an old one: cut everything into pages of one size, and keep a table.

# %%
from engine.workload.paged_study import SIZES, block_sizes, three_allocators
from lessons import kit
from lessons.figures.block_grid import BLOCK_GRID
from lessons.figures.block_waste import BLOCK_WASTE
from lessons.figures.slot_shares import SLOT_SHARES
from lessons.kit import say

kit.begin("L6")
BLOCK = 16
SHAPES = ("bundled", "qwen3-0.6b") if kit.on_gpu() else ("bundled",)
MODEL = say("control.shape", "Model")

# %% fit_question [markdown] kind="question"
# ## What fits?
#
# A pool of 64 blocks with 16 slots each: 1,024 slots. Chats arrive one after the other, faster than they are answered.
# Their prompts have 16 to 96 tokens and their answers 64 tokens on average: many short ones, a few up to 200.
# The server allows 512 tokens for prompt and answer together.

# %%
known = kit.recall("kv_bytes_per_token")
kit.predict(
    "block_kb",
    say("block_kb.question", "**One block of 16 tokens, over all layers:** how many kB (1,000 bytes) does it take?"),
    kit.Number(0, 4000, 1, start=0, unit=" kB"),
    hints=(
        say(
            "block_kb.ledger",
            "Your ledger has the bytes of one token from L2: {bytes:,.0f} B ({device}).",
            bytes=known.value,
            device=known.device,
        )
        if known
        else say(
            "block_kb.formula",
            "L2 would have put it into your ledger: 2 x layers x key-value heads x head size x bytes of a number. The "
            "bundled model has 8 layers and 2 key-value heads of 64; a number has 4 bytes on a CPU, 2 on a GPU.",
        ),
    ),
)
kit.predict(
    "reserved",
    say("reserved.question", "**Reserve-max:** how many chats run at once?"),
    kit.Number(0, 40, 1, start=0, unit=" chats"),
    hints=(say("reserved.hint", "Each one gets room for the longest text there can be."),),
)
kit.predict(
    "paged",
    say("paged.question", "**Paged:** how many chats run at once, on average while others wait?"),
    kit.Number(0, 40, 0.5, start=0, unit=" chats"),
    hints=(
        say("paged.hint1", "How much does a chat hold on average, in the middle of its answer?"),
        say("paged.hint2", "Who looks in at a random moment meets long answers more often than short ones."),
    ),
)

# %% arrivals_run [markdown] kind="experiment"
# ## One trace, three allocators
#
# The engine of this app is paged. It serves the arrivals for real, and its trace says who came when and how many tokens
# each had in the end. The other two allocators then serve *the same arrivals* on paper, as does paged once more: they
# are what servers did before, and nobody should have to run them again.


# %%
def serve_arrivals(report: kit.Report, requests: int, pool_blocks: int, longest: int, shape: str) -> dict:
    """One run of the engine, and the replay of its arrivals."""

    def heard(what: str, done: float) -> None:
        report(say("arrivals.busy", "chats arrive, and are answered"), done)

    model = None if shape == "bundled" else shape
    with kit.alone("serving arrivals"):
        return three_allocators(model, requests, pool_blocks, longest, kit.seed(), heard)


REQUESTS = say("control.requests", "Requests")
arrivals = kit.measure(
    "arrivals",
    say("arrivals.title", "The same arrivals through three allocators"),
    serve_arrivals,
    controls=(
        kit.Control("pool_blocks", say("control.pool", "Blocks in the pool"), (32, 64, 128), default=64, small=32),
        kit.Control("longest", say("control.longest", "Longest text"), (320, 512, 1024), default=512),
        kit.Control("requests", REQUESTS, (12, 48, 96), default=48, small=12),
        kit.Control("shape", MODEL, SHAPES, default=SHAPES[-1], small="bundled", aside=True),
    ),
)
found, pool, model = arrivals.results, arrivals.results["pool"], arrivals.results["model"]
reserve, grow, paged = found["allocators"]
on_paper = kit.Origin("Computed", arrivals.origin.detail)

# %% waste_bars [markdown] kind="figures"
# ## Where the slots went
#
# Each bar is the whole pool, on average over the steps in which somebody waited.
#
# - *Reserve-max* is nearly full and nearly useless: most of it is reserved for tokens that never come.
# - *Contiguous-grow* reserves less, but leaves gaps between its guests, doubles, and copies whole guests to larger places.
# - *Paged* has no gaps by construction: all blocks are equal, so any free block suits everybody. What it loses is the
#   unfilled rest of the last block of each request.

# %%
kit.show("shares", SLOT_SHARES, found, on_paper)
pressed = kit.guard(
    paged["waited_steps"] > 0,
    say(
        "pool.guard",
        "Nobody ever waited for the paged allocator: this pool is larger than what was asked of it, so how many *would* fit "
        "cannot show. Its bar stands for the whole run. Choose fewer blocks or more requests to see the pool bind.",
    ),
)
kit.note(
    say(
        "shares.moved",
        "Contiguous-grow copied **{moved:,} tokens** from place to place and preempted {preempted} times. Paged copied none: a "
        "table entry is all that is ever written. It *can* run out of blocks while requests grow; then somebody is preempted "
        "(here {paged} times), and L10 is about who.",
        moved=grow["moved"],
        preempted=grow["preemptions"],
        paged=found["engine"]["preemptions"],
    )
)

# %% fit_compare [markdown] kind="reconcile"
# ## Theory, prediction, run
#
# The theory needs the lengths alone. Reserve-max: slots / longest text, rounded down. Paged: slots over what a running
# request holds on average. That average goes **over steps, not over requests**: an answer of 200 tokens is there two
# hundred times, one of 8 tokens eight times. Whoever divides by the mean of all requests expects too many.

# %%
observed_kb = pool["bytes"] / (pool["blocks"] + 1) / 1e3
token_bytes = known.value if known else model["kv_bytes"]
fits = min(len(found["lengths"]), pool["slots"] / found["held"])
kit.reconcile(
    "bytes",
    (
        kit.Row(
            say("bytes.row", "one block of 16 tokens"), BLOCK * token_bytes / 1e3, observed_kb, " kB", "block_kb", 0.01
        ),
    ),
    observed=arrivals.origin,
    theory=kit.Origin("Computed", "ledger x 16" if known else "configuration x 16"),
)
kit.reconcile(
    "fits",
    (
        kit.Row(
            say("fits.reserved", "reserve-max: chats at once"),
            pool["slots"] // pool["max_model_len"],
            reserve["running"],
            "",
            "reserved",
            0.05,
        ),
        kit.Row(
            say("fits.paged", "paged, the real run"),
            fits if pressed else None,
            found["engine"]["running"],
            "",
            "paged",
            0.25,
        ),
        kit.Row(
            say("fits.replay", "paged, the replay beside the real run"),
            paged["running"],
            found["engine"]["running"],
            "",
            "",
            0.1,
        ),
    ),
    observed=arrivals.origin,
    theory=kit.Origin("Computed", "slots / slots of a running request"),
)
if kit.miss(token_bytes, model["kv_bytes"]).share > 0.01:
    kit.note(
        say(
            "bytes.other",
            "Your ledger's {ledger:,.0f} bytes are those of another model or number format than the one that ran here "
            "({here:,} bytes). A ledger entry is as good as the device and the model beside it.",
            ledger=token_bytes,
            here=model["kv_bytes"],
        ),
        "careful",
    )
if pressed:
    kit.note(
        say(
            "fits.note",
            "The same memory holds **{ratio:.1f} times** as many chats. No kernel became faster for it; what was reserved "
            "for nobody now serves somebody, and L8 shows what a seat more is worth.",
            ratio=found["engine"]["running"] / reserve["running"],
        ),
        "info",
    )

# %% table [markdown] kind="figures"
# ## The block table
#
# Here is the pool of the real run at its fullest step. A letter is the owner. Follow one letter: its blocks lie
# anywhere, in the order in which they happened to be free. What puts them in order is its **block table**, a list of block
# numbers; the tables stand below the figure. Block 0 is reserved and never read, so the count begins at 1.
#
# To find token $t$ of a request (counted from 0), with blocks of $B$ slots:
#
# $$
# \text{index} = \lfloor t / B \rfloor \qquad \text{offset} = t \bmod B
# $$
#
# $$
# \text{block} = \text{table}[\text{index}] \qquad \text{slot} = \text{block} \cdot B + \text{offset}
# $$
#
# The attention kernel does exactly this for every token it reads: one more lookup, which is nearly free, because a whole
# block of keys follows behind it.

# %%
grid = found["grid"]
kit.show("grid", BLOCK_GRID, grid, arrivals.origin)
owner = max(grid["tables"], key=lambda name: len(grid["tables"][name]))
table = grid["tables"][owner]
example = min(BLOCK + 5, grid["tokens"][owner] - 1)
kit.note(
    say(
        "table.example",
        "For example token {token} of request {owner}: index {index}, offset {offset}; its table begins {table}, so it lies in "
        "block **{block}**, slot **{slot}**.",
        token=example,
        owner=owner,
        index=example // BLOCK,
        offset=example % BLOCK,
        table=", ".join(map(str, table[:3])),
        block=table[example // BLOCK],
        slot=table[example // BLOCK] * BLOCK + example % BLOCK,
    )
)

# %% address_task [markdown] kind="exercise"
# ## Exercise 1: from a token to its bytes
#
# Each layer has one array of keys and one of values, of the shape `[block, head, offset, number]`, the last index running
# fastest. So within a block all tokens of head 0 come first, then all tokens of head 1.

# %%
HEADS, DIM, ITEM, HEAD = model["kv_heads"], model["head_dim"], model["item_bytes"], 1
index = max(0, len(table) - 2)
offset = kit.seed(1) % (BLOCK - 2) + 1
token = index * BLOCK + offset


def address(block: int, at: int, head: int = HEAD) -> int:
    """Bytes from the start of a layer's keys to those of the token at an offset in a block."""
    return ((block * HEADS + head) * BLOCK + at) * DIM * ITEM


def grade_address(answer: float) -> kit.Verdict:
    """The byte address; the usual slips are recognised."""
    block = table[index]
    if answer == address(block, offset):
        return kit.right(
            say(
                "address.right",
                "Right: block {block}, offset {offset}, head {head}. The kernel reads {size} bytes there, and finds the next "
                "token of this head right behind them.",
                block=block,
                offset=offset,
                head=HEAD,
                size=DIM * ITEM,
            )
        )
    slips = {
        address(index, offset): say(
            "address.logical", "You used the index in the table as the block. Look up which block stands there."
        ),
        (block * BLOCK + offset) * DIM * ITEM: say(
            "address.slot", "That is the slot times the bytes of one head, as if there were only one head in a block."
        ),
        (block * BLOCK + offset) * HEADS * DIM * ITEM: say(
            "address.tokens", "That would be right for `[block, offset, head, number]`. Here the head comes first."
        ),
        address(block, offset - 1): say("address.one", "One token too early: tokens and offsets are counted from 0."),
        address(block, offset) // ITEM: say("address.numbers", "That many numbers. How many bytes has each?"),
        address(block, 0): say("address.block", "There this head begins in the block. Where in it is the token?"),
        address(block, offset, 0): say("address.head", "That is head 0. The task asks for head 1."),
        address(block - 1, offset): say("address.zero", "Block 0 exists too: it is reserved, but takes its room."),
    }
    if answer in slips:
        return kit.wrong(slips[answer])
    return kit.wrong(
        say("address.wrong", "Not yet. Index and offset first; then the block out of the table; then the four sizes.")
    )


kit.exercise(
    "address",
    say(
        "address.task",
        "Request {owner} has the table **{table}**. Blocks have {block} slots; a layer has {heads} key-value heads of {dim} "
        "numbers with {item} bytes each. At which **byte** of a layer's keys does head 1 of token **{token}** begin?",
        owner=owner,
        table=", ".join(map(str, table)),
        block=BLOCK,
        heads=HEADS,
        dim=DIM,
        item=ITEM,
        token=token,
    ),
    kit.Number(0, 2_000_000_000, 1, start=0, unit=" B"),
    grade_address,
    hints=(
        say("address.hint1", "index = {token} // {block}, offset = {token} % {block}.", token=token, block=BLOCK),
        say(
            "address.hint2",
            "((block x {heads} + head) x {slots} + offset) x {dim} x {item}.",
            heads=HEADS,
            slots=BLOCK,
            dim=DIM,
            item=ITEM,
        ),
    ),
)

# %% size_question [markdown] kind="question"
# ## How large should a block be?
#
# The only waste that is left sits in the last block of each request. Small blocks waste less. Large blocks mean shorter
# tables and longer runs of memory for the kernel.

# %%
EMPTY = kit.Number(0, 128, 0.5, start=0, unit=" slots")
kit.predict(
    "waste16",
    say("waste16.question", "**Blocks of 16:** how many slots of a running request are empty, on average?"),
    EMPTY,
    hints=(say("waste16.hint", "The last block holds 1, 2, ... or 16 tokens, all equally often."),),
)
kit.predict("waste128", say("waste128.question", "**Blocks of 128:** and now?"), EMPTY)
kit.predict(
    "faster",
    say("faster.question", "**A decode step with blocks of 128 over one with blocks of 16:**"),
    kit.Number(0.5, 2.0, 0.01, start=2.0, unit="x"),
)

# %% size_run [markdown] kind="experiment"
# ## The sweep
#
# The same requests with each block size, on a pool that is large enough: every run takes exactly the same steps, and only the
# blocks differ. Empty slots are counted in the trace, at every step and for every running request.


# %%
def sweep_sizes(report: kit.Report, requests: int, sizes: int, shape: str) -> dict:
    """Waste and step time over the first ``sizes`` of the block sizes, and always 16 and 128."""
    chosen = SIZES if sizes == len(SIZES) else (16, 128)

    def heard(what: str, done: float) -> None:
        report(say("sizes.busy", "the same requests, block size after block size"), done)

    with kit.alone("comparing block sizes"):
        return block_sizes(None if shape == "bundled" else shape, chosen, requests, kit.seed(), heard)


sizes = kit.measure(
    "sizes",
    say("sizes.title", "Waste and step time against the block size"),
    sweep_sizes,
    controls=(
        kit.Control("requests", REQUESTS, (8, 16, 48), default=48 if kit.on_gpu() else 16, small=8),
        kit.Control("sizes", say("control.sizes", "Block sizes"), (2, len(SIZES)), default=len(SIZES), small=2),
        kit.Control("shape", MODEL, SHAPES, default=SHAPES[-1], small="bundled"),
    ),
)
by_size = {entry["block_size"]: entry for entry in sizes.results["entries"]}
kit.show("waste", BLOCK_WASTE, sizes.results, sizes.origin)

# %% size_compare [markdown] kind="reconcile"
# ## Half a block, less half a token
#
# A last block holds 1 to $B$ tokens. If all are equally likely, $B - 1$ down to 0 slots are empty, on average
# $(B - 1)/2$ **for each request, however long it is**. The share of the memory therefore depends on the length: long chats do
# not mind large blocks, short ones do.

# %%
small_blocks, large_blocks = by_size[16], by_size[128]
ratio = large_blocks["ms_per_step"] / small_blocks["ms_per_step"]
kit.reconcile(
    "waste",
    (
        kit.Row(say("waste.row16", "empty slots, blocks of 16"), 7.5, small_blocks["waste"], "", "waste16", 0.15),
        kit.Row(say("waste.row128", "empty slots, blocks of 128"), 63.5, large_blocks["waste"], "", "waste128", 0.25),
        kit.Row(say("waste.step", "step time, 128 over 16"), 1.0, ratio, "x", "faster", 0.1),
    ),
    observed=sizes.origin,
    theory=kit.Origin("Computed", "(block - 1) / 2; the same bytes are read"),
)
lost = {size: 100 * entry["waste"] / entry["held"] for size, entry in by_size.items()}
noise = max(max(entry["laps_ms"]) / min(entry["laps_ms"]) for entry in by_size.values())
if noise > 1.25:
    kit.note(
        say(
            "size.disturbed",
            "Blocks of 128 lose **{large:.0f} %** of a request's slots, blocks of 16 only {small:.0f} %. That is counted, and "
            "sure. The step times are not: two runs of one block size differ by {noise:.0f} %, so something else used this "
            "machine. Read nothing into them, or run the sweep again.",
            large=lost[128],
            small=lost[16],
            noise=100 * (noise - 1),
        ),
        "careful",
    )
elif abs(ratio - 1) <= max(0.05, noise - 1):
    kit.note(
        say(
            "size.same",
            "Blocks of 128 lose **{large:.0f} %** of a request's slots, blocks of 16 only {small:.0f} %. The step time does not "
            "tell them apart: two runs of one block size differ by up to {noise:.0f} % too. So a small block costs nothing that "
            "can be measured here, and 16 is a good default.",
            large=lost[128],
            small=lost[16],
            noise=100 * (noise - 1),
        ),
        "info",
    )
else:
    kit.note(
        say(
            "size.differ",
            "Blocks of 128 lose **{large:.0f} %** of a request's slots, blocks of 16 only {small:.0f} %; a step takes "
            "{ratio:.2f} times as long with 128 as with 16. Weigh the two: memory decides how many run, the kernel how fast.",
            large=lost[128],
            small=lost[16],
            ratio=ratio,
        ),
        "info",
    )

# %% code_task [markdown] kind="exercise"
# ## Exercise 2: write the allocator
#
# A published article sketches one as `allocate_blocks(n) -> int`. That cannot work: it does not say **for whom**, and it
# returns **one** number for many blocks. Write it properly. After every call, these must hold:
#
# 1. each of the blocks 1 to `num_blocks` is in exactly one place: on the free list, or in one table;
# 2. a table has as many blocks as its tokens need, no fewer and no more;
# 3. tables only grow at the end: a token that is stored never moves;
# 4. when blocks are lacking, nothing changes.
#
# It is run on the chats of your own experiment and on random ones that you do not see.

# %%
STARTER = '''class Allocator:
    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.free_blocks = list(range(1, num_blocks + 1))
        self.tables = {}  # request -> its blocks, in order
        self.tokens = {}  # request -> how many tokens it has

    def append(self, request, tokens):
        """Room for so many more tokens. True; False, and nothing changes, when blocks are lacking."""
        ...

    def free(self, request):
        """The request has ended. Nothing happens for one that holds nothing."""
        ...


def play(num_blocks, block_size, calls):  # leave this as it is: the grader calls it
    pool, seen = Allocator(num_blocks, block_size), []
    for name, request, tokens in calls:
        said = pool.append(request, tokens) if name == "append" else pool.free(request)
        seen.append([said, [[key, list(table)] for key, table in pool.tables.items()], list(pool.free_blocks)])
    return seen
'''
SOLUTION = STARTER.replace(
    """are lacking.\"\"\"
        ...""",
    """are lacking.\"\"\"
        table, known = self.tables.get(request, []), self.tokens.get(request, 0)
        need = -(-(known + tokens) // self.block_size) - len(table)
        if need > len(self.free_blocks):
            return False
        self.tables[request] = table + [self.free_blocks.pop(0) for _ in range(need)]
        self.tokens[request] = known + tokens
        return True""",
).replace(
    """holds nothing.\"\"\"
        ...""",
    """holds nothing.\"\"\"
        self.free_blocks += self.tables.pop(request, [])
        self.tokens.pop(request, None)""",
)
BOUNDARY = [["append", 0, 8], ["append", 0, 1], ["append", 1, 4], ["append", 1, 4], ["free", 0, 0], ["append", 2, 9]]
FULL = [["append", 0, 9], ["append", 1, 9], ["append", 0, 4], ["free", 1, 0], ["free", 1, 0], ["append", 0, 4]]


def own_calls() -> list[list]:
    """The first chats of the learner's run: prompts come in, then each grows, then all leave."""
    chats = found["lengths"][:6]
    calls = [["append", request, prompt] for request, (prompt, _) in enumerate(chats)]
    calls += [["append", request, 1] for _ in range(20) for request in range(len(chats))]
    return calls + [["free", request, 0] for request in range(len(chats))]


def random_calls(salt: int) -> list[list]:
    """Thirty calls for five requests, some of them freed twice."""
    drawn = [kit.seed(salt + place) for place in range(30)]
    return [["free", each % 5, 0] if each % 4 == 0 else ["append", each % 5, each // 7 % 11 + 1] for each in drawn]


CASES = [
    (64, BLOCK, own_calls()),
    (8, 4, BOUNDARY),
    (6, 4, FULL),
    *((10, 3, random_calls(salt)) for salt in (100, 200, 300)),
]
Tables = dict[int, list[int]]


def grade_code(outputs: list, cases: list[tuple]) -> kit.Verdict:
    """Checks the four invariants after each call of each case."""
    for seen, case in zip(outputs, cases):
        fault = first_fault(seen, *case)
        if fault:
            return kit.wrong(fault)
    return kit.right(
        say(
            "code.right",
            "All {calls} calls keep all four promises. Note what is *not* there: nobody searches for a gap, and nobody ever "
            "moves a token. Every operation takes the same time however full the pool is.",
            calls=sum(len(case[2]) for case in cases),
        )
    )


def first_fault(seen: list, num_blocks: int, block_size: int, calls: list[list]) -> kit.Say | None:
    """What is wrong after the first call that breaks a promise."""
    tokens: dict[int, int] = {}
    before: Tables = {}
    for (name, request, more), (said, tables, free) in zip(calls, seen):
        now = {key: table for key, table in tables if table}
        fault = misplaced(now, free, num_blocks)
        if not fault and name == "append":
            fault = misgrown(said, before, now, request, tokens.get(request, 0), more, block_size, num_blocks)
            tokens[request] = tokens.get(request, 0) + (more if said else 0)
        elif not fault:
            tokens.pop(request, None)
            fault = say("code.kept", "After `free` the request still has a table.") if request in now else None
        if fault:
            return fault
        before = now
    return None


def misplaced(now: Tables, free: list[int], num_blocks: int) -> kit.Say | None:
    """Promise 1: each block in exactly one place."""
    held = [block for table in now.values() for block in table] + free
    if len(held) != len(set(held)):
        return say(
            "code.twice", "Block {block} is in two places at once.", block=next(b for b in held if held.count(b) > 1)
        )
    lost = set(range(1, num_blocks + 1)) - set(held)
    if lost:
        return say("code.leak", "Blocks leak: {n} of them are neither free nor in any table.", n=len(lost))
    return None if len(held) == num_blocks else say("code.invented", "There are blocks that the pool does not have.")


def misgrown(
    said: object, before: Tables, now: Tables, request: int, known: int, more: int, size: int, num_blocks: int
) -> kit.Say | None:
    """Promises 2 to 4: what an append should have done."""
    old, new = before.get(request, []), now.get(request, [])
    right = -(-(known + more) // size)
    lacks = right - len(old) > num_blocks - sum(map(len, before.values()))
    if not isinstance(said, bool):
        return say("code.type", "`append` should return True or False, and returned {said!r}.", said=said)
    if lacks and now != before:
        return say("code.atomic", "Blocks were lacking, and yet something changed: look before you take.")
    if said == lacks:
        return say("code.answer", "`append` said {said}, with {n} blocks to add.", said=said, n=right - len(old))
    if lacks:
        return None
    if new[: len(old)] != old:
        return say("code.moved", "A table changed at its front: tokens that are stored there would be lost.")
    return misfitted(len(old), len(new), right, known, more, size)


def misfitted(old: int, new: int, right: int, known: int, more: int, size: int) -> kit.Say | None:
    """Promise 2: the length of a table."""
    if new == right:
        return None
    facts = {"known": known, "more": more, "size": size, "new": new}
    if new < right and new == (known + more) // size:
        return say(
            "code.partial",
            "{known} + {more} tokens in blocks of {size} got {new} blocks: the last one, partly filled, is missing.",
            **facts,
        )
    if new < right and new == old + 1:
        return say("code.one", "{more} tokens at once may need several blocks; only one was added.", **facts)
    if new < right:
        return say("code.short", "{known} + {more} tokens in blocks of {size} got only {new} blocks.", **facts)
    if (known + more) % size == 0 and new == right + 1:
        return say(
            "code.boundary",
            "{known} + {more} tokens fill blocks of {size} exactly, and got {new} blocks: one too early at the boundary.",
            **facts,
        )
    return say(
        "code.fresh",
        "{known} + {more} tokens in blocks of {size} got {new} blocks: use the room in the last block first.",
        **facts,
    )


kit.exercise(
    "code",
    say("code.task", "Complete `append` and `free`."),
    kit.Code("play", STARTER, CASES),
    grade_code,
    hints=(
        say("code.hint1", "How many blocks do all its tokens need, the new ones included? How many does it have?"),
        say("code.hint2", "Rounding up without floats: `-(-tokens // block_size)`."),
        say("code.hint3", "`dict.pop(request, [])` gives an empty list for a request that holds nothing."),
    ),
    solution=SOLUTION,
)

# %% compact_task [markdown] kind="exercise"
# ## Exercise 3: tidy up?
#
# The article also promises that its manager *defragments* the pool.

# %%
COMPACT = {
    "never": kit.right(
        say(
            "compact.right",
            "Right. Any free block suits any request, so scattered free blocks are as good as neighbouring ones. What "
            "remains is internal: {waste:.1f} slots of each running request in your run.",
            waste=found["allocators"][2]["waste"],
        )
    ),
    "gaps": kit.wrong(
        say(
            "compact.no_gaps", "Look at the grid again: does a newcomer need neighbours? Its table can name any blocks."
        )
    ),
    "often": kit.wrong(say("compact.no_often", "Copying costs bandwidth. And what would be better afterwards?")),
    "kernel": kit.wrong(
        say(
            "compact.no_kernel",
            "The kernel reads one block after the other, through the table. Within a block memory is contiguous; where the next "
            "one lies hardly matters, as your sweep showed.",
        )
    ),
    "last": kit.wrong(
        say(
            "compact.no_last",
            "That waste is real, but two requests cannot share a block that both write: each grows in its own last block.",
        )
    ),
}
kit.exercise(
    "compact",
    say("compact.task", "When does a paged pool have to be defragmented, that is, its blocks moved together?"),
    kit.Choice(
        {
            "gaps": say("compact.gaps", "when the free blocks are scattered and a long prompt comes"),
            "often": say("compact.often", "from time to time, while nobody runs"),
            "never": say("compact.never", "never"),
            "kernel": say("compact.kernel", "when attention gets slow because blocks lie far apart"),
            "last": say("compact.last", "when many last blocks are nearly empty: they can be merged"),
        }
    ),
    COMPACT.get,
    hints=(say("compact.hint", "Which kind of waste does moving things together remove?"),),
)

# %% takeaway [markdown] kind="takeaway"
# ## What to keep
#
# One number goes into your ledger. L7 lets two requests share their full blocks, L10 decides who goes when the blocks run
# out, and L12 makes each slot cheaper.

# %%
kit.enter(
    "waste_tokens_per_request",
    small_blocks["waste"],
    "slots",
    "empty slots of a running request, blocks of 16",
    sizes.origin,
)
kit.takeaway(
    say(
        "takeaway.line",
        "Paging trades one table lookup for two kinds of waste: nothing is lost between requests, and inside one only half a "
        "block, here **{waste:.1f}** slots. The same pool then runs {running:.1f} requests at once in place of {reserved:.1f}.",
        waste=small_blocks["waste"],
        running=found["engine"]["running"],
        reserved=reserve["running"],
    ),
    carried=("waste_tokens_per_request",),
)
