// One band of rows for each scheduler on a common clock: what each row did, filling in as the race goes on.

import { drawAxis } from "./arena_axis.js";
import { badge } from "./arena_badge.js";
import { playBar } from "./arena_player.js";
import { el, keyed, setHidden, setText, table } from "./dom.js";
import { pattern, themeInks } from "./ink.js";
import { Surface } from "./surface.js";
import { number, t } from "./words.js";

const FILL = { useful: "#0072B2", prefill: "#56B4E9", padded: "#D55E00", idle: "#8a93a3" };
const KINDS = ["useful", "prefill", "padded", "idle"];
const [BAND, LITTLE] = [80, 60]; // height of the rows of one scheduler, in pixels

const pitch = (run) => Math.max(3, Math.min(10, (run.compact ? LITTLE : BAND) / (run.rows || 8)));

function swatch(kind) {
  const node = el("i", { class: `ar-key ar-${kind}`, "aria-hidden": "true" });
  return el("span", { class: "ar-legend" }, node, t(`arena.kind.${kind}`));
}

function bandOf(point) {
  const surface = new Surface("");
  const parts = { surface, title: el("b", {}), words: el("div", { class: "fd-dim" }), veil: el("div", { class: "ar-veil" }), big: el("span", { class: "ar-big" }), unit: el("span", { class: "fd-dim" }), below: el("div", { class: "fd-dim ar-below" }) };
  const box = el("div", { class: "fd-box" }, surface.node, parts.veil);
  const node = el("div", { class: "ar-band" }, el("div", {}, parts.title, parts.words), box, el("div", { class: "ar-numbers" }, parts.big, " ", parts.unit, parts.below));
  surface.node.addEventListener("pointermove", (event) => point(node, event));
  surface.node.addEventListener("pointerleave", () => point(null));
  node.parts = parts;
  return node;
}

export function laneCard(player, redraw) {
  const bar = playBar(player);
  const title = el("h2", {});
  const mark = el("span", {});
  const source = el("small", { class: "ar-source" });
  const legend = el("div", { class: "ar-legends" });
  const bands = el("div", { class: "ar-bands" });
  const axis = new Surface("");
  axis.node.setAttribute("aria-hidden", "true");
  const foot = el("div", { class: "ar-band ar-axis" }, el("span", {}), el("div", { class: "fd-box" }, axis.node), el("span", {}));
  const tip = el("div", { class: "ar-tip", hidden: true });
  const details = el("details", { class: "ar-details" });
  const node = el("section", { class: "fd-card ar-lanes" }, el("div", { class: "ar-line" }, title, mark, source, legend), bands, foot, bar.node, details, tip);
  let aim = null; // the request pointed at
  let shown = null;

  function point(band, event) {
    const run = band?.run;
    const found = run?.lanes ? segmentAt(run, band.parts.surface, event, shown.axis_s, player.now) : null;
    showTip(tip, node, found, event);
    const next = found && found[3] >= 0 ? found[3] : null;
    if (next === aim) return;
    aim = next;
    redraw();
  }

  function take(data) {
    shown = data;
    setText(title, t("arena.lanes"));
    badge(mark, data.badge.kind, data.badge.word);
    setText(source, data.badge.detail);
    legend.replaceChildren(...KINDS.map(swatch));
    bar.take();
    setHidden(bar.node, data.mode !== "play");
    keyed(bands, data.runs, (run) => run.name, () => bandOf(point), (band, run) => {
      name(band, { ...run, compact: data.compact });
      if (!band.parts.surface.onResize) band.parts.surface.watch(redraw);
    });
    setHidden(details, data.mode !== "play" || data.compact);
    if (!details.hidden) details.replaceChildren(...report(data));
  }

  function draw(data, now) {
    const inks = themeInks(node);
    for (const band of bands.children) {
      drawBand(band, data, now, inks, aim);
      say(band.parts, band.run, now, data.requests ?? band.run.requests);
    }
    setHidden(foot, !data.runs.some((run) => run.lanes));
    drawAxis(axis, data.axis_s, place(axis, data), inks);
    if (data.mode === "play") bar.draw();
  }
  return { node, take, draw, surfaces: () => [axis, ...[...bands.children].map((band) => band.parts.surface)] };
}

function name(band, run) {
  band.run = run;
  band.dataset.state = run.state;
  setText(band.parts.title, run.title);
  setText(band.parts.words, run.words);
  setText(band.parts.veil, { hidden: t("arena.hidden"), waiting: t("arena.not_yet") }[run.state] ?? "");
  band.parts.surface.describe(run.summary ?? `${run.title}: ${run.words}`);
}

