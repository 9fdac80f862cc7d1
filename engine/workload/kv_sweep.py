"""What a KV dtype is worth in time: a decode step against its context as a straight line, one for each pool.

    t = a + b x tokens of context, of all rows together

``a`` is the weights and the overhead, which no KV dtype changes; ``b`` is the KV cache. Two lines cross or do not.
"""

from collections.abc import Sequence

import numpy as np

from engine.workload.drive import Progress, silent
from engine.workload.kernel_kv_cases import formats_of
from engine.workload.sweeps import decode_sweep, kv_name

Line = tuple[float, float]  # ms at no context, ms of each token of context


def quantised_dtypes(device: str) -> list[str]:
    """The quantised KV dtypes that ``device`` ("cuda", "cpu") runs, int8 first."""
    return [kv_name(dtype) for dtype in formats_of(device)]


def kv_sweep(
    random_weights: str | None,
    kv_dtypes: Sequence[str],
    rows: int,
    contexts: Sequence[int],
    progress: Progress = silent,
) -> dict:
    """Decode steps of ``rows`` rows at each of ``contexts`` (tokens of a row), for each KV dtype.

    Args:
        random_weights: shape of a model without a checkpoint; None: the bundled model.
        kv_dtypes: "auto", the model's own, comes first whether it is listed or not.

    Returns:
        ``device``, ``backend``, ``rows``, ``weight_bytes``, ``bandwidth`` (bytes/s), ``plain`` (the model's own KV
        dtype) and ``lines``: by KV dtype ``kv_bytes`` (of a token), ``tokens`` (context of all rows), ``ms``,
        ``floor_ms``, ``base_ms`` and ``per_token_ms``.
    """
    asked = ["auto", *(name for name in kv_dtypes if name != "auto")]
    lines, last = {}, {}
    for place, kv_dtype in enumerate(asked):

        def share(what: str, done: float, place: int = place) -> None:
            progress(what, (place + done) / len(asked))

        last = decode_sweep(random_weights, (rows,), contexts, share, kv_dtype, eager=False)
        lines[last["model"]["kv_dtype"]] = _line(last)
    return {
        "device": last["device"],
        "backend": last["backend"],
        "rows": rows,
        "weight_bytes": last["model"]["weight_bytes"],
        "bandwidth": last["machine"]["bandwidth"],
        "plain": next(iter(lines)),
        "lines": lines,
    }


def _line(swept: dict) -> dict:
    entries = swept["entries"]
    tokens, ms = [e["rows"] * e["context"] for e in entries], [e["ms_per_step"] for e in entries]
    base, per_token = fitted(tokens, ms)
    floor = [entry["floor_ms"] for entry in entries]
    facts = {"kv_bytes": swept["model"]["kv_bytes"], "tokens": tokens, "ms": ms, "floor_ms": floor}
    return facts | {"base_ms": base, "per_token_ms": per_token}


def fitted(tokens: Sequence[float], ms: Sequence[float]) -> Line:
    """Least squares of ``ms`` over (1, tokens), each point weighted by 1 / ms; a negative slope counts as flat."""
    slope, base = np.polyfit(tokens, ms, 1, w=1 / np.array(ms)) if len(tokens) > 1 else (0.0, ms[0])
    return (float(base), float(slope)) if slope > 0 else (float(np.median(ms)), 0.0)


def break_even(plain: Line, other: Line, gain: float = 1.0) -> float | None:
    """Tokens of context from which on ``other`` is ``gain`` times as fast: 0 from the first one on, None never."""
    short, per_token = gain * other[0] - plain[0], plain[1] - gain * other[1]
    if short <= 0 and per_token >= 0:
        return 0.0
    return short / per_token if per_token > 0 else None


def byte_lines(weight_bytes: float, kv_bytes: float, share: float, bandwidth: float = 1e12) -> tuple[Line, Line]:
    """Both lines where bytes alone take time; ``share``: quantised over plain bytes of a token."""
    base, per_token = weight_bytes / bandwidth * 1e3, kv_bytes / bandwidth * 1e3
    return (base, per_token), (base, share * per_token)
