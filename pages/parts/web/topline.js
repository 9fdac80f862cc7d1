// The first line: where the view stands, four numbers, the pool and where the numbers come from.

import { el, setHidden, setText } from "./dom.js";
import { number, t } from "./words.js";

export function topline() {
  const big = (id) => {
    const value = el("span", { class: "fd-big" });
    return [value, el("span", { class: "fd-dim" }, t(`top.${id}`))];
  };
  const [step, time] = [el("span", { class: "fd-big fd-step" }), el("span", { class: "fd-dim" })];
  const [speed, blocks, preemptions, evictions] = ["speed", "blocks", "preemptions", "evictions"].map(big);
  const pool = el("span", { class: "fd-dim fd-pool-words" });
  const badge = el("span", { class: "fd-badge" });
  const facts = el(
    "span",
    { class: "fd-facts" },
    step,
    time,
    ...speed,
    ...blocks,
    ...preemptions,
    ...evictions,
    el("span", { class: "fd-space" }),
    pool,
    badge,
  );
  const node = el("header", { class: "fd-top" }, el("h1", {}, t("theatre.title")), facts);

  function render({ frame }) {
    setHidden(facts, !frame);
    if (!frame) return;
    const { numbers, run } = frame;
    setText(step, t("top.step", { n: number(frame.step) }));
    setText(time, `${frame.t_s.toFixed(1)} s`);
    setText(speed[0], number(numbers.tokens_per_s));
    setText(blocks[0], `${number(numbers.blocks_used)} / ${number(numbers.blocks_total)}`);
    setText(preemptions[0], number(numbers.preemptions));
    setText(evictions[0], number(numbers.evictions));
    setText(
      pool,
      t(run.classroom ? "top.classroom" : "top.pool", { n: number(run.pool_blocks), size: run.block_size }),
    );
    badge.dataset.kind = run.provenance;
    setText(badge, t(`badge.${run.provenance}`));
    badge.title = `${run.device} · ${run.model}`;
  }
  return { node, render };
}
