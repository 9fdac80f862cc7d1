// The block pool: one cell per block. Colour and letter say whose, pattern and border say in which state.

import { el, setText } from "./dom.js";
import { colour, inkOn, label, pattern, themeInks } from "./ink.js";
import { FONT, roomy, roundBox, Surface } from "./surface.js";
import { t } from "./words.js";

const [FREE, USED, CACHED] = [0, 1, 2]; // frame.pool.state; 3: held by a padded row
const NEXT = 8; // blocks whose turn is shown

export function poolGrid(cursor) {
  const surface = new Surface(t("pool.name"));
  const caption = el("small");
  const legend = el("p", { class: "fd-legend" });
  const node = el(
    "section",
    { class: "fd-card fd-pool" },
    el("h2", {}, t("pool.title"), " ", caption),
    el("div", { class: "fd-box" }, surface.node),
    legend,
  );
  let grid = null;
  let drawn = null;
  const under = (event) => {
    const [x, y] = surface.place(event);
    const at = grid ? Math.floor(y / grid.h) * grid.across + Math.floor(x / grid.w) : -1;
    return drawn && at >= 0 && at < drawn.owner.length ? at : null;
  };
  surface.node.addEventListener("click", (event) => {
    const at = under(event);
    if (at !== null && drawn.owner[at] >= 0) cursor.select(drawn.owner[at]);
  });
  surface.node.addEventListener("pointermove", (event) => {
    const at = under(event);
    surface.node.title = at === null ? "" : cellWords(drawn, at);
  });
  for (const id of ["used", "cached", "free", "shared"])
    legend.append(el("span", { class: `fd-key fd-key-${id}` }), t(`pool.key_${id}`), " ");

  function render({ frame, marked }) {
    if (!frame) return;
    drawn = frame.pool;
    const { blocks_used: used, blocks_total: total, blocks_cached: cached } = frame.numbers;
    setText(caption, t("pool.caption", { used, cached, free: total - used - cached }));
    surface.describe(t("pool.summary", { used, cached, free: total - used - cached, total }));
    grid = layout(surface.node.parentElement.clientWidth, total, 144 * roomy(surface.node));
    const pen = surface.begin(grid.height);
    if (pen) drawCells(pen, surface, frame, marked, grid, themeInks(node));
  }
  return { node, render, surface };
}

// As few lines as fit: big cells with letters for a classroom pool, a fine mosaic for thousands of blocks.
function layout(width, total, room) {
  const across = total <= 80 ? 16 : total <= 128 ? 32 : Math.ceil(Math.sqrt((total * width) / room));
  const lines = Math.ceil(total / across);
  const w = width / across;
  const h = total <= 128 ? Math.min(60, room / lines) : Math.min(w, Math.max(3, room / lines));
  return { across, w, h, height: Math.ceil(lines * h) + 2 };
}

// The blocks of the selected request are outlined, or those that were chosen in the prefix tree.
function drawCells(pen, surface, frame, marked, grid, ink) {
  const mine = new Set(marked.length ? marked : (frame.selected?.table ?? []));
  const next = new Map(frame.pool.lru.slice(0, NEXT).map((block, place) => [block, place + 1]));
  const gap = grid.w > 10 ? 4 : grid.w > 5 ? 1 : 0.5;
  frame.pool.owner.forEach((owner, at) => {
    const [x, y] = [(at % grid.across) * grid.w + gap / 2, Math.floor(at / grid.across) * grid.h + gap / 2];
    const cell = {
      x,
      y,
      w: grid.w - gap,
      h: grid.h - gap,
      owner,
      state: frame.pool.state[at],
      refs: frame.pool.refs[at],
    };
    cell.mine = mine.has(at + 1);
    cell.next = next.get(at + 1);
    drawCell(pen, surface, cell, ink);
  });
}

function drawCell(pen, surface, cell, ink) {
  const { x, y, w, h, owner, state } = cell;
  const big = w >= 17 && h >= 16;
  const hex = owner >= 0 ? colour(owner) : ink.line;
  if (state !== FREE)
    pen.fillStyle = state === USED ? hex : pattern(pen, state === CACHED ? "dots" : "hatch", hex, surface.scale);
  if (big) {
    roundBox(pen, x, y, w, h, 5);
    if (state !== FREE) pen.fill();
    pen.strokeStyle = hex;
    pen.lineWidth = 1.5;
    pen.stroke();
  } else if (state !== FREE) pen.fillRect(x, y, w, h);
  if (cell.refs > 1) inner(pen, x, y, w, h, big ? inkOn(owner) : ink.ink);
  if (cell.mine) outline(pen, x, y, w, h, ink.ink, big);
  if (cell.next && state === CACHED) cross(pen, x, y, Math.min(7, w / 2), ink.bad);
  if (big) cellLetters(pen, cell, ink);
}

// Loses its content soon: a cross in the corner.
function cross(pen, x, y, size, stroke) {
  pen.strokeStyle = stroke;
  pen.lineWidth = 1.8;
  pen.beginPath();
  pen.moveTo(x + 2, y + 2);
  pen.lineTo(x + 2 + size, y + 2 + size);
  pen.moveTo(x + 2 + size, y + 2);
  pen.lineTo(x + 2, y + 2 + size);
  pen.stroke();
}

// Shared by several requests: a second border inside the first.
function inner(pen, x, y, w, h, stroke) {
  const inset = Math.min(3, w / 4);
  roundBox(pen, x + inset, y + inset, w - 2 * inset, h - 2 * inset, 3);
  pen.strokeStyle = stroke;
  pen.lineWidth = 1.2;
  pen.stroke();
}

// Belongs to the selected request.
function outline(pen, x, y, w, h, stroke, big) {
  roundBox(pen, x - 1, y - 1, w + 2, h + 2, big ? 6 : 1);
  pen.strokeStyle = stroke;
  pen.lineWidth = big ? 2 : 1;
  pen.stroke();
}

function cellLetters(pen, { x, y, w, h, owner, state, refs, next }, ink) {
  pen.textAlign = "center";
  if (owner >= 0 && state !== FREE) {
    const text = label(owner) + (refs > 1 ? "²³⁴⁵⁶⁷⁸⁹"[Math.min(refs, 9) - 2] : "");
    pen.font = `700 ${text.length > 1 && w < 28 ? 9 : 12}px ${FONT}`;
    if (state !== USED) plate(pen, x + w / 2, y + h / 2, pen.measureText(text).width, ink.card);
    pen.fillStyle = state === USED ? inkOn(owner) : ink.ink;
    pen.fillText(text, x + w / 2, y + h / 2 + 0.5);
  }
  if (next && state !== USED && (state === FREE || w >= 30)) {
    const [nx, ny] = state === FREE ? [x + w / 2, y + h / 2] : [x + w - 8, y + 9];
    pen.font = `10px ${FONT}`;
    if (state !== FREE) plate(pen, nx, ny, 3, ink.card);
    pen.fillStyle = state === FREE ? ink.dim : ink.ink;
    pen.fillText(next, nx, ny + 0.5);
  }
  pen.textAlign = "left";
}

// A plain ground behind a letter that would stand on dots or stripes.
function plate(pen, x, y, width, fill) {
  roundBox(pen, x - width / 2 - 3, y - 8, width + 6, 16, 4);
  pen.fillStyle = fill;
  pen.fill();
}

function cellWords(pool, at) {
  const state = ["free", "used", "cached", "padded"][pool.state[at]];
  const values = { block: at + 1, owner: pool.owner[at] >= 0 ? label(pool.owner[at]) : "", refs: pool.refs[at] };
  return t(`pool.cell_${state}`, values);
}
