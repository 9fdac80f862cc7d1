"""What a KV cache is worth: one answer token by token, once with the cache and once computing everything anew."""

from random import Random

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.loading import LoadedModel, load_model
from engine.provenance import device_name
from engine.trace.recorder import ListSink
from engine.trace.timed_steps import timed_steps
from engine.workload.drive import FAIR, Progress, drive, silent
from engine.workload.items import Item


def cache_worth(random_weights: str | None, prompt: int, tokens: int, progress: Progress = silent) -> dict:
    """Seconds of each token of one greedy answer, with a KV cache and without.

    Without: for every token the whole sequence so far is prefilled, and one token is taken from it. A model of its own
    is loaded in this process, and leaves again.

    Args:
        random_weights: shape of a model without a checkpoint; None: the bundled model.
        prompt: its tokens.
        tokens: of the answer.

    Returns:
        ``device``, ``model`` (``layers``, ``hidden``, ``query_heads``, ``kv_heads``, ``head_dim``, ``item_bytes``,
        ``kv_bytes``), ``cached_ms`` and ``uncached_ms``: one number for each token; the first is the prefill.
    """
    scheduling = SchedulingConfig(
        max_num_seqs=1, token_budget=prompt + tokens, max_model_len=prompt + tokens + 1, prefix_cache=False
    )
    config = EngineConfig(scheduling, WorkerConfig(random_weights=random_weights), -(-(prompt + tokens + 1) // 16) + 1)
    model = load_model(config, (), lambda what, done: progress(what, 0.2 * done))
    try:
        ids = _prompt(prompt, model.limits.vocab_size)
        _answer(model, ids, min(tokens, 4))  # warm-up
        progress("with the cache", 0.3)
        output, cached = _answer(model, ids, tokens)
        uncached = []
        for place in range(tokens):
            progress("without the cache", 0.3 + 0.7 * place / tokens)
            uncached += _answer(model, ids + output[:place], 1)[1]
        return {"device": device_name(model.worker.device), "model": _facts(model)} | {
            "cached_ms": cached,
            "uncached_ms": uncached,
        }
    finally:
        model.close()


def _answer(model: LoadedModel, ids: list[int], tokens: int) -> tuple[list[int], list[float]]:
    """The answer, and the milliseconds of each of its steps."""
    sink = ListSink()
    outcome = drive(model.new_engine(FAIR, (sink,)), [Item(ids, tokens, tokens)])
    return outcome.outputs[0], [1e3 * (step.busy_s + step.idle_s) for step in timed_steps(sink.records)]


def _prompt(tokens: int, vocab: int) -> list[int]:
    draw = Random(0)
    return [draw.randrange(vocab) for _ in range(tokens)]


def _facts(model: LoadedModel) -> dict:
    spec = model.worker.spec
    return {
        "layers": spec.num_layers,
        "hidden": spec.hidden_size,
        "query_heads": spec.num_q_heads,
        "kv_heads": spec.num_kv_heads,
        "head_dim": spec.head_dim,
        "item_bytes": spec.dtype.itemsize,
        "kv_bytes": spec.kv_bytes_per_token,
    }
