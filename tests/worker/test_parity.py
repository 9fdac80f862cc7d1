"""Logits and greedy tokens equal transformers' for every family, option and scaling rule (fp32)."""

import pytest
import torch

from engine.config import SchedulingConfig, WorkerConfig
from engine.worker.rope import RopeSpec, inverse_frequencies
from engine.worker.runner import TorchWorker
from tests.worker.checkpoints import LINEAR, YARN, build, llama3_rope, save, worker_for

VARIANTS = {
    "llama-tied": ("llama", {"tie_word_embeddings": True}),
    "llama-untied": ("llama", {"tie_word_embeddings": False}),
    "llama-all-biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-rope-llama3": ("llama", {"rope_parameters": llama3_rope(8.0)}),
    "llama-rope-linear": ("llama", {"rope_parameters": LINEAR}),
    "llama-multi-query": ("llama", {"num_key_value_heads": 1}),
    "qwen2-tied": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2-untied-yarn": ("qwen2", {"tie_word_embeddings": False, "rope_parameters": YARN}),
    "qwen3-tied": ("qwen3", {"tie_word_embeddings": True}),
    "qwen3-untied-yarn": ("qwen3", {"tie_word_embeddings": False, "rope_parameters": YARN}),
    "qwen3-bias": ("qwen3", {"attention_bias": True}),
}


def tokens(count: int, seed: int = 1) -> list[int]:
    return torch.randint(0, 512, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def reference(model: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float()


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_equal_transformers(tmp_path, variant):
    """Guards every dimension, bias, norm and rope number that a family can bring, at all positions of 150 tokens."""
    family, overrides = VARIANTS[variant]
    model = build(family, **overrides)
    ids = tokens(150)
    ours = worker_for(save(model, tmp_path)).logits(ids)
    expected = reference(model, ids)
    assert expected.std() > 1  # large enough for 1e-4 to mean something
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=0)


def test_E_01_tied_checkpoint_that_also_carries_the_head(tmp_path):
    """A tied checkpoint may repeat its embedding as lm_head.weight: it loads, and is counted once."""
    from safetensors.torch import load_file, save_file

    model = build("llama", tie_word_embeddings=True)
    path = save(model, tmp_path) / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, path, {"format": "pt"})
    worker = worker_for(tmp_path)
    torch.testing.assert_close(worker.logits(tokens(20)), reference(model, tokens(20)), atol=1e-5, rtol=1e-5)
    assert worker.memory_map["weights"] == sum(p.numel() * 4 for p in model.parameters())


def test_E_02_qwen2_biases_are_used(tmp_path):
    """Biases of q, k and v (deviation 1) change the logits; dropping them gave mojibake."""
    model = build("qwen2")
    ours = worker_for(save(model, tmp_path)).logits(tokens(40))
    torch.testing.assert_close(ours, reference(model, tokens(40)), atol=1e-4, rtol=0)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.k_proj.bias.zero_()
            layer.self_attn.q_proj.bias.zero_()
    assert (ours - reference(model, tokens(40))).abs().max() > 0.1


def test_E_03_explicit_head_dim(tmp_path):
    """head_dim 32 where hidden / heads is 16: products and pool follow the config, not the quotient."""
    model = build("llama", head_dim=32)
    worker = worker_for(save(model, tmp_path))
    assert worker.cache.layers[0][0].shape == (65, 2, 4, 32)
    torch.testing.assert_close(worker.logits(tokens(40)), reference(model, tokens(40)), atol=1e-4, rtol=0)


def test_E_04_rope_theta_is_read(tmp_path):
    """theta 500,000 at 600 tokens: the default of 10,000 looks right on short prompts only."""
    model = build("llama", rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    ours = worker_for(save(model, tmp_path)).logits(tokens(600))
    torch.testing.assert_close(ours[-1], reference(model, tokens(600))[-1], atol=1e-3, rtol=0)


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_E_05_llama3_factor_is_read(factor):
    """The 1B and 3B models scale by 32, the others by 8."""
    model = build("llama", rope_parameters=llama3_rope(factor))
    ours = inverse_frequencies(RopeSpec.from_parameters(llama3_rope(factor), 131072), 64)
    torch.testing.assert_close(ours, model.model.rotary_emb.inv_freq, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "extra", [{}, {"beta_fast": 16.0, "beta_slow": 2.0}, {"attention_factor": 1.5}, {"truncate": False}]
)
def test_yarn_frequencies_and_temperature(extra):
    """Each optional number of YaRN is read from the config."""
    rope = {**YARN, "factor": 8.0, "original_max_position_embeddings": 512, **extra}
    embedding = build("qwen3", max_position_embeddings=4096, rope_parameters=rope).model.rotary_emb
    spec = RopeSpec.from_parameters(rope, 4096)
    torch.testing.assert_close(inverse_frequencies(spec, 64), embedding.inv_freq, rtol=1e-5, atol=0)
    assert spec.attention_factor == pytest.approx(embedding.attention_scaling)


def test_older_rope_scaling_key():
    """Configs written before transformers 5 say ``type``, and ``rope_theta`` stands beside ``rope_scaling``."""
    spec = RopeSpec.from_parameters({"rope_theta": 1e4, "type": "linear", "factor": 4.0}, 1024)
    assert (spec.rule, spec.factor) == ("linear", 4.0)


@pytest.mark.parametrize("shape", ["tiny"])
def test_random_weights_are_deterministic_and_sane(shape):
    """The same seed gives the same model, another seed another one, and logits are as spread as a trained model's."""
    limits = SchedulingConfig(pool_blocks=8)
    workers = [TorchWorker(WorkerConfig(random_weights=shape, device="cpu", seed=s), limits, 8) for s in (0, 0, 1)]
    first, again, other = (worker.logits(tokens(32)) for worker in workers)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert 1 < first.std() < 5
