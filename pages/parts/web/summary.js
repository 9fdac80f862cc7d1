// The same frame in words and in tables, for readers who do not see the drawing and for those who want the numbers.

import { el, setText, table } from "./dom.js";
import { eventWords } from "./events.js";
import { reasonWords } from "./queues.js";
import { t } from "./words.js";

const POLICIES = ["batching", "capacity", "preemption", "eviction", "queue_order"];
const QUIET_MS = 2000; // a reader's voice is not interrupted more often while the view runs

export function summary() {
  const line = el("p", { class: "fd-summary", "aria-hidden": "true" });
  const policies = el("p", { class: "fd-policies" });
  const voice = el("p", { class: "fd-unseen", "aria-live": "polite" });
  const body = el("div", { class: "fd-tables" });
  const details = el("details", { class: "fd-card fd-details" }, el("summary", {}, t("tables.title")), body);
  let last = 0;
  let state = null;
  details.addEventListener("toggle", () => state && fillTables(body, state.frame));

  function render(now) {
    state = now;
    const { frame, follow, engine } = now;
    if (!frame) return;
    setText(line, sentence(frame));
    setText(policies, policyWords(frame.run));
    if (follow && !engine.paused && performance.now() - last < QUIET_MS) return;
    last = performance.now();
    setText(voice, line.textContent);
    if (details.open) fillTables(body, frame);
  }
  return { line, policies, voice, details, render };
}

function sentence(frame) {
  const { numbers, running } = frame;
  const free = numbers.blocks_total - numbers.blocks_used;
  const head = frame.waiting[0];
  const words = t("summary.line", { step: frame.step, running: running.length, waiting: frame.waiting_total, free });
  return head ? `${words} ${t("summary.head", { label: head.label, why: reasonWords(head, frame) })}` : words;
}

// Which policies decided this run: batching, capacity, who loses its blocks, whose content goes, who waits first.
function policyWords(run) {
  const named = POLICIES.filter((name) => run[name]).map((name) => t("policy.is", { name: t(`policy.${name}`), value: run[name] }));
  return named.join(" · ");
}

function fillTables(body, frame) {
  if (!frame) return;
  const cell = (id) => t(`tables.${id}`);
  const requests = [
    ...frame.running.map((r) => [
      r.label,
      t("state.running"),
      r.row,
      `${r.output} / ${r.max_tokens}`,
      r.blocks,
      r.phase,
    ]),
    ...frame.waiting.map((r) => [r.label, t(`state.${r.state}`), "", `0 / ${r.max_tokens}`, "", reasonWords(r, frame)]),
  ];
  const events = [...frame.events].reverse().map((event) => [event.step, event.label, eventWords(event)]);
  const blocks = frame.pool.owner
    .slice(0, 512)
    .flatMap((owner, at) =>
      frame.pool.state[at] ? [[at + 1, t(`pool.state_${frame.pool.state[at]}`), owner, frame.pool.refs[at]]] : [],
    );
  const scrolled = [...body.children].map((node) => node.scrollTop);
  body.replaceChildren(
    section(cell("requests"), table(["label", "state", "row", "tokens", "blocks", "why"].map(cell), requests)),
    section(cell("events"), table(["step", "label", "what"].map(cell), events)),
    section(cell("blocks"), table(["block", "state", "owner", "refs"].map(cell), blocks)),
  );
  [...body.children].forEach((node, at) => (node.scrollTop = scrolled[at] ?? 0));
}

const section = (title, content) => el("section", { tabindex: 0, "aria-label": title }, el("h3", {}, title), content);
