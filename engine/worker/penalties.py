"""Which tokens a row has used, on the device, for rows with a repetition, presence or frequency penalty.

Nothing is allocated until the first such row is admitted. Counts are rebuilt from ``tokens`` whenever a row is
admitted, so a resumed request goes on as if it had never been preempted.
"""

import numpy as np
import torch
from torch import Tensor

from engine.step import Int32, RowAdmit
from kernels.penalties import apply_penalties


class PenaltyCounts:
    """``counts[row, token]`` of the output and ``in_prompt[row, token]``; only penalised rows are kept current."""

    def __init__(self, vocab_size: int, seats: int, device: torch.device, backend: str) -> None:
        self.shape, self.device, self.backend = (seats, vocab_size), device, backend
        self.penalised = np.zeros(seats, dtype=bool)
        self.counts: Tensor | None = None  # int32 [seats, vocab]
        self.in_prompt: Tensor | None = None  # int8 [seats, vocab + 1]; the last column takes ids without a text

    def forget(self) -> None:
        """No row is penalised any more."""
        self.penalised[:] = False

    def admit(self, admit: RowAdmit, tokens: Tensor) -> None:
        """Start a row over: read its prompt and its output so far from ``tokens[row]``."""
        row, params = admit.row, admit.params
        neutral = (params.repetition_penalty, params.presence_penalty, params.frequency_penalty) == (1, 0, 0)
        self.penalised[row] = not neutral
        if neutral:
            return
        if self.counts is None:
            self.counts = torch.zeros(self.shape, dtype=torch.int32, device=self.device)
            self.in_prompt = torch.zeros(self.shape[0], self.shape[1] + 1, dtype=torch.int8, device=self.device)
        stream = tokens[row, : len(admit.token_ids)].long()
        prompt, output = stream[: admit.prompt_length], stream[admit.prompt_length :]
        self.in_prompt[row].zero_().index_fill_(0, prompt.clamp(max=self.shape[1]), 1)
        ones = torch.ones_like(output, dtype=torch.int32)
        self.counts[row].zero_().index_add_(0, output, ones)

    def apply(self, logits: Tensor, rows: Int32, penalties: Tensor) -> Tensor:
        """Logits ``[S, vocab]`` with those of penalised rows lowered: the same tensor if there are none, else in fp32.

        Args:
            rows: seats of the S entries, on the host.
            penalties: fp32 ``[3, S]``: repetition, presence, frequency.
        """
        entries = np.flatnonzero(self.penalised[rows])
        if not entries.size:
            return logits
        logits = logits.float()
        seats, entries = self._index(rows[entries]), self._index(entries)
        some = logits[entries]
        repetition, presence, frequency = penalties[:, entries]
        counts, in_prompt = self.counts[seats], self.in_prompt[seats, : self.shape[1]]
        apply_penalties(some, counts, in_prompt, repetition, presence, frequency, backend=self.backend)
        logits[entries] = some
        return logits

    def count(self, rows: Int32, ids: Tensor) -> None:
        """Add the chosen ``ids`` [S] to the counts of penalised rows."""
        entries = np.flatnonzero(self.penalised[rows])
        if entries.size:
            seats = self._index(rows[entries])
            self.counts[seats, ids[self._index(entries)].long()] += 1

    def _index(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(array, dtype=np.int64)).to(self.device, non_blocking=True)
