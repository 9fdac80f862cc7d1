"""The training loop: random pieces of one stream of tokens, AdamW, and the weights with the lowest held-out loss.

Two million tokens are few for seven million parameters, so nearly everything here is against overfitting: dropout,
weight decay, a schedule whose end is the end of training, and early stopping by checkpoint.
"""

import argparse
import copy
import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.bundled.network import Network

LOG_EVERY = 50


@dataclass(frozen=True)
class Outcome:
    """What training measured. `best_pass`: passes over the text behind the kept weights; `best_loss`: theirs."""

    steps: int
    tokens: int
    seconds: float
    best_pass: float
    best_loss: float


@dataclass(frozen=True)
class Schedule:
    """How far training is, from 0 to 1, by passes over the text or by the clock, whichever is further."""

    total_tokens: float
    started: float
    deadline: float
    peak_rate: float
    warmup_steps: int = 100

    def progress(self, tokens: int) -> float:
        """Share of the schedule that is done after `tokens` tokens, now."""
        by_clock = (time.perf_counter() - self.started) / max(1.0, self.deadline - self.started)
        return min(1.0, max(by_clock, tokens / self.total_tokens))

    def rate(self, step: int, progress: float) -> float:
        """Learning rate: linear warm-up, then a cosine down to a hundredth of the peak."""
        cosine = 0.5 * (1 + math.cos(math.pi * progress))
        return self.peak_rate * min(1.0, (step + 1) / self.warmup_steps) * (0.01 + 0.99 * cosine)


def random_pieces(stream: Tensor, rows: int, length: int) -> Tensor:
    """`rows` pieces of length + 1 tokens (each token predicts the next), drawn anywhere in the stream."""
    starts = torch.randint(len(stream) - length, (rows, 1), device=stream.device)
    return stream[starts + torch.arange(length + 1, device=stream.device)]


def loss_of(network: Network, pieces: Tensor) -> Tensor:
    """Mean nats per token, in bf16 on a GPU. One autocast context per forward: it keeps its casts of the weights until
    it ends, so a longer one would go on computing with weights of the past."""
    with torch.autocast(pieces.device.type, torch.bfloat16, enabled=pieces.is_cuda):
        return network(pieces)


@torch.no_grad()
def held_out_loss(network: Network, stream: Tensor, length: int, rows: int) -> float:
    """Mean nats per token over the stream, cut into pieces of `length` tokens, `rows` at a time."""
    network.eval()
    pieces = stream[: (len(stream) - 1) // length * length + 1].unfold(0, length + 1, length)
    losses = [loss_of(network, batch) * len(batch) for batch in pieces.split(rows)]
    network.train()
    return float(sum(losses) / len(pieces))


def optimizer_for(network: Network, weight_decay: float) -> torch.optim.AdamW:
    """AdamW that decays matrices and leaves norm gains alone."""
    matrices = [weight for weight in network.parameters() if weight.dim() == 2]
    gains = [weight for weight in network.parameters() if weight.dim() < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": gains, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=True)


def update(network: Network, optimizer: torch.optim.Optimizer, loss: Tensor, rate: float) -> None:
    """One optimizer step down the gradient of `loss`, clipped to norm 1."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def train(network: Network, training: Tensor, held_out: Tensor, options: argparse.Namespace) -> Outcome:
    """Train until the passes or the time run out, and leave the best weights in `network`.

    Three steps of four use pieces of half the context, which are more varied; the fourth teaches the whole context.
    """
    deadline = time.perf_counter() + options.minutes * 60
    context = len(network.cos)
    lengths = (context // 2, context // 2, context // 2, context)
    rows = {length: max(1, options.batch_tokens // length) for length in lengths}
    optimizer = optimizer_for(network, options.weight_decay)
    schedule = Schedule(options.epochs * len(training), time.perf_counter(), deadline, options.rate)
    best, best_weights, best_pass = math.inf, network.state_dict(), 0.0
    step, seen, progress = 0, 0, 0.0
    while progress < 1:
        length = lengths[step % len(lengths)]
        loss = loss_of(network, random_pieces(training, rows[length], length))
        update(network, optimizer, loss, schedule.rate(step, progress))
        step, seen = step + 1, seen + rows[length] * length
        progress = schedule.progress(seen)
        if step % LOG_EVERY == 0 or progress >= 1:
            held, done = held_out_loss(network, held_out, context, rows[context]), seen / len(training)
            seconds = time.perf_counter() - schedule.started
            print(
                f"step {step:6}  {progress:4.0%}  pass {done:6.2f}  loss {loss.item():.3f}  held out {held:.4f}  "
                f"{seen / seconds:,.0f} tokens/s",
                flush=True,
            )
            if held < best:
                best, best_weights, best_pass = held, copy.deepcopy(network.state_dict()), done
    network.load_state_dict(best_weights)
    return Outcome(step, seen, seconds, best_pass, best)
