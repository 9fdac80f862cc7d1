// What the scheduler and the pool did at this step, and the last things before it. A line leads to its step.

import { el, keyed, setHidden, setText } from "./dom.js";
import { isEnglish, t } from "./words.js";

export const GLYPHS = {
  preempt: "▼",
  evict: "✕",
  admit: "＋",
  resume: "↻",
  hit: "≡",
  swap_out: "⇣",
  swap_in: "⇡",
  finish: "✓",
  abort: "■",
  refuse: "⊘",
  pause: "❚❚",
  resume_cmd: "▷",
};
const SHOWN = 6;

export function eventLines(events, step) {
  return joined(events.filter((event) => event.step <= step))
    .slice(-SHOWN)
    .reverse();
}

// Evictions one after the other are one line: under pressure there is one at every other step.
function joined(events) {
  const lines = [];
  for (const event of events) {
    const before = lines.at(-1);
    if (event.kind !== "evict" || before?.kind !== "evict") lines.push({ ...event, since: event.step });
    else lines[lines.length - 1] = { ...event, since: before.since, need: before.need + event.need };
  }
  return lines;
}

// A key for each line that stays while the line does; two equal things in one step are told apart by their count.
export function withKeys(lines) {
  const seen = new Map();
  return lines.map((event) => {
    const name = `${event.since} ${event.kind} ${event.id}`;
    seen.set(name, (seen.get(name) ?? 0) + 1);
    return { ...event, key: `${name} ${seen.get(name)}` };
  });
}

// The sentence of an event in the reader's language; the engine's own where the catalogue has none.
export function eventWords(event) {
  const id = `event.${event.kind}`;
  if (event.since < event.step) return t("event.evicts", event);
  const words = t(id, event);
  return words === id || isEnglish() ? event.text : words;
}

export function eventPanel(cursor) {
  const list = el("div", { class: "fd-events" });
  const none = el("p", { class: "fd-dim" }, t("events.none"));
  const cost = el("p", { class: "fd-dim" });
  const node = el("div", {}, el("h2", {}, t("events.title")), none, list, cost);
  const create = (event) =>
    el(
      "button",
      { type: "button", class: "fd-event", onclick: (click) => cursor.goto(Number(click.currentTarget.dataset.step)) },
      el("span", { class: "fd-glyph", "aria-hidden": "true" }, GLYPHS[event.kind] ?? "·"),
      el("span"),
      el("span", { class: "fd-when" }),
    );

  function render({ frame }) {
    if (!frame) return;
    const lines = withKeys(eventLines(frame.events, frame.step));
    setHidden(none, lines.length > 0);
    keyed(
      list,
      lines,
      (event) => event.key,
      create,
      (line, event) => {
        setText(line.children[1], eventWords(event));
        setText(line.children[2], event.since < event.step ? `${event.since}–${event.step}` : event.step);
        line.dataset.kind = event.kind;
        line.dataset.step = event.step;
        line.dataset.now = String(event.step === frame.step);
      },
    );
    setText(cost, frame.numbers.step_ms ? t("events.cost", { ms: frame.numbers.step_ms.toFixed(1) }) : "");
  }
  return { node, render };
}
