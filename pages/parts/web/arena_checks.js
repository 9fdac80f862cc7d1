// The self-checks of the race, folded away: one chip for each, over the runs of all schedulers.

import { el, keyed, setHidden, setText } from "./dom.js";
import { t } from "./words.js";

const GLYPHS = { true: "✓", false: "✕", null: "–" };

export function checkCard() {
  const words = el("span", { class: "fd-dim" });
  const title = el("span", {});
  const list = el("ul", { class: "fd-checks" });
  const node = el("details", { class: "fd-card fd-details" }, el("summary", {}, title, " ", words), list);
  const create = () => el("li", { class: "fd-check" }, el("b", { "aria-hidden": "true" }), el("span"), el("small"));

  function take({ checks }) {
    setHidden(node, !checks?.length);
    if (!checks?.length) return;
    const count = (ok) => checks.filter((check) => check.ok === ok).length;
    const sums = { ok: count(true), bad: count(false), open: count(null) };
    setText(title, t("check.title"));
    setText(words, t(sums.bad ? "check.some_fail" : "check.all_agree", sums));
    keyed(list, checks, (check) => check.id, create, (chip, check) => {
      chip.dataset.ok = String(check.ok);
      setText(chip.children[0], GLYPHS[check.ok]);
      setText(chip.children[1], check.words);
      setText(chip.children[2], check.note);
    });
  }
  return { node, take, draw: () => {} };
}
