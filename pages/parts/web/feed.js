// The two ways frames arrive: the event stream while following live, single frames while the viewer stands elsewhere.
// The stream stays open in both cases (it also says how the engine is and how far it went) and closes while hidden.

export class Feed {
  constructor(store, base, tab) {
    this.store = store;
    this.base = base;
    this.tab = tab;
    this.stream = null;
    this.asking = false;
    this.onHidden = () => (document.hidden ? this.close() : this.open());
    document.addEventListener("visibilitychange", this.onHidden);
  }

  open() {
    this.close();
    const { follow, selected } = this.store.state;
    const query = new URLSearchParams({
      cursor: follow ? "live" : "held",
      selected: selected ?? "auto",
      tab: this.tab,
    });
    this.stream = new EventSource(`${this.base}live?${query}`);
    this.stream.onmessage = (message) => this.take(JSON.parse(message.data));
    this.stream.onerror = () => this.store.set({ connected: false });
  }

  take(message) {
    const old = this.store.state.engine.run;
    this.store.set({ engine: message.engine, connected: true });
    if (old && message.engine.run !== old && !this.store.state.recording) return this.begin();
    const { follow, frame, wanted } = this.store.state;
    if (message.frame && follow) this.store.set({ frame: message.frame });
    if (!follow && frame?.step !== wanted) this.show(); // a link may lead to a step that comes later
    this.findOwn();
    return undefined;
  }

  // Another run: what was chosen in the last one means nothing here.
  begin() {
    this.store.set({ frame: null, selected: null, marked: [], follow: true, wanted: null });
    this.open();
  }

  // Selects the request that this tab submitted, once it appears.
  findOwn() {
    const { own, frame } = this.store.state;
    const mine = own && frame && [...frame.waiting, ...frame.running].find((request) => request.name === own);
    if (!mine) return;
    this.store.set({ own: "", selected: mine.id });
    this.refresh();
  }

  // Shows the step that is wanted now; while one answer is on its way newer wishes only replace the wish.
  async show() {
    if (this.asking) return;
    this.asking = true;
    try {
      for (let done = null; done !== this.wish();) {
        done = this.wish();
        const { engine, follow, wanted, selected, recording } = this.store.state;
        if (follow || wanted === null || !(recording || wanted <= engine.live_step)) break;
        const name = recording?.name ?? "";
        const query = new URLSearchParams({ step: wanted, selected: selected ?? "auto", recording: name });
        const answer = await fetch(`${this.base}frame?${query}`);
        const frame = answer.ok ? await answer.json() : null;
        if (frame && !this.store.state.follow && name === (this.store.state.recording?.name ?? "")) this.store.set({ frame });
      }
    } catch {
      this.store.set({ connected: false });
    } finally {
      this.asking = false;
    }
  }

  wish() {
    const { follow, wanted, selected, recording } = this.store.state;
    return `${follow} ${wanted} ${selected} ${recording?.name}`;
  }

  // Another request or another tie: the stream is asked anew, and an untied frame too.
  refresh() {
    if (!document.hidden) this.open();
    this.show();
  }

  close() {
    this.stream?.close();
    this.stream = null;
  }

  destroy() {
    document.removeEventListener("visibilitychange", this.onHidden);
    this.close();
  }
}
