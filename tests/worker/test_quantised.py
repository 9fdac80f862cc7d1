"""An engine on quantised weights: it answers as the weights that they stand for, in the memory that it says."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from engine.config import SchedulingConfig, WorkerConfig
from engine.errors import InvalidRequest
from engine.worker import loading
from engine.worker.runner import TorchWorker
from engine.worker.shapes import random_spec
from engine.workload.limits import Machine, decode_floor, shape_of
from kernels.quantise import FORMATS, QuantRows, QuantWeight, quantise
from tests.worker.checkpoints import build, save, worker_for
from tests.worker.drive import answer

PROMPTS = [list(range(40)), [7, 300, 2], list(range(100, 117))]


def products(model: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights that a quantised engine stores in its format."""
    return {name: weight for name, weight in model.items() if "_proj.weight" in name}


def stood_for(worker: TorchWorker) -> dict[str, torch.Tensor]:
    """All tensors of a worker's model, dense."""
    tensors = worker.model.tensors()
    return {name: t.dequantise() if isinstance(t, QuantRows) else t.clone() for name, t in tensors.items()}


@pytest.mark.parametrize("family", ("llama", "qwen2", "qwen3"))
@pytest.mark.parametrize("form", FORMATS)
def test_tokens_are_those_of_the_dequantised_weights(tmp_path, family, form):
    """Guards the whole path: stacked parts, biases, norms, gate and residual around a quantised product. A dense fp32
    engine on the weights that the format stands for gives the same tokens and logits; the checkpoint gives others."""
    folder = save(build(family), tmp_path)
    worker, dense = worker_for(folder, quantize=form), worker_for(folder)
    logits = dense.logits(PROMPTS[0])
    for name, tensor in stood_for(worker).items():
        dense.model.tensors()[name].copy_(tensor)
    torch.testing.assert_close(worker.logits(PROMPTS[0]), dense.logits(PROMPTS[0]), atol=1e-4, rtol=0)
    assert answer(worker, PROMPTS) == answer(dense, PROMPTS)
    assert (dense.logits(PROMPTS[0]) - logits).abs().max() > 1e-3


@pytest.mark.parametrize("form", FORMATS)
def test_a_checkpoint_is_quantised_tensor_by_tensor(tmp_path, form):
    """Guards streaming: each part lands in its rows as if it were quantised alone, all else keeps its bits, and the
    reported errors are those of the file's own weights."""
    folder = save(build("qwen3"), tmp_path)
    file, worker = load_file(folder / "model.safetensors"), worker_for(folder, quantize=form)
    found = stood_for(worker)
    for name, weight in file.items():
        expected = quantise(weight, form).dequantise() if name in products(file) else weight
        assert torch.equal(found[name], expected), name
    errors = worker.model.quant_errors
    assert errors.keys() == products(file).keys()
    name = "model.layers.1.mlp.down_proj.weight"
    assert errors[name] == pytest.approx(((found[name] - file[name]).norm() / file[name].norm()).item(), rel=1e-4)


@pytest.mark.parametrize("form", FORMATS)
def test_memory_and_floor_count_what_is_stored(tmp_path, form):
    """Guards two truths: the memory map is the tensors that exist, and the roofline reads the same specs."""
    worker = worker_for(save(build("llama"), tmp_path), quantize=form)
    layers = [product for layer in worker.model.layers for product in (layer.qkv, layer.o, layer.gate_up, layer.down)]
    assert all(isinstance(product.weight, QuantWeight) for product in layers)
    stored = sum(product.weight.words.nbytes + product.weight.scales.nbytes for product in layers)
    plain = sum(t.nbytes for t in worker.model.tensors().values() if isinstance(t, torch.Tensor))
    assert worker.memory_map["weights"] == worker.spec.weight_bytes == stored + plain
    head, norms = (
        worker.model.head_weight.nbytes,
        plain - sum(t.nbytes for t in {worker.model.embedding, worker.model.head_weight}),
    )
    assert shape_of(worker.spec).streamed_bytes == stored + head + norms


def test_a_quantised_step_has_a_lower_floor():
    """Guards the limit that a run is divided by: fewer bytes, less time, at the sizes of a real model."""
    spec = random_spec("llama-3.1-8b", torch.bfloat16, torch.bfloat16, 2048)
    machine = Machine(4.3e12, 8e14)
    dense, int4 = (
        decode_floor(shape_of(s), 1, 1000, machine).total for s in (spec, replace(spec, weight_format="int4"))
    )
    assert 2.5 < dense / int4 < 3.5  # head and KV stay as they are


@pytest.mark.parametrize("form", FORMATS)
def test_random_weights_are_the_dense_ones_quantised(form):
    """Guards comparisons: with the same seed the quantised model stands for the numbers of the dense one."""

    def tiny(**formats):
        return TorchWorker(WorkerConfig(random_weights="tiny", device="cpu", **formats), SchedulingConfig(), 8)

    quantised, dense = tiny(quantize=form), tiny()
    for name, tensor in dense.model.tensors().items():
        place = quantised.model.tensors()[name]
        if isinstance(place, QuantRows):
            assert torch.equal(place.dequantise(), quantise(tensor, form).dequantise())
        else:
            assert torch.equal(place, tensor)


def test_a_format_that_does_not_exist_is_named():
    """Guards the error contract."""
    with pytest.raises(InvalidRequest, match="quantize: one of int8, fp8, int4; got 'int3'"):
        WorkerConfig(quantize="int3").validate()


def test_fp8_is_refused_where_the_gpu_cannot_convert_it(monkeypatch):
    """Guards the one line: an A100 (8.0) has no fp8 conversion; it is told what it has. A CPU computes any format."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    with pytest.raises(InvalidRequest, match="quantize: int8 or int4 on this GPU"):
        loading.check_format("fp8", torch.device("cuda", 0))
    for form, device in (("int4", "cuda"), ("fp8", "cpu")):
        loading.check_format(form, torch.device(device))
