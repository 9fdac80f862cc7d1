// Self-checks of the run that is shown: sums that must agree if the trace is right, each as a chip with its words.

import { el, keyed, setHidden, setText } from "./dom.js";
import { t } from "./words.js";

const AGAIN_MS = 5000; // the checks fold the whole run: not at every frame
const GLYPHS = { true: "✓", false: "✕", null: "–" };

export const tone = (check) => String(check.ok);
const amount = (value) => value.toLocaleString("en-US", { maximumFractionDigits: Math.abs(value) < 100 ? 2 : 0 });

export function chips(container, checks) {
  const create = () => el("li", { class: "fd-check" }, el("b", { "aria-hidden": "true" }), el("span"), el("small"));
  keyed(container, checks, (check) => check.id, create, (node, check) => {
    node.dataset.ok = tone(check);
    setText(node.children[0], GLYPHS[check.ok]);
    setText(node.children[1], t(`check.${check.id}`));
    const values = { left: amount(check.left), right: amount(check.right) };
    setText(node.children[2], check.ok === null && check.id !== "samples" ? t("check.open") : t(`check.${check.id}_is`, values));
    node.title = t(`check.word_${check.ok}`);
  });
}

export function verdict(checks) {
  const count = (ok) => checks.filter((check) => check.ok === ok).length;
  return t(count(false) ? "check.some_fail" : "check.all_agree", { ok: count(true), bad: count(false), open: count(null) });
}

export function checkRow(cursor) {
  const words = el("span", { class: "fd-dim" });
  const list = el("ul", { class: "fd-checks" });
  const node = el("details", { class: "fd-card fd-details" }, el("summary", {}, t("check.title"), " ", words), list);
  let [last, asked] = [0, ""];
  node.addEventListener("toggle", () => node.open && load());

  async function load() {
    last = performance.now();
    const found = await cursor.ask(`checks?${new URLSearchParams({ recording: cursor.recording })}`);
    if (!found) return;
    chips(list, found);
    setText(words, verdict(found));
  }

  // At once when a run ended or a recording was opened; while one runs only for those who look.
  function render({ frame, recording }) {
    setHidden(node, !frame);
    if (!frame) return;
    const key = `${recording?.name ?? ""} ${cursor.idle || recording ? frame.live_step : ""}`;
    const due = node.open && performance.now() - last > AGAIN_MS && asked !== key;
    if (key !== asked && (due || cursor.idle || recording)) {
      asked = cursor.idle || recording ? key : "";
      load();
    }
  }
  return { node, render };
}
