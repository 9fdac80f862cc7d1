// The whole event log: filters, search, and lines that lead to their step and request.

import { el, keyed, setText } from "./dom.js";
import { eventWords, GLYPHS, withKeys } from "./events.js";
import { colour } from "./ink.js";
import { lazily, panel } from "./lazy.js";
import { number, t } from "./words.js";

const GROUPS = ["admit", "preempt", "evict", "finish", "refuse", "hit", "swap"];

export function eventLog(cursor) {
  const on = new Set(GROUPS);
  const count = el("span", { class: "fd-dim" });
  const filters = GROUPS.map((group) => filter(group, on, () => update()));
  const search = el("input", {
    type: "search",
    placeholder: t("log.search"),
    "aria-label": t("log.search_title"),
    oninput: () => update(),
  });
  const found = el("div", { class: "fd-done" });
  const list = el("div", { class: "fd-log-lines", tabindex: 0, role: "group", "aria-label": t("log.title") });
  const node = panel("log", "", count, el("div", { class: "fd-filters" }, ...filters, search, found), list);
  let step = 0;

  const update = lazily(
    cursor,
    node,
    () => `log?${new URLSearchParams({ recording: cursor.recording, step, groups: [...on], search: search.value })}`,
    ({ lines, total, here, requests }) => {
      setText(count, t("log.count", { n: number(here), total: number(total) }));
      const told = withKeys(lines.map((line) => ({ ...line, since: line.step })));
      keyed(found, requests, (one) => one.id, () => chip(cursor), fillChip);
      keyed(list, told, (line) => line.key, () => row(cursor), (one, line) => fill(one, line, step));
      scrollTo(list);
    },
  );

  function render({ frame }) {
    node.hidden = !frame;
    if (frame) step = frame.step;
    if (node.open) update();
  }
  const find = () => ((node.open = true), search.focus());
  return { node, render, search: find };
}

function filter(group, on, changed) {
  const look = { type: "button", class: "fd-small", "aria-pressed": "true", onclick: toggle };
  const button = el("button", look, `${GLYPHS[group]} ${t(`log.${group}`)}`);
  function toggle() {
    const now = !on.delete(group);
    if (now) on.add(group);
    button.setAttribute("aria-pressed", String(now));
    changed();
  }
  return button;
}

const lead = (cursor) => (click) => {
  const { step, id } = click.currentTarget.dataset;
  cursor.jump(Number(step), Number(id));
};

function row(cursor) {
  const [when, glyph] = [el("span", { class: "fd-when" }), el("span", { class: "fd-glyph", "aria-hidden": "true" })];
  return el("button", { type: "button", class: "fd-event", onclick: lead(cursor) }, when, glyph, el("span"));
}

function fill(node, line, step) {
  setText(node.children[0], number(line.step));
  setText(node.children[1], GLYPHS[line.kind] ?? "·");
  setText(node.children[2], eventWords(line));
  const place = { now: line.step === step, past: line.step <= step };
  Object.assign(node.dataset, { kind: line.kind, step: line.step, id: line.id, ...place });
}

const chip = (cursor) =>
  el("button", { type: "button", class: "fd-chip", onclick: lead(cursor) }, el("b"), el("span"));

function fillChip(node, request) {
  node.style.setProperty("--c", colour(request.id));
  setText(node.children[0], request.label);
  setText(node.children[1], `${request.name} · ${t(`state.${request.state}`)}`);
  Object.assign(node.dataset, { step: request.step, id: request.id });
}

// The last line at or before the step that is shown comes into the middle, unless the reader's hand is in the list.
function scrollTo(list) {
  if (list.matches(":hover, :focus-within")) return;
  const here = [...list.children].filter((line) => line.dataset.past === "true").at(-1);
  if (here) list.scrollTop = here.offsetTop - list.clientHeight / 2;
}
