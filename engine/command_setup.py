"""What the commands share: the configuration from the arguments, a loaded model, and the writing of results."""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.engine import Engine
from engine.errors import InvalidRequest
from engine.loading import LoadedModel, load_model
from engine.provenance import device_name, provenance
from engine.trace.files import FileSink
from engine.trace.recorder import Sink
from engine.trace.timed_steps import TimedStep
from engine.workload import lengths, report
from engine.workload.arrivals import paced
from engine.workload.calibrate import Calibration, calibrate
from engine.workload.items import Workload
from engine.workload.limits import ModelShape, shape_of
from engine.workload.named import by_name
from engine.workload.step_profile import decode_shares
from engine.workload.waterfall import typical_decode

if TYPE_CHECKING:
    from torch import Tensor

BUDGET = 8192  # tokens per step of a bench
# Kept free for the growth of those who run. With 1 %, a pool of half the demand preempts a tenth of the requests, and
# the tail of their latency triples; with 15 % hardly any, at the same throughput (bench pressure).
WATERMARK = 0.15
CPU_ROWS = 16  # of a study: more of them only wait for each other


class Session:
    """One command's loaded model, progress bar and places for results."""

    def __init__(self, args: argparse.Namespace, config: EngineConfig) -> None:
        self.args = args
        self.progress = report.ProgressBar()
        _quiet_threads(config.worker.device)
        self.model: LoadedModel | None = load_model(config, (), self.progress)
        self.sinks: tuple[Sink, ...] = (FileSink(args.record),) if args.record else ()
        self.device = str(self.model.worker.device)
        date = datetime.now(UTC).isoformat(timespec="seconds")
        self.meta = {"device": device_name(self.device), "date": date} | provenance()
        self.meta |= {"config": self.model.config.to_dict()}

    def make_engine(self, overrides: Mapping[str, object], sinks: Sequence[Sink]) -> Engine:
        """A fresh engine on the loaded model."""
        return self.model.new_engine(overrides, sinks)

    def recorded_engine(self, overrides: Mapping[str, object], sinks: Sequence[Sink]) -> Engine:
        """A fresh engine whose run goes into the file of ``--record`` too."""
        return self.make_engine(overrides, (*sinks, *self.sinks))

    @property
    def shape(self) -> ModelShape:
        """The sizes that the limits depend on."""
        return shape_of(self.model.worker.spec)

    def calibrate(self) -> Calibration:
        """Measure this machine in the model's number format."""
        self.progress("measuring the machine", 0.0)
        return calibrate(self.device, str(self.model.worker.spec.dtype).removeprefix("torch."))

    def logits(self, prompt: list[int], answer: list[int], backend: str | None) -> "Tensor":
        """The logits that each token of an answer was, or would have been, chosen from: all in one prefill."""
        worker = self.model.worker
        found = worker.logits(prompt + answer[:-1], backend, first=len(prompt) - 1)
        return found[:, : worker.spec.num_token_ids]

    def kv_logits(self, prompt: list[int], answer: list[int], plain: bool) -> "Tensor":
        """As ``logits``, with keys and values in the model's dtype (``plain``) or as they are served."""
        worker = self.model.worker
        kv_dtype = worker.spec.dtype if plain else None
        found = worker.logits(prompt + answer[:-1], first=len(prompt) - 1, kv_dtype=kv_dtype)
        return found[:, : worker.spec.num_token_ids]

    def decode_shares(self, steps: Sequence[TimedStep]) -> dict[str, float] | None:
        """Kernel shares of the decode step that stands for a run; None without a GPU or without such a step."""
        typical = typical_decode(steps)
        if typical is None or not self.device.startswith("cuda"):
            return None
        self.progress("profiling a decode step", 0.0)
        return decode_shares(self.make_engine, *typical)

    def close_model(self) -> None:
        """Free the device."""
        if self.model is not None:
            self.model.close()
            self.model = None

    def finish(self, results: object, workload: dict, tables: Sequence[str]) -> None:
        """Write the results: JSON where asked, tables on standard output unless the JSON goes there."""
        self.progress.close()
        meta = self.meta | {"config": self.meta["config"] | {"workload": workload}}
        if self.args.json:
            report.write(report.document(meta, results), self.args.json)
        if tables and self.args.json != "-":
            report.write("\n\n".join(tables), "-")

    def close(self) -> None:
        """Free the device and complete the recording."""
        self.progress.close()
        self.close_model()
        for sink in self.sinks:
            sink.close()


