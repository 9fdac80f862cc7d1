"""How far int4 weights are from the real ones, by how many inputs share a scale: on the bundled model's own layers.

``python -m engine.workload.weight_error`` prints it as JSON, so that the app needs no torch.
"""

import json
import sys
from collections.abc import Sequence
from statistics import mean

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.loading import load_model
from engine.workload.drive import Progress, silent
from engine.workload.quant_curves import GROUPS, error_against_group
from engine.workload.report import ProgressBar

PARTS = ("qkv", "o", "gate_up", "down")


def weight_error(progress: Progress = silent) -> dict:
    """``model`` and ``errors``: for each part of a layer its mean error over the layers, by size of a group."""
    model = load_model(EngineConfig(SchedulingConfig(max_model_len=64), WorkerConfig(device="cpu"), 8), (), progress)
    layers, name = model.worker.model.layers, model.worker.spec.name
    errors = []
    for index, part in enumerate(PARTS):
        progress(f"weights of {part}", index / len(PARTS))
        weights = [getattr(layer, part).weight for layer in layers]
        groups = [group for group in GROUPS if group <= weights[0].shape[1]]
        curves = [error_against_group(weight, groups) for weight in weights]
        errors += [{"part": part} | _mean(points) for points in zip(*curves, strict=True)]
    model.close()
    return {"model": name, "errors": errors}


def _mean(points: Sequence[dict]) -> dict:
    """One size of a group: the mean over the layers."""
    return points[0] | {"relative_error": mean(point["relative_error"] for point in points)}


if __name__ == "__main__":
    json.dump(weight_error(ProgressBar()), sys.stdout)
