"""The worker: owns model, KV pool, rows and sampler, and computes steps.

    launch:  what the device lacks -> inbox; one whole step, as a graph or eagerly; its ids -> outbox
    poll:    the ids, when their copy has arrived

Launches are queued on one stream, so any number of steps may be in flight: a step finds the tokens of the one before
in ``tokens``, whether or not the host has seen them.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from engine.config import SchedulingConfig, WorkerConfig
from engine.step import Eager, StepInput, StepOutput
from engine.worker import memory, warmup
from engine.worker.checkpoint import resolve_device
from engine.worker.graphs import Ladder, Shapes
from engine.worker.host_pool import HostPool
from engine.worker.inbox import Inbox
from engine.worker.kv_cache import KVCache, allocate
from engine.worker.loading import Progress, check_block_size, load_model, silent
from engine.worker.rows import NO_CHANGES, Rows
from engine.worker.spec import ModelSpec
from engine.worker.step_batch import Shape
from engine.worker.steps import Steps
from engine.worker.whole_step import WholeStep
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
        self._sizes: tuple[int, ...] = ()
        self._progress = progress
        self.cache: KVCache | None = None
        self.steps: Steps | None = None
        progress("measuring activations", 0.0)
        self.activation_bytes, self.graph_bytes = memory.measure(self, scheduling)
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
        limit = min(scheduling.max_model_len, self.spec.max_model_len)
        self.scheduling = replace(scheduling, max_model_len=limit, kv_identity=self.spec.kv_identity)
        self._fit_buffers()
        buckets = tuple(self.steps.shapes.mixed) if self.steps.ladder else ()
        self.scheduling = replace(self.scheduling, graph_buckets=buckets)
        self.steps.forget()

    def _fit_buffers(self) -> None:
        """Make pool, rows and graphs for ``self.scheduling``; those of the right size stay as they are."""
        limits = self.scheduling
        sizes = (
            limits.pool_blocks,
            limits.block_size,
            limits.max_num_seqs,
            limits.max_model_len,
            limits.token_budget,
            limits.host_blocks,
        )
        if sizes == self._sizes:
            return
        check_block_size(limits.block_size, self.backend, self.spec.kv_has_scales)
        had_graphs, same_pool = bool(self.steps and self.steps.ladder), sizes[:2] == self._sizes[:2]
        self.steps, self._sizes = None, ()
        if not same_pool:
            self.cache = None  # gone before the new one is asked for
            self.cache = allocate(self.spec, limits.pool_blocks, limits.block_size, self.device)
        shapes = Shapes(limits.max_num_seqs, limits.token_budget) if self.backend == "triton" else None
        entries = shapes.decodes[-1] if shapes else limits.max_num_seqs
        host = HostPool(self.cache, limits.host_blocks) if limits.host_blocks else None
        self.steps = Steps(WholeStep.build(self.model, self.cache, limits, entries, self.backend), shapes, host)
        self._sizes = sizes
        if had_graphs:
            self._begin_captures()

    def drop_buffers(self) -> None:
        """Give the pool and the rows back; the next ``reset`` makes new ones."""
        self.steps = self.cache = None
        self._sizes = ()

    @torch.inference_mode()
    def _begin_captures(self) -> None:
        self.steps.ladder = Ladder(self.steps.program, self.steps.shapes, self.activation_bytes)
        self.steps.ladder.climb_at_once()

    def warm_up(self) -> None:
        """Compile every path and capture the first graphs (CUDA), so that no request pays for it; leaves empty rows."""
        warmup.run(self)
        if self.device.type == "cuda" and self.backend == "triton" and self.steps.ladder is None:
            self._begin_captures()
        self.reset(self.scheduling)

    @torch.inference_mode()
    def prepare(self) -> bool:
        """While nothing runs: capture one more graph. False when there is nothing left to prepare."""
        ladder = self.steps.ladder
        if ladder is None or self.steps.pending or not ladder.climb():
            return False
        self._progress("capturing graphs", 1 - len(ladder.pending) / ladder.total)
        return True

    def graph_for(self, tokens: int, decode: bool) -> tuple[int, Eager]:
        """Padded tokens of the graph that a step would run in (0: none), and why it has none.

        Args:
            tokens: of the step.
            decode: whether every row computes one token.
        """
        return self.steps.graph_for(tokens, decode)

    @torch.inference_mode()
    def launch(self, step: StepInput) -> None:
        """Queue one step; its answer comes from ``poll``."""
        self.steps.launch(step)

    def poll(self, block: bool = True) -> list[StepOutput]:
        """Finished steps in launch order. With ``block`` wait for at least one if any is in flight."""
        return self.steps.poll(block)

    @torch.inference_mode()
    def logits(
        self, token_ids: list[int], backend: str | None = None, first: int = 0, kv_dtype: torch.dtype | None = None
    ) -> Tensor:
        """Logits fp32 ``[T - first, vocab]`` at the positions of one sequence from ``first`` on, in one prefill.

        It goes through the paged path, with a pool and a row of its own, so it disturbs no request.

        Args:
            backend: "reference": the plain twin of every kernel; None: the kernels that serve.
            kv_dtype: of that pool; None: as the one that serves.
        """
        h, _ = self._prefilled(token_ids, backend or self.backend, kv_dtype or self.spec.kv_dtype)
        return self.model.head(h[first:], backend or self.backend).float()

    @torch.inference_mode()
    def keys_and_values(self, token_ids: list[int]) -> tuple[Tensor, Tensor]:
        """Keys (rotated) and values of one sequence as the model computes them, each fp32 ``[layers, Hkv, T, D]``."""
        _, cache = self._prefilled(token_ids, self.backend, self.spec.dtype)
        keys, values = cache.data[:, :, 1:].transpose(2, 3).flatten(3, 4)[..., : len(token_ids), :].float()
        return keys, values

    def _prefilled(self, token_ids: list[int], backend: str, kv_dtype: torch.dtype) -> tuple[Tensor, KVCache]:
        """Hidden states ``[T, hidden]`` of one sequence, and the pool of its own that it went through."""
        count, size = len(token_ids), self.scheduling.block_size
        blocks = -(-count // size)
        own = replace(self.scheduling, max_num_seqs=1, max_model_len=count)
        step, shape = warmup.single_row_step(token_ids, blocks), Shape(count, 1, count)
        sampler = self.steps.program.sampler
        rows, inbox = Rows(own, sampler, self.device, backend), Inbox(1, 0, self.device)
        rows.admit(step.admits)
        rows.write_tables(rows.grow(step))
        inbox.send(0, step, shape, NO_CHANGES)
        batch = rows.expand(inbox.entries(shape), blocks)
        cache = KVCache(replace(self.spec, kv_dtype=kv_dtype), blocks, size, self.device)
        return self.model.forward(batch, cache), cache

    @contextmanager
    def eagerly(self) -> Iterator[None]:
        """No step inside uses a graph, and none is captured: what graphs are worth is measured beside this."""
        steps = self.steps
        ladder, steps.ladder = steps.ladder, None
        try:
            yield
        finally:
            steps.ladder = ladder

    @property
    def graphs(self) -> list[dict]:
        """The captured shapes: tokens, kind, seconds, mb, error; empty without graphs."""
        return self.steps.ladder.describe() if self.steps.ladder else []

    def close(self) -> None:
        """Give all memory back. The worker cannot be used afterwards."""
        del self.steps, self.model, self.cache
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
