"""Bytes by formula: weights, keys and values, activations, and which knob frees how much."""

from engine.workload.limits import decode_floor
from lessons.audit.finding import Found, found
from lessons.audit.registry import experiment
from lessons.audit.shapes import (
    A100,
    A100_MEMORY,
    LLAMA_8B,
    LLAMA_70B,
    activation_bytes,
    logits_bytes,
    weight_bytes,
)

ROWS, CONTEXT, BUDGET = 256, 4096, 8192  # of a server of the 8B shape
SCALED = (128 + 2) / 256  # bytes of 8-bit KV with an fp16 scale per 128 numbers, over those of fp16
ARTICLE_FRACTION = 0.4
LENGTH, MAXIMUM = 512, 4096  # tokens: of a usual request, and of the longest that is allowed


@experiment("2 * layers * kv_heads * head_dim * bytes; weights * bytes")
def weights_70b() -> Found:
    """S0-57: 140 GB are weights, and KV quantisation does not halve them."""
    weights, kv = weight_bytes(LLAMA_70B), LLAMA_70B.kv_bytes
    return found(weights < A100_MEMORY, weights=(weights, "B"), kv_per_token=(kv, "B"), card=(A100_MEMORY, "B"))


@experiment("2 * layers * kv_heads * head_dim * bytes, per token")
def kv_formula() -> Found:
    """S2-24: two models with the same hidden size and layers differ by their KV heads."""
    grouped, all_heads = LLAMA_8B.kv_bytes, 2 * LLAMA_8B.layers * LLAMA_8B.hidden * 2
    return found(
        all_heads == grouped, grouped=(grouped, "B"), all_heads=(all_heads, "B"), ratio=(all_heads / grouped, "x")
    )


@experiment("(weights + kv) / (weights + kv * (128 + 2) / 256), bytes of a decode step; weights of the 8B shape")
def kv_int8() -> Found:
    """S0-58: capacity doubles at once; +40 % needs KV bytes beyond those of the weights."""
    weights = LLAMA_8B.streamed_bytes
    kv = 0.4 * weights / (1 - 1.4 * SCALED)  # solved for a ratio of 1.4
    short = weights + ROWS * 128 * LLAMA_8B.kv_bytes
    shorter = weights + ROWS * 128 * LLAMA_8B.kv_bytes * SCALED
    return found(
        "partly",
        room=(1 / SCALED, "x"),
        tokens_for_40_percent=(kv / LLAMA_8B.kv_bytes, "tok"),
        speed_up_at_short_contexts=(short / shorter, "x"),
    )


@experiment("separate: read 8 bit, write 16, read 16; inside: read 8 bit (+ an fp16 scale per 128 numbers)")
def dequant_bytes() -> Found:
    """S0-56: bytes per number of KV with the dequantisation inside attention, and as a kernel of its own."""
    scale = 2 / 128
    inside, separate = 1 + scale, 1 + scale + 2 + 2
    return found(True, inside=(inside, "B"), separate=(separate, "B"), ratio=(separate / inside, "x"))


@experiment("tokens * hidden * 2; tokens * intermediate * 2 (70B shape, 16 bit)")
def activation_131072() -> Found:
    """S4-09: what a token budget of 131,072 costs before anything is computed."""
    tokens = 131_072
    hidden, inner = (2.0 * tokens * size for size in (LLAMA_70B.hidden, LLAMA_70B.intermediate))
    return found("partly", hidden=(hidden, "B"), intermediate=(inner, "B"))


@experiment("activations: budget * 3 * (intermediate + hidden) * 2; pool: blocks * block_size * kv_per_token")
def two_knobs() -> Found:
    """S1-26, S2-25: doubling the token budget and doubling the pool change different memory."""
    activations = activation_bytes(LLAMA_8B, BUDGET)
    contexts = 16 * 2**30 / (LLAMA_8B.kv_bytes * CONTEXT)
    return found(
        False,
        per_token_of_budget=(activations / BUDGET, "B"),
        per_token_of_context=(LLAMA_8B.kv_bytes, "B"),
        activations=(activations, "B"),
        contexts_in_16_gib=contexts,
    )


