// The Arena's board: one component, mounted once, told everything by pages/parts/arena/board.py. It draws and plays.

import { checkCard } from "./arena_checks.js";
import { factorCard } from "./arena_factors.js";
import { hero } from "./arena_hero.js";
import { laneCard } from "./arena_lanes.js";
import { latencyCard } from "./arena_latency.js";
import { Player } from "./arena_player.js";
import { el, setHidden } from "./dom.js";
import { isDark } from "./ink.js";
import { useWords } from "./words.js";

function styled(base) {
  return Promise.all(
    ["theatre.css", "arena.css"].map((name) => {
      const href = `${base}web/${name}`;
      if (document.querySelector(`link[href="${href}"]`)) return null;
      return new Promise((done) => {
        const link = el("link", { rel: "stylesheet", href });
        link.onload = link.onerror = done;
        document.head.append(link);
      });
    }),
  );
}

// The end of a race that runs is unknown: its axis grows in steps, so that lanes fill in and do not shrink all the time.
const roomy = (seconds) => 1.4 ** Math.ceil(Math.log(seconds * 1.05) / Math.log(1.4));

class Board {
  constructor(root) {
    this.root = root;
    this.data = null;
    this.player = new Player(() => this.draw());
    const parts = [hero(), laneCard(this.player, () => this.draw()), factorCard(), latencyCard(() => this.draw()), checkCard()];
    this.parts = parts;
    const [top, lanes, factors, latency, checks] = parts;
    this.two = el("div", { class: "ar-two" }, factors.node, latency.node);
    root.replaceChildren(top.node, lanes.node, this.two, checks.node);
    const again = () => this.draw();
    for (const surface of lanes.surfaces()) surface.watch(again);
    this.theme = setInterval(() => this.themed() && this.draw(), 1000);
    this.onResize = again;
    addEventListener("resize", this.onResize);
  }

  themed() {
    const theme = isDark(this.root) ? "dark" : "light";
    const changed = this.root.dataset.theme !== theme;
    this.root.dataset.theme = theme;
    return changed;
  }

  // A message of the page. The same race again changes texts only; another one plays from its start.
  take(data) {
    this.themed();
    const fresh = this.data?.id !== data.id;
    if (data.mode === "live") data = { ...data, axis_s: roomy(data.axis_s) };
    this.data = data;
    for (const part of this.parts) part.take(data);
    this.root.dataset.compact = String(Boolean(data.compact));
    setHidden(this.two, data.mode !== "play" || data.compact);
    if (data.mode !== "play") this.player.free();
    else if (fresh) this.player.load(data.axis_s);
    this.draw();
  }

  draw() {
    if (!this.data) return;
    const now = this.player.now;
    this.root.dataset.phase = this.data.mode === "live" ? "live" : this.player.ended ? "done" : "racing";
    for (const part of this.parts) part.draw(this.data, now);
  }

  destroy() {
    clearInterval(this.theme);
    removeEventListener("resize", this.onResize);
    this.player.free();
    for (const part of this.parts) for (const surface of part.surfaces?.() ?? []) surface.close();
  }
}

// Called by the page's component at each message. `data`: base, words, and the board.
export async function show(root, data) {
  root.newest = data;
  await styled(data.base);
  if (root.newest !== data) return;
  useWords(data.words);
  root.board ??= new Board(root);
  root.board.take(data);
}

export function leave(root) {
  root.newest = null;
  root.board?.destroy();
  root.board = null;
}
