"""Sampling parameters belong to a row: neighbours, order, batch and preemption change nothing (bug reports, kind d)."""

import dataclasses
import pickle

import numpy as np
import pytest
import torch

from engine.errors import InvalidRequest
from engine.request import SamplingParams
from tests.worker.checkpoints import build, save, worker_for
from tests.worker.drive import GREEDY, HandDriver, answer

A, B, C = [3, 1, 4, 1, 5], [9, 2, 6, 5, 3, 5, 8, 9, 7], [2, 7, 1]


@pytest.fixture(scope="module")
def hf():
    return build("llama", seed=3)


@pytest.fixture(scope="module")
def worker(hf, tmp_path_factory):
    return worker_for(save(hf, tmp_path_factory.mktemp("llama")))


def with_bias(folder, token, size, eos, generation_eos=None):
    """A checkpoint whose answers want ``token``: one direction is large in every hidden state and read by its head."""
    model = build("llama", seed=5, tie_word_embeddings=False, eos_token_id=eos, **size)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 30.0
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[0] = 0
            layer.mlp.down_proj.weight[0] = 0
        model.lm_head.weight[:, 0] = 0
        model.lm_head.weight[token, 0] = 100.0
        model.model.norm.weight[0] = 1.0
    save(model, folder)
    if generation_eos is not None:
        from transformers import GenerationConfig

        GenerationConfig(eos_token_id=generation_eos).save_pretrained(folder)
    return worker_for(folder)


def test_D_01_zero_and_tiny_temperature(worker):
    """Temperature 0 is argmax without a division, also beside rows that sample."""
    cold, warm = SamplingParams(temperature=0), SamplingParams(temperature=1.0)
    tiny = SamplingParams(temperature=1e-6)
    alone = answer(worker, [A], warm, 25, seeds=[11])[0]
    greedy = answer(worker, [A], cold, 25)[0]
    mixed = answer(worker, [A, A, A], [cold, warm, tiny], 25, seeds=[1, 11, 3])
    assert mixed == [greedy, alone, greedy]
    assert alone != greedy


@pytest.mark.parametrize("top_p", [1e-8, 1e-4, 1e-3])
def test_D_02_tiny_top_p(worker, top_p):
    """A tiny top_p keeps exactly the best token; masking every token crashed or gave noise."""
    assert answer(worker, [A], SamplingParams(top_p=top_p)) == answer(worker, [A])
    with pytest.raises(InvalidRequest, match="top_p"):
        SamplingParams(top_p=0).validate(512)


@pytest.mark.parametrize("top_k", [0, -1, 512 + 1000])
def test_D_03_no_top_k_keeps_all(worker, top_k):
    """'No top_k' read as 1 made the defaults greedy."""
    hot = SamplingParams(temperature=50.0, top_k=top_k)
    assert len(set(answer(worker, [A], hot, 60)[0])) >= 20
    with pytest.raises(InvalidRequest, match="top_k"):
        SamplingParams(top_k=-5).validate(512)


def test_D_04_seed_holds_beside_an_unseeded_neighbour(worker):
    """A seeded answer depends on its seed and positions, not on who shares the batch or on the row."""
    params = SamplingParams(temperature=0.8)
    alone = answer(worker, [A], params, seeds=[42])[0]
    for other in (1, 2, 3, 4):
        assert answer(worker, [A, B], params, seeds=[42, other])[0] == alone
        assert answer(worker, [B, A], params, seeds=[other, 42])[1] == alone


def test_D_05_penalties_do_not_depend_on_order(worker):
    """Penalty tensors take no shape or value from the first request of a batch."""
    one, two = SamplingParams(temperature=0, repetition_penalty=2.0), SamplingParams(top_k=1)
    solo = [answer(worker, [A], one)[0], answer(worker, [B], two, seeds=[11])[0]]
    assert answer(worker, [A, B], [one, two], seeds=[5, 11]) == solo
    assert answer(worker, [B, A], [two, one], seeds=[11, 5]) == solo[::-1]


def test_D_06_padding_is_no_token(worker):
    """Rows of 3 and 9 prompt ids in one batch: id 0 is not penalised in the shorter one."""
    params = SamplingParams(temperature=0, frequency_penalty=1.05, repetition_penalty=1.5)
    assert answer(worker, [C, B], params) == [answer(worker, [C], params)[0], answer(worker, [B], params)[0]]


def test_D_07_repetition_penalty_sees_the_whole_history(worker, hf):
    """Prompt and all generated tokens are penalised, as in transformers' generate one by one."""
    batch = answer(worker, [A, B, C], SamplingParams(temperature=0, repetition_penalty=1.3), 24)
    for prompt, ours in zip((A, B, C), batch):
        ids = torch.tensor([prompt])
        out = hf.generate(ids, max_new_tokens=24, do_sample=False, repetition_penalty=1.3)
        assert ours == out[0, len(prompt) :].tolist()


def test_presence_and_frequency_follow_the_definition(worker):
    """Greedy answers with both penalties equal a recomputation from whole forwards (counts of the output only)."""
    params = SamplingParams(temperature=0, presence_penalty=1.5, frequency_penalty=0.7)
    ours, stream = answer(worker, [A], params, 20)[0], list(A)
    for token in ours:
        counts = torch.bincount(torch.tensor(stream[len(A) :], dtype=torch.long), minlength=512)
        logits = worker.logits(stream)[-1] - 0.7 * counts - 1.5 * (counts > 0)
        assert token == int(logits.argmax())
        stream.append(token)


