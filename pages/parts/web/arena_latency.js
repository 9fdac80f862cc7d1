// Latency of every request under each scheduler, to its first and to its last token: a dot appears when it got there.

import { drawAxis } from "./arena_axis.js";
import { badge } from "./arena_badge.js";
import { el, keyed, setHidden, setText, table } from "./dom.js";
import { themeInks } from "./ink.js";
import { Surface } from "./surface.js";
import { t } from "./words.js";

const HEIGHT = 34;
const DOT = { light: "#0072B2", dark: "#56B4E9" };

function strip() {
  const parts = { surface: new Surface(""), title: el("span", {}), text: el("span", { class: "ar-ranks" }) };
  const node = el("div", { class: "ar-strip" }, parts.title, el("div", { class: "fd-box" }, parts.surface.node), parts.text);
  node.parts = parts;
  return node;
}

function group(redraw) {
  const parts = { heading: el("h3", {}), lines: el("div", {}), axis: new Surface("") };
  parts.axis.node.setAttribute("aria-hidden", "true");
  const foot = el("div", { class: "ar-strip" }, el("span", {}), el("div", { class: "fd-box" }, parts.axis.node), el("span", {}));
  const node = el("div", { class: "ar-group" }, parts.heading, parts.lines, foot);
  parts.axis.watch(redraw);
  node.parts = parts;
  return node;
}

export function latencyCard(redraw) {
  const [title, small, mark] = [el("h2", {}), el("small", {}), el("span", {})];
  const groups = el("div", {});
  const details = el("details", { class: "ar-details" });
  const node = el("section", { class: "fd-card ar-latency" }, el("div", { class: "ar-line" }, title, mark), groups, details);

  function take(data) {
    setHidden(node, !data.latency);
    if (!data.latency) return;
    setText(small, t("arena.latency_sub"));
    title.replaceChildren(t("arena.latency"), " ", small);
    badge(mark, data.badge.kind, data.badge.word);
    keyed(groups, data.latency, (one) => one.name, () => group(redraw), (each, one) => {
      setText(each.parts.heading, one.long);
      keyed(each.parts.lines, one.lines, (line) => line.title, strip, (node, line) => {
        setText(node.parts.title, line.title);
        node.parts.surface.describe(line.words);
      });
    });
    const rows = data.tables.find((one) => one.of === "latency");
    const words = data.latency.map((one) => `${one.long}: ${one.lines.map((line) => line.words).join("; ")}.`);
    details.replaceChildren(el("summary", {}, t("arena.table")), ...words.map((text) => el("p", { class: "ar-words" }, text)), el("div", { class: "ar-scroll" }, table(rows.heads, rows.lines)), el("p", { class: "ar-words" }, rows.note));
  }

  function draw(data, now) {
    if (!data.latency) return;
    const inks = { ...themeInks(node), dot: DOT[node.closest(".fd").dataset.theme] };
    data.latency.forEach((one, index) => {
      const { lines, axis } = groups.children[index].parts;
      const most = Math.max(...one.lines.flatMap((line) => line.dots), 1e-3) * 1.03;
      one.lines.forEach((line, place) => {
        const { surface, text } = lines.children[place].parts;
        const over = now >= data.runs[place].end_s;
        setText(text, over ? line.text : "");
        drawStrip(surface, line, most, now, over, inks);
      });
      drawAxis(axis, most, scale(axis, most), inks);
    });
  }
  return { node, take, draw, surfaces: () => [...groups.children].map((each) => each.parts.axis) };
}

const scale = (surface, most) => (seconds) => 3 + (seconds / most) * (surface.width - 8);

function drawStrip(surface, line, most, now, over, inks) {
  const pen = surface.begin(HEIGHT);
  if (!pen) return;
  const place = scale(surface, most);
  pen.fillStyle = inks.line;
  pen.fillRect(0, HEIGHT / 2, surface.width, 1);
  pen.fillStyle = inks.dot;
  pen.globalAlpha = 0.6;
  line.dots.forEach((seconds, index) => {
    if (line.shown_at[index] > now) return;
    const lift = ((index * 0.618034) % 1) - 0.5; // spreads the dots evenly, the same in each frame
    pen.beginPath();
    pen.arc(place(seconds), HEIGHT / 2 + lift * (HEIGHT - 12), 2.7, 0, 7);
    pen.fill();
  });
  pen.globalAlpha = 1;
  if (!over) return;
  pen.fillStyle = inks.bad;
  pen.fillRect(place(line.p50) - 1.4, 1, 2.8, HEIGHT - 2);
  pen.fillStyle = inks.ink;
  pen.fillRect(place(line.p90) - 0.8, 6, 1.6, HEIGHT - 12);
}
