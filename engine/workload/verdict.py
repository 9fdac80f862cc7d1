"""What a race comes to, in a few numbers: read off its results, for the page, the lesson and the command line."""

import math
from dataclasses import dataclass

NOTHING_TO_GAIN = 1.05  # a bound below it: the lengths are practically equal
DISTURBED = 1.35  # a gain further than this factor from the cost model's: something else used the device
P99_SAMPLES = 300  # below it the 99th percentile is a guess


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gain of in-flight over padded static, and what stands beside it.

    ``low`` and ``high``: the gain over all pairs of repeats. ``predicted``: the product of the predicted factors.
    ``is_null``: the lengths leave nothing to gain. ``is_disturbed``: gain and prediction are too far apart to teach
    anything but that. ``kept``: the share of the bound's improvement that was realised.
    """

    gain: float
    low: float
    high: float
    bound: float
    predicted: float
    is_null: bool
    is_disturbed: bool
    kept: float | None


def verdict(results: dict) -> Verdict | None:
    """The verdict on the results of ``race``; None when static or in-flight did not run."""
    if results["gain"] is None:
        return None
    static, in_flight = (results["schedulers"][name]["repeats_s"] for name in ("static", "in_flight"))
    gain, limit, predicted = results["gain"], results["bound"], math.prod(results["predicted_factors"].values())
    return Verdict(
        gain,
        min(static) / max(in_flight),
        max(static) / min(in_flight),
        limit,
        predicted,
        limit < NOTHING_TO_GAIN,
        miss(predicted, gain) > DISTURBED,
        (gain - 1) / (limit - 1) if limit >= NOTHING_TO_GAIN else None,
    )


def miss(predicted: float, measured: float) -> float:
    """How far a person's prediction is off, as a factor of at least 1 (exp of the absolute log error)."""
    return math.exp(abs(math.log(predicted / measured)))


def shares(run: dict) -> dict[str, float]:
    """Shares of all row-steps: ``useful`` (decode and prefill), ``padded`` (late ones too) and ``idle``."""
    steps = run["row_steps"]
    padded = steps["padded"] + steps.get("late", 0)
    whole = max(1, steps["useful"] + padded + steps["idle"])
    return {"useful": steps["useful"] / whole, "padded": padded / whole, "idle": steps["idle"] / whole}
