// Right column: the selected request. Why it stands where it stands, its block table, the text being written.

import { el, setHidden, setText } from "./dom.js";
import { colour, inkOn, label } from "./ink.js";
import { reasonWords } from "./queues.js";
import { isEnglish, said, t } from "./words.js";

const HEAD = 4; // table lines shown before the gap
const SHOWN = 6;

export function requestPanel(cursor) {
  const why = el("p", { class: "fd-explain" });
  const next = el("p", { class: "fd-dim" });
  const tableTitle = el("h2", {}, t("request.table"), " ", el("small"));
  const blocks = el("ol", { class: "fd-table" });
  const prompt = el("span", { class: "fd-prompt" });
  const output = el("span", { class: "fd-output" });
  const text = el(
    "div",
    { class: "fd-text", tabindex: 0, role: "group", "aria-label": t("request.text") },
    prompt,
    output,
  );
  const textTitle = el("h2", {});
  const abort = el(
    "button",
    { type: "button", class: "fd-small", onclick: () => cursor.command("abort", { request: shown }) },
    t("request.abort"),
  );
  const auto = el(
    "button",
    { type: "button", class: "fd-small", onclick: () => cursor.select(null) },
    t("request.auto"),
  );
  const [who, standing] = [el("span"), el("small")];
  const title = el("h2", {}, who, standing, el("span", { class: "fd-actions" }, abort, auto));
  const absent = el("p", { class: "fd-dim" });
  const panel = el(
    "div",
    { class: "fd-request" },
    title,
    why,
    next,
    tableTitle,
    blocks,
    textTitle,
    text,
  );
  const node = el("div", {}, absent, panel);
  let shown = null;

  // A link may name a request that comes later, or never.
  function render(state) {
    const request = state.frame?.selected;
    setHidden(panel, !request);
    setHidden(absent, Boolean(request) || !state.frame || state.selected === null);
    if (state.selected !== null) setText(absent, t("request.absent", { label: label(state.selected) }));
    if (!request) return;
    shown = request.id;
    setText(who, t("request.title", { label: request.label }));
    setText(standing, t(`state.${request.state}`));
    setText(why, isEnglish() ? request.explain : explained(request, state.frame));
    why.dataset.tone = ["waiting", "preempted"].includes(request.state) ? "bad" : "plain";
    setText(next, said(request.next_free));
    setText(
      tableTitle.lastElementChild,
      t("request.table_caption", { n: request.table.length, computed: request.num_computed, cached: request.cached }),
    );
    blocks.replaceChildren(...tableLines(request, state.frame.run.block_size));
    setText(textTitle, t(request.text ? "request.text" : "request.prompt"));
    setText(prompt, request.prompt_text);
    setText(output, request.text);
    text.scrollTop = text.scrollHeight;
    setHidden(abort, Boolean(state.recording) || !["waiting", "running", "preempted"].includes(request.state));
    abort.disabled = state.engine.drives === "other";
    setHidden(auto, state.selected === null);
  }
  return { node, render };
}

// The engine's sentence again, made from the frame's numbers for readers of other languages.
function explained(request, frame) {
  const waits = frame.waiting.find((one) => one.id === request.id);
  if (waits) return t("request.not_admitted", { why: reasonWords(waits, frame) });
  const runs = frame.running.find((one) => one.id === request.id);
  if (!runs) return t("request.is", { state: t(`state.${request.state}`) });
  return t(`request.in_${runs.phase}`, { ...runs, last: runs.start + runs.tokens - 1 });
}

// Tokens 0-15 -> block 11. A long table shows its start and its end.
function tableLines(request, size) {
  const { table, num_computed: computed } = request;
  if (!table.length) return [el("li", { class: "fd-dim" }, t("request.no_blocks"))];
  const line = (at) => {
    const first = at * size;
    const filled = Math.max(0, Math.min(size, computed - first));
    const box = el("span", { class: "fd-block" }, el("i"), el("b", {}, t("request.block", { n: table[at] })));
    box.style.setProperty("--c", colour(request.id));
    box.style.setProperty("--on", filled * 2 > size ? inkOn(request.id) : "var(--fd-ink)");
    box.firstElementChild.style.width = `${(100 * filled) / size}%`;
    return el("li", {}, el("span", {}, t("request.tokens", { from: first, to: first + size - 1 })), box);
  };
  const all = table.map((_, at) => at);
  if (all.length <= SHOWN) return all.map(line);
  const gap = el("li", { class: "fd-dim" }, t("request.more", { n: all.length - SHOWN + 1 }));
  return [...all.slice(0, HEAD).map(line), gap, line(all.length - 1)];
}