@contextmanager
def session(args: argparse.Namespace, config: EngineConfig) -> Iterator[Session]:
    """A session that is closed whatever happens."""
    run = Session(args, config)
    try:
        yield run
    finally:
        run.close()


def workload_of(args: argparse.Namespace) -> Workload:
    """The workload of ``--workload``, ``--requests``, ``--rate`` and ``--cv``."""
    workload = by_name(args.workload, args.requests, args.seed)
    if args.rate is not None:
        return paced(workload, args.rate, 1.0 if args.cv is None else args.cv)
    if args.cv is not None:
        raise InvalidRequest("cv", "a --rate beside it", args.cv)
    return workload


def bench_config(args: argparse.Namespace, workload: Workload) -> EngineConfig:
    """Bench defaults: 256 rows, a budget of 8,192 tokens, no prefix cache, one step in flight on CUDA."""
    return _config(args, {"max_num_seqs": 256, "token_budget": BUDGET, "max_model_len": workload.longest}, None)


def study_config(args: argparse.Namespace, context: int, budget: int) -> EngineConfig:
    """As ``bench_config``, for requests up to ``context`` tokens, and steps up to ``budget``."""
    rows = {} if on_cuda(args.device) else {"max_num_seqs": CPU_ROWS}
    defaults = {"max_num_seqs": 256, "token_budget": budget, "max_model_len": context, "watermark": WATERMARK}
    return _config(args, defaults | rows, None)


def race_config(args: argparse.Namespace) -> EngineConfig:
    """A pool and a context that hold ``args.rows`` of the longest requests that a race can draw."""
    longest = lengths.PROMPTS[1] + lengths.LONGEST
    pool = args.rows * -(-longest // args.block_size) + 1
    budget = args.rows * lengths.PROMPTS[1]  # a step holds the prompts of a whole group, as in the race itself
    defaults = {"max_num_seqs": args.rows, "token_budget": budget, "max_model_len": longest}
    return _config(args, defaults, pool)


def live_config(args: argparse.Namespace) -> EngineConfig:
    """The app's defaults: 8 rows, small chunks, prefix cache; a large budget and many rows on CUDA."""
    cuda = on_cuda(args.device)
    large = {"max_num_seqs": 64, "token_budget": BUDGET, "watermark": WATERMARK}
    defaults = large if cuda else {"max_num_seqs": 8, "token_budget": 64}
    return _config(args, defaults | {"prefix_cache": True, "steps_in_flight": int(cuda)}, None)


def _config(args: argparse.Namespace, defaults: Mapping[str, object], pool_blocks: int | None) -> EngineConfig:
    """The arguments over ``defaults`` over those of ``SchedulingConfig``. Host blocks hold what the prefix cache
    evicts, so they bring it along."""
    fields = {"prefix_cache": args.host_blocks > 0, "steps_in_flight": int(on_cuda(args.device))} | dict(defaults)
    given = {
        "max_num_seqs": args.max_num_seqs,
        "token_budget": args.token_budget,
        "max_model_len": args.max_model_len,
        "steps_in_flight": args.in_flight_steps,
        "block_size": args.block_size,
        "watermark": args.watermark,
        "batching": args.batching,
        "capacity": args.capacity,
        "chunking": args.chunking,
        "preemption": args.preemption,
        "queue_order": args.queue_order,
        "aging_s": args.aging,
        "eviction": args.eviction,
        "wait_for_prefix": args.wait_for_prefix,
        "host_blocks": args.host_blocks,
        "swap": args.swap,
    }
    fields |= {name: value for name, value in given.items() if value is not None}
    worker = WorkerConfig(
        args.model, args.random_weights, args.device, args.dtype, args.kv_dtype, quantize=args.quantize
    )
    config = EngineConfig(SchedulingConfig(**fields), worker, args.pool_blocks or pool_blocks, True, args.seed)
    return config.validate()


def _quiet_threads(device: str) -> None:
    """One thread on a CPU, unless the environment says how many: small products lose by waiting for a second core."""
    import torch

    if not on_cuda(device) and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def on_cuda(device: str) -> bool:
    """Whether ``device`` will be a CUDA device."""
    if device != "auto":
        return device.startswith("cuda")
    import torch

    return torch.cuda.is_available()
