"""The same requests to any OpenAI-compatible server by URL, with latencies as its client sees them.

Prompts go as token ids and lengths are forced (``ignore_eos``, which vLLM, SGLang and llama.cpp know), so the server
does the work that our engine does. Tokens are counted by the server's ``usage``; a gap is the time between two events,
whatever number of tokens an event brings, as ``vllm bench serve`` has it.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.trace.metrics import ranks
from engine.workload.drive import Progress, silent
from engine.workload.http_stream import Server, ServerError
from engine.workload.items import Item, Workload, fit

AT_ONCE = 256  # connections, unless a concurrency is given
FORMULAS: dict[str, str] = {
    "completed": "requests whose answer came to its end",
    "failed": "requests that the server refused or broke off; the first reason is said",
    "duration_s": "first request sent to last event received, on the client",
    "total_input_tokens": "prompt tokens by the server's usage",
    "total_output_tokens": "completion tokens by the server's usage",
    "request_throughput": "completed / duration",
    "output_throughput": "total_output_tokens / duration",
    "total_token_throughput": "(total_input_tokens + total_output_tokens) / duration",
    "median_ttft_ms": "request sent to first event with an answer",
    "p99_ttft_ms": "the same, 99th percentile",
    "median_tpot_ms": "(e2el - ttft) / (output tokens - 1)",
    "median_itl_ms": "gap between two events of an answer, all pooled",
    "p99_itl_ms": "the same, 99th percentile",
    "median_e2el_ms": "request sent to last event",
}


@dataclass(slots=True)
class _Reply:
    """One answer as the client saw it; seconds of the client's clock."""

    sent_s: float
    event_s: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    tokens: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Served:
    """The model that a server offers; ``max_model_len`` 0 when it does not say."""

    model: str
    max_model_len: int


def ask(server: Server) -> Served:
    """What a server serves: the first of ``/v1/models``.

    Raises:
        ServerError: nothing answers there, or it serves nothing.
    """
    return asyncio.run(_ask(server))


def drive_url(
    server: Server, workload: Workload, model: str, concurrency: int | None = None, progress: Progress = silent
) -> dict:
    """Send a workload at its arrival times; returns the keys of ``FORMULAS``, all latencies, and ``error``.

    Args:
        model: the name to ask for.
        concurrency: closed loop: at most this many under way.

    Raises:
        ServerError: every request failed; the message is the first one's.
    """
    replies = asyncio.run(_drive(server, workload.items, model, concurrency or AT_ONCE, progress))
    return _figures(replies)


def fitted(workload: Workload, served: Served, vocab_size: int) -> Workload:
    """The workload cut to what a server can take; its vocabulary is the caller's word."""
    return fit(workload, served.max_model_len or workload.longest, vocab_size)


async def _ask(server: Server) -> Served:
    offered = (await server.json("/v1/models")).get("data") or []
    if not offered:
        raise ServerError(f"{server.url.geturl()} serves no model")
    return Served(str(offered[0]["id"]), int(offered[0].get("max_model_len") or 0))


async def _drive(
    server: Server, items: Sequence[Item], model: str, concurrency: int, progress: Progress
) -> list[_Reply]:
    gate, start, done = asyncio.Semaphore(concurrency), time.perf_counter(), 0

    async def one(item: Item) -> _Reply:
        nonlocal done
        await asyncio.sleep(max(0.0, start + item.arrival_s - time.perf_counter()))
        async with gate:
            reply = await _reply(server, item, model)
        done += 1
        progress(f"requests to {server.url.netloc}", done / len(items))
        return reply

    return list(await asyncio.gather(*map(one, items)))


async def _reply(server: Server, item: Item, model: str) -> _Reply:
    reply = _Reply(time.perf_counter())
    try:
        async for event in server.events("/v1/completions", _body(item, model)):
            if event.get("choices"):
                reply.event_s.append(time.perf_counter())
            usage = event.get("usage") or {}
            reply.prompt_tokens = usage.get("prompt_tokens", reply.prompt_tokens)
            reply.tokens = usage.get("completion_tokens", reply.tokens)
    except ServerError as error:
        reply.error = str(error)
    return reply


def _body(item: Item, model: str) -> dict:
    params = item.sampling()
    return {
        "model": model,
        "prompt": item.prompt_ids,
        "max_tokens": item.output_length,
        "temperature": params.temperature,
        "seed": params.seed,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _figures(replies: Sequence[_Reply]) -> dict:
    done = [reply for reply in replies if not reply.error and reply.event_s]
    errors = [reply.error or "an answer without tokens" for reply in replies if reply.error or not reply.event_s]
    if not done:
        raise ServerError(errors[0])
    seconds = max(reply.event_s[-1] for reply in done) - min(reply.sent_s for reply in replies)
    tokens_in, tokens_out = sum(reply.prompt_tokens for reply in done), sum(reply.tokens for reply in done)
    return {
        "completed": len(done),
        "failed": len(errors),
        "error": errors[0] if errors else "",
        "duration_s": seconds,
        "total_input_tokens": tokens_in,
        "total_output_tokens": tokens_out,
        "request_throughput": len(done) / seconds,
        "output_throughput": tokens_out / seconds,
        "total_token_throughput": (tokens_in + tokens_out) / seconds,
        **_latencies(done),
    }


def _latencies(done: Sequence[_Reply]) -> dict[str, float]:
    samples = {
        "ttft": [reply.event_s[0] - reply.sent_s for reply in done],
        "tpot": [(r.event_s[-1] - r.event_s[0]) / (r.tokens - 1) for r in done if r.tokens > 1],
        "itl": [late - early for reply in done for early, late in zip(reply.event_s, reply.event_s[1:])],
        "e2el": [reply.event_s[-1] - reply.sent_s for reply in done],
    }
    found = {}
    for name, values in samples.items():
        found |= {f"{rank}_{name}_ms": 1e3 * value for rank, value in ranks(values).items()}
    return found