// What the pointer is on, beside the pointer.
function showTip(tip, card, found, event) {
  setHidden(tip, !found);
  if (!found) return;
  const [kind, begin, end, request] = found;
  const who = request >= 0 ? `${t("arena.request", { id: request })} · ` : "";
  setText(tip, `${who}${t(`arena.kind.${kind}`)} · ${begin.toFixed(3)} – ${end.toFixed(3)} s`);
  const room = card.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX - room.left + 14, room.width - tip.offsetWidth - 8)}px`;
  tip.style.top = `${event.clientY - room.top + 16}px`;
}

// The summary sentences and the table beneath the figure.
function report(data) {
  const rows = data.tables.find((one) => one.of === "lanes");
  return [el("summary", {}, t("arena.table")), ...data.runs.map((run) => el("p", { class: "ar-words" }, `${run.summary}.`)), el("div", { class: "ar-scroll" }, table(rows.heads, rows.lines)), ...data.notes.map((note) => el("p", { class: "ar-words" }, note))];
}

const place = (surface, data) => (seconds) => (seconds / data.axis_s) * (surface.width - 2);

function drawBand(band, data, now, inks, aim) {
  const { run, parts } = band;
  const step = pitch(run);
  const pen = parts.surface.begin(run.rows * step + 4);
  if (!pen || !run.lanes) return;
  const at = place(parts.surface, data);
  const until = Math.min(now, run.end_s);
  for (let row = 0; row < run.rows; row++) outline(pen, at(until), 2 + row * step, step * 0.84, inks.line);
  run.lanes.forEach((lane, row) => {
    for (const [kind, begin, end, request] of lane) {
      if (begin >= until) break;
      if (kind === "idle") continue;
      pen.globalAlpha = aim === null || request === aim ? 1 : 0.22;
      fill(pen, kind, at(begin), at(Math.min(end, until)), 2 + row * step, step * 0.84, parts.surface.scale);
    }
  });
  pen.globalAlpha = 1;
  if (now >= run.end_s || data.mode === "live") upright(pen, at(run.end_s), run.rows * step + 4, inks.ink, []);
  else upright(pen, at(now), run.rows * step + 4, inks.dim, [3, 3]);
}

function outline(pen, width, y, height, colour) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.strokeRect(0.5, y + 0.5, Math.max(0, width - 1), height - 1);
}

// Useful is solid, prefill is lighter and half as tall, padded is hatched with an edge.
function fill(pen, kind, left, right, y, height, scale) {
  const width = Math.max(0.7, right - left - (right - left > 4 ? 0.8 : 0));
  if (kind === "padded") {
    pen.fillStyle = pattern(pen, "hatch", FILL.padded, scale);
    pen.fillRect(left, y, width, height);
    pen.strokeStyle = FILL.padded;
    pen.lineWidth = 0.6;
    if (width > 3) pen.strokeRect(left + 0.3, y + 0.3, width - 0.6, height - 0.6);
    return;
  }
  pen.fillStyle = FILL[kind];
  const inset = kind === "prefill" ? height * 0.2 : 0;
  pen.beginPath();
  pen.roundRect(left, y + inset, width, height - 2 * inset, Math.min(1.5, width / 2));
  pen.fill();
}

function upright(pen, x, height, colour, dash) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1.4;
  pen.setLineDash(dash);
  pen.beginPath();
  pen.moveTo(x + 0.5, 0);
  pen.lineTo(x + 0.5, height);
  pen.stroke();
  pen.setLineDash([]);
}

// The counters at this moment of the race; the run's own metrics once it is over.
function say(parts, run, now, of) {
  const tick = run.ticks && lastTick(run.ticks, now);
  const over = run.tps && now >= run.end_s;
  setText(parts.unit, tick || over ? t("arena.tps") : "");
  if (!tick && !over) {
    setText(parts.big, run.lanes ? "0" : "");
    setText(parts.below, "");
    return;
  }
  const [at, tokens, useful, rows, finished] = tick ?? [0, 0, 0, 1, 0];
  setText(parts.big, over ? run.tps : number(tokens / at));
  const share = over ? run.share : ((100 * useful) / rows).toFixed(0);
  const tail = over ? t("arena.done_at", { s: run.end_s.toFixed(2) }) : t("arena.finished_of", { n: finished, of: of ?? "" });
  setText(parts.below, `${t("arena.useful_share", { p: share })} · ${tail}`);
}

function lastTick(ticks, now) {
  let [low, high] = [0, ticks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ticks[middle][0] <= now) low = middle + 1;
    else high = middle;
  }
  return ticks[low - 1];
}

function segmentAt(run, surface, event, axis, now) {
  const box = surface.node.getBoundingClientRect();
  const seconds = ((event.clientX - box.left) / (surface.width - 2)) * axis;
  const row = Math.floor((event.clientY - box.top - 2) / pitch(run));
  if (seconds > Math.min(now, run.end_s)) return null;
  return run.lanes[row]?.find((segment) => segment[1] <= seconds && seconds < segment[2]) ?? null;
}
