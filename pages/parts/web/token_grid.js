// The tokens of this step: one square per token. Few rows: a line per row. Many: all tokens packed, row after row.

import { el, setText } from "./dom.js";
import { colour, inkOn, pattern, themeInks } from "./ink.js";
import { FONT, roomy, roundBox, Surface } from "./surface.js";
import { t } from "./words.js";

const LINES = 10; // up to here each row has its own line
const LEFT = 160; // room for the letter and the words

export function tokenGrid(cursor) {
  const surface = new Surface(t("tokens.name"));
  const caption = el("small");
  const node = el(
    "section",
    { class: "fd-card fd-tokens" },
    el("h2", {}, t("tokens.title"), " ", caption),
    el("div", { class: "fd-box" }, surface.node),
  );
  let hits = [];
  surface.node.addEventListener("click", (event) => {
    const [x, y] = surface.place(event);
    const hit = hits.find((box) => x >= box.x && x <= box.x + box.w && y >= box.y && y <= box.y + box.h);
    if (hit) cursor.select(hit.id);
  });

  function render({ frame }) {
    if (!frame) return;
    const { rows, used, budget } = frame.tokens;
    setText(caption, t("tokens.caption", { used, budget }));
    surface.describe(t("tokens.summary", { used, budget, rows: rows.length }));
    hits =
      rows.length <= LINES ? drawLines(surface, frame, themeInks(node)) : drawPacked(surface, frame, themeInks(node));
  }
  return { node, render, surface };
}

function paint(pen, surface, row, x, y, w, h) {
  const hex = colour(row.id);
  pen.fillStyle = row.phase === "decode" ? hex : pattern(pen, "hatch", hex, surface.scale);
  if (w < 12 && row.phase !== "padded") return pen.fillRect(x, y, w, h);
  roundBox(pen, x, y, w, h, 2);
  pen.fill();
  if (row.phase !== "padded") return undefined;
  pen.strokeStyle = hex; // computed and thrown away: hatched and crossed
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x + w, y + h);
  pen.moveTo(x + w, y);
  pen.lineTo(x, y + h);
  pen.stroke();
  return undefined;
}

const words = (row) =>
  row.phase === "prefill"
    ? t("tokens.prefill", { from: row.start, to: row.start + row.count - 1 })
    : t(`tokens.${row.phase}`);

function drawLines(surface, frame, ink) {
  const { rows, used, budget } = frame.tokens;
  const line = (144 * roomy(surface.node)) / Math.max(rows.length, Math.min(LINES, frame.run.max_num_seqs));
  const height = 144 * roomy(surface.node) + 18;
  const pen = surface.begin(height);
  if (!pen) return [];
  const most = Math.min(budget, Math.max(64, 2 * used)); // a budget of thousands would leave the tokens too thin to see
  const cell = (surface.width - LEFT - 8) / most;
  const gap = cell > 5 ? Math.min(2.5, cell * 0.18) : 0;
  const tails = new Map(frame.running.map((request) => [request.id, request.tail]));
  const hits = rows.map((row, at) => {
    const y = 2 + at * line;
    const end = LEFT + row.count * cell + 10;
    drawTail(pen, tails.get(row.id), end, y + Math.min(30, line - 5) / 2 + 1, surface.width - 8 - end, ink);
    pen.font = `700 12px ${FONT}`;
    pen.fillStyle = ink.ink;
    pen.fillText(row.label, 2, y + Math.min(30, line - 5) / 2 + 1);
    pen.font = `11.5px ${FONT}`;
    pen.fillStyle = ink.dim;
    pen.fillText(words(row), 32, y + Math.min(30, line - 5) / 2 + 1, LEFT - 40);
    for (let i = 0; i < row.count; i++)
      paint(pen, surface, row, LEFT + i * cell, y, cell - gap, Math.min(30, line - 5));
    return { id: row.id, x: 0, y, w: surface.width, h: line };
  });
  drawLimit(pen, LEFT + used * cell, height, used, budget, ink, surface.width);
  return hits;
}

// The end of the answer so far, right of the row's tokens: what is being written, as it is written.
function drawTail(pen, tail, x, y, room, ink) {
  if (!tail || room < 60) return;
  pen.font = `12px ui-monospace, monospace`;
  const text = tail.replace(/\s+/g, " ");
  const fits = Math.floor(room / pen.measureText("n").width);
  pen.fillStyle = ink.dim;
  pen.fillText(text.length > fits ? `…${text.slice(1 - fits)}` : text, x, y);
}

// A dashed line at the number of tokens used, and where the budget ends.
function drawLimit(pen, x, height, used, budget, ink, width) {
  pen.strokeStyle = ink.dim;
  pen.setLineDash([4, 3]);
  pen.beginPath();
  pen.moveTo(x, height - 24);
  pen.lineTo(x, height - 16);
  pen.stroke();
  pen.setLineDash([]);
  pen.fillStyle = ink.line;
  pen.fillRect(LEFT, height - 15, width - LEFT - 8, 2);
  pen.fillStyle = ink.accent;
  pen.fillRect(LEFT, height - 15, x - LEFT, 2);
  pen.fillStyle = ink.dim;
  pen.font = `11px ${FONT}`;
  pen.textAlign = used / budget > 0.5 ? "right" : "left";
  pen.fillText(t("tokens.used", { used, budget }), x + (used / budget > 0.5 ? -4 : 4), height - 6);
  pen.textAlign = "left";
}

function drawPacked(surface, frame, ink) {
  const { rows, budget } = frame.tokens;
  const height = 144 * roomy(surface.node) + 18;
  const pen = surface.begin(height);
  if (!pen) return [];
  const size = Math.max(2, Math.min(20, Math.floor(Math.sqrt((surface.width * height) / budget))));
  const across = Math.floor(surface.width / size);
  const gap = size > 5 ? 1.5 : 0.5;
  const hits = [];
  let at = 0;
  for (const row of rows)
    for (let i = 0; i < row.count; i++, at++) {
      const [x, y] = [(at % across) * size, Math.floor(at / across) * size];
      paint(pen, surface, row, x, y, size - gap, size - gap);
      if (row.phase === "decode" && size >= 14) letter(pen, row, x + (size - gap) / 2, y + (size - gap) / 2);
      hits.push({ id: row.id, x, y, w: size, h: size });
    }
  pen.strokeStyle = ink.line;
  for (; at < budget; at++) {
    const [x, y] = [(at % across) * size, Math.floor(at / across) * size];
    if (size > 4) pen.strokeRect(x + 0.5, y + 0.5, size - gap - 1, size - gap - 1);
  }
  return hits;
}

function letter(pen, row, x, y) {
  pen.fillStyle = inkOn(row.id);
  pen.font = `700 ${row.label.length > 1 ? 8 : 10}px ${FONT}`;
  pen.textAlign = "center";
  pen.fillText(row.label, x, y + 0.5);
  pen.textAlign = "left";
}
