// What if? The same requests under one other setting: both sides simulated, beside what was measured.

import { el, setHidden, setText, table } from "./dom.js";
import { label } from "./ink.js";
import { badge, panel } from "./lazy.js";
import { number, said, t } from "./words.js";

const QUESTIONS = ["pool", "capacity", "victim"];
const POLL_MS = 400;
const LATENCIES = ["median_ttft_ms", "p99_ttft_ms", "p99_itl_ms", "mean_waiting"];
const COUNTS = ["preemptions", "recomputed_tokens", "cached_tokens", "evictions"];
const FIGURES = ["output_throughput", "duration_s", ...LATENCIES, ...COUNTS];

export function whatIf(cursor) {
  const words = el("p", { class: "fd-dim", role: "status" });
  const result = el("div", { class: "fd-answer" });
  const buttons = QUESTIONS.map((question) =>
    el("button", { type: "button", class: "fd-button", onclick: () => ask(question) }, t(`whatif.ask_${question}`)),
  );
  const what = el("span", { class: "fd-dim" }, t("whatif.what"));
  const node = panel("whatif", "Simulated", what, el("div", { class: "fd-ways" }, ...buttons), words, result);
  let asked = 0;

  async function ask(question) {
    const body = JSON.stringify({ question, recording: cursor.recording });
    const headers = { "Content-Type": "application/json" };
    const begun = await cursor.ask("what_if", { method: "POST", headers, body });
    if (!begun) return;
    asked = begun.number;
    result.replaceChildren();
    setText(words, t("whatif.running"));
    poll(begun.number, cursor.store.state.frame.run.provenance);
  }

  async function poll(number, kind) {
    const answer = number === asked ? await cursor.ask(`what_if?number=${number}`) : null;
    if (!answer || number !== asked) return undefined;
    if (answer.phase === "running") return void setTimeout(() => poll(number, kind), POLL_MS);
    if (answer.phase === "failed") return setText(words, t("notice.failed", { detail: said(answer.error) }));
    setText(words, questionWords(answer));
    return result.replaceChildren(figures(answer, kind), parting(cursor, answer));
  }

  function render({ frame, recording }) {
    setHidden(node, !frame || Boolean(recording?.opened.simulated));
  }
  const destroy = () => (asked = 0);
  return { node, render, destroy };
}

function questionWords({ settings, left_out: left, unfinished }) {
  const changed = settings.map(([name, before, after]) => t("whatif.changed", { name, before, after }));
  const notes = [left && t("whatif.left_out", { n: left }), unfinished && t("whatif.unfinished", { n: unfinished })];
  return [...changed, ...notes.filter(Boolean)].join(" ");
}

// Measured, simulated as it was, simulated with the change. The first two tell how far the simulation can be trusted.
function figures(answer, kind) {
  const { measured, before, after, relative } = answer;
  const sides = (name) => [measured, before, after].map((side) => amount(side[name]));
  const rows = FIGURES.map((name) => [t(`whatif.${name}`), ...sides(name), change(relative[name])]);
  const heads = ["figure", "measured", "before", "after", "change"].map((id) => t(`whatif.${id}`));
  const made = table(heads, rows);
  const cells = made.querySelectorAll("th");
  [kind, "Simulated", "Simulated"].forEach((one, at) => cells[at + 1].append(" ", badge(one)));
  return el("div", { class: "fd-scroll", tabindex: 0, role: "group", "aria-label": t("whatif.title") }, made);
}

const amount = (value) => value.toLocaleString("en-US", { maximumFractionDigits: Math.abs(value) < 100 ? 1 : 0 });
const sign = (value) => (value > 0 ? "▲ +" : value < 0 ? "▼ " : "= ");
const change = (value) => (value === null ? "" : `${sign(value)}${(100 * value).toFixed(1)} %`);

// The first step that the two schedules do not share, and the way into both.
function parting(cursor, { first_difference: parts, opened }) {
  if (!parts) return el("p", {}, t("whatif.same"));
  const side = (name, at) => {
    const words = parts[name] ? sideWords(parts[name], parts[at ? "before" : "after"]) : t("whatif.ended");
    const go = () => cursor.watch(opened, at, parts.step);
    const watch = el("button", { type: "button", class: "fd-small", onclick: go }, t("whatif.watch"));
    return el("li", {}, el("b", {}, t(`whatif.${name}`)), " ", words, " ", watch);
  };
  const title = el("p", {}, t("whatif.part", { step: number(parts.step) }));
  return el("div", { class: "fd-parting" }, title, el("ul", {}, side("before", 0), side("after", 1)));
}

// What one side did in that step and the other did not; what both did says nothing.
function sideWords(mine, other) {
  const told = ["preempted", "admitted", "decodes"].map((id) => {
    const names = mine[id].filter((request) => !other?.[id].includes(request)).map(label).join(", ");
    return names && t(`whatif.${id}`, { names });
  });
  const tokens = (side) => side?.chunks.reduce((sum, chunk) => sum + chunk[2], 0) ?? 0;
  if (tokens(mine) !== tokens(other)) told.push(t("whatif.prefill", { n: tokens(mine) }));
  return told.filter(Boolean).join("; ") || t("whatif.nothing_else");
}
