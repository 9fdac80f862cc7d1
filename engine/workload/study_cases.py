"""The comparisons that the product's claims about memory, prefixes and chunks rest on, each as a ``Study``.

Sizes are those of the claim; on a model with a shorter context all lengths are divided by one number, and the name of
the workload says by which.
"""

from collections.abc import Callable
from dataclasses import replace

from engine.config import SchedulingConfig
from engine.workload import lengths
from engine.workload.items import Workload, fit
from engine.workload.named import by_name
from engine.workload.sessions import with_shared_prefix
from engine.workload.shrink import shrunk
from engine.workload.studies import Goal, Setting, Study, peak_blocks

# (the loaded configuration, vocabulary size, share of the requests to use)
MakeStudy = Callable[[SchedulingConfig, int, float], Study]
CAPACITIES = (
    Setting("max-utilization", {"capacity": "max-utilization"}),
    Setting("guaranteed-no-evict", {"capacity": "guaranteed-no-evict"}),
)
NO_LOSS = (Goal("output_throughput", at_least=0.98), Goal("p99_tpot_ms", at_most=1.5))
DECLARED = 1024  # max_tokens of every request whose real answer is far shorter
LONG_PROMPT, LONG_ANSWER, LONG_REQUESTS = 32_768, 16, 8


def half_the_demand(config: SchedulingConfig, vocab_size: int, share: float) -> Study:
    """W1 in a pool of half the blocks that it would like to hold."""
    workload = _cut(lengths.w1(_count(256, share)), config, vocab_size)
    longest = -(-workload.longest // config.block_size)
    pool = max(longest, peak_blocks(workload.items, config) // 2)
    return Study("half-the-demand", workload, _with(CAPACITIES, pool_blocks=pool), NO_LOSS)


def half_the_rows(config: SchedulingConfig, vocab_size: int, share: float) -> Study:
    """128 requests of 4,096 + 512 tokens, 32 under way at any time, in a pool for 16 of them."""
    workload = _cut(lengths.fixed(_count(128, share), 0, 4096, 512), config, vocab_size)
    item = workload.items[0]
    blocks = -(-(len(item.prompt_ids) + item.max_tokens) // config.block_size)
    under_way = min(32, len(workload.items), config.max_num_seqs)
    settings = _with(CAPACITIES, pool_blocks=max(1, under_way // 2) * blocks)
    return Study("half-the-rows", workload, settings, NO_LOSS, under_way)


def declared_too_much(config: SchedulingConfig, vocab_size: int, share: float) -> Study:
    """Chat lengths with a declared ``max_tokens`` of 1,024, in a pool for 16 requests at their real lengths: who
    reserves for the declaration runs fewer at once."""
    drawn = by_name("azure-chat", _count(256, share), 0)
    items = [replace(item, prompt_ids=item.prompt_ids[:4096], max_tokens=DECLARED) for item in drawn.items]
    workload = _cut(replace(drawn, items=items, notes=(f"max_tokens {DECLARED} declared",)), config, vocab_size)
    tokens = sum(len(item.prompt_ids) + item.output_length for item in workload.items) / len(workload.items)
    pool = max(-(-workload.longest // config.block_size), round(16 * tokens / config.block_size))
    settings = _with(CAPACITIES, pool_blocks=pool)
    return Study("declared-too-much", workload, settings, (Goal("output_throughput", at_least=1.35),))


def no_hits(config: SchedulingConfig, vocab_size: int, share: float) -> Study:
    """What the prefix cache costs when nothing is ever found in it."""
    workload = _cut(lengths.fixed(_count(256, share), 0, 1024, 64), config, vocab_size)
    return Study("no-hits", workload, CACHES, (Goal("output_throughput", at_least=0.99),))


def nine_in_ten_hits(config: SchedulingConfig, vocab_size: int, share: float) -> Study:
    """What the prefix cache brings when 90 % of every long prompt is known: four requests at a time."""
    plain = lengths.fixed(_count(64, share), 0, 8192, 16)
    workload = _cut(with_shared_prefix(plain, 0.9), config, vocab_size)
    return Study("nine-in-ten-hits", workload, CACHES, (Goal("median_ttft_ms", at_most=0.2),), concurrency=4)


def long_prompts(config: SchedulingConfig, vocab_size: int, share: float) -> Study:
    """32 running answers, and prompts of 32k tokens that come between: in chunks, or each whole in one step."""
    short = lengths.fixed(32, 0, 512, 512).items
    long = lengths.fixed(_count(LONG_REQUESTS, share), 1, LONG_PROMPT, LONG_ANSWER).items
    workload = _cut(Workload("32k prompts among answers", [*short, *long], 0), config, vocab_size)
    longest = max(len(item.prompt_ids) for item in workload.items)
    whole = longest + 2 * len(workload.items)
    settings = (
        Setting("chunked", {"chunked_prefill": True, "token_budget": max(len(workload.items), longest // 16)}),
        Setting("whole", {"chunked_prefill": False, "token_budget": whole}),
    )
    settings = _with(settings, max_num_seqs=min(config.max_num_seqs, len(workload.items)))
    return Study("long-prompts", workload, settings, CHUNKING_GOALS)


CACHES = (Setting("cache", {"prefix_cache": True}), Setting("no cache", {"prefix_cache": False}))
CHUNKING_GOALS = (Goal("p99_itl_ms", at_most=0.2), Goal("output_throughput", at_least=0.97))
STUDIES: dict[str, dict[str, MakeStudy]] = {
    "pressure": {
        "half-the-demand": half_the_demand,
        "half-the-rows": half_the_rows,
        "declared-too-much": declared_too_much,
    },
    "prefix": {"no-hits": no_hits, "nine-in-ten-hits": nine_in_ten_hits},
    "chunking": {"long-prompts": long_prompts},
}
# (context, token budget) that the studies of a command are meant for; less is made of the lengths on a smaller model.
SIZES = {"pressure": (5120, 8192), "prefix": (8320, 8192), "chunking": (33_000, 33_000)}


def _count(requests: int, share: float) -> int:
    return max(4, round(requests * share))


def _cut(workload: Workload, config: SchedulingConfig, vocab_size: int) -> Workload:
    return fit(shrunk(workload, config.max_model_len), config.max_model_len, vocab_size)


def _with(settings: tuple[Setting, Setting], **overrides: object) -> tuple[Setting, Setting]:
    """The settings with the same ``overrides`` in both."""
    one, other = (Setting(setting.name, dict(setting.overrides) | overrides) for setting in settings)
    return one, other
