"""The engine process: ``python -m engine.process FD``, started by ``engine.driver`` only.

The main thread owns engine and device; two more serve the pipe. The process ends when its parent does.
"""

import gc
import logging
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection

from engine.answers import Delta
from engine.engine import Engine
from engine.errors import EngineStopped, FlightdeckError
from engine.loading import LoadedModel, load_model
from engine.messages import LOADING, Answer, Call, Failed, Pieces, PieceTuple, Ready, Status
from engine.pipe import Pipe
from engine.request import SamplingParams
from engine.trace.events import Cause
from engine.trace.ring import RingWriter
from engine.workload.race_spec import RaceSpec, run_race

log = logging.getLogger(__name__)


class EngineProcess:
    """Serves calls between the steps of one live engine."""

    def __init__(self, pipe: Pipe, model: LoadedModel) -> None:
        self._pipe, self._model = pipe, model
        self._tickets: dict[int, int] = {}  # of live requests: engine's number -> ticket of the submit call
        self._pieces: list[PieceTuple] = []  # not sent yet
        self._engine = self._new_engine()
        self._stopped = False
        self._methods: dict[str, Callable] = {
            "submit": self._submit,
            "abort": self._abort,
            "cancel": self._cancel,
            "pause": self._pause,
            "resume": self._resume,
            "step": self._step,
            "keyframe": self._keyframe,
            "race": self._race,
            "stop": self._stop,
        }

    def run(self) -> None:
        """Serve until told to stop. Python's collector works only while nobody waits for a step."""
        gc.collect()
        gc.freeze()
        gc.disable()
        nap = 0.0
        while not self._stopped:
            call = self._pipe.next_call(nap)
            if call is not None:
                self._answer(call)
                nap = 0.0
            elif self._engine.paused or not self._engine.has_work:
                nap = 0.0 if self._engine.prepare() else 1.0
                if nap:
                    gc.collect()
            else:
                nap = 0.0 if self._engine.step() else self._engine.nap_s()
                self._send_pieces()

    def fail(self, error: Exception) -> None:
        """End every live request with cause ``error``."""
        self._engine.abort_all(f"the engine failed: {error}", Cause.ERROR)
        self._send_pieces()

    def _new_engine(self) -> Engine:
        return self._model.new_engine(on_delta=self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        take = self._tickets.get if delta.cause is None else self._tickets.pop
        ticket = take(delta.request_id)
        self._pieces.append((ticket, delta.request_id, delta.text, delta.token_ids, delta.cause, delta.logprobs))

    def _send_pieces(self) -> None:
        """One message per step: one wake-up of the writing thread, however many answers there are."""
        if self._pieces:
            self._pipe.send(Pieces(self._pieces))
            self._pieces = []

    def _answer(self, call: Call) -> None:
        try:
            answer = Answer(call.ticket, self._methods[call.method](call.ticket, *call.args))
        except FlightdeckError as error:
            answer = Answer(call.ticket, error=error)
        self._send_pieces()
        self._pipe.send(answer)

    def _submit(
        self, ticket: int, prompt_ids: list[int], params: SamplingParams, name: str, priority: int, salt: int
    ) -> int:
        request = self._engine.submit(prompt_ids, params, name, priority, salt)
        self._tickets[request.id] = ticket
        return request.id

    def _abort(self, ticket: int, name_or_id: str | int) -> bool:
        return self._engine.abort(name_or_id)

    def _cancel(self, ticket: int, submit_ticket: int) -> None:
        """Abort by the ticket of the submit call: unlike a name it is never used twice."""
        for request_id, opened_by in self._tickets.items():
            if opened_by == submit_ticket:
                self._engine.abort(request_id)
                return

    def _pause(self, ticket: int, by: str) -> None:
        self._engine.pause(by)
        self._pipe.send(Status(self._engine.paused))

    def _resume(self, ticket: int, by: str) -> None:
        self._engine.resume(by)
        self._pipe.send(Status(self._engine.paused))

    def _step(self, ticket: int, count: int) -> int:
        self._pause(ticket, "user")
        return self._engine.single_steps(count)

    def _keyframe(self, ticket: int) -> None:
        self._engine.write_keyframe()

    def _race(self, ticket: int, spec: RaceSpec) -> dict:
        """Race on the loaded model. Live requests are aborted: the pool is needed. Then a fresh live run begins."""
        self._engine.abort_all("a race needs the engine")
        holders = self._engine.pausers
        try:
            return run_race(self._model, spec, partial(self._pipe.report, ticket))
        finally:
            self._engine = self._new_engine()
            for holder in holders:
                self._engine.pause(holder)

    def _stop(self, ticket: int, reason: str) -> None:
        self._engine.abort_all(reason)
        self._stopped = True


def main(descriptor: int) -> int:
    """Load, say so, serve. Returns the exit status."""
    pipe = Pipe(Connection(descriptor))
    process = None
    try:
        model = load_model(
            pipe.start.config,
            [RingWriter(pipe.start.ring)],
            partial(pipe.report, LOADING),
            pipe.start.worker,
        )
        process = EngineProcess(pipe, model)
        pipe.send(Ready(model.config, model.limits, model.info))
        process.run()
        model.close()
        return 0
    except Exception as error:
        if not isinstance(error, FlightdeckError):
            log.exception("the engine process failed")
            error = EngineStopped(f"the engine failed: {type(error).__name__}: {error}")
        pipe.send(Failed(error))
        if process is not None:
            process.fail(error)
        return 1
    finally:
        pipe.close()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    sys.exit(main(int(sys.argv[1])))
