// Tokens per step: solid decode, striped prefill, crossed padded; a triangle where somebody was preempted.

import { el } from "./dom.js";
import { pattern, themeInks } from "./ink.js";
import { reasonBand } from "./reasons.js";
import { FONT, roomy, Surface } from "./surface.js";
import { t } from "./words.js";

const TOP = 14; // room for the triangles
const SHOWN = 120;

export function historyBars(cursor) {
  const surface = new Surface(t("history.name"));
  const why = reasonBand(cursor);
  const node = el(
    "section",
    { class: "fd-card fd-history" },
    el("h2", {}, t("history.title"), " ", el("small", {}, t("history.caption"))),
    el("div", { class: "fd-box" }, surface.node),
    el("div", { class: "fd-box fd-why-band" }, why.surface.node),
  );
  let bars = [];
  const under = (event) => bars[Math.floor((surface.place(event)[0] * SHOWN) / surface.width)];
  surface.node.addEventListener("click", (event) => under(event) && cursor.goto(under(event)[0]));
  surface.node.addEventListener("pointermove", (event) => {
    const bar = under(event);
    surface.node.title = bar
      ? t("history.bar", { step: bar[0], decode: bar[1], prefill: bar[2], ms: bar[5].toFixed(1) })
      : "";
  });

  function render({ frame }) {
    if (!frame) return;
    bars = frame.history;
    const total = (column) => bars.reduce((sum, bar) => sum + bar[column], 0);
    surface.describe(
      t("history.summary", { steps: bars.length, decode: total(1), prefill: total(2), preemptions: total(4) }),
    );
    draw(surface, frame, themeInks(node));
    why.render(frame, node);
  }
  return { node, render, surface, surfaces: [surface, why.surface] };
}

function draw(surface, frame, ink) {
  const height = 76 * roomy(surface.node);
  const pen = surface.begin(height);
  if (!pen) return;
  const top = scale(frame);
  const [w, tall] = [surface.width / SHOWN, height - TOP - 2];
  const stripes = pattern(pen, "hatch", ink.accent, surface.scale);
  axis(pen, surface.width, height, top, ink);
  frame.history.forEach(([step, decode, prefill, padded, preemptions], at) => {
    const x = at * w;
    let y = height - 1;
    for (const [count, fill] of [
      [decode, ink.accent],
      [prefill, stripes],
      [padded, pattern(pen, "hatch", ink.bad, surface.scale)],
    ]) {
      const h = Math.min(tall, (count / top) * tall);
      pen.fillStyle = fill;
      pen.fillRect(x, y - h, Math.max(1, w - 1.4), h);
      y -= h;
    }
    if (preemptions) triangle(pen, x + w / 2, 3, ink.bad);
    if (step === frame.step) mark(pen, x, w, height, ink);
  });
}

// The end of the axis: the budget, or a round number when the steps are far below it.
function scale(frame) {
  const most = Math.max(16, ...frame.history.map((bar) => bar[1] + bar[2] + bar[3]));
  return Math.max(1, Math.min(frame.tokens.budget, 2 ** Math.ceil(Math.log2(most))));
}

function axis(pen, width, height, top, ink) {
  pen.strokeStyle = ink.line;
  pen.lineWidth = 1;
  for (const share of [0.5, 1]) {
    const y = Math.round(height - 1 - share * (height - TOP - 2)) + 0.5;
    pen.beginPath();
    pen.moveTo(0, y);
    pen.lineTo(width - 24, y);
    pen.stroke();
    pen.fillStyle = ink.dim;
    pen.font = `10px ${FONT}`;
    pen.textAlign = "right";
    pen.fillText(Math.round(top * share), width, y);
    pen.textAlign = "left";
  }
}

export function triangle(pen, x, y, fill) {
  pen.fillStyle = fill;
  pen.beginPath();
  pen.moveTo(x - 4.5, y);
  pen.lineTo(x + 4.5, y);
  pen.lineTo(x, y + 8);
  pen.fill();
}

// Where the viewer stands.
function mark(pen, x, w, height, ink) {
  pen.fillStyle = ink.ink;
  pen.fillRect(x, height - 2, Math.max(2, w), 2);
}
