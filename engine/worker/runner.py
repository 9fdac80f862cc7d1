"""The worker: owns model, KV pool, rows and sampler, and computes steps.

    launch:  diff to the device -> rows -> layers -> head on the sampling rows -> choice -> tokens[row, position + 1]
    poll:    the ids, when their copy has arrived

Launches are queued on one stream, so any number of steps may be in flight: a step finds the tokens of the one before
in ``tokens``, whether or not the host has seen them.
"""

import gc
from collections import deque
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from engine.config import SchedulingConfig, WorkerConfig
from engine.step import StepInput, StepOutput
from engine.worker import memory, warmup
from engine.worker.checkpoint import resolve_device
from engine.worker.graphs import Shape, Shapes, StepGraphs
from engine.worker.kv_cache import KVCache, allocate
from engine.worker.loading import Progress, check_block_size, load_model, silent
from engine.worker.results import PendingStep, StepTimer
from engine.worker.rows import Rows
from engine.worker.sampler import Choice, Sampler
from engine.worker.spec import ModelSpec
from engine.worker.step_batch import Entries
from kernels.backend import default_backend


class TorchWorker:
    """Computes steps with PyTorch and the fused kernels, on a CPU or one CUDA device.

    Args:
        config: model, device and formats.
        scheduling: limits of a step; ``pool_blocks`` and ``max_model_len`` are made concrete in ``self.scheduling``.
        pool_blocks: usable KV blocks, or None for as many as ``config.memory_fraction`` allows.
        progress: called with what is being done and the share done, 0 to 1.

    Raises ``UnsupportedModel``, ``InvalidRequest`` or ``OutOfMemory`` with one line that says what to change.
    """

    def __init__(
        self,
        config: WorkerConfig,
        scheduling: SchedulingConfig,
        pool_blocks: int | None,
        progress: Progress = silent,
    ) -> None:
        self.config, self.device = config.validate(), resolve_device(config)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.backend = default_backend(self.device)
        self.model = load_model(config, scheduling.max_model_len, self.device, self.backend, progress)
        self._pending: deque[PendingStep] = deque()
        self._sizes: tuple[int, ...] = ()
        self.cache: KVCache | None = None
        self.graphs: StepGraphs | None = None
        progress("measuring activations", 0.0)
        self.activation_bytes = memory.activation_bytes(self, scheduling)
        if pool_blocks is None:
            pool_blocks = memory.automatic_blocks(self, scheduling)
        progress("allocating the KV pool", 0.0)
        self.reset(replace(scheduling, pool_blocks=pool_blocks))
        progress("ready", 1.0)

    @property
    def spec(self) -> ModelSpec:
        """What the model is."""
        return self.model.spec

    @property
    def memory_map(self) -> dict[str, int]:
        """Bytes by purpose: weights, kv_pool, activations, graphs, context, free."""
        return memory.memory_map(self)

    def reset(self, scheduling: SchedulingConfig) -> None:
        """Start a new run on the same weights: empty rows; pool, rows and graphs are made anew only if sizes changed.

        Raises ``InvalidRequest`` for a block size without a kernel and ``OutOfMemory`` when the pool does not fit.
        """
        self._pending.clear()
        limit = min(scheduling.max_model_len, self.spec.max_model_len)
        self.scheduling = replace(scheduling, max_model_len=limit)
        self._fit_buffers()
        self.scheduling = replace(self.scheduling, graph_buckets=self.graphs.buckets if self.graphs else ())
        self.sampler = Sampler(self.spec, scheduling.max_num_seqs, self.device, self.backend)

    def _fit_buffers(self) -> None:
        """Make pool, rows and graphs for ``self.scheduling``; those of the right size stay as they are."""
        limits = self.scheduling
        sizes = (
            limits.pool_blocks,
            limits.block_size,
            limits.max_num_seqs,
            limits.max_model_len,
            limits.token_budget,
        )
        if sizes == self._sizes:
            self.rows.forget()
            return
        check_block_size(limits.block_size, self.backend)
        had_graphs, same_pool = self.graphs is not None, sizes[:2] == self._sizes[:2]
        self.shapes = Shapes(limits.max_num_seqs, limits.token_budget) if self.backend == "triton" else None
        self.graphs, self._sizes = None, ()
        if not same_pool:
            self.cache = None  # gone before the new one is asked for
            self.cache = allocate(self.spec, limits.pool_blocks, limits.block_size, self.device)
        self.rows, self._sizes = Rows(limits, self.device, self.backend), sizes
        if had_graphs:
            self._capture()

    def drop_buffers(self) -> None:
        """Give the pool and the rows back; the next ``reset`` makes new ones."""
        self.graphs = self.cache = self.rows = self.sampler = None
        self._sizes = ()

    @torch.inference_mode()
    def _capture(self) -> None:
        self.graphs = StepGraphs(self.model, self.cache, self.rows)
        self.graphs.capture(self.shapes, self.activation_bytes / self.scheduling.token_budget)

    def warm_up(self) -> None:
        """Compile every path, capture the graphs (CUDA), so that no request pays for it; leaves empty rows."""
        warmup.run(self)
        if self.device.type == "cuda" and self.backend == "triton" and self.graphs is None:
            self._capture()
        self.reset(self.scheduling)

    @torch.inference_mode()
    def launch(self, step: StepInput) -> None:
        """Queue one step; its answer comes from ``poll``."""
        timer = StepTimer.start(self.device)
        shape = self.shapes.of(step) if self.shapes else None
        entries = self.rows.update(step, shape)
        self.sampler.admit(step.admits, self.rows.tokens)
        sampling = step.samples != 0
        rows, positions = step.rows[sampling], (step.starts + step.num_tokens)[sampling]
        if self.graphs and shape in self.graphs.captured:
            found = self._replay(shape, entries, step.rows.size)
        else:
            found = self._run_eagerly(entries)
        choice = self._choose(*found, rows, positions) if rows.size else None
        self._pending.append(PendingStep(step.step, rows, step.epochs[sampling], choice, timer))

    def _replay(self, shape: Shape, entries: Entries, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, rows and next positions of the sampling entries among the ``count`` real ones, from a graph."""
        captured, sampling = self.graphs.replay(shape, entries), entries.sampling
        chosen = slice(count) if len(sampling) == count else sampling
        return captured.logits[chosen], entries.rows[chosen], captured.positions[chosen]

    def _run_eagerly(self, entries: Entries) -> tuple[Tensor, Tensor, Tensor]:
        """Layers over all tokens, head over the sampling entries: their logits, rows and next positions."""
        full, needed = self.rows.block_tables.shape[1], -(-entries.longest // self.scheduling.block_size)
        batch = self.rows.expand(entries, full if self.shapes else needed)
        x, residual = self.model.forward(batch, self.cache)
        rows, positions, last = entries.rows, batch.context_lens, batch.last
        if len(entries.sampling) < len(rows):
            rows, positions, last = (part[entries.sampling] for part in (rows, positions, last))
        if len(last) < len(x):
            x, residual = x[last], residual[last]
        return self.model.head(x, residual, self.backend), rows, positions

    def _choose(self, logits: Tensor, seats: Tensor, where: Tensor, rows: np.ndarray, positions: np.ndarray) -> Choice:
        """Choose the next tokens and write each behind its row's last one."""
        choice = self.sampler.choose(logits, seats, where, rows, positions)
        self.rows.tokens[seats, where] = choice.ids
        return choice

    def poll(self, block: bool = True) -> list[StepOutput]:
        """Finished steps in launch order. With ``block`` wait for at least one if any is in flight."""
        if block and self._pending:
            self._pending[0].wait()
        done = []
        while self._pending and self._pending[0].is_done:
            done.append(self._pending.popleft().output())
        return done

    @torch.inference_mode()
    def logits(self, token_ids: list[int]) -> Tensor:
        """Logits fp32 ``[T, vocab]`` at every position of one sequence, through the paged path.

        It uses a pool and a row of its own, so it disturbs no request.
        """
        count, size = len(token_ids), self.scheduling.block_size
        blocks = -(-count // size)
        own = replace(self.scheduling, max_num_seqs=1, max_model_len=count)
        step = warmup.single_row_step(token_ids, blocks)
        rows = Rows(own, self.device, self.backend)
        batch = rows.expand(rows.update(step), blocks)
        x, residual = self.model.forward(batch, KVCache(self.spec, blocks, size, self.device))
        return self.model.head(x, residual, self.backend).float()

    def close(self) -> None:
        """Give all memory back. The worker cannot be used afterwards."""
        self._pending.clear()
        del self.graphs, self.model, self.cache, self.rows, self.sampler
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