def test_D_08_min_tokens_counts_generated_tokens(tmp_path):
    """A prompt of 10 must not satisfy min_tokens=5: five other tokens, then the end."""
    worker = with_bias(tmp_path, token=7, size={}, eos=7)
    out = answer(worker, [list(range(10, 20))], dataclasses.replace(GREEDY, min_tokens=5), 6)[0]
    assert 7 not in out[:5] and out[5] == 7


def test_D_09_min_tokens_blocks_every_end_id(tmp_path):
    """All ids of the generation config are blocked, also after the parameters travelled through pickle."""
    worker = with_bias(tmp_path, token=9, size={}, eos=7, generation_eos=[7, 9])
    assert worker.spec.eos_ids == {7, 9}
    params = pickle.loads(pickle.dumps(dataclasses.replace(GREEDY, min_tokens=3)))
    out = answer(worker, [A], params, 4)[0]
    assert not {7, 9} & set(out[:3]) and out[3] == 9


def test_D_10_stop_ids_outside_the_vocabulary(worker):
    """An id used as an index without a check crashed the device; a stop id inside is blocked by min_tokens.

    There is no logit_bias to give a wrong id to: the parameter is not offered.
    """
    for token in (512 + 5, -1):
        with pytest.raises(InvalidRequest, match="stop_token_ids"):
            SamplingParams(stop_token_ids=(token,), min_tokens=1).validate(512)
    first = answer(worker, [A], GREEDY, 1)[0][0]
    blocked = dataclasses.replace(GREEDY, min_tokens=1, stop_token_ids=(first,))
    assert answer(worker, [A], blocked, 1)[0][0] != first


def test_D_14_logprobs_are_raw(worker):
    """Log-probabilities are the model's, whatever temperature, filters and penalties do to the choice."""
    params = SamplingParams(temperature=0.5, top_p=0.5, repetition_penalty=1.4, logprobs=3)
    plain = SamplingParams(temperature=0.5)
    driver = HandDriver(worker, [B, A], [plain, params], [8, 9])
    silent, spoken = driver.run(10)
    assert silent.logprobs == [None] * 10
    raw = torch.log_softmax(worker.logits(A + spoken.token_ids), dim=-1)
    for step, (token, found) in enumerate(zip(spoken.token_ids, spoken.logprobs)):
        row = raw[len(A) - 1 + step]
        best = row.topk(3)
        assert set(found) == {*best.indices.tolist(), token}
        assert found == pytest.approx({i: float(row[i]) for i in found}, abs=1e-4)
        assert found[token] > float("-inf")


def test_D_15_ids_beyond_the_tokenizer_are_never_chosen(tmp_path):
    """The head is wider (128) than the tokenizer (100 entries): the padded part holds the largest logit."""
    from tokenizers import Tokenizer, models

    worker = with_bias(tmp_path, token=120, size={"vocab_size": 128}, eos=None)
    assert answer(worker, [A], GREEDY, 3)[0] == [120] * 3
    Tokenizer(models.WordLevel({f"w{i}": i for i in range(100)}, unk_token="w0")).save(str(tmp_path / "tokenizer.json"))
    worker = worker_for(tmp_path)
    for params in (GREEDY, SamplingParams(logprobs=20), SamplingParams(frequency_penalty=1.0, top_p=0.9)):
        found = HandDriver(worker, [[*A, 120]], [params], [1]).run(12)[0]
        assert max(found.token_ids) < 100
        assert all(max(entry) < 100 for entry in found.logprobs if entry)


def test_steps_in_flight_do_not_change_tokens(worker):
    """The host may be two steps behind: the worker reads each token from its own rows."""
    params = [GREEDY, SamplingParams(temperature=0.9, frequency_penalty=0.5), SamplingParams(min_p=0.1)]
    plain = answer(worker, [A, B, C], params)
    worker.scheduling = dataclasses.replace(worker.scheduling, steps_in_flight=2)
    assert answer(worker, [A, B, C], params, in_flight=1) == plain
    assert answer(worker, [A, B, C], params, in_flight=2) == plain


def test_reused_row_forgets_its_last_request(worker):
    """Only the admit write resets a row: parameters, penalty counts and table of the request before are gone."""
    fresh = answer(worker, [A], GREEDY)
    driver = HandDriver(worker, [B], [SamplingParams(repetition_penalty=3.0, logprobs=2, min_tokens=9)], [4])
    driver.run(12)
    second = HandDriver(worker, [A], [GREEDY], [1])
    worker.reset = lambda scheduling: None  # same rows: the first request's state is still there
    try:
        assert [found.token_ids for found in second.run(16)] == fresh
    finally:
        del worker.reset
    assert second.answers[0].logprobs == [None] * 16


def test_idle_rows_and_other_slots_are_never_written(worker):
    """Canary: two of four rows decode; every slot but theirs keeps its bytes, block 0 included."""
    driver = HandDriver(worker, [A, B], [GREEDY, GREEDY], [1, 2])
    driver.run(1)
    worker.cache.data.fill_(7.5)
    worker.launch(driver._step(1, [len(A), len(B)], [1, 1]))
    worker.poll()
    touched = (worker.cache.data != 7.5).any(-1).any(0).any(0).any(1).nonzero().tolist()  # (block, offset)
    size = worker.scheduling.block_size
    expected = [[1 + r * driver.per_row + n // size, n % size] for r, n in enumerate((len(A), len(B)))]
    assert touched == expected
    assert np.array_equal(worker.steps.program.rows.table_lengths[2:], [0, 0])