@experiment("row: two copies of its logits; request: context * kv_per_token (8B shape)")
def batch_cap() -> Found:
    """S1-25: a row more costs little beside the KV of one long request."""
    row, request = logits_bytes(LLAMA_8B, 1), CONTEXT * LLAMA_8B.kv_bytes
    return found("partly", row=(row, "B"), request=(request, "B"), ratio=(request / row, "x"))


@experiment("batch 8 * 4096 tokens * kv_per_token; 8 * 2048 tokens of activations (8B shape)")
def build_bounds() -> Found:
    """S2-16: what the bounds of the command reserve, and what half of them would."""
    kv, activations = 8 * 4096 * LLAMA_8B.kv_bytes, activation_bytes(LLAMA_8B, 8 * 2048)
    return found("partly", kv=(kv, "B"), activations=(activations, "B"), weights=(weight_bytes(LLAMA_8B), "B"))


@experiment("bytes before - after halving each (8B shape, card of 80 GiB, 90 % of the free memory for KV)")
def oom_knobs() -> Found:
    """S2-30, S4-34: halve one knob at a time."""
    free = A100_MEMORY - weight_bytes(LLAMA_8B)
    return found(
        "partly",
        pool=(0.9 * free / 2, "B"),
        token_budget=(activation_bytes(LLAMA_8B, BUDGET) / 2, "B"),
        max_batch_size=(logits_bytes(LLAMA_8B, ROWS) / 2, "B"),
        max_seq_len=(0, "B"),
        kv_in_8_bit=((1 - SCALED) * 0.9 * free, "B"),
    )


@experiment("fraction * (card - weights), beside fraction * card (8B shape, card of 80 GiB)")
def fraction() -> Found:
    """S2-29: 0.4 of what."""
    free = A100_MEMORY - weight_bytes(LLAMA_8B)
    of_free, of_card = ARTICLE_FRACTION * free, ARTICLE_FRACTION * A100_MEMORY
    return found(
        of_free == of_card, of_free=(of_free, "B"), of_card=(of_card, "B"), tokens=(of_free / LLAMA_8B.kv_bytes, "tok")
    )


@experiment("tokens of 0.8 of the free memory / tokens of 0.4 of it (8B shape, card of 80 GiB)")
def fraction_sets_pool() -> Found:
    """S2-28: the pool follows the fraction."""
    free = A100_MEMORY - weight_bytes(LLAMA_8B)
    less, more = (part * free / LLAMA_8B.kv_bytes for part in (ARTICLE_FRACTION, 2 * ARTICLE_FRACTION))
    return found(more > less, tokens_of_0_4=(less, "tok"), tokens_of_0_8=(more, "tok"))


@experiment("pool / maximum, beside pool / (length rounded up to blocks of 16)")
def paged_capacity() -> Found:
    """S2-27, S4-07, S4-12: requests that fit when the maximum is reserved, and when blocks are taken on demand."""
    pool = 0.9 * (A100_MEMORY - weight_bytes(LLAMA_8B)) // LLAMA_8B.kv_bytes
    reserved, paged = pool // MAXIMUM, pool // (-(-LENGTH // 16) * 16)
    return found(paged > reserved, reserved=reserved, paged=paged, length=(LENGTH, "tok"), maximum=(MAXIMUM, "tok"))


@experiment("weights / 8 cards / bandwidth; requests/s * seconds (Little)")
def a100_70b() -> Found:
    """S4-37: the weights against one card, the least time of a step on eight, and two loads that are not the same."""
    weights = weight_bytes(LLAMA_70B)
    step_s = decode_floor(LLAMA_70B, 1, 0, A100).products / 8
    return found(
        "fails" if weights > A100_MEMORY else "holds",
        cards=-(-weights // A100_MEMORY),
        step=(step_s, "s"),
        tokens_in_280_ms=(0.28 / step_s, "tok"),
        in_system_before=15 * 1.2,
        in_system_after=92 * 0.28,
    )
