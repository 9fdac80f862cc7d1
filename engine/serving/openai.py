"""``/v1``: models, completions and chat completions, as OpenAI's clients expect them."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from engine.answers import Delta
from engine.driver import Driver
from engine.errors import FlightdeckError
from engine.serving import parameters
from engine.serving.guard import error_body, error_response, guarded, json_body
from engine.serving.shapes import CHAT, COMPLETION, Shape
from engine.stream import Stream

T = TypeVar("T")


def routes(get_driver: Callable[[], Driver]) -> list[Route]:
    """The routes under ``/v1``. ``get_driver`` is asked at each request, so that a page may replace the driver."""

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [_model(get_driver())]})

    async def completions(request: Request) -> Response:
        body = await json_body(request)
        return await _serve(request, get_driver(), body, parameters.prompts(body), COMPLETION)

    async def chat(request: Request) -> Response:
        body, driver = await json_body(request), get_driver()
        return await _serve(request, driver, body, [driver.tokenizer.chat(parameters.messages(body))], CHAT)

    return [
        Route("/v1/models", guarded(models)),
        Route("/v1/completions", guarded(completions), methods=["POST"]),
        Route("/v1/chat/completions", guarded(chat), methods=["POST"]),
    ]


def model_id(driver: Driver) -> str:
    """The name under which the loaded model is served."""
    return driver.config.worker.random_weights or driver.config.worker.model


def _model(driver: Driver) -> dict:
    context = driver.limits.max_model_len
    return {"id": model_id(driver), "object": "model", "created": 0, "owned_by": "local", "max_model_len": context}


async def _serve(request: Request, driver: Driver, body: dict, prompts: list, shape: Shape) -> Response:
    wanted = body.get("model") or model_id(driver)
    if wanted != model_id(driver):
        return error_response(404, f"model {wanted!r} is not loaded; {model_id(driver)!r} is", param="model")
    params = parameters.sampling_params(body)
    streams_wanted = parameters.flag(body, "stream")
    ids = [driver.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt for prompt in prompts]
    if streams_wanted and len(ids) > 1:
        return error_response(400, "prompt: one prompt when streaming", param="prompt")
    streams = []
    try:
        for prompt in ids:
            limit = params.max_tokens
            limit = parameters.default_max_tokens(driver.limits, len(prompt)) if limit is None else limit
            streams.append(driver.submit(prompt, replace(params, max_tokens=limit)))
        head = {"id": shape.prefix + uuid.uuid4().hex, "created": int(time.time()), "model": model_id(driver)}
        if streams_wanted:
            with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return await _stream(request, streams[0], head, shape, len(ids[0]) if with_usage else None)
        deltas = await _unless_gone(request, asyncio.gather(*map(_collect, streams)))
    except BaseException:
        for stream in streams:
            stream.abort()
        raise
    choices = [shape.choice(index, answer, driver.tokenizer) for index, answer in enumerate(deltas)]
    usage = _usage(sum(map(len, ids)), sum(len(delta.token_ids) for answer in deltas for delta in answer))
    return JSONResponse(head | {"object": shape.object, "choices": choices, "usage": usage})


async def _stream(request: Request, stream: Stream, head: dict, shape: Shape, prompt_tokens: int | None) -> Response:
    """Server-sent events. The first delta is awaited, so that a refused request is a 400 and not a broken stream."""
    deltas = aiter(stream)
    first = await _unless_gone(request, anext(deltas))

    async def events() -> AsyncIterator[str]:
        produced, delta = 0, first
        try:
            while True:
                produced += len(delta.token_ids)
                yield _event(head | {"object": shape.chunk_object, "choices": [shape.chunk(delta, delta is first)]})
                if delta.cause is not None:
                    break
                delta = await anext(deltas)
            if prompt_tokens is not None:
                yield _event(
                    head | {"object": shape.chunk_object, "choices": [], "usage": _usage(prompt_tokens, produced)}
                )
            yield "data: [DONE]\n\n"
        except FlightdeckError as error:
            yield _event(error_body(str(error), "service_unavailable"))
        finally:
            await deltas.aclose()

    return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


async def _collect(stream: Stream) -> list[Delta]:
    return [delta async for delta in stream]


async def _unless_gone(request: Request, work: Awaitable[T]) -> T:
    """The result of ``work``, cancelled when the client goes away first: then nobody needs the answer."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
        return await working
    finally:
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _usage(prompt: int, completion: int) -> dict:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _event(data: dict) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"
