// The cached prefixes as a tree: who holds a run of blocks, how old it is, when it would go; and whose turn is next.

import { el, keyed, setHidden, setText } from "./dom.js";
import { colour } from "./ink.js";
import { lazily, panel } from "./lazy.js";
import { number, t } from "./words.js";

const INDENT = 22; // pixels a level
const DEEPEST = 12; // levels that are indented

export function prefixTree(cursor) {
  const count = el("span", { class: "fd-dim" });
  const next = el("p", { class: "fd-dim" });
  const list = el("div", { class: "fd-nodes", role: "group", "aria-label": t("tree.title") });
  const more = el("p", { class: "fd-dim" });
  const node = panel("tree", "Computed", count, el("p", { class: "fd-dim" }, t("tree.what")), next, list, more);
  let step = null;

  const update = lazily(
    cursor,
    node,
    () => step && `tree?${new URLSearchParams({ recording: cursor.recording, step })}`,
    (tree) => {
      setText(count, t("tree.count", { n: number(tree.nodes.length + tree.left_out), step: number(tree.step) }));
      setText(next, nextWords(tree.order));
      keyed(list, tree.nodes, (one) => one.blocks[0], () => row(cursor), fill);
      setHidden(more, !tree.left_out);
      setText(more, t("tree.left_out", { n: number(tree.left_out) }));
    },
  );
  node.addEventListener("toggle", () => !node.open && cursor.store.set({ marked: [] }));

  function render({ frame, marked }) {
    setHidden(node, !frame);
    if (frame) step = frame.step;
    if (!node.open) return;
    update();
    for (const line of list.children) line.setAttribute("aria-pressed", String(line.dataset.key === String(marked[0])));
  }
  return { node, render };
}

function row(cursor) {
  const [standing, quote] = [el("span", { class: "fd-standing" }), el("span", { class: "fd-quote" })];
  const node = el("button", { type: "button", class: "fd-node" }, el("b"), standing, quote);
  node.addEventListener("click", () => {
    const same = cursor.store.state.marked[0] === node.blocks[0];
    cursor.store.set({ marked: same ? [] : node.blocks });
  });
  return node;
}

function fill(node, one) {
  node.blocks = one.blocks;
  node.style.setProperty("--c", colour(one.id));
  node.style.marginInlineStart = `${INDENT * Math.min(one.depth, DEEPEST)}px`;
  node.dataset.state = one.refs ? "held" : one.reachable ? "cached" : "lost";
  const tokens = { from: one.first_token, to: one.first_token + one.tokens - 1 };
  setText(node.children[0], t("tree.run", { owner: one.owner, blocks: spans(one.blocks), ...tokens }));
  setText(node.children[1], standing(one));
  setText(node.children[2], one.text);
}

function standing(one) {
  if (one.refs) return t(one.refs === 1 ? "tree.held_one" : "tree.held", { n: one.refs });
  const id = one.evicted_after ? "tree.idle" : "tree.idle_next";
  const words = t(id, { age: number(one.age), n: number(one.evicted_after) });
  return one.reachable ? words : `${words} · ${t("tree.lost")}`;
}

// 1-4, 9: runs of neighbours are joined.
function spans(blocks) {
  const runs = [];
  for (const block of blocks) {
    if (runs.at(-1)?.[1] === block - 1) runs.at(-1)[1] = block;
    else runs.push([block, block]);
  }
  return runs.map(([from, to]) => (from === to ? from : `${from}–${to}`)).join(", ");
}

function nextWords(order) {
  if (!order.length) return t("tree.none_next");
  const word = ({ block, owner, orphans }) => {
    const id = !owner ? "tree.next_free" : orphans ? "tree.next_orphans" : "tree.next_cached";
    return t(id, { block, owner, n: orphans });
  };
  return t("tree.next", { list: order.slice(0, 8).map(word).join(" → ") });
}
