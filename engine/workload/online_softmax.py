"""Attention over tiles of keys, one tile at a time, with everything a tile changes kept for a reader to look at.

The formula of ``kernels.prefill`` in numpy and fp32, on a problem small enough to read: the last ``QUERIES`` tokens of
``KEYS``, one head of ``DIM`` numbers, causal. As in the kernel, scores carry log2(e), so that powers are of two. Run as
a module with ``TRITON_INTERPRET=1`` it sends the same problem through the real Triton kernel and prints the output.
"""

import json
import sys
from dataclasses import dataclass

import numpy as np

QUERIES, KEYS, DIM = 4, 16, 8
TILES = (2, 4, 8)  # keys per tile that a reader may choose
LOG2_E = 1.4426950408889634
LOWEST = -1.0e30  # of the running maximum before the first key, as in the kernel


@dataclass(frozen=True, slots=True)
class Problem:
    """q (QUERIES, DIM), k and v (KEYS, DIM), fp32."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """(QUERIES, KEYS): q k / sqrt(DIM) * log2(e), and -inf where a query may not look."""
        scores = self.q @ self.k.T * np.float32(DIM**-0.5 * LOG2_E)
        seen = np.arange(KEYS) <= KEYS - QUERIES + np.arange(QUERIES)[:, None]
        return np.where(seen, scores, -np.inf).astype(np.float32)

    @property
    def expected(self) -> np.ndarray:
        """(QUERIES, DIM): softmax over all keys at once, in fp64."""
        weight = np.exp2(self.scores.astype(np.float64))
        return weight @ self.v.astype(np.float64) / weight.sum(axis=1, keepdims=True)


@dataclass(frozen=True, slots=True)
class Tile:
    """What the keys ``begin .. end`` change. All per query: (QUERIES,), ``weights`` (QUERIES, end - begin)."""

    begin: int
    end: int
    best_before: np.ndarray  # running maximum m
    best: np.ndarray
    shrink: np.ndarray  # 2^(m before - m): what the gathered parts are multiplied by
    weights: np.ndarray  # 2^(score - m)
    total: np.ndarray  # running sum l
    acc: np.ndarray  # (QUERIES, DIM), running weighted sum of v

    @property
    def rescaled(self) -> np.ndarray:
        """Queries that had gathered something and found a larger score."""
        return (self.best > self.best_before) & (self.best_before > LOWEST)


def problem(seed: int) -> Problem:
    """Random numbers; the same for the same seed in any process."""
    draw = np.random.default_rng(seed)
    q, k, v = (draw.standard_normal((rows, DIM), dtype=np.float32) for rows in (QUERIES, KEYS, KEYS))
    return Problem(q * 2, k, v)


def tiles(given: Problem, keys: int) -> list[Tile]:
    """Fold ``keys`` keys at a time into the running softmax. The answer is ``acc / total`` of the last tile.

    Raises:
        ValueError: when ``keys`` does not divide ``KEYS``.
    """
    if keys < 1 or KEYS % keys:
        raise ValueError(f"keys: a divisor of {KEYS}; got {keys}")
    scores, steps = given.scores, []
    best = np.full(QUERIES, LOWEST, np.float32)
    total, acc = np.zeros(QUERIES, np.float32), np.zeros((QUERIES, DIM), np.float32)
    for begin in range(0, KEYS, keys):
        tile = scores[:, begin : begin + keys]
        new_best = np.maximum(best, tile.max(axis=1))
        shrink = np.exp2(best - new_best)
        weights = np.exp2(tile - new_best[:, None])
        acc = acc * shrink[:, None] + weights @ given.v[begin : begin + keys]
        total = total * shrink + weights.sum(axis=1)
        steps.append(Tile(begin, begin + keys, best, new_best, shrink, weights, total, acc))
        best = new_best
    return steps


def answer(steps: list[Tile]) -> np.ndarray:
    """(QUERIES, DIM): what the last tile leaves, divided once at the end."""
    return steps[-1].acc / steps[-1].total[:, None]


def deviation(output: object, given: Problem) -> float:
    """The largest distance of an answer (QUERIES, DIM) from the softmax over all keys at once."""
    return float(np.abs(np.asarray(output, dtype=np.float64) - given.expected).max())


def through_triton(given: Problem, keys: int) -> np.ndarray:
    """The same problem through ``kernels.prefill``'s Triton kernel with tiles of ``keys`` keys, in the interpreter."""
    import torch

    from kernels import prefill
    from kernels.backend import INTERPRET, triton

    if triton is None:
        raise RuntimeError("triton is not installed: there is no kernel to run")
    if not INTERPRET:
        raise RuntimeError("TRITON_INTERPRET=1 must be set before anything imports triton")
    torch.set_num_threads(1)
    q, k, v = (torch.from_numpy(x) for x in (given.q, given.k, given.v))
    caches = [torch.stack((torch.full_like(x, torch.nan), x)).unsqueeze(1) for x in (k, v)]  # block 0 is never read
    row = [torch.tensor(x, dtype=torch.int32) for x in ([[1]], [0, QUERIES], [KEYS])]
    out = torch.full((QUERIES, 1, DIM), torch.nan)
    strides = q.shape[1], q.shape[1], *out.stride()[:2], 1
    cache_strides = [stride for cache in caches for stride in cache.stride()[:3]]
    prefill._prefill_kernel[(1, 1)](
        q, *caches, q, q, *row, out, 1, QUERIES, DIM**-0.5 * LOG2_E, *strides, *cache_strides,
        GROUP=1, HEAD_DIM=DIM, DIM_PAD=DIM, BLOCK_SIZE=KEYS, BLOCK_M=QUERIES, BLOCK_N=keys, ROWS_PAD=2, UPCAST=False,
        SCALED=False,
    )  # fmt: skip
    return out[:, 0].numpy()


if __name__ == "__main__":
    print("the Triton kernel in the interpreter", file=sys.stderr, flush=True)
    print(json.dumps(through_triton(problem(int(sys.argv[1])), int(sys.argv[2])).tolist()))
