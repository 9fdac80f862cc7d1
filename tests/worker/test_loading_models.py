"""Loading: what is refused, in one line each, and how memory is shared out."""

import dataclasses
import gc
import json
import weakref
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.errors import InvalidRequest, OutOfMemory, UnsupportedModel
from engine.loading import load_model
from engine.trace.recorder import ListSink
from engine.worker import loading, memory
from engine.worker.kv_cache import GIB, automatic_cpu_blocks, blocks_within
from engine.worker.runner import TorchWorker
from engine.worker.shapes import SHAPES, random_spec
from tests.worker.checkpoints import LIMITS, build, save, worker_for
from tests.worker.drive import answer


@pytest.fixture
def folder(tmp_path):
    return save(build("llama", tie_word_embeddings=False), tmp_path)


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def refusal(folder) -> str:
    with pytest.raises(UnsupportedModel) as caught:
        worker_for(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_unknown_folder_is_one_clear_error(tmp_path):
    assert "no model folder" in refusal(tmp_path / "nothing")


def test_folder_without_config(tmp_path):
    assert "config.json" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("model_type", "architecture"),
    [("gpt2", "GPT2LMHeadModel"), ("mixtral", "MixtralForCausalLM"), ("llama", "LlamaForSequenceClassification")],
)
def test_unknown_architecture_names_the_supported_ones(folder, model_type, architecture):
    """Families that are not offered are refused, not guessed at: mixture of experts (E-07) and GPT-2 (E-09) too."""
    edit_config(folder, model_type=model_type, architectures=[architecture])
    message = refusal(folder)
    assert architecture in message and "Qwen3ForCausalLM" in message


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "dynamic"),
    ],
)
def test_unsupported_options_are_named(folder, changes, word):
    """An option that is silently ignored answers nonsense."""
    edit_config(folder, **changes)
    assert word in refusal(folder)


def test_pickled_weights_are_refused(folder):
    """A pickle can run code; there is no second loader. A model too large for this machine hears that first, too."""
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    assert "pickled" in refusal(folder)
    edit_config(folder, num_hidden_layers=10**9)
    assert "pickled" in refusal(folder)


def test_broken_missing_unknown_and_misshapen_tensors(folder):
    """Each way in which a file can disagree with its config has its own line."""
    path = folder / "model.safetensors"
    whole = load_file(path)
    name = "model.layers.0.mlp.up_proj.weight"
    save_file({k: v for k, v in whole.items() if k != name}, path)
    assert f"lacks 1 tensors, the first is {name}" in refusal(folder)
    save_file({**whole, "model.layers.0.self_attn.q_proj.bias": torch.zeros(256)}, path)
    assert "q_proj.bias" in refusal(folder)
    save_file({**whole, name: torch.zeros(2, 2)}, path)
    assert "[2, 2]" in refusal(folder)
    path.write_bytes(b"not a tensor file")
    assert "cannot read" in refusal(folder)


def test_sharded_checkpoint(tmp_path):
    """Large models come in several files behind an index."""
    model = build("qwen3")
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    ids = list(range(20))
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0]
    torch.testing.assert_close(worker_for(tmp_path).logits(ids), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("generation", "expected"), [([2, 5], {2, 5}), (5, {2, 5}), (None, {2})])
def test_E_06_end_ids_of_both_configs(tmp_path, generation, expected):
    """A chat model's end-of-turn id often stands in the generation config only, as an int or in a list."""
    from transformers import GenerationConfig

    save(build("llama", eos_token_id=2), tmp_path)
    if generation is not None:
        GenerationConfig(eos_token_id=generation).save_pretrained(tmp_path)
    assert worker_for(tmp_path).spec.eos_ids == expected


def test_context_is_the_smaller_of_model_and_request(folder):
    assert worker_for(folder, max_model_len=4096).scheduling.max_model_len == 1024
    assert worker_for(folder, max_model_len=100).scheduling.max_model_len == 100


def test_missing_device_is_named(folder):
    with pytest.raises(InvalidRequest, match="device"):
        worker_for(folder, device="cuda:63")


def test_progress_reaches_the_end(folder):
    """The page shows what is loaded and how far it is."""
    seen: list[tuple[str, float]] = []
    TorchWorker(WorkerConfig(model=str(folder), device="cpu"), SchedulingConfig(), 8, lambda *now: seen.append(now))
    shares = [share for what, share in seen if what == "loading weights"]
    assert shares == sorted(shares) and shares[-1] == 1.0 and seen[-1] == ("ready", 1.0)


def test_memory_map_counts_what_is_there(folder):
    worker = worker_for(folder)
    weights = sum(tensor.numel() * 4 for tensor in worker.model.tensors().values())
    assert worker.memory_map["weights"] == worker.spec.weight_bytes == weights
    assert worker.memory_map["kv_pool"] == 65 * 4 * worker.spec.kv_bytes_per_token
    assert set(worker.memory_map) == {"weights", "kv_pool", "activations", "graphs", "context", "free"}


@pytest.mark.parametrize(("shape", "billions"), [("qwen3-0.6b", 0.596), ("llama-3.1-8b", 8.030), ("qwen3-8b", 8.191)])
def test_shapes_have_the_size_of_their_models(shape, billions):
    assert random_spec(shape, torch.bfloat16, torch.bfloat16, 2048).num_parameters / 1e9 == pytest.approx(
        billions, abs=1e-3
    )
    assert shape in SHAPES


