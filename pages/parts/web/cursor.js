// The viewer's cursor and the engine's commands behind the transport bar, the keys and the scrubber.
// Pause, resume and step move the engine; back, scrub and replay only move the view.

import { said, t } from "./words.js";

const FASTEST = 60; // steps a second that a replay can show

export class Cursor {
  constructor(store, feed, base, tab) {
    this.store = store;
    this.feed = feed;
    this.base = base;
    this.tab = tab;
    this.timer = 0;
    this.pace = 10; // steps a second of a replay
  }

  get step() {
    const { frame, wanted, follow } = this.store.state;
    return follow || wanted === null ? (frame?.step ?? 0) : wanted;
  }

  // The name of the recording that is shown; empty: the engine's own run.
  get recording() {
    return this.store.state.recording?.name ?? "";
  }

  get last() {
    const { recording } = this.store.state;
    if (recording) return recording.opened.runs[recording.at].steps;
    return this.store.state.engine.live_step ?? this.store.state.frame?.live_step ?? 0;
  }

  get first() {
    return this.store.state.frame?.first_step ?? 1;
  }

  // Moves the view to a step and unties it from the engine.
  goto(step) {
    const tied = this.store.state.follow;
    this.store.set({ follow: false, wanted: Math.max(this.first, Math.min(step, this.last)) });
    if (tied) this.feed.refresh();
    else this.feed.show();
  }

  // A step and a request in it; a negative id leaves the request as it is.
  jump(step, id) {
    this.stopReplay();
    if (id >= 0) this.store.set({ selected: id });
    this.goto(step);
  }

  live() {
    this.stopReplay();
    if (this.store.state.follow) return;
    const left = this.recording ? { recording: null, frame: null, selected: null, marked: [] } : {};
    this.store.set({ follow: true, wanted: null, ...left });
    this.feed.refresh();
  }

  // Shows a run of an opened recording as it was: at one step, or from its first step on.
  watch(opened, at = opened.runs.length - 1, step = null, selected = null) {
    this.stopReplay();
    const { name, first_step: first } = opened.runs[at];
    const place = { follow: false, wanted: step ?? first, frame: null, selected, marked: [] };
    this.store.set({ recording: { name, opened, at }, ...place });
    this.feed.refresh();
    if (step === null) this.replay();
  }

  // Opens a recording of this tree; null, with the reason in the notice, when there is none of that name.
  openShipped(file) {
    return this.command("open", { file });
  }

  move(steps) {
    this.stopReplay();
    this.goto(this.step + steps);
  }

  // One step on: of the view while it is behind the engine, else of the engine itself.
  forward() {
    if (!this.store.state.follow && this.step < this.last) this.move(1);
    else if (this.recording) this.stopReplay();
    else if (this.store.state.engine.paused) this.command("step").then((done) => done && this.live());
    else this.command("pause");
  }

  // Nothing runs and nothing waits: what is left to do is to look at the run again.
  get idle() {
    const { frame, engine, follow } = this.store.state;
    return follow && !engine.paused && frame !== null && frame.waiting_total + frame.running.length === 0;
  }

  toggle() {
    if (this.idle || (!this.store.state.follow && !this.store.state.replaying && this.step >= this.last)) {
      this.goto(this.first);
      return this.replay();
    }
    if (!this.store.state.follow) return this.store.state.replaying ? this.stopReplay() : this.replay();
    return this.command(this.store.state.engine.paused ? "resume" : "pause");
  }

  replay() {
    this.store.set({ replaying: true });
    clearInterval(this.timer);
    this.timer = setInterval(
      () => (this.step >= this.last ? this.stopReplay() : this.goto(this.step + 1)),
      1000 / this.pace,
    );
  }

  stopReplay() {
    clearInterval(this.timer);
    if (this.store.state.replaying) this.store.set({ replaying: false });
  }

  // The speed of what moves: of the engine while it is followed (0: as fast as it can), else of the replay.
  setPace(pace) {
    if (this.store.state.follow && !this.idle) return this.command("pace", { steps_s: pace });
    this.pace = pace || FASTEST;
    if (this.store.state.replaying) this.replay();
    this.store.set({});
  }

  select(id) {
    this.store.set({ selected: id });
    this.feed.refresh();
  }

  // Sends one command to the engine. Returns its answer when it was taken; otherwise shows the reason and returns null.
  command(name, values = {}) {
    return this.ask("command", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ command: name, tab: this.tab, ...values }),
    });
  }

  // Asks the server; null, with the reason in the notice, when it says no.
  async ask(path, options = {}) {
    try {
      const answer = await fetch(this.base + path, options);
      const body = await answer.json();
      this.store.set({ notice: answer.ok ? "" : t(body.error, { ...body, detail: said(body.detail) }) });
      return answer.ok ? body : null;
    } catch {
      this.store.set({ notice: t("notice.no_answer"), connected: false });
      return null;
    }
  }

  // The tab closes or loads anew: the seat is free at once, and not only when it lapses.
  leave() {
    const body = JSON.stringify({ command: "hand_over", tab: this.tab });
    navigator.sendBeacon(`${this.base}command`, new Blob([body], { type: "application/json" }));
  }

  destroy() {
    clearInterval(this.timer);
  }
}
