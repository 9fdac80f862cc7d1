"""A worker without a model: the next token is a hash of all tokens before it. Fast, no torch, deterministic.

The tokens of a request depend on nothing but its own prefix and seed, so any mix-up of rows, positions or requests in
the engine around it shows as a wrong token. (The KV pool has an oracle of its own in tests/scheduling.)
"""

import hashlib
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from engine.config import SchedulingConfig, WorkerConfig
from engine.step import Eager, StepInput, StepOutput

VOCAB = 256


@dataclass(frozen=True)
class HashSpec:
    """What the engine reads of a model."""

    vocab_size: int = VOCAB
    eos_ids: frozenset[int] = frozenset()


def next_token(prefix: list[int], seed: int, vocab: int = VOCAB) -> int:
    """The model: printable ASCII, so that its text can be read."""
    digest = hashlib.blake2b(np.asarray([seed, *prefix], np.int64).tobytes(), digest_size=4).digest()
    return 32 + int.from_bytes(digest, "little") % 95


def expected(prompt: list[int], seed: int, count: int) -> list[int]:
    """The first ``count`` tokens of an answer."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tokens, seed))
    return tokens[len(prompt) :]


class HashWorker:
    """The ``Worker`` protocol; computes at launch, answers at poll."""

    def __init__(
        self,
        config: WorkerConfig,
        scheduling: SchedulingConfig,
        pool_blocks: int | None,
        progress=lambda text, done: None,
    ) -> None:
        progress("hashing", 0.5)
        self.spec = HashSpec(VOCAB if config.random_weights else 4096)  # 4096: with the bundled tokenizer
        self.device, self.backend = "cpu", "reference"
        self.memory_map = {"weights": 0, "kv_pool": 0}
        self.graphs = []
        self.reset(replace(scheduling, pool_blocks=pool_blocks or 64))

    def reset(self, scheduling: SchedulingConfig) -> None:
        """Forget all rows."""
        self.scheduling = scheduling
        self._tokens: dict[int, dict[int, int]] = {}
        self._seeds: dict[int, int] = {}
        self._done: deque[StepOutput] = deque()

    def launch(self, step: StepInput) -> None:
        """Sample each row that asks for it; the token is known to the row at once, to the host at poll."""
        for admit in step.admits:
            self._tokens[admit.row] = dict(enumerate(admit.token_ids))
            self._seeds[admit.row] = admit.seed
        sampled = [i for i in range(len(step.rows)) if step.samples[i]]
        tokens = [self._sample(int(step.rows[i]), int(step.starts[i] + step.num_tokens[i])) for i in sampled]
        self._done.append(
            StepOutput(step.step, step.rows[sampled], step.epochs[sampled], np.asarray(tokens, np.int32), gpu_us=1.0)
        )

    def poll(self, block: bool = True) -> list[StepOutput]:
        """The oldest finished step; without ``block`` none, as a slow device would answer."""
        return [self._done.popleft()] if self._done and block else []

    def prepare(self) -> bool:
        """Nothing to capture."""
        return False

    def graph_for(self, tokens: int, decode: bool) -> tuple[int, Eager]:
        """There are no graphs."""
        return 0, Eager.NO_GRAPHS

    def warm_up(self) -> None:
        """Nothing to compile."""

    def close(self) -> None:
        """Nothing to give back."""

    def _sample(self, row: int, position: int) -> int:
        known = self._tokens[row]
        known[position] = next_token([known[i] for i in range(position)], self._seeds[row])
        return known[position]
