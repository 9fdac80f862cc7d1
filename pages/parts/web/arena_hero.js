// The numbers on top and the sentence under them, each with its badge; while a race runs, what it does and how far it is.

import { badge } from "./arena_badge.js";
import { el, keyed, setHidden, setText } from "./dom.js";
import { t } from "./words.js";

function cell() {
  const parts = { label: el("div", { class: "fd-dim" }), value: el("div", { class: "ar-value" }), note: el("div", { class: "ar-note" }) };
  parts.badge = el("span", {});
  const node = el("div", { class: "ar-cell" }, parts.label, parts.value, el("div", { class: "ar-under" }, parts.badge, parts.note));
  node.parts = parts;
  return node;
}

export function hero() {
  const cells = el("div", { class: "ar-hero" });
  const sense = el("p", { class: "ar-sense", "aria-live": "polite" });
  const words = el("span", {});
  const bar = el("progress", { max: 1 });
  const progress = el("div", { class: "fd-status ar-progress", role: "status" }, words, bar);
  const node = el("section", { class: "ar-top" }, progress, cells, sense);

  function take(data) {
    setHidden(progress, !data.progress);
    setHidden(cells, !data.hero?.length);
    setHidden(sense, !data.sense);
    if (data.progress) {
      setText(words, data.progress.words);
      bar.value = data.progress.done;
      bar.setAttribute("aria-label", data.progress.words);
    }
    keyed(cells, data.hero ?? [], (item) => item.name, cell, (one, item) => {
      one.dataset.name = item.name;
      setText(one.parts.label, item.label);
      badge(one.parts.badge, item.kind, item.word);
    });
  }

  function draw(data) {
    const done = node.closest(".fd").dataset.phase === "done";
    for (const [place, item] of (data.hero ?? []).entries()) {
      const known = done || item.kind === "Computed";
      setText(cells.children[place].parts.value, known ? item.value : t("arena.hero.racing"));
      setText(cells.children[place].parts.note, known ? item.note : "");
      cells.children[place].dataset.known = known;
    }
    setText(sense, done ? data.sense : t("arena.hint"));
    sense.dataset.tone = !done ? "hint" : data.is_null ? "null" : "";
  }
  return { node, take, draw };
}
