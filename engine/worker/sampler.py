"""Chooses the next token of each row: log-probabilities, penalties, forbidden ids, then one draw.

In this order, per row: raw log-probabilities are taken (before anything else changes the logits); penalties; ids that
may not end the answer yet (``min_tokens``) get -inf; temperature, top-k, top-p, min-p and the draw (kernels.sampling).
Ids beyond the tokenizer's vocabulary are cut off before all that: they are never chosen and never listed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.step import Int32, RowAdmit
from engine.worker.penalties import PenaltyCounts
from engine.worker.spec import ModelSpec
from engine.worker.step_batch import Staging, StepBatch
from kernels.sampling import sample

_FLOATS = ("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
_SEED_MASK = (1 << 63) - 1  # any whole number may be a seed
_GREEDY = (0.0, 1.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(slots=True)
class Choice:
    """What a step chose, on the device: one entry per sampling row."""

    ids: Tensor  # int32 [S]
    logprobs: "Logprobs | None" = None


@dataclass(slots=True)
class Logprobs:
    """Raw log-probabilities of the L rows that asked, on the device or (``to_host``) beside it."""

    entries: list[int]  # which of the S sampling entries
    wanted: list[int]  # how many of the best each row asked for
    best_ids: Tensor  # int64 [L, n]
    best: Tensor  # fp32 [L, n]
    chosen: Tensor  # fp32 [L]

    def to_dicts(self, token_ids: Int32) -> list[dict[int, float] | None]:
        """Per sampling entry ``{token_id: logprob}``: the best ones and the chosen one; None where nobody asked."""
        found: list[dict[int, float] | None] = [None] * len(token_ids)
        rows = zip(self.entries, self.wanted, self.best_ids.tolist(), self.best.tolist(), self.chosen.tolist())
        for entry, wanted, ids, values, chosen in rows:
            found[entry] = dict(zip(ids[:wanted], values[:wanted])) | {int(token_ids[entry]): chosen}
        return found


class Sampler:
    """Sampling parameters of all seats: on the device what kernels read, on the host what decides the path."""

    def __init__(self, spec: ModelSpec, seats: int, device: torch.device, backend: str) -> None:
        self.spec, self.backend, self.device = spec, backend, device
        self.floats = torch.tensor(_GREEDY, device=device).unsqueeze(1).repeat(1, seats)  # [6, seats]
        self.top_k = torch.zeros(seats, dtype=torch.int32, device=device)
        self.seeds = torch.zeros(seats, dtype=torch.int64, device=device)
        self.penalties = PenaltyCounts(spec.num_token_ids, seats, device, backend)
        self.filtered = np.zeros(seats, dtype=bool)
        self.num_logprobs = np.full(seats, -1, dtype=np.int64)
        self.may_end_at = np.zeros(seats, dtype=np.int64)  # position from which the answer may end
        self.ending_ids: list[list[int]] = [[] for _ in range(seats)]
        self.staging = Staging(device)

    def admit(self, admits: Sequence[RowAdmit], tokens: Tensor) -> None:
        """Reset the parameters of freshly admitted rows; ``tokens`` is the device's ``[seats, width]``."""
        if not admits:
            return
        floats = [[getattr(admit.params, name) for admit in admits] for name in _FLOATS]
        arrays = [
            np.array([admit.row for admit in admits], dtype=np.int32),
            np.array([admit.params.top_k for admit in admits], dtype=np.int32),
            np.array([admit.seed & _SEED_MASK for admit in admits], dtype=np.int64).view(np.int32),
            np.array(floats, dtype=np.float32).reshape(-1).view(np.int32),
        ]
        rows, top_k, seeds, flat = self.staging.send(arrays)
        self.top_k[rows] = top_k
        self.seeds[rows] = seeds.view(torch.int64)
        self.floats[:, rows] = flat.view(torch.float32).view(len(_FLOATS), -1)
        for admit in admits:
            self._remember(admit)
            self.penalties.admit(admit, tokens)

    def _remember(self, admit: RowAdmit) -> None:
        row, params = admit.row, admit.params
        self.filtered[row] = params.top_k > 0 or params.top_p < 1 or params.min_p > 0
        self.num_logprobs[row] = -1 if params.logprobs is None else params.logprobs
        self.may_end_at[row] = admit.prompt_length + params.min_tokens
        self.ending_ids[row] = sorted(self.spec.eos_ids.union(params.stop_token_ids))

    def forget(self) -> None:
        """Empty all rows; what the device remembers of them is overwritten at their next admission."""
        self.filtered[:] = False
        self.num_logprobs[:] = -1
        self.may_end_at[:] = 0
        self.penalties.forget()

    def draw(self, logits: Tensor, batch: StepBatch) -> Tensor:
        """Choose by temperature, and by filters if the step has them: int32 ids of ``logits`` ``[R, vocab]``.

        Padding gets any id. Reads nothing that the host may move, so that it can stand in a graph.
        """
        logits, unread = logits[:, : self.spec.num_token_ids], batch.temperature
        filters = (unread, unread, unread)
        if batch.filtered:
            filters = (self.top_k[batch.rows], *self.floats[1:3, batch.rows])
        arguments = batch.temperature, *filters, batch.seeds, batch.context_lens
        return sample(logits, *arguments, plain=not batch.filtered, backend=self.backend)

    def asks_for_more(self, rows: Int32, positions: Int32) -> bool:
        """Whether a row needs ``choose``: penalties, log-probabilities, or an end that is forbidden yet."""
        special = self.penalties.penalised[rows] | (self.num_logprobs[rows] >= 0)
        return bool((special | (positions < self.may_end_at[rows])).any())

    def choose(self, logits: Tensor, seats: Tensor, where: Tensor, rows: Int32, positions: Int32) -> Choice:
        """Choose one token per sampling row.

        Args:
            logits: ``[S, vocab]``, changed in place.
            seats, where: int32 [S] on the device: the row, and the position at which its chosen token will stand.
            rows, positions: the same on the host.
        """
        logits = logits[:, : self.spec.num_token_ids]
        asked = np.flatnonzero(self.num_logprobs[rows] >= 0)
        raw = torch.log_softmax(logits[self._index(asked)].float(), dim=-1) if asked.size else None
        floats = self.floats[:, seats]
        logits = self.penalties.apply(logits, rows, floats[3:])
        self._forbid_ending(logits, rows, positions)
        temperature, top_p, min_p = floats[:3]
        plain = not self.filtered[rows].any()
        top_k, seeds = self.top_k[seats], self.seeds[seats]
        ids = sample(logits, temperature, top_k, top_p, min_p, seeds, where, plain, backend=self.backend)
        self.penalties.count(rows, ids)
        return Choice(ids, None if raw is None else self._logprobs(raw, asked, rows, ids))

    def _forbid_ending(self, logits: Tensor, rows: Int32, positions: Int32) -> None:
        """Ids that end an answer get -inf in rows that are still below ``min_tokens``."""
        early = np.flatnonzero(positions < self.may_end_at[rows]).tolist()
        pairs = [(entry, token) for entry in early for token in self.ending_ids[rows[entry]]]
        if pairs:
            entries, tokens = self._index(np.array(pairs, dtype=np.int64).T)
            logits[entries, tokens] = float("-inf")

    def _logprobs(self, raw: Tensor, asked: np.ndarray, rows: Int32, ids: Tensor) -> Logprobs:
        wanted = self.num_logprobs[rows[asked]].tolist()
        best, best_ids = raw.topk(min(max(wanted), raw.shape[1]), dim=-1)
        chosen = raw.gather(1, ids[self._index(asked)].long().unsqueeze(1)).squeeze(1)
        return Logprobs(asked.tolist(), wanted, best_ids, best, chosen)

    def _index(self, array: np.ndarray) -> Tensor:
        """A host index on the device (rare: general sampling only)."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, non_blocking=True)
