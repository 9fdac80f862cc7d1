"""Padded steps, as CUDA graphs run them, on the CPU: same tokens, and no slot touched that is not the step's own."""

import pytest

from engine.request import SamplingParams
from engine.worker.graphs import Ladder, Shapes
from tests.worker.checkpoints import build, save, worker_for
from tests.worker.drive import GREEDY, HandDriver, answer
from tests.worker.loop import Loop, serve
from tests.worker.test_sampling_rows import A, B, C
from tests.worker.test_whole_answers import prompts_of

PARAMS = SamplingParams(temperature=0.9, top_p=0.9, frequency_penalty=0.4, max_tokens=12)


@pytest.fixture
def worker(tmp_path):
    return worker_for(save(build("llama", seed=6), tmp_path), max_num_seqs=5, token_budget=64)


class Rerun:
    """Stands where a CUDA graph stands: runs again what would have been captured, on the same buffers."""

    def __init__(self, program, shape):
        self.program, self.shape = program, shape

    def replay(self):
        self.program.run(self.shape)


def pad(worker, graphs: bool) -> None:
    """Make a CPU worker pad its steps as on CUDA, eagerly or through buffers that never move."""
    limits, steps = worker.scheduling, worker.steps
    steps.shapes = Shapes(limits.max_num_seqs, limits.token_budget)
    if not graphs:
        return
    steps.ladder = Ladder(steps.program, steps.shapes, 0)
    for shape in steps.shapes.all():
        steps.program.rest(shape)
        steps.ladder.captured[shape] = Rerun(steps.program, shape)


def test_every_step_has_a_shape():
    """Each count of tokens and entries fits the shape it is given, and all() holds that shape."""
    for rows, budget in ((1, 1), (5, 7), (8, 64), (16, 16), (256, 8192), (300, 5000)):
        shapes = Shapes(rows, budget)
        for tokens in range(1, rows + 1):
            shape = shapes.of_tokens(tokens, True)
            assert shape in shapes.all() and shape.tokens == shape.entries >= tokens
        for tokens in range(1, budget + 1):
            shape = shapes.of_tokens(tokens, False)
            assert shape in shapes.all() and shape.tokens >= tokens and shape.entries >= min(tokens, rows)
        assert len(shapes.all()) < 60


@pytest.mark.parametrize("graphs", [False, True], ids=["eager", "graphs"])
def test_F_02_padded_batches_equal_unpadded_ones(worker, graphs):
    """Batches of 1 to 5 rows; buckets are 1, 2, 4 and 5, so 3 is padded."""
    prompts, params = [A, B, C, A + C, B + A], [PARAMS, GREEDY, PARAMS, GREEDY, PARAMS]
    plain = [answer(worker, prompts[:n], params[:n]) for n in range(1, 6)]
    pad(worker, graphs)
    assert [answer(worker, prompts[:n], params[:n]) for n in range(1, 6)] == plain


@pytest.mark.parametrize("graphs", [False, True], ids=["eager", "graphs"])
@pytest.mark.parametrize("in_flight", [0, 1])
def test_chunks_and_decodes_in_padded_steps(worker, graphs, in_flight):
    """Mixed steps under pressure: chunks of several prompts beside decodes, entries and tokens both padded."""
    alone = [serve(worker, [prompt], PARAMS).token_ids[0] for prompt in prompts_of()]
    loop = Loop(worker, token_budget=11, pool_blocks=30, steps_in_flight=in_flight)
    pad(worker, graphs)
    for prompt in prompts_of():
        loop.add(prompt, PARAMS)
    assert loop.run().token_ids == alone


@pytest.mark.parametrize("graphs", [False, True], ids=["eager", "graphs"])
def test_F_01_padding_writes_no_slot(worker, graphs):
    """Three live decodes padded to four: slot -1 used as an index overwrote the last slot of the pool."""
    driver = HandDriver(worker, [A, B, C], [GREEDY] * 3, [1, 2, 3])
    driver.run(1)
    pad(worker, graphs)
    worker.cache.data.fill_(7.5)
    worker.launch(driver._step(1, [len(A), len(B), len(C)], [1, 1, 1]))
    worker.poll()
    touched = (worker.cache.data != 7.5).any(-1).any(0).any(0).any(1).nonzero().tolist()  # (block, offset)
    places = [divmod(len(prompt), 4) for prompt in (A, B, C)]
    assert touched == [[1 + row * driver.per_row + block, offset] for row, (block, offset) in enumerate(places)]


@pytest.mark.parametrize("kinds", [(False,), (False, True)], ids=["plain graphs alone", "filtered graphs too"])
def test_filters_choose_alike_in_and_behind_a_graph(worker, kinds):
    """Rows with top-p and top-k beside greedy ones: a graph without filters must not have the last word."""
    prompts = [A, B, C, A + C]
    params = [SamplingParams(temperature=0.9, top_p=0.8), GREEDY, SamplingParams(temperature=1.2, top_k=3), GREEDY]
    eager = answer(worker, prompts, params)
    pad(worker, graphs=True)
    captured = worker.steps.ladder.captured
    worker.steps.ladder.captured = {shape: graph for shape, graph in captured.items() if shape.filtered in kinds}
    assert answer(worker, prompts, params) == eager
