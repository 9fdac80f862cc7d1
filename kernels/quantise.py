"""Weights in 8 or 4 bits: the formats, the quantiser and its inverse. Activations keep their dtype.

    int8   w = q * scale          one fp32 scale per output, the largest weight of the row is 127
    fp8    w = q * scale          the same with e4m3 numbers, largest 448: finer near zero, coarser far from it
    int4   w = (q - 8) * scale    one bf16 scale per output and group of 128 inputs

An int4 scale has a sign: the weight of largest magnitude becomes -8, so that all sixteen steps serve (a quarter less
squared error than -7..7, and as good as a zero point of its own). Scales of rows or groups that are all zero are 1.

Packing, once, so that no kernel shuffles. A *run* is 64 words of 16 bits: 128 inputs of 8 bits, or 256 of 4. Word c
holds inputs c, 64 + c, ... of its run, lowest bits first. So a register holds two neighbouring words, a mask and an OR
turn one field of both into two numbers, and *round* r of a run meets 64 neighbouring inputs of x. Sixteen outputs lie
together, run by run: what a program reads at a time is contiguous. Missing outputs and inputs are stored as zeros.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

FORMATS = ("int8", "fp8", "int4")
BITS = {"int8": 8, "fp8": 8, "int4": 4}
WORDS = 64  # of a run
TILE = 16  # outputs that lie together
GROUP = 128  # inputs that share a scale of int4: two rounds
LARGEST = {"int8": 127.0, "fp8": 448.0}
CHUNK = 1 << 22  # weights that the quantiser widens to fp32 at a time


def rounds(form: str) -> int:
    """Weights in a word."""
    return 16 // BITS[form]


def num_runs(form: str, inputs: int) -> int:
    """Runs of an output, the last one perhaps not full."""
    return -(-inputs // (WORDS * rounds(form)))


def num_scales(form: str, inputs: int) -> int:
    """Scales of an output."""
    return num_runs(form, inputs) * 2 if form == "int4" else 1


def stored_bytes(form: str, outputs: int, inputs: int) -> int:
    """Bytes of a quantised weight (outputs, inputs), scales included."""
    tiles, scale = -(-outputs // TILE), 2 if form == "int4" else 4
    return 2 * tiles * TILE * WORDS * num_runs(form, inputs) + scale * outputs * num_scales(form, inputs)


@dataclass(frozen=True)
class QuantWeight:
    """A weight (N, K) in one of ``FORMATS``.

    Args:
        form: its format.
        words: (tiles of N, runs of K, 16, 64) int16, packed.
        scales: (scales of an output, N); fp32, of int4 bf16.
        inputs: K.
    """

    form: str
    words: Tensor
    scales: Tensor
    inputs: int

    @classmethod
    def empty(cls, form: str, outputs: int, inputs: int, device: torch.device | str = "cpu") -> "QuantWeight":
        """A weight still to be filled."""
        shape = (-(-outputs // TILE), num_runs(form, inputs), TILE, WORDS)
        words = torch.zeros(shape, dtype=torch.int16, device=device)
        dtype = torch.bfloat16 if form == "int4" else torch.float32
        return cls(form, words, torch.ones(num_scales(form, inputs), outputs, dtype=dtype, device=device), inputs)

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K) of the weight that is stored."""
        return self.scales.shape[1], self.inputs

    def split(self, sizes: list[int]) -> list["QuantRows"]:
        """Consecutive outputs, as ``Tensor.split``."""
        ends = torch.tensor(sizes).cumsum(0).tolist()
        return [QuantRows(self, end - size, end) for size, end in zip(sizes, ends)]

    def dequantise(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """(N, K): the weights that this one stands for, each rounded once to ``dtype``."""
        return QuantRows(self, 0, self.shape[0]).dequantise().to(dtype)


@dataclass(frozen=True)
class QuantRows:
    """Outputs ``begin`` to ``end`` of a quantised weight: a place that a loader fills."""

    whole: QuantWeight
    begin: int
    end: int

    @property
    def shape(self) -> tuple[int, int]:
        """(outputs, K)."""
        return self.end - self.begin, self.whole.inputs

    def copy_(self, weight: Tensor) -> "QuantRows":
        """Quantise ``weight``, of this shape and any float dtype and device, into its place; a few rows at a time."""
        form, words, scales = self.whole.form, self.whole.words, self.whole.scales
        for part, given in self._beside(weight):
            words.transpose(1, 2)[part._places()], scales[:, part.begin : part.end] = quantise_rows(given, form)
        return self

    def dequantise(self) -> Tensor:
        """(outputs, K) fp32."""
        words, form = self.whole.words.transpose(1, 2)[self._places()], self.whole.form
        scales = self.whole.scales[:, self.begin : self.end].t().float()
        steps = unpack(words, form).unflatten(1, (scales.shape[1], -1))
        return (steps * scales[:, :, None]).flatten(1)[:, : self.whole.inputs]

    def relative_error(self, weight: Tensor) -> float:
        """||stored - weight|| / ||weight||, of the ``weight`` that was quantised."""
        sums = torch.zeros(2, dtype=torch.float64, device=self.whole.words.device)
        for part, given in self._beside(weight):
            lost = part.dequantise() - given
            sums += torch.stack((lost.double().square().sum(), given.double().square().sum()))
        off, total = sums.tolist()
        return (off / total) ** 0.5 if total else 0.0

    def _places(self) -> tuple[Tensor, Tensor]:
        """Tile and place in it of each output."""
        outputs = torch.arange(self.begin, self.end, device=self.whole.words.device)
        return outputs // TILE, outputs % TILE

    def _beside(self, weight: Tensor) -> Iterator[tuple["QuantRows", Tensor]]:
        """A few rows at a time: their place, and those of ``weight`` in fp32 on the same device."""
        step = max(1, CHUNK // self.whole.inputs)
        for begin in range(0, len(weight), step):
            given = weight[begin : begin + step].to(self.whole.words.device).float()
            yield QuantRows(self.whole, self.begin + begin, self.begin + begin + len(given)), given


def quantise(weight: Tensor, form: str) -> QuantWeight:
    """``weight`` (N, K) in the format ``form``."""
    stored = QuantWeight.empty(form, *weight.shape, weight.device)
    QuantRows(stored, 0, len(weight)).copy_(weight)
    return stored


def quantise_rows(weight: Tensor, form: str) -> tuple[Tensor, Tensor]:
    """Words (N, runs, 64) and scales (scales of an output, N) of ``weight`` (N, K) fp32."""
    padded = pad(weight, (0, -weight.shape[1] % (WORDS * rounds(form))))
    if form == "int4":
        steps, scales = group_steps(padded, GROUP)
        return pack(steps.int() + 8, form), scales.t()
    largest = weight.abs().amax(1)
    scales = torch.where(largest > 0, largest / LARGEST[form], 1.0)
    steps = padded / scales[:, None]
    codes = steps.round_().to(torch.int8) if form == "int8" else steps.to(torch.float8_e4m3fn).view(torch.int8)
    return pack(codes.int() & 255, form), scales[None]


def group_steps(weight: Tensor, group: int) -> tuple[Tensor, Tensor]:
    """int4 of ``weight`` (N, K) with a scale per ``group`` inputs: steps (N, K), -8 to 7, and scales (N, K / group)."""
    groups = weight.unflatten(1, (-1, group))
    extreme = groups.gather(2, groups.abs().argmax(2, keepdim=True))
    scales = (extreme / -8).to(torch.bfloat16)
    scales = torch.where(scales == 0, torch.ones_like(scales), scales)
    steps = (groups / scales.float()).round_().clamp_(-8, 7)
    return steps.flatten(1), scales[:, :, 0]


def pack(codes: Tensor, form: str) -> Tensor:
    """(N, K) whole numbers of ``BITS`` bits, K a multiple of a run -> words (N, runs, 64)."""
    lanes = codes.unflatten(1, (-1, rounds(form), WORDS))
    return sum(lanes[:, :, place] << (BITS[form] * place) for place in range(rounds(form))).to(torch.int16)


def unpack(words: Tensor, form: str) -> Tensor:
    """Words (N, runs, 64) -> (N, K) fp32, the weights before their scale."""
    places = torch.arange(0, 16, BITS[form], device=words.device, dtype=torch.int32)[:, None]
    fields = (words.int()[:, :, None] >> places).flatten(1)
    if form == "int4":
        return ((fields & 15) - 8).float()
    codes = fields.to(torch.int8)
    return (codes if form == "int8" else codes.view(torch.float8_e4m3fn)).float()
