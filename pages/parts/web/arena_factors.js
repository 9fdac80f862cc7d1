// Why the gain is not the bound: a chain of ratios on a logarithmic axis, each bar beginning where the one before ended.

import { badge } from "./arena_badge.js";
import { el, keyed, setHidden, setText, table } from "./dom.js";
import { t } from "./words.js";

function line() {
  const parts = { label: el("b", {}), explain: el("div", { class: "fd-dim" }), fill: el("i", { class: "ar-fill" }), diamond: el("i", { class: "ar-diamond" }), measured: el("b", {}), predicted: el("span", {}) };
  const track = el("div", { class: "ar-track", "aria-hidden": "true" }, el("i", { class: "ar-one" }), parts.fill, parts.diamond);
  const node = el("div", { class: "ar-factor" }, el("div", {}, parts.label, parts.explain), track, parts.measured, parts.predicted);
  node.parts = { ...parts, track };
  return node;
}

// Where each bar begins and ends, as products; the last bar is the gain itself.
function chain(factors) {
  let product = 1;
  const bars = factors.lines.map((one) => {
    const from = product;
    product *= one.measured;
    return { ...one, from, to: product, aim: from * one.predicted };
  });
  const total = { name: "gain", label: t("arena.measured"), explain: t("arena.measured_is"), from: 1, to: factors.gain, aim: null, measured_text: factors.gain_text, predicted_text: factors.predicted_text };
  return [...bars, total];
}

export function factorCard() {
  const [title, small] = [el("h2", {}), el("small", {})];
  const [kind, computed] = [el("span", {}), el("span", {})];
  const head = el("div", { class: "ar-factor ar-heads" }, el("span", {}), el("span", {}), kind, computed);
  const lines = el("div", {});
  const bound = el("p", { class: "ar-words" });
  const details = el("details", { class: "ar-details" });
  const node = el("section", { class: "fd-card ar-why" }, title, head, lines, bound, details);

  function take(data) {
    setHidden(node, !data.factors);
    if (!data.factors) return;
    const { factors } = data;
    setText(small, t("arena.why_sub"));
    title.replaceChildren(factors.title, " ", small);
    badge(kind, factors.kind, factors.kind_word);
    badge(computed, "Computed", factors.computed_word);
    setText(bound, factors.bound_is);
    const bars = chain(factors);
    const ends = bars.flatMap((bar) => [bar.from, bar.to, bar.aim ?? 1]).map(Math.log);
    const [low, high] = [Math.min(0, ...ends) - 0.04, Math.max(0, ...ends) + 0.04];
    const place = (value) => ((Math.log(value) - low) / (high - low)) * 100;
    keyed(lines, bars, (bar) => bar.name, line, (one, bar) => dress(one, bar, place));
    const rows = data.tables.find((each) => each.of === "factors");
    details.replaceChildren(el("summary", {}, t("arena.table")), el("p", { class: "ar-words" }, factors.summary), table(rows.heads, rows.lines));
  }
  return { node, take, draw: () => {} };
}

function dress(node, bar, place) {
  const { label, explain, fill, diamond, measured, predicted, track } = node.parts;
  node.dataset.name = bar.name;
  setText(label, bar.label);
  setText(explain, bar.explain);
  setText(measured, bar.measured_text);
  setText(predicted, bar.predicted_text);
  const [left, right] = [Math.min(bar.from, bar.to), Math.max(bar.from, bar.to)].map(place);
  fill.style.left = `${left}%`;
  fill.style.width = `max(2px, ${right - left}%)`;
  track.firstChild.style.left = `${place(1)}%`;
  setHidden(diamond, bar.aim === null);
  if (bar.aim !== null) diamond.style.left = `${place(bar.aim)}%`;
}
