// What this tab knows and where it looks. Two cursors: the engine's (live) and the viewer's (frame).
//
// `frame` is what is drawn; `follow` ties the viewer to the engine. Views subscribe and are called once per animation
// frame at most, whatever arrives in between: the latest wins.

export class Store {
  constructor() {
    this.state = {
      frame: null,
      engine: { phase: "connecting" },
      follow: true,
      wanted: null, // the step that an untied viewer asked for
      selected: null, // the request the viewer chose; null: the page chooses
      marked: [], // blocks outlined in the pool, chosen in the prefix tree
      replaying: false,
      recording: null, // {name, opened, at}: a recording is shown, and not the engine
      own: "", // name of the request that this tab submitted, until it is seen
      connected: false,
      notice: "",
    };
    this.views = [];
    this.pending = 0;
  }

  set(changes) {
    Object.assign(this.state, changes);
    if (!this.pending) this.pending = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.pending = 0;
    for (const view of this.views) view(this.state);
  }

  subscribe(view) {
    this.views.push(view);
  }

  close() {
    cancelAnimationFrame(this.pending);
    this.views = [];
  }
}
