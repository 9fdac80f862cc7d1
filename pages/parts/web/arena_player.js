// The clock of a replay: race seconds pass at a chosen speed, can be dragged, and end in the full picture.

import { el, setText } from "./dom.js";
import { icon, setIcon } from "./icons.js";
import { t } from "./words.js";

const SPEEDS = [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8];
const WATCH_S = 7; // a whole race should take about this long to watch

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const fitting = (end) => SPEEDS.reduce((best, speed) => (Math.abs(Math.log(end / speed / WATCH_S)) < Math.abs(Math.log(end / best / WATCH_S)) ? speed : best));

export class Player {
  constructor(onMove) {
    this.onMove = onMove;
    this.end = 0;
    this.at = 0;
    this.speed = 1;
    this.playing = false;
    this.last = 0;
    this.tick = (time) => this.advance(time);
  }

  get now() {
    return this.end ? this.at : Infinity;
  }

  get ended() {
    return this.now >= this.end;
  }

  load(end) {
    this.end = end;
    this.speed = fitting(end);
    this.at = calm() ? end : 0;
    this.play(!calm());
  }

  // No race to play: everything that is known is shown.
  free() {
    this.playing = false;
    this.end = 0;
  }

  play(on) {
    if (on && this.ended) this.at = 0;
    const starts = on && !this.playing;
    this.playing = on;
    this.last = 0;
    if (starts) requestAnimationFrame(this.tick);
    this.onMove();
  }

  goto(seconds) {
    this.at = Math.max(0, Math.min(this.end, seconds));
    this.onMove();
  }

  advance(time) {
    if (!this.playing) return;
    const passed = this.last ? Math.min(0.25, (time - this.last) / 1000) : 0;
    this.last = time;
    this.at = Math.min(this.end, this.at + passed * this.speed);
    if (this.ended) this.playing = false;
    else requestAnimationFrame(this.tick);
    this.onMove();
  }
}

// Play, scrub, speed, jump to the end.
export function playBar(player) {
  const words = el("span", {});
  const play = el("button", { type: "button", class: "ar-play", onclick: () => player.play(!player.playing) }, icon("play"), words);
  const range = el("input", { type: "range", min: 0, max: 1000, oninput: () => (player.play(false), player.goto((range.value / 1000) * player.end)) });
  const clock = el("span", { class: "ar-clock" });
  const speed = el("select", { onchange: () => (player.speed = Number(speed.value)) });
  const end = el("button", { type: "button", onclick: () => (player.play(false), player.goto(player.end)) });
  const node = el("div", { class: "ar-band ar-bar" }, play, range, el("div", { class: "ar-line" }, clock, speed, end));

  function take() {
    for (const [input, id] of [[range, "arena.scrub"], [speed, "arena.speed"]]) input.setAttribute("aria-label", t(id));
    setText(end, t("arena.end"));
    speed.replaceChildren(...SPEEDS.map((pace) => el("option", { value: pace }, `${pace}x`)));
  }

  function draw() {
    setText(words, t(player.playing ? "arena.pause" : player.ended ? "arena.again" : "arena.play"));
    setIcon(play.firstChild, player.playing ? "pause" : "play");
    if (document.activeElement !== range || player.playing) range.value = (player.at / player.end) * 1000;
    const time = t("arena.clock", { s: player.at.toFixed(2) });
    range.setAttribute("aria-valuetext", time);
    setText(clock, time);
    speed.value = player.speed;
    end.disabled = player.ended;
  }
  return { node, take, draw };
}
