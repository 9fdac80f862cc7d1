"""What an engine can accept. Checked in the caller's thread, before a request costs anybody anything."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import InvalidRequest
from engine.request import SamplingParams

SEED_RANGE = 2**63


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a loaded model in its pool.

    Args:
        vocab_size: token ids are 0 .. vocab_size - 1.
        max_model_len: tokens of context, prompt + output.
        pool_tokens: token slots of the KV pool.
        eos_ids: ids that end an answer.
    """

    vocab_size: int
    max_model_len: int
    pool_tokens: int
    eos_ids: frozenset[int] = frozenset()

    @property
    def max_tokens(self) -> int:
        """The longest prompt + output of one request."""
        return min(self.max_model_len, self.pool_tokens)

    def check(self, prompt_ids: Sequence[int], params: SamplingParams) -> int:
        """The concrete ``max_tokens`` of a request.

        An answer is cut at the context (one token short of it still gives one token). It is not cut at the pool: a
        request that asks for more than the pool holds is refused on arrival, with the reason.

        Raises:
            InvalidRequest: naming the field and what it accepts.
        """
        params.validate(self.vocab_size)
        if params.seed is not None and not -SEED_RANGE <= params.seed < SEED_RANGE:
            raise InvalidRequest("seed", "a whole number of 64 bits, or none", params.seed)
        self._check_prompt(prompt_ids)
        room = self.max_model_len - len(prompt_ids)
        forced = params.forced_output_length
        if forced is not None and forced > room:
            raise InvalidRequest("forced_output_length", f"at most {room} after this prompt", forced)
        if params.max_tokens is None:
            return forced or self.max_tokens - len(prompt_ids)
        return min(params.max_tokens, room)

    def _check_prompt(self, prompt_ids: Sequence[int]) -> None:
        if not len(prompt_ids):
            raise InvalidRequest("prompt", "at least one token", [])
        for token in prompt_ids:
            if not isinstance(token, int) or not 0 <= token < self.vocab_size:
                raise InvalidRequest("prompt", f"token ids in 0..{self.vocab_size - 1}", token)
        for limit, what in ((self.max_model_len, "context"), (self.pool_tokens, "KV pool")):
            if len(prompt_ids) >= limit:
                allowed = f"at most {limit - 1} tokens (the {what} holds {limit}, and one is for the answer)"
                raise InvalidRequest("prompt", allowed, f"{len(prompt_ids)} tokens")
