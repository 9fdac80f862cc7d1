// The provenance of a number: a word and a border style of its own, so that colour is never the only signal.

import { setText } from "./dom.js";

export function badge(node, kind, word) {
  node.className = "ar-badge";
  node.dataset.kind = kind;
  setText(node, word);
}
