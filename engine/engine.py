"""The engine: decides a step, launches it, applies what came back, delivers text. One thread owns it."""

import json
import random
import time
from collections.abc import Callable

from engine.answers import Answers, Delta
from engine.clock import Clock
from engine.config import EngineConfig
from engine.errors import InvalidRequest, RequestRefused
from engine.limits import Limits
from engine.request import Request, SamplingParams
from engine.run_record import keyframe_of, run_info, standing
from engine.scheduling.scheduler import Scheduler
from engine.step import StepInput, StepOutput, Worker
from engine.step_times import StepTimes
from engine.tokenizer import Tokenizer
from engine.trace.events import Arrive, Cause, Cmd, Op, Reason, Run
from engine.trace.recorder import Recorder

LONGEST_NAP_S = 0.05  # while the gate is closed; the clock may be stopped or moved by others meanwhile


class Engine:
    """Scheduler and worker in one loop.

    Args:
        config: ``config.scheduling`` made concrete by the worker (``pool_blocks`` and ``max_model_len`` are real).
        worker: computes steps.
        tokenizer: text to ids and back.
        recorder: takes every event, stamped with ``clock``.
        limits: what the loaded model accepts.
        clock: the recorder's clock; the engine stops it while paused.
        on_delta: called with each piece of each answer, in the engine's thread; None when nobody reads text.
        info: what the RUN record says besides the configuration (device, versions, memory map, ...).
    """

    def __init__(
        self,
        config: EngineConfig,
        worker: Worker,
        tokenizer: Tokenizer,
        recorder: Recorder,
        limits: Limits,
        clock: Clock,
        on_delta: Callable[[Delta], None] | None = None,
        info: dict | None = None,
    ) -> None:
        self.config, self.limits, self.clock = config, limits, clock
        self.worker, self.tokenizer, self.recorder = worker, tokenizer, recorder
        self.answers = Answers(tokenizer.piece_bytes, on_delta)
        self._next_id = 0
        self._seeds = random.Random(config.seed)
        self._pausers: set[str] = set()
        self._times = StepTimes(clock)
        self._run = run_info(config, limits, info or {})
        recorder.emit(Run(json.dumps(self._run).encode()))
        self.scheduler = Scheduler(config.scheduling, recorder.emit, limits.eos_ids, worker.graph_for)

    def step(self) -> bool:
        """Schedule and launch one step, send what the last one brought, apply what is due. False when there was nothing
        to do now."""
        step = self._schedule()
        if step is not None:
            self._launch(step)
        self.answers.deliver()  # the device works meanwhile
        outputs = self._poll(wait=step is None or self.scheduler.steps_in_flight > self._depth)
        for output in outputs:
            self._apply(output)
        if not self.scheduler.has_work:
            self.answers.deliver()
        return step is not None or bool(outputs)

    def run(self) -> None:
        """Step until no request is left (in-process use: command line and benches)."""
        while self.has_work:
            if not self.step():
                time.sleep(self.nap_s())

    def prepare(self) -> bool:
        """Let the worker prepare a little more (capture a graph) while no request is there. False: nothing is left."""
        return not self.has_work and self.worker.prepare()

    def drain(self) -> None:
        """Apply every step in flight."""
        while self.scheduler.steps_in_flight:
            for output in self._poll(wait=True):
                self._apply(output)
        self.answers.deliver()

    @property
    def has_work(self) -> bool:
        """True while a request waits or runs, or a step is in flight."""
        return self.scheduler.has_work or self.scheduler.steps_in_flight > 0

    def nap_s(self) -> float:
        """Seconds until trying again is worthwhile, when ``step`` found nothing to do."""
        now = self.clock()
        wake = self.scheduler.next_wake_ns(now)
        return LONGEST_NAP_S if wake is None else min(LONGEST_NAP_S, max(0, wake - now) / 1e9)

    def submit(
        self, prompt: str | list[int], params: SamplingParams, name: str = "", priority: int = 0, salt: int = 0
    ) -> Request:
        """Put a request at the back of the queue.

        Raises:
            InvalidRequest: a field is out of range, or a live request has that name.
            RequestRefused: it could never fit; the trace has it as arrived and refused.
        """
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        max_tokens = self.limits.check(ids, params)
        name = name or f"request-{self._next_id}"
        if self.answers.find(name) is not None:
            raise InvalidRequest("name", "one that no live request has", name)
        seed = self._seeds.getrandbits(62) if params.seed is None else params.seed
        request = Request(self._next_id, ids, params, max_tokens, seed, name, priority, salt)
        self._next_id += 1
        self._arrive(request)
        return request

    def abort(self, name_or_id: str | int) -> bool:
        """End a request. False when it is unknown or has ended; asking again does no harm."""
        request_id = self.answers.find(name_or_id)
        return request_id is not None and self._end(request_id, Cause.ABORT)

    def abort_all(self, reason: str, cause: Cause = Cause.ABORT) -> None:
        """End every live request; the trace says why."""
        if self.answers.ids:
            self.recorder.emit(Cmd(Op.NOTE, note=reason.encode()))
        for request_id in self.answers.ids:
            self._end(request_id, cause)

    @property
    def paused(self) -> bool:
        """True while anybody holds the engine."""
        return bool(self._pausers)

    @property
    def pausers(self) -> frozenset[str]:
        """Who holds the engine."""
        return frozenset(self._pausers)

    def pause(self, by: str = "user") -> None:
        """Apply what is in flight, then stand still. Several may pause; each of them must resume."""
        if not self.paused:
            self.drain()
            self.recorder.emit(Cmd(Op.PAUSE, note=by.encode()))
            self.clock.stop()
        self._pausers.add(by)

    def resume(self, by: str = "user") -> None:
        """Take back a pause; the engine goes on when nobody holds it any more."""
        if by not in self._pausers:
            return
        self._pausers.remove(by)
        if not self.paused:
            self.clock.start()
            self._times.forget_idle()
            self.recorder.emit(Cmd(Op.RESUME, note=by.encode()))

    def single_steps(self, count: int = 1) -> int:
        """While paused, launch and apply ``count`` steps, one by one; fewer when no work is left. Returns how many."""
        self.recorder.emit(Cmd(Op.STEP, value=count))
        self.clock.start()
        done = 0
        while done < count and self.has_work:
            if self.step():
                done += 1
            else:
                time.sleep(self.nap_s())
        self.answers.deliver()
        self.clock.stop()
        return done

    def write_keyframe(self) -> None:
        """Put the whole state into the trace, for a reader that lost records."""
        self.drain()
        self.recorder.emit(keyframe_of(self._run, self.scheduler, self.paused))
        for request in standing(self.scheduler):
            self.recorder.emit_pieces(request.token_ids)

    @property
    def _depth(self) -> int:
        return 0 if self.paused else self.config.scheduling.steps_in_flight

    def _arrive(self, request: Request) -> None:
        self.recorder.emit_pieces(request.prompt_ids)
        name = request.name.encode()
        with self.clock.held() as request.arrived_ns:  # the queue may be ordered by it, so the trace has it to the ns
            self.recorder.emit(
                Arrive(request.id, request.max_tokens, request.priority, request.seed, name, request.prompt_ids)
            )
        refusal = self.scheduler.refusal(request)
        if refusal is not None:
            self.recorder.emit(refusal)
            raise RequestRefused(Reason(refusal.reason).name.lower(), refusal.need, refusal.have)
        self.answers.open(request)
        self.scheduler.add(request)

    def _end(self, request_id: int, cause: Cause) -> bool:
        self.scheduler.finish(request_id, cause)
        self.answers.end(request_id, cause)
        return True

    def _schedule(self) -> StepInput | None:
        started = self.clock()
        step = self.scheduler.schedule(started)
        if step is not None:
            self._times.scheduled(started)
        return step

    def _launch(self, step: StepInput) -> None:
        started = self.clock()
        self.worker.launch(step)
        self._times.launched(started)

    def _poll(self, wait: bool) -> list[StepOutput]:
        return self.worker.poll(block=wait) if self.scheduler.steps_in_flight else []

    def _apply(self, output: StepOutput) -> None:
        started = self.clock()
        if self.recorder.sinks:
            self.recorder.emit_pieces(output.token_ids.tolist())
        for request_id in self.answers.take(self.scheduler.apply(output, started)):
            self.scheduler.finish(request_id, Cause.STOP)
        self.recorder.emit(self._times.applied(output, started, self.has_work))
