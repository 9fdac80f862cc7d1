"""Puts an engine together: tokenizer, worker, clock, recorder. New engines of the same loaded model cost nothing."""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from engine.answers import Delta
from engine.clock import Clock
from engine.config import EngineConfig
from engine.engine import Engine
from engine.limits import Limits
from engine.provenance import device_name, provenance
from engine.step import Worker
from engine.tokenizer import Tokenizer
from engine.tokenizer import load as load_tokenizer
from engine.trace.recorder import Recorder, Sink
from engine.workload import swap_cost

TORCH_WORKER = "engine.worker.runner:TorchWorker"

Report = Callable[[str, float], None]  # what is going on, and how far it is (0 to 1)


@dataclass(slots=True)
class LoadedModel:
    """A model on its device, ready to be driven by one engine after the other.

    ``config.scheduling`` is concrete: the worker has filled in ``pool_blocks`` and ``max_model_len``.
    """

    config: EngineConfig
    worker: Worker
    tokenizer: Tokenizer
    clock: Clock
    sinks: tuple[Sink, ...]  # of every run
    recorder: Recorder
    info: dict  # for the RUN record

    @property
    def limits(self) -> Limits:
        """What requests may ask of it."""
        return _limits(self.config, self.worker)

    def new_engine(
        self,
        overrides: Mapping[str, object] = MappingProxyType({}),
        sinks: Sequence[Sink] = (),
        on_delta: Callable[[Delta], None] | None = None,
    ) -> Engine:
        """A fresh engine, which starts a new run in the trace. The engine before it must not be used any more.

        Args:
            overrides: fields of ``SchedulingConfig`` that differ from the loaded ones.
            sinks: take the records of this run besides the model's own sinks.
            on_delta: takes the answers.
        """
        self.worker.reset(replace(self.config.scheduling, **overrides).validate())
        config = replace(self.config, scheduling=self.worker.scheduling)
        self.clock.start()
        self.recorder.sinks = [*self.sinks, *sinks]
        limits, info = _limits(config, self.worker), self.info | _device_facts(self.worker)
        return Engine(config, self.worker, self.tokenizer, self.recorder, limits, self.clock, on_delta, info)

    def close(self) -> None:
        """Give the device back."""
        self.worker.close()


def load_model(
    config: EngineConfig,
    sinks: Iterable[Sink] = (),
    report: Report = lambda text, done: None,
    worker: str = TORCH_WORKER,
) -> LoadedModel:
    """Load a model and everything around it.

    Args:
        config: what to load; nothing is checked again later.
        sinks: where the trace goes; nowhere when empty or when ``config.record`` is off.
        report: told about the progress.
        worker: ``module:class`` of the worker.

    Raises:
        InvalidRequest, UnsupportedModel, OutOfMemory: one line each.
    """
    config.validate()
    report("reading the tokenizer", 0.0)
    tokenizer = load_tokenizer(config.worker)
    report("starting the worker", 0.0)  # importing torch takes seconds
    module, _, name = worker.partition(":")
    make_worker = getattr(importlib.import_module(module), name)
    built: Worker = make_worker(config.worker, config.scheduling, config.pool_blocks, report)
    report("warming up", 1.0)
    built.warm_up()
    config = replace(config, scheduling=built.scheduling)
    clock = Clock()
    sinks = tuple(sinks) if config.record else ()
    recorder = Recorder(sinks, clock, tokenizer.piece_bytes)
    model = LoadedModel(config, built, tokenizer, clock, (), recorder, _info(config, built))
    if swap_cost.is_needed(config.scheduling):
        report("measuring the link to the host", 1.0)
        costs = swap_cost.measure(model.new_engine, built)
        model.config = replace(config, scheduling=replace(config.scheduling, **costs))
    model.sinks = sinks  # from here on every run is recorded
    return model


def _limits(config: EngineConfig, worker: Worker) -> Limits:
    scheduling = config.scheduling
    pool_tokens = scheduling.pool_blocks * scheduling.block_size
    return Limits(worker.spec.vocab_size, scheduling.max_model_len, pool_tokens, worker.spec.eos_ids)


def _info(config: EngineConfig, worker: Worker) -> dict:
    fixed = {"device": device_name(worker.device), "backend": worker.backend}
    return fixed | _device_facts(worker) | provenance()


def _device_facts(worker: Worker) -> dict:
    """What changes while graphs are captured: bytes by purpose, and the graphs there are."""
    return {"memory_map": worker.memory_map, "graphs": worker.graphs}
