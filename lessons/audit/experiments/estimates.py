"""The published estimators of S1, and the corrected ones."""

from lessons.audit.estimators import fusion_by_time, lengths, published_batching, published_fusion
from lessons.audit.finding import Found, found
from lessons.audit.registry import experiment

AVERAGE, MAXIMUM, ROWS, STEP_S = 256, 1024, 32, 0.05  # the article's example
MEMORY_OPS, COMPUTE_OPS, COVERAGE = 15, 5, 0.8


@experiment("published: avg / max; min(1, 1.8 * avg / max); corrected: E[longest of B] / E[length]")
def estimate_gain() -> Found:
    """S1-30, S1-34: the published numbers, and the gain that lengths of that mean and maximum allow."""
    said = published_batching(AVERAGE, MAXIMUM, ROWS, STEP_S)
    true = lengths("exponential", AVERAGE, MAXIMUM).gain(ROWS)
    equal = lengths("equal", AVERAGE, MAXIMUM).gain(ROWS)
    return found(
        abs(said["gain"] / true - 1) < 0.1 and abs(said["gain"] / equal - 1) < 0.1,
        static_util=said["static_util"],
        in_flight_util=said["in_flight_util"],
        gain=(said["gain"], "x"),
        static_waste=(said["static_waste"], "tok"),
        exponential_lengths=(true, "x"),
        equal_lengths=(equal, "x"),
    )


@experiment("mean of max - l for l in avg..max, beside max - avg")
def waste_uniform() -> Found:
    """S1-31: the waste that the article computes, the mean it presumes, and the waste that its utilisation implies."""
    said = published_batching(AVERAGE, MAXIMUM, ROWS, STEP_S)["static_waste"]
    implied = MAXIMUM * (1 - AVERAGE / MAXIMUM)
    presumed = (AVERAGE + MAXIMUM) / 2
    return found(said == implied, published=(said, "tok"), implied=(implied, "tok"), presumed_mean=(presumed, "tok"))


@experiment("the published function with each argument doubled")
def unused_arguments() -> Found:
    """S1-35: which arguments change the gain."""
    base = {"average": AVERAGE, "longest": MAXIMUM, "rows": ROWS, "step_s": STEP_S}
    gains = {name: published_batching(**(base | {name: value * 2}))["gain"] for name, value in base.items()}
    before = published_batching(**base)["gain"]
    changed = {name: (gain / before, "x") for name, gain in gains.items()}
    return found(changed["rows"][0] != 1 and changed["step_s"][0] != 1, **changed)


@experiment(
    "1 / (share * (1 - 0.6 c) + (1 - share) * (1 - 0.1 c)): share of operations as published, of time as corrected"
)
def estimate_fusion() -> Found:
    """S1-36, S1-37: weighted by count, and with memory operations at 10 % of the time."""
    said = published_fusion(MEMORY_OPS, COMPUTE_OPS, COVERAGE)
    by_time = fusion_by_time(0.1, COVERAGE)
    numbers = {name: (value, "x") for name, value in said.items()} | {"overall_by_time": (by_time, "x")}
    return found(abs(said["overall"] / by_time - 1) < 0.1, **numbers)
