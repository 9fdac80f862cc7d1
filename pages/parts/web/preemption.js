// The last preemption as a small story: who needed what, who had to go, what that freed, and what it costs.

import { el, setHidden, setText } from "./dom.js";
import { colour } from "./ink.js";
import { number, t } from "./words.js";

export function preemptionCard(cursor) {
  const when = el("button", { type: "button", class: "fd-small", onclick: () => shown && cursor.goto(shown.step) });
  const title = el("h2", {}, el("span", { class: "fd-glyph", "aria-hidden": "true" }, "▼"), " ", t("preemption.title"), " ", when);
  const value = () => el("dd");
  const [cause, victim, freed, price] = [value(), value(), value(), value()];
  const line = (id, node) => [el("dt", {}, t(`preemption.${id}`)), node];
  const list = el("dl", {}, ...line("cause", cause), ...line("victim", victim), ...line("freed", freed), ...line("price", price));
  const node = el("section", { class: "fd-preemption" }, title, list);
  let shown = null;

  function render({ frame }) {
    shown = frame?.preemption ?? null;
    setHidden(node, !shown);
    if (!shown) return;
    const blocks = (n) => t(n === 1 ? "unit.block" : "unit.blocks", { n });
    const words = { ...shown, blocks: blocks(shown.need), gone: blocks(shown.freed) };
    const self = shown.for === shown.label;
    node.style.setProperty("--c", colour(shown.id));
    node.dataset.now = String(shown.step === frame.step);
    setText(when, t("top.step", { n: number(shown.step) }));
    setText(cause, t("preemption.cause_is", words));
    setText(victim, t(self ? "preemption.victim_self" : "preemption.victim_is", shown));
    setText(freed, t("preemption.freed_is", words));
    setText(price, t("preemption.price_is", shown));
  }
  return { node, render };
}
