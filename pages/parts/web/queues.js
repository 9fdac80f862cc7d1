// Left column: who waits and why, who runs and how far, who finished.

import { el, keyed, setHidden, setText } from "./dom.js";
import { colour } from "./ink.js";
import { isEnglish, number, said, t } from "./words.js";

function card(cursor, withBar) {
  return (request) => {
    const node = el("button", { class: "fd-req", type: "button", onclick: () => cursor.select(request.id) });
    node.style.setProperty("--c", colour(request.id));
    node.append(el("b"), el("span", { class: "fd-what" }), el("span", { class: "fd-why" }));
    if (withBar) node.append(el("span", { class: "fd-bar" }, el("i")));
    return node;
  };
}

function fill(node, request, what, why, chosen) {
  setText(node.children[0], request.label);
  setText(node.children[1], what);
  setText(node.children[2], why);
  setHidden(node.children[2], !why);
  node.setAttribute("aria-pressed", String(request.id === chosen));
}

// The reason in the reader's language; the engine's own sentence where the catalogue has none.
export function reasonWords(request, frame) {
  const id = `reason.${request.reason}`;
  const words = t(id, { ...request, head: frame.waiting[0].label });
  if (isEnglish()) return request.text ?? "";
  const known = said(request.text ?? "");
  return known !== request.text || words === id ? known : words;
}

function waitingWhat(request) {
  return request.state === "preempted"
    ? t("queue.resumes", { n: request.computed_lost })
    : t("queue.prompt", { n: request.prompt });
}

function runningWhat(request) {
  if (request.phase === "prefill") return t("queue.prefill", { n: request.computed, of: request.num_tokens });
  if (request.phase === "padded") return t("queue.padded", { n: request.output });
  return t("queue.tokens", { n: request.output, of: request.max_tokens });
}

export function queues(cursor) {
  const heads = ["waiting", "running", "finished"].map((id) => el("h2", {}, t(`queue.${id}`), " ", el("small")));
  const [waiting, running, finished] = ["fd-list fd-waiting", "fd-list fd-running", "fd-done"].map((name) =>
    el("div", { class: name }),
  );
  const node = el(
    "section",
    { class: "fd-card fd-queues", "aria-label": t("queue.name") },
    heads[0],
    waiting,
    heads[1],
    running,
    heads[2],
    finished,
  );

  function render(state) {
    const { frame } = state;
    if (!frame) return;
    const chosen = frame.selected?.id ?? null;
    setText(heads[0].lastElementChild, t("queue.waiting_count", { n: number(frame.waiting_total) }));
    setText(
      heads[1].lastElementChild,
      t("queue.running_count", { n: frame.running.length, of: frame.run.max_num_seqs }),
    );
    setText(heads[2].lastElementChild, number(frame.finished_total));
    keyed(
      waiting,
      frame.waiting,
      (r) => r.id,
      card(cursor, false),
      (n, r) => {
        fill(n, r, waitingWhat(r), reasonWords(r, frame), chosen);
        n.dataset.short = String(r.reason === "behind_head" && r.state === "waiting");
      },
    );
    keyed(
      running,
      frame.running,
      (r) => r.id,
      card(cursor, true),
      (n, r) => {
        fill(n, r, runningWhat(r), r.phase === "sat_out" ? t("queue.sat_out") : "", chosen);
        n.lastElementChild.firstElementChild.style.width = `${Math.round(100 * r.progress)}%`;
      },
    );
    keyed(finished, [...frame.finished].reverse(), (r) => r.id, chip(cursor), fillChip);
  }
  return { node, render };
}

const chip = (cursor) => (request) => {
  const node = el(
    "button",
    { class: "fd-chip", type: "button", onclick: () => cursor.select(request.id) },
    el("b"),
    el("span"),
  );
  node.style.setProperty("--c", colour(request.id));
  return node;
};

function fillChip(node, request) {
  setText(node.children[0], request.label);
  setText(node.children[1], t(`cause.${request.cause}`));
  node.title = t("queue.finished_title", {
    label: request.label,
    n: request.output,
    cause: t(`cause.${request.cause}`),
  });
}
