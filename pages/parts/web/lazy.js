// A folded panel asks the server only while it is open: at once when it opens, then for each new wish, one at a time,
// and most of the time not at all, however long an answer takes.

import { el } from "./dom.js";
import { t } from "./words.js";

const AGAIN_MS = 300;
const REST = 4; // times as long as the answer took

// `address()` says what is wanted now (null: nothing), `take(answer)` shows it. Returns the function to call when the
// wish may have changed.
export function lazily(cursor, panel, address, take) {
  let [asking, shown] = [false, ""];
  async function update() {
    const wanted = panel.open ? address() : null;
    if (wanted === null || asking || wanted === shown) return;
    asking = true;
    panel.setAttribute("aria-busy", "true");
    const begun = performance.now();
    try {
      const answer = await fetch(cursor.base + wanted);
      if (answer.ok) take(await answer.json());
      shown = wanted;
    } catch {
      cursor.store.set({ connected: false });
    }
    panel.removeAttribute("aria-busy");
    setTimeout(() => ((asking = false), update()), Math.max(AGAIN_MS, REST * (performance.now() - begun)));
  }
  panel.addEventListener("toggle", () => ((shown = ""), update()));
  return update;
}

export const badge = (kind) => el("span", { class: "fd-badge", "data-kind": kind }, t(`badge.${kind}`));

// A folded card with its title, a few words beside it, and where its numbers come from.
export function panel(name, kind, words, ...children) {
  const title = el("summary", {}, t(`${name}.title`), " ", words, kind ? badge(kind) : null);
  return el("details", { class: `fd-card fd-details fd-panel fd-${name}` }, title, ...children);
}
