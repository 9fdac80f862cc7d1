// The Theatre: one component, mounted once, drawn from frames. It computes nothing; engine/trace/frame.py says it all.

import { promptBar, statusLine, welcome } from "./console.js";
import { Cursor } from "./cursor.js";
import { el, setHidden } from "./dom.js";
import { eventPanel } from "./events.js";
import { eventLog } from "./log.js";
import { Feed } from "./feed.js";
import { historyBars } from "./history.js";
import { isDark } from "./ink.js";
import { checkRow } from "./checks.js";
import { bindKeys } from "./keys.js";
import { poolGrid } from "./pool_grid.js";
import { queues } from "./queues.js";
import { preemptionCard } from "./preemption.js";
import { recordingDialog, recordingLine } from "./recordings.js";
import { requestPanel } from "./request_panel.js";
import { Store } from "./store.js";
import { summary } from "./summary.js";
import { tokenGrid } from "./token_grid.js";
import { topline } from "./topline.js";
import { prefixTree } from "./tree.js";
import { helpDialog, transport } from "./transport.js";
import { whatIf } from "./what_if.js";
import { useWords } from "./words.js";

const PRESENTER_ZOOM = 1.3; // for a projector

function styled(base) {
  const href = `${base}web/theatre.css`;
  if (document.querySelector(`link[href="${href}"]`)) return Promise.resolve();
  return new Promise((done) => {
    const link = el("link", { rel: "stylesheet", href });
    link.onload = link.onerror = done;
    document.head.append(link);
  });
}

function assemble(root, cursor) {
  const help = helpDialog();
  const [dialog, recorded] = [recordingDialog(cursor), recordingLine(cursor)];
  const [top, status, hello, lists] = [topline(), statusLine(cursor), welcome(cursor, dialog), queues(cursor)];
  const [tokens, pool, history] = [tokenGrid(cursor), poolGrid(cursor), historyBars(cursor)];
  const [request, preemption, events] = [requestPanel(cursor), preemptionCard(cursor), eventPanel(cursor)];
  const [bar, prompt, words, checks] = [transport(cursor, help), promptBar(cursor, dialog), summary(), checkRow(cursor)];
  const panels = [eventLog(cursor), prefixTree(cursor), whatIf(cursor)];
  const stage = el(
    "div",
    { class: "fd-stage" },
    lists.node,
    el("div", { class: "fd-middle" }, tokens.node, pool.node, history.node),
    el("section", { class: "fd-card fd-side" }, request.node, preemption.node, events.node),
  );
  root.replaceChildren(
    top.node,
    status.node,
    recorded.node,
    hello.node,
    stage,
    el("div", { class: "fd-foot" }, bar.node, prompt.node),
    words.line,
    words.policies,
    words.voice,
    ...panels.map((panel) => panel.node),
    checks.node,
    words.details,
    help,
    dialog.node,
  );
  const surfaces = [tokens, pool, history, bar].flatMap((part) => part.surfaces ?? part.surface);
  return {
    views: [
      ...[top, status, recorded, hello, lists, tokens, pool, history],
      ...[request, preemption, events, bar, prompt, words, checks, ...panels],
    ],
    panels,
    surfaces,
    stage,
    bar,
    help,
  };
}

// A link says where to look: a step and a request of the engine's run, or of a recording of this tree.
async function lookAt(cursor, { step, request, recording, run }) {
  if (recording) {
    const opened = await cursor.openShipped(recording);
    if (opened) return cursor.watch(opened, Math.min(run ?? opened.runs.length, opened.runs.length) - 1, step, request);
  }
  if (request !== null) cursor.store.set({ selected: request });
  if (step) cursor.store.set({ follow: false, wanted: step });
  return cursor.feed.refresh();
}

// Called by the page's component once the element exists. `data`: base, tab, step, request, recording, run, present,
// language, words.
export async function mount(root, data) {
  const base = data.base;
  await styled(base);
  useWords(data.words, data.language, data.said);
  const store = new Store();
  const feed = new Feed(store, base, data.tab);
  const cursor = new Cursor(store, feed, base, data.tab);
  const parts = assemble(root, cursor);
  const unbind = bindKeys(cursor, parts.help, parts.panels[0].search);
  const theme = () => (root.dataset.theme = isDark(root) ? "dark" : "light");
  store.subscribe((state) => {
    theme();
    setHidden(parts.stage, !state.frame);
    setHidden(parts.bar.node, !state.frame);
    for (const view of parts.views) view.render(state);
  });
  const redraw = () => store.set({});
  for (const surface of parts.surfaces) surface.watch(redraw);
  const clock = setInterval(redraw, 1000); // a change of theme shows without a new frame
  const leave = () => cursor.leave();
  addEventListener("resize", redraw);
  addEventListener("pagehide", leave);
  root.addEventListener("click", (event) => event.detail && event.target.closest("button")?.blur()); // Space stays "pause"
  theme();
  if (data.present) root.style.zoom = PRESENTER_ZOOM;
  store.set({});
  lookAt(cursor, data);
  return {
    destroy() {
      clearInterval(clock);
      removeEventListener("resize", redraw);
      removeEventListener("pagehide", leave);
      unbind();
      for (const surface of parts.surfaces) surface.close();
      for (const part of [cursor, feed, ...parts.panels]) part.destroy?.();
      store.close();
    },
  };
}
