"""A request: one prompt, its sampling parameters, its tokens and where it stands.

One integer drives it: ``num_computed_tokens`` catches up with ``num_tokens``. There is no prefill flag.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from engine.errors import InvalidRequest


class RequestState(IntEnum):
    """States of a request (design: Words)."""

    WAITING = 0
    RUNNING = 1
    PREEMPTED = 2
    FINISHED = 3
    ABORTED = 4
    REFUSED = 5


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen and when the answer ends. Defaults are greedy-free OpenAI-like sampling.

    ``temperature`` 0 is greedy. ``top_k`` 0 or -1 keeps all. ``seed`` None draws one at submit (recorded).
    ``logprobs`` n returns the n best raw log-probabilities with each token. ``forced_output_length`` ends the answer
    after exactly that many tokens whatever is sampled; the scheduler's plans see only ``max_tokens``.
    """

    max_tokens: int | None = None  # None: as long as context and pool allow
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    min_tokens: int = 0
    logprobs: int | None = None
    forced_output_length: int | None = None

    def validate(self, vocab_size: int) -> "SamplingParams":
        """Return self, or raise ``InvalidRequest`` naming the field and what it accepts."""
        _check("max_tokens", self.max_tokens, self.max_tokens is None or self.max_tokens >= 1, "at least 1, or none")
        _check("temperature", self.temperature, 0 <= self.temperature < float("inf"), "0 or more")
        _check("top_k", self.top_k, self.top_k >= -1, "-1 or 0 (all), or at least 1")
        _check("top_p", self.top_p, 0 < self.top_p <= 1, "0 < top_p <= 1")
        _check("min_p", self.min_p, 0 <= self.min_p <= 1, "0 <= min_p <= 1")
        _check("repetition_penalty", self.repetition_penalty, 0 < self.repetition_penalty < float("inf"), "more than 0")
        for name in ("presence_penalty", "frequency_penalty"):
            _check(name, getattr(self, name), -2 <= getattr(self, name) <= 2, f"-2 <= {name} <= 2")
        _check("min_tokens", self.min_tokens, self.min_tokens >= 0, "0 or more")
        _check("logprobs", self.logprobs, self.logprobs is None or 0 <= self.logprobs <= 20, "0 to 20, or none")
        forced = self.forced_output_length
        _check("forced_output_length", forced, forced is None or forced >= 1, "at least 1, or none")
        for token in self.stop_token_ids:
            _check("stop_token_ids", token, 0 <= token < vocab_size, f"token ids in 0..{vocab_size - 1}")
        _check("stop", self.stop, all(isinstance(s, str) and s for s in self.stop), "non-empty strings")
        return self

    @property
    def is_plain(self) -> bool:
        """True when neither penalties nor filters change the logits (the fast sampling path)."""
        penalties = self.repetition_penalty == 1 and self.presence_penalty == 0 and self.frequency_penalty == 0
        return penalties and self.top_k <= 0 and self.top_p >= 1 and self.min_p <= 0


@dataclass(slots=True, eq=False)
class Request:
    """The engine's own record of a request. ``id`` is the engine's number (0, 1, ...), ``name`` the caller's."""

    id: int
    prompt_ids: list[int]
    params: SamplingParams
    max_tokens: int  # params.max_tokens made concrete at submit
    seed: int
    name: str = ""
    priority: int = 0
    salt: int = 0  # part of the prefix-cache key: requests with other salts share nothing
    arrived_ns: int = 0
    state: RequestState = RequestState.WAITING
    token_ids: list[int] = field(default_factory=list)  # prompt + output, known on the host
    num_scheduled_tokens: int = 0  # moves at launch
    num_computed_tokens: int = 0  # moves at apply
    num_cached_tokens: int = 0  # got from a prefix hit, last admission (statistics only)
    row: int = -1
    epoch: int = 0  # +1 whenever results in flight become stale (preempt, finish, abort)
    blocks: list[int] = field(default_factory=list)
    block_hashes: list[bytes] = field(default_factory=list)  # chained, one per full block whose ids are known
    num_hashed_blocks: int = 0  # of this admission: blocks already registered
    num_preemptions: int = 0
    num_tokens_at_admission: int = 0  # known when it got its row: up to here it prefills, from here on it decodes
    kv_limit: int = 0  # tokens whose KV it may ever need: prompt + max_tokens - 1, within the context
    ends_at: int = (
        0  # num_tokens at which the answer ends, whatever is sampled (forced_output_length, else kv_limit + 1)
    )
    ending_ids: frozenset[int] = frozenset()  # end-of-sequence and stop ids that end this answer

    def __post_init__(self) -> None:
        if not self.token_ids:
            self.token_ids = list(self.prompt_ids)

    @property
    def num_tokens(self) -> int:
        """Tokens known on the host: prompt + output."""
        return len(self.token_ids)

    @property
    def num_prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self.prompt_ids)

    @property
    def num_output_tokens(self) -> int:
        """Tokens generated so far, known on the host."""
        return len(self.token_ids) - len(self.prompt_ids)

    @property
    def num_to_prefill(self) -> int:
        """Tokens known at admission that no step has been launched for; 0 or less once it decodes."""
        return self.num_tokens_at_admission - self.num_scheduled_tokens

    @property
    def num_in_flight_samples(self) -> int:
        """Tokens being sampled by launched steps, not known on the host yet."""
        return max(0, self.num_scheduled_tokens - len(self.token_ids) + 1)

    @property
    def output_ids(self) -> list[int]:
        """The generated tokens."""
        return self.token_ids[len(self.prompt_ids) :]


def _check(name: str, value: object, ok: bool, allowed: str) -> None:
    if not ok:
        raise InvalidRequest(name, allowed, value)