def test_F_03_pool_respects_what_others_hold():
    """Of 80 GB, 30 are free: the pool takes from those, less the activation peak, and never goes negative."""
    block = 16 * 114_688
    blocks = blocks_within(30 * GIB, 1 * GIB, 0.9, block)
    assert 25 * GIB < (blocks + 1) * block <= 29 * GIB
    with pytest.raises(OutOfMemory, match=r"at least .* GiB"):
        blocks_within(GIB // 2, GIB, 0.9, block)


def test_F_04_graphs_are_part_of_the_budget(folder, monkeypatch):
    """Graphs were captured on top of the configured share: their bytes and the activations' come out of it first."""
    spec, block = worker_for(folder).spec, 16 * worker_for(folder).spec.kv_bytes_per_token
    config, limits = WorkerConfig(memory_fraction=0.5), SchedulingConfig(block_size=16)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 40 * GIB)
    for graphs in (0, 3):
        sizes = {"activation_bytes": GIB, "graph_bytes": graphs * GIB}
        worker = SimpleNamespace(device=torch.device("cuda"), spec=spec, config=config, **sizes)
        taken = (memory.automatic_blocks(worker, limits) + 1) * block + (1 + graphs) * GIB
        assert 20 * GIB - block < taken <= 20 * GIB


def test_I_06_blocks_that_are_given_win_over_the_share_of_memory():
    """Half of 40 free GB are 20 GB of KV. A limit in tokens is one in whole blocks here, and it alone counts: the two
    never meet in a smaller-of-both that nobody expects, and the run says which one it was."""
    block_bytes = 16 * 2**19  # 0.5 MiB a token
    assert (blocks_within(40 * GIB, 0, 0.5, block_bytes) + 1) * block_bytes == 20 * GIB
    limits = SchedulingConfig(max_model_len=256)
    for blocks in (63, None):  # 1,000 tokens in blocks of 16; as many as fit
        sink, config = ListSink(), WorkerConfig(random_weights="tiny", device="cpu")
        model = load_model(EngineConfig(limits, config, blocks), [sink])
        model.new_engine()
        assert model.config.scheduling.pool_blocks == (blocks or automatic_cpu_blocks(model.worker.spec, limits))
        assert sink.records[0].event.data["classroom"] == (blocks is not None)
        model.close()


def test_pool_that_cannot_exist_says_by_how_much(folder):
    with pytest.raises(OutOfMemory, match=r"pool_blocks by at least [\d,]+ blocks"):
        worker_for(folder, pool_blocks=10**12)


@pytest.mark.parametrize(("rows", "expected"), [(2, 519), (10**6, GIB // (4 * 2 * 2 * 2 * 64 * 4))])
def test_automatic_pool_on_a_cpu_is_bounded(folder, rows, expected):
    """Every row at full context (2 x 256 blocks) and a watermark of 1 % above, but at most a gibibyte: main memory
    belongs to others too."""
    limits = dataclasses.replace(LIMITS, max_num_seqs=rows, token_budget=rows)
    assert automatic_cpu_blocks(worker_for(folder).spec, limits) == expected


def test_failed_reset_can_be_repaired(folder):
    """A pool that does not fit leaves a worker that another reset brings back."""
    worker = worker_for(folder)
    before, good = answer(worker, [[1, 2, 3]]), worker.scheduling
    with pytest.raises(OutOfMemory):
        worker.reset(dataclasses.replace(good, pool_blocks=10**12))
    worker.reset(good)
    assert answer(worker, [[1, 2, 3]]) == before


def test_model_that_does_not_fit_is_refused_before_it_is_read(folder, monkeypatch):
    monkeypatch.setattr(loading, "free_bytes", lambda device: 1000)
    with pytest.raises(OutOfMemory, match="GiB"):
        worker_for(folder)


def test_A_07_other_weights_share_no_cache(tmp_path):
    """KV belongs to the weights that made it: another model is another worker with a pool of its own."""
    ids = [list(range(9))]
    folders = [save(build("llama", seed=seed), tmp_path / str(seed)) for seed in (0, 1)]
    workers = [worker_for(folder) for folder in folders]
    first = [answer(worker, ids) for worker in workers]
    assert first[0] != first[1]
    assert [answer(worker_for(folder), ids) for folder in folders] == first
    assert workers[0].cache.data.data_ptr() != workers[1].cache.data.data_ptr()


def test_F_06_closing_frees_the_model(folder):
    """A worker that is closed keeps nothing: the weights really go."""
    worker = worker_for(folder)
    answer(worker, [[1, 2, 3]])
    model, pool = weakref.ref(worker.model), weakref.ref(worker.cache)
    worker.close()
    gc.collect()
    assert model() is None and pool() is None


def test_reset_changes_the_pool_and_keeps_the_weights(folder):
    """The Arena runs several configurations on one loaded model."""
    worker = worker_for(folder)
    before, weight = answer(worker, [[1, 2, 3]]), worker.model.embedding
    worker.reset(dataclasses.replace(worker.scheduling, pool_blocks=20, block_size=8, max_num_seqs=2))
    assert answer(worker, [[1, 2, 3]]) == before
    assert worker.model.embedding is weight and worker.cache.layers[0][0].shape[:3] == (21, 2, 8)
