"""How far 8 and 4 bits are from keys and values: by what shares a scale, layer by layer, and channel by channel.

The pool of the engine keeps one scale for each token and head (``kernels.kv_format``). The other granularities are
computed here on the same numbers, to show what they would cost; so is int4. All of it works on any tensors.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.loading import LoadedModel, load_model
from engine.provenance import device_name
from engine.workload.drive import FAIR, Progress, drive, silent
from engine.workload.items import Item
from engine.workload.sweeps import sweep_config
from kernels.kv_format import SMALLEST_SCALE

LARGEST = {"int8": 127.0, "fp8": 448.0, "int4": 7.0}  # the largest number of each format
GRAINS: dict[str, tuple[int, ...]] = {  # axes of (Hkv, T, D) that share a scale
    "tensor": (0, 1, 2),
    "head": (1, 2),
    "channel": (1,),
    "token_head": (2,),
}
BINS = 25  # of a histogram of one channel
SAMPLE = 6  # tokens whose keys are given as they are
PROMPT = "It is a truth universally acknowledged, that"  # the bundled model goes on from here


def kv_rounding(tokens: int, layer: int, progress: Progress = silent) -> dict:
    """Keys and values of the bundled model over a text that it writes itself, and what rounding does to them.

    Args:
        tokens: of the text.
        layer: whose keys are counted channel by channel.

    Returns:
        ``device``, ``layers``, ``keys`` and ``values`` (see ``rounding_errors``), ``channels`` (see
        ``channel_histogram``) and ``sample``: keys of the first head at the first tokens, ``[SAMPLE, D]``.
    """
    model = load_model(sweep_config(None, 1, tokens + 1), (), lambda what, done: progress(what, 0.3 * done))
    try:
        text = _text(model, tokens, lambda what, done: progress(what, 0.3 + 0.5 * done))
        keys, values = model.worker.keys_and_values(text)
        progress("rounding", 0.8)
        layer = min(layer, len(keys) - 1)
        return {
            "device": device_name(model.worker.device),
            "layers": len(keys),
            "keys": rounding_errors(keys),
            "values": rounding_errors(values),
            "channels": channel_histogram(keys[layer]),
            "sample": keys[layer, 0, :SAMPLE].tolist(),
        }
    finally:
        model.close()


def rounding_errors(x: Tensor, formats: Sequence[str] = tuple(LARGEST)) -> dict[str, dict[str, list[float]]]:
    """Relative error in percent (root mean square over that of ``x``) for each format, grain and layer.

    Args:
        x: keys or values, fp32 ``[layers, Hkv, T, D]``.

    Returns:
        format -> grain of ``GRAINS`` -> one number a layer.
    """
    return {
        kind: {grain: [_error(layer, rounded(layer, kind, grain)) for layer in x] for grain in GRAINS}
        for kind in formats
    }


def rounded(x: Tensor, kind: str, grain: str) -> Tensor:
    """``x`` (Hkv, T, D) as it comes back from ``kind`` with one fp16 scale for each ``grain``."""
    largest = LARGEST[kind]
    scale = (x.abs().amax(GRAINS[grain], keepdim=True) / largest).clamp_min(SMALLEST_SCALE).half().float()
    stored = (x / scale).clamp(-largest, largest)
    return (stored.to(torch.float8_e4m3fn).float() if kind == "fp8" else stored.round()) * scale


def scale_share(head_dim: int, bits: int, grain: str) -> float:
    """Bytes of scales over bytes of numbers, for a pool that keeps ``grain``; 0: as good as none."""
    return 2 / (head_dim * bits / 8) if grain == "token_head" else 0.0


def channel_histogram(keys: Tensor) -> dict:
    """How the numbers of each channel are spread.

    Args:
        keys: of one layer, ``[Hkv, T, D]``.

    Returns:
        ``heads``, ``head_dim``, ``edges`` (of ``BINS`` bins, the same for all), ``share`` (per channel, heads behind
        each other: the share of tokens in each bin) and ``largest`` (per channel: the largest magnitude).
    """
    channels = keys.transpose(1, 2).flatten(0, 1).float().cpu()  # (Hkv D, T)
    top = float(channels.abs().max())
    counts = [torch.histc(channel, BINS, -top, top) for channel in channels]
    return {
        "heads": keys.shape[0],
        "head_dim": keys.shape[2],
        "edges": torch.linspace(-top, top, BINS + 1).tolist(),
        "share": [(count / keys.shape[1]).tolist() for count in counts],
        "largest": channels.abs().amax(1).tolist(),
    }


def _error(x: Tensor, back: Tensor) -> float:
    return 100 * float((back - x).norm() / x.norm())


def _text(model: LoadedModel, tokens: int, progress: Progress) -> list[int]:
    """A prompt and what the model draws behind it, ``tokens`` in all."""
    prompt = model.tokenizer.encode(PROMPT)[:tokens]
    if len(prompt) == tokens:
        return prompt
    more = tokens - len(prompt)
    item = Item(prompt, more, more, params={"temperature": 0.8})
    return prompt + drive(model.new_engine(FAIR, ()), [item], "writing a text", progress).outputs[0]
