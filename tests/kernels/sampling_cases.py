"""Sampling and penalties, run by every backend (fixture ``target``)."""

import pytest
import torch

from kernels.penalties import apply_penalties
from kernels.sampling import sample
from tests.kernels.inputs import close, poisoned

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def draw(target, logits, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seeds=None, positions=None, plain=False):
    """``sample`` with numbers, or one number per row."""
    rows = len(logits)

    def column(value, dtype):
        return torch.as_tensor(value, dtype=dtype).expand(rows).contiguous().to(target.device)

    seeds = column(torch.arange(rows) if seeds is None else seeds, torch.int64)
    filters = column(top_k, torch.int32), column(top_p, torch.float32), column(min_p, torch.float32)
    positions = column(0 if positions is None else positions, torch.int32)
    with poisoned():
        return sample(
            logits.to(target.device), column(temperature, torch.float32), *filters, seeds, positions, plain,
            backend=target.backend,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("vocab", (1, 50, 4099))
def test_greedy_is_argmax(target, dtype, vocab):
    """Temperature 0 divides by nothing (D-01); rows may be a view; the smallest id wins ties; NaN never wins."""
    logits = torch.randn(3, vocab + 5).to(dtype)[:, :vocab]
    logits[1] = 0.0
    logits[2, 0] = torch.nan
    tokens = draw(target, logits, temperature=0.0, plain=True)
    assert tokens.tolist() == [logits[0].float().argmax(), 0, logits[2].nan_to_num(-torch.inf).float().argmax()]


def test_greedy_and_hot_rows_share_a_batch(target):
    """Temperatures 0, 1 and 1e-6 in one batch: the first and last are argmax, none disturbs another (D-01)."""
    logits = torch.randn(3, 300)
    mixed = draw(target, logits, temperature=[0.0, 1.0, 1e-6])
    assert mixed[[0, 2]].tolist() == logits[[0, 2]].argmax(-1).tolist()
    assert draw(target, logits[1:2], seeds=[1]).tolist() == mixed[1:2].tolist()


@pytest.mark.parametrize("plain", (True, False))
def test_the_stream_belongs_to_seed_and_position(target, plain):
    """Not to the row, the neighbours or the batch (D-04): reversed rows give reversed tokens, a new position others."""
    logits = torch.zeros(4, 5000)
    seeds, positions = torch.tensor([7, -1, 2**62, 7]), torch.tensor([3, 3, 3, 4])
    tokens = draw(target, logits, seeds=seeds, positions=positions, plain=plain)
    assert draw(target, logits, seeds=seeds.flip(0), positions=positions.flip(0), plain=plain).equal(tokens.flip(0))
    assert len(set(tokens.tolist())) == 4


def test_draws_follow_the_distribution(target):
    """Chi-square of many draws: tokens that share a group, neighbours, and one in another span, of unequal mass."""
    ids, count = torch.tensor([5, 261, 517, 6, 3000, 4100]), 100 if target.interpreted else 2000
    logits = torch.full((4200,), -60.0)
    logits[ids] = torch.tensor([2.0, 1.0, 0.0, 1.5, -1.0, 0.5])
    expected = count * (logits[ids] / 2).softmax(-1)
    for filters in ({"plain": True}, {"top_k": 6}, {"top_p": 0.9999}):
        many = {"temperature": 2.0, "seeds": 5, "positions": torch.arange(count)}
        tokens = draw(target, logits.expand(count, -1), **many, **filters).cpu()
        seen = torch.bincount(tokens, minlength=4200)[ids]
        assert seen.sum() == count
        assert ((seen - expected).square() / expected).sum() < 25.7  # 5 degrees of freedom: 1 in 10,000


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("top_p", (1e-8, 1e-4, 1e-3, 0.0))
def test_tiny_top_p_keeps_the_best_token(target, dtype, top_p):
    """1 - top_p rounds to 1 and once masked every token (D-02)."""
    logits = torch.randn(1, 4096).clamp(max=5).to(dtype)
    logits[0, 17] = 8
    assert draw(target, logits, top_p=top_p).tolist() == [17]


@pytest.mark.parametrize("top_k", (0, -1, 1050))
def test_no_top_k_is_not_greedy(target, top_k):
    """A default of 0 or -1 means all tokens, and so does more than the vocabulary (D-03)."""
    tokens = draw(target, torch.zeros(40, 50), top_k=top_k, positions=torch.arange(40), seeds=42)
    assert len(set(tokens.tolist())) >= 20


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_filters_keep_exactly_their_tokens(target, dtype):
    """Four tokens of known mass: which of them many draws hit, and that nothing else is hit, is known beforehand."""
    rows = 3 if target.interpreted else 64
    logits = torch.full((rows, 700), -30.0, dtype=dtype)
    ids = torch.tensor([650, 3, 77, 300])
    logits[:, ids] = torch.tensor([0.5, 0.25, 0.125, 0.125]).log().to(dtype)
    many = {"positions": torch.arange(rows), "seeds": 9}
    kept = {
        "top_k=2": draw(target, logits, top_k=2, **many),
        "top_p=0.7": draw(target, logits, top_p=0.7, **many),
        "min_p=0.4": draw(target, logits, min_p=0.4, **many),
        "top_k=2 leaves 2/3 and 1/3, top_p=0.6 the first": draw(target, logits, top_k=2, top_p=0.6, **many),
        "a tie at the pivot stays whole": draw(target, logits, top_k=3, **many),
    }
    allowed = ([650, 3], [650, 3], [650, 3], [650], [650, 3, 77, 300])
    for (what, tokens), expected in zip(kept.items(), allowed):
        assert set(tokens.tolist()) <= set(expected), what
        assert target.interpreted or len(set(tokens.tolist())) == len(expected), what


def test_top_k_beyond_the_finite_logits(target):
    """Tokens at -inf (forbidden ids) stay out though top_k has room for them."""
    logits = torch.full((8, 100), -torch.inf, dtype=torch.float16)
    logits[:, 40:43] = 1.0
    assert set(draw(target, logits, top_k=10, positions=torch.arange(8)).tolist()) <= {40, 41, 42}


def test_the_padded_part_of_a_vocabulary_is_never_chosen(target):
    """A head of 128 over a tokenizer of 100: the caller passes the real part as a view (D-15)."""
    logits = torch.randn(4, 128)
    logits[:, 120] = 50.0
    for temperature in (0.0, 1.0):
        assert draw(target, logits[:, :100], temperature=temperature, plain=True).max() < 100


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_penalties(target, dtype):
    """Repetition counts the prompt, presence and frequency the output only; neutral rows keep their bits (C-10)."""
    before = torch.tensor([[2.0, -2.0, 2.0, -2.0, 1.0]]).repeat(2, 1).to(target.device, dtype)
    counts = torch.tensor([[0, 0, 3, 1, 0]], dtype=torch.int32, device=target.device).repeat(2, 1)
    prompt = torch.tensor([[True, True, False, False, False]], device=target.device).repeat(2, 1)
    factors = ([1.0, 2.0], [0.0, 0.5], [0.0, 0.25])
    for mask in (prompt, prompt.to(torch.int8)):
        logits = before.clone()
        apply_penalties(logits, counts, mask, *(torch.tensor(x).to(target.device) for x in factors), target.backend)
        assert torch.equal(logits[0], before[0])
        close(logits[1], torch.tensor([1.0, -4.0, 1.0 - 0.5 - 0.75, -4.0 - 0.5 - 0.25, 1.0]))
