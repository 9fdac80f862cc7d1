"""The tables of the attention stepper: the scores with the tile that is read, and what each query has gathered."""

from html import escape

import numpy as np

from engine.workload.kernel_ledger import TILE_QUERIES, naive_bytes, score_bytes, tiled_bytes
from engine.workload.online_softmax import KEYS, LOWEST, QUERIES, Problem, Tile
from lessons.figures.roofline import quantity
from pages.parts.words import t

PROMPTS = (1024, 4096, 16384, 65536)  # tokens
_STYLE = """<style>
.kl { border-collapse: separate; border-spacing: 2px; font: 13px/1.35 system-ui, sans-serif; }
.kl td { font-variant-numeric: tabular-nums; }
.kl caption { text-align: left; font-weight: 600; padding: 2px 0; }
.kl th { font-weight: 500; padding: 2px 6px; text-align: right; white-space: nowrap; opacity: 0.8; }
.kl td { min-width: 47px; box-sizing: border-box; }
.kl td { padding: 4px 4px; text-align: right; border-radius: 4px; border: 2px solid transparent; }
.kl .done { background: light-dark(#e4eef7, #16324a); }
.kl .now { background: light-dark(#bfe0f5, #0b4a73); border-color: light-dark(#0072b2, #56b4e9); font-weight: 600; }
.kl .next { border: 1.5px dashed light-dark(#a9b2c0, #4a5568); opacity: 0.75; }
.kl .never { background: repeating-linear-gradient(45deg, transparent 0 4px, light-dark(#d4d9e1, #39424f) 4px 6px); }
.kl .top { text-decoration: underline; text-underline-offset: 3px; text-decoration-thickness: 2px; }
.kl .shrunk { background: light-dark(#ffe0c2, #5c3210); border-color: light-dark(#b34700, #f0803c); font-weight: 700; }
.kl .gap { min-width: 6px; }
.kl-wide { overflow-x: auto; }
</style>"""


def scores(given: Problem, steps: list[Tile], at: int) -> str:
    """The score matrix: tiles folded in, the tile of this step, tiles not read yet, and what no query may see."""
    values, now = given.scores, steps[at - 1] if at else None
    heads = "".join(f"<th scope='col'>k{key}</th>" for key in range(KEYS))
    rows = [f"<tr><th></th>{heads}</tr>"]
    for query in range(QUERIES):
        cells = "".join(_score(values[query, key], key, query, now) for key in range(KEYS))
        rows.append(f"<tr><th scope='row'>q{query}</th>{cells}</tr>")
    return _table("scores", rows)


def state(steps: list[Tile], at: int) -> str:
    """Maximum before and after, shrink, sum and accumulator of each query. A rescaled query is marked and named."""
    tile = steps[at - 1] if at else None
    dim = steps[0].acc.shape[1]
    names = [t(f"kernel_lab.tiles.{name}") for name in ("m_before", "m", "shrink", "l")]
    heads = [f"<th scope='col'>{escape(name)}</th>" for name in names]
    heads += ["<th class='gap'></th>", *(f"<th scope='col'>acc {at_}</th>" for at_ in range(dim))]
    rows = [f"<tr><th></th>{''.join(heads)}</tr>"]
    for query in range(QUERIES):
        rows.append(f"<tr><th scope='row'>q{query}</th>{_gathered(tile, query, dim)}</tr>")
    return _table("state", rows)


def traffic() -> str:
    """What one head moves to and from memory for a prompt, with the score matrix in memory and in tiles."""
    names = ("prompt", "extra", "naive", "tiled")
    heads = "".join(f"<th scope='col'>{escape(t(f'kernel_lab.tiles.{name}'))}</th>" for name in names)
    rows = [f"<tr>{heads}</tr>"]
    for context in PROMPTS:
        sizes = score_bytes(context), naive_bytes(context), tiled_bytes(context)
        cells = f"{context:,}", *(quantity(size, "B") for size in sizes)
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return _table("traffic", rows) + f"<p>{escape(t('kernel_lab.tiles.traffic_note', queries=TILE_QUERIES))}</p>"


def columns(steps: list[Tile]) -> dict[str, list]:
    """Every tile and query as a table."""
    lines = [(f"{tile.begin}-{tile.end - 1}", query, tile) for tile in steps for query in range(QUERIES)]
    return {
        t("kernel_lab.tiles.col_keys"): [keys for keys, _, _ in lines],
        t("kernel_lab.tiles.col_query"): [f"q{query}" for _, query, _ in lines],
        t("kernel_lab.tiles.m"): [round(float(tile.best[query]), 4) for _, query, tile in lines],
        t("kernel_lab.tiles.shrink"): [round(float(tile.shrink[query]), 4) for _, query, tile in lines],
        t("kernel_lab.tiles.l"): [round(float(tile.total[query]), 4) for _, query, tile in lines],
        "acc": [" ".join(f"{x:.3f}" for x in tile.acc[query]) for _, query, tile in lines],
    }


def _score(value: float, key: int, query: int, now: Tile | None) -> str:
    if not np.isfinite(value):
        return f"<td class='never' title='{escape(t('kernel_lab.tiles.never'))}'>×</td>"
    begin, end = (now.begin, now.end) if now else (0, 0)
    if key >= end:
        return f"<td class='next' title='{escape(t('kernel_lab.tiles.next'))}'>·</td>"
    kind = "now" if key >= begin else "done"
    top = " top" if kind == "now" and value == now.best[query] else ""
    return f"<td class='{kind}{top}'>{value:.2f}</td>"


def _gathered(tile: Tile | None, query: int, dim: int) -> str:
    if tile is None:
        return f"<td>–</td><td>−∞</td><td>–</td><td>0</td><td class='gap'></td>{'<td>0</td>' * dim}"
    before = "−∞" if tile.best_before[query] <= LOWEST else f"{tile.best_before[query]:.2f}"
    shrunk = " class='shrunk'" if tile.rescaled[query] else ""
    mark = "↻ " if tile.rescaled[query] else ""
    shrink = f"× {tile.shrink[query]:.3f}" if tile.begin else "–"
    cells = f"<td>{before}</td><td{shrunk}>{tile.best[query]:.2f}</td>"
    cells += f"<td{shrunk}>{mark}{shrink}</td><td>{tile.total[query]:.3f}</td><td class='gap'></td>"
    return cells + "".join(f"<td class='done'>{x:.2f}</td>" for x in tile.acc[query])


def _table(name: str, rows: list[str]) -> str:
    caption = f"<caption>{escape(t(f'kernel_lab.tiles.{name}'))}</caption>"
    return f"{_STYLE}<div class='kl-wide'><table class='kl kl-{name}'>{caption}{''.join(rows)}</table></div>"
