"""How long an answer may get, what ends it, and which requests could never be answered here."""

from engine.config import SchedulingConfig
from engine.request import Request
from engine.trace.events import Cause, Reason, Refuse


class AnswerLimits:
    """The bounds of answers under one configuration.

    Planning sees only ``kv_limit`` (from max_tokens and the context); the end of the answer may come earlier, and
    then a row-step that was launched already is wasted.
    """

    def __init__(self, config: SchedulingConfig, eos_ids: frozenset[int]) -> None:
        self.config = config
        self.eos_ids = eos_ids

    def refusal(self, request: Request) -> Refuse | None:
        """Why ``request`` can never run here, or None. A request that passes is sure to end."""
        config, prompt = self.config, request.num_prompt_tokens
        if prompt + 1 > config.max_model_len:
            return Refuse(request.id, Reason.TOO_LONG, prompt + 1, config.max_model_len)
        if not config.chunked_prefill and prompt > config.token_budget:
            return Refuse(request.id, Reason.TOKEN_BUDGET, prompt, config.token_budget)
        need = -(-self._kv_limit(request) // config.block_size)
        if need > config.pool_blocks:
            return Refuse(request.id, Reason.NEVER_FITS, need, config.pool_blocks)
        return None

    def set_on(self, request: Request) -> None:
        """Write the concrete bounds into ``request``. A forced length ends it exactly there, whatever is sampled."""
        params = request.params
        answer = params.forced_output_length or request.max_tokens
        request.kv_limit = self._kv_limit(request)
        request.ends_at = min(request.num_prompt_tokens + answer, request.kv_limit + 1)
        if params.forced_output_length is None:
            request.ending_ids = frozenset(params.stop_token_ids).union(() if params.ignore_eos else self.eos_ids)

    def cause_of_end(self, request: Request, token: int) -> Cause | None:
        """Why ``token``, just appended, ends the answer; None when it goes on."""
        if token in request.ending_ids and request.num_output_tokens > request.params.min_tokens:
            return Cause.EOS if token in self.eos_ids and not request.params.ignore_eos else Cause.STOP
        return Cause.LENGTH if len(request.token_ids) >= request.ends_at else None

    def _kv_limit(self, request: Request) -> int:
        """Tokens whose KV the longest possible answer needs: its last token is never computed."""
        return min(request.num_prompt_tokens + request.max_tokens, self.config.max_model_len) - 1
