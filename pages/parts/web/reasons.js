// What stopped the head of the queue, step by step, under the bars of the same steps: colour, pattern and word.

import { pattern, themeInks } from "./ink.js";
import { FONT, Surface } from "./surface.js";
import { t } from "./words.js";

const SHOWN = 120;
const [BAND, KEYS] = [12, 17]; // heights
const LOOKS = {
  no_free_blocks: ["#D55E00", "solid"],
  watermark: ["#D55E00", "hatch"],
  reserved_for_running: ["#D55E00", "dots"],
  max_num_seqs: ["#0072B2", "solid"],
  token_budget: ["#E69F00", "hatch"],
  gate_closed: ["#999999", "hatch"],
  preempted_this_step: ["#CC79A7", "solid"],
  waiting_for_prefix: ["#009E73", "dots"],
  priority: ["#CC79A7", "dots"],
  result_pending: ["#56B4E9", "hatch"],
  draining: ["#999999", "dots"],
};

// frame.history: [step, decode, prefill, padded, preemptions, ms, head, reason, need, have]
export function reasonBand(cursor) {
  const surface = new Surface(t("why.name"));
  let bars = [];
  const under = (event) => bars[Math.floor((surface.place(event)[0] * SHOWN) / surface.width)];
  surface.node.addEventListener("click", (event) => under(event) && cursor.goto(under(event)[0]));
  surface.node.addEventListener("pointermove", (event) => {
    const bar = under(event);
    surface.node.title = bar ? barWords(bar) : "";
  });

  function render(frame, root) {
    bars = frame.history;
    const counts = tally(bars);
    const list = counts.map(([reason, n]) => `${t(`why.${reason}`)} ${n}`).join(", ");
    surface.describe(list ? t("why.summary", { list }) : t("why.none"));
    draw(surface, bars, counts, themeInks(root));
  }
  return { render, surface };
}

function barWords([step, , , , , , head, reason, need, have]) {
  if (reason === "none") return t("why.bar_none", { step });
  return t("why.bar", { step, head, why: t(`reason.${reason}`, { need, have }) });
}

function tally(bars) {
  const counts = new Map();
  for (const bar of bars) if (bar[7] !== "none") counts.set(bar[7], (counts.get(bar[7]) ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1]);
}

function paint(pen, surface, reason) {
  const [hex, kind] = LOOKS[reason];
  return kind === "solid" ? hex : pattern(pen, kind, hex, surface.scale);
}

function draw(surface, bars, counts, ink) {
  const pen = surface.begin(BAND + KEYS);
  if (!pen) return;
  const w = surface.width / SHOWN;
  pen.strokeStyle = ink.line;
  pen.strokeRect(0.5, 0.5, surface.width - 1, BAND - 1);
  bars.forEach((bar, at) => {
    if (bar[7] === "none") return;
    pen.fillStyle = paint(pen, surface, bar[7]);
    pen.fillRect(at * w, 1, w + 0.3, BAND - 2);
  });
  keys(pen, surface, counts, ink);
}

function keys(pen, surface, counts, ink) {
  pen.font = `12px ${FONT}`;
  const y = BAND + KEYS / 2 + 1;
  let x = 0;
  const say = (text) => {
    pen.fillStyle = ink.dim;
    pen.fillText(text, x, y);
    x += pen.measureText(text).width + 12;
  };
  say(counts.length ? t("why.title") : t("why.none"));
  for (const [reason, n] of counts) {
    pen.fillStyle = paint(pen, surface, reason);
    pen.fillRect(x, y - 5, 15, 10);
    x += 19;
    say(`${t(`why.${reason}`)} ${n}`);
  }
}
