"""Rotary position embedding: the frequencies of each scaling rule and the table of cosines and sines.

Rules: default (Su et al., RoFormer), linear (position interpolation), llama3 (Llama 3.1) and yarn (Peng et al.). Every
number comes from the checkpoint's config; a rule or a number that is missing is an error, never a silent default.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import UnsupportedModel

RULES = ("default", "linear", "llama3", "yarn")


@dataclass(frozen=True)
class RopeSpec:
    """Scaling rule and its numbers. Which ones a rule uses is written beside its function."""

    theta: float
    rule: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_positions: int = 0
    attention_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, object], max_positions: int) -> "RopeSpec":
        """Read ``config.rope_parameters`` (or the older ``rope_scaling`` with ``rope_theta`` added).

        Raises ``UnsupportedModel`` for an unknown rule or a missing number.
        """
        rule = str(parameters.get("rope_type", parameters.get("type", "default")))
        if rule not in RULES:
            raise UnsupportedModel(f"rope scaling {rule!r} is not supported", RULES)
        if parameters.get("partial_rotary_factor", 1.0) != 1.0:
            raise UnsupportedModel("partial_rotary_factor other than 1 is not supported")
        try:
            return cls(theta=float(parameters["rope_theta"]), rule=rule, **_numbers(rule, parameters, max_positions))
        except KeyError as missing:
            raise UnsupportedModel(f"rope scaling {rule!r}: the config lacks {missing}") from None


def _numbers(rule: str, parameters: Mapping[str, object], max_positions: int) -> dict[str, object]:
    if rule == "default":
        return {}
    if rule == "linear":
        return {"factor": float(parameters["factor"])}
    if rule == "llama3":
        names = ("factor", "low_freq_factor", "high_freq_factor")
        numbers = {name: float(parameters[name]) for name in names}
        return {**numbers, "original_positions": int(parameters["original_max_position_embeddings"])}
    original = int(parameters.get("original_max_position_embeddings") or max_positions)
    factor = float(parameters.get("factor") or max_positions / original)
    return {
        "factor": factor,
        "original_positions": original,
        "attention_factor": _yarn_attention_factor(factor, parameters),
        "beta_fast": float(parameters.get("beta_fast") or 32),
        "beta_slow": float(parameters.get("beta_slow") or 1),
        "truncate": bool(parameters.get("truncate", True)),
    }


def _yarn_attention_factor(factor: float, parameters: Mapping[str, object]) -> float:
    """YaRN's temperature on the attention scores, folded into cosines and sines."""

    def temperature(mscale: float) -> float:
        return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0

    if parameters.get("attention_factor") is not None:
        return float(parameters["attention_factor"])
    mscale, all_dims = parameters.get("mscale"), parameters.get("mscale_all_dim")
    return temperature(mscale) / temperature(all_dims) if mscale and all_dims else temperature(1.0)


def inverse_frequencies(rope: RopeSpec, head_dim: int) -> Tensor:
    """Radians per position of each pair of dimensions, fp32 ``[head_dim / 2]``."""
    frequencies = 1.0 / rope.theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    if rope.rule == "linear":
        return frequencies / rope.factor
    if rope.rule == "llama3":
        return _llama3(rope, frequencies)
    if rope.rule == "yarn":
        return _yarn(rope, frequencies, head_dim)
    return frequencies


def _llama3(rope: RopeSpec, frequencies: Tensor) -> Tensor:
    """Slow pairs are slowed down by ``factor``, fast ones kept, those between blended by their turns in the context."""
    turns = rope.original_positions * frequencies / (2 * math.pi)  # full circles within the original context
    keep = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    keep = keep.clamp(0, 1)
    return frequencies * keep + frequencies / rope.factor * (1 - keep)


def _yarn(rope: RopeSpec, frequencies: Tensor, head_dim: int) -> Tensor:
    """Pairs that turn more than ``beta_fast`` times are kept, fewer than ``beta_slow`` interpolated, a ramp between."""

    def pair_with(turns: float) -> float:
        return head_dim * math.log(rope.original_positions / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    low, high = pair_with(rope.beta_fast), pair_with(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    ramp = (torch.arange(head_dim // 2, dtype=torch.float32) - low) / ((high - low) or 0.001)
    interpolate = ramp.clamp(0, 1)
    return frequencies / rope.factor * interpolate + frequencies * (1 - interpolate)


def cos_sin_table(rope: RopeSpec, head_dim: int, positions: int, device: torch.device) -> Tensor:
    """fp32 ``[positions, head_dim]``: cosines of the pairs, then their sines."""
    frequencies = inverse_frequencies(rope, head_dim).to(device)
    angles = torch.outer(torch.arange(positions, device=device, dtype=torch.float32), frequencies)
    return torch.cat((angles.cos(), angles.sin()), dim=-1) * rope.attention_factor
