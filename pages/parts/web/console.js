// The line at the bottom: an own prompt, the demo, and what the engine does. It never waits longer than two seconds to
// say what it waits for.

import { el, setHidden, setText } from "./dom.js";
import { recordingButtons } from "./recordings.js";
import { said, t } from "./words.js";

const PROMISES = [
  ["waiting", "…"],
  ["hit", "≡"],
  ["evict", "✕"],
  ["preempt", "▼"],
];

const startDemo = (cursor) => cursor.command("demo").then((taken) => taken && cursor.live());

export function promptBar(cursor, dialog) {
  const input = el("input", {
    type: "text",
    placeholder: t("prompt.placeholder"),
    "aria-label": t("prompt.name"),
    maxlength: 4000,
    autocomplete: "off",
  });
  const words = t("prompt.length");
  const length = el("input", { type: "number", min: 1, max: 256, value: 64, "aria-label": words, title: words });
  const send = el("button", { type: "submit", class: "fd-button" }, t("prompt.send"));
  const demo = el(
    "button",
    { type: "button", class: "fd-button fd-demo", title: t("demo.title"), onclick: () => startDemo(cursor) },
    t("demo.again"),
  );
  const hand = el(
    "button",
    {
      type: "button",
      class: "fd-button",
      title: t("seat.hand_over_title"),
      onclick: () => cursor.command("hand_over"),
    },
    t("seat.hand_over"),
  );
  const other = el("span", { class: "fd-dim", title: t("notice.other_tab") }, t("seat.other"));
  const files = recordingButtons(cursor, dialog);
  const parts = [input, length, send, demo, ...files.nodes, hand, other];
  const form = el("form", { class: "fd-prompt-bar", onsubmit: submit }, ...parts);

  function submit(event) {
    event.preventDefault();
    if (!input.value.trim()) return input.focus();
    cursor.command("submit", { prompt: input.value, max_tokens: Number(length.value) }).then((taken) => {
      if (!taken) return;
      input.value = "";
      cursor.store.set({ own: taken.name });
      cursor.live();
    });
  }

  function render(state) {
    const { engine, frame } = state;
    files.render(state);
    const barred = engine.drives === "other" || engine.phase === "connecting";
    for (const one of [send, demo]) one.disabled = barred;
    setHidden(hand, engine.drives !== "me");
    setHidden(other, engine.drives !== "other");
    setHidden(demo, !frame);
  }
  return { node: form, render };
}

// Messages above the picture: starting, stopped, another tab drives, no connection.
export function statusLine(cursor) {
  const words = el("span", { class: "fd-status-words" });
  const bar = el("progress", { max: 1 });
  const restart = el(
    "button",
    { type: "button", class: "fd-button", onclick: () => cursor.command("restart") },
    t("engine.restart"),
  );
  const node = el("div", { class: "fd-status", role: "status" }, words, bar, restart);

  function render(state) {
    const { engine, connected, notice } = state;
    const lost = !connected && engine.phase !== "connecting";
    const text = lost ? t("notice.no_answer") : notice || failure(engine) || engineWords(engine);
    setText(words, text);
    setHidden(node, !text);
    setHidden(bar, engine.phase !== "starting" || lost);
    if (typeof engine.progress === "number" && engine.progress > 0) bar.value = engine.progress;
    else bar.removeAttribute("value");
    setHidden(restart, engine.phase !== "dead" || lost || engine.drives === "other");
    node.dataset.tone = lost || notice || engine.phase === "dead" ? "bad" : "plain";
  }
  return { node, render };
}

function engineWords(engine) {
  if (engine.phase === "starting")
    return t("engine.starting", { what: said(engine.words) || t("engine.process"), s: Math.round(engine.since_s ?? 0) });
  if (engine.phase === "dead") return t("engine.dead", { why: said(engine.words) });
  if (engine.phase === "connecting") return t("engine.connecting");
  if (engine.busy) return t("notice.busy", { detail: said(engine.busy) });
  return "";
}

const failure = (engine) => (engine.notice ? t("notice.failed", { detail: said(engine.notice) }) : "");

// What is seen before the first step: one button.
export function welcome(cursor, dialog) {
  const open = el("button", { type: "button", class: "fd-button", onclick: dialog.show }, t("recording.open"));
  const start = el("button", { type: "button", class: "fd-start", onclick: () => startDemo(cursor) }, t("demo.start"));
  const wait = el("p", { class: "fd-dim" });
  const known = { ready: t("welcome.ready"), off: t("welcome.off") };
  const promises = PROMISES.map(([id, glyph]) =>
    el("li", { "data-kind": id }, el("b", { "aria-hidden": "true" }, glyph), el("span", {}, t(`welcome.${id}`))),
  );
  const words = [el("h2", {}, t("welcome.title")), el("p", {}, t("welcome.what"))];
  const ways = el("div", { class: "fd-ways" }, start, open);
  const node = el("section", { class: "fd-card fd-welcome" }, ...words, ways, wait, el("ul", {}, ...promises));

  function render({ engine, frame, wanted }) {
    setHidden(node, Boolean(frame));
    start.disabled = engine.phase === "starting" || engine.phase === "connecting" || engine.drives === "other";
    setText(wait, wanted === null ? (known[engine.phase] ?? "") : t("welcome.link", { step: wanted }));
  }
  return { node, render };
}
